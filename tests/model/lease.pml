/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The lease of a task of twheeld. Models Redis, two daemons, a client and time, in every
 * interleaving. lane.pml models how a daemon learns that a task is due.
 *
 * A daemon takes the task before its due time, which leases it, begins an attempt when the
 * task is due, and reports the result. The client cancels the task at any time. If a daemon
 * holds the task and has not begun it, Redis sends that daemon a recall, a request to give
 * the task back. One of the daemons may die. A daemon can be arbitrarily slow, so it may
 * still hold the task after its lease has ended.
 *
 * A script is one step, as it is in Redis. Answers, recalls and reports arrive at any later
 * time. Times are relative to now, and 0 stands for all of the past.
 *
 * Checked:
 * - A lease has one owner: no daemon takes a task while another owns its lease, and an
 *   attempt only begins under the lease that Redis stores.
 * - Once the client was told "canceled", no attempt begins or runs under a valid lease. Once
 *   it was told "leased", no daemon takes the task again.
 * - The task is only removed from Redis by the report of an attempt, by a cancellation, or
 *   after its last attempt.
 * - When no further step is possible, the task has ended.
 *
 * Mutations that spin must detect:
 * -DTAKE_IN_TWO	a take reads the task in one step, and leases it in the next
 * -DNO_TOKEN	Redis accepts a report by its holder instead of its token
 * -DNO_LEASE_LOOK	an attempt begins under a lease that has ended
 * -DNO_FLAG	a cancellation does not set "no further attempt"
 * -DNO_RECOVER	no daemon returns a task whose lease has ended
 * -DRECALL_BLIND	a daemon without the task answers a recall with "canceled"
 * -DRECALL_RUNS	a daemon whose attempt runs answers a recall with "canceled"
 */
#define DAEMONS 2
#ifndef AHEAD
#define AHEAD 2		/* maximum time from now to the due time */
#define LEASE 2		/* from the due time to the end of the lease */
#define LIMIT 3		/* maximum number of attempts */
#endif

/* States of the task. */
#define ABSENT 0
#define SCHEDULED 1
#define LEASED 2
#define ENDED 3

/* What a daemon does with it. */
#define NOTHING 0
#define READ 1		/* TAKE_IN_TWO: it has read the task */
#define TAKEN 2		/* the answer is on its way */
#define WAITS 3
#define RUNS 4
#define GIVEN_BACK 5	/* the report for a recall is on its way */

#define FOR_DAEMONS(i) for (i : 0 .. DAEMONS - 1)
#define pass(x) x = (x > 0 -> x - 1 : 0)

/* Redis. */
byte state;
byte due;
byte lease;		/* when it ends */
bool last;		/* no further attempt */
byte attempts;
byte holder = DAEMONS;

/* The daemons. */
bool dead;		/* daemon 1 has died */
byte held[DAEMONS];
byte until[DAEMONS];	/* when the lease ends, as far as the daemon knows */
bool token[DAEMONS];	/* the token of its take is still valid */
bool late[DAEMONS];	/* the report of an earlier take has not arrived yet */
bool recall[DAEMONS];	/* a recall has not arrived yet */

/* For the checks. */
bool owned[DAEMONS];	/* the daemon owns a lease that has not ended */
bool canceled;		/* the client was told "canceled" */
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
