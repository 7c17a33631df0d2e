/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How two daemons learn that a lane of twheeld has due tasks. Models Redis, the daemons and
 * time, in every interleaving. lease.pml models what happens to a task that was taken.
 *
 * The head of a lane is its earliest scheduled task. Redis stores "next", which is never
 * later than the due time of the head. A script that schedules an earlier task lowers
 * "next", and publishes the new time to all daemons. Each daemon has an alarm for the head,
 * and sends a take when it goes off. The take leases the head if that is due, raises "next"
 * to the due time of the new head, and returns this time.
 *
 * A script is one step, as it is in Redis. A take has three steps: the daemon sends it,
 * Redis runs it, the daemon reads the answer. A message arrives at any time after it was
 * published. A daemon can be arbitrarily slow, so the lease of a task may end, and the task
 * be scheduled again, before the daemon reads the answer. A task ends when the daemon has
 * read the answer.
 *
 * Times are relative to now, and 0 stands for all of the past, so the model is finite.
 *
 * Checked: when no further step is possible, each task has ended. So no due task is ever
 * left without an alarm or a message.
 *
 * -DLOSE_ANSWERS	up to two answers to takes are lost
 * -DLOSE	up to two answers or messages are lost, and daemons sweep, that is, they also
 *		take without an alarm
 *
 * Mutations that spin must detect:
 * -DNO_WOKEN	an answer overwrites the time of a message that came after the take was sent
 * -DNO_RAISE	a take does not raise "next"
 * -DNO_HEAD	a take does not return the due time of the new head
 * -DNO_ANNOUNCE	a task whose lease has ended is not published
 * -DNO_LOOK_AGAIN	a daemon sets no alarm after a lost answer
 * -DNO_SWEEP	daemons do not sweep
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
byte lease[TASKS];	/* when it ends */
byte next = NEVER;

/* The daemons. */
byte alarm[DAEMONS] = NEVER;	/* when the daemon sends a take */
byte woken[DAEMONS] = NEVER;	/* the earliest message since the take was sent */
byte take[DAEMONS];
byte taken[DAEMONS] = NONE;	/* the task of the answer; NONE again if its lease ends */
byte left[DAEMONS];		/* due time of the new head, in the answer */
byte wakes[DAEMONS];		/* times of messages that have not arrived: a bit each */
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

/* The leased task is scheduled again when its lease ends. */
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
