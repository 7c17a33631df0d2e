#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# doc/model/run.sh: checks the protocol of the deadline table, table.pml, with
# spin: it must hold, and each mutation of it must be found. Prints TAP.

set -eu

here=$(cd "$(dirname "$0")" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
n=0
failed=0

# errors [-DMUTATION]: how many errors a search of all states finds. The search
# ends at the first; one that was cut short, and found none, says nothing.
errors()
{
	local found

	rm -f pan pan.c pan.log
	if ! { spin "$@" -a "$here/table.pml" && gcc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c &&
		./pan -m1000000; } >pan.log 2>&1; then
		echo 'no search'
		return
	fi
	found=$(sed -n 's/.*errors: //p' pan.log)
	if [ "$found" = 0 ] && grep -Eq 'not completed|too small' pan.log; then
		found='cut short'
	fi
	echo "$found"
}

# check NAME WANTED [-DMUTATION]
check()
{
	local name=$1 wanted=$2 found

	shift 2
	found=$(errors "$@")
	n=$((n + 1))
	if [ "$found" = "$wanted" ]; then
		echo "ok $n $name"
	else
		echo "not ok $n $name"
		sed 's/^/# /' pan.log
		failed=1
	fi
}

echo 'TAP version 13'
echo '1..6'
check 'two writers and the kernel: exactly once, never early, never lost' 0
check 'without the second read a timer is lost, and that is found' 1 -DNO_SECOND_READ
check 'with a store for the cmpxchg an arming is lost, and that is found' 1 -DPLAIN_STORE
check 'started by a store, with the barrier later: the same' 0 -DSTARTER
check 'without that barrier a timer is lost, and that is found' 1 -DSTARTER -DNO_BARRIER
check 'nor can it do without the second read' 1 -DSTARTER -DNO_SECOND_READ
exit $failed
