// SPDX-License-Identifier: GPL-2.0
/*
 * Random operations on a wheel and on a sorted array, which must agree.
 *
 *   wheel:   buckets, levels, bitmaps       model:   [ 3 | 7 | 7 | 19 | ... ]
 *                                                      ^ whatever is due is here
 *
 * Parameters: seed repeats a run, ops says how many operations each wheel gets.
 */
#include <linux/module.h>
#include <linux/random.h>

#include "twheel_kunit.h"

static unsigned long seed;
module_param(seed, ulong, 0444);
MODULE_PARM_DESC(seed, "Seed of the random operations (0, the default: a new one each time)");

static unsigned long ops = 200000;
module_param(ops, ulong, 0444);
MODULE_PARM_DESC(ops, "Number of operations on each wheel (default 200000)");

/* How many timers there are, queued or not. */
#define NR_TIMERS	192

/* After so many operations a wheel is emptied and begins anew at another time. */
#define EPOCH_OPS	2000

/* No jump, and hardly a deadline, is farther than 2^FAR_ORDER ticks. */
#define FAR_ORDER	40

/*
 * @deadline: as given to wheel_add()
 * @due: tick at which the model expires it; node.tick is the wheel's opinion
 * @queued: in model.queue
 */
struct model_timer {
	struct wheel_node node;
	u64 deadline;
	u64 due;
	bool queued;
};

/*
 * @now: the time, the same for both
 * @random: state of the generator, never 0
 * @op: number of the present operation
 * @expired: how many timers have expired
 * @told: the wheel knows that it is @now
 * @queue: the timers that are queued, by @due
 */
struct model {
	struct kunit *test;
	struct wheel *w;
	u64 now;
	u64 random;
	unsigned long op;
	unsigned long expired;
	unsigned int nr_queued;
	bool told;
	struct model_timer *queue[NR_TIMERS];
	struct model_timer timer[NR_TIMERS];
};

/* Ends the case if @left and @right are not as they should be. */
#define MODEL_ASSERT(m, relation, left, right) do {			\
	struct model *_m = (m);						\
									\
	KUNIT_ASSERT_##relation##_MSG(_m->test, left, right,		\
				      "seed=%lu ops=%lu, operation %lu, at %llu ns", \
				      seed, ops, _m->op, _m->now);	\
} while (0)

static u64 next_random(struct model *m)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 7;
	m->random ^= m->random << 17;
	return m->random;
}

/* A number below @end. */
static unsigned int below(struct model *m, unsigned int end)
{
	return (u32)(next_random(m) >> 32) % end;
}

/* A number of any size: each number of binary digits up to @order is as likely. */
static u64 any_size(struct model *m, unsigned int order)
{
	unsigned int digits = below(m, order + 1);

	return digits ? next_random(m) >> (64 - digits) : 0;
}

/* Some ns: often about a border of a tick or of a level. */
static u64 any_distance(struct model *m)
{
	const struct wheel_shape *shape = &m->w->shape;
	unsigned int order = min(shape->shift + FAR_ORDER, 63U);
	unsigned int level;

	switch (below(m, 4)) {
	case 0:
		level = below(m, shape->levels + 1);
		order = min(shape->shift + level * shape->slot_bits, order);
		return ((1ULL << order) - 1 + below(m, 3)) * (1 + below(m, 2));
	case 1:
		return (u64)below(m, 1U << shape->slot_bits) << shape->shift;
	default:
		return any_size(m, order);
	}
}

/* A time is before the end of time. */
static u64 later(u64 now, u64 distance)
{
	return now + min(distance, WHEEL_NEVER - 1 - now);
}

static u64 earlier(u64 now, u64 distance)
{
	return now - min(distance, now);
}

static u64 now_tick(const struct model *m)
{
	return m->now >> m->w->shape.shift;
}

/* When the tick @tick begins; an end of time is as good as another. */
static u64 start_of(const struct model *m, u64 tick)
{
	unsigned int shift = m->w->shape.shift;

	return tick > U64_MAX >> shift ? WHEEL_NEVER : tick << shift;
}

/* The contract of wheel_add(), spelt out. */
static u64 model_due(struct model *m, u64 deadline, u64 slack)
{
	const struct wheel_shape *shape = &m->w->shape;
	u64 slack_ticks = slack >> shape->shift;
	u64 due = deadline >> shape->shift;
	unsigned int level;
	u64 width = 1;
	u64 border;

	if (due << shape->shift != deadline)
		due++;

	for (level = 1; level < shape->levels; level++) {
		if (width << shape->slot_bits > slack_ticks)
			break;
		width <<= shape->slot_bits;
	}
	border = due;
	if (due & (width - 1))
		border = (due & ~(width - 1)) + width;
	/* The last border before the end of time has passed. */
	if (border < due)
		return due;
	MODEL_ASSERT(m, LE, border - due, slack_ticks);
	return border;
}

static void model_insert(struct model *m, struct model_timer *t)
{
	unsigned int i = m->nr_queued++;

	for (; i && m->queue[i - 1]->due > t->due; i--)
		m->queue[i] = m->queue[i - 1];
	m->queue[i] = t;
	t->queued = true;
}

static void model_remove(struct model *m, struct model_timer *t)
{
	unsigned int i = 0;

	while (m->queue[i] != t)
		i++;
	m->nr_queued--;
	for (; i < m->nr_queued; i++)
		m->queue[i] = m->queue[i + 1];
	t->queued = false;
}

/* The first moment at which a timer is due. */
static u64 model_next(const struct model *m)
{
	return m->nr_queued ? start_of(m, m->queue[0]->due) : WHEEL_NEVER;
}

static void add(struct model *m, struct model_timer *t)
{
	u64 slack = below(m, 3) ? 0 : any_distance(m);
	bool behind;
	bool added;

	t->deadline = below(m, 16) ? m->now + any_distance(m) : earlier(m->now, any_distance(m));
	if (t->deadline < m->now && below(m, 2))
		t->deadline = below(m, 2) ? 0 : WHEEL_NEVER - below(m, 3);
	t->due = model_due(m, t->deadline, slack);

	if (below(m, 2)) {
		wheel_set_time(m->w, m->now);
		m->told = true;
	}
	/* A wheel with something to do has to do that first. */
	behind = !m->told || wheel_next(m->w) <= m->now;
	added = wheel_add(m->w, &t->node, t->deadline, slack);
	if (!behind)
		MODEL_ASSERT(m, EQ, added, model_due(m, t->deadline, 0) > now_tick(m));
	if (added)
		model_insert(m, t);
	else
		MODEL_ASSERT(m, LE, t->deadline, m->now);
}

static void del(struct model *m, struct model_timer *t)
{
	wheel_del(m->w, &t->node);
	model_remove(m, t);
}

static struct model_timer *any_timer(struct model *m)
{
	return &m->timer[below(m, NR_TIMERS)];
}

/* The wheel and the model expire what is due, at most @budget touches of it. */
static void expire(struct model *m, unsigned int budget)
{
	u64 cascaded = m->w->cascaded;
	unsigned int left = budget;
	struct wheel_node *node;
	u64 expired = 0;

	m->told = false;
	while ((node = wheel_expire(m->w, m->now, &left))) {
		struct model_timer *t = hlist_entry(&node->link, struct model_timer, node.link);

		MODEL_ASSERT(m, EQ, t->queued, true);
		MODEL_ASSERT(m, LE, t->deadline, m->now);
		MODEL_ASSERT(m, EQ, t->due, m->queue[0]->due);
		MODEL_ASSERT(m, LE, t->due, now_tick(m));
		model_remove(m, t);
		expired++;

		/* Whoever gets a timer may arm it again, and cancel others. */
		if (!below(m, 4))
			add(m, t);
		t = any_timer(m);
		if (t->queued && !below(m, 4))
			del(m, t);
	}
	m->expired += expired;
	MODEL_ASSERT(m, EQ, budget - left, expired + m->w->cascaded - cascaded);
	if (left) {
		m->told = true;
		MODEL_ASSERT(m, LT, m->now, model_next(m));
		MODEL_ASSERT(m, LT, m->now, wheel_next(m->w));
	}
}

static void advance(struct model *m)
{
	u64 now = m->now;

	switch (below(m, 8)) {
	case 0:
		now = later(now, 1ULL << m->w->shape.shift);
		break;
	case 1:
		/* The latest moment at which nothing may come yet. */
		now = max(now, model_next(m) - 1);
		break;
	case 2:
		now = max(now, model_next(m));
		break;
	case 3:
	case 4:
		/* As the owner of a wheel does it. */
		now = max(now, wheel_next(m->w));
		break;
	default:
		now = later(now, any_distance(m));
		break;
	}
	m->now = min(now, WHEEL_NEVER - 1);
	expire(m, below(m, 3) ? AMPLE : 1 + below(m, 4));
}

static void set_back(struct model *m)
{
	m->now = earlier(m->now, any_distance(m));
	if (below(m, 2)) {
		wheel_set_time(m->w, m->now);
		m->told = true;
	} else {
		expire(m, below(m, 2) ? AMPLE : 1);
	}
}

static void operate(struct model *m)
{
	struct model_timer *t = any_timer(m);
	unsigned int die = below(m, 100);

	if (die < 55) {
		/* The higher, the fuller the wheel. */
		if (t->queued)
			del(m, t);
		if (die < 40)
			add(m, t);
	} else if (die < 98) {
		advance(m);
	} else {
		set_back(m);
	}
	MODEL_ASSERT(m, LE, wheel_next(m->w), model_next(m));
}

static void begin(struct model *m, const struct wheel_shape *shape)
{
	switch (below(m, 5)) {
	case 0:
		m->now = 0;
		break;
	case 1:
		/* A counter of 32 bits would wrap. */
		m->now = ((1ULL << 32) - 10) << min(shape->shift, 31U);
		break;
	case 2:
		m->now = WHEEL_NEVER - 1 - any_size(m, 63);
		break;
	case 3:
		m->now = 1ULL << below(m, 64);
		break;
	default:
		m->now = next_random(m) >> 1;
		break;
	}
	m->told = true;
	/* An empty wheel has left its memory as it got it. */
	wheel_init(m->w, shape, m->w->occupied, m->now);
}

static void end(struct model *m)
{
	unsigned int looks;

	while (m->nr_queued)
		del(m, m->queue[below(m, m->nr_queued)]);

	/* One look at most for a visit that was not over, one for what is gone. */
	for (looks = 0; wheel_next(m->w) != WHEEL_NEVER; looks++) {
		MODEL_ASSERT(m, LT, looks, 2U);
		m->now = max(m->now, wheel_next(m->w));
		expire(m, AMPLE);
	}
}

/* G1, G2, G6 */
static void twheel_model_test(struct kunit *test)
{
	const struct shape_row *row = test->param_value;
	struct wheel_shape shape;
	struct model *m;

	while (!seed)
		seed = get_random_u32();

	m = kunit_kzalloc(test, sizeof(*m), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, m);
	m->test = test;
	m->w = twheel_kunit_make(test, row->shape, 0);
	m->random = seed;
	shape = m->w->shape;

	for (m->op = 0; m->op < ops; m->op++) {
		if (m->op % EPOCH_OPS == 0) {
			end(m);
			begin(m, &shape);
		}
		operate(m);
	}
	end(m);
	kunit_info(test, "seed=%lu ops=%lu: %lu expired", seed, ops, m->expired);
	KUNIT_EXPECT_TRUE(test, m->expired > 0);
}

static struct kunit_case twheel_model_cases[] = {
	KUNIT_CASE_PARAM(twheel_model_test, shape_gen_params),
	{}
};

static struct kunit_suite twheel_model_suite = {
	.name = "twheel_model",
	.test_cases = twheel_model_cases,
};

kunit_test_suite(twheel_model_suite);
