/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The protocol of the deadline table: words, marks, their summary and next_ns; two
 * users and one kernel, in every interleaving (G3, G4). Memory is sequentially consistent
 * here. In the code, full barriers stand where the order matters.
 *
 * A user exchanges a word and reads wake_ns. If the kernel would not look in time,
 * the user sets the mark of the slot, then the summary bit of the line, and reads
 * next_ns. If the next turn comes too late, the user kicks. "Only if it is not set"
 * needs no step of its own: to set a bit that is set changes nothing.
 *
 * The kernel turns when the hrtimer fires, when the worker runs, and at a KICK. It
 * also puts a timer back when its event is read. The lock of the wheel is not in the
 * model, because one process does all of this. A turn has a budget. With -DBUDGET it
 * may end at any mark, and at any timer that is due.
 *
 * A tick is 1. Time goes from 0 to TICKS. The first state is any quiet state of a
 * wheel without marks; with -DFRESH its timers are idle.
 *
 * Checked:
 * - no arming expires before its deadline;
 * - each arming ends once: by an event that is read, by an event that a KICK
 *   withdraws, or by an exchange that gets the arming back;
 * - no arming is lost. When the kernel is quiet and the call that armed the word is
 *   over, one of three things holds. The timer is queued at the deadline or before,
 *   and a turn comes by then. Or its mark is set, and a turn comes by the deadline.
 *   Or an event of the timer is unread. If the deadline has passed at the last turn,
 *   the next tick counts in its place. The other user may stop anywhere in its call;
 * - after a KICK, an event that its caller has armed over is not there any more.
 *
 * With SLOTS 1, both users have the same slot. With SLOTS 2 each has one; LINES says
 * whether they share the summary bit. Each slot has a word of marks of its own.
 *
 * Mutations that must be found:
 * -DNO_SECOND_READ	the kernel does not read the word again
 * -DPLAIN_STORE	it ends an arming by a store in place of the cmpxchg
 * -DWAKE_FIRST		the user reads wake_ns before the exchange
 * -DNEXT_FIRST		the user reads next_ns before it sets the mark
 * -DSUMMARY_BEFORE_MARK	it sets the summary bit before the mark
 * -DSUMMARY_FIRST	the kernel reads the summary before it publishes next_ns
 * -DNO_REREAD		it does not read the summary again
 * -DCLEAR_AFTER	it clears a mark after its look
 * -DSUMMARY_AFTER	it clears a summary bit after the marks of the line
 * -DLEFT_BEHIND	with BUDGET: a turn that leaves marks does not ask for another
 * -DTAKE_FOR_GOOD	a turn that leaves an event takes the mark
 * -DKICK_GOES_ON	with BUDGET: a KICK begins where the last sweep ended
 * -DKEPT_MEANWHILE	with BUDGET: a turn keeps the mark of an event while a KICK is under way
 * -DKEPT_UNNAMED	a KICK does not look for the marks that turns have kept before it
 * -DPARK_AS_DEADLINE	a timer whose word is parked stays on the wheel
 */
#ifndef SLOTS
#define SLOTS 1
#endif
#ifndef LINES
#define LINES 1
#endif
#ifndef ROUNDS
#define ROUNDS 1	/* exchanges by user 0; user 1 makes one */
#endif
#ifndef TICKS
#define TICKS 3		/* deadlines are 1 .. TICKS */
#endif
#define NEVER 255
#define PARKED 254	/* a word that is disarmed, as 0 is */
#define LOOKS 2		/* looks at one word per visit */
/* The places of a timer. */
#define IDLE 0
#define QUEUED 1
#define TAKEN 2
#define READY 3		/* it has an unread event */
/* The kernel's steps. In each of them it accesses the mapping once. */
#define QUIET 0
#define SWEEP 1		/* the summary */
#define MARKS 2		/* the marks of a line */
#define DUE 3		/* what is due */
#define LOOK 4		/* reads a word */
#define CLAIM 5		/* ends an arming */
#define SAY 6		/* writes wake_ns */
#define PUBLISH 7	/* writes next_ns */
#define REREAD 8	/* reads the summary again */
#define AGAIN 9		/* writes next_ns again */
#define CLEAR 10	/* clears a mark too late */
/* The reason for a turn: a KICK of user 0 or 1, or one of these. */
#define HRTIMER 2
#define WORKER 3
#define READING 4

#define line_of(slot) ((slot) % LINES)

/* The mapping. */
byte word[SLOTS];	/* deadline_ns: 0 and PARKED are disarmed */
byte wake[SLOTS];	/* wake_ns */
bool mark[SLOTS];
bool summary[LINES];
byte next = NEVER;	/* next_ns: when the hrtimer fires; 0 if the worker turns next */

/* The kernel's own. */
byte now;
byte turned;		/* the time of the last turn */
byte place[SLOTS];
byte at[SLOTS];		/* where a timer is queued */
bool marked;		/* the budget did not reach all marks */
byte line;		/* where the sweep goes on */
bool kept;		/* marks were kept for the next KICK, and their lines are not named */
bool work;		/* the worker is queued */
byte kick[2];		/* of each user: 1 begins, 2 goes on, 0 is over */
byte step = QUIET;
bool started;		/* init has chosen the first state */

/* What the checks know. */
byte alive[SLOTS];	/* armings that have not ended */
byte unsaid[SLOTS];	/* whose arming is in the word, if that call is not over */
byte over[SLOTS];	/* who has armed over the unread event: user 0 is 1, user 1 is 2 */

#define is_arming(w) ((w) != 0 && (w) != PARKED)
#define later(a, b) ((a) > (b) -> (a) : (b))
#define in_time(s, t) ((t) <= later(word[s], turned + 1))
#define turns_by(t) (work || (next != 0 && next <= (t)))

#define is_safe(s) ( \
	!is_arming(word[s]) || unsaid[s] != 0 || place[s] == READY || \
	(place[s] == QUEUED && in_time(s, at[s]) && turns_by(at[s])) || \
	(mark[s] && summary[line_of(s)] && turns_by(later(word[s], turned + 1))))

#define is_once(s) \
	(alive[s] == (is_arming(word[s]) -> 1 : 0) + (place[s] == READY -> 1 : 0))

inline check(s) {
	assert(is_once(s));
	/* No timer is queued for a parked word. */
	assert(place[s] != QUEUED || at[s] <= TICKS + 1);
	assert(is_safe(s))
}

#if LINES == 1
#define has_marks() (summary[0])
#else
#define has_marks() (summary[0] || summary[1])
#endif

/* While a KICK is under way, all turns withdraw events whose timers were armed again. */
#ifdef KEPT_MEANWHILE
#define withdraws() (why < 2)
#else
#define withdraws() (kick[0] == 2 || kick[1] == 2)
#endif

#ifdef BUDGET
#define may_end() true
#else
#define may_end() false
#endif

/* Takes the lock. */
inline begin(reason, first) {
	why = reason;
	turned = now;
	step = first
}

/* Drops the lock. */
inline finish() {
	if
	:: why < 2 && !goes_on -> kick[why] = 0
	:: else
	fi;
	goes_on = false;
	why = 0;
	s = 0;
	d = 0;
	n = 0;
	looks = 0;
	back = 0;
	step = QUIET;
	check(0);
	check(SLOTS - 1)
}

inline next_line() {
	line++;
	s = 0;
	if
	:: line == LINES -> line = 0; step = DUE
	:: else -> step = SWEEP
	fi
}

inline look(return_to) {
	back = return_to;
	looks = 0;
	step = LOOK
}

/* The look at slot s is complete. */
inline go_back() {
	looks = 0;
	d = 0;
	step = back;
	if
	:: back == PUBLISH
	:: back == DUE -> s++
	:: back == MARKS ->
#ifdef CLEAR_AFTER
		step = CLEAR
#else
		s++
#endif
	fi
}

/* Determines when the next turn is needed. */
inline find_next() {
	n = (marked -> 0 : NEVER);
	if
	:: place[0] == QUEUED && at[0] < n -> n = at[0]
	:: else
	fi;
	if
	:: place[SLOTS - 1] == QUEUED && at[SLOTS - 1] < n -> n = at[SLOTS - 1]
	:: else
	fi
}

active proctype kernel()
{
	byte why, s, d, n, looks, back;
	bool goes_on;

	started;
end:	do
	:: atomic { step == QUIET && now < TICKS -> now++ }
	:: atomic { step == QUIET && next != 0 && next <= now -> begin(HRTIMER, SWEEP) }
	:: atomic { step == QUIET && work -> work = false; begin(WORKER, SWEEP) }
	:: atomic {
		step == QUIET && (kick[0] != 0 || kick[1] != 0) ->
		if
		:: kick[0] != 0 -> begin(0, SWEEP)
		:: kick[1] != 0 -> begin(1, SWEEP)
		fi;
		if
#ifndef KICK_GOES_ON
		:: kick[why] == 1 -> line = 0
#endif
		:: else
		fi;
		if
#ifndef KEPT_UNNAMED
		:: kick[why] == 1 && kept ->
			summary[0] = true;
			summary[LINES - 1] = true;
			kept = false
#endif
		:: else
		fi;
		kick[why] = 2
	   }
	:: atomic {
		step == QUIET && (place[0] == READY || place[SLOTS - 1] == READY) ->
		begin(READING, PUBLISH);
		if
		:: place[0] == READY
		:: place[SLOTS - 1] == READY -> s = SLOTS - 1
		fi;
		place[s] = IDLE;
		alive[s]--;
		over[s] = 0;
		if
		:: is_arming(word[s]) -> look(PUBLISH)
		:: else
		fi
	   }

	:: atomic {
		step == SWEEP ->
		marked = false;
		if
		:: !summary[line] -> next_line()
		:: summary[line] ->
#ifndef SUMMARY_AFTER
			summary[line] = false;
#endif
			step = MARKS
		:: may_end() && summary[line] ->
			marked = true;
			step = DUE
		fi
	   }
	:: atomic {
		step == MARKS ->
		if
		:: s == SLOTS ->
#ifdef SUMMARY_AFTER
			summary[line] = false;
#endif
			next_line()
		:: s < SLOTS && !(line_of(s) == line && mark[s]) -> s++
		:: s < SLOTS && line_of(s) == line && mark[s] ->
#ifndef CLEAR_AFTER
			mark[s] = false;
#endif
			look(MARKS)
		:: may_end() && s < SLOTS && line_of(s) == line && mark[s] ->
			summary[line] = true;
#ifdef LEFT_BEHIND
			next_line()
#else
			marked = true;
			s = 0;
			step = DUE
#endif
		fi
	   }
	:: atomic {
		step == DUE ->
		if
		:: s == SLOTS -> step = PUBLISH
		:: may_end() -> step = PUBLISH
		:: s < SLOTS && place[s] == QUEUED && at[s] <= turned ->
			place[s] = TAKEN;
			look(DUE)
		:: s < SLOTS && !(place[s] == QUEUED && at[s] <= turned) -> s++
		fi
	   }

	/* Puts the timer at the place that its word requires. */
	:: atomic {
		step == LOOK ->
#ifdef PARK_AS_DEADLINE
		d = word[s];
#else
		d = (is_arming(word[s]) -> word[s] : 0);
#endif
		if
		:: place[s] == QUEUED &&
		   (d == at[s] || (looks != 0 && (d == 0 || d > at[s]))) -> go_back()
		:: place[s] == READY && (!withdraws() || d == 0) ->
			/* The mark of a timer that was armed again stays for the next KICK. */
#ifndef TAKE_FOR_GOOD
			if
			:: d != 0 && back == MARKS -> mark[s] = true; kept = true
			:: else
			fi;
#endif
			go_back()
		:: place[s] == IDLE && looks != 0 && d == 0 -> go_back()
		:: else ->
			if
			:: place[s] == READY -> place[s] = IDLE; alive[s]--; over[s] = 0
			:: else
			fi;
			looks++;
			if
			:: looks > LOOKS ->
				/* A word that never stands still waits for a tick. */
				place[s] = QUEUED;
				at[s] = turned + 1;
				step = SAY
			:: looks <= LOOKS && d == 0 ->
				place[s] = IDLE;
				step = SAY
			:: looks <= LOOKS && d > turned ->
				place[s] = QUEUED;
				at[s] = d;
				step = SAY
			:: looks <= LOOKS && d != 0 && d <= turned ->
				step = CLAIM
			fi
		fi
	   }
	:: atomic {
		step == CLAIM ->
		if
#ifdef PLAIN_STORE
		:: true ->
#else
		:: word[s] == d ->
#endif
			assert(word[s] <= now);
			word[s] = 0;
			place[s] = READY;
			step = SAY
#ifndef PLAIN_STORE
		:: else -> step = LOOK	/* Moved under our hands. */
#endif
		fi
	   }
	:: atomic {
		step == SAY ->
		wake[s] = (place[s] == QUEUED -> at[s] - 1 : NEVER);
		if
#ifdef NO_SECOND_READ
		:: true -> go_back()
#else
		:: place[s] == READY || looks > LOOKS -> go_back()
		:: else -> step = LOOK
#endif
		fi
	   }
#ifdef CLEAR_AFTER
	:: atomic { step == CLEAR -> mark[s] = false; s++; step = MARKS }
#endif

	/* Only the hrtimer and the worker postpone the next turn. */
	:: atomic {
		step == PUBLISH ->
		find_next();
		/*
		 * A KICK continues with the rest itself, and leaves to the worker only what is due;
		 * unless a signal ends it, and then it promises nothing.
		 */
		if
		:: why < 2 && n <= turned -> goes_on = true; marked = false; find_next()
		:: why < 2 && n <= turned && may_end() ->
			over[0] = over[0] & ~(why + 1);
			over[SLOTS - 1] = over[SLOTS - 1] & ~(why + 1)
		:: else
		fi;
		if
		:: n >= next && why != HRTIMER && why != WORKER -> finish()
		:: n <= turned && (n < next || why == HRTIMER || why == WORKER) ->
			next = 0;
			work = true;
			finish()
		:: n > turned && (n < next || why == HRTIMER || why == WORKER) ->
#ifdef SUMMARY_FIRST
			step = REREAD
#else
			next = n;
#ifdef NO_REREAD
			finish()
#else
			step = REREAD
#endif
#endif
		fi
	   }
	:: atomic {
		step == REREAD ->
		if
		:: n > turned + 1 && has_marks() ->
			n = turned + 1;
			step = AGAIN
		:: else ->
#ifdef SUMMARY_FIRST
			step = AGAIN
#else
			finish()
#endif
		fi
	   }
	:: atomic { step == AGAIN -> next = n; finish() }
	od
}

proctype user(byte me)
{
	byte slot, rounds, t, w, n;

	slot = me % SLOTS;
	do
	:: rounds == (me == 0 -> ROUNDS : 1) -> break
	:: rounds < (me == 0 -> ROUNDS : 1) ->
#ifdef WAKE_FIRST
		w = wake[slot];
#endif
		/* Disarms, parks, or arms for any time, including past ones. */
		atomic {
			rounds++;
			select(t : 0 .. TICKS);
			alive[slot] = alive[slot] + (t != 0 -> 1 : 0) -
				      (is_arming(word[slot]) -> 1 : 0);
			if
			:: word[slot] = t
			:: t == 0 -> word[slot] = PARKED
			fi;
			unsaid[slot] = (t != 0 -> me + 1 : 0);
			/* Disarming leaves the event, whoever has armed the timer since. */
			over[slot] = (t != 0 && place[slot] == READY -> over[slot] | (me + 1) : 0);
			if
			:: t == 0 -> goto end_of_call
			:: else
			fi
		};
		atomic {
#ifndef WAKE_FIRST
			w = wake[slot];
#endif
			if
			:: t > w -> goto end_of_call
			:: else -> w = 0
			fi
		};
#ifdef NEXT_FIRST
		n = next;
#endif
#ifdef SUMMARY_BEFORE_MARK
		summary[line_of(slot)] = true;
		mark[slot] = true;
#else
		mark[slot] = true;
		summary[line_of(slot)] = true;
#endif
		atomic {
#ifndef NEXT_FIRST
			n = next;
#endif
			if
			:: t > n -> goto end_of_call
			:: else -> kick[me] = 1
			fi
		};
		atomic {
			kick[me] == 0 ->
			assert((over[slot] & (me + 1)) == 0);
			goto end_of_call
		};
end_of_call:	atomic {
			over[slot] = over[slot] & ~(me + 1);
			t = 0;
			w = 0;
			n = 0;
			if
			:: unsaid[slot] == me + 1 -> unsaid[slot] = 0
			:: else
			fi;
			if
			:: step == QUIET -> check(slot)
			:: else
			fi
		}
	od
}

/* Any quiet state of a timer: idle, with an event, or queued and moved later since. */
inline start(s) {
	wake[s] = NEVER;
	if
	:: true
#ifndef FRESH
	:: place[s] = READY; alive[s] = 1
	:: place[s] = QUEUED;
		select(q : 1 .. TICKS);
		at[s] = q;
		wake[s] = q - 1;
		next = (q < next -> q : next);
		select(t : q - 1 .. TICKS);
		word[s] = (t < q -> 0 : t);
		alive[s] = (t < q -> 0 : 1)
#endif
	fi
}

init {
	byte q, t;

	atomic {
		start(0);
#if SLOTS == 2
		start(1);
#endif
		/* A turn that has become unnecessary, or that looks too early. */
		if
		:: true
		:: next > 1 -> next = 1
		fi;
		q = 0;
		t = 0;
		started = true;
		run user(0);
		run user(1)
	}
}
