/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Redis's clock as the wheel's clock shows it. No I/O, no clock of its own.
 *
 * Each answer of Redis is a sample: Redis's time, and the two times on the wheel's
 * clock between which Redis read it.
 *
 *   sent                    middle                    received
 *    |-------- half ----------|---------- half ---------|
 *                             ^ redis is here, +- half
 *
 * The bound of a sample grows with its age, because the two clocks may drift apart.
 * The sample with the smallest bound counts. A sample that contradicts it means that
 * one of the clocks was set.
 *
 * All times are nanoseconds unless a name says otherwise.
 */
#ifndef TWHEELD_REDIS_CLOCK_H
#define TWHEELD_REDIS_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* How far two clocks may drift apart in a second: 500 ppm. */
#define CLOCK_DRIFT_PPM	500

/**
 * struct clock - what is known of Redis's clock
 * @known: there is a sample
 * @offset: Redis's time less the wheel's
 * @half: error bound of @offset at @at
 * @at: when the sample was taken, on the wheel's clock
 * @steps: how often a clock was set
 */
struct clock {
	bool known;
	int64_t offset;
	uint64_t half;
	uint64_t at;
	uint64_t steps;
};

/**
 * clock_sample() - learn from an answer
 * @c: the clock
 * @redis_us: Redis's time in the answer, microseconds
 * @sent: when the request was sent
 * @received: when the answer was read
 *
 * Return: true if a clock was set: times that were computed before are void.
 */
bool clock_sample(struct clock *c, uint64_t redis_us, uint64_t sent, uint64_t received);

/**
 * clock_forget() - drop all samples
 * @c: the clock
 */
void clock_forget(struct clock *c);

/**
 * clock_bound() - how wrong the clock may be
 * @c: a clock that is known
 * @now: the wheel's time
 */
uint64_t clock_bound(const struct clock *c, uint64_t now);

/**
 * clock_redis_ms() - Redis's time, as near as is known
 * @c: a clock that is known
 * @now: the wheel's time
 *
 * Return: Unix milliseconds.
 */
uint64_t clock_redis_ms(const struct clock *c, uint64_t now);

/**
 * clock_near() - when Redis's clock probably reaches a time
 * @c: a clock that is known
 * @ms: Unix milliseconds
 *
 * For alarms: a script compares again, so the bound is not added.
 *
 * Return: the wheel's time; 0 if that is before its beginning.
 */
uint64_t clock_near(const struct clock *c, uint64_t ms);

/**
 * clock_sure() - when Redis's clock has surely reached a time
 * @c: a clock that is known
 * @ms: Unix milliseconds
 *
 * Return: the wheel's time; 0 if that is before its beginning.
 */
uint64_t clock_sure(const struct clock *c, uint64_t ms);

/**
 * clock_soon() - when to look whether Redis's clock has reached a time
 * @c: a clock that is known
 * @ms: Unix milliseconds
 * @now: the wheel's time
 *
 * Samples that come until then keep the bound as small as it is now. If none comes, the
 * time is not surely reached then: clock_reached() tells, and the next time is the sure one.
 *
 * Return: the wheel's time; if the time has probably come, when it has surely come.
 */
uint64_t clock_soon(const struct clock *c, uint64_t ms, uint64_t now);

/**
 * clock_reached() - whether Redis's clock has surely reached a time
 * @c: the clock; one that is not known has reached nothing
 * @ms: Unix milliseconds
 * @now: the wheel's time
 */
bool clock_reached(const struct clock *c, uint64_t ms, uint64_t now);

#endif /* TWHEELD_REDIS_CLOCK_H */
