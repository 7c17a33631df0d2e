/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The head of a lane of twheeld: Redis, two daemons that compete for its tasks, and time,
 * in every interleaving. lease.pml models the leases.
 *
 * Redis has "next", which is never later than the head. A script that schedules an
 * earlier task lowers "next" and publishes the time. A daemon's alarm follows the head.
 * A take leases one task, raises "next" to the head that it leaves, and tells it.
 *
 * A script is one step, as it is in Redis. A take has three: the daemon sends it, Redis
 * runs it, the daemon reads the answer. Messages come at any time later. A daemon is as
 * slow as time lets it be, so a task may come back by the end of its lease before the
 * answer is read. What happens to a task that was taken is in lease.pml; here it ends.
 *
 * Times count from now, and what has passed is 0. So there is no end of time.
 *
 * Checked: a due head is armed or published; and each accepted task ends. When nothing
 * can happen any more, no task is left.
 *
 * -DLOSE_ANSWERS	two answers to takes are lost
 * -DLOSE	a message or an answer is lost, twice, and sweeps find what that hides.
 *		Checked: a due head is armed, published or swept
 *
 * Mutations that must be found:
 * -DNO_WOKEN	the answer to a take hides a message that came before it
 * -DNO_RAISE	a take leaves "next" as it was
 * -DNO_HEAD	a take does not tell the head that it leaves
 * -DNO_ANNOUNCE	a task whose lease has ended is not published
 * -DNO_LOOK_AGAIN	a lost answer sets no alarm
 * -DNO_SWEEP	no daemon sweeps
 */
#ifndef TASKS
#define TASKS 2
#endif
#ifndef FAR
#define FAR 2		/* the latest due time */
#endif
#define DAEMONS 2
#define LOSSES 2
#define LEASE 1
#define NEVER 7
#define NONE TASKS

/* States of a task. */
#define ABSENT 0
#define SCHEDULED 1
#define LEASED 2
#define ENDED 3

/* A take. */
#define IDLE 0
#define SENT 1
#define ANSWERED 2

#define FOR_DAEMONS(i) for (i : 0 .. DAEMONS - 1)
#define FOR_TASKS(i) for (i : 0 .. TASKS - 1)
#define earlier(a, b) (a < b -> a : b)
#define pass(x) x = (x > 0 && x != NEVER -> x - 1 : x)
#define MOVES(x) (x > 0 && x != NEVER)

/* Redis. */
byte state[TASKS];
byte due[TASKS];
byte lease[TASKS];	/* end of it */
byte next = NEVER;

/* The daemons. */
byte alarm[DAEMONS] = NEVER;	/* what they know as the head */
byte woken[DAEMONS] = NEVER;	/* the earliest message since the take was sent */
byte take[DAEMONS];
byte taken[DAEMONS] = NONE;	/* the task of the answer; NONE again if its lease ends */
byte left[DAEMONS];		/* the head of the answer */
byte wakes[DAEMONS];		/* messages on their way: a bit for each time */
byte losses;

inline announce(ms) {
	if
	:: ms < next ->
		next = ms;
		FOR_DAEMONS(i) { wakes[i] = wakes[i] | (1 << ms) };
		i = 0
	:: else
	fi
}

inline find_head() {
	head = NONE;
	FOR_TASKS(i) {
		if
		:: state[i] == SCHEDULED && (head == NONE || due[i] < due[head]) -> head = i
		:: else
		fi
	};
	i = 0
}

inline run_take(d) {
	find_head();
	if
	:: head != NONE && due[head] == 0 ->
		taken[d] = head;
		state[head] = LEASED;
		lease[head] = LEASE;
		find_head()
	:: else
	fi;
	left[d] = (head != NONE -> due[head] : NEVER);
#ifndef NO_RAISE
	next = left[d];
#endif
#ifdef NO_HEAD
	left[d] = NEVER;
#endif
	head = 0;
	take[d] = ANSWERED
}

inline read_answer(d) {
	take[d] = IDLE;
#ifdef NO_WOKEN
	alarm[d] = left[d];
#else
	alarm[d] = earlier(left[d], woken[d]);
#endif
	woken[d] = NEVER;
	left[d] = 0;
	if
	:: taken[d] != NONE ->
		state[taken[d]] = ENDED;
		lease[taken[d]] = 0;
		taken[d] = NONE
	:: else
	fi
}

/* The take's task comes back by the end of the lease. */
inline lose_answer(d) {
	take[d] = IDLE;
	woken[d] = NEVER;
	left[d] = 0;
	taken[d] = NONE;
#ifdef NO_LOOK_AGAIN
	alarm[d] = NEVER
#else
	alarm[d] = 0
#endif
}

inline recover(t) {
	state[t] = SCHEDULED;
	FOR_DAEMONS(i) {
		taken[i] = (taken[i] == t -> NONE : taken[i])
	};
	i = 0;
#ifndef NO_ANNOUNCE
	announce(due[t])
#endif
}

#define HEARS(ms) \
	:: atomic { \
		wakes[me] & (1 << ms) -> \
		wakes[me] = wakes[me] & ~(1 << ms); \
		woken[me] = earlier(ms, woken[me]); \
		alarm[me] = earlier(ms, alarm[me]) \
	   }

#define IS_DUE(t) (state[t] == SCHEDULED && due[t] == 0)
#define WAITS(t) (MOVES(due[t]) || MOVES(lease[t]))
#if TASKS == 3
#define SOME_DUE (IS_DUE(0) || IS_DUE(1) || IS_DUE(2))
#define SOME_WAIT (WAITS(0) || WAITS(1) || WAITS(2))
#define ALL_ENDED (state[0] == ENDED && state[1] == ENDED && state[2] == ENDED)
#else
#define SOME_DUE (IS_DUE(0) || IS_DUE(1))
#define SOME_WAIT (WAITS(0) || WAITS(1))
#define ALL_ENDED (state[0] == ENDED && state[1] == ENDED)
#endif

proctype daemon(byte me)
{
	byte i, head;

end:	do
	:: atomic {
		take[me] == IDLE && alarm[me] == 0 ->
		take[me] = SENT;
		woken[me] = NEVER;
		alarm[me] = NEVER
	   }
	:: atomic { take[me] == SENT -> run_take(me) }
	:: atomic { take[me] == ANSWERED -> read_answer(me) }
	HEARS(0)
	HEARS(1)
	HEARS(2)
#if defined(LOSE) || defined(LOSE_ANSWERS)
	:: atomic { losses < LOSSES && take[me] == ANSWERED -> losses++; lose_answer(me) }
#endif
#ifdef LOSE
	/* No daemon receives the message. */
	:: atomic {
		losses < LOSSES && (wakes[0] | wakes[1]) != 0 ->
		losses++;
		wakes[0] = 0;
		wakes[1] = 0
	   }
#ifndef NO_SWEEP
	:: atomic { take[me] == IDLE && alarm[me] != 0 && SOME_DUE -> alarm[me] = 0 }
#endif
#endif
	od
}

#define RECOVERS(t) :: atomic { state[t] == LEASED && lease[t] == 0 -> recover(t) }

active proctype redis()
{
	byte i, n;

end:	do
	/* A client puts a task. */
	:: atomic {
		n < TASKS ->
		if
		:: due[n] = 0
		:: due[n] = 1
		:: due[n] = FAR
		fi;
		state[n] = SCHEDULED;
		announce(due[n]);
		n++
	   }
	RECOVERS(0)
	RECOVERS(1)
#if TASKS == 3
	RECOVERS(2)
#endif
	od
}

active proctype clock()
{
	byte i;

end:	do
	:: atomic {
		SOME_WAIT || MOVES(next) || MOVES(alarm[0]) || MOVES(alarm[1]) ||
		MOVES(woken[0]) || MOVES(woken[1]) || MOVES(left[0]) || MOVES(left[1]) ||
		(wakes[0] | wakes[1]) > 1 ->
		pass(next);
		FOR_TASKS(i) {
			pass(due[i]);
			pass(lease[i])
		};
		FOR_DAEMONS(i) {
			pass(alarm[i]);
			pass(woken[i]);
			pass(left[i]);
			wakes[i] = (wakes[i] >> 1) | (wakes[i] & 1)
		};
		i = 0
	   }
	od
}

/* Checks the states in which nothing can happen any more. */
active proctype judge()
{
	timeout -> assert(ALL_ENDED)
}

init {
	atomic {
		run daemon(0);
		run daemon(1)
	}
}
