/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Connections that send heartbeats, some of which fall silent.
 *
 * This is the workload that twheel is made for: each of n connections sends a heartbeat every 5 s,
 * and a connection that is silent for 30 s must be dropped within another second.
 */
#ifndef HEARTBEAT_H
#define HEARTBEAT_H

#include "bench.h"

/**
 * struct heartbeat - the workload
 * @kind: the backend that holds the timeouts; NULL to measure the generator alone
 * @n: number of connections
 * @threads: number of threads that share the connections; the first one delivers all expirations
 * @compress: the divisor of all times
 * @cpu: returns the CPU time so far in ns
 * @cpu_ns: out: the CPU time of the workload
 * @beats: out: number of heartbeats
 * @dropped: out: number of silent connections that were dropped
 * @late_ns: out: the worst lateness of a drop
 * @behind_ns: out: by how much the generator was late at worst
 * @bad: out: a description of what went wrong, or NULL
 */
struct heartbeat {
	const struct bench_backend *kind;
	uint32_t n;
	unsigned int threads;
	unsigned int compress;
	uint64_t (*cpu)(void);
	uint64_t cpu_ns;
	uint64_t beats;
	uint32_t dropped;
	uint64_t late_ns;
	uint64_t behind_ns;
	const char *bad;
};

int heartbeat_run(struct heartbeat *h);
unsigned int heartbeat_compress(uint32_t n, unsigned int threads);

void bench_heartbeat(uint32_t n, uint32_t before, unsigned int reps, bool few);

#endif /* HEARTBEAT_H */
