// SPDX-License-Identifier: GPL-2.0
/* Finds tasks for a worker that asks. See reserve.h. */
#include "work/attempt.h"
#include "work/lane.h"
#include "work/reserve.h"

void reserve_tasks(struct queue *q, struct waiter *w, bool once)
{
	if (q->daemon->stopping) {
		waiter_end(w);
		return;
	}
	attempt_offer_idle(q);
	for (unsigned int i = 0; i < q->settings.lanes; i++) {
		struct lane *l = &q->lane[i];

		/* Take tasks that are due at once, and leave the rest to the alarm of the lane. */
		if (once || l->starved || l->next_ms <= lane_now_ms(l))
			lane_look(l);
		else
			lane_arm(l);
	}
	waiter_settle(q);
}
