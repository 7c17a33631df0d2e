// SPDX-License-Identifier: GPL-2.0
/*
 * A race on the protocol of the deadline table, with the module's code, natively and with
 * ThreadSanitizer (G3, G4). Writers exchange words, mark and kick. A kernel thread reads the
 * events, and turns the wheel when next_ns says so.
 *
 * No two armings have the same deadline, because its low bits are the arming's number. So the
 * test knows how each arming ended, which must happen exactly once: an exchange got it back,
 * its event was read, or its expiration was withdrawn unread, which requires another arming of
 * that timer. No arming may be forgotten either. The clock stands still while the wheel has
 * work, so a word that is still there two ticks after it was due, and after its writer had
 * kicked, was forgotten.
 *
 * If many threads kick, one of them finds the marks of others that a turn has missed. So at
 * the end a single writer remains, and marks while the wheel turns for its earlier arming.
 *
 *   race_test [armings=NUMBER] [writers=NUMBER]
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/limits.h>
#include <linux/minmax.h>

#include "store.h"
#include "twheel_apply.h"
#include "twheel_timers.h"

#define TIMERS		6
#define MAX_WRITERS	8
#define EVENTS		16
/* A tick has room for the number of an arming. */
#define NUMBER_BITS	26
#define TICK		(1ULL << NUMBER_BITS)
/* About this many armings in a tick, so that neither side gets far ahead of the other. */
#define PER_TICK	12
/* How many ticks after its own an event must have been read. */
#define READ_TICKS	100
/* One of this many armings is made by the single writer. */
#define ALONE		16
/* The number of timers that the kernel touches in a turn: few, so that others get the lock. */
#define BUDGET		8

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct timers timers;
static struct flat flat;
/* The published time of the wheel's next turn. */
static u64 programmed = WHEEL_NEVER;
static struct twheel_slot *words[TIMERS];
static u32 slots[TIMERS];
/*
 * Each word has a lock that the writers take, so that they know what was there last. The
 * kernel does not wait for it.
 */
static pthread_mutex_t turns[TIMERS];
static u64 latest[TIMERS];
/* The clock in ticks, which the kernel thread advances. */
static u64 clock_ticks = 1;
static unsigned int writing;
/* The number of armings so far. */
static u64 made;
/* The number of writers that wait for an event. */
static unsigned int waiting;

static u64 armings = 1000000;
static u64 writers = 3;

/* How often each arming ended, by its number; it must be once. */
static unsigned char *ended;
/*
 * True if another arming followed after this one had expired, so that it may have been
 * withdrawn.
 */
static bool *replaced;
/* When its writer was done with it, in ticks; 0 until then. */
static u32 *done;
static u64 got_back, marked, kicks, early, late, lost, failures;

/* Called from race_step.h. Interrupts about one look in four, at each of its steps. */
void word_step(struct twheel_slot *slot)
{
	static unsigned int step;
	unsigned int yields;

	(void)slot;
	if (++step / 8 % 4)
		return;
	for (yields = 0; yields < 4; yields++)
		sched_yield();
}

static u64 now_ns(void)
{
	return __atomic_load_n(&clock_ticks, __ATOMIC_SEQ_CST) * TICK;
}

/* Checks whether @deadline is still there at @now, although the kernel should have seen it. */
static void check_late(u64 deadline, u64 now)
{
	u64 tick = deadline / TICK + 1;
	u64 known = __atomic_load_n(&done[deadline % TICK], __ATOMIC_SEQ_CST);

	if (known && now / TICK > (known > tick ? known : tick) + 2)
		__atomic_fetch_add(&late, 1, __ATOMIC_RELAXED);
}

static void ends(u64 deadline)
{
	__atomic_fetch_add(&ended[deadline % TICK], 1, __ATOMIC_RELAXED);
}

static void fail(const char *what, u64 count)
{
	if (!count)
		return;
	printf("# %s: %llu\n", what, count);
	failures++;
}

/* Publishes next_ns as at the end of a turn. */
static void publish_next(u64 now)
{
	u64 next = timers_next(&timers);

	programmed = timers_publish_next(&timers, next <= now ? 0 : next, now);
}

/* Finishes like any other call. */
static void finish(u64 now)
{
	u64 next = timers_next(&timers);

	if (next < programmed && next > now)
		programmed = timers_publish_next(&timers, next, now);
}

/* Turns the wheel if it is time, and reads what there is. Returns true if everything is over. */
static bool turn(bool last)
{
	struct twheel_event events[EVENTS];
	unsigned int nr, i;
	bool over, hurry;
	u64 now;

	pthread_mutex_lock(&lock);
	now = now_ns();
	if (programmed <= now) {
		timers_turn(&timers, now, BUDGET);
		publish_next(now);
	}
	nr = timers_peek(&timers, events, EVENTS, now);
	/* Now and then one event is not delivered. */
	i = now / TICK % 7 || !nr ? nr : nr - 1;
	i = timers_consume(&timers, events, i, now);
	finish(now);
	while (i--) {
		early += events[i].deadline_ns > events[i].expired_ns;
		check_late(events[i].deadline_ns, events[i].expired_ns);
		ends(events[i].deadline_ns);
	}
	over = last && programmed == WHEEL_NEVER && !nr && hlist_empty(&timers.ready);
	hurry = last || __atomic_load_n(&waiting, __ATOMIC_RELAXED) ||
		now / TICK <= __atomic_load_n(&made, __ATOMIC_RELAXED) / PER_TICK + 2;
	/* The clock does not advance while a tick is unfinished, or everything would be late. */
	if (hurry && programmed > now)
		__atomic_fetch_add(&clock_ticks, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&lock);
	return over;
}

static void *kernel(void *unused)
{
	bool last = false;

	while (!turn(last)) {
		last = !__atomic_load_n(&writing, __ATOMIC_ACQUIRE);
		sched_yield();
	}
	return unused;
}

static void kick(void)
{
	u64 now;

	pthread_mutex_lock(&lock);
	now = now_ns();
	timers_begin_kick(&timers);
	timers_turn(&timers, now, ~0U);
	timers.kicks--;
	publish_next(now);
	pthread_mutex_unlock(&lock);
	__atomic_fetch_add(&kicks, 1, __ATOMIC_RELAXED);
}

/* The protocol, from the mark on. Returns true if a KICK is needed. */
static bool mark(u32 slot, u64 to)
{
	unsigned long *marks = (unsigned long *)flat.marks + slot / 64;
	unsigned long *summary = (unsigned long *)store_summary(&flat.store);

	if (!(READ_ONCE(*marks) >> slot % 64 & 1))
		set_bit(slot % 64, marks);
	if (!(READ_ONCE(*summary) & 1))
		set_bit(0, summary);
	/* C of twheel_marks.c. */
	smp_mb();
	__atomic_fetch_add(&marked, 1, __ATOMIC_RELAXED);
	return to <= READ_ONCE(flat.store.table->next_ns);
}

/* Waits for the event of @deadline while no other writer uses its word. */
static void await(u64 deadline)
{
	u64 now = now_ns();
	u64 limit = (now > deadline ? now : deadline) / TICK + READ_TICKS;
	bool over;

	/* Time passes while they wait. */
	__atomic_fetch_add(&waiting, 1, __ATOMIC_RELAXED);
	do {
		sched_yield();
		over = now_ns() / TICK > limit;
		if (__atomic_load_n(&ended[deadline % TICK], __ATOMIC_SEQ_CST))
			break;
	} while (!over);
	__atomic_fetch_sub(&waiting, 1, __ATOMIC_RELAXED);
	if (over && !__atomic_load_n(&ended[deadline % TICK], __ATOMIC_SEQ_CST))
		__atomic_fetch_add(&lost, 1, __ATOMIC_RELAXED);
}

static void exchange(unsigned int i, u64 to, bool wait_for_event)
{
	u64 now, old;

	pthread_mutex_lock(&turns[i]);
	now = now_ns();
	old = xchg(&words[i]->deadline_ns, to);
	if (old) {
		ends(old);
		check_late(old, now);
		__atomic_fetch_add(&got_back, 1, __ATOMIC_RELAXED);
	} else if (to && latest[i]) {
		replaced[latest[i] % TICK] = true;
	}
	if (to)
		latest[i] = to;
	if (!wait_for_event)
		pthread_mutex_unlock(&turns[i]);
	if (to && to <= READ_ONCE(words[i]->wake_ns) && mark(slots[i], to))
		kick();
	if (to)
		__atomic_store_n(&done[to % TICK], now_ns() / TICK, __ATOMIC_SEQ_CST);
	if (wait_for_event) {
		await(to);
		pthread_mutex_unlock(&turns[i]);
	}
}

static void *writer(void *arg)
{
	u64 nr = (uintptr_t)arg;
	u64 random = nr + 1;
	u64 number;

	for (number = nr + 1; number <= armings - armings / ALONE; number += writers) {
		unsigned int i;
		u64 to;

		while (__atomic_load_n(&made, __ATOMIC_RELAXED) / PER_TICK >
		       now_ns() / TICK + 2)
			sched_yield();
		random = random * 6364136223846793005ULL + 1442695040888963407ULL;
		i = (random >> 33) % TIMERS;
		/*
		 * Usually soon, so that the kernel is at work there too; or in the past, or
		 * late.
		 */
		to = now_ns() / TICK + (random >> 40) % 6 - 1;
		if ((random >> 50) % 8 == 0)
			to += 70;
		__atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
		exchange(i, to * TICK + number, (random >> 44) % 16 == 0);
		if ((random >> 56) % 4 == 0)
			exchange(i, 0, false);
	}
	__atomic_fetch_sub(&writing, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Arms two timers at a time, the second of which while the wheel turns for the first. */
static void write_alone(void)
{
	u64 number = armings - armings / ALONE;
	unsigned int spins;
	u64 to;

	__atomic_fetch_add(&waiting, 1, __ATOMIC_RELAXED);
	while (number + 2 <= armings) {
		number++;
		to = (now_ns() / TICK + 2) * TICK + number;
		exchange(0, to, false);
		while (now_ns() < to)
			sched_yield();
		for (spins = number * 37 % 1024; spins; spins--)
			__atomic_signal_fence(__ATOMIC_SEQ_CST);
		number++;
		exchange(1, (now_ns() / TICK + 3) * TICK + number, true);
	}
	/* One is left if the number is odd. */
	if (number < armings)
		exchange(2, (now_ns() / TICK + 1) * TICK + armings, true);
	__atomic_fetch_sub(&waiting, 1, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&writing, 1, __ATOMIC_RELEASE);
}

static void set_up(void)
{
	struct wheel_shape shape = { .shift = NUMBER_BITS, .slot_bits = 4 };
	unsigned int i;

	shape.levels = wheel_max_levels(shape.shift, shape.slot_bits);
	wheel_init(&timers.wheel, &shape, calloc(1, wheel_bytes(&shape)), now_ns(),
		   store_fetch, &flat.store);
	flat_init(&flat, TIMERS);
	flat_grow(&flat, TIMERS);
	flat_touch(&flat, 0);
	timers_begin(&timers, &flat.store);
	timers_map(&timers, flat.header, FLAT_PAGE, 1, programmed);
	for (i = 0; i < TIMERS; i++) {
		struct twheel_op op = {
			.opcode = TWHEEL_OP_REGISTER,
			.timer.flags = TWHEEL_KEEP | TWHEEL_DISARMED,
		};

		if (timers_apply(&timers, &op, 1, now_ns()) != 1 || op.result)
			abort();
		pthread_mutex_init(&turns[i], NULL);
		slots[i] = (u32)op.timer.id;
		words[i] = store_word(&flat.store, slots[i]);
	}
}

static void check(void)
{
	const struct twheel_stats *s = &timers.stats;
	u64 never = 0, twice = 0, unread = 0, forgotten = 0;
	unsigned int i;
	u64 number;

	for (number = 1; number <= armings; number++) {
		never += !ended[number];
		twice += ended[number] > 1;
		unread += !ended[number] && !replaced[number];
	}
	for (i = 0; i < TIMERS; i++)
		forgotten += !!words[i]->deadline_ns;
	fail("came early", early);
	fail("came late, or not at all", late);
	fail("ended more than once", twice);
	fail("never read, and nothing came after", unread + lost);
	fail("armed, and the wheel knows nothing of it", forgotten);
	fail("more or fewer withdrawn than did not end", never - s->withdrawn);
	fail("words that neither came back nor expired", armings - got_back - s->expired);
	fail("events too few or too many", s->expired - s->delivered - s->withdrawn);
	/* If they never met, the test has shown nothing. */
	fail("nothing was read", !s->delivered);
	fail("nothing came back", !got_back);
	fail("nothing was moved", !s->moved);
	fail("nothing was withdrawn", !s->withdrawn);
	fail("no mark was left to the kernel", marked == kicks);
	printf("# target armings %llu %llu\n", got_back + s->expired, armings);
	printf("# %llu armings: %llu came back, %llu were read, %llu withdrawn; ",
	       armings, got_back, s->delivered, s->withdrawn);
	printf("%llu marks, %llu kicks for these\n", marked, kicks);
}

static bool set_param(const char *arg)
{
	char *end;
	u64 *value;

	if (!strncmp(arg, "armings=", 8))
		value = &armings;
	else if (!strncmp(arg, "writers=", 8))
		value = &writers;
	else
		return false;
	*value = strtoull(arg + 8, &end, 0);
	return !*end;
}

int main(int argc, char **argv)
{
	pthread_t thread[MAX_WRITERS + 1];
	unsigned int i;

	for (i = 1; i < argc; i++) {
		if (!set_param(argv[i]) || armings >= TICK || !writers || writers > MAX_WRITERS) {
			fprintf(stderr, "usage: %s [armings=N] [writers=N]\n", argv[0]);
			return 2;
		}
	}
	ended = calloc(armings + 1, 1);
	done = calloc(armings + 1, sizeof(*done));
	replaced = calloc(armings + 1, sizeof(*replaced));
	if (!ended || !done || !replaced)
		abort();
	set_up();
	writing = writers + 1;
	printf("TAP version 13\n1..1\n");
	pthread_create(&thread[writers], NULL, kernel, NULL);
	for (i = 0; i < writers; i++)
		pthread_create(&thread[i], NULL, writer, (void *)(uintptr_t)i);
	for (i = 0; i < writers; i++)
		pthread_join(thread[i], NULL);
	write_alone();
	pthread_join(thread[writers], NULL);
	check();
	printf("%s 1 %llu writers and the kernel, each arming accounted for\n",
	       failures ? "not ok" : "ok", writers);
	return !!failures;
}
