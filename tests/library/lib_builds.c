// SPDX-License-Identifier: GPL-2.0
/*
 * A third party's program that uses libtwheel, for tests/library/builds.sh:
 *
 *   lib_builds left_open         exits with a static wheel still open
 *   lib_builds handed            passes memory from one thread to another in an event
 *   lib_builds exit              exits while threads open and close wheels
 *   lib_builds dlclose PLUGIN    unloads PLUGIN while a thread that used it goes on
 *   lib_builds no_fallback       checks a library without the in-process wheel
 *
 * TWHEEL_BACKEND selects the backend. The program exits with 0 if all is well.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <libtwheel.h>

static struct twheel *wheel;

static int fail(int line)
{
	fprintf(stderr, "lib_builds.c:%d\n", line);
	return 1;
}

#define FAIL_UNLESS(is_so) do { \
	if (!(is_so)) \
		return fail(__LINE__); \
} while (0)

static void *add_some(void *arg)
{
	uint64_t id;
	int i;

	for (i = 0; i < 100; i++)
		twheel_add(wheel, ~0ULL, i, &id);
	return arg;
}

static int left_open(void)
{
	pthread_t thread;

	FAIL_UNLESS(!twheel_open(&wheel, NULL));
	FAIL_UNLESS(!pthread_create(&thread, NULL, add_some, NULL));
	FAIL_UNLESS(!pthread_join(thread, NULL));
	add_some(NULL);
	return 0;
}

#define MESSAGES	1000

struct message {
	unsigned int number;
	uint64_t id;
};

/* Submits one operation. Return: true if it succeeded. */
static bool submits(struct twheel_op *op)
{
	return twheel_submit(wheel, op, 1) == 1 && !op->result;
}

/* Makes a timer with the user_data @p, which expires at once. There are five ways. */
static bool arms(struct message *p, unsigned int way)
{
	struct twheel_op op = {
		.timer = { .user_data = (uintptr_t)p, .flags = TWHEEL_ABSTIME | TWHEEL_KEEP },
	};

	/* From its arming on, @p belongs to the other thread. */
	if (!way)
		return !twheel_add(wheel, 1, (uintptr_t)p, &p->id);
	if (way < 3 && twheel_add(wheel, ~0ULL, (uintptr_t)p, &p->id))
		return false;
	if (way > 2) {
		op.opcode = TWHEEL_OP_REGISTER;
		op.timer.flags |= TWHEEL_DISARMED;
		if (!submits(&op))
			return false;
		p->id = op.timer.id;
	}
	op.opcode = TWHEEL_OP_REARM;
	op.timer = (struct twheel_timer){
		.id = p->id, .deadline_ns = 1, .flags = TWHEEL_ABSTIME | TWHEEL_KEEP,
	};
	if (way == 2 || way == 4)
		return submits(&op);
	return twheel_set(wheel, p->id, 1) == (way == 1);
}

static void *hand_over(void *arg)
{
	unsigned int i;

	for (i = 0; i < MESSAGES; i++) {
		struct message *p = malloc(sizeof(*p));

		p->number = i;
		if (!arms(p, i % 5))
			return NULL;
	}
	return arg;
}

static int handed(void)
{
	struct twheel_event event;
	unsigned int i, sum = 0;
	pthread_t thread;
	void *ret;

	FAIL_UNLESS(!twheel_open(&wheel, NULL));
	FAIL_UNLESS(!pthread_create(&thread, NULL, hand_over, wheel));
	for (i = 0; i < MESSAGES; i++) {
		struct message *p;
		int got;

		while (!(got = twheel_read(wheel, &event, 1)))
			FAIL_UNLESS(twheel_wait(wheel, 20000000000) == 1);
		FAIL_UNLESS(got == 1);
		p = (struct message *)(uintptr_t)event.user_data;
		sum += p->number;
		FAIL_UNLESS(p->id == event.id && !twheel_del(wheel, p->id));
		free(p);
	}
	FAIL_UNLESS(!pthread_join(thread, &ret) && ret);
	FAIL_UNLESS(sum == MESSAGES * (MESSAGES - 1) / 2);
	twheel_close(wheel);
	return 0;
}

struct user {
	int (*use)(void);
	sem_t used;
	sem_t may_end;
	int ret;
};

static void *use_and_stay(void *arg)
{
	struct user *user = arg;

	user->ret = user->use();
	sem_post(&user->used);
	sem_wait(&user->may_end);
	return NULL;
}

static int unload(const char *path)
{
	void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	struct user user = { .ret = -1 };
	pthread_t thread;
	int status;
	pid_t pid;

	if (!plugin)
		fprintf(stderr, "%s\n", dlerror());
	FAIL_UNLESS(plugin);
	*(void **)&user.use = dlsym(plugin, "use_wheel");
	FAIL_UNLESS(user.use);
	sem_init(&user.used, 0, 0);
	sem_init(&user.may_end, 0, 0);
	FAIL_UNLESS(!user.use());
	FAIL_UNLESS(!pthread_create(&thread, NULL, use_and_stay, &user));
	sem_wait(&user.used);
	FAIL_UNLESS(!user.ret);
	FAIL_UNLESS(!dlclose(plugin));
#ifdef __GLIBC__
	/* The plugin is gone, and nothing is mapped at its addresses. */
	FAIL_UNLESS(!dlopen(path, RTLD_NOW | RTLD_NOLOAD));
#endif
	sem_post(&user.may_end);
	FAIL_UNLESS(!pthread_join(thread, NULL));
	/* A fork does not call into it either. */
	pid = fork();
	if (!pid)
		_exit(0);
	FAIL_UNLESS(waitpid(pid, &status, 0) == pid && !status);
	return 0;
}

static int no_fallback(void)
{
	FAIL_UNLESS(twheel_open(&wheel, NULL) == -EOPNOTSUPP);
	return 0;
}

static bool lingers;

/* Runs after the library's destructor, which has no priority. */
__attribute__((destructor(101))) static void linger(void)
{
	if (lingers)
		usleep(200000);
}

static void *open_and_close(void *arg)
{
	uint64_t id;

	for (;;) {
		struct twheel *w;

		if (twheel_open(&w, NULL))
			return arg;
		while (!twheel_add(w, UINT64_MAX, 1, &id) && (uint32_t)id % 100)
			;
		twheel_close(w);
		free(malloc(1000));
		usleep(300);
	}
}

/* The process exits while threads use the library, at a moment when none of them has a wheel. */
static int exit_beside_threads(void)
{
	pthread_t thread;
	int i;

	lingers = true;
	for (i = 0; i < 2; i++)
		FAIL_UNLESS(!pthread_create(&thread, NULL, open_and_close, NULL));
	usleep(20000);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int i;

	if (!strcmp(what, "left_open"))
		return left_open();
	if (!strcmp(what, "handed"))
		return handed();
	if (!strcmp(what, "exit"))
		return exit_beside_threads();
	if (!strcmp(what, "no_fallback"))
		return no_fallback();
	if (strcmp(what, "dlclose") || argc < 3)
		return fail(__LINE__);
	/* Fifty times: neither the threads' memory nor their keys run out. */
	for (i = 0; i < 50; i++) {
		if (unload(argv[2]))
			return 1;
	}
	return 0;
}
