/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * libtwheel_keyed: timeouts by key, for programs that would rather name their timeouts than keep
 * ids.
 *
 * A key is any string of bytes for which you set a deadline. If you set a key that exists, it is
 * replaced. A key leaves the set when it expires, is removed or is drained, and every key that
 * you set ends exactly once: it is replaced, or it leaves.
 *
 * The keys have their own wheel, which you can pass to twheel_wait(), twheel_fd() and so on. A
 * forked child has no keys, so functions that can fail return -ECHILD there.
 *
 * A mutex protects the keys, but because it is not held while a handler runs, the handler may
 * use the keys, throw, call longjmp(), exit or fork. If a handler does not return, the next call of
 * twheel_keyed_run() or twheel_keyed_drain() delivers the remaining keys, and the descriptor stays
 * readable until then.
 */
#ifndef LIBTWHEEL_KEYED_H
#define LIBTWHEEL_KEYED_H

#include <libtwheel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A set of keys with timeouts. */
struct twheel_keyed;

/*
 * A handler, which is called for each key that expires or is drained. It may use @key until it
 * returns.
 */
typedef void (*twheel_keyed_fn)(const void *key, size_t len, uint64_t user_data, void *arg);

/**
 * twheel_keyed_open() - create an empty set of keys
 * @keyed: out: the keys, for twheel_keyed_close()
 * @options: the options of its wheel, see twheel_open()
 *
 * Return: as for twheel_open().
 */
int twheel_keyed_open(struct twheel_keyed **keyed, const struct twheel_options *options);

/**
 * twheel_keyed_close() - free the keys and their wheel
 * @keyed: the keys, or NULL
 *
 * Do not call this while a handler is running.
 */
void twheel_keyed_close(struct twheel_keyed *keyed);

/**
 * twheel_keyed_wheel() - the wheel of the keys
 * @keyed: the keys
 *
 * Return: the wheel, for which you may wait, but which you must not read or close.
 */
struct twheel *twheel_keyed_wheel(const struct twheel_keyed *keyed);

/**
 * twheel_keyed_set() - set a key, or replace it
 * @keyed: the keys
 * @key: its bytes, which are copied
 * @len: their number, not 0
 * @deadline: when it expires
 * @user_data: is returned when the key leaves
 * @old: out: the user_data that was replaced, if this returns 1; or NULL
 *
 * Return: 0: the key is new; 1: it existed and was replaced; -EINVAL: the key is empty, or
 * about 4 GiB or longer; -ENOSPC, -ENOMEM, -ECHILD.
 */
int twheel_keyed_set(struct twheel_keyed *keyed, const void *key, size_t len,
		     uint64_t deadline, uint64_t user_data, uint64_t *old);

/**
 * twheel_keyed_move() - give a key another deadline
 * @keyed: the keys
 * @key: its bytes
 * @len: their number
 * @deadline: its new deadline
 *
 * Return: 0; -ENOENT: there is no such key, or it has left; -ECHILD.
 */
int twheel_keyed_move(struct twheel_keyed *keyed, const void *key, size_t len,
		      uint64_t deadline);

/**
 * twheel_keyed_remove() - remove a key
 * @keyed: the keys
 * @key: its bytes
 * @len: their number
 * @user_data: out: as it was set; or NULL
 *
 * Return: 0; -ENOENT: there is no such key, or it has left; -ECHILD.
 */
int twheel_keyed_remove(struct twheel_keyed *keyed, const void *key, size_t len,
			uint64_t *user_data);

/**
 * twheel_keyed_run() - remove the keys that have expired
 * @keyed: the keys
 * @fn: is called for each of them; or NULL
 * @arg: for @fn
 *
 * This never waits, so call it when twheel_fd() of the wheel becomes readable. With edge-triggered
 * epoll, call it until it returns 0.
 *
 * The call removes keys in batches of up to 64. If a batch contains a key that was set during the
 * call itself, for example by a handler, the call stops after that batch. Otherwise a handler that
 * keeps setting keys that expire at once could keep the call busy forever. The descriptor stays
 * readable for the rest.
 *
 * Return: how many were removed, or a negative errno. If @fn forks, the call returns -ECHILD in
 * the child.
 */
int twheel_keyed_run(struct twheel_keyed *keyed, twheel_keyed_fn fn, void *arg);

/**
 * twheel_keyed_drain() - remove all keys
 * @keyed: the keys
 * @fn: is called for each of them; or NULL
 * @arg: for @fn
 *
 * Return: how many there were; 0 in a forked child.
 */
size_t twheel_keyed_drain(struct twheel_keyed *keyed, twheel_keyed_fn fn, void *arg);

/**
 * twheel_keyed_count() - count the keys
 * @keyed: the keys
 *
 * Return: their number, including those that have expired but were not removed yet.
 */
size_t twheel_keyed_count(struct twheel_keyed *keyed);

#ifdef __cplusplus
}
#endif

#endif /* LIBTWHEEL_KEYED_H */
