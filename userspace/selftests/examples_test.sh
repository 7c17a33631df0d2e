#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The examples do what they show: each ends by itself, with status 0. TAP out.
# EXAMPLES= names the directory where they are; those of an event loop are not
# there where that was not. Those of the library run over both backends.

set -eu

examples=${EXAMPLES:-/bin}
# Those are built for this machine's programs alone.
left_out=yes
[ "$(uname -m)$examples" != x86_64/bin ] || left_out=
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/tap.sh"

# example BACKEND NAME [ARGUMENT]
example() {
	status=0
	TWHEEL_BACKEND=$1 "$examples/$2" ${3:+"$3"} >"$dir/out" 2>&1 || status=$?
	status_is 0 "$2, $1"
}

echo 'TAP version 13'
example kernel oneshot
output_has '^timer 42 expired, [0-9]+ us late$' "oneshot: its timer"
example kernel periodic
output_has '^due at [0-9]+ ms: ([3-9]|[1-9][0-9]+) period\(s\)$' "periodic: those that were missed, in one event"
output_has '^cancelled, it was ' "periodic: its end"
example kernel poll_many
output_has '^[0-9]+ timers, [0-9]+ wake-ups, one descriptor$' "poll_many: all of them"
# Stopped by Ctrl-Z, and told to go on, while it waits.
status=0
"$examples/poll_many" >"$dir/out" 2>&1 &
for _ in 1 2 3 4 5 6; do
	usleep 50000
	kill -STOP $! || break
	usleep 10000
	kill -CONT $!
done
wait $! || status=$?
status_is 0 "poll_many: interrupted"
example kernel dead_man
output_has '^exactly the silent ones were reported$' "dead_man: both of them"
for backend in kernel inprocess; do
	example $backend request_deadline
	output_has "given up; $backend wheel, [0-9]+ calls of the wheel" "request_deadline: its wheel"
	printf 'a\nb\n\na\nthe last' >"$dir/names"
	example $backend by_key 0.2 <"$dir/names"
	sort "$dir/out" >"$dir/sorted"
	printf '%s is %s\n' a here a silent b here b silent 'the last' here 'the last' silent \
		>"$dir/wanted"
	holds "by_key, $backend: each came, and fell silent, once" \
		cmp "$dir/wanted" "$dir/sorted"
	example $backend loop_epoll
	for name in loop_libevent loop_libuv loop_io_uring; do
		if [ -z "$left_out" ] || [ -e "$examples/$name" ]; then
			example $backend $name
		fi
	done
done
the_end
