/* SPDX-License-Identifier: GPL-2.0 OR MIT */
#ifndef _SHIM_LINUX_MODULE_H
#define _SHIM_LINUX_MODULE_H

#include <assert.h>

#include <linux/types.h>

/* A parameter is set as insmod would: NAME=VALUE on the command line. */
struct shim_param {
	struct shim_param *next;
	const char *name;
	unsigned long *value;
};

void shim_add_param(struct shim_param *param);

#define module_param(_name, _type, _perm)				\
	static void __attribute__((constructor)) shim_param_##_name(void) \
	{								\
		static struct shim_param param = {			\
			.name = #_name,					\
			.value = &_name,				\
		};							\
									\
		shim_add_param(&param);					\
	}								\
	static_assert(sizeof(#_type) == sizeof("ulong"), "only ulong"); \
	static_assert(!((_perm) & 0222), "only before the start")

#define MODULE_PARM_DESC(name, text)	static_assert(sizeof(text) > 1, #name)
#define MODULE_LICENSE(text)		static_assert(sizeof(text) > 1, "license")
#define MODULE_DESCRIPTION(text)	static_assert(sizeof(text) > 1, "description")

#endif /* _SHIM_LINUX_MODULE_H */
