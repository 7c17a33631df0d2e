#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The examples do what they demonstrate: each ends by itself, with status 0. Prints TAP.
# EXAMPLES= names their directory. The example of an event loop is absent if the loop's library
# was. All but dead_man and restart, whose wheels are shared, run with both backends. BACKENDS=
# names the available backends if one is missing.

# An empty backend must expand to no word.
# shellcheck disable=SC2086

set -eu

examples=${EXAMPLES:-/bin}
# These examples are built only for this machine's own programs.
left_out=yes
[ "$(uname -m)$examples" != x86_64/bin ] || left_out=
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/../lib/tap.sh"

# example BACKEND NAME [ARGUMENT]
example() {
	status=0
	TWHEEL_BACKEND=$1 "$examples/$2" ${3:+"$3"} >"$dir/out" 2>&1 || status=$?
	status_is 0 "$2, $1"
}

# watched STATUS TEXT STEP...: runs the example on its own, which must print TEXT
watched() {
	wanted=$1 said=$2
	shift 2
	status=0
	"$examples/watched" "$@" >"$dir/out" 2>&1 || status=$?
	status_is "$wanted" "watched $*"
	holds "watched $*: prints '$said'" [ "$(cat "$dir/out")" = "$said" ]
}

echo 'TAP version 13'
backends=${BACKENDS:-kernel inprocess}
# watch_test.sh tests it with the processes that it talks to.
watched 0 '' READY=1 ping:1 sleep:1
watched 2 'watched: unknown step: nap' READY=1 nap sleep:1
NOTIFY_SOCKET=/nonexistent watched 1 'watched: notify: No such file or directory' READY=1
case $backends in
*kernel*)
	example kernel dead_man
	output_has '^exactly the silent ones were reported$' \
		"dead_man: exactly the silent processes are reported"
	sed -n 's/: silent, known [0-9]* us after its last deadline$//p' "$dir/out" | sort \
		>"$dir/silent"
	printf 'killed\nstopped\n' >"$dir/wanted"
	holds "dead_man: the names of the silent processes" cmp "$dir/wanted" "$dir/silent"
	# lib_restart_test restarts it.
	status=0
	"$examples/restart" 5 >"$dir/out" 2>"$dir/err" || status=$?
	printf '%s\n' 1 2 3 4 5 >"$dir/wanted"
	holds "restart: the deadlines in order, and nothing else" \
		cmp "$dir/wanted" "$dir/out"
	status_is 0 "restart, without a store"
	;;
esac
for backend in $backends; do
	# README.md shows this example and its output.
	example $backend first
	output_has "^timeout 42 of the $backend wheel\$" "first, $backend: its timeout expires"
	example $backend oneshot
	output_has '^timer 42 expired, [0-9]+ us late$' "oneshot, $backend: its timer expires"
	example $backend periodic
	output_has '^due at [0-9]+ ms: ([3-9]|[1-9][0-9]+) period\(s\)$' \
		"periodic, $backend: those that were missed, in one event"
	output_has '^cancelled, it was ' "periodic, $backend: its timer is canceled"
	example $backend poll_many
	output_has '^[0-9]+ timers, [0-9]+ wake-ups, one descriptor$' \
		"poll_many, $backend: its timers and descriptors"
	# Stopped by Ctrl-Z and continued while it waits.
	status=0
	TWHEEL_BACKEND=$backend "$examples/poll_many" >"$dir/out" 2>&1 &
	for _ in 1 2 3 4 5 6; do
		sleep 0.04
		kill -STOP $! 2>/dev/null || break
		sleep 0.01
		kill -CONT $!
	done
	wait $! || status=$?
	status_is 0 "poll_many, $backend: interrupted"
	example $backend request_deadline
	output_has "given up; $backend wheel, [0-9]+ calls of the wheel" \
		"request_deadline: the summary"
	printf 'a\nb\n\na\nthe last' >"$dir/names"
	example $backend by_key 0.2 <"$dir/names"
	sort "$dir/out" >"$dir/sorted"
	printf '%s is %s\n' a here a silent b here b silent 'the last' here 'the last' silent \
		>"$dir/wanted"
	holds "by_key, $backend: each came, and fell silent, once" \
		cmp "$dir/wanted" "$dir/sorted"
	example $backend dispatcher
	output_has '^first: the event of another is in this batch: yes$' \
		"dispatcher, $backend: frees another of the batch"
	output_has '^first: one is put off: yes$' \
		"dispatcher, $backend: a handler moves another timer"
	output_has '^paused: comes when it was resumed: yes$' "dispatcher, $backend: pause"
	output_has '^slack: comes, ' "dispatcher, $backend: slack"
	output_has '^5 calls, and none for a timer that was stopped or freed$' \
		"dispatcher, $backend: none that was stopped"
	example $backend threads
	output_has '^the reader has woken for the deadline of a thread that still sleeps$' \
		"threads, $backend: a deadline of another thread"
	output_has '^[1-9][0-9]* events: [0-9]+ of a moved timer and [0-9]+ of a closed connection' \
		"threads, $backend: stale events are passed over"
	output_has '^each connection ended once$' "threads, $backend: each connection ends once"
	example $backend embedded
	output_has '^125 expirations in [0-9]+ turns of the host.s loop$' \
		"embedded, $backend: all timers expire"
	output_has '^twheel_next\(\) was never too late$' \
		"embedded, $backend: twheel_next() is never too late"
	example $backend loop_epoll
	output_has '^100 connections, 500 heartbeats, [0-9]+ turns of the loop$' \
		"loop_epoll, $backend: connections expire when they fall silent"
	example $backend loop_threads
	output_has '^3 loops kicked 30 of 30 silent connections, ' \
		"loop_threads, $backend: silent connections are kicked"
	for name in loop_libevent loop_libuv loop_io_uring; do
		if [ -z "$left_out" ] || [ -e "$examples/$name" ]; then
			example $backend $name
			output_has '^1000 timers ' "$name, $backend: all timers expire"
		fi
	done
done
done_testing
