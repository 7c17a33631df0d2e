// SPDX-License-Identifier: GPL-2.0
/* Renews the leases of running attempts. See renew.h. */
#include <stdlib.h>

#include "redis/script.h"
#include "redis/store.h"
#include "work/held.h"
#include "work/renew.h"

/**
 * struct renewal - leases that are being renewed
 */
struct renewal {
	struct lane *lane;
	uint64_t holder;
	uint64_t lease_ms;
	unsigned int count;
	uint64_t token[BATCH_MAX];
};

static void renewed_one(struct renewal *r, uint64_t token, enum renewed answer, uint64_t now_ms)
{
	struct held *h = held_find(r->lane, r->holder, token);

	if (!h)
		return;
	switch (answer) {
	case RENEW_HELD:
		h->lease_end_ms = now_ms + r->lease_ms;
		break;
	case RENEW_CANCELED:
		h->lease_end_ms = now_ms + r->lease_ms;
		h->last = true;
		if (held_withdraw(h))
			held_release(h, 0);
		break;
	case RENEW_STALE:
		/* A request that is running continues, although its report will be stale. */
		if (held_withdraw(h))
			held_free(h);
		break;
	}
}

static void renewed(void *arg, enum store_result result, const redisReply *reply)
{
	struct renewal *r = arg;
	enum renewed answer;

	for (unsigned int i = 0; result == STORE_OK && i < r->count; i++) {
		if (renew_answer(reply, i, &answer))
			renewed_one(r, r->token[i], answer, script_now_ms(reply));
	}
	free(r);
}

static bool wants_renewal(const struct held *h, uint64_t now_ms)
{
	if (h->state == HELD_WAITS || h->state == HELD_OFFERED)
		return false;
	return h->lease_end_ms < now_ms + h->lease_ms * 2 / 3;
}

void renew_in_time(struct lane *l, uint64_t lease_ms)
{
	struct alarms *alarms = l->queue->daemon->alarms;

	alarm_arm_before(alarms, &l->renew, alarms_now(alarms) + lease_ms * NSEC_PER_MSEC / 6);
}

void renew_leases(struct lane *l)
{
	struct daemon *d = l->queue->daemon;
	uint64_t now_ms = lane_now_ms(l), shortest = d->config.lease_ms;
	struct renewal *r = NULL;
	struct args a = { 0 };
	struct held *h, *next;

	HASH_ITER(hh, l->held, h, next) {
		if (h->lease_ms < shortest)
			shortest = h->lease_ms;
		if (!lane_up(l) || !wants_renewal(h, now_ms))
			continue;
		if (r && (r->count == BATCH_MAX || r->holder != h->key.holder ||
			  r->lease_ms != h->lease_ms)) {
			store_script(d->store, SCRIPT_RENEW, l->queue->name, l->index, &a,
				     renewed, r);
			r = NULL;
		}
		if (!r) {
			r = calloc(1, sizeof(*r));
			if (!r)
				abort();
			r->lane = l;
			r->holder = h->key.holder;
			r->lease_ms = h->lease_ms;
			renew_args_begin(&a, r->holder, r->lease_ms);
		}
		r->token[r->count++] = h->key.token;
		renew_args_add(&a, h->id, h->key.token);
	}
	if (r)
		store_script(d->store, SCRIPT_RENEW, l->queue->name, l->index, &a, renewed, r);
	if (l->held)
		renew_in_time(l, shortest);
}
