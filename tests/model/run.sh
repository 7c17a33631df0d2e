#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/model/run.sh [--full]: checks the models with spin. table.pml models the protocol of
# the deadline table, library.pml libtwheel with one timer, and lane.pml and lease.pml a lane
# of twheeld. Each must hold, and each mutation must be found. Prints TAP.
#
#   --full  also a lane with more tasks, and a lease with longer times

. "$(dirname "$0")/../../vm/lib.sh"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# spin writes the path of a model into the search, so the path is the same in each checkout.
cp "$top"/tests/model/*.pml "$dir"
cd "$dir"
# shellcheck source=../../tests/lib/tap.sh
. "$top/tests/lib/tap.sh"

# errors OPTIMIZATION MODEL [-DOPTION ...]: prints how many errors a search of all states
# finds. It ends at the first. A search that was cut short and found none proves nothing.
errors()
{
	local optimization=$1 model=$2 found

	shift 2
	rm -f pan pan.[co] pan.log
	if ! { spin "$@" -a "$model" &&
		gcc "$optimization" -DSAFETY -DCOLLAPSE -DMEMLIM=2000 -c pan.c &&
		gcc -o pan pan.o &&
		./pan -m10000; } >pan.log 2>&1; then
		echo 'no search'
		return
	fi
	found=$(sed -n 's/.*errors: //p' pan.log)
	if [ "$found" = 0 ] && grep -Eq 'not completed|too small|MEMLIM' pan.log; then
		found='cut short'
	fi
	echo "$found"
}

# expect NAME WANTED FOUND: one result.
expect()
{
	local is=0

	[ "$3" = "$2" ] || is=1
	verdict $is "$1"
	[ $is = 0 ] || sed 's/^/# /' pan.log
}

# holds NAME MODEL [-DOPTION ...]: the model must hold.
holds()
{
	local name=$1

	shift
	expect "$name" 0 "$(errors -O2 "$@")"
}

# finds NAME MODEL [-DOPTION ...]: the search must find this mutation, at an early error.
finds()
{
	local name=$1

	shift
	expect "found: $name" 1 "$(errors -O0 "$@")"
}

one="table.pml -DROUNDS=2 -DTICKS=2"
two="table.pml -DSLOTS=2 -DTICKS=2 -DFRESH -DBUDGET"
kicks="table.pml -DSLOTS=2 -DLINES=2 -DTICKS=2 -DBUDGET"

echo 'TAP version 13'
# The options of a model must be split into words.
# shellcheck disable=SC2086
{
	holds 'table: from any state, two users, deadlines far and near' table.pml -DTICKS=3
	holds 'table: from any state, one of the users calls twice' $one
	holds 'table: from a fresh wheel, one of them calls three times' \
		table.pml -DROUNDS=3 -DTICKS=2 -DFRESH
	holds 'table: two slots of one line, turns end at their budget' $two
	holds 'table: two lines, turns end at their budget' $two -DLINES=2
	finds 'the kernel does not read the word again' $one -DNO_SECOND_READ
	finds 'the kernel ends an arming by a store' $one -DPLAIN_STORE
	finds 'the user reads wake_ns before the exchange' $one -DWAKE_FIRST
	finds 'the user reads next_ns before it sets the mark' $one -DNEXT_FIRST
	finds 'the user sets the summary bit before the mark' $one -DSUMMARY_BEFORE_MARK
	finds 'the kernel reads the summary before it publishes next_ns' $one -DSUMMARY_FIRST
	finds 'the kernel does not read the summary again' $one -DNO_REREAD
	finds 'the kernel clears a mark after its look' $one -DCLEAR_AFTER
	finds 'the kernel clears a summary bit after the marks' $one -DSUMMARY_AFTER
	finds 'a turn that leaves marks asks for no other' $two -DLEFT_BEHIND
	finds 'a KICK begins where the last sweep ended' $two -DLINES=2 -DKICK_GOES_ON
	finds 'a turn keeps a mark while a KICK is under way' $kicks -DKEPT_MEANWHILE
	finds 'a KICK does not look for marks that were kept before it' $one -DKEPT_UNNAMED
	finds 'a turn that leaves an event that was armed over takes its mark' $one -DTAKE_FOR_GOOD
	finds 'the kernel queues a timer for a word that is parked' $one -DPARK_AS_DEADLINE

	holds 'library: an owner, a reader and the kernel' library.pml
	holds 'library: two threads set one timer' library.pml -DSETTERS -DROUNDS=3
	finds 'set exchanges a word that is 0' library.pml -DEXCHANGE_FIRST
	finds 'set exchanges a word that is 0, and does not take it back' library.pml -DNO_TAKE_BACK
	finds 'set exchanges a word in which a load found an arming' library.pml -DLOAD_FIRST
	finds 'a reader without the mutex' library.pml -DNO_LOCK
	finds 'clear and del withdraw no event' library.pml -DNO_WITHDRAWAL
	finds 'clear parks a word that is 0' library.pml -DPARK_BLINDLY
	finds 'clear parks a word and notes that no event may come' library.pml -DPARK_UNARMED
	finds 'the kernel takes a parked word for a deadline' library.pml -DPARK_AS_DEADLINE
	finds 'replace stores the id before the exchange' library.pml -DID_FIRST
	finds 'replace stores the id after the exchange' library.pml -DID_LAST
	finds 'a reader drops an event that comes during replace' library.pml -DDROP_REPLACED

	holds 'lane: two daemons and two tasks' lane.pml
	holds 'lane: answers are lost' lane.pml -DLOSE_ANSWERS
	holds 'lane: answers and messages are lost' lane.pml -DLOSE
	finds 'an answer to a take hides a message' lane.pml -DNO_WOKEN
	finds 'a take does not raise next' lane.pml -DNO_RAISE
	finds 'a take does not tell the head that it leaves' lane.pml -DNO_HEAD
	finds 'a task that comes back is not published' lane.pml -DNO_ANNOUNCE
	finds 'a lost answer sets no alarm' lane.pml -DLOSE_ANSWERS -DNO_LOOK_AGAIN
	finds 'no daemon sweeps' lane.pml -DLOSE -DNO_SWEEP

	holds 'lease: two daemons, a cancellation, a death' lease.pml
	finds 'take is not one step' lease.pml -DTAKE_IN_TWO
	finds 'a report needs no token' lease.pml -DNO_TOKEN
	finds 'an attempt begins under a lease that has ended' lease.pml -DNO_LEASE_LOOK
	finds 'a cancellation sets no flag' lease.pml -DNO_FLAG
	finds 'no daemon returns a task whose lease has ended' lease.pml -DNO_RECOVER
	finds 'a daemon without the task answers a recall by yes' lease.pml -DRECALL_BLIND
	finds 'a daemon whose attempt runs answers a recall by yes' lease.pml -DRECALL_RUNS
	[ "${1:-}" != --full ] || {
		holds 'lane: three tasks' lane.pml -DTASKS=3
		holds 'lane: three tasks, answers and messages are lost' \
			lane.pml -DTASKS=3 -DLOSE
		holds 'lease: more attempts and longer times' \
			lease.pml -DAHEAD=4 -DLEASE=3 -DLIMIT=6
	}
}
done_testing
