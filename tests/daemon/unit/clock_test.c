// SPDX-License-Identifier: GPL-2.0
/* Redis's time on the wheel's clock is never early, and a step of Redis's clock is noticed. */
#include <stdlib.h>

#include "redis/clock.h"
#include "tap.h"

#define MS	1000000ULL
#define US	1000ULL
#define SEC	1000000000ULL
/* Redis's time when the wheel started. */
#define ZERO_MS	1790000000000ULL

static uint64_t redis_us(uint64_t wheel_ns)
{
	return ZERO_MS * 1000 + wheel_ns / US;
}

static void one_sample(void)
{
	struct clock c = { 0 };

	ok(!clock_reached(&c, 0, SEC), "a clock that is not known has reached nothing");
	ok(!clock_sample(&c, redis_us(10 * MS), 10 * MS - 50 * US, 10 * MS + 50 * US),
	   "the first sample is no step");
	ok(clock_bound(&c, 10 * MS) <= 52 * US, "the bound is half the round trip");
	ok(clock_bound(&c, 10 * MS + SEC + 50 * US) >= 550 * US,
	   "the bound grows by 500 ppm of the age");
	is_number(clock_redis_ms(&c, 20 * MS), ZERO_MS + 20, "Redis's time is known");
	ok(clock_sure(&c, ZERO_MS + 20) >= 20 * MS + 50 * US, "clock_sure() is later by the bound");
	ok(clock_near(&c, ZERO_MS + 20) < clock_sure(&c, ZERO_MS + 20),
	   "clock_near() is before clock_sure()");
	ok(clock_reached(&c, ZERO_MS + 20, clock_sure(&c, ZERO_MS + 20)),
	   "a time is reached at its clock_sure()");
	ok(!clock_reached(&c, ZERO_MS + 20, 20 * MS), "a time is not reached at the time itself");
	is_number(clock_near(&c, ZERO_MS - 5000), 0, "a time before the wheel's is 0");
	for (uint64_t ms = 4 * ZERO_MS; ms < 160 * ZERO_MS; ms *= 2)
		ok(!clock_reached(&c, ms, 20 * MS) && clock_soon(&c, ms, 20 * MS) > 1000 * SEC,
		   "a time of a later century is not reached");
}

static void better_samples(void)
{
	struct clock c = { 0 };

	clock_sample(&c, redis_us(10 * MS), 8 * MS, 12 * MS);
	ok(!clock_sample(&c, redis_us(20 * MS), 20 * MS - 10 * US, 20 * MS + 10 * US),
	   "a better sample is no step");
	ok(clock_bound(&c, 20 * MS) < 20 * US, "the better sample counts");
	clock_sample(&c, redis_us(30 * MS), 28 * MS, 32 * MS);
	ok(clock_bound(&c, 32 * MS) < 20 * US, "a worse sample does not count");
}

static void soon(void)
{
	uint64_t due = ZERO_MS + 1000, at;
	struct clock c = { 0 };

	clock_sample(&c, redis_us(10 * MS), 10 * MS - 10 * US, 10 * MS + 10 * US);
	at = clock_soon(&c, due, 10 * MS);
	ok(at > clock_near(&c, due) && at < clock_near(&c, due) + 20 * US,
	   "clock_soon() uses the present bound");
	ok(!clock_reached(&c, due, at),
	   "without a new sample a time is not reached at its clock_soon()");
	is_number(clock_soon(&c, due, at), clock_sure(&c, due),
		  "the next clock_soon() is clock_sure()");
	clock_sample(&c, redis_us(999 * MS), 999 * MS - 5 * US, 999 * MS + 5 * US);
	ok(clock_reached(&c, due, at), "with a new sample a time is reached at its clock_soon()");
}

static void steps(void)
{
	struct clock c = { 0 };

	clock_sample(&c, redis_us(10 * MS), 10 * MS - 10 * US, 10 * MS + 10 * US);
	ok(clock_sample(&c, redis_us(20 * MS) + 3600000000ULL, 20 * MS - 10 * US,
			20 * MS + 10 * US), "an hour is a step");
	is_number(clock_redis_ms(&c, 20 * MS), ZERO_MS + 20 + 3600000, "the new time counts");
	ok(clock_sample(&c, redis_us(30 * MS), 30 * MS - 10 * US, 30 * MS + 10 * US),
	   "the way back, too");
	is_number(c.steps, 2, "steps are counted");
}

/* Redis reads its clock at any point of the round trip, and its clock drifts by up to 400 ppm. */
static void random_walk(void)
{
	struct clock c = { 0 };
	uint64_t wheel = SEC;
	unsigned int early = 0, step = 0, far = 0;
	const double drift = 0.0004;

	srandom(1);
	for (unsigned int i = 0; i < 100000; i++) {
		uint64_t trip = 20 * US + random() % (i % 10 ? 200 * US : 20 * MS);
		uint64_t at = wheel + random() % (trip + 1);
		double truth = at * (1 + drift);
		uint64_t due_ms = ZERO_MS + (uint64_t)(truth / MS) + random() % 500;
		uint64_t sure, when;

		step += clock_sample(&c, ZERO_MS * 1000 + (uint64_t)(truth / US), wheel,
				     wheel + trip);
		wheel += trip;
		sure = clock_sure(&c, due_ms);
		when = (due_ms - ZERO_MS) * MS / (1 + drift);
		if (sure + 1 < when)
			early++;
		if (sure > when + 25 * MS)
			far++;
		wheel += random() % (20 * MS);
	}
	is_number(early, 0, "never early in 100,000 random samples");
	is_number(step, 0, "drift is no step");
	is_number(far, 0, "never more than 25 ms late");
}

int main(void)
{
	one_sample();
	better_samples();
	soon();
	steps();
	random_walk();
	return tap_end();
}
