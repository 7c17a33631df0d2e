// SPDX-License-Identifier: GPL-2.0
/*
 * Measures a turn of a loop in which 64 of N connections are ready and the timeout of each is
 * moved.
 *
 * A connection is an object of 256 bytes at a random place in memory, and contains the id of its
 * timer or the node of a private wheel. The server accesses the object in any case. The ways to
 * move timers take turns, round by round, with the same connections. A row contains the cost that
 * a move adds to a connection.
 */
#include <stdlib.h>
#include <string.h>

#include "twheel.h"
#include "internal.h"
#undef NSEC_PER_SEC
#include "bench.h"

/* Connections that are ready in a turn. */
#define READY	64U
/* Turns in a round, and rounds in a repetition. */
#define TURNS	200U
#define ROUNDS	15U
/* The number of words that are prefetched before the first of them is exchanged. */
#define AHEAD	16U
#define TIMEOUT	(3600 * NSEC_PER_SEC)

enum way { NONE, MANY, SINGLE, EXCHANGE, WHEEL, WAYS };

static const char *const way_name[] = {
	"none", "libtwheel", "libtwheel+single", "exchange", "wheel",
};

/**
 * struct connection - a connection of the server
 * @bytes: number of bytes received
 * @id: the id of its timer
 * @word: the word of that timer
 * @node: its timer in the private wheel
 * @deadline: the deadline of the latter
 * @rest: stands for buffers, names and so on
 */
struct connection {
	uint64_t bytes;
	uint64_t id;
	struct twheel_slot *word;
	struct wheel_node node;
	uint64_t deadline;
	char rest[256 - 32 - sizeof(struct wheel_node)];
};

/**
 * struct server - a server and its timers
 * @connections: its connections
 * @n: number of connections
 * @lib: the timers of libtwheel
 * @words: the same timers as bare words
 * @wheel: the private wheel
 * @mem: its buckets
 * @when: the last deadline
 * @ns: the cost of a ready connection, by way and round
 */
struct server {
	struct connection *connections;
	uint32_t n;
	struct bench *lib;
	struct bench *words;
	struct wheel wheel;
	void *mem;
	uint64_t when;
	double ns[WAYS][ROUNDS];
};

static void open_server(struct server *s, uint32_t n)
{
	struct wheel_shape shape = { .shift = 19, .slot_bits = 6 };
	uint32_t *order = bench_alloc(n, sizeof(*order));
	uint32_t i;

	*s = (struct server) { .n = n, .when = bench_now() + TIMEOUT };
	s->lib = bench_open(&bench_libtwheel, n, 0, 0);
	s->words = bench_open(&bench_exchange, n, 0, 0);
	if (!s->lib || !s->words)
		bench_die("bench_open");
	s->lib->kind->arm(s->lib, s->lib->handle, n, s->when);
	s->lib->kind->settle(s->lib);
	shape.levels = wheel_max_levels(shape.shift, shape.slot_bits);
	s->mem = bench_alloc(1, wheel_bytes(&shape));
	wheel_init(&s->wheel, &shape, s->mem, bench_now(), NULL, NULL);
	s->connections = aligned_alloc(sizeof(*s->connections), n * sizeof(*s->connections));
	if (!s->connections)
		bench_die("aligned_alloc");
	memset(s->connections, 0, n * sizeof(*s->connections));
	for (i = 0; i < n; i++)
		order[i] = i;
	/* As in a server whose connections come and go, the timers are in another order. */
	bench_shuffle(order, n);
	for (i = 0; i < n; i++) {
		struct connection *c = &s->connections[i];

		c->id = s->lib->handle[order[i]];
		c->word = (void *)(uintptr_t)s->words->handle[order[i]];
	}
	for (i = 0; i < n; i++) {
		struct connection *c = &s->connections[order[i]];

		c->deadline = s->when + i * BENCH_STEP;
		wheel_add(&s->wheel, &c->node, 0, c->deadline, 0);
	}
	s->when += n * BENCH_STEP;
	free(order);
}

static void close_server(struct server *s)
{
	bench_close(s->words);
	bench_close(s->lib);
	free(s->connections);
	free(s->mem);
}

static void exchange_ahead(struct connection *const *ready, uint64_t when)
{
	struct twheel_slot *words[READY];
	unsigned int i, j;

	for (i = 0; i < READY; i++)
		words[i] = ready[i]->word;
	for (i = 0; i < READY; i += AHEAD) {
		for (j = i; j < i + AHEAD; j++)
			__builtin_prefetch(words[j], 1);
		for (j = i; j < i + AHEAD; j++)
			__atomic_exchange_n(&words[j]->deadline_ns, when, __ATOMIC_SEQ_CST);
	}
}

static inline __attribute__((always_inline)) void turn(struct server *s, enum way way)
{
	struct twheel *wheel = bench_wheel_of(s->lib);
	struct connection *ready[READY];
	uint64_t ids[READY], when = s->when += NSEC_PER_MSEC;
	unsigned int i;

	for (i = 0; i < READY; i++)
		ready[i] = &s->connections[bench_random() % s->n];
	for (i = 0; i < READY; i++) {
		struct connection *c = ready[i];

		c->bytes++;
		if (way == MANY)
			ids[i] = c->id;
		if (way == SINGLE)
			twheel_set(wheel, c->id, when);
		if (way == WHEEL) {
			wheel_del(&s->wheel, &c->node);
			c->deadline = when;
			wheel_add(&s->wheel, &c->node, 0, when, 0);
		}
	}
	if (way == MANY && twheel_set_many(wheel, ids, READY, when) != (int)READY)
		s->lib->failed++;
	if (way == EXCHANGE)
		exchange_ahead(ready, when);
}

/* Each way has its own loop, so that no branch for the way is measured. */
#define TURN_LOOP(name, way)						\
static noinline void name(struct server *s)		\
{									\
	unsigned int i;							\
									\
	for (i = 0; i < TURNS; i++)					\
		turn(s, way);						\
}

TURN_LOOP(turn_none, NONE)
TURN_LOOP(turn_many, MANY)
TURN_LOOP(turn_single, SINGLE)
TURN_LOOP(turn_exchange, EXCHANGE)
TURN_LOOP(turn_wheel, WHEEL)

static void (*const turns[])(struct server *s) = {
	turn_none, turn_many, turn_single, turn_exchange, turn_wheel,
};

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Stores the medians of the rounds. */
static void repeat(struct server *s, double *ns)
{
	uint32_t order[WAYS];
	unsigned int round, i;
	uint64_t cpu;

	for (i = 0; i < WAYS; i++)
		order[i] = i;
	for (round = 0; round < ROUNDS; round++) {
		bench_shuffle(order, WAYS);
		for (i = 0; i < WAYS; i++) {
			cpu = bench_thread_cpu();
			turns[order[i]](s);
			s->ns[order[i]][round] =
				(double)(bench_thread_cpu() - cpu) / TURNS / READY;
		}
	}
	for (i = 0; i < WAYS; i++) {
		qsort(s->ns[i], ROUNDS, sizeof(double), compare);
		ns[i] = s->ns[i][ROUNDS / 2];
	}
}

/* Measures the cost of a move in a turn of a loop, by way, and of the loop alone as "none". */
void bench_turn(uint32_t n, unsigned int reps)
{
	double (*ns)[WAYS] = bench_alloc(reps, sizeof(*ns));
	double *values = bench_alloc(reps, sizeof(*values));
	static struct server s;
	unsigned int rep, way;

	if (!bench_wanted(&bench_libtwheel) || !bench_wanted(&bench_exchange))
		return;
	open_server(&s, n);
	/* The first one warms up the caches. */
	repeat(&s, ns[0]);
	for (rep = 0; rep < reps; rep++)
		repeat(&s, ns[rep]);
	for (way = 0; way < WAYS; way++) {
		struct bench_row row = {
			.op = "turn",
			.backend = way_name[way],
			.n = n,
			.threads = 1,
			.pattern = "random",
			.unit = "ns",
			.checked = s.lib->failed ? "no" : "yes",
		};

		for (rep = 0; rep < reps; rep++)
			values[rep] = ns[rep][way] - (way == NONE ? 0 : ns[rep][NONE]);
		bench_row(&row, values, reps);
	}
	close_server(&s);
	free(values);
	free(ns);
}
