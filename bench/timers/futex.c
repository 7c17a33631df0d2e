// SPDX-License-Identifier: GPL-2.0
/*
 * Counts how often two threads that clear and set their own timers wait for each other.
 *
 * Each wait, and each attempt to wake a waiter, is a call of futex(2). A seccomp filter sends
 * these calls to a signal handler, which counts each one and then makes it. A filter cannot be
 * removed, so a child process does all this.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "bench.h"

#define FUTEX_THREADS	2U
/* How often each timer is cleared and set again. */
#define ROUNDS		400U
/*
 * The last argument marks a call by the handler. Operations that use this argument take it as a
 * mask.
 */
#define COUNTED		0x74776865U

/**
 * struct waiter - a thread that clears and sets timers
 * @bench: the timers of both threads
 * @barrier: where the threads wait for each other
 * @first: index of the first timer of this thread
 * @nr: number of timers of this thread
 */
struct waiter {
	struct bench *bench;
	pthread_barrier_t *barrier;
	uint32_t first;
	uint32_t nr;
};

static uint64_t futex_calls;
/* True while this thread works. Starting and ending a thread are not counted. */
static __thread bool counts;

static void on_call(int sig, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	int before = errno;
	long ret;

	(void)sig;
	(void)info;
	if (counts)
		__atomic_fetch_add(&futex_calls, 1, __ATOMIC_RELAXED);
	ret = syscall(SYS_futex, regs[REG_RDI], regs[REG_RSI], regs[REG_RDX], regs[REG_R10],
		      regs[REG_R8], COUNTED);
	regs[REG_RAX] = ret < 0 ? -errno : ret;
	errno = before;
}

/* Returns true if calls are counted from now on. */
static bool watch_calls(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_futex, 0, 2),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[5])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, COUNTED, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
	};
	struct sock_fprog program = { .len = ARRAY_SIZE(filter), .filter = filter };
	struct sigaction action = { .sa_sigaction = on_call, .sa_flags = SA_SIGINFO | SA_NODEFER };

	return !sigaction(SIGSYS, &action, NULL) && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void *clear_and_set(void *arg)
{
	struct waiter *w = arg;
	uint64_t when = bench_now() + 3600 * NSEC_PER_SEC;
	unsigned int round;

	pthread_barrier_wait(w->barrier);
	counts = true;
	for (round = 0; round < ROUNDS; round++, when += w->nr * BENCH_STEP)
		w->bench->kind->again(w->bench, w->bench->handle + w->first, w->nr, when);
	counts = false;
	return NULL;
}

/*
 * Returns the number of calls per 1,000 pairs, or a negative number if they cannot be counted
 * here.
 */
static double count_futex(uint32_t n)
{
	struct bench *b = bench_must_open(&bench_libtwheel, n, 0, 0);
	struct waiter waiters[FUTEX_THREADS];
	pthread_t threads[FUTEX_THREADS];
	pthread_barrier_t barrier;
	unsigned int i;

	pthread_barrier_init(&barrier, NULL, FUTEX_THREADS);
	b->kind->arm(b, b->handle, n, bench_now() + 3600 * NSEC_PER_SEC);
	b->kind->settle(b);
	if (!watch_calls())
		return -1;
	for (i = 0; i < FUTEX_THREADS; i++) {
		waiters[i] = (struct waiter) {
			.bench = b,
			.barrier = &barrier,
			.first = i * (n / FUTEX_THREADS),
			.nr = n / FUTEX_THREADS,
		};
		if (pthread_create(&threads[i], NULL, clear_and_set, &waiters[i]))
			bench_die("pthread_create");
	}
	for (i = 0; i < FUTEX_THREADS; i++)
		pthread_join(threads[i], NULL);
	if (b->failed)
		bench_stop("bench: %s: set after clear was refused", b->kind->name);
	return 1000.0 * futex_calls / (ROUNDS * n);
}

/* Measures both threads with @n timers in total. */
void bench_futex(unsigned int reps, uint32_t n)
{
	struct bench_row row = {
		.op = "futex",
		.backend = bench_libtwheel.name,
		.n = n,
		.threads = FUTEX_THREADS,
		.pattern = "again",
		.unit = "per_1000_pairs",
		.checked = "yes",
	};
	double *calls, values[reps];
	unsigned int i;
	pid_t pid;

	if (!bench_wanted(&bench_libtwheel))
		return;
	calls = mmap(NULL, sizeof(*calls), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (calls == MAP_FAILED)
		bench_die("mmap");
	for (i = 0; i < reps; i++) {
		int status;

		fflush(stdout);
		pid = fork();
		if (!pid) {
			*calls = count_futex(n);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			bench_die("futex");
		if (*calls < 0) {
			bench_note("system calls cannot be filtered here");
			break;
		}
		values[i] = *calls;
	}
	if (i == reps)
		bench_row(&row, values, reps);
	munmap(calls, sizeof(*calls));
}
