/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What an emulated machine does to 32-bit programs that exchange words of 64
 * bits.
 *
 * QEMU 7.2 computes the flags that cmpxchg8b leaves from a stale note of what
 * set them last: an operand of the instruction before it may become EFLAGS as it
 * is. If an interrupt comes before the next arithmetic, the program returns from
 * it with the trap flag set, and gets a SIGTRAP that nobody has asked for.
 */
#ifndef EMULATED_H
#define EMULATED_H

#ifdef __i386__

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <ucontext.h>

#define EFLAGS_TF	0x100

static void on_trap(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	/* Any other is meant. */
	if (info->si_code == TRAP_TRACE && uc->uc_mcontext.gregs[REG_EFL] & EFLAGS_TF)
		uc->uc_mcontext.gregs[REG_EFL] &= ~EFLAGS_TF;
	else
		signal(sig, SIG_DFL);
}

__attribute__((constructor)) static void ignore_stray_traps(void)
{
	struct sigaction sa = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_RESTART };

	sigaction(SIGTRAP, &sa, NULL);
}

#endif /* __i386__ */

#endif /* EMULATED_H */
