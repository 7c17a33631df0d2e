/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connections that send heartbeats, and some that fall silent.
 *
 * The one workload that twheel is for: n connections, a heartbeat of each every
 * 5 s, and one that is silent for 30 s is to be kicked, 1 s later at the latest.
 */
#ifndef HEARTBEAT_H
#define HEARTBEAT_H

#include "bench.h"

/**
 * struct heartbeat - the workload
 * @kind: who holds the timeouts; NULL: nobody, which is what the rest costs
 * @n: how many connections
 * @threads: how many threads that share them; the first delivers for all
 * @compress: by what all times are divided
 * @cpu: the CPU time in ns so far, of all that shall be counted
 * @cpu_ns: out: what it took
 * @beats: out: how many heartbeats there were
 * @kicked: out: how many connections fell silent and were kicked for it
 * @late_ns: out: the latest of those
 * @behind_ns: out: by how much the generator was behind its own time at worst
 * @bad: out: what was wrong, or NULL
 */
struct heartbeat {
	const struct bench_backend *kind;
	uint32_t n;
	unsigned int threads;
	unsigned int compress;
	uint64_t (*cpu)(void);
	uint64_t cpu_ns;
	uint64_t beats;
	uint32_t kicked;
	uint64_t late_ns;
	uint64_t behind_ns;
	const char *bad;
};

int heartbeat_run(struct heartbeat *h);
unsigned int heartbeat_compress(uint32_t n, unsigned int threads);

void bench_heartbeat(uint32_t n, uint32_t before, unsigned int reps, bool few);

#endif /* HEARTBEAT_H */
