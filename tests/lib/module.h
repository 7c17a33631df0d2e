/* SPDX-License-Identifier: GPL-2.0 */
/* The module of the machine of vm/run.sh, as a file. */
#ifndef MODULE_H
#define MODULE_H

#include "wheel.h"

#define MODULE		"/twheel.ko"

/* Loads the module file @path with @params. Returns 0 or a negative errno. */
static inline int load_module(const char *path, const char *params)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), ret;

	if (fd < 0)
		return -errno;
	ret = errno_of(syscall(SYS_finit_module, fd, params, 0));
	close(fd);
	return ret;
}

#endif /* MODULE_H */
