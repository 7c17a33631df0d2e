// SPDX-License-Identifier: GPL-2.0
/*
 * Compares twheel.c, with any shape, with a sorted array: G1, G2, G6, G7.
 */
#include "fuzz.h"
#include "twheel_model.h"

void wheel_fuzz(struct feed *f, unsigned int timers, u64 operations)
{
	struct wheel_shape shape = feed_shape(f);
	void *mem = fuzz_zalloc(wheel_bytes(&shape));
	struct model r = {
		.f = f,
		.timers = timers,
		.timer = fuzz_zalloc(timers * sizeof(*r.timer)),
		.array = fuzz_zalloc(timers * sizeof(*r.array)),
	};

	model_run(&r, &shape, mem, operations);
	free(r.array);
	free(r.timer);
	free(mem);
}
