// SPDX-License-Identifier: GPL-2.0
/* The list of all backends, and functions that open and close one. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"

const struct bench_backend *const bench_backends[] = {
	&bench_store,
	&bench_exchange,
	&bench_called,
	&bench_least,
	&bench_table,
	&bench_libtwheel,
	&bench_libtwheel_mutex,
	&bench_rearm,
	&bench_wheel,
	&bench_wheel_mutex,
	&bench_lazy,
	&bench_lazy_mutex,
	&bench_heap,
	&bench_heap_mutex,
	&bench_libev,
	&bench_libev_mutex,
	&bench_libevent,
	&bench_libevent_mutex,
	&bench_libuv,
	&bench_libuv_mutex,
	&bench_timerfd,
	&bench_posix,
	&bench_io_uring,
	&bench_io_uring_mutex,
	&bench_tokio,
	&bench_go,
};

const unsigned int bench_nr_backends = ARRAY_SIZE(bench_backends);

/* The backends to measure; NULL for all. */
const char *bench_only;

/* True if @name is in @list, which is separated by commas. */
bool bench_is_listed(const char *list, const char *name)
{
	size_t len = strlen(name);

	for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL) {
		if (!strncmp(list, name, len) && (!list[len] || list[len] == ','))
			return true;
	}
	return false;
}

/* Returns NULL if this machine cannot hold these timers. */
struct bench *bench_open(const struct bench_backend *kind, uint32_t n, uint64_t slack,
			 uint64_t tick)
{
	struct bench *b = bench_alloc(1, sizeof(*b));

	b->kind = kind;
	b->n = n;
	b->usable = n;
	b->threads = 1;
	b->slack = slack;
	b->tick = tick;
	b->handle = bench_alloc(n + BENCH_SPARE, sizeof(*b->handle));
	pthread_mutex_init(&b->mutex, NULL);
	if (kind->locked)
		b->lock = &b->mutex;
	if (kind->open(b)) {
		free(b->handle);
		free(b);
		return NULL;
	}
	return b;
}

struct bench *bench_must_open(const struct bench_backend *kind, uint32_t n, uint64_t slack,
			      uint64_t tick)
{
	struct bench *b = bench_open(kind, n, slack, tick);

	if (!b)
		bench_die(kind->name);
	return b;
}

/* Returns @n, or the number of timers that this backend can hold here if that is lower. */
uint32_t bench_fit(const struct bench_backend *kind, uint32_t n)
{
	uint32_t most = kind->limit ? kind->limit() : kind->max_n;

	if (most > kind->max_n)
		most = kind->max_n;
	return n < most ? n : most;
}

/* Returns the CPU time of the operations so far. */
uint64_t bench_cpu(struct bench *b)
{
	return b->kind->cpu ? b->kind->cpu(b) : bench_thread_cpu();
}

void bench_close(struct bench *b)
{
	if (b->failed)
		bench_note("%s: %llu operations with %u timers were refused", b->kind->name,
			   (unsigned long long)b->failed, b->n);
	b->kind->close(b);
	pthread_mutex_destroy(&b->mutex);
	free(b->handle);
	free(b);
}
