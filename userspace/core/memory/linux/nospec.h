/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _SHIM_LINUX_NOSPEC_H
#define _SHIM_LINUX_NOSPEC_H

#include <assert.h>

/* For a bound that has been checked, which is checked here. */
#define array_index_nospec(index, size)	({	\
	assert((index) < (size));		\
	(index); })

#endif /* _SHIM_LINUX_NOSPEC_H */
