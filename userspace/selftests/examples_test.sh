#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The examples do what they show: each ends by itself, with status 0. TAP out.
# EXAMPLES= names the directory where they are; those of an event loop are not
# there where that was not. Those of the library run over both backends.

set -eu

dir=${EXAMPLES:-/bin}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
number=0
failures=0

result() {
	number=$((number + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $number $2"
		return
	fi
	failures=$((failures + 1))
	echo "not ok $number $2, status $1"
	sed 's/^/# /' "$out"
}

# example BACKEND NAME
example() {
	status=0
	TWHEEL_BACKEND=$1 "$dir/$2" >"$out" 2>&1 || status=$?
	result $status "$2, $1"
}

# What a line of the output of the last one says.
says() {
	found=0
	grep -Eq -e "$1" "$out" || found=1
	result $found "$2"
}

echo 'TAP version 13'
example kernel oneshot
says '^timer 42 expired, [0-9]+ us late$' "oneshot: its timer"
example kernel periodic
says '^due at [0-9]+ ms: ([3-9]|[1-9][0-9]+) period\(s\)$' "periodic: those that were missed, in one event"
says '^cancelled, it was ' "periodic: its end"
example kernel poll_many
says '^[0-9]+ timers, [0-9]+ wake-ups, one descriptor$' "poll_many: all of them"
example kernel dead_man
says '^exactly the silent ones were reported$' "dead_man: both of them"
for backend in kernel inprocess; do
	example $backend request_deadline
	says "given up; $backend wheel, [0-9]+ system calls" "request_deadline: its wheel"
	example $backend loop_epoll
	for name in loop_libevent loop_libuv loop_io_uring; do
		[ ! -e "$dir/$name" ] || example $backend $name
	done
done
echo "1..$number"
[ $failures -eq 0 ]
