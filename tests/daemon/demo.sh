#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Two daemons run 1,000 callbacks within 5 s, and one of them is killed in the middle.
#
#   demo.sh PROGRAM
#
# Starts a redis-server on a Unix socket in a temporary directory, two daemons and an endpoint,
# and ends them all. It needs neither root nor a network, because everything is on 127.0.0.1.
set -eu

program=$(realpath "${1:?demo.sh PROGRAM}")
here=$(dirname "$(realpath "$0")")
dir=$(mktemp -d)
started=()
daemon=()

finish() {
	local pid

	for pid in "${started[@]}"; do
		kill "$pid" 2>/dev/null || true
	done
	wait 2>/dev/null || true
	# The daemons are not waited for: they need a moment to end.
	for pid in "${daemon[@]}"; do
		while kill -0 "$pid" 2>/dev/null; do sleep 0.05; done
	done
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 1' INT TERM

wait_for() {
	local _

	for _ in $(seq 200); do
		[ -e "$1" ] && return
		sleep 0.05
	done
	echo "demo.sh: $1 did not come" >&2
	cat "$dir"/*.log >&2
	exit 1
}

for need in redis-server python3; do
	command -v $need >/dev/null || { echo "demo.sh: $need is not installed" >&2; exit 1; }
done

redis-server --port 0 --unixsocket "$dir/redis.sock" --dir "$dir" --save '' --appendonly yes \
	>"$dir/redis.log" 2>&1 &
started+=($!)
wait_for "$dir/redis.sock"

python3 "$here/../lib/sink.py" --files "$dir/port" "$dir/received" 2>"$dir/sink.log" &
started+=($!)
wait_for "$dir/port"

for n in 1 2; do
	"$program" -c /dev/null --redis="unix:$dir/redis.sock" --listen="unix:$dir/daemon$n" \
		--callback-allow=127.0.0.0/8 --lease=6s 2>"$dir/daemon$n.log" &
	started+=($!)
	daemon[n]=$!
	# The shell shall not tell that it was killed.
	disown $!
	wait_for "$dir/daemon$n"
done

echo 'a Redis, an endpoint, and two daemons run: 1,000 callbacks in 5 s ...'
python3 "$here/demo.py" send "$dir/daemon1" "http://127.0.0.1:$(cat "$dir/port")/" "$dir/sent"

# The first task is due 1 s after the last was sent.
sleep 3.5
kill -KILL "${daemon[2]}"
while kill -0 "${daemon[2]}" 2>/dev/null; do sleep 0.01; done
killed=$(date +%s%3N)
echo 'one daemon was killed. Its tasks return when their leases of 6 s are over ...'
sleep 9.5

python3 "$here/demo.py" judge "$dir/sent" "$dir/received" "$killed"
