/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The protocol of the deadline table: one slot, two writers, one kernel, every
 * interleaving, sequentially consistent (the exchanges and cmpxchg are full
 * barriers, so that is what the code sees).
 *
 * A writer moves or disarms the deadline by an exchange, then reads wake and
 * kicks if the kernel would not look in time. The kernel looks when the place
 * where the timer is queued comes up, or when it is kicked.
 *
 * Checked: no expiry before its deadline; each arming ends in exactly one of
 * an event, or an exchange that got it back; and when all is quiet an armed
 * word is queued at its deadline or before.
 *
 * -DSTARTER has, in place of the writers, a thread of libtwheel that starts a
 * timeout in a free slot, whose word is 0 and nobody else's: by a store, which is
 * seen when the processor likes, a full barrier some time later, and then as above.
 * When it stops one, that is an exchange.
 *
 * -DNO_SECOND_READ, -DPLAIN_STORE and, with -DSTARTER, -DNO_BARRIER are mutations
 * that must be found.
 */
#ifndef TICKS
#define TICKS 2		/* time goes 0 .. TICKS */
#endif
#ifndef ROUNDS
#define ROUNDS 2	/* exchanges by each writer */
#endif
#define NEVER 255
#define LOOKS 2		/* looks at one word per visit */

byte now;
byte word;		/* deadline_ns: 0 is disarmed */
byte wake = NEVER;	/* wake_ns */
byte queued;		/* where the wheel has it; 0: nowhere */
bool lock;

byte armings;		/* words other than 0 that were stored */
byte events;		/* expiries claimed */
byte gotten;		/* armings that an exchange got back */
byte busy = 2;		/* writers that are not done */

/* The kernel's look at the slot, under the lock. */
inline look() {
	looks = 0;
	do
	:: atomic { d = word };
	   undecided = false;
	   if
	   :: d == 0 ->
		queued = 0;
		wake = NEVER
	   :: d > now ->
		queued = d;
		wake = d
	   :: else ->
		assert(d <= now);
#ifdef PLAIN_STORE
		word = 0;
		events++;
		queued = 0;
		wake = NEVER
#else
		if
		:: atomic { word == d -> word = 0 };
			events++;
			queued = 0;
			wake = NEVER
		:: atomic { word != d -> skip };
			/* Moved under our hands: look again. */
			undecided = true
		fi
#endif
	   fi;
	   looks++;
#ifdef NO_SECOND_READ
	   break
#else
	   atomic { d = word };
	   if
	   :: !undecided && (d == 0 || (queued != 0 && queued <= d)) -> break
	   :: else ->
		if
		:: looks == LOOKS ->
			/* A word that never stands still waits for the next tick. */
			queued = now + 1;
			wake = now;
			break
		:: else
		fi
	   fi
#endif
	od
}

proctype writer()
{
	byte n, t, old, w, d, looks;
	bool undecided;

	do
	:: n == ROUNDS -> break
	:: else ->
		n++;
		/* Disarm, or arm for any time, past ones included. */
		select(t : 0 .. TICKS);
		atomic {
			old = word;
			word = t;
			armings = armings + (t != 0 -> 1 : 0);
			gotten = gotten + (old != 0 -> 1 : 0)
		};
		if
		:: t == 0
		:: else ->
			w = wake;
			if
			:: t <= w ->
				atomic { !lock -> lock = true };
				look();
				lock = false
			:: else
			fi
		fi
	od;
	busy--
}

#ifdef STARTER
byte buffer;		/* a store that is not seen yet; 0: none */

active proctype processor()
{
end:	do
	:: atomic {
		buffer != 0 ->
		word = buffer;
		buffer = 0;
		armings++
	}
	od
}

proctype starter()
{
	byte n, t, old, w, d, looks;
	bool undecided;

	do
	:: n == ROUNDS + 1 -> break
	:: else ->
		n++;
		select(t : 1 .. TICKS);
		assert(word == 0);
		buffer = t;
#ifndef NO_BARRIER
		buffer == 0;
#endif
		w = wake;
		if
		:: t <= w ->
			buffer == 0;
			atomic { !lock -> lock = true };
			look();
			lock = false
		:: else
		fi;
		/* The last is left to expire. */
		if
		:: n <= ROUNDS ->
			buffer == 0;
			atomic {
				old = word;
				word = 0;
				gotten = gotten + (old != 0 -> 1 : 0)
			}
		:: else
		fi
	od;
	buffer == 0;
	busy--
}
#endif

/* The clock and the softirq: a tick may pass at any time, looks take theirs. */
active proctype kernel()
{
	byte d, looks;
	bool undecided;

end:	do
	:: now < TICKS + 2 -> now++
	:: queued != 0 && queued <= now ->
		atomic { !lock -> lock = true };
		if
		:: queued != 0 && queued <= now -> look()
		:: else
		fi;
		lock = false
	od
}

init {
#ifdef STARTER
	atomic {
		busy = 1;
		run starter()
	};
#else
	atomic {
		run writer();
		run writer()
	};
#endif
	/* Time is over, nobody is at it, nothing is due in the wheel. */
	(busy == 0 && now == TICKS + 2 && !lock && !(queued != 0 && queued <= now));
	/* Queued past the end: by a bounded look, to be done at the next tick. */
	if
	:: queued == 0 ->
		assert(word == 0);
		assert(armings == events + gotten)
	:: else
	fi
}
