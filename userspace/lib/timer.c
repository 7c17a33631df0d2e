// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/* Timers: what goes to the backend as it is. */
#include <errno.h>

#include "internal.h"

/* One operation. Return: 0 or a negative errno. */
static int exec_one(struct twheel_ctx *wheel, uint32_t opcode, struct twheel_timer *timer)
{
	struct twheel_op op = { .timer = *timer, .opcode = opcode };
	int ret = wheel->backend->exec(wheel, &op, 1);

	if (ret < 0)
		return ret;
	if (op.result)
		return op.result;
	*timer = op.timer;
	return 0;
}

TWHEEL_PUBLIC int twheel_register(struct twheel_ctx *wheel, struct twheel_timer *timer)
{
	int err = exec_one(wheel, TWHEEL_OP_REGISTER, timer);

	if (!err)
		twheel_forget_timeout(wheel, timer->id);
	return err;
}

TWHEEL_PUBLIC int twheel_rearm(struct twheel_ctx *wheel, struct twheel_timer *timer)
{
	return exec_one(wheel, TWHEEL_OP_REARM, timer);
}

TWHEEL_PUBLIC int twheel_cancel(struct twheel_ctx *wheel, uint64_t id)
{
	struct twheel_timer timer = { .id = id };
	int ret = exec_one(wheel, TWHEEL_OP_CANCEL, &timer);

	return ret ? ret : (int)timer.state;
}

TWHEEL_PUBLIC int twheel_get(struct twheel_ctx *wheel, struct twheel_timer *timer)
{
	/* Of the rest nothing may be refused: it is not looked at. */
	struct twheel_timer get = { .id = timer->id };
	int ret = exec_one(wheel, TWHEEL_OP_GET, &get);

	if (!ret)
		*timer = get;
	return ret;
}

TWHEEL_PUBLIC int twheel_batch(struct twheel_ctx *wheel, struct twheel_op *ops,
			       unsigned int count)
{
	int i, done;

	if (count > TWHEEL_BATCH_MAX)
		return -EINVAL;
	done = wheel->backend->exec(wheel, ops, count);
	for (i = 0; i < done; i++) {
		if (ops[i].opcode == TWHEEL_OP_REGISTER && !ops[i].result)
			twheel_forget_timeout(wheel, ops[i].timer.id);
	}
	return done;
}
