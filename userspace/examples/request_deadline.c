// SPDX-License-Identifier: GPL-2.0
/*
 * How does a server give up requests that take too long?
 *
 * The server adds a timer for each request and deletes it with the answer. Nearly all are
 * deleted before they expire, so what matters is the cost of adding and deleting: an exchange
 * of a word in memory for each, and one system call for some thousands of them. If
 * twheel_del() returns 1, no event will come, and the answer is in time. If it returns 0, the
 * loop has read the event and given the request up already.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libtwheel.h>

#define REQUESTS	200000
#define AT_A_TIME	100
/* One request of this many is never answered. */
#define LOST_EVERY	5000
#define DEADLINE_NS	50000000ULL

struct request {
	uint64_t timer;
	bool open;
	bool lost;
};

struct server {
	struct twheel *wheel;
	struct request request[AT_A_TIME];
	unsigned int answered;
	unsigned int given_up;
	unsigned int early;
};

static void die(const char *what, int err)
{
	fprintf(stderr, "request_deadline: %s: %s\n", what, strerror(-err));
	exit(1);
}

static void begin(struct server *s, struct request *r, bool lost)
{
	int err;

	/* user_data leads from the event back to the request. */
	err = twheel_add(s->wheel, twheel_after(s->wheel, DEADLINE_NS), (uintptr_t)r, &r->timer);
	if (err)
		die("add", err);
	r->open = true;
	r->lost = lost;
}

static void answer(struct server *s, struct request *r)
{
	int in_time = twheel_del(s->wheel, r->timer);

	if (in_time < 0)
		die("del", in_time);
	/* 0 means that the request was given up before, so this answer is too late. */
	s->answered += in_time;
	r->open = false;
}

/* Gives up the requests whose deadline has passed. */
static void read_wheel(struct server *s)
{
	struct twheel_event events[64];
	int i, count = twheel_read(s->wheel, events, 64);

	if (count < 0)
		die("read", count);
	for (i = 0; i < count; i++) {
		struct request *r = (struct request *)(uintptr_t)events[i].user_data;

		s->given_up++;
		s->early += twheel_now(s->wheel) < events[i].deadline_ns;
		answer(s, r);
	}
}

/*
 * Returns a place for another request. Answers the request that is there, unless that is a lost
 * one.
 */
static struct request *next_place(struct server *s, unsigned int *place)
{
	struct request *r;

	do {
		r = &s->request[(*place)++ % AT_A_TIME];
	} while (r->open && r->lost);
	if (r->open)
		answer(s, r);
	return r;
}

int main(void)
{
	struct twheel_usage usage = { .size = sizeof(usage) };
	static struct server s;
	unsigned int place = 0, i;
	int err;

	err = twheel_open(&s.wheel, NULL);
	if (err)
		die("open", err);
	for (i = 0; i < REQUESTS; i++) {
		begin(&s, next_place(&s, &place), i % LOST_EVERY == LOST_EVERY - 1);
		if (!(i % AT_A_TIME))
			read_wheel(&s);
	}
	for (i = 0; i < AT_A_TIME; i++) {
		if (s.request[i].open && !s.request[i].lost)
			answer(&s, &s.request[i]);
	}
	while (s.answered + s.given_up < REQUESTS) {
		err = twheel_wait(s.wheel, -1);
		if (err < 0)
			die("wait", err);
		read_wheel(&s);
	}
	err = twheel_usage(s.wheel, &usage);
	if (err)
		die("usage", err);
	printf("%u requests answered, %u given up; %s wheel, %llu calls of the wheel for the timeouts\n",
	       s.answered, s.given_up, twheel_backend(s.wheel),
	       (unsigned long long)(usage.kicks + usage.refills + usage.withdrawn));
	twheel_close(s.wheel);
	/* On a slow machine, other requests may pass their deadline as well. */
	return s.given_up >= REQUESTS / LOST_EVERY && !s.early ? 0 : 1;
}
