/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Makes a system call fail, as a sandbox's filter would, for the calling thread and for the
 * threads and children that it creates.
 */
#ifndef FILTER_H
#define FILTER_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>

#define FILTER_RETURN(action)	BPF_STMT(BPF_RET | BPF_K, (action))
#define FILTER_LOAD(offset)	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (offset))
#define FILTER_UNLESS(value, jump) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (jump))
/* Loads the low half of an argument. */
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define FILTER_LOW_HALF	4
#else
#define FILTER_LOW_HALF	0
#endif
#define FILTER_ARGUMENT(n) \
	((unsigned int)(offsetof(struct seccomp_data, args) + 8 * (n) + FILTER_LOW_HALF))

static inline bool install_filter(struct sock_filter *code, unsigned short len)
{
	struct sock_fprog prog = { .len = len, .filter = code };

	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog);
}

/* Makes call @nr fail with @err, or do nothing and succeed if @err is 0. */
static inline bool refuse_call(int nr, int err)
{
	struct sock_filter code[] = {
		FILTER_LOAD(offsetof(struct seccomp_data, nr)),
		FILTER_UNLESS(nr, 1),
		FILTER_RETURN(SECCOMP_RET_ERRNO | err),
		FILTER_RETURN(SECCOMP_RET_ALLOW),
	};

	return install_filter(code, sizeof(code) / sizeof(*code));
}

/* The same if argument number @n is @value. */
static inline bool refuse_call_with(int nr, unsigned int n, unsigned int value, int err)
{
	struct sock_filter code[] = {
		FILTER_LOAD(offsetof(struct seccomp_data, nr)),
		FILTER_UNLESS(nr, 3),
		FILTER_LOAD(FILTER_ARGUMENT(n)),
		FILTER_UNLESS(value, 1),
		FILTER_RETURN(SECCOMP_RET_ERRNO | err),
		FILTER_RETURN(SECCOMP_RET_ALLOW),
	};

	return install_filter(code, sizeof(code) / sizeof(*code));
}

#endif /* FILTER_H */
