/* SPDX-License-Identifier: GPL-2.0 */
/* Which processors may map the table. */
#ifndef _TWHEEL_EXCHANGE_H
#define _TWHEEL_EXCHANGE_H

#include <linux/kconfig.h>
#include <linux/types.h>

#if defined(CONFIG_ARM64) || defined(CONFIG_RISCV)
#include <asm/cpufeature.h>
#endif

/*
 * True if cmpxchg64() of a word takes a bounded time even while another CPU stores to the word. If
 * it is a loop of load-linked and store-conditional, as on PowerPC, LoongArch and Alpha, user space
 * could keep the kernel in that loop for ever, while it holds the lock of the wheel.
 */
static inline bool exchanges_are_bounded(void)
{
#if defined(CONFIG_ARM64)
	return cpus_have_cap(ARM64_HAS_LSE_ATOMICS);
#elif defined(CONFIG_RISCV_ISA_ZACAS) && defined(CONFIG_TOOLCHAIN_HAS_ZACAS)
	return riscv_has_extension_unlikely(RISCV_ISA_EXT_ZACAS);
#else
	return IS_ENABLED(CONFIG_X86_64) || IS_ENABLED(CONFIG_S390);
#endif
}

#endif /* _TWHEEL_EXCHANGE_H */
