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
# ends at the first, and one that was cut short says nothing.
errors()
{
	spin "$@" -a "$here/table.pml" >spin.log
	gcc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c
	./pan -m1000000 >pan.log
	if grep -q 'max search depth too small' pan.log; then
		echo 'search cut short'
	else
		sed -n 's/.*errors: //p' pan.log
	fi
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
