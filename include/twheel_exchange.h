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
 * Whether an exchange of a word takes a bounded time while another CPU stores to it. Where it
 * is a loop of load-linked and store-conditional, user space could keep the kernel in it for
 * ever, with the lock of the wheel.
 */
static inline bool exchanges_are_bounded(void)
{
#if defined(CONFIG_ARM64)
	return cpus_have_cap(ARM64_HAS_LSE_ATOMICS);
#elif defined(CONFIG_RISCV_ISA_ZACAS) && defined(CONFIG_TOOLCHAIN_HAS_ZACAS)
	return riscv_has_extension_unlikely(RISCV_ISA_EXT_ZACAS);
#else
	return !IS_ENABLED(CONFIG_RISCV) && !IS_ENABLED(CONFIG_PPC);
#endif
}

#endif /* _TWHEEL_EXCHANGE_H */
