// SPDX-License-Identifier: GPL-2.0
/*
 * twheel_timers.c and twheel_word.c against what their users know.
 *
 * Of each timer the user knows the word that is in the table, and the event that he has
 * not read. From that follows what each verb must answer, and what may have become of the
 * timer after each: nothing, or the expiry of a word that was due. What must have expired
 * is found by looking at all of them. An event is final: only REARM, CANCEL and KICK
 * withdraw it.
 *
 * The user keeps to the protocol of the table, unless he does not: a timer that was
 * neither kicked nor marked may be late, and nothing else. Now and then he scribbles on
 * the marks and the summary, which makes nobody late.
 */
#include <errno.h>
#include <string.h>

#include <linux/atomic.h>
#include <linux/err.h>
#include <linux/limits.h>
#include <linux/minmax.h>

#include "fuzz.h"
#include "store.h"
#include "twheel_timers.h"

#define AMPLE	(~0U)
/* Timers that a KICK runs before, as the device does. */
#define KICK_RUN	64U
/* Events of a claim. */
#define EVENTS		16U
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
 * @unread: has an event
 * @last: of that event: the periods end with it
 * @drained: that event was drained
 * @lax: a KICK is owed, or it was due when the clock was set back: may be late
 * @marked: a mark is all that was owed: late until the next turn
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
	bool marked;
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
 * @now: the time
 * @timer: the user's
 * @timers: how many he wants at most
 * @of_slot: which of them has had a slot last
 * @programmed: when the wheel will be turned next, as the header says
 * @withdraws: a KICK has come since the timers were followed
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
	struct timers t;
	u64 now;
	struct user_timer *timer;
	unsigned int timers;
	struct user_timer **of_slot;
	u64 programmed;
	bool withdraws;
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

static struct timer *timer_of(const struct run *r, const struct user_timer *u)
{
	struct timer *e = store_find(r->t.store, u->id);

	FUZZ_CHECK(!e, ==, false);
	return e;
}

static struct twheel_slot *word_of(const struct run *r, const struct user_timer *u)
{
	return store_word(r->t.store, (u32)u->id);
}

/* What the user knows */

static bool has_event(const struct user_timer *u)
{
	return u->unread;
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
	u->marked = false;
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
	FUZZ_CHECK(!store_find(r->t.store, u->id), ==, true);
	*u = (struct user_timer){ .dead = u->id };
	r->live--;
}

/* Learns what has become of @u, and checks that it may have. */
static void follow(struct run *r, struct user_timer *u)
{
	const struct timer *e;
	const struct twheel_slot *slot;

	if (!u->id)
		return;
	e = timer_of(r, u);
	slot = word_of(r, u);
	/* An event ends by a KICK only, and only if the word was changed. */
	if (u->unread && (e->place != TIMER_READY || slot->deadline_ns != u->word)) {
		FUZZ_CHECK(r->withdraws, ==, true);
		FUZZ_CHECK(u->word, !=, u->left);
		u->unread = false;
	}
	if (slot->deadline_ns != u->word || (e->place == TIMER_READY && !u->unread)) {
		has_expired(u, r->now);
		FUZZ_CHECK(slot->deadline_ns, ==, u->left);
		FUZZ_CHECK(e->place, ==, TIMER_READY);
		FUZZ_CHECK(e->deadline, ==, u->deadline);
		FUZZ_CHECK(e->expired_ns, ==, u->expired);
	}
	/* Where the user need not kick, the kernel must come. */
	if (e->place == TIMER_QUEUED)
		FUZZ_CHECK(slot->wake_ns, <=, tick_start(shape_of(r), e->node.tick));
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
		/* A mark is enough if a turn comes before the deadline, or at the next tick. */
		if (u->id && u->marked)
			FUZZ_CHECK(r->programmed, <=,
				   max(u->word, (r->now | (timers_tick_ns(&r->t) - 1)) + 1));
	}
	r->withdraws = false;
}

/* What the owner of a wheel does when he has done something to it. */
static void finish(struct run *r)
{
	u64 next = timers_next(&r->t);

	if (next < r->programmed)
		r->programmed = timers_publish_next(&r->t, next, r->now);
}

/* A turn, and what follows from it. */
static void turn(struct run *r, unsigned int budget, enum look look)
{
	unsigned int i;

	r->withdraws |= look == LOOK_AND_WITHDRAW;
	/* A look in passing at one that was moved and is due lets it wait for the next tick. */
	for (i = 0; i < r->timers && r->t.store->table; i++) {
		struct user_timer *u = &r->timer[i];

		if (u->id && is_armed(u) && u->word <= r->now &&
		    timer_of(r, u)->deadline != u->word)
			u->prompt = false;
	}
	timers_turn(&r->t, r->now, budget, look);
	r->programmed = timers_publish_next(&r->t, timers_next(&r->t), r->now);
	for (i = 0; i < r->timers; i++) {
		struct user_timer *u = &r->timer[i];
		u32 slot = u->id;

		/* Behind where the sweep has begun, a mark waits for the next. */
		if (!u->id || !u->marked ||
		    test_bit(slot % 64, (unsigned long *)store_marks(r->t.store, 0) + slot / 64))
			continue;
		u->marked = false;
		u->lax = false;
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
		arg->period_ns = timers_tick_ns(&r->t) + feed_distance(r->f, shape_of(r)->shift);
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
	return arg->period_ns && arg->period_ns < timers_tick_ns(&r->t) ? -EINVAL : 0;
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
	u->marked = false;
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
	while (!timers_apply(&r->t, op, 1, r->now)) {
		unsigned int kind = feed_byte(r->f);
		int err;

		FUZZ_CHECK(op->opcode, ==, TWHEEL_OP_REGISTER);
		memory_left = kind & 7 ? ~0UL : kind >> 6;
		err = core_store_grow(r->t.store);
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
	if (r->live == r->t.store->max) {
		FUZZ_CHECK(err, ==, -ENOSPC);
		return;
	}
	if (err) {
		FUZZ_CHECK(err, ==, -ENOMEM);
		return;
	}
	FUZZ_CHECK(op.timer.id >> 32, !=, 0);
	FUZZ_CHECK((u32)op.timer.id, <, r->t.store->max);
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
	u64 withdrawn = r->t.stats.withdrawn;

	FUZZ_CHECK(apply(r, &op), ==, 0);
	FUZZ_CHECK(r->t.stats.withdrawn, ==, withdrawn);
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
	if (kind >> 6 == 0 && store_find(r->t.store, op.timer.id))
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

	turn(r, KICK_RUN, LOOK_AND_WITHDRAW);
	if (!(kind & 7)) {
		u32 slot = feed_below(r->f, 65536) << (kind >> 4);
		bool live = slot < r->t.store->max && r->of_slot[slot] &&
			    r->of_slot[slot]->id && (u32)r->of_slot[slot]->id == slot;

		FUZZ_CHECK(timers_kick(&r->t, slot, r->now), ==, live);
		follow_all(r);
		r->withdraws = true;
	}
	behind = wheel_due(&r->t.wheel, r->now);
	FUZZ_CHECK(timers_kick(&r->t, (u32)u->id, r->now), ==, true);
	u->lax = false;
	u->marked = false;
	/* Kicked in passing, it may wait for the next tick. */
	if (behind)
		u->prompt = false;
	finish(r);
	follow_all(r);
	return behind;
}

/* Marks the slot of @u by the protocol. Return: whether a KICK is owed. */
static bool mark(struct run *r, struct user_timer *u)
{
	u32 slot = u->id;

	set_bit(slot, (unsigned long *)store_marks(r->t.store, 0));
	set_bit(slot >> STORE_LINE_SHIFT, (unsigned long *)store_summary(r->t.store));
	return u->word <= r->t.store->table->next_ns;
}

/* Moves or disarms @u through the table. */
static void do_exchange(struct run *r, struct user_timer *u, u64 to, unsigned int kind)
{
	struct twheel_slot *slot = word_of(r, u);
	bool later = is_armed(u) && !u->lax && to > u->word;
	u64 wake = slot->wake_ns;
	bool idle = timer_of(r, u)->place == TIMER_IDLE;

	FUZZ_CHECK(xchg(&slot->deadline_ns, to), ==, u->word);
	/* Later is for nothing, if the wheel is where it should be. */
	if (later && !wheel_due(&r->t.wheel, r->now))
		FUZZ_CHECK(to, >, wake);
	u->word = to;
	u->marked = false;
	if (!to)
		return;
	/* What the user owes from before he does not owe for this one. */
	was_armed(r, u, to <= wake);
	if (!u->lax || kind == 7)
		return;
	if (r->t.store->table && kind & 1) {
		if (!mark(r, u)) {
			/* Of one that waits for its reader nothing is promised before. */
			u->marked = idle;
			return;
		}
		/* A KICK with a count of 0. */
		r->t.line = 0;
		turn(r, AMPLE, LOOK_AND_WITHDRAW);
		u->lax = false;
		u->prompt = false;
		follow_all(r);
		return;
	}
	if (!kick(r, u) && is_armed(u))
		FUZZ_CHECK(u->word, >, r->now);
	if (is_armed(u))
		was_armed(r, u, false);
}

/* Writes into the marks and the summary what comes to his mind. */
static void do_scribble(struct run *r)
{
	unsigned int kind = feed_byte(r->f);

	if (!r->t.store->table)
		return;
	if (kind & 1)
		memset(store_marks(r->t.store, 0), feed_byte(r->f), r->t.store->max / 8);
	if (kind & 2)
		memset(store_summary(r->t.store), feed_byte(r->f), kind & 4 ? 2048 : 8);
	if (kind & 8)
		r->t.store->table->tick_ns = feed_u64(r->f);
	/* A mark that was set is set still. */
	for (kind = 0; kind < r->timers; kind++)
		if (r->timer[kind].id && r->timer[kind].marked)
			mark(r, &r->timer[kind]);
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

	turn(r, budget, LOOK);
	/* Of a word of marks it may do the rest. */
	if (budget < AMPLE - 64)
		FUZZ_CHECK(touched(r) - before, <=, budget + 64);
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
	u64 next;

	FUZZ_CHECK(has_event(u), ==, true);
	FUZZ_CHECK(event->user_data, ==, u->data);
	FUZZ_CHECK(event->deadline_ns, ==, u->deadline);
	FUZZ_CHECK(event->expired_ns, ==, u->expired);
	if (u->deadline > u->expired)
		FUZZ_CHECK(u->drained, ==, true);
	/*
	 * The periods that have passed until now are claimed with it, unless the word was
	 * changed, or a drain was the end of them.
	 */
	next = period_after(u, u->deadline, max(r->now, u->expired));
	if (u->period && !u->last && (u->word == u->left || next == u->left)) {
		if (u->word == u->left)
			u->word = next;
		u->left = next;
		u->expired = max(r->now, u->expired);
	}
	if (u->deadline > event->expired_ns)
		expirations = 0;
	if (u->period && u->expired > u->deadline)
		expirations += (u->expired - u->deadline) / u->period;
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
	u->marked = false;
	was_armed(r, u, false);
	if (!(u->flags & TWHEEL_KEEP) && !u->word && (!u->period || u->last))
		has_ended(r, u);
}

/* Reads up to @nr events, of which @fit arrive. */
static void do_read(struct run *r, unsigned int nr, unsigned int fit)
{
	struct twheel_event events[EVENTS];
	struct user_timer *of[EVENTS];
	u64 withdrawn = r->t.stats.withdrawn;
	unsigned int got, i, j;

	got = timers_peek(&r->t, events, nr, r->now);
	FUZZ_CHECK(got, <=, nr);
	for (i = 0; i < got; i++) {
		of[i] = check_event(r, &events[i]);
		for (j = 0; j < i; j++)
			FUZZ_CHECK(of[j] == of[i], ==, false);
	}
	timers_consume(&r->t, min(fit, got), r->now);
	for (i = 0; i < got && i < fit; i++)
		was_read(r, of[i]);
	finish(r);
	FUZZ_CHECK(r->t.stats.withdrawn, ==, withdrawn);
	follow_all(r);
	/* Where there was room for more, only what became due meanwhile is left. */
	if (got < nr && got <= fit && !hlist_empty(&r->t.ready))
		FUZZ_CHECK(container_of(r->t.ready.first, struct timer, ready)->expired_ns,
			   ==, r->now);
}

/* There is an event if the user is owed one. */
static void do_poll(struct run *r)
{
	unsigned int i;

	for (i = 0; i < r->timers && !has_event(&r->timer[i]); i++)
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

static void do_drain(struct run *r, u32 mode)
{
	unsigned int drained = 0;
	unsigned int armed = 0;
	unsigned int i;
	u32 slot = 0;

	while (slot != U32_MAX)
		drained += timers_drain(&r->t, &slot, mode, 1 + feed_below(r->f, 64), r->now);
	finish(r);
	for (i = 0; i < r->timers; i++) {
		struct user_timer *u = &r->timer[i];

		if (!u->id)
			continue;
		if (!is_armed(u)) {
			if (u->unread && !u->last && u->word && u->word == u->left)
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
		u->marked = false;
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
			do_exchange(r, u, any_time(r), op >> 5);
		break;
	case 17:
		u = live_timer(r);
		if (u)
			do_exchange(r, u, 0, 0);
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
		do_scribble(r);
		break;
	case 29:
		check_stats(r);
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
		do_read(r, EVENTS, EVENTS);
	for (i = 0; i < r->timers; i++)
		if (r->timer[i].id)
			do_cancel(r, &r->timer[i]);
	check_stats(r);
	FUZZ_CHECK(r->t.stats.armed, ==, 0);
	FUZZ_CHECK(r->t.stats.unread, ==, 0);
	FUZZ_CHECK(r->live, ==, 0);
}

/* What has been emptied can be filled again. */
static void end(struct run *r)
{
	unsigned int i;

	empty(r);
	for (i = 0; i < r->timers; i++)
		do_register(r, &r->timer[i]);
	follow_all(r);
	empty(r);
	core_store_free(r->t.store);
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
	wheel_init(&r.t.wheel, &shape, mem, r.now);
	/* Mostly more than the user wants. */
	max = kind & 3 ? timers + kind : 1 + timers * kind / 256;
	r.of_slot = fuzz_zalloc(max * sizeof(*r.of_slot));
	timers_init(&r.t, core_store_make(max, kind & 12));
	r.programmed = WHEEL_NEVER;
	/* A generator would take long to make many. */
	for (i = 0; f->random && i < timers / 2; i++)
		do_register(&r, &r.timer[i]);
	for (i = 0; i < operations && !feed_over(f); i++) {
		operate(&r);
		fuzz_operations++;
	}
	end(&r);
	free(r.of_slot);
	free(r.timer);
	free(mem);
}
