// SPDX-License-Identifier: GPL-2.0
/*
 * libtwheel and processes: a process may fork at any moment, and a child cannot use its
 * parent's wheels.
 */
#include "lib_test.h"
#include "filter.h"

#include <sched.h>
#include <sys/mman.h>

#include <libtwheel_keyed.h>

/* ---- A child cannot use its parent's wheel ---- */

/*
 * Calls each function in a child. Returns 0, or the number of the one that returned the wrong
 * error.
 */
static int not_ours(struct twheel *w, uint64_t id, uint64_t registered, int fd)
{
	struct twheel_op op = { .opcode = TWHEEL_OP_REGISTER };
	struct twheel_stats stats;
	struct twheel_usage usage = { .size = sizeof(usage) };
	struct twheel_timer timer;
	struct twheel_event ev;
	struct twheel_info info;
	uint64_t other;
	uint32_t cursor = 0;
	const int says[] = {
		twheel_add(w, 1, 1, &other), twheel_set(w, id, 1), twheel_set(w, registered, 1),
		twheel_clear(w, id), twheel_clear(w, registered), twheel_del(w, id),
		twheel_del(w, registered), twheel_read(w, &ev, 1), twheel_wait(w, 0),
		twheel_wait(w, -1), twheel_wake(w), twheel_submit(w, &op, 1),
		twheel_list(w, &timer, 1, &cursor), twheel_drain(w, TWHEEL_DRAIN_EXPIRE),
		twheel_stats(w, &stats), twheel_usage(w, &usage), twheel_info(w, &info),
		twheel_metrics(w, NULL, stdout), twheel_set_many(w, &id, 1, 1),
		twheel_add_many(w, 1, &id, &other, 1), twheel_del_many(w, &registered, 1),
		twheel_set_user_data(w, id, 1), twheel_replace(w, id, 1, 1, &other),
		twheel_replace(w, registered, 1, 1, &other),
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(says); i++)
		if (says[i] != -ECHILD)
			return i + 1;
	if (twheel_fd(w) != fd)
		return ARRAY_SIZE(says) + 1;
	twheel_prefetch(w, id);
	twheel_now(w);
	twheel_next(w);
	twheel_backend(w);
	twheel_backend_reason(w);
	twheel_close(w);
	return 0;
}

/* Uses a wheel that the child opens. Returns 0, or what is wrong. */
static int own_wheel(const struct twheel_options *o)
{
	struct twheel_event ev;
	struct twheel *w;
	uint64_t id;

	if (twheel_open(&w, o))
		return 20;
	if (twheel_add(w, twheel_after(w, NS_PER_MS), 6, &id))
		return 21;
	if (lib_collect(w, &ev, 1) != 1 || ev.user_data != 6 || ev.id != id)
		return 22;
	if (twheel_del(w, id))
		return 23;
	twheel_close(w);
	return 0;
}

/*
 * Forks while timers are armed and unread. The child gets none of their events and opens a
 * wheel of its own, and its parent gets all events.
 */
static void fork_and_look(struct __test_metadata *_metadata, const struct twheel_options *o,
			  struct twheel *w)
{
	uint64_t registered = reserve_timer(_metadata, w, 77), armed, unread;
	struct twheel_event ev[2];
	int status, fd = twheel_fd(w);
	pid_t child;

	ASSERT_EQ(0, twheel_add(w, twheel_after(w, HOUR), 1, &armed));
	ASSERT_EQ(0, twheel_add(w, 1, 2, &unread));
	ASSERT_TRUE(is_unread(w));
	child = fork_child(_metadata);
	if (!child) {
		int wrong;

		must_end_soon();
		wrong = not_ours(w, armed, registered, fd);
		if (!wrong)
			wrong = own_wheel(o);
		if (!wrong && leaks())
			wrong = 30;
		_exit(wrong);
	}
	status = status_of(child);
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, twheel_set(w, registered, 1));
	ASSERT_EQ(2, lib_collect(w, ev, 2));
	EXPECT_EQ(79, ev[0].user_data + ev[1].user_data);
	EXPECT_EQ(1, twheel_set(w, armed, twheel_after(w, NS_PER_MS)));
	ASSERT_EQ(1, lib_collect(w, ev, 1));
	EXPECT_EQ(1, ev[0].user_data);
	EXPECT_EQ(armed, ev[0].id);
	EXPECT_EQ(0, twheel_del(w, armed));
	EXPECT_EQ(0, twheel_del(w, unread));
	EXPECT_EQ(0, twheel_del(w, registered));
	EXPECT_EQ(0, own_wheel(o));
}

TEST_F(lib, fork)
{
	fork_and_look(_metadata, &self->o, self->w);
}

/* A child closes the wheel at once or leaves it open; the parent's wheel goes on. */
TEST_F(lib, fork_and_close)
{
	unsigned int i;
	uint64_t id;

	for (i = 0; i < 20; i++) {
		pid_t child;

		ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, 5 * NS_PER_MS), i, &id));
		child = fork_child(_metadata);
		if (!child) {
			must_end_soon();
			if (i % 2)
				twheel_close(self->w);
			if (i % 4 > 1)
				_exit(own_wheel(&self->o));
			_exit(0);
		}
		EXPECT_EQ(0, status_of(child));
		EXPECT_EQ(i, lib_event(_metadata, self->w).user_data);
		EXPECT_EQ(0, twheel_del(self->w, id));
	}
}

/* Children of children each have their own wheel beside those that they cannot use. */
TEST_F(lib, generations)
{
	struct twheel *w[5] = { self->w };
	uint64_t id[5];
	unsigned int i, j;
	int status;
	pid_t child;

	ASSERT_EQ(0, twheel_add(w[0], twheel_after(w[0], HOUR), 0, &id[0]));
	child = fork_child(_metadata);
	if (!child) {
		for (i = 1; i < 5; i++) {
			must_end_soon();
			if (twheel_open(&w[i], &self->o) ||
			    twheel_add(w[i], twheel_after(w[i], HOUR), 0, &id[i]))
				_exit(1);
			for (j = 0; j < i; j++) {
				if (twheel_set(w[j], id[j], NEVER) != -ECHILD)
					_exit(2);
			}
			if (twheel_set(w[i], id[i], NEVER) != 1 || twheel_del(w[i], id[i]) != 1)
				_exit(3);
			child = fork();
			if (child) {
				status = status_of(child);
				if (twheel_add(w[i], 1, 0, &id[i]) || status)
					_exit(4);
				_exit(0);
			}
		}
		_exit(own_wheel(&self->o));
	}
	EXPECT_EQ(0, status_of(child));
	EXPECT_EQ(1, twheel_del(w[0], id[0]));
}

/* ---- Without MADV_WIPEONFORK ---- */

/* The call is refused, as by a filter or an old kernel, or ignored, as by an emulator. */
TEST_F(lib, no_wipe_on_fork)
{
	static const int errors[] = { EINVAL, EPERM, ENOSYS, 0 };
	unsigned int i;
	int status;

	for (i = 0; i < ARRAY_SIZE(errors); i++) {
		pid_t child = fork_child(_metadata);

		if (!child) {
			struct twheel *w;

			must_end_soon();
			if (!refuse_call_with(SYS_madvise, 2, MADV_WIPEONFORK, errors[i]))
				_exit(KSFT_SKIP);
			if (twheel_open(&w, &self->o))
				_exit(40);
			fork_and_look(_metadata, &self->o, w);
			twheel_close(w);
			_exit(_metadata->exit_code == KSFT_FAIL ? 41 : 0);
		}
		status = status_of(child);
		if (WIFEXITED(status) && WEXITSTATUS(status) == KSFT_SKIP)
			SKIP(return, "no filters here");
		TH_LOG("%s", errors[i] ? strerror(errors[i]) : "ignored");
		EXPECT_EQ(0, status);
	}
}

/* ---- Handlers of pthread_atfork() ---- */

/*
 * These handlers are installed before the process' first wheel, so that the one for the child
 * runs first, and the one before a fork last. They cannot be removed; this tells them what to
 * do.
 */
static struct handled {
	const struct twheel_options *o;
	struct twheel *w;
	bool closes_before;
	bool arms_before;
	bool closes_after;
	int ret;
} *handled;

static void before_fork(void)
{
	uint64_t id;

	if (!handled)
		return;
	if (handled->closes_before) {
		twheel_close(handled->w);
		handled->ret |= twheel_open(&handled->w, handled->o);
	}
	if (handled->arms_before) {
		handled->ret |= twheel_add(handled->w, twheel_after(handled->w, HOUR), 0, &id);
		handled->ret |= twheel_set(handled->w, id, 1) != 1;
	}
}

static void after_fork(void)
{
	uint64_t id;

	if (!handled || !handled->closes_after)
		return;
	twheel_close(handled->w);
	handled->ret |= twheel_open(&handled->w, handled->o);
	handled->ret |= twheel_add(handled->w, twheel_after(handled->w, HOUR), 0, &id);
}

__attribute__((constructor)) static void handle_forks(void)
{
	pthread_atfork(before_fork, NULL, after_fork);
}

TEST_F(lib, handlers_of_fork)
{
	unsigned int what;

	for (what = 1; what < 8; what++) {
		struct handled h = {
			.o = &self->o,
			.closes_before = what & 1,
			.arms_before = what & 2,
			.closes_after = what & 4,
		};
		struct twheel_event ev;
		int status;
		pid_t child;

		ASSERT_EQ(0, twheel_open(&h.w, &self->o));
		handled = &h;
		/* If the fork hangs, the alarm ends this process. */
		alarm(20);
		child = fork_child(_metadata);
		handled = NULL;
		if (!child) {
			uint64_t id;

			must_end_soon();
			if (h.ret)
				_exit(1);
			if (h.closes_after) {
				/* The wheel that the handler has opened belongs to the child. */
				if (twheel_add(h.w, 1, 4, &id) ||
				    lib_collect(h.w, &ev, 1) != 1 || ev.user_data != 4)
					_exit(2);
			} else if (twheel_read(h.w, &ev, 1) != -ECHILD) {
				_exit(3);
			}
			twheel_close(h.w);
			_exit(own_wheel(&self->o));
		}
		status = status_of(child);
		TH_LOG("handlers that do %u", what);
		EXPECT_EQ(0, status);
		EXPECT_EQ(0, h.ret);
		if (h.arms_before)
			EXPECT_EQ(1, lib_collect(h.w, &ev, 1));
		twheel_close(h.w);
	}
}

/* ---- Forks in the middle of everything ---- */

struct busy {
	const struct twheel_options *o;
	struct twheel *w;
	struct twheel_keyed *k;
	bool stop;
	int errors;
};

static void busy_error(struct busy *b)
{
	__atomic_fetch_add(&b->errors, 1, __ATOMIC_RELAXED);
}

static bool is_over(struct busy *b)
{
	return __atomic_load_n(&b->stop, __ATOMIC_RELAXED);
}

/* Takes every lock of the library again and again. */
static void *open_and_close(void *arg)
{
	struct busy *b = arg;
	struct twheel *w;
	uint64_t id;

	while (!is_over(b)) {
		if (twheel_open(&w, b->o)) {
			busy_error(b);
			break;
		}
		if (twheel_add(w, twheel_after(w, HOUR), 0, &id))
			busy_error(b);
		twheel_close(w);
	}
	return NULL;
}

static void *expire_and_set(void *arg)
{
	struct busy *b = arg;
	struct twheel_event ev;
	uint64_t id;

	while (!is_over(b)) {
		if (twheel_add(b->w, 1, 0, &id) || twheel_read(b->w, &ev, 1) < 0 ||
		    twheel_set(b->w, id, 1) < 0 || twheel_wake(b->w) ||
		    twheel_del(b->w, id) < 0)
			busy_error(b);
	}
	return NULL;
}

static void *set_keys(void *arg)
{
	struct busy *b = arg;
	uint64_t key;

	for (key = 0; !is_over(b); key = (key + 1) % 1000) {
		if (twheel_keyed_set(b->k, &key, sizeof(key), 1, key, NULL) < 0)
			busy_error(b);
	}
	return NULL;
}

/* Whatever lock another thread holds while a process forks, the child works. */
TEST_F_TIMEOUT(lib, fork_in_the_middle, 120)
{
	enum { FORKS = 50 };
	struct busy b = { .o = &self->o, .w = self->w };
	pthread_t thread[3];
	unsigned int i;

	ASSERT_EQ(0, twheel_keyed_open(&b.k, &self->o));
	ASSERT_EQ(0, pthread_create(&thread[0], NULL, open_and_close, &b));
	ASSERT_EQ(0, pthread_create(&thread[1], NULL, expire_and_set, &b));
	ASSERT_EQ(0, pthread_create(&thread[2], NULL, set_keys, &b));
	for (i = 0; i < FORKS; i++) {
		int status;
		pid_t child = fork_child(_metadata);

		if (!child) {
			int wrong;

			must_end_soon();
			wrong = not_ours(self->w, 1ULL << 32, 1ULL << 32, twheel_fd(self->w));
			if (!wrong)
				wrong = own_wheel(&self->o);
			if (!wrong && twheel_keyed_set(b.k, "k", 1, 1, 1, NULL) != -ECHILD)
				wrong = 50;
			if (!wrong)
				twheel_keyed_close(b.k);
			_exit(wrong);
		}
		status = status_of(child);
		ASSERT_EQ(0, status);
	}
	__atomic_store_n(&b.stop, true, __ATOMIC_RELAXED);
	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, pthread_join(thread[i], NULL));
	EXPECT_EQ(0, b.errors);
	twheel_keyed_close(b.k);
}

/* ---- fork() in a handler of keys ---- */

struct forking {
	struct twheel_keyed *k;
	unsigned int told;
	bool is_child;
};

static void fork_once(const void *key, size_t len, uint64_t user_data, void *arg)
{
	struct forking *f = arg;
	pid_t child;

	(void)key;
	(void)len;
	(void)user_data;
	if (f->told++ || f->is_child)
		return;
	child = fork();
	if (!child) {
		must_end_soon();
		f->is_child = true;
	} else if (child < 0 || status_of(child)) {
		f->told += 1000;
	}
}

/* The child returns from the handler, while another thread of the parent sets keys. */
TEST_F_TIMEOUT(lib, fork_in_handler, 120)
{
	enum { ROUNDS = 30, KEYS = 10 };
	struct busy b = { .o = &self->o };
	pthread_t thread;
	unsigned int i;
	char key;

	ASSERT_EQ(0, twheel_keyed_open(&b.k, &self->o));
	ASSERT_EQ(0, pthread_create(&thread, NULL, set_keys, &b));
	for (i = 0; i < ROUNDS; i++) {
		struct forking f = { .k = b.k };
		int ret;

		for (key = 0; key < KEYS; key++)
			ASSERT_LE(0, twheel_keyed_set(b.k, &key, 1, 1, 0, NULL));
		if (i % 2) {
			do {
				ASSERT_EQ(1, twheel_wait(twheel_keyed_wheel(b.k),
							 TIMEOUT_MS * NS_PER_MS));
				ret = twheel_keyed_run(b.k, fork_once, &f);
			} while (!ret);
		} else {
			ret = twheel_keyed_drain(b.k, fork_once, &f);
		}
		if (f.is_child) {
			/* The child has no keys any more. */
			if (i % 2 && ret != -ECHILD)
				_exit(1);
			if (twheel_keyed_run(b.k, NULL, NULL) != -ECHILD ||
			    twheel_keyed_count(b.k) || twheel_keyed_drain(b.k, NULL, NULL))
				_exit(2);
			twheel_keyed_close(b.k);
			_exit(own_wheel(&self->o));
		}
		ASSERT_EQ(ret, f.told);
		ASSERT_NE(0, f.told);
	}
	__atomic_store_n(&b.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, b.errors);
	twheel_keyed_close(b.k);
}

/* ---- Time namespaces ---- */

#define CLOCK_AHEAD	(100000 * SECOND + SECOND / 2)

/*
 * In a namespace whose clock is ahead, uses a timer on a wheel from outside. Returns what is
 * wrong.
 */
static int timer_of_outside(int fd)
{
	uint64_t from = now(CLOCK_MONOTONIC), id, at;
	struct twheel_event ev;
	struct twheel *w;

	if (twheel_open_fd(&w, fd))
		return 1;
	at = twheel_now(w) + CLOCK_AHEAD;
	if (at < from || at > now(CLOCK_MONOTONIC) + 10 * NS_PER_MS)
		return 2;
	if (twheel_add(w, twheel_after(w, 50 * NS_PER_MS), 7, &id))
		return 3;
	if (lib_take(w, &ev, 1, TIMEOUT_MS) != 1 || ev.user_data != 7)
		return 4;
	if (now(CLOCK_MONOTONIC) - from < 50 * NS_PER_MS)
		return 5;
	twheel_close(w);
	return 0;
}

/* Does the same, and then opens its own wheel until @stop is closed. */
static int enter_namespace(int fd, int ready, int stop)
{
	struct twheel_options o = { .size = sizeof(o), .flags = TWHEEL_OPEN_KERNEL };
	struct twheel *w;
	uint64_t id;
	char byte;
	int wrong = timer_of_outside(fd);

	if (wrong)
		return wrong;
	if (twheel_open(&w, &o) || twheel_add(w, twheel_after(w, 600 * SECOND), 0, &id))
		return 10;
	if (write(ready, &(pid_t) { getpid() }, sizeof(pid_t)) != sizeof(pid_t))
		return 11;
	close(ready);
	/* Wait until the other end is closed. */
	return read(stop, &byte, 1) ? 12 : 0;
}

/* Returns the number after @key in the output of a command, or -1. */
static double told(const char *command, int pid, const char *key)
{
	char line[4096], text[128];
	double value = -1;
	FILE *f;

	snprintf(text, sizeof(text), "%s --pid=%d", command, pid);
	f = popen(text, "r");
	while (f && fgets(line, sizeof(line), f)) {
		const char *at = *line == '#' ? NULL : strstr(line, key);

		if (at)
			value = strtod(strpbrk(at, ":}") + 1, NULL);
	}
	if (f)
		pclose(f);
	return value;
}

/* A wheel uses the clock of the namespace in which it was opened, whoever looks. */
TEST(time_namespace)
{
	struct twheel_options o = { .size = sizeof(o), .flags = TWHEEL_OPEN_KERNEL };
	int ready[2], stop[2], status;
	struct twheel *w;
	pid_t child, inner;
	double next;

	if (!machine_is_ours() || access("/proc/self/timens_offsets", F_OK))
		SKIP(return, "NO TIME NAMESPACES, OR NO MODULE: not tested with them");
	OPEN_OR_SKIP(&o, &w);
	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(stop));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		must_end_soon();
		close(stop[1]);
		if (unshare(CLONE_NEWTIME) ||
		    !write_text("/proc/self/timens_offsets", "monotonic 100000 500000000\n"))
			_exit(20);
		child = fork();
		if (!child)
			_exit(enter_namespace(twheel_fd(w), ready[1], stop[0]));
		close(ready[1]);
		if (child < 0 || waitpid(child, &status, 0) != child)
			_exit(21);
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 22);
	}
	close(ready[1]);
	close(stop[0]);
	if (read(ready[0], &inner, sizeof(inner)) == sizeof(inner) &&
	    !access("/bin/twheelctl", X_OK)) {
		next = told("twheelctl ps --json", inner, "\"next_in_ns\"");
		EXPECT_LT(400e9, next);
		EXPECT_GE(600e9, next);
		next = told("twheelctl list --json", inner, "\"deadline_ns\"") -
		       told("twheelctl list --json", inner, "\"now_ns\"");
		EXPECT_LT(400e9, next);
		EXPECT_GE(600e9, next);
		next = told("twheelctl ps --openmetrics", inner, "twheel_next_seconds");
		EXPECT_LT(400, next);
		EXPECT_GE(600, next);
	}
	close(stop[1]);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status));
	close(ready[0]);
	twheel_close(w);
}

TEST_HARNESS_MAIN
