// SPDX-License-Identifier: GPL-2.0
/*
 * Measures the memory of an armed timer: by how much the free memory of the machine shrinks, what a
 * memory cgroup is charged if one can be created, and the memory of the program itself.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <libtwheel.h>

#include "vm_bench.h"

#define ROOT	"/sys/fs/cgroup"

/* Writes @text to the file @path. Returns true if that succeeded. */
static bool put(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return good;
}

/* Returns the number after @name in the file @path, or a negative number if there is none. */
static double get(const char *path, const char *name)
{
	FILE *file = fopen(path, "re");
	size_t len = strlen(name);
	double value = -1;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, len) && (line[len] == ' ' || line[len] == ':'))
			value = atof(line + len + 1);
	if (file)
		fclose(file);
	return value;
}

/* Returns the size of the free pages that processors keep in their lists. */
static double kept_bytes(void)
{
	FILE *file = fopen("/proc/zoneinfo", "re");
	double pages = 0, count;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, " count: %lf", &count) == 1)
			pages += count;
	if (file)
		fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
}

/* Returns the memory in use, without that of programs and files. */
static double machine_bytes(void)
{
	static const char *const others[] = {
		"MemFree", "Buffers", "Cached", "AnonPages", "PageTables",
	};
	double left = get("/proc/meminfo", "MemTotal");
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(others); i++)
		left -= get("/proc/meminfo", others[i]);
	return 1024 * left - kept_bytes();
}

/*
 * The measures: the charge of the cgroup, its parts for slabs and vmalloc(), the memory of the
 * machine, and that of the program.
 */
enum { CHARGED, SLAB, VMALLOC, MACHINE, OWN, MEASURES };

static const char *const measures[] = {
	"cgroup", "cgroup,slab", "cgroup,vmalloc", "machine", "own",
};

static void look(const char *stat, double bytes[MEASURES])
{
	bytes[CHARGED] = get(stat, "kernel") - get(stat, "pagetables");
	bytes[SLAB] = get(stat, "slab");
	bytes[VMALLOC] = get(stat, "vmalloc");
	bytes[MACHINE] = machine_bytes();
	bytes[OWN] = 1024 * get("/proc/self/status", "RssAnon");
}

/* Measures a backend, without the handles of the bench. */
static void measure_backend(const struct bench_backend *kind, uint32_t n, const char *stat,
			    double bytes[MEASURES])
{
	double before[MEASURES];
	struct bench *b;
	unsigned int i;
	uint64_t when;

	/*
	 * Open it once before, because the first use allocates memory that does not belong to
	 * timers.
	 */
	b = bench_must_open(kind, 64, 0, 0);
	bench_close(b);
	when = bench_now() + VM_FAR;
	look(stat, before);
	b = bench_must_open(kind, n, 0, 0);
	kind->arm(b, b->handle, n, when);
	look(stat, bytes);
	for (i = 0; i < MEASURES; i++)
		bytes[i] -= before[i];
	bytes[OWN] -= (n + BENCH_SPARE) * sizeof(*b->handle);
}

/*
 * Measures libtwheel as a program uses it: it registers or adds timers, and stores their ids.
 */
static void measure_library(bool added, uint32_t n, const char *stat, double bytes[MEASURES])
{
	struct twheel_options options = { .size = sizeof(options), .max_timers = n + 1024 };
	uint64_t *id = bench_alloc(n, sizeof(*id)), when = bench_now() + VM_FAR;
	double before[MEASURES];
	struct twheel *wheel;
	unsigned int i;
	uint32_t t;
	int err;

	memset(id, 1, n * sizeof(*id));
	look(stat, before);
	err = twheel_open(&wheel, &options);
	for (t = 0; !err && t < n; t++) {
		struct twheel_op op = {
			.opcode = TWHEEL_OP_REGISTER,
			.timer.deadline_ns = when + t,
			.timer.flags = TWHEEL_ABSTIME,
			.timer.user_data = t,
		};

		if (added) {
			err = twheel_add(wheel, when + t, t, &id[t]);
		} else {
			err = twheel_submit(wheel, &op, 1);
			err = err < 0 ? err : op.result;
			id[t] = op.timer.id;
		}
	}
	if (err) {
		errno = -err;
		bench_die("libtwheel");
	}
	look(stat, bytes);
	for (i = 0; i < MEASURES; i++)
		bytes[i] -= before[i];
}

/* Timers of twheel_add(), for which the library itself needs memory. */
static const struct bench_backend added = { .name = "libtwheel-add", .max_n = 10000000 };

/* Runs in a child process, so that its cgroup contains nothing else. */
static void measure(const struct bench_backend *kind, uint32_t n, const char *cgroup,
		    double bytes[MEASURES])
{
	char stat[128];

	snprintf(stat, sizeof(stat), "%s/memory.stat", cgroup);
	if (kind == &bench_libtwheel || kind == &added)
		measure_library(kind == &added, n, stat, bytes);
	else
		measure_backend(kind, n, stat, bytes);
	_exit(0);
}

static void row(const struct bench_backend *kind, uint32_t n)
{
	double *bytes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char cgroup[64], procs[96];
	unsigned int i;
	bool charged;
	pid_t child;
	int status;

	if (!vm_wanted(kind->name))
		return;
	/* An ordinary user may be limited to fewer. */
	n = bench_fit(kind, n);
	snprintf(cgroup, sizeof(cgroup), ROOT "/twheel-bench-%d", getpid());
	snprintf(procs, sizeof(procs), "%s/cgroup.procs", cgroup);
	put(ROOT "/cgroup.subtree_control", "+memory");
	charged = !mkdir(cgroup, 0755);
	child = fork();
	if (!child) {
		if (charged && !put(procs, "0"))
			_exit(1);
		measure(kind, n, cgroup, bytes);
	}
	if (waitpid(child, &status, 0) != child || status)
		bench_die("the child process that holds the timers");
	if (charged)
		rmdir(cgroup);
	for (i = 0; i < MEASURES; i++) {
		bytes[i] /= n;
		/* With few timers, other programs may free more memory than these take. */
		if (bytes[i] < 0)
			bytes[i] = 0;
		if (i == OWN || (i == VMALLOC && bytes[CHARGED] > 0) ||
		    ((charged || i == MACHINE) && bytes[i] > 0))
			vm_rows("memory", kind->name, n, measures[i], "bytes", &bytes[i], 1);
	}
	munmap(bytes, 4096);
}

void vm_memory(void)
{
	row(&vm_twheel, 1000000);
	row(&bench_libtwheel, 1000000);
	row(&added, 1000000);
	row(&bench_heap, 1000000);
	row(&bench_libev, 1000000);
	row(&bench_timerfd, 100000);
	row(&bench_posix, 100000);
	row(&bench_io_uring, 10000);
}
