// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * Timeouts by key.
 *
 * A key is an item in a hash table, and a timeout whose user_data is the item.
 * Events are read under the mutex that protects the table, so to all others a
 * key is either in the table or has left.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "internal.h"
#include "libtwheel_keyed.h"

/* Events that are read at a time. */
#define EVENTS	64

/**
 * struct item - a key
 * @hh: its place in the table
 * @next: the next of those that leave together
 * @runs: of twheel_keyed, when it was set
 * @id: its timeout
 * @user_data: the caller's
 * @len: of @key
 * @key: its bytes
 */
struct item {
	UT_hash_handle hh;
	struct item *next;
	uint64_t runs;
	uint64_t id;
	uint64_t user_data;
	size_t len;
	unsigned char key[];
};

/**
 * struct twheel_keyed - timeouts by key
 * @wheel: of all of them
 * @lock: protects what follows
 * @items: the table
 * @runs: how often twheel_keyed_run() was called
 */
struct twheel_keyed {
	struct twheel_ctx *wheel;
	pthread_mutex_t lock;
	struct item *items;
	uint64_t runs;
};

/*
 * A forked child has none of this: neither the timeouts nor, as another thread
 * may have been in the middle of something, the table and its mutex.
 */
static bool is_child(const struct twheel_keyed *k)
{
	return !k->wheel->home->here;
}

TWHEEL_PUBLIC int twheel_keyed_open(const struct twheel_options *options,
				    struct twheel_keyed **keyed)
{
	struct twheel_keyed *k = calloc(1, sizeof(*k));
	int err;

	if (!k)
		return -ENOMEM;
	err = twheel_open(options, &k->wheel);
	if (err) {
		free(k);
		return err;
	}
	pthread_mutex_init(&k->lock, NULL);
	*keyed = k;
	return 0;
}

TWHEEL_PUBLIC void twheel_keyed_close(struct twheel_keyed *k)
{
	if (!k)
		return;
	twheel_keyed_drain(k, NULL, NULL);
	twheel_close(k->wheel);
	pthread_mutex_destroy(&k->lock);
	free(k);
}

TWHEEL_PUBLIC struct twheel_ctx *twheel_keyed_wheel(const struct twheel_keyed *k)
{
	return k->wheel;
}

/* Neither does the table count so many bytes, nor is there memory for them. */
static bool is_too_long(size_t len)
{
	return len > UINT_MAX - sizeof(struct item);
}

static struct item *find(struct twheel_keyed *k, const void *key, size_t len)
{
	struct item *item;

	if (is_too_long(len))
		return NULL;
	HASH_FIND(hh, k->items, key, len, item);
	return item;
}

/* Takes @item out of the table, and ends its timeout. */
static void take(struct twheel_keyed *k, struct item *item)
{
	HASH_DELETE(hh, k->items, item);
	twheel_stop(k->wheel, item->id);
}

/* Gives @item another deadline. A timeout that another process has drained begins anew. */
static int move(struct twheel_keyed *k, struct item *item, uint64_t deadline_ns)
{
	int ret = twheel_move(k->wheel, item->id, deadline_ns);

	if (ret == -ENOENT)
		ret = twheel_start(k->wheel, deadline_ns, (uintptr_t)item, &item->id);
	return ret < 0 ? ret : 0;
}

static int add(struct twheel_keyed *k, const void *key, size_t len, uint64_t deadline_ns,
	       uint64_t user_data)
{
	struct item *item = malloc(sizeof(*item) + len);
	int err;

	if (!item)
		return -ENOMEM;
	item->runs = k->runs;
	item->user_data = user_data;
	item->len = len;
	memcpy(item->key, key, len);
	HASH_ADD_KEYPTR(hh, k->items, item->key, len, item);
	if (!item->hh.tbl) {
		free(item);
		return -ENOMEM;
	}
	err = twheel_start(k->wheel, deadline_ns, (uintptr_t)item, &item->id);
	if (err) {
		HASH_DELETE(hh, k->items, item);
		free(item);
	}
	return err;
}

TWHEEL_PUBLIC int twheel_keyed_set(struct twheel_keyed *k, const void *key, size_t len,
				   uint64_t deadline_ns, uint64_t user_data)
{
	struct item *item;
	int ret;

	if (!len || is_too_long(len))
		return -EINVAL;
	if (is_child(k))
		return -ECHILD;
	pthread_mutex_lock(&k->lock);
	item = find(k, key, len);
	if (item) {
		ret = move(k, item, deadline_ns);
		if (!ret) {
			item->runs = k->runs;
			item->user_data = user_data;
			ret = 1;
		}
	} else {
		ret = add(k, key, len, deadline_ns, user_data);
	}
	pthread_mutex_unlock(&k->lock);
	return ret;
}

TWHEEL_PUBLIC int twheel_keyed_move(struct twheel_keyed *k, const void *key, size_t len,
				    uint64_t deadline_ns)
{
	int ret = -ENOENT;
	struct item *item;

	if (is_child(k))
		return -ECHILD;
	pthread_mutex_lock(&k->lock);
	item = find(k, key, len);
	if (item)
		ret = move(k, item, deadline_ns);
	pthread_mutex_unlock(&k->lock);
	return ret;
}

TWHEEL_PUBLIC int twheel_keyed_remove(struct twheel_keyed *k, const void *key, size_t len,
				      uint64_t *user_data)
{
	struct item *item;

	if (is_child(k))
		return -ECHILD;
	pthread_mutex_lock(&k->lock);
	item = find(k, key, len);
	if (item)
		take(k, item);
	pthread_mutex_unlock(&k->lock);
	if (!item)
		return -ENOENT;
	if (user_data)
		*user_data = item->user_data;
	free(item);
	return 0;
}

/*
 * Gives each of a list to @fn, and frees it. Nobody else knows of them any more, so a
 * thread is not cancelled in the midst.
 */
static void leave(struct item *item, twheel_keyed_fn fn, void *arg)
{
	struct item *next;
	int cancellable;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
	for (; item; item = next) {
		next = item->next;
		if (fn)
			fn(item->key, item->len, item->user_data, arg);
		free(item);
	}
	pthread_setcancelstate(cancellable, NULL);
}

TWHEEL_PUBLIC int twheel_keyed_run(struct twheel_keyed *k, twheel_keyed_fn fn, void *arg)
{
	struct twheel_event events[EVENTS];
	struct item *first, **last;
	int i, got, total = 0;
	bool again = false;
	uint64_t run = 0;

	if (is_child(k))
		return -ECHILD;
	do {
		first = NULL;
		last = &first;
		pthread_mutex_lock(&k->lock);
		if (!run)
			run = ++k->runs;
		got = twheel_take_events(k->wheel, events, EVENTS, true);
		for (i = 0; i < got; i++) {
			struct item *item = (struct item *)(uintptr_t)events[i].user_data;

			take(k, item);
			item->next = NULL;
			*last = item;
			last = &item->next;
			again |= item->runs >= run;
		}
		pthread_mutex_unlock(&k->lock);
		leave(first, fn, arg);
		if (got < 0)
			return total ? total : got;
		total += got;
		/*
		 * What others have on the wheel was left out: fewer do not mean the last.
		 * But what was set meanwhile may be so for ever, by @fn.
		 */
	} while (got > 0 && !again);
	/* What @fn armed in the last round may be all that there is to wake up for. */
	if (again)
		twheel_flush(k->wheel);
	return total;
}

TWHEEL_PUBLIC size_t twheel_keyed_drain(struct twheel_keyed *k, twheel_keyed_fn fn, void *arg)
{
	struct item *first = NULL, **last = &first;
	struct item *item, *next;
	size_t total = 0;

	if (is_child(k))
		return 0;
	pthread_mutex_lock(&k->lock);
	HASH_ITER(hh, k->items, item, next) {
		take(k, item);
		item->next = NULL;
		*last = item;
		last = &item->next;
		total++;
	}
	pthread_mutex_unlock(&k->lock);
	leave(first, fn, arg);
	return total;
}

TWHEEL_PUBLIC size_t twheel_keyed_count(struct twheel_keyed *k)
{
	size_t count;

	if (is_child(k))
		return 0;
	pthread_mutex_lock(&k->lock);
	count = HASH_COUNT(k->items);
	pthread_mutex_unlock(&k->lock);
	return count;
}
