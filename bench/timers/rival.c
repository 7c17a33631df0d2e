// SPDX-License-Identifier: GPL-2.0
/*
 * Timers of other languages: Tokio's sleeps and Go's runtime timers.
 *
 * Each is a separate program, in the same directory as this one, which performs operations on
 * request. A request is in shared memory, and a byte on a socket announces it and its end. The
 * program runs on the same processor and reports the CPU time of its operations, so the bytes and
 * the context switches do not count.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

/* Maximum number of handles in a request. tokio/main.rs and go/main.go contain the same number. */
#define REQUEST	16384U

enum verb { OPEN, ARM, MOVE, CANCEL, PAIR, TURNOVER, DELIVER };

/**
 * struct request - a request in the memory that both programs share
 * @verb: the operation
 * @nr: number of handles
 * @when: the deadline of the first handle; for DELIVER the time until which to wait
 * @step: the interval between two deadlines
 * @cpu: out: the CPU time in ns
 * @failed: out: number of operations that were refused
 * @reserved: fills the cache line
 * @word: the handles; after DELIVER, the time and the handle of each expiration
 */
struct request {
	uint64_t verb;
	uint64_t nr;
	uint64_t when;
	uint64_t step;
	uint64_t cpu;
	uint64_t failed;
	uint64_t reserved[2];
	uint64_t word[REQUEST];
};

/**
 * struct rival - a program with timers of another language
 * @request: the shared memory
 * @socket: the socket to the program
 * @pid: the number of its process
 * @cpu: the CPU time of its operations so far
 */
struct rival {
	struct request *request;
	int socket;
	pid_t pid;
	uint64_t cpu;
};

static void ask(struct bench *b, enum verb what, uint64_t nr, uint64_t when)
{
	struct rival *r = b->state;
	char byte = 0;

	r->request->verb = what;
	r->request->nr = nr;
	r->request->when = when;
	r->request->step = BENCH_STEP;
	r->request->cpu = 0;
	r->request->failed = 0;
	if (send(r->socket, &byte, 1, MSG_NOSIGNAL) != 1 || recv(r->socket, &byte, 1, 0) != 1)
		bench_stop("bench: %s: its program has ended", b->kind->name);
	r->cpu += r->request->cpu;
	b->failed += r->request->failed;
}

static void ask_each(struct bench *b, enum verb what, const uint64_t *handle, size_t nr,
		     uint64_t when)
{
	struct rival *r = b->state;
	size_t part;

	for (; nr; nr -= part, handle += part, when += part * BENCH_STEP) {
		part = nr < REQUEST ? nr : REQUEST;
		memcpy(r->request->word, handle, part * sizeof(*handle));
		ask(b, what, part, when);
	}
}

#define RIVAL_VERB(name, verb)						\
static void rival_##name(struct bench *b, const uint64_t *handle,	\
			 size_t nr, uint64_t when)			\
{									\
	ask_each(b, verb, handle, nr, when);				\
}

RIVAL_VERB(arm, ARM)
RIVAL_VERB(move, MOVE)
RIVAL_VERB(cancel, CANCEL)
RIVAL_VERB(pair, PAIR)
RIVAL_VERB(turnover, TURNOVER)

static void rival_deliver(struct bench *b, uint64_t until)
{
	struct rival *r = b->state;
	uint64_t i;

	ask(b, DELIVER, 0, until);
	for (i = 0; i < r->request->nr; i++) {
		b->came = r->request->word[2 * i];
		bench_deliver(b, r->request->word[2 * i + 1]);
	}
}

static uint64_t rival_cpu(struct bench *b)
{
	return ((struct rival *)b->state)->cpu;
}

static void rival_close(struct bench *b)
{
	struct rival *r = b->state;

	close(r->socket);
	waitpid(r->pid, NULL, 0);
	munmap(r->request, sizeof(*r->request));
	free(r);
}

/* Starts the program bench-NAME in the directory of this one. Returns 0 or an errno. */
static int start(const char *name, int socket, int memory, pid_t *pid)
{
	char path[4096] = "", *argv[] = { path, NULL };
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - sizeof("-") - strlen(name));
	posix_spawn_file_actions_t files;
	int err;

	if (len < 0)
		return errno;
	/* The path of this program ends in "bench". */
	sprintf(path + len, "-%s", name);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, socket, 0);
	/* Its output must not mix with our rows. */
	posix_spawn_file_actions_adddup2(&files, 2, 1);
	posix_spawn_file_actions_adddup2(&files, memory, 3);
	err = posix_spawn(pid, path, &files, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	return err;
}

static int rival_open(struct bench *b)
{
	struct rival *r = bench_alloc(1, sizeof(*r));
	int memory, sockets[2], err;
	uint32_t i;

	memory = memfd_create("bench", MFD_CLOEXEC);
	if (memory < 0 || ftruncate(memory, sizeof(*r->request)) ||
	    socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
		bench_die(b->kind->name);
	r->request = mmap(NULL, sizeof(*r->request), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	if (r->request == MAP_FAILED)
		bench_die(b->kind->name);
	r->socket = sockets[0];
	err = start(b->kind->name, sockets[1], memory, &r->pid);
	close(sockets[1]);
	close(memory);
	if (err) {
		close(r->socket);
		munmap(r->request, sizeof(*r->request));
		free(r);
		errno = err;
		return -1;
	}
	for (i = 0; i < b->n + BENCH_SPARE; i++)
		b->handle[i] = i;
	b->state = r;
	ask(b, OPEN, b->n + BENCH_SPARE, 0);
	return 0;
}

#define RIVAL(backend, title)						\
	BENCH_BACKEND(backend, title, rival, rival,			\
		      .max_n = 1000000, .threads = 1, .open = rival_open, .cpu = rival_cpu, \
		      .again = rival_turnover,				\
		      .why = "creating them takes longer than measuring them")

RIVAL(tokio, "tokio");
RIVAL(go, "go");
