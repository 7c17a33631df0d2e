// SPDX-License-Identifier: GPL-2.0
/*
 * libtwheel with many threads and processes at once: whatever races, each arming ends exactly
 * once.
 *
 * Each race runs for TWHEEL_TEST_SECONDS, or for 2 seconds if that is not set.
 */
#include "lib_test.h"
#include "filter.h"

#include <linux/futex.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <libtwheel_keyed.h>

#define MAX_THREADS	8

static unsigned int seconds(void)
{
	const char *value = getenv("TWHEEL_TEST_SECONDS");

	return value ? atoi(value) : 2;
}

#define STRESS_TIMEOUT	300

/* Set to stop the threads. */
static bool stop;

static bool over(void)
{
	return __atomic_load_n(&stop, __ATOMIC_RELAXED);
}

static void run_for(unsigned int s)
{
	sleep_ms(s * 1000);
	__atomic_store_n(&stop, true, __ATOMIC_SEQ_CST);
}

/* Runs @act in @n threads, until @s seconds are over or the threads are done. */
static void run_threads(struct __test_metadata *_metadata, unsigned int n, void *(*act)(void *arg),
			void *arg, unsigned int s)
{
	pthread_t thread[MAX_THREADS];
	unsigned int i;

	for (i = 0; i < n; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, act, arg));
	if (s)
		run_for(s);
	for (i = 0; i < n; i++)
		ASSERT_EQ(0, pthread_join(thread[i], NULL));
}

static void count(uint64_t *p, uint64_t more)
{
	__atomic_fetch_add(p, more, __ATOMIC_RELAXED);
}

/* Returns a deadline that is usually near, so that it races with the wheel. */
static uint64_t some_deadline(struct twheel *w, __u64 *seed)
{
	uint64_t at = twheel_now(w);
	uint64_t dice = next_random(seed);

	switch (dice % 8) {
	case 0:
		return at - 1;
	case 1:
		return at + HOUR;
	case 2:
		return at + (dice >> 8) % (20 * NS_PER_MS);
	default:
		return at + (dice >> 8) % NS_PER_MS;
	}
}

FIXTURE(threads) {
	struct twheel *w;
};

FIXTURE_VARIANT(threads) {
	__u32 flags;
	unsigned int threads;
};

VARIANT(threads, kernel_2, .flags = TWHEEL_OPEN_KERNEL, .threads = 2);
VARIANT(threads, kernel_8, .flags = TWHEEL_OPEN_KERNEL, .threads = 8);
VARIANT(threads, inprocess_2, .flags = TWHEEL_OPEN_INPROCESS, .threads = 2);
VARIANT(threads, inprocess_4, .flags = TWHEEL_OPEN_INPROCESS, .threads = 4);
VARIANT(threads, inprocess_8, .flags = TWHEEL_OPEN_INPROCESS, .threads = 8);

FIXTURE_SETUP(threads)
{
	struct twheel_options o = { .size = sizeof(o), .flags = variant->flags, .tick_ns = 131072 };

	OPEN_OR_SKIP(&o, &self->w);
}

FIXTURE_TEARDOWN(threads)
{
	lib_close(_metadata, self->w);
}

/* ---- The end of a thread ---- */

struct ending {
	struct twheel *w;
	sem_t done;
	int errors;
};

/* Uses slots, which return to the wheel when the thread ends. */
static void *use_and_end(void *arg)
{
	struct ending *e = arg;
	uint64_t id[100];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(id); i++)
		if (twheel_add(e->w, twheel_now(e->w) + HOUR, i, &id[i]))
			__atomic_fetch_add(&e->errors, 1, __ATOMIC_RELAXED);
	for (i = 0; i < ARRAY_SIZE(id); i++)
		if (twheel_del(e->w, id[i]) != 1)
			__atomic_fetch_add(&e->errors, 1, __ATOMIC_RELAXED);
	sem_post(&e->done);
	return NULL;
}

/* A thread whose last call has returned may still be ending when the wheel is closed. */
TEST_F_TIMEOUT(threads, close_and_end, STRESS_TIMEOUT)
{
	struct twheel_options o = { .size = sizeof(o), .flags = variant->flags };
	__u64 end = now(CLOCK_MONOTONIC) + seconds() * NS_PER_SEC;
	pthread_t thread[MAX_THREADS];
	struct ending e = { };
	unsigned int i;

	ASSERT_EQ(0, sem_init(&e.done, 0, 0));
	do {
		ASSERT_EQ(0, twheel_open(&e.w, &o));
		for (i = 0; i < variant->threads; i++)
			ASSERT_EQ(0, pthread_create(&thread[i], NULL, use_and_end, &e));
		for (i = 0; i < variant->threads; i++)
			ASSERT_EQ(0, sem_wait(&e.done));
		twheel_close(e.w);
		for (i = 0; i < variant->threads; i++)
			ASSERT_EQ(0, pthread_join(thread[i], NULL));
	} while (now(CLOCK_MONOTONIC) < end);
	EXPECT_EQ(0, e.errors);
	ASSERT_EQ(0, sem_destroy(&e.done));
}

/* ---- Threads that each have their own timers and all read ---- */

/* The maximum number of timers that a thread has at a time, and that all threads add in total. */
#define OWN	64
#define ADDS	(1 << 20)

struct stress {
	struct twheel *w;
	/* For each add: how many events were read, and how many the verbs reported. */
	uint8_t *events;
	uint8_t *answers;
	uint64_t adds;
	uint64_t read;
	uint64_t errors;
	/* Timers that another process has canceled, which is an error unless @drains is set. */
	uint64_t drained;
	bool drains;
	/* A timer that exists, or did a moment ago. */
	uint64_t latest;
};

static void stress_read(struct stress *s, int max)
{
	struct twheel_event ev[16];
	int i, n = twheel_read(s->w, ev, max);

	if (n < 0)
		count(&s->errors, 1);
	for (i = 0; i < n; i++) {
		if (ev[i].user_data >= ADDS || ev[i].expired_ns < ev[i].deadline_ns ||
		    ev[i].expirations != 1 || twheel_now(s->w) < ev[i].deadline_ns)
			count(&s->errors, 1);
		else
			__atomic_fetch_add(&s->events[ev[i].user_data], 1, __ATOMIC_RELAXED);
	}
	if (n > 0)
		count(&s->read, n);
}

static uint64_t *was_drained(struct stress *s, int err)
{
	return s->drains && err == -ENOENT ? &s->drained : &s->errors;
}

struct own {
	uint64_t id;
	uint64_t number;
	/* The timer was armed, and no verb has reported yet how that ended. */
	bool armed;
};

/*
 * Records what a verb on @t returned. If the timer was armed, 0 reports an event and 1 does
 * not. If it was not armed, 1 is wrong.
 */
static bool stress_answer(struct stress *s, struct own *t, int ret)
{
	if (ret < 0) {
		count(was_drained(s, ret), 1);
		return false;
	}
	if (t->armed)
		s->answers[t->number] += !ret;
	else if (ret)
		count(&s->errors, 1);
	return true;
}

/* Takes a number for an arming. Returns false, and ends the test, if there were enough. */
static bool stress_number(struct stress *s, uint64_t *number)
{
	*number = __atomic_fetch_add(&s->adds, 1, __ATOMIC_RELAXED);
	if (*number >= ADDS)
		__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	return *number < ADDS;
}

static void *stress_timers(void *arg)
{
	struct stress *s = arg;
	struct own own[OWN], *t;
	__u64 seed = now(CLOCK_REALTIME) ^ (uintptr_t)&seed;
	unsigned int nr = 0;

	while (!over() || nr) {
		unsigned int dice = next_random(&seed) % 16;

		if (over())
			dice = 10;
		if (dice < 4 && nr < OWN) {
			t = &own[nr++];
			t->armed = true;
			if (!stress_number(s, &t->number)) {
				nr--;
			} else if (twheel_add(s->w, some_deadline(s->w, &seed), t->number,
					      &t->id)) {
				nr--;
				count(&s->errors, 1);
			}
		} else if (dice < 9 && nr) {
			/* At most 255 events for each timer, which is what the arrays can hold. */
			t = &own[next_random(&seed) % nr];
			if (s->answers[t->number] == 255)
				continue;
			if (stress_answer(s, t, twheel_set(s->w, t->id,
							   some_deadline(s->w, &seed))))
				t->armed = true;
			else
				*t = own[--nr];
		} else if (dice == 9 && nr) {
			t = &own[next_random(&seed) % nr];
			if (stress_answer(s, t, twheel_clear(s->w, t->id)))
				t->armed = false;
			else
				*t = own[--nr];
		} else if (dice < 12 && nr) {
			t = &own[next_random(&seed) % nr];
			stress_answer(s, t, twheel_del(s->w, t->id));
			*t = own[--nr];
		} else if (dice == 13 && nr) {
			uint64_t number;

			t = &own[next_random(&seed) % nr];
			if (!stress_number(s, &number))
				continue;
			if (stress_answer(s, t, twheel_replace(s->w, t->id,
							       some_deadline(s->w, &seed), number,
							       &t->id)))
				*t = (struct own) { .id = t->id, .number = number, .armed = true };
			else
				*t = own[--nr];
		} else if (dice == 12) {
			if (twheel_wait(s->w, 0) < 0 || twheel_wake(s->w))
				count(&s->errors, 1);
		} else {
			stress_read(s, 1 + next_random(&seed) % 16);
		}
	}
	return NULL;
}

/*
 * Exactly one 0 of a verb reports each event, and each such 0 has its event. So no event is
 * read twice, for another timer, or after a 1.
 */
TEST_F_TIMEOUT(threads, timers, STRESS_TIMEOUT)
{
	struct stress s = { .w = self->w };
	struct twheel_usage usage = { .size = sizeof(usage) };
	unsigned int i, wrong = 0;
	uint64_t answers = 0;

	s.events = calloc(ADDS, 1);
	s.answers = calloc(ADDS, 1);
	ASSERT_TRUE(s.events && s.answers);
	run_threads(_metadata, variant->threads, stress_timers, &s, seconds());
	/* All timers are deleted. */
	stress_read(&s, 16);
	sleep_ms(QUIET_MS);
	stress_read(&s, 16);
	for (i = 0; i < ADDS; i++) {
		answers += s.answers[i];
		wrong += s.answers[i] != s.events[i];
	}
	ASSERT_EQ(0, twheel_usage(self->w, &usage));
	TH_LOG("%llu added, %llu read, %llu withdrawn, %llu kicks", (unsigned long long)s.adds,
	       (unsigned long long)s.read, (unsigned long long)usage.withdrawn,
	       (unsigned long long)usage.kicks);
	EXPECT_EQ(0, s.errors);
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(answers, s.read);
	EXPECT_NE(0, s.read);
	EXPECT_NE(0, usage.withdrawn);
	free(s.events);
	free(s.answers);
}

/* ---- Replaced while others read ---- */

/* Replaces a timer again and again, with deadlines that the readers reach at once. */
static void *stress_replace(void *arg)
{
	struct stress *s = arg;
	__u64 seed = now(CLOCK_REALTIME) ^ (uintptr_t)&seed;
	uint64_t number, next;
	uint64_t id;
	int ret;

	if (!stress_number(s, &number) || twheel_add(s->w, 1, number, &id)) {
		count(&s->errors, 1);
		return NULL;
	}
	while (!over() && stress_number(s, &next)) {
		uint64_t at = twheel_now(s->w), dice = next_random(&seed);

		ret = twheel_replace(s->w, id, dice % 2 ? at : at + dice % (NS_PER_MS / 4), next,
				     &id);
		s->answers[number] = !ret;
		number = next;
		if (ret < 0)
			count(&s->errors, 1);
		__atomic_store_n(&s->latest, id, __ATOMIC_RELAXED);
	}
	s->answers[number] = !twheel_del(s->w, id);
	return NULL;
}

/* Reads events, and asks for a timer, which is the one that was meant or is gone. */
static void *stress_reader(void *arg)
{
	struct stress *s = arg;

	while (!over()) {
		uint64_t id = __atomic_load_n(&s->latest, __ATOMIC_RELAXED);
		struct twheel_op op = { .opcode = TWHEEL_OP_GET, .timer.id = id };

		stress_read(s, 16);
		if (id && (twheel_submit(s->w, &op, 1) != 1 ||
			   (op.result ? op.result != -ENOENT : op.timer.id != id)))
			count(&s->errors, 1);
	}
	return NULL;
}

/*
 * An event has the user_data of its own arming, and a GET returns the timer that it names, even if
 * another thread replaces the timer meanwhile.
 */
TEST_F_TIMEOUT(threads, replaced_and_read, STRESS_TIMEOUT)
{
	struct stress s = { .w = self->w };
	pthread_t reader;
	unsigned int i, wrong = 0;

	s.events = calloc(ADDS, 1);
	s.answers = calloc(ADDS, 1);
	ASSERT_TRUE(s.events && s.answers);
	ASSERT_EQ(0, pthread_create(&reader, NULL, stress_reader, &s));
	run_threads(_metadata, variant->threads - 1, stress_replace, &s, seconds());
	ASSERT_EQ(0, pthread_join(reader, NULL));
	stress_read(&s, 16);
	for (i = 0; i < ADDS; i++)
		wrong += s.answers[i] != s.events[i];
	TH_LOG("%llu replaced, %llu read", (unsigned long long)s.adds,
	       (unsigned long long)s.read);
	EXPECT_EQ(0, s.errors);
	EXPECT_EQ(0, wrong);
	free(s.events);
	free(s.answers);
}

/* ---- Threads that all set and read the same timers ---- */

#define TIMERS	4

struct shared {
	struct twheel *w;
	uint64_t id[MAX_THREADS];
	uint64_t arms;
	/* Armings that a verb found and ended. */
	uint64_t ended;
	uint64_t read;
	uint64_t errors;
};

static void *stress_shared(void *arg)
{
	struct shared *s = arg;
	__u64 seed = now(CLOCK_REALTIME) ^ (uintptr_t)&seed;
	uint64_t arms = 0, ended = 0, got = 0;
	struct twheel_event ev[8];
	int ret;

	while (!over()) {
		uint64_t id = s->id[next_random(&seed) % TIMERS];

		if (!(next_random(&seed) % 8)) {
			ret = twheel_read(s->w, ev, 1 + next_random(&seed) % 8);
			got += ret > 0 ? ret : 0;
		} else {
			ret = twheel_set(s->w, id, some_deadline(s->w, &seed));
			ended += ret == 1;
			arms++;
		}
		if (ret < 0)
			count(&s->errors, 1);
	}
	count(&s->arms, arms);
	count(&s->ended, ended);
	count(&s->read, got);
	return NULL;
}

/*
 * An arming ends with the verb that reports it, or by being read, for timers of twheel_add()
 * and of REGISTER.
 */
static void set_by_all(struct __test_metadata *_metadata, struct twheel *w, unsigned int threads,
		       bool added)
{
	struct shared s = { .w = w };
	struct twheel_event ev[16];
	struct twheel_stats stats;
	unsigned int i;
	int n;

	__atomic_store_n(&stop, false, __ATOMIC_SEQ_CST);
	for (i = 0; i < TIMERS; i++) {
		if (added) {
			ASSERT_EQ(0, twheel_add(w, NEVER, 0, &s.id[i]));
			ASSERT_EQ(1, twheel_clear(w, s.id[i]));
		} else {
			s.id[i] = reserve_timer(_metadata, w, 0);
		}
	}
	run_threads(_metadata, threads, stress_shared, &s, seconds());
	for (i = 0; i < TIMERS; i++)
		s.ended += twheel_clear(w, s.id[i]) == 1;
	/* Read what is left. */
	while ((n = twheel_read(w, ev, 16)) > 0)
		s.read += n;
	for (i = 0; i < TIMERS; i++)
		EXPECT_EQ(TWHEEL_IDLE, lib_state(w, s.id[i]));
	ASSERT_EQ(0, twheel_stats(w, &stats));
	TH_LOG("%llu armings, %llu ended, %llu read", (unsigned long long)s.arms,
	       (unsigned long long)s.ended, (unsigned long long)s.read);
	EXPECT_EQ(0, s.errors);
	EXPECT_EQ(s.arms, s.ended + s.read);
	EXPECT_EQ(0, stats.unread);
	EXPECT_NE(0, s.read);
	for (i = 0; i < TIMERS; i++)
		EXPECT_EQ(0, twheel_del(w, s.id[i]));
}

/* G3: threads that set the same timers */
TEST_F_TIMEOUT(threads, set_by_all, STRESS_TIMEOUT)
{
	set_by_all(_metadata, self->w, variant->threads, true);
	set_by_all(_metadata, self->w, variant->threads, false);
}

/* ---- Drains ---- */

/* Counts @ret, the number of armings that a call has ended. */
static void count_end(struct shared *s, int ret)
{
	count(ret < 0 ? &s->errors : &s->ended, ret < 0 ? 1 : ret);
}

/* Adds timers while other threads drain the wheel. The timers still belong to this thread. */
static void *add_and_set(void *arg)
{
	enum { N = 1000 };
	struct shared *s = arg;
	uint64_t id[N];
	unsigned int i;

	while (!over()) {
		for (i = 0; i < N; i++)
			if (twheel_add(s->w, twheel_after(s->w, HOUR), i, &id[i]))
				break;
		if (i < N)
			count(&s->errors, 1);
		count(&s->arms, i);
		while (i--) {
			if (i % 2) {
				count(&s->arms, 1);
				count_end(s, twheel_set(s->w, id[i], twheel_after(s->w, HOUR)));
			}
			count_end(s, twheel_del(s->w, id[i]));
		}
	}
	return NULL;
}

static void *drain_all(void *arg)
{
	struct shared *s = arg;

	while (!over()) {
		count_end(s, twheel_drain(s->w, TWHEEL_DRAIN_CANCEL));
		sched_yield();
	}
	return NULL;
}

/* A drain ends each arming once, and deletes no timer of twheel_add(). */
TEST_F_TIMEOUT(threads, drained_while_added, STRESS_TIMEOUT)
{
	pthread_t thread[MAX_THREADS];
	struct shared s = { .w = self->w };
	unsigned int i;
	uint64_t id;

	/* The longer a drain takes, the more happens meanwhile. */
	for (i = 0; i < 50000; i++)
		ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, HOUR), i, &id));
	s.arms = i;
	for (i = 0; i < variant->threads; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, i ? add_and_set : drain_all, &s));
	run_for(seconds());
	for (i = 0; i < variant->threads; i++)
		ASSERT_EQ(0, pthread_join(thread[i], NULL));
	count_end(&s, twheel_drain(self->w, TWHEEL_DRAIN_CANCEL));
	TH_LOG("%llu armings", (unsigned long long)s.arms);
	EXPECT_EQ(0, s.errors);
	EXPECT_LT(50000, s.arms);
	EXPECT_EQ(s.arms, s.ended);
}

/* ---- Memory that one thread passes to another in an event ---- */

#define MESSAGES	10000

struct message {
	uint64_t number;
	uint64_t id;
};

static void *hand_over(void *arg)
{
	struct shared *s = arg;
	uint64_t i;

	for (i = 0; i < MESSAGES; i++) {
		struct message *p = malloc(sizeof(*p));

		p->number = i;
		/*
		 * The add arms the timer, or a set after it. From then on the reader owns the
		 * memory.
		 */
		if (twheel_add(s->w, i % 2 ? NEVER : 1, (uintptr_t)p, &p->id)) {
			count(&s->errors, 1);
			break;
		}
		if (i % 2 && twheel_set(s->w, p->id, 1) != 1)
			count(&s->errors, 1);
	}
	return NULL;
}

/*
 * A thread fills in the memory that user_data points to, and the reader of the event uses it.
 * The thread sanitizer sees no ordering through the kernel, so the library must provide one.
 */
TEST_F_TIMEOUT(threads, handed_over, STRESS_TIMEOUT)
{
	unsigned int i, left = MESSAGES * (variant->threads / 2);
	struct shared s = { .w = self->w };
	pthread_t thread[MAX_THREADS];
	struct twheel_event ev[16];
	int n, j;

	for (i = 0; i < variant->threads / 2; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, hand_over, &s));
	while (left) {
		n = lib_take(self->w, ev, 16, TIMEOUT_MS);
		ASSERT_GT(n, 0);
		for (j = 0; j < n; j++) {
			struct message *p = (struct message *)(uintptr_t)ev[j].user_data;

			EXPECT_LT(p->number, MESSAGES);
			EXPECT_EQ(ev[j].id, p->id);
			ASSERT_EQ(0, twheel_del(self->w, p->id));
			free(p);
		}
		left -= n;
	}
	for (i = 0; i < variant->threads / 2; i++)
		ASSERT_EQ(0, pthread_join(thread[i], NULL));
	EXPECT_EQ(0, s.errors);
}

/* ---- System calls of two threads ---- */

#define PAIRS	200000

static void *pairs(void *arg)
{
	struct shared *s = arg;
	uint64_t id[32];
	unsigned int i;

	for (i = 0; i < 32; i++)
		count(&s->errors, !!twheel_add(s->w, twheel_after(s->w, HOUR), i, &id[i]));
	for (; i < PAIRS; i++) {
		if (twheel_del(s->w, id[i % 32]) != 1 ||
		    twheel_add(s->w, twheel_after(s->w, HOUR), i, &id[i % 32]))
			count(&s->errors, 1);
	}
	return NULL;
}

/* Requests that complete in time: at most one system call for each turn of the wheel. */
TEST_F_TIMEOUT(threads, calls_of_pairs, STRESS_TIMEOUT)
{
	struct shared s = { .w = self->w };
	struct twheel_usage usage = { .size = sizeof(usage) };
	struct twheel_stats stats;

	run_threads(_metadata, variant->threads, pairs, &s, 0);
	ASSERT_EQ(0, twheel_usage(self->w, &usage));
	ASSERT_EQ(0, twheel_stats(self->w, &stats));
	TH_LOG("%llu kicks, %llu refills, %llu wake-ups", (unsigned long long)usage.kicks,
	       (unsigned long long)usage.refills, (unsigned long long)stats.wakeups);
	EXPECT_EQ(0, s.errors);
	EXPECT_EQ(0, usage.withdrawn);
	EXPECT_LE(usage.refills, variant->threads);
	EXPECT_LE(usage.kicks, stats.wakeups + 2 * variant->threads);
}

/* ---- No priority inversion ---- */

/* Sanitizers have locks of their own. */
#if (defined(__x86_64__) || defined(__i386__)) && !defined(__SANITIZE_THREAD__) && \
	!defined(__SANITIZE_ADDRESS__)

#ifdef __x86_64__
#define REG_RESULT	REG_RAX
static const int call_registers[] = { REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8 };
#else
#define REG_RESULT	REG_EAX
static const int call_registers[] = { REG_EBX, REG_ECX, REG_EDX, REG_ESI, REG_EDI };
#endif

/* The sixth argument of calls that the filter lets pass. */
#define OURS	0x7eel

static uint64_t waits_inheriting, waits_plainly;
/*
 * Set while a thread is at work. A thread that ends frees its cache and its stack, and may
 * wait for a lock then.
 */
static __thread bool at_work;

/* Counts which kind of futex wait a thread uses, and then executes the call. */
static void on_futex(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	greg_t *r = uc->uc_mcontext.gregs;
	long arg[5], ret;
	unsigned int i;
	int op;

	(void)sig;
	for (i = 0; i < 5; i++)
		arg[i] = r[call_registers[i]];
	op = arg[1] & FUTEX_CMD_MASK;
	if (at_work && (op == FUTEX_LOCK_PI || op == FUTEX_LOCK_PI2))
		count(&waits_inheriting, 1);
	else if (at_work && op == FUTEX_WAIT)
		count(&waits_plainly, 1);
	ret = syscall(info->si_syscall, arg[0], arg[1], arg[2], arg[3], arg[4], OURS);
	r[REG_RESULT] = ret < 0 ? -errno : ret;
}

static bool watch_futexes(void)
{
	struct sock_filter code[] = {
		FILTER_LOAD(offsetof(struct seccomp_data, nr)),
		FILTER_UNLESS(SYS_futex, 3),
		FILTER_LOAD(FILTER_ARGUMENT(5)),
		FILTER_UNLESS(OURS, 2),
		FILTER_RETURN(SECCOMP_RET_ALLOW),
		FILTER_RETURN(SECCOMP_RET_ALLOW),
		FILTER_RETURN(SECCOMP_RET_TRAP),
	};

	return install_filter(code, ARRAY_SIZE(code));
}

static void *contend(void *arg)
{
	struct shared *s = arg;
	struct twheel_event ev[16];
	uint64_t id;

	if (twheel_add(s->w, 1, 0, &id)) {
		count(&s->errors, 1);
		return NULL;
	}
	if (!watch_futexes()) {
		count(&s->arms, 1);
		return NULL;
	}
	at_work = true;
	while (!over()) {
		if (twheel_set(s->w, id, 1) < 0 || twheel_read(s->w, ev, 16) < 0 ||
		    twheel_clear(s->w, id) < 0)
			count(&s->errors, 1);
	}
	at_work = false;
	return NULL;
}

/* Threads that contend for a lock of the library use futexes with priority inheritance. */
TEST_F_TIMEOUT(threads, locks_inherit, STRESS_TIMEOUT)
{
	struct sigaction action = { .sa_sigaction = on_futex, .sa_flags = SA_SIGINFO };
	struct shared s = { .w = self->w };

	ASSERT_EQ(0, sigaction(SIGSYS, &action, NULL));
	run_threads(_metadata, variant->threads, contend, &s, seconds());
	if (s.arms)
		SKIP(return, "no filters here");
	TH_LOG("%llu waits with priority inheritance, %llu without",
	       (unsigned long long)waits_inheriting,
	       (unsigned long long)waits_plainly);
	EXPECT_EQ(0, s.errors);
	EXPECT_EQ(0, waits_plainly);
}

static void *set_and_clear(void *arg)
{
	struct shared *s = arg;
	uint64_t id;

	if (twheel_add(s->w, NEVER, 0, &id)) {
		count(&s->errors, 1);
		return NULL;
	}
	if (!watch_futexes()) {
		count(&s->arms, 1);
		return NULL;
	}
	at_work = true;
	while (!over()) {
		if (twheel_clear(s->w, id) != 1 || twheel_set(s->w, id, NEVER))
			count(&s->errors, 1);
	}
	at_work = false;
	return NULL;
}

/* N21: Threads that clear and set their own timers never wait for each other. */
TEST_F_TIMEOUT(threads, set_after_clear, STRESS_TIMEOUT)
{
	struct sigaction action = { .sa_sigaction = on_futex, .sa_flags = SA_SIGINFO };
	struct shared s = { .w = self->w };

	ASSERT_EQ(0, sigaction(SIGSYS, &action, NULL));
	run_threads(_metadata, variant->threads, set_and_clear, &s, seconds());
	if (s.arms)
		SKIP(return, "no filters here");
	EXPECT_EQ(0, s.errors);
	EXPECT_EQ(0, waits_inheriting + waits_plainly);
}

#endif

/* ---- An armed timer is never forgotten ---- */

static void *arm_and_wait(void *arg)
{
	struct shared *s = arg;
	uint64_t id = s->id[__atomic_fetch_add(&s->arms, 1, __ATOMIC_RELAXED)];
	__u64 seed = now(CLOCK_REALTIME) ^ (uintptr_t)&seed;
	struct twheel_event ev[4];
	uint64_t rounds = 0;

	while (!over()) {
		uint64_t at = twheel_now(s->w), seen, i;
		__u64 end = now(CLOCK_MONOTONIC) + TIMEOUT_MS * NS_PER_MS;

		/* Set later, earlier, off and on: only the last setting counts. */
		for (i = next_random(&seed) % 4; i; i--)
			twheel_set(s->w, id, some_deadline(s->w, &seed));
		if (next_random(&seed) % 2)
			twheel_clear(s->w, id);
		at += next_random(&seed) % NS_PER_MS;
		twheel_set(s->w, id, at);
		do {
			struct twheel_timer t = { .id = id };

			if (twheel_wait(s->w, 1 * NS_PER_MS) < 0 || twheel_read(s->w, ev, 4) < 0 ||
			    lib_get(s->w, &t))
				count(&s->errors, 1);
			seen = t.state;
			if (now(CLOCK_MONOTONIC) > end) {
				/* Nobody looked at the timer. */
				count(&s->errors, 1);
				return NULL;
			}
		} while (seen != TWHEEL_IDLE);
		rounds++;
	}
	count(&s->read, rounds);
	return NULL;
}

/* G4: a timer is never lost */
TEST_F_TIMEOUT(threads, timer_never_lost, STRESS_TIMEOUT)
{
	struct shared s = { .w = self->w };
	unsigned int i;

	for (i = 0; i < variant->threads; i++) {
		struct twheel_timer t = { .flags = TWHEEL_KEEP | TWHEEL_DISARMED };

		ASSERT_EQ(0, lib_register(self->w, &t));
		s.id[i] = t.id;
	}
	run_threads(_metadata, variant->threads, arm_and_wait, &s, seconds());
	EXPECT_EQ(0, s.errors);
	EXPECT_NE(0, s.read);
}

/* ---- No thread sleeps through an event ---- */

struct sleeper {
	struct shared *s;
	sem_t event;
	uint64_t id;
	/* The deadline of the latest event. */
	uint64_t deadline_ns;
};

static void *arm_and_sleep(void *arg)
{
	struct sleeper *me = arg;
	struct shared *s = me->s;
	__u64 seed = now(CLOCK_REALTIME) ^ (uintptr_t)&seed;

	while (!over()) {
		struct timespec limit;
		uint64_t at, i;

		for (i = next_random(&seed) % 4; i; i--)
			twheel_set(s->w, me->id, some_deadline(s->w, &seed));
		at = some_deadline(s->w, &seed);
		if (at > twheel_after(s->w, HOUR / 2))
			at = twheel_now(s->w);
		twheel_set(s->w, me->id, at);
		clock_gettime(CLOCK_REALTIME, &limit);
		limit.tv_sec += TIMEOUT_MS / 1000;
		/* The events of earlier rounds may come too. */
		do {
			if (sem_timedwait(&me->event, &limit) && errno == ETIMEDOUT) {
				count(&s->errors, 1);
				return NULL;
			}
		} while (__atomic_load_n(&me->deadline_ns, __ATOMIC_ACQUIRE) != at);
		count(&s->arms, 1);
	}
	return NULL;
}

static void *wait_for_all(void *arg)
{
	struct shared *s = arg;
	struct twheel_event ev[4];
	int i, n;

	while (!__atomic_load_n(&s->ended, __ATOMIC_ACQUIRE)) {
		if (twheel_wait(s->w, -1) != 1)
			count(&s->errors, 1);
		n = twheel_read(s->w, ev, 4);
		if (n < 0)
			count(&s->errors, 1);
		for (i = 0; i < n; i++) {
			struct sleeper *sleeper = (struct sleeper *)(uintptr_t)ev[i].user_data;

			__atomic_store_n(&sleeper->deadline_ns, ev[i].deadline_ns,
					 __ATOMIC_RELEASE);
			sem_post(&sleeper->event);
		}
	}
	return NULL;
}

/* One thread waits without a limit while others arm timers and sleep: each event is delivered. */
TEST_F_TIMEOUT(threads, nobody_oversleeps, STRESS_TIMEOUT)
{
	struct sleeper sleepers[MAX_THREADS];
	struct shared s = { .w = self->w };
	pthread_t thread[MAX_THREADS], reader;
	unsigned int i;

	for (i = 0; i < variant->threads; i++) {
		sleepers[i] = (struct sleeper) { .s = &s };
		ASSERT_EQ(0, sem_init(&sleepers[i].event, 0, 0));
		ASSERT_EQ(0, twheel_add(self->w, NEVER, (uintptr_t)&sleepers[i],
					&sleepers[i].id));
	}
	ASSERT_EQ(0, pthread_create(&reader, NULL, wait_for_all, &s));
	for (i = 0; i < variant->threads; i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, arm_and_sleep, &sleepers[i]));
	run_for(seconds());
	for (i = 0; i < variant->threads; i++)
		ASSERT_EQ(0, pthread_join(thread[i], NULL));
	__atomic_store_n(&s.ended, 1, __ATOMIC_RELEASE);
	ASSERT_EQ(0, twheel_wake(self->w));
	ASSERT_EQ(0, pthread_join(reader, NULL));
	TH_LOG("%llu armings", (unsigned long long)s.arms);
	EXPECT_EQ(0, s.errors);
	EXPECT_NE(0, s.arms);
	for (i = 0; i < variant->threads; i++) {
		EXPECT_EQ(0, twheel_del(self->w, sleepers[i].id));
		sem_destroy(&sleepers[i].event);
	}
}

/* ---- Threads start and end, wheels open and close ---- */

static void *come_and_go(void *arg)
{
	struct shared *s = arg;
	__u64 seed = now(CLOCK_REALTIME) ^ (uintptr_t)&seed;
	struct twheel_options o = {
		.size = sizeof(o),
		.flags = TWHEEL_OPEN_INPROCESS,
		.max_timers = 1000,
	};
	struct twheel *own;
	uint64_t id[20], other;
	unsigned int i, started = 0;

	/* Between two wheels, one of which is closed. */
	if (!strcmp(twheel_backend(s->w), "kernel"))
		o.flags = TWHEEL_OPEN_KERNEL;
	if (twheel_open(&own, &o)) {
		count(&s->errors, 1);
		return NULL;
	}
	for (i = 0; i < 20; i++) {
		if (!twheel_add(s->w, some_deadline(s->w, &seed), 0, &id[started]))
			started++;
		if (twheel_add(own, twheel_now(own) + HOUR, 0, &other))
			count(&s->errors, 1);
	}
	twheel_close(own);
	for (i = 0; i < started; i++) {
		if (twheel_del(s->w, id[i]) < 0)
			count(&s->errors, 1);
	}
	count(&s->read, started);
	return NULL;
}

TEST_F_TIMEOUT(threads, come_and_go, STRESS_TIMEOUT)
{
	struct shared s = { .w = self->w };
	struct twheel_stats stats;
	struct twheel_event ev;
	__u64 end = now(CLOCK_MONOTONIC) + seconds() * NS_PER_SEC;

	while (now(CLOCK_MONOTONIC) < end) {
		run_threads(_metadata, variant->threads, come_and_go, &s, 0);
		EXPECT_GE(twheel_read(self->w, &ev, 1), 0);
	}
	EXPECT_EQ(0, s.errors);
	EXPECT_NE(0, s.read);
	/* The wheel has as many slots as were in use at once, and no more. */
	ASSERT_EQ(0, twheel_stats(self->w, &stats));
	EXPECT_LE(stats.allocated, 2 * 64 * variant->threads);
}

/* ---- Each key that was set expires or is removed exactly once ---- */

struct keys {
	struct twheel_keyed *k;
	uint64_t set;
	uint64_t left;
	uint64_t errors;
};

static void has_left(const void *key, size_t len, uint64_t user_data, void *arg)
{
	struct keys *keys = arg;

	count(&keys->left, 1);
	if (len != 1 || user_data != *(const unsigned char *)key)
		count(&keys->errors, 1);
}

static void *stress_keys(void *arg)
{
	struct keys *keys = arg;
	struct twheel *w = twheel_keyed_wheel(keys->k);
	__u64 seed = now(CLOCK_REALTIME) ^ (uintptr_t)&seed;

	while (!over()) {
		unsigned char key = next_random(&seed) % 64;
		uint64_t old;
		int ret = 0;

		switch (next_random(&seed) % 8) {
		case 0:
			ret = twheel_keyed_remove(keys->k, &key, 1, NULL);
			count(&keys->left, ret == 0);
			break;
		case 1:
			ret = twheel_keyed_run(keys->k, has_left, keys);
			break;
		case 2:
			if (!(next_random(&seed) % 64))
				twheel_keyed_drain(keys->k, has_left, keys);
			break;
		case 3:
			ret = twheel_wait(w, 0);
			break;
		case 4:
			ret = twheel_keyed_move(keys->k, &key, 1, some_deadline(w, &seed));
			break;
		default:
			ret = twheel_keyed_set(keys->k, &key, 1, some_deadline(w, &seed), key,
					       &old);
			if (ret == 1 && old != key)
				count(&keys->errors, 1);
			count(&keys->set, ret == 0);
		}
		if (ret < 0 && ret != -ENOENT)
			count(&keys->errors, 1);
	}
	return NULL;
}

TEST_F_TIMEOUT(threads, keys, STRESS_TIMEOUT)
{
	struct twheel_options o = { .size = sizeof(o), .flags = variant->flags, .tick_ns = 131072 };
	struct keys keys = { };

	ASSERT_EQ(0, twheel_keyed_open(&keys.k, &o));
	run_threads(_metadata, variant->threads, stress_keys, &keys, seconds());
	twheel_keyed_drain(keys.k, has_left, &keys);
	EXPECT_EQ(0, twheel_keyed_count(keys.k));
	EXPECT_EQ(0, keys.errors);
	EXPECT_EQ(keys.set, keys.left);
	EXPECT_NE(0, keys.set);
	twheel_keyed_close(keys.k);
}

/* ---- Two processes share a wheel ---- */

FIXTURE(passed) {
	struct twheel *w;
	int socket[2];
};

FIXTURE_SETUP(passed)
{
	struct twheel_options o = { .size = sizeof(o), .flags = TWHEEL_OPEN_KERNEL };

	OPEN_OR_SKIP(&o, &self->w);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, self->socket));
}

FIXTURE_TEARDOWN(passed)
{
	lib_close(_metadata, self->w);
}

/* The other process receives the descriptor and an id, and moves the timer. */
static void mover(int socket, unsigned int moves)
{
	struct twheel_timer t;
	struct twheel *w;
	struct twheel_info i;
	uint64_t id;
	int fd;

	fd = receive_fd(socket);
	/* Even with a blocking descriptor, reading does not block. */
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	if (fd < 0 || twheel_open_fd(&w, fd) || twheel_fd(w) != fd ||
	    strcmp(twheel_backend(w), "kernel") || read(socket, &id, sizeof(id)) != sizeof(id))
		_exit(2);
	t = (struct twheel_timer) { .id = id };
	if (twheel_info(w, &i) || i.tick_ns != DEFAULT_TICK || lib_get(w, &t) || t.user_data != 5)
		_exit(3);
	for (; moves; moves--) {
		twheel_set(w, id, twheel_now(w) + 100 * NS_PER_MS);
		sleep_ms(1);
	}
	twheel_close(w);
	_exit(0);
}

/*
 * A dead man's switch: no event comes while the other process moves the timer, and one event
 * when that process exits.
 */
TEST_F(passed, moved_by_another)
{
	struct twheel_timer t = {
		.user_data = 5,
		.deadline_ns = 5 * NS_PER_SEC,
		.flags = TWHEEL_KEEP,
	};
	struct twheel_event ev;
	__u64 start;
	pid_t child;

	ASSERT_EQ(0, lib_register(self->w, &t));
	child = fork_child(_metadata);
	if (!child) {
		/* Use nothing that was inherited, only what was passed. */
		twheel_close(self->w);
		mover(self->socket[1], 300);
	}
	ASSERT_TRUE(send_fd(self->socket[0], twheel_fd(self->w)));
	ASSERT_EQ(sizeof(t.id), write(self->socket[0], &t.id, sizeof(t.id)));
	start = now(CLOCK_MONOTONIC);
	do {
		ASSERT_EQ(1, twheel_wait(self->w, TIMEOUT_MS * NS_PER_MS));
	} while (!twheel_read(self->w, &ev, 1));
	EXPECT_EQ(t.id, ev.id);
	EXPECT_EQ(5, ev.user_data);
	EXPECT_GE(ev.expired_ns, ev.deadline_ns);
	EXPECT_GE(now(CLOCK_MONOTONIC), start + 100 * NS_PER_MS);
	ASSERT_EQ(0, status_of(child));
	EXPECT_EQ(TWHEEL_IDLE, lib_cancel(self->w, t.id));
}

/* Runs two threads in a process that shares the timers. */
static void share(struct shared *s, int fd)
{
	pthread_t thread;

	if (twheel_open_fd(&s->w, fd) ||
	    pthread_create(&thread, NULL, stress_shared, s))
		_exit(2);
	run_for(seconds());
	pthread_join(thread, NULL);
	twheel_close(s->w);
	_exit(0);
}

/* Two processes arm, disarm and read the same timers: each arming ends once. */
TEST_F_TIMEOUT(passed, same_timers_of_two_processes, STRESS_TIMEOUT)
{
	struct shared *s = mmap(NULL, 2 * sizeof(*s), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint64_t ended, read;
	struct twheel_event ev;
	struct twheel_stats stats;
	unsigned int i;
	int n;
	pid_t child[2];

	ASSERT_TRUE(s != MAP_FAILED);
	for (i = 0; i < TIMERS; i++) {
		s[0].id[i] = reserve_timer(_metadata, self->w, i);
		s[1].id[i] = s[0].id[i];
	}
	for (i = 0; i < 2; i++) {
		child[i] = fork_child(_metadata);
		if (!child[i])
			share(&s[i], dup(twheel_fd(self->w)));
	}
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, status_of(child[i]));
		EXPECT_EQ(0, s[i].errors);
		EXPECT_NE(0, s[i].arms);
		EXPECT_NE(0, s[i].read);
	}
	ended = s[0].ended + s[1].ended;
	read = s[0].read + s[1].read;
	for (i = 0; i < TIMERS; i++)
		ended += twheel_clear(self->w, s->id[i]) == 1;
	while ((n = twheel_read(self->w, &ev, 1)) > 0)
		read++;
	ASSERT_EQ(0, twheel_stats(self->w, &stats));
	EXPECT_EQ(s[0].arms + s[1].arms, ended + read);
	EXPECT_EQ(read, stats.delivered);
	EXPECT_EQ(0, stats.unread);
}

/*
 * One process drains timers that the other adds, sets, deletes and reads. A set cannot tell
 * that a timer was drained, so there is no ledger. But afterwards no slot is used twice, and
 * each armed timer expires.
 */
TEST_F_TIMEOUT(passed, drained, STRESS_TIMEOUT)
{
	enum { N = 500 };
	struct stress s = { .w = self->w, .drains = true };
	struct twheel_event ev[N];
	unsigned int i, round;
	uint64_t id[N];
	pid_t child;

	s.events = calloc(ADDS, 1);
	s.answers = calloc(ADDS, 1);
	ASSERT_TRUE(s.events && s.answers);
	child = fork_child(_metadata);
	if (!child) {
		struct twheel *other;

		if (twheel_open_fd(&other, twheel_fd(self->w)))
			_exit(1);
		for (;;) {
			if (twheel_drain(other, TWHEEL_DRAIN_CANCEL) < 0)
				_exit(1);
			sleep_ms(1);
		}
	}
	run_threads(_metadata, 2, stress_timers, &s, seconds());
	EXPECT_TRUE(killed(child));
	TH_LOG("%llu added, %llu read, %llu drained", (unsigned long long)s.adds,
	       (unsigned long long)s.read, (unsigned long long)s.drained);
	EXPECT_NE(0, s.read);
	/* Drained timers stay, idle, so no id is stale. */
	EXPECT_EQ(0, s.drained);
	/* Read the events of earlier armings. */
	while (lib_take(self->w, ev, N, QUIET_MS) > 0)
		;
	for (round = 0; round < 3; round++) {
		bool seen[N] = { false };

		for (i = 0; i < N; i++)
			ASSERT_EQ(0, twheel_add(self->w, twheel_after(self->w, NS_PER_MS), i,
						&id[i]));
		ASSERT_EQ(N, lib_collect(self->w, ev, N));
		for (i = 0; i < N; i++) {
			ASSERT_LT(ev[i].user_data, N);
			EXPECT_FALSE(seen[ev[i].user_data]);
			seen[ev[i].user_data] = true;
			EXPECT_EQ(id[ev[i].user_data], ev[i].id);
			EXPECT_EQ(0, twheel_del(self->w, ev[i].id));
		}
	}
	free(s.events);
	free(s.answers);
}

/* Closing the wheel ends the timers of twheel_add() in this process, but not those of REGISTER. */
TEST_F(passed, close)
{
	struct twheel_timer t = { .deadline_ns = HOUR };
	struct twheel_stats before, after;
	struct twheel *w;
	uint64_t id;
	int i;

	ASSERT_EQ(0, twheel_stats(self->w, &before));
	ASSERT_EQ(0, twheel_open_fd(&w, dup(twheel_fd(self->w))));
	for (i = 0; i < 200; i++)
		ASSERT_EQ(0, twheel_add(w, 1, i, &id));
	EXPECT_EQ(0, twheel_wake(w));
	ASSERT_EQ(0, lib_register(w, &t));
	twheel_close(w);
	ASSERT_EQ(0, twheel_stats(self->w, &after));
	EXPECT_EQ(before.allocated + 1, after.allocated);
	EXPECT_EQ(0, after.unread);
	EXPECT_EQ(TWHEEL_ARMED, lib_cancel(self->w, t.id));
}

/* A shared timer that was armed before the close stays armed. */
TEST_F(passed, close_and_expire)
{
	struct twheel_timer t = { .user_data = 9, .flags = TWHEEL_KEEP | TWHEEL_DISARMED };
	struct twheel_event ev;
	struct twheel *w;

	ASSERT_EQ(0, lib_register(self->w, &t));
	ASSERT_EQ(0, twheel_open_fd(&w, dup(twheel_fd(self->w))));
	EXPECT_EQ(0, twheel_set(w, t.id, twheel_now(w) + NS_PER_MS));
	twheel_close(w);
	EXPECT_EQ(1, twheel_wait(self->w, 5 * NS_PER_SEC));
	EXPECT_EQ(1, twheel_read(self->w, &ev, 1));
	EXPECT_EQ(9, ev.user_data);
	EXPECT_EQ(TWHEEL_IDLE, lib_cancel(self->w, t.id));
}

/*
 * A process is killed between twheel_wake() and the read. No other process sees an event of
 * that, and the wheel does not stay readable. The timer that is left can be listed and
 * deleted.
 */
TEST_F(passed, killed_while_it_wakes)
{
	struct twheel_timer left[8];
	struct twheel *other;
	uint32_t cursor = 0;
	struct twheel_event ev;
	pid_t child;
	int n;

	child = fork_child(_metadata);
	if (!child) {
		must_end_soon();
		if (twheel_open_fd(&other, dup(twheel_fd(self->w))) || twheel_wake(other))
			_exit(1);
		raise(SIGKILL);
	}
	EXPECT_EQ(SIGKILL, status_of(child));
	/* LIST shows the timer as idle, so a program that counts armed timers does not count it. */
	ASSERT_EQ(1, twheel_list(self->w, left, ARRAY_SIZE(left), &cursor));
	EXPECT_EQ(TWHEEL_IDLE, left[0].state);
	EXPECT_EQ(0, left[0].deadline_ns);
	cursor = 0;
	ASSERT_EQ(1, twheel_wait(self->w, 0));
	EXPECT_EQ(0, twheel_read(self->w, &ev, 1));
	EXPECT_TRUE(quiet(self->w));
	EXPECT_EQ(0, twheel_wait(self->w, 0));
	n = twheel_list(self->w, left, ARRAY_SIZE(left), &cursor);
	ASSERT_EQ(1, n);
	EXPECT_EQ(TWHEEL_IDLE, left[0].state);
	EXPECT_EQ(0, left[0].user_data);
	EXPECT_EQ(0, twheel_del(self->w, left[0].id));
	cursor = 0;
	EXPECT_EQ(0, twheel_list(self->w, left, ARRAY_SIZE(left), &cursor));
	EXPECT_EQ(0, twheel_wake(self->w));
	EXPECT_EQ(1, twheel_wait(self->w, 0));
}

/* A process is killed in the middle of everything: the others and the wheel go on. */
TEST_F_TIMEOUT(passed, killed, STRESS_TIMEOUT)
{
	__u64 end = now(CLOCK_MONOTONIC) + seconds() * NS_PER_SEC;
	__u64 seed = end;
	unsigned int rounds = 0;

	while (now(CLOCK_MONOTONIC) < end || rounds < 3) {
		uint64_t at, id;
		struct twheel_event ev;
		struct shared s = { };
		struct stress st = { };
		pthread_t thread[2];
		struct twheel *w;
		int n;
		pid_t child;

		child = fork_child(_metadata);
		if (!child) {
			unsigned int i;

			if (twheel_open_fd(&w, dup(twheel_fd(self->w))))
				_exit(1);
			st.w = w;
			s.w = w;
			st.events = calloc(ADDS, 1);
			st.answers = calloc(ADDS, 1);
			for (i = 0; i < TIMERS; i++) {
				struct twheel_timer t = {
					.deadline_ns = HOUR,
					.flags = TWHEEL_KEEP,
				};

				lib_register(w, &t);
				s.id[i] = t.id;
			}
			pthread_create(&thread[0], NULL, stress_shared, &s);
			pthread_create(&thread[1], NULL, stress_timers, &st);
			pause();
			_exit(1);
		}
		sleep_ms(20 + next_random(&seed) % 100);
		ASSERT_TRUE(killed(child));

		/* An event that it has left is readable, and does not hide our events. */
		at = twheel_now(self->w) + NS_PER_MS;
		ASSERT_EQ(0, twheel_add(self->w, at, 4242 + ADDS, &id));
		do {
			n = twheel_wait(self->w, TIMEOUT_MS * NS_PER_MS);
			ASSERT_EQ(1, n);
			n = twheel_read(self->w, &ev, 1);
			ASSERT_GE(n, 0);
		} while (!n || ev.id != id);
		EXPECT_EQ(4242 + ADDS, ev.user_data);
		EXPECT_EQ(at, ev.deadline_ns);
		EXPECT_EQ(0, twheel_del(self->w, id));
		rounds++;
	}
}

TEST_HARNESS_MAIN
