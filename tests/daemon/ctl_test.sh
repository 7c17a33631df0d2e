#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# twheelctl task, queue, schedule and worker, with their own twheeld and Redis. Needs no root.
# TWHEELCTL and TWHEELD_PROGRAM name the programs.
# shellcheck disable=SC2016 # what is in single quotes is for others to expand

set -eu

ctl=$(command -v "${TWHEELCTL:-twheelctl}")
daemon=$(command -v "${TWHEELD_PROGRAM:-twheeld}") || daemon=
if [ -z "$daemon" ] || ! command -v redis-server >/dev/null; then
	echo "1..0 # SKIP there is no twheeld or no redis-server"
	exit 0
fi
dir=$(mktemp -d)
redis_pid=
daemon_pid=
end() {
	[ -z "$daemon_pid" ] || kill "$daemon_pid" 2>/dev/null || :
	[ -z "$redis_pid" ] || kill "$redis_pid" 2>/dev/null || :
	wait
	rm -rf "$dir"
}
trap end EXIT
. "$(dirname "$0")/../lib/tap.sh"

export TWHEELD="unix:$dir/twheeld.sock"

run() {
	status=0
	timeout 60 "$ctl" "$@" >"$dir/out" 2>"$dir/err" </dev/null || status=$?
}

# run_with PROGRAM COMMAND...: runs twheelctl beside a Python server, which prints its port and
# serves one request
run_with() {
	: >"$dir/port"
	python3 "$1" >"$dir/port" 2>/dev/null &
	server=$!
	shift
	until [ -s "$dir/port" ] || ! kill -0 "$server"; do
		sleep 0.05
	done
	run "$@" --server="127.0.0.1:$(cat "$dir/port")"
	wait "$server" || :
}

start_daemon() {
	TWHEEL_BACKEND=inprocess "$daemon" -c /dev/null --redis="unix:$dir/redis.sock" \
		--listen="unix:$dir/twheeld.sock" >"$dir/log" 2>&1 &
	daemon_pid=$!
	tries=0
	until "$ctl" queue list >/dev/null 2>&1 || [ $tries -eq 100 ]; do
		tries=$((tries + 1))
		sleep 0.1
	done
}

error_has() {
	holds "$2" grep -Eq -e "$1" "$dir/err"
}

redis-server --port 0 --unixsocket "$dir/redis.sock" --save '' --dir "$dir" >/dev/null 2>&1 &
redis_pid=$!
run queue list
status_is 3 "without a daemon"
start_daemon

run queue make mail --lanes=2
status_is 0 "queue make"
output_has '^mail +push +0' "queue make prints the queue"
run queue make work --mode=pull --ahead=0
output_has '^work +pull' "queue make takes a mode"
run queue make bad --mode=both
status_is 2 "queue make with a wrong mode"
error_has 'mode: must be push or pull' "task add shows the daemon's error message"
run queue make mail --burst=200 --rate=100/1min30s --concurrency=20 --weight=3
status_is 0 "queue make changes a queue"
run queue show mail --json
output_has '"weight":3,"rate":\{"limit":100,"per":90000,"burst":200\},"concurrency":20' \
	"queue make takes a rate, a burst, a concurrency and a weight"
run queue make mail --rate=7
run queue show mail --json
output_has '"rate":\{"limit":7,"per":1000,"burst":7\},"concurrency":20' \
	"queue make: a rate without a period is of a second"
run queue make mail --ahead=2s --lane-max=9
run queue show mail --json
output_has '"ahead":2000,"lane_max":9' "queue make takes a time ahead and a maximum for the lanes"
run queue make mail --rate=none --concurrency=none --weight=1 --ahead=none --lane-max=none
run queue show mail --json
holds "queue make: none removes the limits" \
	[ -z "$(grep -E 'rate|concurrency|weight|ahead|lane_max' "$dir/out")" ]
for wrong in --rate=0 --rate=1.5 --rate=1000001 --rate=100/60 --rate=100/ --rate=/1s --rate= \
	--rate=0000000000000000000000000000001 --rate=x/1s --concurrency=0 --concurrency=no --weight=101 \
	--burst=0; do
	run queue make mail "$wrong"
	status_is 2 "queue make $wrong"
	error_has "^twheelctl: queue: ${wrong%%=*}" "queue make $wrong names the option"
done
run queue make mail --rate=100/25h
error_has 'rate\.per: ' "queue make with a period above 24h shows the words of the daemon"
for wrong in '' --rate=none; do
	run queue make mail --burst=5 ${wrong:+"$wrong"}
	error_has '^twheelctl: queue: --burst needs --rate=N$' "queue make with a burst and no rate $wrong"
done
run queue show mail --weight=2
error_has '^twheelctl: queue: show does not accept --weight$' "queue show with a weight"
run queue list
output_has '^mail ' "queue list has the queue"
run queue show work
output_has '^work +pull' "queue show"

run task add mail --id=a --in=1h --url=http://127.0.0.1:1/ --header='X-A: b'
status_is 0 "task add"
output_has '^a  scheduled  in (59m|1h)' "task add prints state and time"
run task add mail --id=a --in=1h --url=http://127.0.0.1:1/ --if-exists=fail
status_is 1 "task add with an id that exists"
run task add mail --in=1h
status_is 2 "task add without a URL"
run task add nowhere --in=1h
status_is 5 "task add to no queue"
error_has '^hint: twheelctl queue make ' "an error suggests a twheelctl command"
run task get mail a
output_has '^callback +.*"X-A":"b"' "task get prints the callback"
run task get mail none
status_is 5 "task get of an unknown task"
run task list mail
output_has '^a  scheduled' "task list has the task"
holds "task list prints nothing on standard error" [ ! -s "$dir/err" ]
run task list mail --limit=1
error_has '^hint: the list ends at --limit=1: there may be more tasks$' "a truncated task list says so"
run task list mail --state=dead
holds "task list of another state is empty" [ ! -s "$dir/out" ]
run task move mail a --in=2h
output_has '^a  scheduled  in (1h59m|2h)' "task move"
run queue forecast mail
output_has '^mail +0 +0 +1$' "queue forecast counts the task"
run task move mail a --in=30min
output_has '^a  scheduled  in (29m|30m)' "task move by a unit of systemd.time(7)"
run task move mail a --in=1800
status_is 2 "a duration without a unit"
error_has '^twheelctl: task: --in: "1800": a duration needs a unit, for example ms, s or min$' "a missing unit: the error names some"
run task move mail a --in=1.5h
output_has '^a  scheduled  in (1h29m|1h30m)' "task move by a fraction"
run task get --json mail a
output_has '^\{"id":"a",.*"first_due":[0-9]{13}' "task get prints JSON"
run task add mail --id='a/b.c@d=e+f~g' --in=1h --url=http://127.0.0.1:1/
status_is 0 "task add with all that an id may have"
run task get mail 'a/b.c@d=e+f~g'
output_has '^id +a/b\.c@d=e\+f~g' "task get escapes it in the path"
run task cancel mail 'a/b.c@d=e+f~g'
status_is 0 "task cancel escapes the id in the path"
run task get mail 'a b'
status_is 2 "an id that the daemon refuses"
run task cancel mail a --in=5s
status_is 2 "task cancel with an option of add"
error_has '^twheelctl: task: cancel does not accept --in$' "the error names the option"
run task list mail --limit=5 --url=http://127.0.0.1:1/
status_is 2 "task list with an option of add"
run task add mail --state=dead
status_is 2 "task add with an option of list"
run queue pause mail --limit=5
status_is 2 "queue pause with an option of replay"
run queue show mail --lanes=2
status_is 2 "queue show with an option of make"
run task get mail a
status_is 0 "commands with a wrong option change nothing"
run task fly
error_has '^twheelctl: task: there is no command "fly"$' "an unknown command without a queue"
run task cancel mail a
status_is 0 "task cancel"
run task cancel mail a
status_is 5 "task cancel of a canceled task"
run task fly mail a
status_is 2 "an unknown command"
run task get mail ..
status_is 2 "an invalid id"

run queue pause mail
output_has '^paused +true$' "queue pause"
run queue list
output_has '^mail .* yes$' "queue list shows the pause"
run queue resume mail --json
output_has '"paused":false' "queue resume --json"

run queue make old --mode=pull
for id in a1 a2 b1 b2; do
	run task add old --id=$id --in=1h
done
run queue purge old
status_is 2 "queue purge without a state"
error_has 'state: must be scheduled, done or dead' "queue purge without a state shows the words of the daemon"
run queue purge old --state=scheduled --prefix=a --before=2099-01-01T00:00:00Z
output_has '^removed +2$' "queue purge removes tasks by a prefix"
run queue purge old --state=scheduled --before=2020-01-01T00:00:00Z
output_has '^removed +0$' "queue purge removes tasks by their time"
run queue remove old
status_is 1 "queue remove of a queue with tasks"
error_has 'queue: the queue has tasks' "queue remove says that the queue has tasks"
run queue remove old --state=dead
error_has '^twheelctl: queue: remove does not accept --state$' "queue remove with an option of purge"
run queue purge old --state=scheduled --purge
error_has '^twheelctl: queue: purge does not accept --purge$' "queue purge with an option of remove"
run queue remove old --purge
output_has '^removed +2$' "queue remove --purge removes the tasks and the queue"
run queue show old
status_is 5 "queue show of a queue that was removed"

run schedule add mail report --cron='30 2 * * mon-fri' --tz=Europe/Berlin \
	--url=http://127.0.0.1:1/ --header='X-A: b' --payload='{"n":1}' --overlap=skip --jitter=1min
status_is 0 "schedule add"
output_has '^report  30 2 \* \* mon-fri  Europe/Berlin  in .*  0 runs$' \
	"schedule add prints the schedule"
run schedule add mail report --cron='61 * * * *' --url=http://127.0.0.1:1/
status_is 2 "schedule add with a wrong calendar"
error_has 'cron: the minute must be from 0 to 59' "schedule add shows the daemon's error message"
run schedule add mail tick --every=1h --start=2099-01-01T00:00:00Z --end=2099-01-01T03:00:00Z \
	--max=3 --missed=all --missed-limit=5 --url=http://127.0.0.1:1/ --disabled
output_has '^tick  every 1h  disabled  0 runs$' "schedule add --disabled"
run schedule list mail
output_has '^report  .* runs$' "schedule list has the first schedule"
output_has '^tick  .* runs$' "schedule list has the second schedule"
run schedule list --json mail
output_has '^\{.*"missed_limit":5' "schedule list prints JSON"
holds "schedule list prints one line of JSON for each schedule" [ "$(wc -l <"$dir/out")" -eq 2 ]
redis-cli -s "$dir/redis.sock" HSET tw:schedules mail/later '10 ' >/dev/null
run schedule list mail
error_has '^hint: schedules that a newer twheeld stored, and that are not listed: 1$' \
	"schedule list counts the schedules that only a newer twheeld can read"
redis-cli -s "$dir/redis.sock" HDEL tw:schedules mail/later >/dev/null
run schedule show mail report
output_has '^cron +30 2 \* \* mon-fri$' "schedule show prints the fields"
output_has '^task +.*"X-A":"b"' "schedule show prints what a run does"
run schedule next mail tick
holds "a disabled schedule has no next run" [ ! -s "$dir/out" ]
error_has '^hint: the schedule is disabled, or no run is left$' "schedule next explains it"
run schedule enable mail tick
output_has '^tick  every 1h  in [0-9]' "schedule enable"
run schedule next mail tick
output_has '^tick:4070908800000  2099-01-01T00:00:00Z  in ' "schedule next prints id and time"
holds "schedule next prints all runs" [ "$(wc -l <"$dir/out")" -eq 3 ]
run schedule next mail tick --limit=2 --json
output_has '^\{"id":"tick:4070908800000","at":4070908800000,"due":4070908800000\}' \
	"schedule next prints JSON"
holds "schedule next obeys --limit" [ "$(wc -l <"$dir/out")" -eq 2 ]
run schedule run mail tick
output_has '^tick:[0-9]{13}  scheduled$' "schedule run prints the task"
run schedule disable mail tick
output_has '^tick  every 1h  disabled' "schedule disable"
run schedule remove mail tick
output_has '^tick  removed$' "schedule remove"
run schedule show mail tick
status_is 5 "schedule show of a removed schedule"
run schedule remove mail report
run schedule list mail
holds "schedule list is empty at the end" [ ! -s "$dir/out" ]
run schedule next mail tick --cron='* * * * *'
error_has '^twheelctl: schedule: next does not accept --cron$' "schedule next with an option of add"
run schedule list mail tick
error_has 'unknown argument tick$' "schedule list with a name"
run schedule show mail
error_has 'the name is missing$' "schedule show without a name"

for option in --id= --at= --method= --if-exists= '--header=X: '; do
	run task add mail "$option$(printf '\377')" --url=http://127.0.0.1:1/
	error_has ': not UTF-8$' "task add with $option of another encoding"
done
run task add mail --url=http://127.0.0.1:1/ --header='X: 1' --header='X: 2'
error_has 'the header X is given twice$' "task add refuses a header that is given twice"
run task add work --id=digits --in=1h --payload=0.30000000000000004
run task get --json work digits
output_has '"payload":0.30000000000000004,' "task get has all digits of a number"
run task add work --id=digits --payload=0.1
run worker -n 1 --wait=10s work -- cat
output_has '^0.1$' "worker gives a number no more digits than it needs"
run task add work --payload='{"a":1,"a":2}'
status_is 2 "task add with a field that stands twice"
printf '1\0x' >"$dir/payload"
status=0
"$ctl" task add work --payload=- <"$dir/payload" >"$dir/out" 2>"$dir/err" || status=$?
status_is 2 "task add with a NUL in its payload"
run task add work --id=odd --payload='"a\u001b[31m\u009bm"'
run task get work odd
output_has '^payload +"a\\u001B\[31m\\u009Bm"$' "task get escapes control characters"
run task cancel work odd

cat >"$dir/partial.py" <<'END'
import http.server, sys
class Partial(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        counts = '"mode":"pull","lanes":4,"scheduled":7,"leased":0,"dead":0'
        body = '{"queues":[{"queue":"a",%s},{"queue":"b",%s,"missing_lanes":3}]}' % (counts, counts)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())
with http.server.HTTPServer(("127.0.0.1", 0), Partial) as server:
    print(server.server_port, flush=True)
    server.handle_request()
END
run_with "$dir/partial.py" queue list
output_has '^b +pull +7 ' "queue list of a cluster that is partly down"
holds "queue list names the queues that lack lanes, and no others" grep -qxF \
	"hint: queue b: 3 of its 4 lanes do not answer, and are not counted" "$dir/err"
holds "queue list prints that in one line" [ "$(wc -l <"$dir/err")" -eq 1 ]

cat >"$dir/other.py" <<'END'
import http.server
class Other(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"hello")
with http.server.HTTPServer(("127.0.0.1", 0), Other) as server:
    print(server.server_port, flush=True)
    server.handle_request()
END
run_with "$dir/other.py" task list mail
status_is 3 "another server that answers 200 is not taken for twheeld"

run task add work --id=w0 --in=1h
run task run work w0
output_has '^w0  scheduled' "task run"
run worker -n 1 --wait=10s work -- true
status_is 0 "task run makes the task due"
run task add work --id=w1 --payload='{"n":[1,0.5]}'
run worker -n 1 --wait=10s work -- ./no-such-command
status_is 127 "worker without a command"
error_has '^twheelctl: cannot run .*: No such file' "worker reports a command that is missing"
run worker work -n 1 -- true
status_is 2 "worker with an option behind the queue"
run worker -n 1 --wait=10s work -- sh -c 'cat; echo " $TWHEEL_TASK $TWHEEL_ATTEMPT"'
output_has '^\{"n":\[1,0.5\]\} w1 1$' \
	"a worker without its command gives the task back, without an attempt"
run task add work --id=w2 --payload='{"n":[1,0.5]}'
run worker -n 1 --wait=10s work -- sh -c 'cat; echo " $TWHEEL_TASK $TWHEEL_ATTEMPT $TWHEEL_KEY"'
status_is 0 "worker"
output_has '^\{"n":\[1,0.5\]\} w2 1 work/w2/[0-9]+/[0-9]+$' \
	"worker passes payload and environment to the command"
run task get work w2
status_is 5 "worker acknowledges the task"
run task add work --id=w3
run worker -n 1 --wait=10s --json work -- sh -c 'exit 65'
output_has '"report":"nack","end":"exit status 65","taken":true' "worker reports a dead task"
run task list work --state=dead
output_has '^w3  dead .*exit status 65' "task list shows the dead task with its reason"
run queue replay work --limit=5
output_has '^replayed +1$' "queue replay"
run worker -n 1 --wait=10s --json work -- sh -c 'exit 65'
run task replay work w3
status_is 0 "task replay"
run worker -n 1 --wait=10s --json work -- sh -c 'exit 75'
run task get work w3
output_has '^state +scheduled' "exit status 75 has the task repeated"
run task cancel work w3
run task add work --id=w4
run worker -n 1 --wait=10s --lease=1s --json work -- sleep 3
output_has '"report":"ack".*"taken":true' "worker renews the lease of a long task"
run task add work --id=w7
run worker -n 1 --wait=10s work -- sh -c '"$0" task cancel work w7 2>&1' "$ctl"
output_has '^w7  leased' "task cancel of a running task shows its state"
output_has '^hint: if an attempt is running, it is the last one$' "task cancel explains it"
run task add work --id=w5
# The task is created again while it runs, so the first report is stale.
run worker -n 2 --wait=10s --json work -- sh -c \
	'[ "$TWHEEL_TASK" = w6 ] || { "$0" task add work --id=w5 --in=1h; "$0" task add work --id=w6; }' \
	"$ctl"
status_is 0 "worker goes on after a stale report"
output_has '"id":"w5","report":"ack",.*"taken":false' \
	"worker prints that its report was not accepted"
output_has '"id":"w6","report":"ack",.*"taken":true' "worker runs the next task after that"
# twheeld is away when the command ends, and returns before the lease ends.
run task add work --id=w7
"$ctl" worker -n 1 --wait=10s --lease=20s --json work -- \
	sh -c 'echo run >>"$0"; sleep 1' "$dir/runs" >"$dir/out" 2>"$dir/err" &
worker=$!
tries=0
until [ -s "$dir/runs" ] || [ $tries -eq 100 ]; do
	tries=$((tries + 1))
	sleep 0.1
done
kill -9 "$daemon_pid"
wait "$daemon_pid" || :
sleep 2
start_daemon
status=0
wait "$worker" || status=$?
status_is 0 "worker outlives a restart of twheeld"
output_has '"id":"w7","report":"ack",.*"taken":true' \
	"worker repeats its report while the lease lasts"
run task get work w7
status_is 5 "the task is acknowledged after the restart"
"$ctl" worker --wait=30s work -- true >"$dir/out" 2>"$dir/err" &
worker=$!
sleep 1
kill "$worker"
status=0
wait "$worker" || status=$?
status_is 0 "worker ends on SIGTERM while it waits"
done_testing
