/* SPDX-License-Identifier: GPL-2.0 OR MIT */
#ifndef _SHIM_LINUX_ATOMIC_H
#define _SHIM_LINUX_ATOMIC_H

#define READ_ONCE(x)		__atomic_load_n(&(x), __ATOMIC_RELAXED)
#define WRITE_ONCE(x, value)	__atomic_store_n(&(x), (value), __ATOMIC_RELAXED)

#ifdef __SANITIZE_THREAD__
/* It does not know fences, but this. */
#define mb()	do {						\
	static int _mb;							\
									\
	__atomic_fetch_add(&_mb, 0, __ATOMIC_SEQ_CST);			\
} while (0)
#else
/* A full barrier. */
#define mb()	__atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif
#define smp_mb()	mb() /* They differ only for the memory of devices. */

#define xchg(p, value)	({						\
	smp_mb__around_rmw();						\
	__auto_type _old = __atomic_exchange_n((p), (value), __ATOMIC_SEQ_CST); \
	smp_mb__around_rmw();						\
	_old; })

#define cmpxchg64(p, from, to)	({					\
	__auto_type _from = (from);					\
									\
	smp_mb__around_rmw();						\
	__atomic_compare_exchange_n((p), &_from, (to), false,		\
				    __ATOMIC_SEQ_CST, __ATOMIC_RELAXED); \
	smp_mb__around_rmw();						\
	_from; })

#if defined(__x86_64__) || defined(__i386__)
/* The instruction is one. */
#define smp_mb__around_rmw()	__atomic_signal_fence(__ATOMIC_SEQ_CST)
#else
/* Full, as the kernel's are. */
#define smp_mb__around_rmw()	mb()
#endif

#endif /* _SHIM_LINUX_ATOMIC_H */
