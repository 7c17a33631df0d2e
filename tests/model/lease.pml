/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The lease of a task of twheeld: Redis, two daemons, a client, and time, in every
 * interleaving. lane.pml models the lanes.
 *
 * A daemon takes the task ahead of its due time, holds it, begins it when it is due, and
 * reports. The client cancels it at some time; a recall asks the holder of a task ahead.
 * One of the daemons may die. A daemon is as slow as time lets it be: one that is stopped
 * past the lease is a slow one. How a daemon learns of the task is in lane.pml.
 *
 * A script is one step, as it is in Redis. Answers, recalls and reports come at any time
 * later. Times count from now, and what has passed is 0.
 *
 * Checked:
 * - a lease has one owner: nobody takes a task whose lease is another's, and an attempt
 *   begins under the lease that Redis has only;
 * - after "canceled" no attempt begins or goes on under a lease, and after "leased" nobody
 *   takes the task again;
 * - the task leaves Redis by a report of an attempt, a cancellation, or its last attempt;
 * - it ends: where nothing can happen any more, it is gone.
 *
 * Mutations that must be found:
 * -DTAKE_IN_TWO	take reads the task in one step, and leases it in another
 * -DNO_TOKEN	a report needs the holder, and not the token
 * -DNO_LEASE_LOOK	an attempt begins under a lease that has ended
 * -DNO_FLAG	a cancellation does not set "no further attempt"
 * -DNO_RECOVER	no daemon returns a task whose lease has ended
 * -DRECALL_BLIND	a daemon that does not hold the task says that it will not begin
 * -DRECALL_RUNS	a daemon says so of an attempt that runs
 */
#define DAEMONS 2
#ifndef AHEAD
#define AHEAD 2		/* the task is put so far ahead, or due */
#define LEASE 2		/* from the due time on */
#define LIMIT 3		/* attempts */
#endif

/* States of the task. */
#define ABSENT 0
#define SCHEDULED 1
#define LEASED 2
#define ENDED 3

/* What a daemon does with it. */
#define NOTHING 0
#define READ 1		/* TAKE_IN_TWO: it was seen */
#define TAKEN 2		/* the answer is on its way */
#define WAITS 3
#define RUNS 4
#define GIVEN_BACK 5	/* the report for a recall is on its way */

#define FOR_DAEMONS(i) for (i : 0 .. DAEMONS - 1)
#define pass(x) x = (x > 0 -> x - 1 : 0)

/* Redis. */
byte state;
byte due;
byte lease;		/* end of it */
bool last;		/* no further attempt */
byte attempts;
byte holder = DAEMONS;

/* The daemons. */
bool dead;		/* daemon 1 is */
byte held[DAEMONS];
byte until[DAEMONS];	/* end of the lease, as the daemon knows it */
bool token[DAEMONS];	/* that of its take is still that of the task */
bool late[DAEMONS];	/* a retry of an older take is on its way */
bool recall[DAEMONS];	/* a message on its way */

/* What the checks know. */
bool owned[DAEMONS];	/* the lease is of this daemon: not ended, and not given up */
bool canceled;		/* the client was told so */
bool final;		/* the client was told "leased" */
bool ran;

inline leave() {
	FOR_DAEMONS(i) { token[i] = false };
	i = 0;
	lease = 0;
	holder = DAEMONS
}

inline end_task() {
	leave();
	state = ENDED;
	due = 0;
	last = false;
	attempts = 0
}

inline schedule(ms) {
	leave();
	state = SCHEDULED;
	due = ms
}

/*
 * The client is told that the task was canceled. An attempt whose lease has ended may still
 * run.
 */
inline told_canceled() {
	canceled = true;
	assert(!owned[0] || held[0] != RUNS);
	assert(!owned[1] || held[1] != RUNS)
}

/* ---- Scripts ---- */

inline run_take(d) {
	assert(!owned[0] && !owned[1]);
	assert(!canceled && !final);
	leave();
	owned[d] = true;
	state = LEASED;
	lease = due + LEASE;
	holder = d;
	token[d] = true;
	held[d] = TAKEN
}

inline ack(d, mine, ok) {
	if
#ifdef NO_TOKEN
	:: state == LEASED && holder == d ->
#else
	:: mine ->
#endif
		owned[d] = owned[d] && !mine;
		attempts++;
		if
		:: ok || last || attempts == LIMIT -> assert(ran); end_task()
		:: else -> schedule(AHEAD)
		fi
	:: else
	fi
}

inline recover() {
	FOR_DAEMONS(i) { owned[i] = false };
	if
	:: last -> end_task()
	:: else -> schedule(due)
	fi
}

/* ---- A daemon ---- */

inline drop(d) {
	held[d] = NOTHING;
	until[d] = 0
}

inline read_answer(d) {
	held[d] = WAITS;
	until[d] = (token[d] -> lease : 0)
}

inline begin(d) {
	if
#ifndef NO_LEASE_LOOK
	:: until[d] == 0 -> drop(d)
#endif
	:: else ->
		assert(token[d] && owned[d]);
		assert(!canceled);
		ran = true;
		until[d] = 0;
		held[d] = RUNS
	fi
}

inline report(d, ok) {
	ack(d, token[d], ok);
	drop(d)
}

/* A daemon with a lease that has ended may take the task again, and report both. */
inline report_later(d) {
	late[d] = true;
	drop(d)
}

inline obey(d) {
	recall[d] = false;
	if
	:: held[d] == WAITS ->
		held[d] = GIVEN_BACK;
		until[d] = 0
#ifdef RECALL_BLIND
	:: held[d] == NOTHING || held[d] == TAKEN -> told_canceled()
#endif
#ifdef RECALL_RUNS
	:: held[d] == RUNS -> told_canceled()
#endif
	:: else		/* "running" */
	fi
}

inline give_back(d) {
	if
	:: token[d] ->
		owned[d] = false;
		if
		:: last -> end_task(); told_canceled()
		:: else -> schedule(due)
		fi
	:: else
	fi;
	drop(d)
}

#define LIVES (me == 0 || !dead)
#define TAKES (LIVES && held[me] == NOTHING && state == SCHEDULED && due <= AHEAD)

proctype daemon(byte me)
{
	byte i;

end:	do
#ifdef TAKE_IN_TWO
	:: atomic { TAKES -> held[me] = READ }
	:: atomic { held[me] == READ -> run_take(me) }
#else
	:: atomic { TAKES -> run_take(me) }
#endif
	:: atomic { LIVES && held[me] == TAKEN -> read_answer(me) }
	:: atomic { LIVES && held[me] == WAITS && until[me] <= LEASE -> begin(me) }
	:: atomic { LIVES && held[me] == RUNS -> report(me, true) }
	:: atomic { LIVES && held[me] == RUNS -> report(me, false) }
	:: atomic { LIVES && held[me] == RUNS && !token[me] && !late[me] -> report_later(me) }
	:: atomic { late[me] -> late[me] = false; ack(me, false, false) }
	:: atomic { LIVES && held[me] == GIVEN_BACK -> give_back(me) }
	:: atomic { LIVES && recall[me] -> obey(me) }
#ifndef NO_RECOVER
	:: atomic { LIVES && state == LEASED && lease == 0 -> recover() }
#endif
	od
}

active proctype client()
{
	byte i;

	atomic {
		if
		:: due = 0
		:: due = 1
		:: due = AHEAD
		fi;
		state = SCHEDULED
	};
	atomic {
		if
		:: state == SCHEDULED -> end_task(); told_canceled()
		:: state == LEASED ->
			final = true;
#ifndef NO_FLAG
			last = true;
#endif
			if
			:: due > 0 -> recall[holder] = true
			:: else		/* "leased": this attempt is the last */
			fi
		:: state == ENDED
		fi
	}
}

active proctype death()
{
	atomic {
		dead = true;
		drop(1);
		late[1] = false;
		recall[1] = false
	}
}

active proctype clock()
{
end:	do
	:: atomic {
		due > 0 || lease > 0 || until[0] > 0 || until[1] > 0 ->
		pass(due);
		pass(lease);
		pass(until[0]);
		pass(until[1])
	   }
	od
}

/* Checks the states in which nothing can happen any more. */
active proctype judge()
{
	timeout -> assert(state == ENDED)
}

init {
	atomic {
		run daemon(0);
		run daemon(1)
	}
}
