/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What root does to a machine for a test: unload the module, and make a cgroup that counts
 * memory.
 */
#ifndef MACHINE_H
#define MACHINE_H

#include "wheel.h"

#include <sys/mount.h>

#define REFCNT		"/sys/module/twheel/refcnt"
#define CGROUP		"/sys/fs/cgroup"
#define PAID_BY		CGROUP "/twheel-test"
#define NO_CGROUP	"NO MEMORY CONTROLLER HERE: what is charged not tested"

/*
 * Unloads a module. Returns 0 or a negative errno; for a module in use, delete_module(2) fails
 * with EWOULDBLOCK.
 */
static inline int unload_module(const char *name)
{
	return errno_of(syscall(SYS_delete_module, name, O_NONBLOCK));
}

/* Makes PAID_BY, limited to @most bytes. Returns true if memory is counted there. */
static inline bool make_group(const char *most)
{
	if (access(CGROUP "/cgroup.controllers", F_OK) &&
	    mount("cgroup2", CGROUP, "cgroup2", 0, NULL))
		return false;
	write_text(CGROUP "/cgroup.subtree_control", "+memory");
	mkdir(PAID_BY, 0755);
	write_text(PAID_BY "/memory.swap.max", "0");
	return write_text(PAID_BY "/memory.max", most);
}

/* Moves this process into the cgroup. */
static inline bool enter_group(void)
{
	return write_text(PAID_BY "/cgroup.procs", "0");
}

#endif /* MACHINE_H */
