/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A workaround for a fault of QEMU 7.2, which affects 32-bit programs that exchange 64-bit
 * words.
 *
 * After cmpxchg8b, QEMU computes the flags from a stale record of the instruction that last
 * set them, so an operand of the instruction before may end up in EFLAGS. If an interrupt
 * comes before the next arithmetic instruction, the program returns from it with the trap flag
 * set, and gets a SIGTRAP that nobody asked for.
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

	/* Any other SIGTRAP is intended. */
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
