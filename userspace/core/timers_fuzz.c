// SPDX-License-Identifier: GPL-2.0
/*
 * twheel_timers.c and twheel_slots.c against what their users know.
 *
 * Of each timer the user knows the word that is in the table, and the event
 * that he has not read. From that follows what each verb must answer, and what
 * may have become of the timer after each: nothing, or the expiry of a word
 * that was due. What must have expired is found by looking at all of them.
 *
 * The user keeps to the protocol of the table, unless he does not: a timer whose
 * KICK was left out may be late, and nothing else.
 */
#include <errno.h>
#include <string.h>

#include <linux/atomic.h>
#include <linux/err.h>
#include <linux/gfp.h>
#include <linux/limits.h>
#include <linux/minmax.h>
#include <linux/spinlock.h>

#include "fuzz.h"
#include "twheel_timers.h"

#define AMPLE	(~0U)
/* Timers that a KICK runs before, as the device does. */
#define KICK_RUN	64U
/* Events of a claim. */
#define EVENTS		16U
/* Words in a page. */
#define WORDS		(PAGE_SIZE / sizeof(struct twheel_slot))
/* The kernel's clocks end here. */
#define NOW_MAX		((u64)S64_MAX)

/**
 * struct user_timer - what the user knows of a timer
 * @id: of it, or 0 if there is none
 * @dead: an id that was here before, or 0
 * @data: its user_data
 * @word: what must be in the table
 * @period: as armed by ioctl
 * @slack: as armed by ioctl
 * @flags: as armed by ioctl
 * @unread: has an event, if @word is @left
 * @last: of that event: the periods end with it
 * @drained: that event was drained
 * @lax: a KICK is owed, or it was due when the clock was set back: may be late
 * @prompt: is in the wheel since before its tick, so it comes in its turn
 * @came: that event came in its turn
 * @left: word that the expiry has left
 * @deadline: of that event
 * @expired: of that event
 * @taken: when that was taken off the wheel; a drain may say a later @expired
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
	bool last;
	bool drained;
	bool lax;
	bool prompt;
	bool came;
	u64 left;
	u64 deadline;
	u64 expired;
	u64 taken;
};

/**
 * struct run - timers, and what their user knows
 * @f: the decisions
 * @t: the timers
 * @lock: of them
 * @now: the time
 * @timer: the user's
 * @timers: how many he wants at most
 * @of_slot: which of them has had a slot last
 * @mappable: the table may be mapped
 * @page: pages of the mapping, where they were first seen
 * @live: how many he has
 * @reached: the tick of the latest event of a prompt timer that was read
 * @serial: of the latest user_data
 * @registered: what the counters of the wheel must be, from here on
 * @rearmed: see struct twheel_stats
 * @cancelled: see there
 * @delivered: see there
 */
struct run {
	struct feed *f;
	struct twheel_timers t;
	/* Free whenever it is taken. */
	spinlock_t lock;
	u64 now;
	struct user_timer *timer;
	unsigned int timers;
	struct user_timer **of_slot;
	bool mappable;
	struct page **page;
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

static struct twheel_entry *entry_of(const struct run *r, const struct user_timer *u)
{
	struct twheel_entry *e = twheel_slots_find(&r->t.slots, u->id);

	FUZZ_CHECK(!e, ==, false);
	return e;
}

static struct twheel_slot *word_of(const struct run *r, const struct user_timer *u)
{
	return twheel_slots_word(&r->t.slots, entry_of(r, u));
}

/* What the user knows */

static bool has_event(const struct user_timer *u)
{
	return u->unread && u->word == u->left;
}

static bool is_armed(const struct user_timer *u)
{
	return u->word && !has_event(u);
}

static u32 state_of(const struct user_timer *u)
{
	return has_event(u) ? TWHEEL_EXPIRED : u->word ? TWHEEL_ARMED : TWHEEL_IDLE;
}

/* When it must have expired; without slack, the start of its tick. */
static u64 due_at(const struct run *r, const struct user_timer *u, u64 slack)
{
	return tick_start(shape_of(r), contract_tick(shape_of(r), u->word, slack));
}

/* The word that follows @deadline of a periodic timer, after @now. */
static u64 period_after(const struct user_timer *u, u64 deadline, u64 now)
{
	unsigned __int128 next = deadline;

	if (!u->period)
		return 0;
	next += u->period;
	if (now > deadline)
		next += (now - deadline) / u->period * u->period;
	return next > U64_MAX ? WHEEL_NEVER : next;
}

static void has_expired(struct user_timer *u, u64 now)
{
	FUZZ_CHECK(u->word, !=, 0);
	FUZZ_CHECK(u->word, <=, now);
	u->unread = true;
	u->last = false;
	u->drained = false;
	u->came = u->prompt;
	u->deadline = u->word;
	u->expired = now;
	u->taken = now;
	u->left = period_after(u, u->word, now);
	u->word = u->left;
}

/* It was armed just now; a KICK is owed, or not. */
static void was_armed(struct run *r, struct user_timer *u, bool lax)
{
	u->lax = lax;
	u->prompt = !lax && !u->slack && u->word > r->now;
}

static void has_ended(struct run *r, struct user_timer *u)
{
	FUZZ_CHECK(!twheel_slots_find(&r->t.slots, u->id), ==, true);
	*u = (struct user_timer){ .dead = u->id };
	r->live--;
}

/* Learns what has become of @u, and checks that it may have. */
static void follow(struct run *r, struct user_timer *u)
{
	const struct twheel_entry *e;
	const struct twheel_slot *slot;

	if (!u->id)
		return;
	e = entry_of(r, u);
	slot = twheel_slots_word(&r->t.slots, e);
	if (u->unread && e->state != TWHEEL_EXPIRED) {
		FUZZ_CHECK(has_event(u), ==, false);
		u->unread = false;
	}
	if (slot->deadline_ns != u->word || (e->state == TWHEEL_EXPIRED && !u->unread)) {
		has_expired(u, r->now);
		FUZZ_CHECK(slot->deadline_ns, ==, u->left);
		FUZZ_CHECK(e->state, ==, TWHEEL_EXPIRED);
		FUZZ_CHECK(e->deadline, ==, u->deadline);
		FUZZ_CHECK(e->expired_ns, ==, u->expired);
	}
	/* Where the user need not kick, the kernel must come. */
	if (e->state == TWHEEL_ARMED)
		FUZZ_CHECK(slot->wake_ns, <=, e->deadline);
	else
		FUZZ_CHECK(slot->wake_ns, ==, WHEEL_NEVER);
}

/* Follows all, and finds what the wheel would forget. */
static void follow_all(struct run *r)
{
	u64 next = wheel_next(&r->t.wheel);
	unsigned int i;

	for (i = 0; i < r->timers; i++) {
		struct user_timer *u = &r->timer[i];

		follow(r, u);
		if (u->id && is_armed(u) && !u->lax)
			FUZZ_CHECK(next, <=, max(r->now, due_at(r, u, u->slack)));
	}
}

/* Decisions */

static struct user_timer *any_timer(struct run *r)
{
	return &r->timer[feed_below(r->f, r->timers)];
}

/* A live one, unless the user looks in vain for long. */
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
		/* The same as another's. */
		return any_timer(r)->word;
	case 2:
		return r->now;
	case 3:
	case 4:
		return time_before(r->now, feed_distance(r->f, shape_of(r)->shift));
	default:
		distance = feed_distance(r->f, shape_of(r)->shift);
		return r->now + min(distance, WHEEL_NEVER - r->now);
	}
}

/* Fills in how a timer is to be armed. */
static void any_arming(struct run *r, struct twheel_timer *arg)
{
	unsigned int kind = feed_byte(r->f);

	arg->flags = TWHEEL_ABSTIME | (kind & (TWHEEL_KEEP | TWHEEL_DISARMED));
	/* So that not one in two is disarmed. */
	if (kind & 8)
		arg->flags &= ~TWHEEL_DISARMED;
	arg->deadline_ns = any_time(r);
	if (kind & 16) {
		arg->flags &= ~TWHEEL_ABSTIME;
		arg->deadline_ns = arg->deadline_ns > r->now ? arg->deadline_ns - r->now : 0;
	}
	if ((kind & 0x60) == 0)
		arg->period_ns = twheel_tick_ns(&r->t) + feed_distance(r->f, shape_of(r)->shift);
	if ((kind & 0x180) == 0x80)
		arg->slack_ns = feed_distance(r->f, shape_of(r)->shift);
	if (!feed_byte(r->f))
		arg->flags |= 8;
	if (!feed_byte(r->f))
		arg->period_ns = 1;
}

/* What must be refused of it; 0 if nothing. */
static int refusal(const struct run *r, const struct twheel_timer *arg)
{
	if (arg->flags & ~7U)
		return -EINVAL;
	return arg->period_ns && arg->period_ns < twheel_tick_ns(&r->t) ? -EINVAL : 0;
}

static u64 wanted(const struct run *r, const struct twheel_timer *arg)
{
	if (arg->flags & TWHEEL_DISARMED)
		return 0;
	if (arg->flags & TWHEEL_ABSTIME)
		return arg->deadline_ns ? arg->deadline_ns : 1;
	return arg->deadline_ns > U64_MAX - r->now ? WHEEL_NEVER : r->now + arg->deadline_ns;
}

/* The user's part of an arming by ioctl, which was done just now. */
static void arm(struct run *r, struct user_timer *u, const struct twheel_timer *arg)
{
	u->word = wanted(r, arg);
	u->period = arg->period_ns;
	u->slack = arg->slack_ns;
	u->flags = arg->flags;
	u->unread = false;
	was_armed(r, u, false);
	/* What is past has others expire before it. */
	if (u->word && u->word <= r->now)
		follow_all(r);
	else
		follow(r, u);
}

/* What the kernel says of @u, which it has just changed or looked up. */
static void check_report(const struct user_timer *u, const struct twheel_timer *arg)
{
	FUZZ_CHECK(arg->id, ==, u->id);
	FUZZ_CHECK(arg->user_data, ==, u->data);
	FUZZ_CHECK(arg->deadline_ns, ==, has_event(u) ? u->deadline : u->word);
	FUZZ_CHECK(arg->period_ns, ==, u->period);
	FUZZ_CHECK(arg->slack_ns, ==, u->slack);
	FUZZ_CHECK(arg->flags, ==, u->flags);
}

/* Verbs */

/* Does @op, with memory that may run out. Return: as the device. */
static int apply(struct run *r, struct twheel_op *op)
{
	while (!twheel_apply(&r->t, op, 1, r->now)) {
		unsigned int kind = feed_byte(r->f);
		int err;

		FUZZ_CHECK(op->opcode, ==, TWHEEL_OP_REGISTER);
		memory_left = kind & 7 ? ~0UL : kind >> 6;
		err = twheel_slots_grow(&r->t.slots, &r->lock);
		if (err)
			FUZZ_CHECK(memory_left, ==, 0);
		memory_left = ~0UL;
		if (err)
			return err;
	}
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
	behind = wheel_due(&r->t.wheel, r->now);
	err = apply(r, &op);
	if (refusal(r, &want) ||
	    ((want.flags & TWHEEL_DISARMED) && !(want.flags & TWHEEL_KEEP))) {
		FUZZ_CHECK(err, ==, -EINVAL);
		return;
	}
	if (r->live == r->t.slots.max) {
		FUZZ_CHECK(err, ==, -ENOSPC);
		return;
	}
	if (err) {
		FUZZ_CHECK(err, ==, -ENOMEM);
		return;
	}
	FUZZ_CHECK(op.timer.id >> 32, !=, 0);
	FUZZ_CHECK((u32)op.timer.id, <, r->t.slots.max);
	FUZZ_CHECK(op.timer.id, !=, u->dead);
	*u = (struct user_timer){ .id = op.timer.id, .data = r->serial };
	r->of_slot[(u32)u->id] = u;
	r->live++;
	r->registered++;
	arm(r, u, &want);
	/* What is past comes at once, unless others come before it. */
	if (!behind && u->word && !has_event(u))
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
	behind = wheel_due(&r->t.wheel, r->now);
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
	bool stale = u->unread && !has_event(u);
	bool behind = wheel_due(&r->t.wheel, r->now);
	u64 withdrawn = r->t.stats.withdrawn;

	FUZZ_CHECK(apply(r, &op), ==, 0);
	/* What was armed or disarmed over its event is looked at, and that event is none. */
	FUZZ_CHECK(r->t.stats.withdrawn, ==, withdrawn + stale);
	if (stale) {
		u->lax = false;
		if (behind)
			u->prompt = false;
		follow(r, u);
	}
	check_report(u, &op.timer);
	FUZZ_CHECK(op.timer.state, ==, state_of(u));
}

/* What names no timer, or no verb, changes nothing. */
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
		/* The slot of one, the generation of none. */
		op.timer.id = (u32)u->id;
		break;
	case 3:
		op.timer.id = u->id;
		op.opcode = kind & 32 ? 0 : 5 + kind % 32;
		break;
	}
	if (kind >> 6 == 0 && twheel_slots_find(&r->t.slots, op.timer.id))
		return;
	before = op;
	FUZZ_CHECK(apply(r, &op), ==, kind >> 6 == 3 ? -EINVAL : -ENOENT);
	FUZZ_CHECK(memcmp(&op.timer, &before.timer, sizeof(op.timer)), ==, 0);
}

/*
 * Tells the wheel of @u, and maybe of what is no timer; as the device does.
 * Return: whether others were due before.
 */
static bool kick(struct run *r, struct user_timer *u)
{
	unsigned int kind = feed_byte(r->f);
	bool behind;

	twheel_run(&r->t, r->now, KICK_RUN);
	if (!(kind & 7)) {
		u32 slot = feed_below(r->f, 65536) << (kind >> 4);
		bool live = slot < r->t.slots.max && r->of_slot[slot] &&
			    r->of_slot[slot]->id && (u32)r->of_slot[slot]->id == slot;

		FUZZ_CHECK(twheel_kick(&r->t, slot, r->now), ==, live);
		follow_all(r);
	}
	behind = wheel_due(&r->t.wheel, r->now);
	FUZZ_CHECK(twheel_kick(&r->t, (u32)u->id, r->now), ==, true);
	u->lax = false;
	/* Kicked in passing, it may wait for the next tick. */
	if (behind)
		u->prompt = false;
	follow_all(r);
	return behind;
}

/* Moves or disarms @u through the table. */
static void do_exchange(struct run *r, struct user_timer *u, u64 to, bool lazy)
{
	struct twheel_slot *slot = word_of(r, u);
	bool later = is_armed(u) && !u->lax && to > u->word;
	u64 wake = slot->wake_ns;

	FUZZ_CHECK(xchg(&slot->deadline_ns, to), ==, u->word);
	/* Later is for nothing, if the wheel is where it should be. */
	if (later && !wheel_due(&r->t.wheel, r->now))
		FUZZ_CHECK(to, >, wake);
	u->word = to;
	if (!to)
		return;
	/* What the user owes from before he does not owe for this one. */
	was_armed(r, u, to <= wake);
	if (!u->lax || lazy)
		return;
	if (!kick(r, u) && is_armed(u))
		FUZZ_CHECK(u->word, >, r->now);
	if (is_armed(u))
		was_armed(r, u, false);
}

/* Timers that were taken off the wheel, or off the ready list for nothing. */
static u64 touched(const struct run *r)
{
	const struct twheel_stats *s = &r->t.stats;

	return s->expired + s->displaced + s->moved + s->withdrawn;
}

static void run(struct run *r, unsigned int budget)
{
	u64 before = touched(r);

	twheel_run(&r->t, r->now, budget);
	FUZZ_CHECK(touched(r) - before, <=, budget);
	follow_all(r);
	if (budget == AMPLE)
		FUZZ_CHECK(wheel_next(&r->t.wheel), >, r->now);
}

static void do_advance(struct run *r)
{
	unsigned int kind = feed_byte(r->f);
	u64 now = r->now;

	switch (kind & 3) {
	case 0:
	case 1:
		now = time_after(now, feed_distance(r->f, shape_of(r)->shift));
		break;
	case 2:
		now = max(now, wheel_next(&r->t.wheel) - 1);
		break;
	case 3:
		now = max(now, wheel_next(&r->t.wheel));
		break;
	}
	r->now = min(now, NOW_MAX);
	/* Not yet is a budget, too. */
	run(r, kind & 0x30 ? AMPLE : kind >> 6);
}

static void do_set_back(struct run *r)
{
	u64 before = r->now;
	unsigned int i;

	r->now = time_before(r->now, feed_distance(r->f, shape_of(r)->shift));
	/* The order starts anew. */
	r->reached = 0;
	for (i = 0; i < r->timers; i++) {
		/* What was due and had not come may wait until the clock is there again. */
		if (is_armed(&r->timer[i]) && r->timer[i].word <= before)
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

/* An event that was claimed: it must be what the user is owed. */
static struct user_timer *check_event(struct run *r, const struct twheel_event *event)
{
	struct user_timer *u = find(r, event->id);
	u64 expirations = 1;
	u64 until;

	/* It was found to be none, looked at, and was due at once. */
	if (!has_event(u))
		has_expired(u, r->now);
	FUZZ_CHECK(event->user_data, ==, u->data);
	FUZZ_CHECK(event->deadline_ns, ==, u->deadline);
	FUZZ_CHECK(event->expired_ns, ==, u->expired);
	/* A drain is the end of its periods. */
	until = u->last ? u->expired : r->now;
	if (u->deadline > u->expired) {
		FUZZ_CHECK(u->drained, ==, true);
		expirations = 0;
	} else if (u->period && until > u->deadline) {
		expirations += (until - u->deadline) / u->period;
	}
	FUZZ_CHECK(event->expirations, ==, expirations);
	return u;
}

static void was_read(struct run *r, struct user_timer *u)
{
	/* A KICK may find it due before its tick has ended. */
	u64 tick = min(contract_tick(shape_of(r), u->deadline, 0),
		       u->taken >> shape_of(r)->shift);

	r->delivered++;
	if (u->came && !u->drained) {
		FUZZ_CHECK(tick, >=, r->reached);
		r->reached = tick;
	}
	u->unread = false;
	u->word = u->last ? 0 : period_after(u, u->deadline, r->now);
	was_armed(r, u, false);
	if (!(u->flags & TWHEEL_KEEP) && !u->word)
		has_ended(r, u);
}

/* Reads up to @nr events, of which @fit arrive. */
static void do_read(struct run *r, unsigned int nr, unsigned int fit, unsigned int budget)
{
	struct twheel_claimed claimed[EVENTS];
	struct twheel_event events[EVENTS];
	struct user_timer *of[EVENTS];
	u64 withdrawn = r->t.stats.withdrawn;
	unsigned int got, i, j;

	got = twheel_claim(&r->t, claimed, events, nr, budget, r->now);
	FUZZ_CHECK(got, <=, nr);
	FUZZ_CHECK(r->t.stats.withdrawn - withdrawn, <=, budget);
	for (i = 0; i < got; i++) {
		of[i] = check_event(r, &events[i]);
		for (j = 0; j < i; j++)
			FUZZ_CHECK(of[j] == of[i], ==, false);
	}
	twheel_settle(&r->t, claimed, got, min(fit, got), r->now);
	for (i = 0; i < got && i < fit; i++)
		was_read(r, of[i]);
	follow_all(r);
	/* Where there was room for more, only what became due meanwhile is left. */
	if (got < nr && got <= fit && budget == AMPLE && !hlist_empty(&r->t.ready))
		FUZZ_CHECK(container_of(r->t.ready.first, struct twheel_entry, ready)->expired_ns,
			   ==, r->now);
}

/* There is an event if the user is owed one. */
static void do_poll(struct run *r)
{
	int readable = twheel_readable(&r->t, AMPLE, r->now);
	unsigned int i;

	follow_all(r);
	for (i = 0; i < r->timers && !has_event(&r->timer[i]); i++)
		;
	FUZZ_CHECK(readable, ==, i < r->timers);
}

static void do_some_read(struct run *r)
{
	unsigned int kind = feed_byte(r->f);
	unsigned int nr = kind & 0x80 ? EVENTS : kind % (EVENTS + 1);

	if (kind & 0x08)
		do_poll(r);
	do_read(r, nr, kind & 0x60 ? nr : feed_below(r->f, EVENTS + 1),
		kind & 0x10 ? AMPLE : feed_below(r->f, 4));
}

static void do_drain(struct run *r, u32 mode)
{
	unsigned int drained = 0;
	unsigned int armed = 0;
	unsigned int i;
	u32 chunk = 0;

	while (chunk != U32_MAX)
		drained += twheel_drain(&r->t, &chunk, mode, r->now);
	for (i = 0; i < r->timers; i++) {
		struct user_timer *u = &r->timer[i];

		if (!u->id)
			continue;
		if (!is_armed(u)) {
			u->unread = has_event(u);
			if (u->unread && !u->last && u->period)
				u->expired = max(u->expired, r->now);
			u->last = u->unread;
		} else if (mode == TWHEEL_DRAIN_CANCEL) {
			has_ended(r, u);
			r->cancelled++;
			armed++;
			continue;
		} else {
			u->unread = true;
			u->last = true;
			u->drained = true;
			u->deadline = u->word;
			u->expired = r->now;
			u->taken = r->now;
			armed++;
		}
		u->word = 0;
		u->left = 0;
		u->lax = false;
	}
	FUZZ_CHECK(drained, ==, armed);
}

/* All live timers, each once, in the order of their slots. */
static void do_list(struct run *r)
{
	struct twheel_timer out[EVENTS];
	unsigned int listed = 0;
	u32 cursor = 0;
	int got, i;

	for (;;) {
		got = twheel_list(&r->t, &cursor, out, 1 + feed_below(r->f, EVENTS), 64);
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

	twheel_stats(&r->t, &s);
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

/* Pages of the mapping, the header's too. */
static u64 pages_of(const struct run *r)
{
	return 1 + (r->t.slots.max + WORDS - 1) / WORDS;
}

/* A page of the mapping is touched; words of no timer mean nothing. */
static void do_page(struct run *r)
{
	u64 pages = pages_of(r);
	unsigned int kind = feed_byte(r->f);
	u64 pgoff = feed_below(r->f, 65536) % (pages + 2);
	struct twheel_slot *slot;
	u32 nr;

	r->t.used = true;
	r->t.slots.mapped = true;
	memory_left = kind & 3 ? ~0UL : kind >> 7;
	slot = (struct twheel_slot *)twheel_slots_page(&r->t.slots, pgoff);
	if (pgoff >= pages)
		FUZZ_CHECK(!slot, ==, true);
	else if (memory_left)
		FUZZ_CHECK(IS_ERR_OR_NULL(slot), ==, false);
	memory_left = ~0UL;
	if (IS_ERR_OR_NULL(slot))
		return;
	/* Where it is it stays, as it is mapped. */
	if (!r->page[pgoff])
		r->page[pgoff] = (struct page *)slot;
	FUZZ_CHECK(r->page[pgoff] == (struct page *)slot, ==, true);
	if (!pgoff)
		return;
	nr = (pgoff - 1) * WORDS + kind * 37 % WORDS;
	slot += kind * 37 % WORDS;
	if (twheel_slots_at(&r->t.slots, nr))
		return;
	slot->deadline_ns = any_time(r);
	slot->wake_ns = any_time(r);
}

/*
 * No more is kept than live timers need, and chunks for the next: of a table that
 * is not mapped, whose pages would stay.
 */
static void check_memory(struct run *r)
{
	struct twheel_garbage garbage = twheel_slots_garbage(&r->t.slots);
	const struct twheel_slots *s = &r->t.slots;
	u64 blocks = s->max / (TWHEEL_CHUNK * 64) + 1;
	u64 chunks = TWHEEL_SPARES, pages = TWHEEL_SPARES;
	u32 chunk = U32_MAX;
	u32 page = U32_MAX;
	u32 slot;

	twheel_slots_dispose(&garbage);
	FUZZ_CHECK(twheel_slots_bytes(s), ==, pages_of(r) * PAGE_SIZE);
	if (s->mapped)
		return;
	for (slot = 0; slot < s->max; slot++) {
		const struct user_timer *u = r->of_slot[slot];

		if (!u || !u->id || (u32)u->id != slot)
			continue;
		chunks += slot / TWHEEL_CHUNK != chunk;
		pages += slot / WORDS != page;
		chunk = slot / TWHEEL_CHUNK;
		page = slot / WORDS;
	}
	pages = min(pages, pages_of(r) - 1);
	FUZZ_CHECK(memory_used, <=, 1 + blocks + chunks + pages);
}

static void operate(struct run *r)
{
	unsigned int op = feed_byte(r->f);
	struct user_timer *u;

	switch (op & 31) {
	case 0 ... 2:
		u = any_timer(r);
		if (u->id)
			do_rearm(r, u);
		else
			do_register(r, u);
		break;
	case 3:
		u = any_timer(r);
		if (u->id)
			do_cancel(r, u);
		else
			do_register(r, u);
		break;
	case 4 ... 8:
		u = live_timer(r);
		if (u)
			do_rearm(r, u);
		break;
	case 9 ... 16:
		u = live_timer(r);
		if (u)
			do_exchange(r, u, any_time(r), op >> 5 == 7);
		break;
	case 17:
		u = live_timer(r);
		if (u)
			do_exchange(r, u, 0, false);
		break;
	case 18:
		u = live_timer(r);
		if (u)
			kick(r, u);
		break;
	case 19:
		u = live_timer(r);
		if (u)
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
			do_page(r);
		break;
	case 29:
		check_stats(r);
		check_memory(r);
		do_list(r);
		break;
	case 30:
		if (op >> 5 == 0)
			do_drain(r, TWHEEL_DRAIN_EXPIRE);
		else if (op >> 5 == 1)
			do_drain(r, TWHEEL_DRAIN_CANCEL);
		break;
	case 31:
		if (op >> 5 == 0)
			do_set_back(r);
		break;
	}
	/* Each sixteenth time or so, also what the operation had nothing to do with. */
	if (!(fuzz_operations & 15))
		follow_all(r);
}

/* Each arming that is left ends. */
static void empty(struct run *r)
{
	unsigned int i;

	do_drain(r, TWHEEL_DRAIN_EXPIRE);
	while (!hlist_empty(&r->t.ready))
		do_read(r, EVENTS, EVENTS, AMPLE);
	for (i = 0; i < r->timers; i++)
		if (r->timer[i].id)
			do_cancel(r, &r->timer[i]);
	check_stats(r);
	check_memory(r);
	FUZZ_CHECK(r->t.stats.armed, ==, 0);
	FUZZ_CHECK(r->t.stats.unread, ==, 0);
	FUZZ_CHECK(r->live, ==, 0);
}

/* So many that chunks and pages are given back, beside those that are kept. */
#define REFILL		(32 * TWHEEL_CHUNK)

static void fill(struct run *r)
{
	unsigned int i;

	for (i = 0; i < r->timers && i < REFILL; i++)
		if (!r->timer[i].id)
			do_register(r, &r->timer[i]);
	follow_all(r);
	check_memory(r);
}

/*
 * Every other chunk gives its memory back and gets some again, then those between: a page
 * goes with the last chunk that uses it, not before and not later. Of a few timers all
 * chunks are kept.
 */
static void turn_over(struct run *r)
{
	unsigned int i, turn;

	for (turn = 0; turn < 2; turn++) {
		for (i = 0; i < r->timers && i < REFILL; i++)
			if (r->timer[i].id &&
			    (u32)r->timer[i].id / TWHEEL_CHUNK % 2 == turn)
				do_cancel(r, &r->timer[i]);
		check_memory(r);
		fill(r);
	}
}

/* What has been emptied can be filled again, and then nothing is left of it. */
static void end(struct run *r)
{
	u64 pgoff;

	empty(r);
	for (pgoff = 0; pgoff < pages_of(r); pgoff++)
		if (r->page[pgoff])
			FUZZ_CHECK(twheel_slots_page(&r->t.slots, pgoff) == r->page[pgoff], ==,
				   true);
	fill(r);
	turn_over(r);
	empty(r);
	twheel_slots_free(&r->t.slots);
	FUZZ_CHECK(memory_used, ==, 0);
}

void timers_fuzz(struct feed *f, unsigned int timers, u64 operations)
{
	struct run r = { .f = f, .timers = timers };
	struct wheel_shape shape = feed_shape(f);
	unsigned int kind = feed_byte(f);
	void *mem = fuzz_zalloc(wheel_bytes(&shape));
	u32 max;
	u64 i;

	r.timer = fuzz_zalloc(timers * sizeof(*r.timer));
	r.now = min(feed_start(f, shape.shift), NOW_MAX);
	twheel_ready_init(&r.t);
	wheel_init(&r.t.wheel, &shape, mem, r.now);
	/* Mostly more than the user wants. */
	max = kind & 3 ? timers + kind : 1 + timers * kind / 256;
	r.of_slot = fuzz_zalloc(max * sizeof(*r.of_slot));
	if (twheel_slots_init(&r.t.slots, max))
		abort();
	r.mappable = kind & 4;
	r.page = fuzz_zalloc(pages_of(&r) * sizeof(*r.page));
	twheel_slots_adopt(&r.t.slots);
	/* A generator would take long to make many. */
	for (i = 0; f->random && i < timers / 2; i++)
		do_register(&r, &r.timer[i]);
	for (i = 0; i < operations && !feed_over(f); i++) {
		operate(&r);
		fuzz_operations++;
	}
	end(&r);
	free(r.page);
	free(r.of_slot);
	free(r.timer);
	free(mem);
}
