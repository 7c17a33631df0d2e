/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * libtwheel_keyed: timeouts by key, for programs that do not want to keep ids.
 *
 * A key is any string of bytes. Setting a key that is there replaces it. A key leaves
 * when it expires, is removed or drained. Each key that was set leaves exactly once.
 *
 * The keys have a wheel to themselves, for twheel_wait(), twheel_fd() and so on. In a
 * forked child there are no keys: what can fail returns -ECHILD. A mutex protects the
 * keys. No function of the caller's is called while it is held, so a handler may
 * use the keys. It may also throw, longjmp(), exit or fork: the keys
 * behind it in the batch are not lost, and come at the next call. The descriptor is readable
 * then.
 */
#ifndef LIBTWHEEL_KEYED_H
#define LIBTWHEEL_KEYED_H

#include <libtwheel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Timeouts by key. */
struct twheel_keyed;

/* Is given each key that leaves. @key is valid until the handler returns. */
typedef void (*twheel_keyed_fn)(const void *key, size_t len, uint64_t user_data, void *arg);

/**
 * twheel_keyed_open() - make an empty set of keys
 * @keyed: out: for twheel_keyed_close() to end
 * @options: of its wheel, see twheel_open()
 *
 * Return: as twheel_open().
 */
int twheel_keyed_open(struct twheel_keyed **keyed, const struct twheel_options *options);

/**
 * twheel_keyed_close() - end it, with all keys and the wheel
 * @keyed: the keys, or NULL. No handler may be running
 */
void twheel_keyed_close(struct twheel_keyed *keyed);

/**
 * twheel_keyed_wheel() - the wheel of the keys
 * @keyed: the keys
 *
 * Return: the wheel. Wait for it, but do not read or close it.
 */
struct twheel *twheel_keyed_wheel(const struct twheel_keyed *keyed);

/**
 * twheel_keyed_set() - set a key, or replace it
 * @keyed: the keys
 * @key: its bytes, which are copied
 * @len: how many, not 0
 * @deadline: when it expires
 * @user_data: comes back when it leaves
 * @old: out: if this returns 1, the user_data that was replaced; or NULL
 *
 * Return: 0: it is new; 1: one that was there has been replaced; -EINVAL: no
 * bytes, or nearly 4 GiB and more; -ENOSPC, -ENOMEM, -ECHILD.
 */
int twheel_keyed_set(struct twheel_keyed *keyed, const void *key, size_t len,
		     uint64_t deadline, uint64_t user_data, uint64_t *old);

/**
 * twheel_keyed_move() - give a key another deadline
 * @keyed: the keys
 * @key: its bytes
 * @len: how many
 * @deadline: when it expires now
 *
 * Return: 0; -ENOENT: no such key, so it has left; -ECHILD.
 */
int twheel_keyed_move(struct twheel_keyed *keyed, const void *key, size_t len,
		      uint64_t deadline);

/**
 * twheel_keyed_remove() - take a key out
 * @keyed: the keys
 * @key: its bytes
 * @len: how many
 * @user_data: out: as set; or NULL
 *
 * Return: 0; -ENOENT: no such key, so it has left; -ECHILD.
 */
int twheel_keyed_remove(struct twheel_keyed *keyed, const void *key, size_t len,
			uint64_t *user_data);

/**
 * twheel_keyed_run() - take out what has expired
 * @keyed: the keys
 * @fn: is given each; or NULL
 * @arg: for @fn
 *
 * Never waits. Call it when twheel_fd() of the wheel is readable. Keys that are set while
 * this runs may be so for ever: once it takes one out, it ends with that batch of 64 and
 * leaves the rest to the next call, for which the descriptor stays readable. A program
 * that uses edge-triggered epoll must call it until it returns 0.
 *
 * Return: how many there were, or a negative errno. -ECHILD: also if @fn has forked and
 * this is the child.
 */
int twheel_keyed_run(struct twheel_keyed *keyed, twheel_keyed_fn fn, void *arg);

/**
 * twheel_keyed_drain() - take out everything
 * @keyed: the keys
 * @fn: is given each; or NULL
 * @arg: for @fn
 *
 * Return: how many there were; 0 in a forked child.
 */
size_t twheel_keyed_drain(struct twheel_keyed *keyed, twheel_keyed_fn fn, void *arg);

/**
 * twheel_keyed_count() - how many keys there are
 * @keyed: the keys
 *
 * Return: their number, with those that have expired and were not taken out.
 */
size_t twheel_keyed_count(struct twheel_keyed *keyed);

#ifdef __cplusplus
}
#endif

#endif /* LIBTWHEEL_KEYED_H */
