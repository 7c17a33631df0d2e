/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interfaces between the parts of vm_bench, in addition to bench.h:
 *
 *   vm_main.c		the command line
 *   vm_row.c		rows, the choice of backends, and the CPU time of all processors
 *   vm_wheel.c		/dev/twheel without the library: single ioctls, batches, KICK
 *   vm_create.c	measures creating and ending a timer
 *   vm_expire.c	measures the total cost of expirations, and their lateness
 *   vm_memory.c	measures the memory of an armed timer
 *   vm_heartbeat.c	measures connections that send heartbeats
 *   vm_quiet.c		measures an idle wheel, and a million timers at one instant
 *   vm_native.c	measures each operation in native code, in user-mode Linux
 */
#ifndef VM_BENCH_H
#define VM_BENCH_H

#include <linux/twheel.h>

#include "bench.h"

/* Number of operations in a batch. */
#define VM_BATCH	256U
/* Deadlines this far in the future do not expire during a measurement. */
#define VM_FAR		(3600 * NSEC_PER_SEC)

extern const struct bench_backend vm_twheel, vm_batch, vm_kick;

int vm_wheel(uint32_t max_timers, uint64_t tick_ns);
void vm_do(int fd, struct twheel_op *ops, unsigned int nr);
struct twheel_stats vm_stats(int fd);
uint64_t vm_all_cpu(void);

extern const char *vm_only;
void vm_leave_out(const char *backend);
bool vm_wanted(const char *backend);
void vm_rows(const char *op, const char *backend, uint32_t n, const char *pattern,
	     const char *unit, double *values, unsigned int reps);

void vm_create(unsigned int reps);
void vm_expire(unsigned int reps);
void vm_memory(void);
void vm_idle(unsigned int reps);
void vm_storm(unsigned int reps);
void vm_heartbeat(unsigned int reps);
void vm_native(unsigned int reps, double call_ns);
void vm_host(unsigned int reps);

#endif /* VM_BENCH_H */
