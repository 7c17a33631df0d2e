/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The verbs of libtwheel on one timer: its owner, a reader, the kernel, in every
 * interleaving.
 *
 * The owner calls set, clear, replace, and del followed by add in the same slot. A reader
 * takes events from the kernel and hands them out. Both share two things in the
 * library: the mutex, and the flag "armed", which says that an event may come. set
 * takes no lock and does not touch the flag if it finds an arming in the word. It
 * writes nothing if it finds 0, because an event may be outstanding then.
 *
 * table.pml checks how the kernel learns of a word. So its part is short here: a
 * mark is taken at any time, by a turn or by the KICK of another thread. Any queued
 * arming may be due. A word holds the number of its arming in place of a time.
 *
 * clear parks a word in which it finds an arming: then no event is outstanding, and the next
 * set needs no more than an exchange. To the kernel, a parked word is 0.
 *
 * replace ends an arming and begins another by one exchange. An event that is read meanwhile may
 * be of either, so the reader arms that timer again in place of handing the event out.
 *
 * Checked:
 * - set, clear, replace and del return 1 exactly if the arming that they ended gave no event
 *   and never will;
 * - an event is handed out once, with the id of its arming, and never after the
 *   call that ended the arming has returned;
 * - no arming is lost: when the owner is quiet, the kernel has queued the word, or
 *   its mark is set.
 *
 * -DSETTERS has two threads in place of the owner, which set the timer at once. It may
 * be parked before. Then each return is not compared; the sum of all is.
 *
 * Mutations that must be found:
 * -DEXCHANGE_FIRST	set exchanges the word before it knows whether it is 0; under
 *			the mutex it takes that back if the kernel has not claimed it
 * -DNO_TAKE_BACK	the same, and does not take it back
 * -DLOAD_FIRST		as EXCHANGE_FIRST, but only if a load before found an arming
 * -DNO_LOCK		the reader does not hold the mutex
 * -DNO_WITHDRAWAL	clear and del do not withdraw an event
 * -DPARK_BLINDLY	clear parks a word that is 0, too, before it asks for an event
 * -DPARK_UNARMED	clear notes that no event may come when it parks a word
 * -DID_FIRST		replace stores the new id before the exchange, and hides nothing
 * -DID_LAST		replace stores it after the exchange, and hides nothing
 * -DDROP_REPLACED	the reader does not arm such a timer again
 * -DPARK_AS_DEADLINE	a turn of the kernel takes a parked word for a deadline
 */
#ifndef ROUNDS
#define ROUNDS 4	/* calls of the owner, or of each of two threads */
#endif
#define ARMINGS 10
#define PARKED 255	/* a word that clear has left */
#define IDLE 0		/* places of the timer in the kernel */
#define QUEUED 1
#define READY 2		/* it has an unread event */
#define ALIVE 0		/* what became of an arming */
#define ENDED 1		/* got back by an exchange, or its event was withdrawn */
#define HANDED 2	/* its event was handed out */
#if (defined(NO_TAKE_BACK) || defined(LOAD_FIRST)) && !defined(EXCHANGE_FIRST)
#define EXCHANGE_FIRST
#endif

byte word;		/* deadline_ns: the number of the arming, 0 or PARKED is disarmed */
byte place = IDLE;
byte event;		/* the arming whose event is unread, 0 for none */
bool mark;
bool mutex;		/* of the library */
bool armed;		/* shadow of the slot: an event may come */
bool id;		/* shadow: changes with each add and replace */
bool replacing;		/* shadow: the id says that replace is under way */

/* What the checks know. */
byte last;		/* number of the last arming */
byte fate[ARMINGS];
bool given[ARMINGS];	/* id of the timer at that arming */
byte rets;		/* sum of what the calls returned */
byte ended;		/* armings that ended without an event */
byte busy;		/* threads that are not done */

#define is_arming(w) (w != 0 && w != PARKED)
#define is_free() (!mutex)
#define take() atomic { is_free() -> mutex = true }
#define drop() mutex = false

/* Ends arming @a without an event. */
inline end_of(a) {
	assert(fate[a] == ALIVE);
	fate[a] = ENDED;
	ended++
}

inline new_arming() {
	last++;
	given[last] = id;
	word = last
}

/* Exchanges the word. If it holds an arming, that ends without an event. */
inline exchange(new) {
	old = word;
	word = new;
	if
	:: is_arming(old) -> end_of(old)
	:: else
	fi
}

/* REARM, or REARM with DISARMED if @arms is false. The kernel holds its lock. */
inline rearm(arms) {
	atomic {
		if
		:: is_arming(word) -> end_of(word)
		:: else
		fi;
		if
		:: event != 0 -> end_of(event); event = 0
		:: else
		fi;
		if
		:: arms -> new_arming(); place = QUEUED
		:: else -> word = 0; place = IDLE
		fi
	}
}

/* A deadline after the wheel's next turn needs no mark. */
inline announce() {
	if
	:: place == QUEUED
	:: mark = true
	fi
}

/*
 * The word was 0, and no reader uses it now. If another thread has armed it, REARM ends that
 * arming.
 */
inline set_slowly(ret) {
	take();
	ret = armed;
	if
	:: armed -> rearm(true)
	:: else ->
		armed = true;
		atomic { new_arming() };
		announce()
	fi;
	drop()
}

#ifdef EXCHANGE_FIRST
inline set_blindly(ret) {
	atomic {
		exchange(0);
		new_arming();
		mine = word
	};
	announce();
	if
	:: old != 0 -> ret = (old != PARKED)
	:: else ->
		take();
		ret = armed;
#ifdef NO_TAKE_BACK
		if
		:: ret -> rearm(true)
		:: else
		fi;
		armed = true;
#else
		atomic {
			old = word;
			word = 0
		};
		if
		:: old != mine ->
			/* GET reports whether there is an event. */
			armed = (event != 0)
		:: old == mine && ret ->
			atomic {	/* REARM */
				word = mine;
				if
				:: event != 0 -> end_of(event); event = 0
				:: else
				fi;
				place = QUEUED
			};
			armed = true
		:: else ->
			armed = true;
			word = mine;
			announce()
		fi;
#endif
		drop()
	fi
}
#endif

#if defined(LOAD_FIRST)
inline set(ret) {
	atomic { old = word };
	if
	:: old != 0 -> set_blindly(ret)
	:: else -> set_slowly(ret)
	fi
}
#elif defined(EXCHANGE_FIRST)
inline set(ret) {
	set_blindly(ret)
}
#else
inline set(ret) {
	do
	:: atomic { old = word };
	   if
	   :: old != 0 ->
		if
		:: atomic {
			word == old ->
			exchange(0);
			new_arming()
		   };
		   announce();
		   ret = (old != PARKED);
		   break
		:: atomic { word != old -> skip }
		fi
	   :: else ->
		set_slowly(ret);
		break
	   fi
	od
}
#endif

/* The word was 0, so either the timer is idle or its event is outstanding. */
inline end_slowly(ret) {
	take();
	ret = armed;
#ifndef NO_WITHDRAWAL
	if
	:: armed -> rearm(false)
	:: else
	fi;
#endif
	armed = false;
	drop()
}

inline clear(ret) {
#ifdef PARK_BLINDLY
	atomic { exchange(PARKED) };
	if
	:: old != 0 -> ret = (old != PARKED)
	:: else -> end_slowly(ret)
	fi
#else
	do
	:: atomic { old = word };
	   if
	   :: old != 0 ->
		if
		:: atomic {
			word == old ->
			exchange(PARKED)
		   };
#ifdef PARK_UNARMED
		   armed = false;
#endif
		   ret = (old != PARKED);
		   break
		:: atomic { word != old -> skip }
		fi
	   :: else ->
		end_slowly(ret);
		break
	   fi
	od
#endif
}

inline del(ret) {
	atomic { exchange(0) };
	if
	:: old != 0 ->
		/* No event is outstanding, so no reader looks at the flag. */
		armed = false;
		ret = (old != PARKED)
	:: else -> end_slowly(ret)
	fi
}

/* A slot that del returned: nothing is outstanding. */
inline add() {
	atomic { id = !id; armed = true };
	atomic { new_arming() };
	announce()
}

inline replace(ret) {
#if defined(ID_FIRST)
	id = !id;
#elif !defined(ID_LAST)
	replacing = true;
#endif
	do
	:: atomic { old = word };
	   if
	   :: old != 0 ->
		if
		:: atomic {
			word == old ->
			exchange(0);
			new_arming();
#ifndef ID_FIRST
			given[last] = !id
#endif
		   };
#ifndef ID_FIRST
		   atomic { id = !id; replacing = false };
#endif
		   announce();
		   ret = (old != PARKED);
		   break
		:: atomic { word != old -> skip }
		fi
	   :: else ->
#ifdef ID_FIRST
		id = !id;
#endif
		replacing = false;
		del(ret);
		add();
		break
	   fi
	od
}

/* Checks what a call that ended @a must have returned; @a is 0 if it ended none. */
inline check_return(a, ret) {
	atomic {
		assert(ret == (a != 0 && fate[a] == ENDED));
		assert(a == 0 || fate[a] != ALIVE)
	}
}

/* Checks the states in which the owner is idle. */
inline check_quiet() {
	atomic {
		assert((word == 0 && event == 0) || armed);
		assert(word == 0 || place != READY);
		assert(!is_arming(word) || place == QUEUED || mark)
	}
}

proctype owner()
{
	byte n, old, before, mine;
	bool ret;

	do
	:: n == ROUNDS -> break
	:: else ->
		n++;
		before = mine;
		if
		:: set(ret);
		   mine = last;
		   check_return(before, ret)
		:: clear(ret);
		   mine = 0;
		   check_return(before, ret)
		:: del(ret);
		   check_return(before, ret);
		   rets = rets + ret;
		   ret = false;
		   add();
		   mine = last
		:: replace(ret);
		   check_return(before, ret);
		   mine = last
		fi;
		rets = rets + ret;
		ret = false;
		check_quiet()
	od;
	atomic {
		assert(rets == ended);
		busy--
	}
}

proctype setter()
{
	byte n, old, mine;
	bool ret;

	do
	:: n == ROUNDS -> break
	:: else ->
		n++;
		set(ret);
		rets = rets + ret;
		ret = false
	od;
	atomic {
		busy--;
		if
		:: busy == 0 -> assert(rets == ended)
		:: else
		fi
	};
	if
	:: busy == 0 -> check_quiet()
	:: else
	fi
}

active proctype reader()
{
	byte got;
	bool hides;

end:	do
	:: event != 0 ->
#ifndef NO_LOCK
		take();
#endif
		atomic {
			got = event;
			event = 0;
			if
			:: got == 0
			:: got != 0 && is_arming(word) -> place = QUEUED
			:: got != 0 && !is_arming(word) -> place = IDLE
			fi
		};
		if
		:: got != 0 ->
			/* If the flag were not set, it would be the event of another process. */
			atomic {
				hides = replacing;
				assert(armed && (hides || id == given[got]))
			};
			if
			:: hides ->
				atomic {	/* REARM */
					assert(word == 0);
#ifndef DROP_REPLACED
					word = got;
					place = QUEUED;
#endif
					got = 0
				}
			:: else ->
				armed = false;
				atomic {
					assert(fate[got] == ALIVE);
					fate[got] = HANDED;
					got = 0
				}
			fi
		:: else
		fi
#ifndef NO_LOCK
		; drop()
#endif
	od
}

#ifdef PARK_AS_DEADLINE
#define is_due(w) (w != 0)
#else
#define is_due(w) is_arming(w)
#endif

active proctype kernel()
{
end:	do
	/* A turn handles the mark, and leaves an event alone. */
	:: atomic {
		mark ->
		mark = false;
		if
		:: place == READY
		:: place != READY && is_arming(word) -> place = QUEUED
		:: place != READY && !is_arming(word) -> place = IDLE
		fi
	   }
	/* Another thread's KICK handles it, and withdraws an event whose timer was armed again. */
	:: atomic {
		mark ->
		mark = false;
		if
		:: place == READY && !is_arming(word)
		:: place == READY && is_arming(word) -> end_of(event); event = 0; place = QUEUED
		:: place != READY && is_arming(word) -> place = QUEUED
		:: place != READY && !is_arming(word) -> place = IDLE
		fi
	   }
	/* The queued arming is due, or it has ended. */
	:: atomic {
		place == QUEUED && !is_arming(word) -> place = IDLE
	   }
	:: atomic {
		place == QUEUED && is_due(word) ->
		event = word;
		word = 0;
		place = READY
	   }
	od
}

init {
	atomic {
#ifdef SETTERS
		busy = 2;
		if
		:: word = PARKED; armed = true
		:: skip
		fi;
		run setter();
		run setter()
#else
		busy = 1;
		run owner()
#endif
	}
}
