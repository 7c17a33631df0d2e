// SPDX-License-Identifier: GPL-2.0
/*
 * Names that are resolved in threads: answers, requests that are canceled at any moment, and a
 * name server that hangs. The test supplies getaddrinfo() and freeaddrinfo().
 */
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "redis/resolve.h"
#include "tap.h"

#define THREADS_MAX	64
#define TURNS	2000

/* Resolving "slow" waits for this. */
static sem_t answer;
static atomic_int made, freed;

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
		struct addrinfo **res)
{
	bool address = !strcmp(node, "10.0.0.1");

	(void)service;
	if (hints->ai_flags & AI_NUMERICHOST && !address)
		return EAI_NONAME;
	if (!strcmp(node, "slow"))
		sem_wait(&answer);
	if (!strcmp(node, "unknown"))
		return EAI_NONAME;
	*res = calloc(1, sizeof(**res));
	made++;
	return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
	free(list);
	freed++;
}

static bool answered(const struct resolve *r, int ms)
{
	struct pollfd p = { .fd = resolve_fd(r), .events = POLLIN };

	return poll(&p, 1, ms) == 1;
}

static bool all_freed(int count)
{
	for (int i = 0; i < 1000; i++) {
		if (made == count && freed == count)
			return true;
		poll(NULL, 0, 5);
	}
	return false;
}

static void one_answer(void)
{
	struct resolve *r = resolve_start("name", 1);

	ok(r && answered(r, 5000), "a name is answered");
	ok(resolve_list(r), "the answer has addresses");
	resolve_free(r);
	ok(all_freed(1), "the addresses are freed");
	r = resolve_start("unknown", 1);
	ok(r && answered(r, 5000) && !resolve_list(r), "a name that nobody knows has none");
	is_text(resolve_why(r), gai_strerror(EAI_NONAME), "an unknown name has a reason");
	resolve_free(r);
	resolve_free(NULL);
}

static void given_up(void)
{
	struct resolve *r = resolve_start("slow", 1);

	ok(r && !answered(r, 20), "a name server takes its time");
	resolve_free(r);
	sem_post(&answer);
	ok(all_freed(2), "the thread frees what nobody waits for");
}

static void at_any_moment(void)
{
	int before = made, started = 0;

	for (int i = 0; i < TURNS; i++) {
		struct resolve *r = resolve_start("name", 1);

		started += !!r;
		for (int n = i % 7; n; n--)
			sched_yield();
		if (r && i % 3 == 0 && answered(r, 5000) && !resolve_list(r))
			ok(false, "an answer without addresses");
		resolve_free(r);
	}
	ok(started > TURNS / 3, "%d of %d questions began", started, TURNS);
	ok(all_freed(before + started), "each answer is freed once");
}

static void server_hangs(void)
{
	int before = made;
	unsigned int count = 0;
	struct resolve *r;

	while (count <= THREADS_MAX && (r = resolve_start("slow", 1))) {
		resolve_free(r);
		count++;
	}
	is_number(count, THREADS_MAX, "only this many threads wait for a name server");
	r = resolve_start("10.0.0.1", 1);
	ok(r && answered(r, 0) && resolve_list(r), "an address needs none");
	resolve_free(r);
	for (unsigned int i = 0; i < count; i++)
		sem_post(&answer);
	ok(all_freed(before + (int)count + 1), "all threads end when the name server answers");
	for (int i = 0; i < 1000 && !(r = resolve_start("name", 1)); i++)
		poll(NULL, 0, 5);
	ok(r && answered(r, 5000), "names are resolved again afterwards");
	resolve_free(r);
}

int main(void)
{
	sem_init(&answer, 0, 0);
	one_answer();
	given_up();
	at_any_moment();
	server_hangs();
	return tap_end();
}
