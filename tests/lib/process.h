/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for a test's own process, its threads and children, and for files that contain one
 * number. Nothing here knows the device or asserts anything.
 */
#ifndef PROCESS_H
#define PROCESS_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static inline bool is_root(void)
{
	return geteuid() == 0;
}

/* Returns true if this thread now runs on @cpu only. */
static inline bool pin(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return !sched_setaffinity(0, sizeof(set), &set);
}

/* Returns memory that children share with this process, or NULL. */
static inline void *shared_memory(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* Converts the result of a C library call to what the kernel returned. */
static inline long errno_of(long ret)
{
	return ret == -1 ? -errno : ret;
}

/* Returns true once the thread that polls @stop has to end. */
static inline bool stopped(const bool *stop)
{
	return __atomic_load_n(stop, __ATOMIC_ACQUIRE);
}

static inline void stop_and_join(pthread_t thread, bool *stop)
{
	__atomic_store_n(stop, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
}

/* Waits for @pid, and returns its status like waitpid(). */
static inline int status_of(pid_t pid)
{
	int status = -1;

	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

/* Kills @pid. Returns true if it died of that signal. */
static inline bool killed(pid_t pid)
{
	int status;

	kill(pid, SIGKILL);
	status = status_of(pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

/* Addresses that are never mapped in a program. */
static const uintptr_t bad_addresses[] = {
	0,
	8,
	-1UL,
	-4096UL,
#if __SIZEOF_POINTER__ == 8
	0xffff888000000000,
	0xffffffff81000000,
	0x8000000000000000,
	0x00007ffffffff000,
#else
	0xc0000000,
	0xffffe000,
#endif
};

static inline void *bad_address(unsigned int i)
{
	return (void *)bad_addresses[i];
}

/* Reads a file that contains one number. Returns -1 if it does not. */
static inline long long read_number(const char *path)
{
	long long value = -1;
	FILE *f = fopen(path, "re");

	if (!f)
		return -1;
	if (fscanf(f, "%lld", &value) != 1)
		value = -1;
	fclose(f);
	return value;
}

/* Returns true if slabs hold nothing but what was allocated, so that memory can be compared. */
static inline bool slabs_are_plain(void)
{
	static const char *const paths[] = {
		"/sys/kernel/slab/kmalloc-cg-4k/slab_size",
		"/sys/kernel/slab/kmalloc-4k/slab_size",
	};
	unsigned int i;

	for (i = 0; i < sizeof(paths) / sizeof(*paths); i++)
		if (read_number(paths[i]) > 0)
			return read_number(paths[i]) == 4096;
	return true;
}

static inline bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

#endif /* PROCESS_H */
