// SPDX-License-Identifier: GPL-2.0
/*
 * How can several loops share one wheel?
 *
 * A loop per thread and a wheel per thread is simpler, and as fast. Where one wheel is
 * shared all the same, three rules do:
 *
 *   - One thread reads. It hands each event to the loop that owns the connection, and
 *     decides nothing itself.
 *   - Only the owner adds, sets and deletes the timer of a connection. So none of this
 *     takes a lock.
 *   - Only the owner frees the connection. So no event can name freed memory: it
 *     carries numbers, and the owner looks them up.
 *
 * Between the read and the owner, the owner can move the timer or close the connection.
 * Then the event is stale. The owner sees it by comparing: a closed connection has no
 * such id, as ids are not given twice; a moved timer has another deadline.
 *
 * An answer of 0 of twheel_set() or twheel_del() means that an event of the timer has
 * been read. So there are as many such answers as events, and this program counts both.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <libtwheel.h>

#define LOOPS		3
#define CONNECTIONS	50
#define TURNS		200
#define MSEC		1000000ULL
/* So short that much expires while the owner moves it. */
#define SILENCE_NS	(5 * MSEC)

/* In user_data: who owns the timer, and which connection it is. */
#define OWNER(user_data)	((unsigned int)((user_data) >> 32))
#define PLACE(user_data)	((uint32_t)(user_data))
/* An owner that is no loop. */
#define MAIN		LOOPS

struct conn {
	/* Id of its timer, 0 if there is no such connection. */
	uint64_t timer;
	uint64_t deadline;
};

struct loop {
	pthread_t thread;
	unsigned int number;
	unsigned int seed;
	struct conn conn[CONNECTIONS];
	unsigned int open;

	/* Events that the reader has for it, and the descriptor that says so. */
	pthread_mutex_t lock;
	struct twheel_event *inbox;
	unsigned int count;
	unsigned int room;
	int bell;

	unsigned int opened;
	unsigned int closed;
	unsigned int silent;
	unsigned int stale_closed;
	unsigned int stale_moved;
	/* Answers of 0. */
	unsigned int read_before;
};

static struct twheel *wheel;
static struct loop loops[LOOPS];
static atomic_bool stop_reading;
static atomic_bool main_has_expired;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* The library returns a negative errno. */
static int check(const char *what, int ret)
{
	if (ret >= 0)
		return ret;
	fprintf(stderr, "threads: %s: %s\n", what, strerror(-ret));
	exit(1);
}

/* ---- The reader ---- */

static void hand_over(struct loop *l, const struct twheel_event *event)
{
	uint64_t one = 1;

	pthread_mutex_lock(&l->lock);
	if (l->count == l->room) {
		l->room = l->room ? 2 * l->room : 64;
		l->inbox = realloc(l->inbox, l->room * sizeof(*l->inbox));
		if (!l->inbox)
			die("memory");
	}
	l->inbox[l->count++] = *event;
	pthread_mutex_unlock(&l->lock);
	if (write(l->bell, &one, sizeof(one)) != sizeof(one))
		die("eventfd");
}

/* Sleeps until there is an event, whoever has armed it. Returns how many there were. */
static void *run_reader(void *arg)
{
	unsigned int *total = arg;
	struct twheel_event events[64];
	int i, count;

	do {
		check("wait", twheel_wait(wheel, -1));
		while ((count = check("read", twheel_read(wheel, events, 64)))) {
			*total += count;
			for (i = 0; i < count; i++) {
				if (OWNER(events[i].user_data) == MAIN)
					atomic_store(&main_has_expired, true);
				else
					hand_over(&loops[OWNER(events[i].user_data)], &events[i]);
			}
		}
		/* twheel_wake() has ended the wait, with nothing to read. */
	} while (!atomic_load(&stop_reading));
	return NULL;
}

/* ---- A loop ---- */

static void open_connection(struct loop *l, struct conn *c)
{
	uint64_t user_data = (uint64_t)l->number << 32 | (c - l->conn);

	c->deadline = twheel_after(wheel, SILENCE_NS);
	check("add", twheel_add(wheel, c->deadline, user_data, &c->timer));
	l->opened++;
	l->open++;
}

static void close_connection(struct loop *l, struct conn *c)
{
	if (!check("del", twheel_del(wheel, c->timer)))
		l->read_before++;
	c->timer = 0;
	l->open--;
}

static void hear(struct loop *l, struct conn *c)
{
	c->deadline = twheel_after(wheel, SILENCE_NS);
	if (!check("set", twheel_set(wheel, c->timer, c->deadline)))
		l->read_before++;
}

static void handle(struct loop *l, const struct twheel_event *event)
{
	struct conn *c = &l->conn[PLACE(event->user_data)];

	if (c->timer != event->id) {
		/* It was closed. Another may have its place, with another id. */
		l->stale_closed++;
	} else if (c->deadline != event->deadline_ns) {
		/* It was heard of since, and is armed. */
		l->stale_moved++;
	} else {
		l->silent++;
		close_connection(l, c);
	}
}

/* Takes what is in the inbox, and handles it without the lock. */
static void read_inbox(struct loop *l)
{
	struct twheel_event *events;
	unsigned int count, i;

	pthread_mutex_lock(&l->lock);
	events = l->inbox;
	count = l->count;
	l->inbox = NULL;
	l->count = 0;
	l->room = 0;
	pthread_mutex_unlock(&l->lock);
	for (i = 0; i < count; i++)
		handle(l, &events[i]);
	free(events);
}

/* Plays the network: some clients talk, some go, some come. */
static void traffic(struct loop *l)
{
	struct conn *c;

	for (c = l->conn; c < l->conn + CONNECTIONS; c++) {
		int dice = rand_r(&l->seed) % 16;

		if (!c->timer) {
			if (dice < 8)
				open_connection(l, c);
		} else if (dice < 4) {
			hear(l, c);
		} else if (dice < 5) {
			close_connection(l, c);
			l->closed++;
		}
	}
}

static void *run_loop(void *arg)
{
	struct loop *l = arg;
	struct pollfd bell = { .fd = l->bell, .events = POLLIN };
	unsigned int turn;
	uint64_t rings;

	/* No traffic at the end: the rest falls silent. */
	for (turn = 0; turn < TURNS || l->open; turn++) {
		int ready = poll(&bell, 1, turn < TURNS ? 1 : -1);

		if (ready < 0)
			die("poll");
		if (turn < TURNS)
			traffic(l);
		if (ready && read(l->bell, &rings, sizeof(rings)) != sizeof(rings))
			die("eventfd");
		if (ready)
			read_inbox(l);
	}
	return NULL;
}

/* ---- The program ---- */

static void start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
	check("pthread_create", -pthread_create(thread, NULL, run, arg));
}

/*
 * A deadline that one thread sets wakes another. The thread that set it calls nothing
 * of the library after that, and sleeps for longer.
 */
static bool wake_the_reader(void)
{
	struct timespec reader_sleeps = { .tv_nsec = 50 * MSEC };
	struct timespec longer = { .tv_sec = 1 };
	uint64_t id;
	bool woken;

	nanosleep(&reader_sleeps, NULL);
	check("add", twheel_add(wheel, twheel_after(wheel, 100 * MSEC), (uint64_t)MAIN << 32, &id));
	nanosleep(&longer, NULL);
	woken = atomic_load(&main_has_expired);
	printf("the reader has%s woken for the deadline of a thread that still sleeps\n",
	       woken ? "" : " not");
	return check("del", twheel_del(wheel, id)) == 0 && woken;
}

int main(void)
{
	unsigned int opened = 0, closed = 0, silent = 0, moved = 0, gone = 0;
	/* That of main() is one. */
	unsigned int events = 0, answers = 1;
	pthread_t reader;
	unsigned int i;
	bool right;

	check("open", twheel_open(&wheel, NULL));
	start(&reader, run_reader, &events);
	right = wake_the_reader();

	for (i = 0; i < LOOPS; i++) {
		struct loop *l = &loops[i];

		l->number = i;
		l->seed = i + 1;
		pthread_mutex_init(&l->lock, NULL);
		l->bell = eventfd(0, EFD_CLOEXEC);
		if (l->bell < 0)
			die("eventfd");
	}
	for (i = 0; i < LOOPS; i++)
		start(&loops[i].thread, run_loop, &loops[i]);
	for (i = 0; i < LOOPS; i++)
		pthread_join(loops[i].thread, NULL);

	/* Nothing is armed any more, so only this ends the wait of the reader. */
	atomic_store(&stop_reading, true);
	check("wake", twheel_wake(wheel));
	pthread_join(reader, NULL);

	for (i = 0; i < LOOPS; i++) {
		struct loop *l = &loops[i];

		/* The last messages were from connections that are closed. */
		read_inbox(l);
		opened += l->opened;
		closed += l->closed;
		silent += l->silent;
		moved += l->stale_moved;
		gone += l->stale_closed;
		answers += l->read_before;
		close(l->bell);
	}
	twheel_close(wheel);
	printf("%u connections: %u closed, %u fell silent\n", opened, closed, silent);
	printf("%u events: %u of a moved timer and %u of a closed connection were passed over\n",
	       events, moved, gone);
	printf("%u answers said that an event had been read\n", answers);
	right = right && opened == closed + silent && events == answers &&
		events == 1 + silent + moved + gone;
	puts(right ? "each connection ended once" : "this cannot happen");
	return right ? 0 : 1;
}
