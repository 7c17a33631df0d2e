// SPDX-License-Identifier: GPL-2.0
/*
 * How can several loops share one wheel?
 *
 * Simpler, and just as fast, is a loop and a wheel for each thread. If your loops have to share
 * one wheel nevertheless, three rules are enough:
 *
 *   - One thread reads. It passes each event to the loop that owns the connection, and
 *     decides nothing itself.
 *   - Only the owner adds, sets and deletes the timer of a connection, so none of this
 *     takes a lock.
 *   - Only the owner frees the connection. Events contain numbers, which the owner looks up,
 *     so no event can refer to freed memory.
 *
 * After an event was read, and before the owner handles it, the owner may move the timer or
 * close the connection, which makes the event stale. The owner notices this when it compares:
 * the id of a closed connection is not used again, and a moved timer has another deadline.
 *
 * If twheel_set() or twheel_del() returns 0, an event of the timer has been read. So 0 is
 * returned as often as there are events, and this program counts both.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <libtwheel.h>

#define LOOPS		3
#define CONNECTIONS	50
#define TURNS		200
#define MSEC		1000000ULL
/* So short that many timers expire while their owner moves them. */
#define SILENCE_NS	(5 * MSEC)

/* user_data contains the owner of the timer and the index of the connection. */
#define OWNER(user_data)	((unsigned int)((user_data) >> 32))
#define PLACE(user_data)	((uint32_t)(user_data))
/* The number of main() as an owner, which is not a loop. */
#define MAIN		LOOPS

struct conn {
	/* Id of its timer, 0 if there is no such connection. */
	uint64_t timer;
	uint64_t deadline;
};

struct loop {
	pthread_t thread;
	unsigned int number;
	unsigned int seed;
	struct conn conn[CONNECTIONS];
	unsigned int open;

	/*
	 * Events that the reader has passed to this loop, and the descriptor that announces them.
	 */
	pthread_mutex_t lock;
	struct twheel_event *inbox;
	unsigned int count;
	unsigned int room;
	int bell;

	unsigned int opened;
	unsigned int closed;
	unsigned int silent;
	unsigned int stale_closed;
	unsigned int stale_moved;
	/* How often twheel_set() or twheel_del() returned 0. */
	unsigned int read_before;
};

static struct twheel *wheel;
static struct loop loops[LOOPS];
static atomic_bool stop_reading;
static atomic_bool main_has_expired;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

/* The library returns a negative errno. */
static int check(const char *what, int ret)
{
	if (ret >= 0)
		return ret;
	fprintf(stderr, "threads: %s: %s\n", what, strerror(-ret));
	exit(1);
}

/* ---- The reader ---- */

static void hand_over(struct loop *l, const struct twheel_event *event)
{
	uint64_t one = 1;

	pthread_mutex_lock(&l->lock);
	if (l->count == l->room) {
		l->room = l->room ? 2 * l->room : 64;
		l->inbox = realloc(l->inbox, l->room * sizeof(*l->inbox));
		if (!l->inbox)
			die("memory");
	}
	l->inbox[l->count++] = *event;
	pthread_mutex_unlock(&l->lock);
	if (write(l->bell, &one, sizeof(one)) != sizeof(one))
		die("eventfd");
}

/* Sleeps until there is an event, no matter which thread armed the timer. Counts the events. */
static void *run_reader(void *arg)
{
	unsigned int *total = arg;
	struct twheel_event events[64];
	int i, count;

	do {
		check("wait", twheel_wait(wheel, -1));
		while ((count = check("read", twheel_read(wheel, events, 64)))) {
			*total += count;
			for (i = 0; i < count; i++) {
				if (OWNER(events[i].user_data) == MAIN)
					atomic_store(&main_has_expired, true);
				else
					hand_over(&loops[OWNER(events[i].user_data)], &events[i]);
			}
		}
		/* If there was nothing to read, twheel_wake() has ended the wait. */
	} while (!atomic_load(&stop_reading));
	return NULL;
}

/* ---- A loop ---- */

static void open_connection(struct loop *l, struct conn *c)
{
	uint64_t user_data = (uint64_t)l->number << 32 | (c - l->conn);

	c->deadline = twheel_after(wheel, SILENCE_NS);
	check("add", twheel_add(wheel, c->deadline, user_data, &c->timer));
	l->opened++;
	l->open++;
}

static void close_connection(struct loop *l, struct conn *c)
{
	if (!check("del", twheel_del(wheel, c->timer)))
		l->read_before++;
	c->timer = 0;
	l->open--;
}

static void hear(struct loop *l, struct conn *c)
{
	c->deadline = twheel_after(wheel, SILENCE_NS);
	if (!check("set", twheel_set(wheel, c->timer, c->deadline)))
		l->read_before++;
}

static void handle(struct loop *l, const struct twheel_event *event)
{
	struct conn *c = &l->conn[PLACE(event->user_data)];

	if (c->timer != event->id) {
		/*
		 * The connection was closed. Another one may have its place, but with another id.
		 */
		l->stale_closed++;
	} else if (c->deadline != event->deadline_ns) {
		/* Something was heard since, and the timer is armed again. */
		l->stale_moved++;
	} else {
		l->silent++;
		close_connection(l, c);
	}
}

/* Takes the events out of the inbox, and handles them without the lock. */
static void read_inbox(struct loop *l)
{
	struct twheel_event *events;
	unsigned int count, i;

	pthread_mutex_lock(&l->lock);
	events = l->inbox;
	count = l->count;
	l->inbox = NULL;
	l->count = 0;
	l->room = 0;
	pthread_mutex_unlock(&l->lock);
	for (i = 0; i < count; i++)
		handle(l, &events[i]);
	free(events);
}

/* Plays the network: some clients talk, some leave, and new ones come. */
static void traffic(struct loop *l)
{
	struct conn *c;

	for (c = l->conn; c < l->conn + CONNECTIONS; c++) {
		int dice = rand_r(&l->seed) % 16;

		if (!c->timer) {
			if (dice < 8)
				open_connection(l, c);
		} else if (dice < 4) {
			hear(l, c);
		} else if (dice < 5) {
			close_connection(l, c);
			l->closed++;
		}
	}
}

static void *run_loop(void *arg)
{
	struct loop *l = arg;
	struct pollfd bell = { .fd = l->bell, .events = POLLIN };
	unsigned int turn;
	uint64_t rings;

	/* There is no traffic in the end, so the remaining connections fall silent. */
	for (turn = 0; turn < TURNS || l->open; turn++) {
		int ready = poll(&bell, 1, turn < TURNS ? 1 : -1);

		if (ready < 0)
			die("poll");
		if (turn < TURNS)
			traffic(l);
		if (ready && read(l->bell, &rings, sizeof(rings)) != sizeof(rings))
			die("eventfd");
		if (ready)
			read_inbox(l);
	}
	return NULL;
}

/* ---- The program ---- */

static void start(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
	check("pthread_create", -pthread_create(thread, NULL, run, arg));
}

/*
 * Checks that a deadline set by one thread wakes another. The thread that sets it calls no
 * function of the library after that, and sleeps for longer.
 */
static bool wake_the_reader(void)
{
	struct timespec reader_sleeps = { .tv_nsec = 50 * MSEC };
	struct timespec longer = { .tv_sec = 1 };
	uint64_t id;
	bool woken;

	nanosleep(&reader_sleeps, NULL);
	check("add", twheel_add(wheel, twheel_after(wheel, 100 * MSEC), (uint64_t)MAIN << 32, &id));
	nanosleep(&longer, NULL);
	woken = atomic_load(&main_has_expired);
	printf("the reader has%s woken for the deadline of a thread that still sleeps\n",
	       woken ? "" : " not");
	return check("del", twheel_del(wheel, id)) == 0 && woken;
}

int main(void)
{
	unsigned int opened = 0, closed = 0, silent = 0, moved = 0, gone = 0;
	/* twheel_del() returns the first 0 in wake_the_reader(). */
	unsigned int events = 0, answers = 1;
	pthread_t reader;
	unsigned int i;
	bool right;

	check("open", twheel_open(&wheel, NULL));
	start(&reader, run_reader, &events);
	right = wake_the_reader();

	for (i = 0; i < LOOPS; i++) {
		struct loop *l = &loops[i];

		l->number = i;
		l->seed = i + 1;
		pthread_mutex_init(&l->lock, NULL);
		l->bell = eventfd(0, EFD_CLOEXEC);
		if (l->bell < 0)
			die("eventfd");
	}
	for (i = 0; i < LOOPS; i++)
		start(&loops[i].thread, run_loop, &loops[i]);
	for (i = 0; i < LOOPS; i++)
		pthread_join(loops[i].thread, NULL);

	/* Nothing is armed any more, so only this can end the wait of the reader. */
	atomic_store(&stop_reading, true);
	check("wake", twheel_wake(wheel));
	pthread_join(reader, NULL);

	for (i = 0; i < LOOPS; i++) {
		struct loop *l = &loops[i];

		/* The last events are of connections that are closed. */
		read_inbox(l);
		opened += l->opened;
		closed += l->closed;
		silent += l->silent;
		moved += l->stale_moved;
		gone += l->stale_closed;
		answers += l->read_before;
		close(l->bell);
	}
	twheel_close(wheel);
	printf("%u connections: %u closed, %u fell silent\n", opened, closed, silent);
	printf("%u events: %u of a moved timer and %u of a closed connection were passed over\n",
	       events, moved, gone);
	printf("%u answers said that an event had been read\n", answers);
	right = right && opened == closed + silent && events == answers &&
		events == 1 + silent + moved + gone;
	puts(right ? "each connection ended once" : "this cannot happen");
	return right ? 0 : 1;
}
