/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the parts of vm_bench share, beside bench.h.
 *
 *   vm_main.c		the command line
 *   vm_row.c		rows, of which backends; the CPU time of all processors
 *   vm_wheel.c		/dev/twheel by hand: one by one, in batches, by KICK
 *   vm_create.c	what it costs to make a timer and to end it
 *   vm_expire.c	what expiring costs, all in, and how late it is
 *   vm_memory.c	what an armed timer takes of memory
 *   vm_heartbeat.c	connections that send heartbeats
 *   vm_quiet.c		an idle wheel, and a million timers at one instant
 *   vm_native.c	what each operation costs in native code, in user-mode Linux
 */
#ifndef VM_BENCH_H
#define VM_BENCH_H

#include <linux/twheel.h>

#include "bench.h"

/* Operations of a batch. */
#define VM_BATCH	256U
/* Far enough that nothing expires meanwhile. */
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
