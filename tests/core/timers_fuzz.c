// SPDX-License-Identifier: GPL-2.0
/*
 * Fuzzes twheel_timers.c and twheel_word.c, and compares them with a model: G3, G5, G6, G8.
 *
 * The model is what a user of the wheel knows of each timer: the word in the table, and the event
 * that is still unread. The model predicts what each operation must return. Between operations, a
 * timer may only change by expiring, and only if its word is due. An event must stay until it is
 * read, or until REARM, CANCEL or a KICK withdraws it. Checks of all timers find those that should
 * have expired but have not.
 *
 * The fuzzer changes words as the protocol of the table demands: it marks the slot, and kicks if
 * necessary. It sometimes leaves out the mark or the KICK, and then this timer may be late, but
 * nothing else may go wrong. It also overwrites marks and the header at random.
 */
#include <errno.h>
#include <string.h>

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/err.h>
#include <linux/limits.h>
#include <linux/minmax.h>

#include "fuzz.h"
#include "store.h"
#include "twheel_apply.h"
#include "twheel_timers.h"

#define UNLIMITED	(~0U)
/* The maximum number of events in a read. */
#define EVENTS		16U
/* The end of the kernel's clocks. */
#define NOW_MAX		((u64)S64_MAX)

/**
 * struct user_timer - the model of a timer
 * @id: its id, or 0 if there is no timer
 * @dead: an earlier id, or 0
 * @data: its user_data
 * @word: the word that must be in the table
 * @period: as armed by ioctl
 * @slack: as armed by ioctl
 * @flags: as armed by ioctl
 * @unread: it has an event
 * @lax: it may be late, because a KICK was left out, or it was due when the clock was set back
 * @prompt: it was in the wheel before its tick, so it must expire in order
 * @came: the event came in order
 * @left: the word that the expiry has left
 * @deadline: the deadline of the event
 * @expired: the time of the event
 * @taken: when it was taken off the wheel; a read of periods may report a later @expired
 */
struct user_timer {
	u64 id;
	u64 dead;
	u64 data;
	u64 word;
	u64 period;
	u64 slack;
	u32 flags;
	bool unread;
	bool lax;
	bool prompt;
	bool came;
	u64 left;
	u64 deadline;
	u64 expired;
	u64 taken;
};

/**
 * struct run - timers, and the model of their user
 * @f: the input of the fuzzer
 * @t: the timers
 * @flat: their store
 * @now: the time
 * @programmed: when the wheel turns next
 * @scribbled: next_ns in the header was overwritten
 * @timer: the user's
 * @timers: the maximum number of them
 * @of_slot: for each slot, the timer that had it last
 * @mappable: the table may be mapped
 * @live: the number of live ones
 * @reached: the tick of the latest event of a prompt timer that was read
 * @serial: the latest user_data
 * @registered: expected counters of the wheel, from here on
 * @rearmed: see struct twheel_stats
 * @cancelled: see there
 * @delivered: see there
 */
struct run {
	struct feed *f;
	struct timers t;
	struct flat flat;
	u64 now;
	u64 programmed;
	bool scribbled;
	struct user_timer *timer;
	unsigned int timers;
	struct user_timer **of_slot;
	bool mappable;
	unsigned int live;
	u64 reached;
	u64 serial;
	u64 registered;
	u64 rearmed;
	u64 cancelled;
	u64 delivered;
};

static const struct wheel_shape *shape_of(const struct run *r)
{
	return &r->t.wheel.shape;
}

static struct store *store_of(const struct run *r)
{
	return r->t.store;
}

static struct timer *entry_of(const struct run *r, const struct user_timer *u)
{
	struct timer *e = store_find(store_of(r), u->id);

	FUZZ_CHECK(!e, ==, false);
	return e;
}

static struct twheel_slot *word_of(const struct run *r, const struct user_timer *u)
{
	return store_word(store_of(r), entry_of(r, u)->slot);
}

static struct twheel_table *header_of(const struct run *r)
{
	return store_of(r)->table;
}

/* The model */

static bool is_armed(const struct user_timer *u)
{
	return u->word && !u->unread;
}

/* Returns true if the timer has an event, and the user has armed or disarmed it since. */
static bool is_stale(const struct user_timer *u)
{
	return u->unread && u->word != u->left;
}

static u32 state_of(const struct user_timer *u)
{
	return u->unread ? TWHEEL_EXPIRED : u->word ? TWHEEL_ARMED : TWHEEL_IDLE;
}

/* Returns true if the next turn will find its mark. */
static bool is_marked(const struct run *r, const struct user_timer *u)
{
	u32 slot = (u32)u->id;

	return header_of(r) && r->flat.touched[slot / STORE_LINE / FLAT_LINES] &&
	       r->flat.marks[slot / 64] >> slot % 64 & 1 &&
	       test_bit(slot >> STORE_LINE_SHIFT,
			(unsigned long *)store_summary(store_of(r)));
}

/* Returns the end of the present tick. */
static u64 next_tick(const struct run *r)
{
	return (r->now | (timers_tick_ns(&r->t) - 1)) + 1;
}

/* Returns when it must have expired; without slack, that is the start of its tick. */
static u64 due_at(const struct run *r, const struct user_timer *u, u64 slack)
{
	return contract_start(shape_of(r), contract_tick(shape_of(r), u->word, slack));
}

/* Returns the word that follows @deadline of a periodic timer, after @now. */
static u64 period_after(const struct user_timer *u, u64 deadline, u64 now)
{
	unsigned __int128 next = deadline;

	if (!u->period)
		return 0;
	next += u->period;
	if (now > deadline)
		next += (now - deadline) / u->period * u->period;
	return next > U64_MAX ? WHEEL_NEVER : deadline_word(next);
}

static void has_expired(struct user_timer *u, u64 now)
{
	FUZZ_CHECK(u->word, !=, 0);
	FUZZ_CHECK(u->word, <=, now);
	u->unread = true;
	u->came = u->prompt;
	u->deadline = u->word;
	u->expired = now;
	u->taken = now;
	u->left = period_after(u, u->word, now);
	u->word = u->left;
}

/* Records that it was armed just now; @lax if the user has left out a KICK. */
static void was_armed(struct run *r, struct user_timer *u, bool lax)
{
	u->lax = lax;
	u->prompt = !lax && !u->slack && u->word > r->now;
}

static void has_ended(struct run *r, struct user_timer *u)
{
	FUZZ_CHECK(!store_find(store_of(r), u->id), ==, true);
	*u = (struct user_timer){ .dead = u->id };
	r->live--;
}

/* Finds out what has become of @u, and checks that it is allowed. */
static void follow(struct run *r, struct user_timer *u)
{
	const struct timer *e;
	const struct twheel_slot *slot;

	if (!u->id)
		return;
	e = entry_of(r, u);
	slot = word_of(r, u);
	/* An event does not change any more. */
	if (u->unread)
		FUZZ_CHECK(e->place, ==, TIMER_READY);
	if (word_deadline(slot->deadline_ns) != u->word ||
	    (e->place == TIMER_READY && !u->unread)) {
		FUZZ_CHECK(u->unread, ==, false);
		has_expired(u, r->now);
		FUZZ_CHECK(slot->deadline_ns, ==, u->left);
	}
	if (u->unread) {
		FUZZ_CHECK(e->place, ==, TIMER_READY);
		FUZZ_CHECK(e->deadline, ==, u->deadline);
		FUZZ_CHECK(e->expired_ns, ==, u->expired);
	}
	FUZZ_CHECK(e->place, !=, TIMER_TAKEN);
	/* If the user need not mark the timer, the kernel must look by itself. */
	if (e->place == TIMER_QUEUED)
		FUZZ_CHECK(slot->wake_ns, <=,
			   max(e->deadline, contract_start(shape_of(r), e->node.tick)));
	else
		FUZZ_CHECK(slot->wake_ns, ==, WHEEL_NEVER);
}

/*
 * Returns true if the wheel will look at @u in time by itself: either it waits behind others
 * because it was due when it was armed, or its place is early enough.
 */
static bool is_known(const struct run *r, const struct user_timer *u)
{
	const struct timer *e = entry_of(r, u);

	return e->place == TIMER_QUEUED &&
	       (e->deadline == u->word ||
		e->node.tick <= contract_tick(shape_of(r), u->word, u->slack));
}

/* Follows all timers, and finds those that the wheel would forget. */
static void follow_all(struct run *r)
{
	u64 next = wheel_next(&r->t.wheel);
	unsigned int i;

	for (i = 0; i < r->timers; i++) {
		struct user_timer *u = &r->timer[i];

		follow(r, u);
		if (!u->id || !is_armed(u) || u->lax)
			continue;
		if (is_known(r, u)) {
			FUZZ_CHECK(next, <=, max(r->now, due_at(r, u, u->slack)));
		} else {
			FUZZ_CHECK(is_marked(r, u), ==, true);
			FUZZ_CHECK(r->programmed, <=, max(next_tick(r), u->word));
		}
	}
}

/* What the owner of a wheel does at the end of each call that was not a turn. */
static void finish(struct run *r)
{
	u64 next = timers_next(&r->t);

	if (next >= r->programmed || next <= r->now)
		return;
	r->programmed = timers_publish_next(&r->t, next, r->now);
	r->scribbled = false;
}

/* Decisions */

static struct user_timer *any_timer(struct run *r)
{
	return &r->timer[feed_below(r->f, r->timers)];
}

/* Returns a live timer, unless the user searches too long in vain. */
static struct user_timer *live_timer(struct run *r)
{
	unsigned int from = feed_below(r->f, r->timers);
	unsigned int i;

	for (i = 0; i < 16; i++) {
		struct user_timer *u = &r->timer[(from + i) % r->timers];

		if (u->id)
			return u;
	}
	return NULL;
}

static u64 any_time(struct run *r)
{
	u64 distance;
	unsigned int kind = feed_byte(r->f);

	switch (kind & 15) {
	case 0:
		return kind & 16 ? WHEEL_NEVER - (kind >> 5) : kind >> 5;
	case 1:
		/* The same deadline as another timer's. */
		return any_timer(r)->word;
	case 2:
		return r->now;
	case 3:
	case 4:
		return feed_before(r->now, feed_distance(r->f, shape_of(r)->shift));
	default:
		distance = feed_distance(r->f, shape_of(r)->shift);
		return r->now + min(distance, WHEEL_NEVER - r->now);
	}
}

/* Chooses how a timer is to be armed. */
static void any_arming(struct run *r, struct twheel_timer *arg)
{
	unsigned int kind = feed_byte(r->f);

	arg->flags = TWHEEL_ABSTIME | (kind & (TWHEEL_KEEP | TWHEEL_DISARMED));
	/* So that fewer than one in two are disarmed. */
	if (kind & 8)
		arg->flags &= ~TWHEEL_DISARMED;
	arg->deadline_ns = any_time(r);
	if (kind & 16) {
		arg->flags &= ~TWHEEL_ABSTIME;
		arg->deadline_ns = arg->deadline_ns > r->now ? arg->deadline_ns - r->now : 0;
	}
	if ((kind & 0x60) == 0)
		arg->period_ns = timers_tick_ns(&r->t) + feed_distance(r->f, shape_of(r)->shift);
	if ((kind & 0x180) == 0x80)
		arg->slack_ns = feed_distance(r->f, shape_of(r)->shift);
	if (!feed_byte(r->f))
		arg->flags |= 8;
	if (!feed_byte(r->f))
		arg->period_ns = 1;
}

/* Returns the error with which this arming must be refused, or 0. */
static int refusal(const struct run *r, const struct twheel_timer *arg)
{
	if (arg->flags & ~7U)
		return -EINVAL;
	return arg->period_ns && arg->period_ns < timers_tick_ns(&r->t) ? -EINVAL : 0;
}

static u64 wanted(const struct run *r, const struct twheel_timer *arg)
{
	if (arg->flags & TWHEEL_DISARMED)
		return 0;
	if (arg->flags & TWHEEL_ABSTIME)
		return deadline_word(arg->deadline_ns ? arg->deadline_ns : 1);
	return arg->deadline_ns > U64_MAX - r->now ? WHEEL_NEVER :
	       deadline_word(r->now + arg->deadline_ns);
}

/* Records an arming by ioctl that was done just now. */
static void arm(struct run *r, struct user_timer *u, const struct twheel_timer *arg)
{
	u->word = wanted(r, arg);
	u->period = arg->period_ns;
	u->slack = arg->slack_ns;
	u->flags = arg->flags;
	u->unread = false;
	was_armed(r, u, false);
	/* A deadline in the past makes others expire before it. */
	if (u->word && u->word <= r->now)
		follow_all(r);
	else
		follow(r, u);
}

/* Checks what the kernel reports about @u, which it has just changed or looked up. */
static void check_report(const struct user_timer *u, const struct twheel_timer *arg)
{
	FUZZ_CHECK(arg->id, ==, u->id);
	FUZZ_CHECK(arg->user_data, ==, u->data);
	FUZZ_CHECK(arg->deadline_ns, ==, u->unread ? u->deadline : u->word);
	FUZZ_CHECK(arg->period_ns, ==, u->period);
	FUZZ_CHECK(arg->slack_ns, ==, u->slack);
	FUZZ_CHECK(arg->flags, ==, u->flags);
}

/* Verbs */

/* Does @op, with limited room. Returns its result. */
static int apply(struct run *r, struct twheel_op *op)
{
	while (!timers_apply(&r->t, op, 1, r->now)) {
		FUZZ_CHECK(op->opcode, ==, TWHEEL_OP_REGISTER);
		FUZZ_CHECK(store_of(r)->room, <, store_of(r)->max);
		flat_grow(&r->flat, 1 + feed_byte(r->f));
	}
	finish(r);
	return op->result;
}

static void do_register(struct run *r, struct user_timer *u)
{
	struct twheel_op op = { .opcode = TWHEEL_OP_REGISTER };
	struct twheel_timer want;
	bool behind;
	int err;

	op.timer.user_data = ++r->serial;
	any_arming(r, &op.timer);
	want = op.timer;
	behind = wheel_next(&r->t.wheel) <= r->now;
	err = apply(r, &op);
	if (refusal(r, &want) ||
	    ((want.flags & TWHEEL_DISARMED) && !(want.flags & TWHEEL_KEEP))) {
		FUZZ_CHECK(err, ==, -EINVAL);
		return;
	}
	if (r->live == store_of(r)->max) {
		FUZZ_CHECK(err, ==, -ENOSPC);
		return;
	}
	FUZZ_CHECK(err, ==, 0);
	FUZZ_CHECK(op.timer.id >> 32, !=, 0);
	FUZZ_CHECK((u32)op.timer.id, <, store_of(r)->max);
	FUZZ_CHECK(op.timer.id, !=, u->dead);
	*u = (struct user_timer){ .id = op.timer.id, .data = r->serial };
	r->of_slot[(u32)u->id] = u;
	r->live++;
	r->registered++;
	arm(r, u, &want);
	/* A deadline in the past expires at once, unless others come before it. */
	if (!behind && is_armed(u))
		FUZZ_CHECK(u->word, >, r->now);
	check_report(u, &op.timer);
	FUZZ_CHECK(op.timer.state, ==, state_of(u));
}

static void do_rearm(struct run *r, struct user_timer *u)
{
	struct twheel_op op = { .opcode = TWHEEL_OP_REARM, .timer.id = u->id };
	u32 state = state_of(u);
	struct twheel_timer want;
	bool behind;
	int err;

	any_arming(r, &op.timer);
	want = op.timer;
	behind = wheel_next(&r->t.wheel) <= r->now;
	err = apply(r, &op);
	FUZZ_CHECK(err, ==, refusal(r, &want));
	if (err)
		return;
	r->rearmed++;
	arm(r, u, &want);
	if (!behind && is_armed(u))
		FUZZ_CHECK(u->word, >, r->now);
	check_report(u, &op.timer);
	FUZZ_CHECK(op.timer.state, ==, state);
}

static void do_cancel(struct run *r, struct user_timer *u)
{
	struct twheel_op op = { .opcode = TWHEEL_OP_CANCEL, .timer.id = u->id };

	FUZZ_CHECK(apply(r, &op), ==, 0);
	r->cancelled++;
	check_report(u, &op.timer);
	FUZZ_CHECK(op.timer.state, ==, state_of(u));
	has_ended(r, u);
}

static void do_get(struct run *r, struct user_timer *u)
{
	struct twheel_op op = { .opcode = TWHEEL_OP_GET, .timer.id = u->id };

	FUZZ_CHECK(apply(r, &op), ==, 0);
	check_report(u, &op.timer);
	FUZZ_CHECK(op.timer.state, ==, state_of(u));
}

/* Operations on no timer, or unknown ones, change nothing. */
static void do_nonsense(struct run *r)
{
	const struct user_timer *u = any_timer(r);
	unsigned int kind = feed_byte(r->f);
	struct twheel_op op = { .opcode = 2 + kind % 3 };
	struct twheel_op before;

	switch (kind >> 6) {
	case 0:
		op.timer.id = feed_u64(r->f);
		break;
	case 1:
		op.timer.id = u->dead;
		break;
	case 2:
		/* The slot of one timer, and the generation of none. */
		op.timer.id = (u32)u->id;
		break;
	case 3:
		op.timer.id = u->id;
		op.opcode = kind & 32 ? 0 : 5 + kind % 32;
		break;
	}
	if (kind >> 6 == 0 && store_find(store_of(r), op.timer.id))
		return;
	before = op;
	FUZZ_CHECK(apply(r, &op), ==, kind >> 6 == 3 ? -EINVAL : -ENOENT);
	FUZZ_CHECK(memcmp(&op.timer, &before.timer, sizeof(op.timer)), ==, 0);
}

/* Turns the wheel, as a KICK does it or by itself. */
static void turn(struct run *r, unsigned int budget, bool kick)
{
	u64 withdrawn = r->t.stats.withdrawn;
	unsigned int i, stale = 0;
	u64 next;

	if (kick) {
		timers_begin_kick(&r->t);
		for (i = 0; i < r->timers; i++) {
			struct user_timer *u = &r->timer[i];

			if (!u->id || !is_marked(r, u))
				continue;
			stale += is_stale(u);
			u->unread &= !is_stale(u);
		}
	}
	for (i = 0; i < r->timers; i++) {
		struct user_timer *u = &r->timer[i];

		if (!u->id || !is_marked(r, u))
			continue;
		/* A timer that was looked at in passing may wait for the next tick. */
		u->prompt = false;
		if (budget == UNLIMITED && !r->t.slot)
			u->lax = false;
	}
	timers_turn(&r->t, r->now, budget);
	r->t.kicks = 0;
	FUZZ_CHECK(r->t.stats.withdrawn, ==, withdrawn + stale);
	next = timers_next(&r->t);
	r->programmed = timers_publish_next(&r->t, next <= r->now ? 0 : next, r->now);
	r->scribbled = false;
	if (budget == UNLIMITED)
		FUZZ_CHECK(next, >, r->now);
	if (header_of(r))
		FUZZ_CHECK(header_of(r)->next_ns, ==, r->programmed);
	follow_all(r);
}

/* Looks at @slot, as a KICK does if it is marked. Returns true if it has a timer. */
static bool look_at(struct run *r, u32 slot)
{
	struct timer *e = store_at(store_of(r), slot);

	r->t.kicks = 1;
	if (e)
		reconcile(&r->t, e, timer_word(&r->t, e), r->now);
	r->t.kicks = 0;
	return e;
}

/*
 * Has the kernel look at @u, and maybe at slots without timers, as a KICK does. Returns true
 * if others were due before.
 */
static bool kick(struct run *r, struct user_timer *u)
{
	unsigned int kind = feed_byte(r->f);
	bool behind;

	if (kind & 0x10)
		turn(r, UNLIMITED, true);
	if (!(kind & 7)) {
		u32 slot = feed_below(r->f, 65536) << (kind >> 4);
		struct user_timer *other = slot < store_of(r)->max ? r->of_slot[slot] : NULL;
		bool live = other && other->id && (u32)other->id == slot;

		if (live) {
			other->unread &= !is_stale(other);
			other->lax = false;
			other->prompt = false;
		}
		FUZZ_CHECK(look_at(r, slot), ==, live);
		follow_all(r);
	}
	behind = wheel_next(&r->t.wheel) <= r->now;
	u->unread &= !is_stale(u);
	FUZZ_CHECK(look_at(r, (u32)u->id), ==, true);
	finish(r);
	u->lax = false;
	/* A timer that was kicked in passing may wait for the next tick. */
	if (behind)
		u->prompt = false;
	follow_all(r);
	return behind;
}

/* Sets the mark of a slot by the protocol. */
static void mark(struct run *r, u32 slot)
{
	unsigned long *marks = (unsigned long *)flat_touch(&r->flat, slot);
	unsigned long *summary = (unsigned long *)store_summary(store_of(r));

	if (!test_bit(slot % 64, marks))
		set_bit(slot % 64, marks);
	if (!test_bit(slot >> STORE_LINE_SHIFT, summary))
		set_bit(slot >> STORE_LINE_SHIFT, summary);
	/* C of twheel_marks.c. */
	smp_mb();
}

/* Moves or disarms @u through the table. @lazy: leaves out the KICK, or the mark. */
static void do_exchange(struct run *r, struct user_timer *u, u64 to, bool lazy)
{
	unsigned int kind = header_of(r) ? feed_byte(r->f) : 0;
	struct twheel_slot *slot = word_of(r, u);
	bool later = is_armed(u) && !u->lax && !is_marked(r, u) && to > u->word;
	u64 wake = slot->wake_ns;

	FUZZ_CHECK(word_deadline(xchg(&slot->deadline_ns, to)), ==, u->word);
	to = word_deadline(to);
	later = later && to;
	/* A later deadline needs nothing, if the wheel is where it should be. */
	if (later && wheel_next(&r->t.wheel) > r->now)
		FUZZ_CHECK(to, >, wake);
	u->word = to;
	if (!to)
		return;
	/* A KICK that the user still owed does not matter for this arming. */
	was_armed(r, u, to <= wake);
	if (!u->lax)
		return;
	if (kind & 1) {
		mark(r, (u32)u->id);
		/* If others have scribbled over the header, it says nothing. */
		if (to > READ_ONCE(header_of(r)->next_ns)) {
			u->lax = r->scribbled;
			return;
		}
	}
	if (lazy)
		return;
	if (kind & 1) {
		turn(r, UNLIMITED, true);
		FUZZ_CHECK(is_stale(u), ==, false);
		FUZZ_CHECK(u->lax, ==, false);
		if (is_armed(u))
			FUZZ_CHECK(u->word, >, r->now);
	} else if (!kick(r, u) && is_armed(u)) {
		FUZZ_CHECK(u->word, >, r->now);
	}
	if (is_armed(u))
		was_armed(r, u, false);
}

/* Returns how many timers were taken off the wheel, or off the ready list without an event. */
static u64 touched(const struct run *r)
{
	const struct twheel_stats *s = &r->t.stats;

	return s->expired + s->displaced + s->moved + s->withdrawn;
}

static void run(struct run *r, unsigned int budget)
{
	u64 before = touched(r);

	turn(r, budget, false);
	FUZZ_CHECK(touched(r) - before, <=, budget + 0ULL);
}

static void do_advance(struct run *r)
{
	unsigned int kind = feed_byte(r->f);
	u64 now = r->now;

	switch (kind & 3) {
	case 0:
	case 1:
		now = feed_after(now, feed_distance(r->f, shape_of(r)->shift));
		break;
	case 2:
		now = max(now, r->programmed - 1);
		break;
	case 3:
		now = max(now, r->programmed);
		break;
	}
	r->now = min(now, NOW_MAX);
	/* A budget of 0 is allowed too. */
	run(r, kind & 0x30 ? UNLIMITED : (kind >> 6) * 7);
}

static void do_set_back(struct run *r)
{
	u64 before = r->now;
	unsigned int i;

	r->now = feed_before(r->now, feed_distance(r->f, shape_of(r)->shift));
	/* The order starts again. */
	r->reached = 0;
	for (i = 0; i < r->timers; i++) {
		/*
		 * A timer that was due and had not expired may wait until the clock is there
		 * again.
		 */
		if (is_armed(&r->timer[i]) &&
		    (r->timer[i].word <= before || is_marked(r, &r->timer[i])))
			r->timer[i].lax = true;
		r->timer[i].prompt = false;
		r->timer[i].came = false;
	}
}

static struct user_timer *find(struct run *r, u64 id)
{
	struct user_timer *u = r->of_slot[(u32)id];

	FUZZ_CHECK(u->id, ==, id);
	return u;
}

/* Checks an event that was peeked at, which must be one that the user expects. */
static struct user_timer *check_event(struct run *r, const struct twheel_event *event)
{
	struct user_timer *u = find(r, event->id);
	u64 now = max(r->now, u->expired);
	u64 expirations = 1;
	u64 next;

	FUZZ_CHECK(u->unread, ==, true);
	FUZZ_CHECK(event->user_data, ==, u->data);
	FUZZ_CHECK(event->deadline_ns, ==, u->deadline);
	FUZZ_CHECK(event->expired_ns, ==, u->expired);
	/* The periods until now are counted, unless the user has moved the word. */
	next = period_after(u, u->deadline, now);
	if (u->left && (u->word == u->left || next == u->left)) {
		if (u->word == u->left)
			u->word = next;
		u->left = next;
		u->expired = now;
	}
	FUZZ_CHECK(u->deadline, <=, u->expired);
	if (u->period)
		expirations += (u->expired - u->deadline) / u->period;
	FUZZ_CHECK(event->expirations, ==, expirations);
	return u;
}

static void was_read(struct run *r, struct user_timer *u)
{
	/* A KICK may find the timer due before its tick has ended. */
	u64 tick = min(contract_tick(shape_of(r), u->deadline, 0),
		       u->taken >> shape_of(r)->shift);

	r->delivered++;
	if (u->came) {
		FUZZ_CHECK(tick, >=, r->reached);
		r->reached = tick;
	}
	u->unread = false;
	was_armed(r, u, false);
	if (!u->word && !(u->flags & TWHEEL_KEEP) && !u->period)
		has_ended(r, u);
}

/* Reads up to @nr events, of which @fit are delivered. */
static void do_read(struct run *r, unsigned int nr, unsigned int fit)
{
	struct twheel_event events[EVENTS];
	struct user_timer *of[EVENTS], before[EVENTS];
	u64 withdrawn = r->t.stats.withdrawn;
	u64 unread = r->t.stats.unread;
	unsigned int got, i, j;

	got = timers_peek(&r->t, events, nr, r->now);
	FUZZ_CHECK(got, ==, min_t(u64, nr, unread));
	for (i = 0; i < got; i++) {
		before[i] = *find(r, events[i].id);
		of[i] = check_event(r, &events[i]);
		for (j = 0; j < i; j++)
			FUZZ_CHECK(of[j] == of[i], ==, false);
	}
	fit = min(fit, got);
	FUZZ_CHECK(timers_consume(&r->t, events, fit, r->now), ==, fit);
	finish(r);
	FUZZ_CHECK(r->t.stats.withdrawn, ==, withdrawn);
	/* A reader that did not get an event has not changed it. */
	for (i = fit; i < got; i++)
		*of[i] = before[i];
	for (i = 0; i < fit; i++)
		was_read(r, of[i]);
	follow_all(r);
}

/* Checks that poll reports an event if the user expects one. */
static void do_poll(struct run *r)
{
	unsigned int i;

	for (i = 0; i < r->timers && !r->timer[i].unread; i++)
		;
	FUZZ_CHECK(!hlist_empty(&r->t.ready), ==, i < r->timers);
}

static void do_some_read(struct run *r)
{
	unsigned int kind = feed_byte(r->f);
	unsigned int nr = kind & 0x80 ? EVENTS : kind % (EVENTS + 1);

	if (kind & 0x08)
		do_poll(r);
	do_read(r, nr, kind & 0x60 ? nr : feed_below(r->f, EVENTS + 1));
}

/* Lists all live timers, each once, in the order of their slots. */
static void do_list(struct run *r)
{
	struct twheel_timer out[EVENTS];
	unsigned int listed = 0;
	u32 cursor = 0;
	int got, i;

	for (;;) {
		got = timers_list(&r->t, &cursor, out, 1 + feed_below(r->f, EVENTS), 64);
		if (got < 0)
			break;
		for (i = 0; i < got; i++) {
			const struct user_timer *u = find(r, out[i].id);

			check_report(u, &out[i]);
			FUZZ_CHECK(out[i].state, ==, state_of(u));
			FUZZ_CHECK((u32)out[i].id, <, cursor);
			if (i)
				FUZZ_CHECK((u32)out[i].id, >, (u32)out[i - 1].id);
		}
		listed += got;
	}
	FUZZ_CHECK(got, ==, -ENOENT);
	FUZZ_CHECK(listed, ==, r->live);
}

static void check_stats(const struct run *r)
{
	struct twheel_stats s;
	u64 late = 0;
	unsigned int i;

	timers_stats(&r->t, &s);
	FUZZ_CHECK(s.armings, ==, s.expired + s.displaced + s.armed);
	FUZZ_CHECK(s.expired, ==, s.delivered + s.withdrawn + s.unread);
	FUZZ_CHECK(s.allocated, ==, r->live);
	FUZZ_CHECK(s.registered, ==, r->registered);
	FUZZ_CHECK(s.rearmed, ==, r->rearmed);
	FUZZ_CHECK(s.cancelled, ==, r->cancelled);
	FUZZ_CHECK(s.delivered, ==, r->delivered);
	for (i = 0; i < TWHEEL_LATENESS_BUCKETS; i++)
		late += s.lateness[i];
	FUZZ_CHECK(late, <=, s.expired);
}

/*
 * Scribbles over the mapped table: words without a timer mean nothing, and marks may have no
 * timer.
 */
static void do_scribble(struct run *r)
{
	unsigned int kind = feed_byte(r->f);
	u32 nr = feed_below(r->f, min(store_of(r)->max, 65536U));
	struct twheel_table *header;
	unsigned long *summary;
	unsigned int i;

	if (!header_of(r)) {
		memset(r->flat.header, kind & 1 ? 0 : 0xff, sizeof(*header));
		timers_map(&r->t, r->flat.header, FLAT_PAGE, 1, r->programmed);
		return;
	}
	header = header_of(r);
	summary = (unsigned long *)store_summary(store_of(r));
	switch (kind & 7) {
	case 0:
		if (nr < store_of(r)->room && !store_at(store_of(r), nr)) {
			r->flat.words[nr].deadline_ns = any_time(r);
			r->flat.words[nr].wake_ns = any_time(r);
		}
		break;
	case 1:
		mark(r, nr);
		break;
	case 2:
		/* Without the summary, or without the marks. */
		set_bit(nr % 64, (unsigned long *)flat_touch(&r->flat, nr));
		break;
	case 3:
		set_bit(feed_below(r->f, STORE_MAX / STORE_LINE), summary);
		break;
	case 4:
		*flat_touch(&r->flat, nr) = ~0ULL;
		mark(r, nr);
		break;
	case 5:
		/* The marks are gone, and so are the looks that they requested. */
		for (i = 0; i < r->timers; i++)
			if (r->timer[i].id && is_marked(r, &r->timer[i]))
				r->timer[i].lax = true;
		*flat_touch(&r->flat, nr) = feed_u64(r->f);
		summary[0] = feed_u64(r->f);
		break;
	case 6:
		header->next_ns = any_time(r);
		r->scribbled = true;
		break;
	case 7:
		header->slots = kind;
		header->marks_offset = kind;
		header->summary_shift = kind;
		break;
	}
}

/* A slot without a live timer. */
#define NOTHING	32

static void operate(struct run *r)
{
	unsigned int op = feed_byte(r->f);
	struct user_timer *u = NULL;

	if ((op & 31) < 4)
		u = any_timer(r);
	else if ((op & 31) < 20)
		u = live_timer(r);
	switch (u || (op & 31) >= 20 ? op & 31 : NOTHING) {
	case 0 ... 3:
		if (!u->id)
			do_register(r, u);
		else if ((op & 31) == 3)
			do_cancel(r, u);
		else
			do_rearm(r, u);
		break;
	case 4 ... 8:
		do_rearm(r, u);
		break;
	case 9 ... 16:
		do_exchange(r, u, any_time(r), op >> 5 == 7);
		break;
	case 17:
		do_exchange(r, u, op & 0x20 ? TWHEEL_PARKED : 0, false);
		break;
	case 18:
		kick(r, u);
		break;
	case 19:
		do_get(r, u);
		break;
	case 20 ... 22:
		do_advance(r);
		break;
	case 23 ... 26:
		do_some_read(r);
		break;
	case 27:
		do_nonsense(r);
		break;
	case 28:
		if (r->mappable)
			do_scribble(r);
		break;
	case 29:
		check_stats(r);
		do_list(r);
		break;
	case 30:
		turn(r, UNLIMITED, true);
		break;
	case 31:
		if (op >> 5 == 0)
			do_set_back(r);
		break;
	}
	/* About every sixteenth time, check timers that the operation did not touch too. */
	if (!(fuzz_operations & 15))
		follow_all(r);
}

/* Ends all armings that are left. */
static void empty(struct run *r)
{
	unsigned int i;

	while (!hlist_empty(&r->t.ready))
		do_read(r, EVENTS, EVENTS);
	for (i = 0; i < r->timers; i++)
		if (r->timer[i].id)
			do_cancel(r, &r->timer[i]);
	check_stats(r);
	FUZZ_CHECK(r->t.stats.armed, ==, 0);
	FUZZ_CHECK(r->t.stats.unread, ==, 0);
	FUZZ_CHECK(r->live, ==, 0);
}

/* After everything was removed, the wheel can be used again. */
static void end(struct run *r)
{
	unsigned int i;

	empty(r);
	for (i = 0; i < r->timers && i < 2048; i++)
		do_register(r, &r->timer[i]);
	follow_all(r);
	empty(r);
	FUZZ_CHECK(store_of(r)->used, ==, 0);
}

void timers_fuzz(struct feed *f, unsigned int timers, u64 operations)
{
	struct run r = { .f = f, .timers = timers, .programmed = WHEEL_NEVER };
	struct wheel_shape shape = feed_shape(f);
	unsigned int kind = feed_byte(f);
	void *mem = fuzz_zalloc(wheel_bytes(&shape));
	u32 max;
	u64 i;

	r.timer = fuzz_zalloc(timers * sizeof(*r.timer));
	r.now = min(feed_start(f, shape.shift), NOW_MAX);
	wheel_init(&r.t.wheel, &shape, mem, r.now, store_fetch, &r.flat.store);
	/* Usually more than the user wants. */
	max = kind & 3 ? timers + kind : 1 + timers * kind / 256;
	r.of_slot = fuzz_zalloc(max * sizeof(*r.of_slot));
	flat_init(&r.flat, max);
	timers_begin(&r.t, &r.flat.store);
	r.mappable = kind & 4;
	/* A generator would take long to make many. */
	for (i = 0; f->random && i < timers / 2; i++)
		do_register(&r, &r.timer[i]);
	for (i = 0; i < operations && !feed_over(f); i++) {
		operate(&r);
		fuzz_operations++;
	}
	end(&r);
	flat_free(&r.flat);
	free(r.of_slot);
	free(r.timer);
	free(mem);
}
