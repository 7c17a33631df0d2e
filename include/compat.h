/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What differs between kernels. The code uses the newest names; here older kernels get
 * them.
 */
#ifndef _TWHEEL_COMPAT_H
#define _TWHEEL_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/version.h>

#if defined(CONFIG_ARM64) || defined(CONFIG_RISCV)
#include <asm/cpufeature.h>
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 1, 0)
#error "twheel needs Linux 6.1 or later"
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

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock_id, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock_id, mode);
	timer->function = function;
}
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 3, 0)
static inline void vm_flags_set(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags |= flags;
}

static inline void vm_flags_clear(struct vm_area_struct *vma, unsigned long flags)
{
	vma->vm_flags &= ~flags;
}
#endif

#endif /* _TWHEEL_COMPAT_H */
