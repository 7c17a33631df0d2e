// SPDX-License-Identifier: GPL-2.0
/* Redis's clock in terms of the wheel's clock. See clock.h. */
#include "ground/now.h"
#include "redis/clock.h"

#define MS_MAX		(INT64_MAX / NSEC_PER_MSEC)

/* Redis rounds its time down to microseconds. */
#define RESOLUTION	NSEC_PER_USEC

static uint64_t drift(uint64_t age)
{
	return age / 1000000 * CLOCK_DRIFT_PPM + age % 1000000 * CLOCK_DRIFT_PPM / 1000000 + 1;
}

uint64_t clock_bound(const struct clock *c, uint64_t now)
{
	return c->half + (now > c->at ? drift(now - c->at) : 0);
}

void clock_forget(struct clock *c)
{
	c->known = false;
}

bool clock_sample(struct clock *c, uint64_t redis_us, uint64_t sent, uint64_t received)
{
	uint64_t half = (received - sent) / 2 + RESOLUTION;
	uint64_t middle = sent + (received - sent) / 2;
	int64_t offset = (int64_t)(redis_us * NSEC_PER_USEC - middle);
	bool step = false;

	if (c->known) {
		uint64_t bound = clock_bound(c, received);
		uint64_t apart = offset > c->offset ? (uint64_t)(offset - c->offset) :
						      (uint64_t)(c->offset - offset);

		if (apart > bound + half) {
			c->steps++;
			step = true;
		} else if (half > bound) {
			return false;
		}
	}
	c->known = true;
	c->offset = offset;
	c->half = half;
	c->at = received;
	return step;
}

uint64_t clock_redis_ms(const struct clock *c, uint64_t now)
{
	return (uint64_t)((int64_t)now + c->offset) / NSEC_PER_MSEC;
}

uint64_t clock_near(const struct clock *c, uint64_t ms)
{
	/* Nanoseconds end in the year 2262. A later time is treated as that moment. */
	uint64_t ns = ms < MS_MAX ? ms * NSEC_PER_MSEC : MS_MAX * NSEC_PER_MSEC;
	uint64_t offset = c->offset;

	if (c->offset < 0)
		return ns - offset;
	return ns > offset ? ns - offset : 0;
}

uint64_t clock_sure(const struct clock *c, uint64_t ms)
{
	uint64_t near = clock_near(c, ms);
	uint64_t bound = clock_bound(c, near);

	/*
	 * The bound grows during the wait: by drift(bound), and during that time by hardly
	 * anything.
	 */
	return near + bound + drift(bound) + 1;
}

uint64_t clock_soon(const struct clock *c, uint64_t ms, uint64_t now)
{
	uint64_t near = clock_near(c, ms);

	return near > now ? near + clock_bound(c, now) : clock_sure(c, ms);
}

bool clock_reached(const struct clock *c, uint64_t ms, uint64_t now)
{
	return c->known && now >= clock_near(c, ms) + clock_bound(c, now);
}
