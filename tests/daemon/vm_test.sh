#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The daemon with the wheel of /dev/twheel, in the machine of vm.sh. Prints TAP.

# check() calls many of these functions.
# shellcheck disable=SC2317

PATH=/daemon:$PATH
export LD_LIBRARY_PATH=/dlib
dir=/tmp
# shellcheck source=../../tests/lib/tap.sh
. /daemon/tap.sh

# ask METHOD PATH [JSON]
ask() {
	curl -s -m 30 --unix-socket /tmp/daemon -H 'Content-Type: application/json' -X "$1" \
		"http://localhost$2" ${3:+-d "$3"}
}

# answers TEXT METHOD PATH [JSON]
answers() {
	text=$1
	shift
	ask "$@" >/tmp/answer
	grep -q "$text" /tmp/answer || { sed 's/^/# /' /tmp/answer; return 1; }
}

is_ready() {
	for _ in $(seq 100); do
		curl -sf --unix-socket /tmp/daemon http://localhost/readyz >/dev/null && return
		sleep 0.1
	done
	return 1
}

token() {
	sed 's/.*"token":"\([^"]*\)".*/\1/' /tmp/answer
}

ends() {
	kill "$daemon"
	wait "$daemon"
}

echo 'TAP version 13'
redis-server --port 0 --unixsocket /tmp/redis --save '' --appendonly no --dir /tmp \
	--daemonize yes --logfile /tmp/redis.log
twheeld -c /dev/null --redis=unix:/tmp/redis --listen=unix:/tmp/daemon 2>/tmp/daemon.log &
daemon=$!
check 'the daemon reaches Redis' is_ready
check '/metrics reports a kernel wheel' answers 'wheel="kernel"' GET /metrics
check 'PUT creates a queue' answers '"mode":"pull"' PUT /v1/queues/q '{"mode":"pull"}'
check 'PUT schedules a task' answers '"result":"created"' PUT /v1/queues/q/tasks/one \
	'{"in":"700ms","payload":7}'
check 'a waiting worker gets the task when it is due' answers '"id":"one"' \
	POST /v1/queues/q/reserve '{"limit":1,"wait":"20s"}'
check 'the worker acknowledges the task' answers applied POST /v1/queues/q/ack \
	"{\"tasks\":[{\"id\":\"one\",\"token\":\"$(token)\"}]}"
check 'the acknowledged task is gone' answers not_found GET /v1/queues/q/tasks/one
check 'on SIGTERM the daemon exits with status 0' ends
kill "$(pidof redis-server)"
done_testing
