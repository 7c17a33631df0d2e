#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# twheelctl watch as its manual page describes it: a command that falls silent is killed,
# wherever it hangs, and one that sends heartbeats is not. Prints TAP. Runs as root, with
# the kernel wheel if there is one. Cgroups are frozen only in the machine of vm/run.sh, which
# has /twheel.ko.
#
# There are no upper time limits, except that a hang of 60 s is status 143, or 137.
# shellcheck disable=SC2016 # what is in single quotes is for others to expand

set -eu

ctl=$(command -v "${TWHEELCTL:-twheelctl}")
watched=$(command -v "${EXAMPLES:-/bin}/watched")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/../lib/tap.sh"

# watches STATUS NAME ARGUMENT...: runs twheelctl watch, which must exit with STATUS.
watches() {
	wanted=$1 called=$2
	shift 2
	status=0
	timeout -k 5 60 "$ctl" watch "$@" >"$dir/out" 2>"$dir/err" </dev/null || status=$?
	status_is "$wanted" "$called"
}

error_has() {
	holds "$2" grep -Eq -e "$1" "$dir/err"
}

error_lacks() {
	is=0
	! grep -Eq -e "$1" "$dir/err" || is=1
	result $is "$2"
}

# until_holds COMMAND...: waits until the command succeeds, for at most 20 s.
until_holds() {
	tries=0
	until "$@" >/dev/null 2>&1 || [ $tries -ge 200 ]; do
		tries=$((tries + 1))
		sleep 0.1
	done
}

has_line() {
	grep -q . "$dir/$1"
}

is_gone() {
	! kill -0 "$1"
}

test_usage() {
	watches 125 "no command" --timeout=1s
	watches 125 "no timeout" -- true
	error_has '^twheelctl: watch: --timeout=DURATION is missing$' "no timeout: the error names it"
	watches 125 "unknown option" --nope -- true
	watches 125 "a timeout of nothing" --timeout=0 -- true
	watches 125 "pretimeout not below timeout" --timeout=1s --pretimeout=1s -- true
	watches 125 "no such device" --device=/nonexistent --timeout=1s -- true
	watches 0 "--help" --help
	output_has '^Usage: twheelctl watch ' "--help: synopsis"
}

test_status() {
	watches 0 "a command that succeeds" --timeout=20s true
	watches 7 "status of the command" --timeout=20s -- sh -c 'exit 7'
	watches 143 "a command that a signal ends" --timeout=20s -- sh -c 'kill -TERM $$'
	watches 134 "its own SIGABRT is no silence" --timeout=20s -- sh -c 'kill -ABRT $$'
	watches 127 "no such command" --timeout=20s -- /nonexistent/command
	error_has '^twheelctl: cannot run /nonexistent/command: ' \
		"no such command: explains the error"
	watches 126 "a command that cannot be run" --timeout=20s -- "$dir"
	watches 0 "the environment" --timeout=20s -- \
		sh -c 'echo "$WATCHDOG_USEC $((WATCHDOG_PID - $$)) ${NOTIFY_SOCKET%%0*}"'
	output_has '^20000000 0 @' "the environment: timeout, process and socket"
	TWHEEL_BACKEND=kernel_or_so watches 125 "an unknown backend" --timeout=20s -- true
	TWHEEL_BACKEND=inprocess watches 124 "without the module" --timeout=100ms -- \
		"$watched" sleep:30000
}

# Each kind of hang is detected, and ended in the expected way.
test_silence() {
	watches 124 "silent from the beginning" --timeout=200ms -- "$watched" sleep:30000
	error_has 'watched \(pid [0-9]+\) sent no message for [0-9.]+m?s: sending SIGABRT$' \
		"silent: explains the error"
	error_lacks SIGKILL "silent: SIGABRT is enough"
	watches 124 "silent after heartbeats" --timeout=300ms -- \
		"$watched" READY=1 ping:600 sleep:30000
	watches 124 "stopped" --timeout=200ms -- "$watched" READY=1 stop
	error_lacks SIGKILL "stopped: continues and handles SIGABRT"
	watches 124 "in a loop" --timeout=200ms -- "$watched" READY=1 loop
	watches 124 "blocked in the kernel" --timeout=200ms --grace=200ms -- \
		"$watched" READY=1 block
	watches 124 "deaf to SIGABRT" --timeout=200ms --grace=200ms -- \
		sh -c 'trap "echo heard" ABRT; while :; do sleep 0.05; done'
	output_has '^heard$' "deaf to SIGABRT: received it"
	error_has 'SIGKILL$' "deaf to SIGABRT: gets SIGKILL"
	error_lacks 'giving up' "deaf to SIGABRT: SIGKILL ends it"
	watches 124 "handles SIGABRT and exits" --timeout=200ms -- \
		sh -c 'trap "echo state; exit 3" ABRT; while :; do sleep 0.05; done'
	output_has '^state$' "handles SIGABRT: can dump its state"
	watches 124 "WATCHDOG=trigger" \
		--timeout=20s -- "$watched" READY=1 WATCHDOG=trigger sleep:30000
}

# If the machine stands still for a whole timeout, a live command looks silent, but not for the
# next, longer timeout.
test_life() {
	for timeout in 1 4 16; do
		status=0
		timeout 120 "$ctl" watch --timeout=${timeout}s -- \
			"$watched" READY=1 ping:${timeout}500 >"$dir/out" 2>"$dir/err" || status=$?
		[ $status -ne 0 ] || break
	done
	status_is 0 "a command that pings for longer than the timeout"
	error_lacks . "a command that pings: no message"
}

test_protocol() {
	watches 0 "--start is for the first sign" --timeout=100ms --start=20s -- \
		"$watched" sleep:400
	watches 124 "READY=1 ends the start" --timeout=100ms --start=50s -- \
		"$watched" READY=1 sleep:55000
	watches 124 "and so does WATCHDOG=1" --timeout=100ms --start=50s -- \
		"$watched" WATCHDOG=1 sleep:55000
	watches 0 "EXTEND_TIMEOUT_USEC, starting" --timeout=200ms -- \
		"$watched" EXTEND_TIMEOUT_USEC=20000000 sleep:500
	watches 0 "EXTEND_TIMEOUT_USEC never shortens" --timeout=20s -- \
		"$watched" EXTEND_TIMEOUT_USEC=100000 sleep:300
	watches 124 "EXTEND_TIMEOUT_USEC, running: does not count" --timeout=200ms -- \
		"$watched" READY=1 EXTEND_TIMEOUT_USEC=55000000 sleep:50000
	watches 0 "EXTEND_TIMEOUT_USEC, stopping" --timeout=200ms -- \
		"$watched" READY=1 STOPPING=1 EXTEND_TIMEOUT_USEC=20000000 sleep:500
	watches 124 "STOPPING=1: the end is watched" --timeout=200ms -- \
		"$watched" READY=1 STOPPING=1 sleep:50000
	watches 0 "WATCHDOG_USEC: another timeout" --timeout=200ms -- \
		"$watched" READY=1 WATCHDOG_USEC=20000000 sleep:500
	watches 0 "WATCHDOG_USEC=0: no timeout any more" --timeout=200ms -- \
		"$watched" READY=1 WATCHDOG_USEC=0 sleep:500
	watches 124 "what is not understood is no heartbeat" --timeout=300ms -- \
		"$watched" READY=1 sleep:200 STATUS=well WATCHDOG=0 READY=0 sleep:50000
	watches 124 "--pretimeout" --timeout=400ms --pretimeout=300ms -- "$watched" sleep:50000
	error_has '^twheelctl: watch: .*watched \(pid [0-9]+\) has sent no message for .*: SIGABRT follows in 300ms$' \
		"--pretimeout: warns"
	watches 0 "a message of several lines" --timeout=200ms -- "$watched" 'STATUS=up
READY=1
WATCHDOG_USEC=20000000' sleep:500
}

test_signals() {
	: >"$dir/out"
	"$ctl" watch --timeout=50s -- sh -c \
		'trap "echo one" USR1; trap "echo term; exit 5" TERM
		echo ready; while :; do sleep 0.05; done' >"$dir/out" 2>"$dir/err" &
	pid=$!
	until_holds has_line out
	kill -USR1 $pid
	until_holds grep -q one "$dir/out"
	kill -TERM $pid
	status=0
	wait $pid || status=$?
	status_is 5 "SIGTERM is passed on"
	output_has '^one$' "SIGUSR1 is passed on"

	# The whole group is killed, even if its first process has already ended.
	watches 124 "a group whose first process has ended" --timeout=300ms -- sh -c \
		'sh -c "trap : ABRT; echo \$\$; while :; do sleep 0.05; done" & wait'
	until_holds is_gone "$(cat "$dir/out")"
	holds "the other processes of the group are killed" is_gone "$(cat "$dir/out")"

	: >"$dir/out"
	"$ctl" watch --timeout=50s -- sh -c 'echo $$; exec sleep 40' >"$dir/out" 2>"$dir/err" &
	pid=$!
	until_holds has_line out
	kill -KILL $pid
	wait $pid 2>/dev/null || :
	until_holds is_gone "$(cat "$dir/out")"
	holds "the command is killed when twheelctl is killed" is_gone "$(cat "$dir/out")"
	# The parent of twheelctl may ignore SIGCHLD, which is inherited.
	status=0
	(trap '' CHLD HUP && exec "$ctl" watch --timeout=50s -- sh -c 'exit 9') || status=$?
	status_is 9 "a parent that ignores SIGCHLD"
}

# Another user can neither keep a silent command alive nor have it killed.
test_strangers() {
	: >"$dir/out"
	"$ctl" watch --timeout=3s -- sh -c \
		'echo "$NOTIFY_SOCKET"; sleep 50' >"$dir/out" 2>"$dir/err" &
	pid=$!
	until_holds has_line out
	socket=$(cat "$dir/out")
	su -s /bin/sh nobody -c "NOTIFY_SOCKET=$socket $watched WATCHDOG_USEC=0 READY=1 WATCHDOG_USEC=0"
	status=0
	wait $pid || status=$?
	status_is 124 "messages of another user do not count"
	nobody=$(id -u nobody)
	error_has ": ignored a message from pid [0-9]+, uid $nobody\$" \
		"messages of another user: the warning names the user"
	# The other user sent three messages.
	holds "messages of another user: one warning for each" \
		[ "$(grep -c 'ignored a message .*, uid [0-9]*$' "$dir/err")" -eq 3 ]
}

# A command may change its user, and have a process of that user send its heartbeats.
test_other_user() {
	watches 0 "messages of the user that the command has switched to" \
		--timeout=1s --start=20s -- \
		setpriv --reuid=65534 --clear-groups sh -c "
			$watched READY=1 WATCHDOG_USEC=20000000; sleep 2; exit 0"
	error_lacks 'ignored a message' "messages of that user: no warning"
}

test_network() {
	watches 124 "in another network namespace" --timeout=300ms -- unshare -n sleep 50
	error_has 'in another network namespace' "in another network namespace: explains the error"
	watches 124 "in the same network namespace" --timeout=300ms -- sleep 50
	error_lacks 'network namespace' "in the same network namespace: no hint about it"
}

# A supervisor of twheelctl learns about the command; here it is another twheelctl watch.
test_outer() {
	watches 0 "READY=1 is passed on" --timeout=200ms --start=30s -- \
		"$ctl" watch --timeout=30s -- "$watched" WATCHDOG_USEC=25000000 sleep:500
	watches 124 "the outer twheelctl gets READY=1, and then nothing" \
		--timeout=200ms --start=50s -- \
		"$ctl" watch --timeout=40s -- "$watched" READY=1 sleep:45000
	watches 0 "each WATCHDOG=1 is passed on" --timeout=10s -- \
		"$ctl" watch --timeout=3s -- "$watched" READY=1 ping:12000
	watches 0 "WATCHDOG_USEC= and trigger are not passed on" --timeout=20s --start=30s -- \
		sh -c "$ctl watch --timeout=20s -- $watched READY=1 WATCHDOG=trigger sleep:9000; [ \$? = 124 ]"
	NOTIFY_SOCKET=/nonexistent/socket watches 0 "a supervisor that no longer exists" \
		--timeout=20s -- \
		"$watched" READY=1
}

# The command runs as another user, and twheelctl may not kill it.
test_stuck() {
	status=0
	timeout -k 5 60 setpriv --bounding-set=-kill "$ctl" watch --timeout=100ms --grace=100ms -- \
		setpriv --reuid=65534 sleep 10 >"$dir/out" 2>"$dir/err" || status=$?
	status_is 124 "a command that SIGKILL does not end"
	error_has 'is still there after SIGKILL: giving up$' \
		"a command that SIGKILL does not end: explains the error"
}

# As in a container: no systemd, and orphans are reparented to the first process.
test_container() {
	command='for i in 1 2 3; do (sleep 0.2 &); done; sleep 0.8
		[ -z "$(grep -ls "^State:.Z" /proc/[0-9]*/status)" ] || exit 1
		kill -TERM 1; sleep 40'
	status=0
	timeout 60 unshare --pid --fork --mount --mount-proc "$ctl" watch --timeout=30s -- \
		sh -c "$command" >"$dir/out" 2>"$dir/err" || status=$?
	status_is 143 "as PID 1: reaps orphans, and SIGTERM is passed on"
	status=0
	timeout 60 unshare --pid --fork --mount --mount-proc "$ctl" watch --timeout=300ms -- \
		"$watched" READY=1 stop >"$dir/out" 2>"$dir/err" || status=$?
	status_is 124 "as PID 1: a command that is stopped"
}

# In the foreground of a terminal, the command can read from it, and afterwards the shell can.
test_terminal() {
	cat >"$dir/job" <<-END
		$ctl watch --timeout=5s -- sh -c 'read line; echo "command: \$line"'
		read line
		echo "shell: \$line"
	END
	status=0
	printf 'one\ntwo\n' | timeout 60 script -qec "sh $dir/job" "$dir/typescript" \
		>"$dir/out" 2>"$dir/err" || status=$?
	status_is 0 "in a terminal"
	output_has '^command: one' "in a terminal: the command reads from it"
	output_has '^shell: two' "in a terminal: the shell reads from it afterwards"
}

test_frozen() {
	mkdir "$dir/cgroup"
	mount -t cgroup2 none "$dir/cgroup"
	mkdir "$dir/cgroup/frozen"
	: >"$dir/out"
	"$ctl" watch --timeout=2s --grace=500ms -- sh -c "
		echo \$\$ >$dir/cgroup/frozen/cgroup.procs
		exec $watched READY=1 ping:50000" >"$dir/out" 2>"$dir/err" &
	pid=$!
	until_holds grep -q . "$dir/cgroup/frozen/cgroup.procs"
	sleep 1
	echo 1 >"$dir/cgroup/frozen/cgroup.freeze"
	status=0
	wait $pid || status=$?
	status_is 124 "frozen by its cgroup"
	error_has 'SIGKILL$' "frozen: SIGABRT cannot be handled, SIGKILL ends it"
	until_holds rmdir "$dir/cgroup/frozen"
	umount "$dir/cgroup"
	rmdir "$dir/cgroup"
}

echo 'TAP version 13'
test_usage
test_status
test_silence
test_life
test_protocol
test_signals
test_strangers
test_outer
test_network
test_container
# The machine of vm/run.sh does not have these programs.
[ -z "$(command -v script)" ] || test_terminal
if setpriv --version >"$dir/out" 2>&1; then
	test_stuck
	test_other_user
fi
[ ! -e /twheel.ko ] || test_frozen
done_testing
