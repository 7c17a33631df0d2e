// SPDX-License-Identifier: GPL-2.0
/*
 * libtwheel: timeouts by key, with both backends.
 */
#include "lib_test.h"

#include <setjmp.h>

#include <libtwheel_keyed.h>

FIXTURE(keyed) {
	struct twheel_keyed *k;
	struct twheel *w;
};

FIXTURE_VARIANT(keyed) {
	__u32 flags;
};

VARIANT(keyed, kernel, .flags = TWHEEL_OPEN_KERNEL);
VARIANT(keyed, inprocess, .flags = TWHEEL_OPEN_INPROCESS);

FIXTURE_SETUP(keyed)
{
	struct twheel_options o = { .size = sizeof(o), .flags = variant->flags };

	ASSERT_EQ(0, unsetenv("TWHEEL_BACKEND"));
	if (variant->flags & TWHEEL_OPEN_KERNEL && !have_device())
		SKIP(return, "no " TWHEEL_DEVICE);
	ASSERT_EQ(0, twheel_keyed_open(&self->k, &o));
	self->w = twheel_keyed_wheel(self->k);
}

FIXTURE_TEARDOWN(keyed)
{
	if (!self->k)
		return;
	lib_conserved(_metadata, self->w);
	twheel_keyed_close(self->k);
	EXPECT_FALSE(leaks());
}

/* The keys that have expired, in order. */
struct left {
	unsigned int count;
	char keys[64][16];
	uint64_t data[64];
	struct twheel_keyed *k;
};

static void note(const void *key, size_t len, uint64_t user_data, void *arg)
{
	struct left *left = arg;

	if (left->count == 64 || len > 15)
		return;
	memcpy(left->keys[left->count], key, len);
	left->keys[left->count][len] = '\0';
	left->data[left->count++] = user_data;
}

/* Runs the handler until @n keys have expired. */
static int keyed_collect(struct twheel_keyed *k, twheel_keyed_fn fn, struct left *left, int n)
{
	int got = 0, ret;

	while (got < n) {
		ret = twheel_wait(twheel_keyed_wheel(k), TIMEOUT_MS * NS_PER_MS);
		if (ret <= 0)
			return ret ? ret : got;
		ret = twheel_keyed_run(k, fn, left);
		if (ret < 0)
			return ret;
		got += ret;
	}
	return got;
}

TEST_F(keyed, verbs)
{
	struct left left = { };
	uint64_t at = twheel_now(self->w), data = 0;
	unsigned int i;

	EXPECT_EQ(0, twheel_keyed_count(self->k));
	EXPECT_EQ(-EINVAL, twheel_keyed_set(self->k, "", 0, at, 0, NULL));
	EXPECT_EQ(-EINVAL, twheel_keyed_set(self->k, "", SIZE_MAX, at, 0, NULL));
	EXPECT_EQ(-ENOENT, twheel_keyed_move(self->k, "", SIZE_MAX, at));
	EXPECT_EQ(-ENOENT, twheel_keyed_remove(self->k, "", SIZE_MAX, NULL));
	EXPECT_EQ(0, twheel_keyed_set(self->k, "a", 1, at + 30 * NS_PER_MS, 1, NULL));
	EXPECT_EQ(0, twheel_keyed_set(self->k, "ab", 2, at + HOUR, 2, NULL));
	EXPECT_EQ(0, twheel_keyed_set(self->k, "a\0b", 3, at + HOUR, 3, NULL));
	EXPECT_EQ(3, twheel_keyed_count(self->k));
	/* Setting a key again replaces its deadline and data, and returns the old data. */
	EXPECT_EQ(1, twheel_keyed_set(self->k, "ab", 2, at + HOUR, 5, &data));
	EXPECT_EQ(2, data);
	EXPECT_EQ(1, twheel_keyed_set(self->k, "ab", 2, at + 60 * NS_PER_MS, 4, NULL));
	data = 9;
	EXPECT_EQ(3, twheel_keyed_count(self->k));
	EXPECT_EQ(0, twheel_keyed_move(self->k, "a", 1, at + 90 * NS_PER_MS));
	EXPECT_EQ(-ENOENT, twheel_keyed_move(self->k, "b", 1, at));
	EXPECT_EQ(-ENOENT, twheel_keyed_remove(self->k, "b", 1, NULL));
	EXPECT_EQ(0, twheel_keyed_remove(self->k, "a\0b", 3, &data));
	EXPECT_EQ(3, data);
	EXPECT_EQ(-ENOENT, twheel_keyed_remove(self->k, "a\0b", 3, &data));

	EXPECT_EQ(2, keyed_collect(self->k, note, &left, 2));
	EXPECT_GE(twheel_now(self->w), at + 90 * NS_PER_MS);
	/* In any order, because a slow machine may find both due at once. */
	i = strcmp(left.keys[0], "ab") ? 1 : 0;
	EXPECT_STREQ("ab", left.keys[i]);
	EXPECT_EQ(4, left.data[i]);
	EXPECT_STREQ("a", left.keys[1 - i]);
	EXPECT_EQ(1, left.data[1 - i]);
	/* Both keys are gone. */
	EXPECT_EQ(0, twheel_keyed_count(self->k));
	EXPECT_EQ(-ENOENT, twheel_keyed_remove(self->k, "a", 1, NULL));
	EXPECT_EQ(-ENOENT, twheel_keyed_move(self->k, "a", 1, at));
	EXPECT_EQ(0, twheel_keyed_run(self->k, NULL, NULL));
}

struct opened {
	struct twheel_options o;
	struct twheel_keyed *k;
};

static void *open_and_end(void *arg)
{
	struct opened *opened = arg;

	pthread_cancel(pthread_self());
	if (twheel_keyed_open(&opened->k, &opened->o))
		opened->k = NULL;
	pthread_testcancel();
	return NULL;
}

/*
 * A thread is canceled before or after it opens keys, not within, even if it is the first of
 * the process, which chooses the hash seed.
 */
TEST(canceled_while_it_opens)
{
	struct opened opened = {
		.o = { .size = sizeof(opened.o), .flags = TWHEEL_OPEN_INPROCESS },
	};
	pthread_t thread;
	void *ret;

	ASSERT_EQ(0, unsetenv("TWHEEL_BACKEND"));
	ASSERT_EQ(0, pthread_create(&thread, NULL, open_and_end, &opened));
	ASSERT_EQ(0, pthread_join(thread, &ret));
	EXPECT_EQ(PTHREAD_CANCELED, ret);
	ASSERT_NE(NULL, opened.k);
	twheel_keyed_close(opened.k);
}

/* A key that has expired, but was not handled yet, can still be moved or removed. */
TEST_F(keyed, expired_unread)
{
	struct left left = { };

	EXPECT_EQ(0, twheel_keyed_set(self->k, "x", 1, 1, 0, NULL));
	EXPECT_EQ(0, twheel_keyed_set(self->k, "y", 1, 1, 0, NULL));
	EXPECT_EQ(0, twheel_keyed_set(self->k, "z", 1, 1, 0, NULL));
	ASSERT_EQ(1, twheel_wait(self->w, TIMEOUT_MS * NS_PER_MS));
	EXPECT_EQ(3, twheel_keyed_count(self->k));
	EXPECT_EQ(0, twheel_keyed_remove(self->k, "x", 1, NULL));
	EXPECT_EQ(0, twheel_keyed_move(self->k, "y", 1, twheel_now(self->w) + HOUR));
	EXPECT_EQ(1, keyed_collect(self->k, note, &left, 1));
	EXPECT_STREQ("z", left.keys[0]);
	sleep_ms(QUIET_MS);
	EXPECT_EQ(0, twheel_keyed_run(self->k, note, &left));
	EXPECT_EQ(1, twheel_keyed_count(self->k));
}

static void set_again(const void *key, size_t len, uint64_t user_data, void *arg)
{
	struct left *left = arg;
	uint64_t later = twheel_now(twheel_keyed_wheel(left->k)) + HOUR;

	note(key, len, user_data, arg);
	if (left->count < 3)
		twheel_keyed_set(left->k, key, len, 1, user_data + 1, NULL);
	else
		twheel_keyed_set(left->k, "new", 3, later, 0, NULL);
}

/* A handler may use all keys, including its own. */
TEST_F(keyed, handler_uses_all_keys)
{
	struct left left = { .k = self->k };

	EXPECT_EQ(0, twheel_keyed_set(self->k, "k", 1, 1, 10, NULL));
	EXPECT_EQ(3, keyed_collect(self->k, set_again, &left, 3));
	EXPECT_EQ(3, left.count);
	EXPECT_EQ(12, left.data[2]);
	EXPECT_EQ(1, twheel_keyed_count(self->k));
	EXPECT_EQ(0, twheel_keyed_remove(self->k, "new", 3, NULL));
}

static void set_for_ever(const void *key, size_t len, uint64_t user_data, void *arg)
{
	struct left *left = arg;

	if (++left->count < 1000)
		twheel_keyed_set(left->k, key, len, 1, user_data, NULL);
}

/* A handler sets its key to be due at once: the run returns, and a loop can wait for the rest. */
TEST_F(keyed, handler_sets_key_due_now)
{
	struct left left = { .k = self->k };
	char key[16];
	int i, ret;

	/* The keys that were set before all get their turn. */
	for (i = 0; i < 200; i++) {
		snprintf(key, sizeof(key), "key%d", i);
		EXPECT_EQ(0, twheel_keyed_set(self->k, key, strlen(key), 1, 0, NULL));
	}
	ret = twheel_keyed_run(self->k, set_for_ever, &left);
	EXPECT_GE(ret, 200);
	EXPECT_LT(ret, 300);
	EXPECT_EQ(ret, left.count);
	EXPECT_EQ(200, twheel_keyed_count(self->k));
	EXPECT_TRUE(readable(twheel_fd(self->w), TIMEOUT_MS));
	EXPECT_EQ(200, twheel_keyed_drain(self->k, NULL, NULL));
}

TEST_F(keyed, drain)
{
	struct left left = { };
	bool seen[40] = { };
	char key[16];
	uint64_t i;

	for (i = 0; i < 40; i++) {
		snprintf(key, sizeof(key), "key%llu", (unsigned long long)i);
		/* Some keys have expired and are unread. */
		EXPECT_EQ(0, twheel_keyed_set(self->k, key, strlen(key),
					      i % 2 ? 1 : twheel_now(self->w) + HOUR, i, NULL));
	}
	EXPECT_EQ(40, twheel_keyed_drain(self->k, note, &left));
	EXPECT_EQ(40, left.count);
	for (i = 0; i < 40; i++) {
		ASSERT_LT(left.data[i], 40);
		snprintf(key, sizeof(key), "key%llu", (unsigned long long)left.data[i]);
		EXPECT_STREQ(key, left.keys[i]);
		EXPECT_FALSE(seen[left.data[i]]);
		seen[left.data[i]] = true;
	}
	EXPECT_EQ(0, twheel_keyed_count(self->k));
	EXPECT_EQ(0, twheel_keyed_drain(self->k, NULL, NULL));
	EXPECT_EQ(0, twheel_keyed_run(self->k, note, &left));
}

/* A value from malloc() is not lost when its key is set again. */
TEST_F(keyed, old_value)
{
	uint64_t at = twheel_now(self->w) + HOUR, old = 0;
	char key[16];
	unsigned int i, j;

	for (j = 0; j < 3; j++) {
		for (i = 0; i < 100; i++) {
			char *value = malloc(32);

			ASSERT_TRUE(!!value);
			snprintf(value, 32, "%u of %u", j, i);
			snprintf(key, sizeof(key), "key%u", i);
			ASSERT_EQ(!!j, twheel_keyed_set(self->k, key, strlen(key), at,
							(uintptr_t)value, &old));
			if (!j)
				continue;
			snprintf(key, sizeof(key), "%u of %u", j - 1, i);
			EXPECT_STREQ(key, (char *)(uintptr_t)old);
			free((void *)(uintptr_t)old);
		}
	}
	for (i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "key%u", i);
		EXPECT_EQ(0, twheel_keyed_remove(self->k, key, strlen(key), &old));
		free((void *)(uintptr_t)old);
	}
	/* A set that failed has replaced nothing. */
	old = 7;
	EXPECT_EQ(-EINVAL, twheel_keyed_set(self->k, "", 0, at, 1, &old));
	EXPECT_EQ(7, old);
}

/* ---- Handlers that do not return ---- */

enum { BATCH = 10 };

enum leaving { BY_JUMP, BY_CANCEL, BY_EXIT, NR_LEAVING };

struct leaver {
	struct twheel_keyed *k;
	enum leaving how;
	bool drain;
	/* How often each key was handled. */
	unsigned int told[BATCH];
	/* After how many more keys the handler leaves. */
	int after;
	jmp_buf out;
};

static void leave_after(const void *key, size_t len, uint64_t user_data, void *arg)
{
	struct leaver *l = arg;

	(void)len;
	(void)user_data;
	l->told[*(const int *)key]++;
	if (--l->after)
		return;
	if (l->how == BY_JUMP)
		longjmp(l->out, 1);
	if (l->how == BY_EXIT)
		pthread_exit(l);
	pthread_cancel(pthread_self());
	pthread_testcancel();
}

static void run_or_drain(struct leaver *l)
{
	if (l->drain)
		twheel_keyed_drain(l->k, leave_after, l);
	else
		twheel_keyed_run(l->k, leave_after, l);
}

static void run_and_come_back(struct leaver *l)
{
	if (!setjmp(l->out))
		run_or_drain(l);
}

static void *run_and_leave(void *arg)
{
	run_or_drain(arg);
	pthread_testcancel();
	return NULL;
}

/*
 * A handler may leave by an exception or by ending its thread: each key expires exactly once,
 * and the rest of the batch comes with the next run.
 */
TEST_F(keyed, leaving_handlers)
{
	int way, i, old;

	for (way = 0; way < 2 * NR_LEAVING; way++) {
		struct leaver l = {
			.k = self->k,
			.how = way / 2,
			.drain = way % 2,
			.after = 3,
		};
		struct twheel_event ev;
		pthread_t thread;
		void *ret;

		TH_LOG("%s, %s", l.drain ? "drain" : "run",
		       l.how == BY_JUMP ? "longjmp" : l.how == BY_EXIT ? "pthread_exit" : "cancel");
		for (i = 0; i < BATCH; i++)
			EXPECT_EQ(0, twheel_keyed_set(self->k, &i, sizeof(i), 1, 0, NULL));
		ASSERT_TRUE(is_unread(self->w));
		if (l.how == BY_JUMP) {
			run_and_come_back(&l);
			/* The thread's cancel state is as before. */
			EXPECT_EQ(0, pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old));
			EXPECT_EQ(PTHREAD_CANCEL_ENABLE, old);
		} else {
			ASSERT_EQ(0, pthread_create(&thread, NULL, run_and_leave, &l));
			ASSERT_EQ(0, pthread_join(thread, &ret));
			EXPECT_EQ(l.how == BY_EXIT ? (void *)&l : PTHREAD_CANCELED, ret);
		}
		EXPECT_EQ(0, l.after);
		/* A loop that waits gets the rest. */
		EXPECT_TRUE(is_unread(self->w));
		l.drain = false;
		run_or_drain(&l);
		for (i = 0; i < BATCH; i++)
			EXPECT_EQ(1, l.told[i]);
		EXPECT_EQ(0, twheel_keyed_count(self->k));
		EXPECT_EQ(0, twheel_keyed_run(self->k, NULL, NULL));
		EXPECT_EQ(0, twheel_keyed_drain(self->k, NULL, NULL));
		EXPECT_FALSE(readable(twheel_fd(self->w), QUIET_MS));
		EXPECT_EQ(0, twheel_read(self->w, &ev, 1));
	}
}

/* A key that has expired is no longer set, even if its handler has not run yet. */
static void use_the_others(const void *key, size_t len, uint64_t user_data, void *arg)
{
	struct leaver *l = arg;
	int i, me = *(const int *)key;

	(void)user_data;
	l->told[me]++;
	for (i = 0; i < BATCH; i++) {
		int ret = twheel_keyed_move(l->k, &i, len, NEVER);

		if (ret != -ENOENT && (ret || l->told[i]))
			l->told[i] += 100;
	}
}

/* A key that a handler moves has not expired; all others have. */
TEST_F(keyed, moved_in_handler)
{
	struct leaver l = { .k = self->k };
	int i;

	for (i = 0; i < BATCH; i++)
		EXPECT_EQ(0, twheel_keyed_set(self->k, &i, sizeof(i), 1, 0, NULL));
	ASSERT_TRUE(is_unread(self->w));
	EXPECT_EQ(BATCH, twheel_keyed_run(self->k, use_the_others, &l) +
			 (int)twheel_keyed_count(self->k));
	twheel_keyed_drain(self->k, use_the_others, &l);
	for (i = 0; i < BATCH; i++)
		EXPECT_EQ(1, l.told[i]);
}

/* ---- Keys that an attacker chooses ---- */

enum { STRANGERS = 20000 };

struct chosen {
	__u32 a, b, c;
};

/* One round of the hash that uthash uses by default. */
static struct chosen mix(struct chosen s)
{
	s.a -= s.b; s.a -= s.c; s.a ^= s.c >> 13;
	s.b -= s.c; s.b -= s.a; s.b ^= s.a << 8;
	s.c -= s.a; s.c -= s.b; s.c ^= s.b >> 13;
	s.a -= s.b; s.a -= s.c; s.a ^= s.c >> 12;
	s.b -= s.c; s.b -= s.a; s.b ^= s.a << 16;
	s.c -= s.a; s.c -= s.b; s.c ^= s.b >> 5;
	s.a -= s.b; s.a -= s.c; s.a ^= s.c >> 3;
	s.b -= s.c; s.b -= s.a; s.b ^= s.a << 10;
	s.c -= s.a; s.c -= s.b; s.c ^= s.b >> 15;
	return s;
}

/* Each of its steps, undone. */
static struct chosen unmix(struct chosen s)
{
	s.c ^= s.b >> 15; s.c += s.b; s.c += s.a;
	s.b ^= s.a << 10; s.b += s.a; s.b += s.c;
	s.a ^= s.c >> 3; s.a += s.c; s.a += s.b;
	s.c ^= s.b >> 5; s.c += s.b; s.c += s.a;
	s.b ^= s.a << 16; s.b += s.a; s.b += s.c;
	s.a ^= s.c >> 12; s.a += s.c; s.a += s.b;
	s.c ^= s.b >> 13; s.c += s.b; s.c += s.a;
	s.b ^= s.a << 8; s.b += s.a; s.b += s.c;
	s.a ^= s.c >> 13; s.a += s.c; s.a += s.b;
	return s;
}

/* The default hash of a 12-byte key. */
static __u32 default_hash(struct chosen key)
{
	struct chosen s = { key.a + 0x9e3779b9, key.b + 0x9e3779b9, key.c + 0xfeedbeef };

	s = mix(s);
	s.c += sizeof(key);
	return mix(s).c;
}

/* The 12-byte key number @i; all of them have the same hash. */
static struct chosen colliding(__u32 i)
{
	struct chosen s = unmix((struct chosen) { i * 2654435761U, i, 0x12345678 });

	s.c -= sizeof(s);
	s = unmix(s);
	return (struct chosen) { s.a - 0x9e3779b9, s.b - 0x9e3779b9, s.c - 0xfeedbeef };
}

/* Returns the CPU time to set, find and remove those keys, or 0 if that failed. */
static uint64_t cost_of_keys(struct twheel_keyed *k, bool collide)
{
	uint64_t start = now(CLOCK_THREAD_CPUTIME_ID), seed = 88172645463325252ULL;
	static struct chosen keys[STRANGERS];
	__u32 i;

	for (i = 0; i < STRANGERS; i++) {
		keys[i] = collide ? colliding(i) :
			  (struct chosen) { i, next_random((__u64 *)&seed), i };
		if (twheel_keyed_set(k, &keys[i], sizeof(keys[i]), NEVER, i, NULL))
			return 0;
	}
	for (i = 0; i < STRANGERS; i++) {
		if (twheel_keyed_move(k, &keys[i], sizeof(keys[i]), NEVER) ||
		    twheel_keyed_remove(k, &keys[i], sizeof(keys[i]), NULL))
			return 0;
	}
	return now(CLOCK_THREAD_CPUTIME_ID) - start;
}

/*
 * Keys that all collide in the default hash cost the same as others. With that hash they would
 * cost 200 times as much.
 */
TEST_F_TIMEOUT(keyed, colliding, 300)
{
	uint64_t random, chosen;
	__u32 i;

	for (i = 0; i < 100; i++)
		ASSERT_EQ(0x12345678, default_hash(colliding(i)));
	random = cost_of_keys(self->k, false);
	chosen = cost_of_keys(self->k, true);
	TH_LOG("%llu ns a key, %llu ns if they collide", (unsigned long long)random / STRANGERS,
	       (unsigned long long)chosen / STRANGERS);
	ASSERT_NE(0, random);
	ASSERT_NE(0, chosen);
	EXPECT_LT(chosen, 20 * random);
}

/*
 * If another process cancels the timers of keys, the keys stay, and start again when they are
 * set or moved.
 */
TEST_F(keyed, drained)
{
	struct left left = { };
	uint64_t first = twheel_now(self->w);

	if (variant->flags & TWHEEL_OPEN_INPROCESS)
		return;
	EXPECT_EQ(0, twheel_keyed_set(self->k, "set", 3, first + HOUR, 1, NULL));
	EXPECT_EQ(0, twheel_keyed_set(self->k, "moved", 5, first + HOUR, 2, NULL));
	EXPECT_EQ(0, twheel_keyed_set(self->k, "gone", 4, first + HOUR, 3, NULL));
	EXPECT_EQ(0, twheel_keyed_set(self->k, "left", 4, first + HOUR, 4, NULL));
	EXPECT_EQ(4, cancel_all(twheel_fd(self->w)));
	EXPECT_EQ(1, twheel_keyed_set(self->k, "set", 3, first, 1, NULL));
	EXPECT_EQ(0, twheel_keyed_move(self->k, "moved", 5, first));
	EXPECT_EQ(0, twheel_keyed_remove(self->k, "gone", 4, NULL));
	EXPECT_EQ(2, keyed_collect(self->k, note, &left, 2));
	EXPECT_EQ(3, left.data[0] + left.data[1]);
	EXPECT_EQ(1, twheel_keyed_count(self->k));
}

/*
 * The same if another key has got the slot meanwhile: the first key's old entry in the table
 * of slots is not mistaken for it, and both expire.
 */
TEST_F(keyed, drained_slot_of_another)
{
	struct left left = { };
	uint64_t at = twheel_now(self->w);
	char first[2] = "a", key[16];
	unsigned int i, n = 0;

	if (variant->flags & TWHEEL_OPEN_INPROCESS)
		return;
	EXPECT_EQ(0, twheel_keyed_set(self->k, first, 1, at + HOUR, 1, NULL));
	EXPECT_EQ(1, cancel_all(twheel_fd(self->w)));
	/* More keys than the slots that a thread keeps, so one of these gets the slot. */
	for (i = 0; i < 200; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		EXPECT_EQ(0, twheel_keyed_set(self->k, key, strlen(key), at + HOUR, 2, NULL));
	}
	/* The key starts again, and its old slot remains the other key's. */
	EXPECT_EQ(1, twheel_keyed_set(self->k, first, 1, at, 1, NULL));
	EXPECT_EQ(1, keyed_collect(self->k, note, &left, 1));
	EXPECT_STREQ("a", left.keys[0]);
	for (i = 0; i < 200; i++) {
		snprintf(key, sizeof(key), "k%u", i);
		left.count = 0;
		EXPECT_EQ(0, twheel_keyed_move(self->k, key, strlen(key), at));
		n += keyed_collect(self->k, note, &left, 1) == 1 && !strcmp(key, left.keys[0]);
	}
	EXPECT_EQ(200, n);
	EXPECT_EQ(0, twheel_keyed_count(self->k));
}

/* A timer that another process has registered on the wheel is not taken for a key. */
TEST_F(keyed, foreign_timer)
{
	struct twheel_timer t = { .user_data = 1 };
	struct left left = { };

	ASSERT_EQ(0, lib_register(self->w, &t));
	EXPECT_EQ(0, twheel_keyed_set(self->k, "k", 1, twheel_now(self->w) + NS_PER_MS, 7, NULL));
	EXPECT_EQ(1, keyed_collect(self->k, note, &left, 1));
	EXPECT_EQ(7, left.data[0]);
	EXPECT_EQ(-ENOENT, lib_cancel(self->w, t.id));
	EXPECT_EQ(0, twheel_keyed_run(self->k, note, &left));
}

static void count(const void *key, size_t len, uint64_t user_data, void *arg)
{
	(void)key;
	(void)len;
	(void)user_data;
	++*(unsigned int *)arg;
}

/* Nor do such timers end a run before all expired keys are handled. */
TEST_F(keyed, foreign_among_many)
{
	enum { MANY = 300 };
	unsigned int i, counted = 0;
	uint64_t first = twheel_now(self->w);
	struct twheel_stats s;

	for (i = 0; i < MANY; i++) {
		struct twheel_timer t = { .deadline_ns = first, .flags = TWHEEL_ABSTIME };

		if (i % 100 == 30)
			ASSERT_EQ(0, lib_register(self->w, &t));
		EXPECT_EQ(0, twheel_keyed_set(self->k, &i, sizeof(i), first, 0, NULL));
	}
	/* Wait until all have expired; an in-process wheel is turned by its readers. */
	while (strcmp(twheel_backend(self->w), "inprocess") &&
	       !twheel_stats(self->w, &s) && s.unread < MANY)
		usleep(1000);
	EXPECT_EQ(MANY, twheel_keyed_run(self->k, count, &counted));
	EXPECT_EQ(MANY, counted);
	EXPECT_EQ(0, twheel_keyed_count(self->k));
}

/* A forked child has no keys, and takes none of its parent's events. */
TEST_F(keyed, fork)
{
	struct left left = { };
	pid_t pid;

	EXPECT_EQ(0, twheel_keyed_set(self->k, "k", 1, 1, 7, NULL));
	pid = fork_child(_metadata);
	if (!pid) {
		bool right = twheel_keyed_run(self->k, note, &left) == -ECHILD &&
			     twheel_keyed_set(self->k, "k", 1, 1, 7, NULL) == -ECHILD &&
			     twheel_keyed_set(self->k, "k", 0, 1, 7, NULL) == -ECHILD &&
			     twheel_keyed_move(self->k, "k", 1, 1) == -ECHILD &&
			     twheel_keyed_remove(self->k, "k", 1, NULL) == -ECHILD &&
			     !twheel_keyed_count(self->k) &&
			     !twheel_keyed_drain(self->k, note, &left);

		twheel_keyed_close(self->k);
		_exit(right ? 0 : 1);
	}
	ASSERT_EQ(0, status_of(pid));
	EXPECT_EQ(1, keyed_collect(self->k, note, &left, 1));
	EXPECT_EQ(7, left.data[0]);
}

/* Closing with keys left frees them, as the leak checker shows. */
TEST_F(keyed, close_full)
{
	__u32 i;

	for (i = 0; i < 1000; i++)
		ASSERT_EQ(0, twheel_keyed_set(self->k, &i, sizeof(i),
					      twheel_now(self->w) + HOUR, i, NULL));
	EXPECT_EQ(1000, twheel_keyed_count(self->k));
}

TEST_HARNESS_MAIN
