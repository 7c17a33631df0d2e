#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# A small run of the example behind make demo. The example judges itself, and this test checks
# that it has something to judge. Prints one line of TAP per assertion.

set -eu

server=${IDLE_SERVER:-idle_server}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
. "$(dirname "$0")/../lib/tap.sh"

run() {
	status=0
	timeout 90 "$server" "$@" >"$dir/out" 2>"$dir/err" || status=$?
}

# counted WHAT: prints how often the tracer saw it.
counted() {
	sed -n "s/^counted:.* \([0-9]*\) $1\(,.*\)*\$/\1/p" "$dir/out" | grep . || echo 0
}

# told WHAT: prints the server's number for it, from the lines at the end.
told() {
	sed -n "s/^server:.* \([0-9]*\) $1.*/\1/p" "$dir/out"
}

# equal NUMBER NUMBER NAME: passes if the numbers are equal.
equal() {
	holds "$3: $1, $2" [ "$1" = "$2" ]
}

# On a machine that stands still for a whole timeout, connections seem to fall silent. That
# does not happen each time, nor for longer, so a faulty server is found all the same.
demo() {
	backend=$1
	for timeout in 1s 2s 4s; do
		TWHEEL_BACKEND=$backend run --demo --emulated --count --connections 100 \
			--timeout $timeout
		[ "$status" -ne 0 ] || break
	done
	status_is 0 "$backend: demo"
	output_has '^PASS: ' "$backend: verdict"
	output_has "^backend: $backend\$" "$backend: backend"
	output_has '^ +[1-9][0-9]* s  open +[1-9][0-9]*  heartbeats +[1-9][0-9]*  kicked +[0-9]+$' \
		"$backend: progress"
	output_has '^clients: 40 fell silent, 40 of them were kicked; 0 kicked early$' \
		"$backend: the silent connections were kicked"
	output_has '^server: 100 accepted, [0-9]+ kicked$' "$backend: the server's numbers"
	output_has '^\(the processor is emulated' "$backend: the warning about emulated times"
	kicked=$(sed -n 's/^server: .*, \([0-9]*\) kicked$/\1/p' "$dir/out")
	held_up=$(sed -n 's/^clients: \([0-9]*\) could not send.*/\1/p' "$dir/out")
	equal "$kicked" $((40 + ${held_up:-0})) \
		"$backend: only silent connections and those that the machine held up were kicked"
	equal "$(sed -n 's/^  from .* ms *\([0-9]*\) #*$/\1/p' "$dir/out" |
		awk '{ n += $1 } END { print n }')" "$kicked" "$backend: the histogram counts each kick"
	seconds=$(grep -c '^ *[0-9]* s  open' "$dir/out")
	equal "$(told events)" $((kicked + seconds)) \
		"$backend: one event for each kick and each line of progress"

	# A kick is needed for a deadline before all others: that of the next progress line, or
	# of a connection that comes when nothing is armed. Moving a timer needs no system
	# call.
	holds "$backend: no move needs a kick" [ "$(told 'for earlier')" -le $((seconds + 2)) ]
	equal "$(told 'for 64')" 2 "$backend: one refill for 64 timers"
	holds "$backend: at most one call for each turn" \
		[ "$(told "$2")" -le "$(told times)" ]
	holds "$backend: moves" [ "$(told heartbeats)" -gt 500 ]
	equal "$(told "$2")" \
		$(($(told 'for earlier') + $(told 'for 64') + $(told 'to withdraw'))) \
		"$backend: the sum of the calls"
}

demo kernel 'system calls'
# The same, counted from outside. Opening and the final report happen once.
equal "$(told 'for earlier')" "$(counted KICK)" "counted: kicks"
equal "$(told 'for 64')" "$(counted BATCH)" "counted: refills"
equal "$(told 'to withdraw')" "$(counted REARM)" "counted: withdrawals"
equal "$(told 'reads')" "$(counted reads)" "counted: reads"
output_has '^counted: 1 SETUP, 1 INFO, 1 REGISTER,( [0-9]+ REARM,)? 2 BATCH, [0-9]+ KICK, 1 STATS, [0-9]+ reads, 0 timerfd_settime$' \
	"counted: nothing else"

demo inprocess 'calls of the wheel'
output_has '^counted: 0 reads, [1-9][0-9]* timerfd_settime$' "counted: no device"

# Without the demo: a connection that sends something stays open longer.
"$server" --port 7701 --timeout 3s --connections 1 >"$dir/out" 2>"$dir/err" &
pid=$!
tries=0
while ! grep -q listening "$dir/out" && [ $tries -lt 300 ]; do
	tries=$((tries + 1))
	sleep 0.1
done
output_has '^listening on 127\.0\.0\.1:7701, backend: kernel$' \
	"server: listens where it was told"
# One connection closes, and the next one gets its descriptor, but not its timeout.
echo bye | nc 127.0.0.1 7701 >/dev/null
read -r before _ </proc/uptime
(
	sleep 1
	echo one
	sleep 1
	echo two
	sleep 30
) | nc 127.0.0.1 7701 >/dev/null &
tries=0
while ! grep -q kicked "$dir/out" && [ $tries -lt 300 ]; do
	tries=$((tries + 1))
	sleep 0.1
done
read -r after _ </proc/uptime
output_has '^kicked connection [0-9]+, [0-9.]+ ms late, 0 open$' "server: kicks a silent connection"
holds "server: a connection that sent something stayed longer" \
	awk -v after="$after" -v before="$before" 'BEGIN { exit !(after - before >= 4.98) }'
kill $pid
wait $pid 2>/dev/null || true

run --help
status_is 0 "--help"
for wrong in --frobnicate --port=0 --port=65536 --port=x --timeout=0s --timeout=5 --timeout=5y \
	--connections=0 --emulated --count extra; do
	run $wrong
	status_is 2 "$wrong"
done

done_testing
