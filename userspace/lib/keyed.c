// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * Timeouts by key, built on the public functions of libtwheel.
 *
 * A key is an item in a hash table, with a timer whose slot leads back to the item. One mutex
 * protects the tables, and events are read under it as well, so that other threads find a key
 * either in the table or gone. A key that has left the table waits in a list until a handler gets
 * it. That list is not lost if a handler throws, jumps or ends its thread.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

/* Strangers may choose keys, so the hash has a seed that they do not know. */
static uint64_t hash_key(const void *key, size_t len);
#define HASH_FUNCTION(key, len, hash)	((hash) = (unsigned int)hash_key(key, len))
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "libtwheel_keyed.h"
#include "lock.h"

#define TWHEEL_PUBLIC	__attribute__((visibility("default")))

/* How many events are read at a time. */
#define EVENTS	64

/**
 * struct item - a key
 * @hh: place of the item in the hash table
 * @next: next item in a list of keys that have left the table
 * @prev: the pointer that points to this item in that list
 * @run: the value of twheel_keyed.runs when the key was set
 * @id: id of the timer
 * @user_data: user_data of the program
 * @len: length of @key
 * @key: the bytes of the key
 */
struct item {
	UT_hash_handle hh;
	struct item *next;
	struct item **prev;
	uint64_t run;
	uint64_t id;
	uint64_t user_data;
	size_t len;
	unsigned char key[];
};

/**
 * struct twheel_keyed - a set of keys with timeouts
 * @wheel: the wheel of their timers
 * @lock: protects the members below
 * @items: the hash table
 * @by_slot: the items by the slots of their timers. The user_data of an event could not be used as
 *	a pointer to an item, because another process may have made the timer
 * @nr_slots: length of @by_slot
 * @left: keys that have left the table, and that no handler was called for yet
 * @left_end: the pointer to which the next of these is appended
 * @given: keys whose handler is running, or has never returned
 * @runs: how often twheel_keyed_run() was called
 */
struct twheel_keyed {
	struct twheel *wheel;
	struct lock lock;
	struct item *items;
	struct item **by_slot;
	uint32_t nr_slots;
	struct item *left;
	struct item **left_end;
	struct item *given;
	uint64_t runs;
};

static uint64_t seed[2];
static pthread_once_t seeded = PTHREAD_ONCE_INIT;

static void make_seed(void)
{
	struct timespec now = { 0 };
	int cancellable;
	ssize_t got;

	/* twheel_keyed_open() must not be a cancellation point, but getrandom() is one. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
	got = getrandom(seed, sizeof(seed), GRND_NONBLOCK);
	pthread_setcancelstate(cancellable, NULL);
	if (got == sizeof(seed))
		return;
	clock_gettime(CLOCK_REALTIME, &now);
	seed[0] = (uintptr_t)&now ^ now.tv_nsec;
	seed[1] = (uintptr_t)&make_seed ^ now.tv_sec;
}

static inline uint64_t rotate(uint64_t x, int bits)
{
	return x << bits | x >> (64 - bits);
}

static inline void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotate(v[1], 13) ^ v[0];
	v[0] = rotate(v[0], 32);
	v[2] += v[3];
	v[3] = rotate(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotate(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotate(v[1], 17) ^ v[2];
	v[2] = rotate(v[2], 32);
}

/*
 * SipHash-1-3, after J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input PRF"
 * (2012), which hash tables of many languages use.
 */
static uint64_t hash_key(const void *key, size_t len)
{
	uint64_t v[4] = {
		seed[0] ^ 0x736f6d6570736575ULL, seed[1] ^ 0x646f72616e646f6dULL,
		seed[0] ^ 0x6c7967656e657261ULL, seed[1] ^ 0x7465646279746573ULL,
	};
	const unsigned char *bytes = key;
	uint64_t word, last = (uint64_t)len << 56;
	size_t i;

	for (i = 0; i + 8 <= len; i += 8) {
		memcpy(&word, bytes + i, 8);
		v[3] ^= word;
		sip_round(v);
		v[0] ^= word;
	}
	for (word = 0; i < len; i++)
		word |= (uint64_t)bytes[i] << 8 * (i % 8);
	last |= word;
	v[3] ^= last;
	sip_round(v);
	v[0] ^= last;
	v[2] ^= 0xff;
	sip_round(v);
	sip_round(v);
	sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/*
 * A forked child cannot use a set of its parent: the timers belong to the parent, and another
 * thread may have held the mutex or have been changing the table at the fork.
 */
static bool is_child(const struct twheel_keyed *k)
{
	struct twheel_info info;

	return twheel_info(k->wheel, &info) == -ECHILD;
}

TWHEEL_PUBLIC int twheel_keyed_open(struct twheel_keyed **keyed,
				    const struct twheel_options *options)
{
	struct twheel_keyed *k = calloc(1, sizeof(*k));
	int err;

	if (!k)
		return -ENOMEM;
	pthread_once(&seeded, make_seed);
	err = twheel_open(&k->wheel, options);
	if (err) {
		free(k);
		return err;
	}
	err = twheel__mutex_init(&k->lock.mutex);
	if (err) {
		twheel_close(k->wheel);
		free(k);
		return err;
	}
	k->left_end = &k->left;
	*keyed = k;
	return 0;
}

/* Takes @item out of its list. */
static void unlink_item(struct twheel_keyed *k, struct item *item)
{
	*item->prev = item->next;
	if (item->next)
		item->next->prev = item->prev;
	else if (k->left_end == &item->next)
		k->left_end = item->prev;
}

static void free_list(struct item *item)
{
	struct item *next;

	for (; item; item = next) {
		next = item->next;
		free(item);
	}
}

TWHEEL_PUBLIC void twheel_keyed_close(struct twheel_keyed *k)
{
	struct item *item, *next;

	if (!k)
		return;
	/* Another thread of the parent may have been in the middle of a change at the fork. */
	if (!is_child(k)) {
		HASH_ITER(hh, k->items, item, next) {
			HASH_DELETE(hh, k->items, item);
			free(item);
		}
		free_list(k->left);
		free_list(k->given);
		free(k->by_slot);
	}
	twheel_close(k->wheel);
	free(k);
}

TWHEEL_PUBLIC struct twheel *twheel_keyed_wheel(const struct twheel_keyed *k)
{
	return k->wheel;
}

/* uthash counts the bytes of a key in an unsigned int. */
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

/* Takes @item out of the table, ends its timer and queues it for a handler. */
static void leave(struct twheel_keyed *k, struct item *item)
{
	HASH_DELETE(hh, k->items, item);
	if (k->by_slot[(uint32_t)item->id] == item)
		k->by_slot[(uint32_t)item->id] = NULL;
	twheel_del(k->wheel, item->id);
	item->next = NULL;
	item->prev = k->left_end;
	*k->left_end = item;
	k->left_end = &item->next;
}

/* Gives @item a timer. Return: 0 or a negative errno. */
static int add_timer(struct twheel_keyed *k, struct item *item, uint64_t deadline)
{
	uint32_t slot, nr = k->nr_slots;
	struct item **bigger;
	uint64_t id;
	int err;

	err = twheel_add(k->wheel, deadline, 0, &id);
	if (err)
		return err;
	slot = id;
	if (slot >= nr) {
		nr = slot + slot / 2 + EVENTS;
		bigger = realloc(k->by_slot, nr * sizeof(*bigger));
		if (!bigger) {
			twheel_del(k->wheel, id);
			return -ENOMEM;
		}
		memset(bigger + k->nr_slots, 0, (nr - k->nr_slots) * sizeof(*bigger));
		k->by_slot = bigger;
		k->nr_slots = nr;
	}
	k->by_slot[slot] = item;
	item->id = id;
	return 0;
}

/* Gives @item another deadline, and a new timer if another process has canceled the old one. */
static int move(struct twheel_keyed *k, struct item *item, uint64_t deadline)
{
	struct item **at = &k->by_slot[(uint32_t)item->id];
	/* If another item has this slot by now, twheel_set() would move the timer of that item. */
	int ret = *at == item ? twheel_set(k->wheel, item->id, deadline) : -ENOENT;

	if (ret == -ENOENT) {
		if (*at == item)
			*at = NULL;
		ret = add_timer(k, item, deadline);
	}
	return ret < 0 ? ret : 0;
}

static int add(struct twheel_keyed *k, const void *key, size_t len, uint64_t deadline,
	       uint64_t user_data)
{
	struct item *item = malloc(sizeof(*item) + len);
	int err;

	if (!item)
		return -ENOMEM;
	item->run = k->runs;
	item->user_data = user_data;
	item->len = len;
	memcpy(item->key, key, len);
	HASH_ADD_KEYPTR(hh, k->items, item->key, len, item);
	if (!item->hh.tbl) {
		free(item);
		return -ENOMEM;
	}
	err = add_timer(k, item, deadline);
	if (err) {
		HASH_DELETE(hh, k->items, item);
		free(item);
	}
	return err;
}

TWHEEL_PUBLIC int twheel_keyed_set(struct twheel_keyed *k, const void *key, size_t len,
				   uint64_t deadline, uint64_t user_data, uint64_t *old)
{
	struct item *item;
	int ret;

	if (is_child(k))
		return -ECHILD;
	if (!len || is_too_long(len))
		return -EINVAL;
	take_lock(&k->lock);
	item = find(k, key, len);
	if (item) {
		ret = move(k, item, deadline);
		if (!ret) {
			if (old)
				*old = item->user_data;
			item->run = k->runs;
			item->user_data = user_data;
			ret = 1;
		}
	} else {
		ret = add(k, key, len, deadline, user_data);
	}
	drop_lock(&k->lock);
	return ret;
}

TWHEEL_PUBLIC int twheel_keyed_move(struct twheel_keyed *k, const void *key, size_t len,
				    uint64_t deadline)
{
	int ret = -ENOENT;
	struct item *item;

	if (is_child(k))
		return -ECHILD;
	take_lock(&k->lock);
	item = find(k, key, len);
	if (item)
		ret = move(k, item, deadline);
	drop_lock(&k->lock);
	return ret;
}

TWHEEL_PUBLIC int twheel_keyed_remove(struct twheel_keyed *k, const void *key, size_t len,
				      uint64_t *user_data)
{
	struct item *item;

	if (is_child(k))
		return -ECHILD;
	take_lock(&k->lock);
	item = find(k, key, len);
	if (item) {
		leave(k, item);
		unlink_item(k, item);
	}
	drop_lock(&k->lock);
	if (!item)
		return -ENOENT;
	if (user_data)
		*user_data = item->user_data;
	free(item);
	return 0;
}

/**
 * struct visit - a call of a handler
 * @keyed: the set of keys
 * @item: the key that the handler is called for
 */
struct visit {
	struct twheel_keyed *keyed;
	struct item *item;
};

/* Runs after a handler, unless the handler jumped away. */
static void end_visit(struct visit *visit)
{
	struct twheel_keyed *k = visit->keyed;

	if (is_child(k))
		return;
	take_lock(&k->lock);
	unlink_item(k, visit->item);
	drop_lock(&k->lock);
	free(visit->item);
}

/*
 * Calls @fn for the first key that has left the table, without a lock. Until @fn returns, the item
 * is in @given, so that it is not lost if @fn jumps away. Return: true if there was a key.
 */
static bool hand_out(struct twheel_keyed *k, twheel_keyed_fn fn, void *arg)
{
	struct item *item;

	take_lock(&k->lock);
	item = k->left;
	if (item) {
		unlink_item(k, item);
		item->next = k->given;
		item->prev = &k->given;
		if (item->next)
			item->next->prev = &item->next;
		k->given = item;
	}
	drop_lock(&k->lock);
	if (item) {
		__attribute__((cleanup(end_visit))) struct visit visit = { k, item };

		if (fn)
			fn(visit.item->key, item->len, item->user_data, arg);
	}
	return item;
}

/*
 * Calls @fn for all keys that have left the table. The descriptor is made readable before, so that
 * another run delivers the remaining keys if a handler does not return. Return: the number of keys.
 */
static size_t hand_out_all(struct twheel_keyed *k, twheel_keyed_fn fn, void *arg)
{
	size_t total = 0;
	bool many;

	take_lock(&k->lock);
	many = k->left && k->left->next;
	drop_lock(&k->lock);
	if (fn && many)
		twheel_wake(k->wheel);
	while (!is_child(k) && hand_out(k, fn, arg))
		total++;
	return total;
}

/* Moves expired keys from the table to the list. Return: their number, or a negative errno. */
static int take_expired(struct twheel_keyed *k, uint64_t run, bool *again)
{
	struct twheel_event events[EVENTS];
	int i, got, taken = 0;

	got = twheel_read(k->wheel, events, EVENTS);
	for (i = 0; i < got; i++) {
		uint32_t slot = events[i].id;
		struct item *item = slot < k->nr_slots ? k->by_slot[slot] : NULL;

		/* The timer belongs to no key, because another process has registered it. */
		if (!item || item->id != events[i].id)
			continue;
		*again |= item->run >= run;
		leave(k, item);
		taken++;
	}
	return got < 0 ? got : taken;
}

TWHEEL_PUBLIC int twheel_keyed_run(struct twheel_keyed *k, twheel_keyed_fn fn, void *arg)
{
	bool again = false;
	uint64_t run = 0;
	int got, total = 0;

	do {
		if (is_child(k))
			return -ECHILD;
		take_lock(&k->lock);
		if (!run)
			run = ++k->runs;
		got = take_expired(k, run, &again);
		drop_lock(&k->lock);
		total += hand_out_all(k, fn, arg);
		/* Because @fn could go on setting keys, stop at a key that was set in this run. */
	} while (got > 0 && !again);
	if (is_child(k))
		return -ECHILD;
	return got < 0 && !total ? got : total;
}

TWHEEL_PUBLIC size_t twheel_keyed_drain(struct twheel_keyed *k, twheel_keyed_fn fn, void *arg)
{
	struct item *item, *next;

	if (is_child(k))
		return 0;
	take_lock(&k->lock);
	HASH_ITER(hh, k->items, item, next)
		leave(k, item);
	drop_lock(&k->lock);
	return hand_out_all(k, fn, arg);
}

TWHEEL_PUBLIC size_t twheel_keyed_count(struct twheel_keyed *k)
{
	size_t count;

	if (is_child(k))
		return 0;
	take_lock(&k->lock);
	count = HASH_COUNT(k->items);
	drop_lock(&k->lock);
	return count;
}
