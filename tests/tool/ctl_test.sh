#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# twheelctl as its manual page describes it: each verb, each exit status, and the output for
# people and for programs. Runs as root on a machine with /dev/twheel. Tests that change the
# machine (the module, /lib/modules, /etc/group) run only in the machine of vm/run.sh, which
# has /twheel.ko.
#
# Prints one line of TAP per assertion. There are no upper time limits, which belong to benchmarks.
# shellcheck disable=SC2016 # what is in single quotes is for others to expand

set -eu

ctl=$(command -v "${TWHEELCTL:-twheelctl}")
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
chmod 755 "$dir"
. "$(dirname "$0")/../lib/tap.sh"

# Runs twheelctl with these arguments. If it hangs, the status is 143.
run() {
	status=0
	timeout 60 "$ctl" "$@" >"$dir/out" 2>"$dir/err" </dev/null || status=$?
}

# runs STATUS NAME ARGUMENT...: runs twheelctl, which must exit with STATUS.
runs() {
	wanted=$1 called=$2
	shift 2
	run "$@"
	status_is "$wanted" "$called"
}

# Like run, with the commands on stdin.
run_shell() {
	status=0
	timeout 60 "$ctl" shell "$@" >"$dir/out" 2>"$dir/err" || status=$?
}

# Starts twheelctl in the background and waits until it has printed something.
start() {
	: >"$dir/out"
	"$ctl" "$@" >"$dir/out" 2>"$dir/err" &
	pid=$!
	wait_for .
}

# Waits for a line like this in the output, for at most 20 s.
wait_for() {
	tries=0
	while ! grep -Eq -e "$1" "$dir/out" && [ $tries -lt 200 ]; do
		tries=$((tries + 1))
		usleep 100000
	done
}

stop() {
	kill "$1" $pid
	status=0
	wait $pid 2>/dev/null || status=$?
}

output_is() {
	holds "$2" [ "$(cat "$dir/out")" = "$1" ]
}

output_lacks() {
	holds "$2" [ "$(grep -Ec -e "$1" "$dir/out")" -eq 0 ]
}

# answers_are NAME: apart from ids and times, the output equals stdin.
answers_are() {
	sed -E -e 's/0x[0-9a-f]+/ID/' -e 's/[0-9]+\.[0-9]{9}/T/g' -e 's/[-+][0-9.]+[mun]?s/LATE/' \
		"$dir/out" >"$dir/words"
	mv "$dir/words" "$dir/out"
	output_is "$(cat)" "$1"
}

error_lacks() {
	holds "$2" [ "$(grep -Ec -e "$1" "$dir/err")" -eq 0 ]
}

error_has() {
	holds "$2" grep -Eq -e "$1" "$dir/err"
}

lines_are() {
	holds "$2" [ "$(wc -l <"$dir/out")" -eq "$1" ]
}

# awk_holds PROGRAM NAME: PROGRAM reads the output and exits with 0.
awk_holds() {
	holds "$2" awk "$1" "$dir/out"
}

# Checks that each line of the output is a JSON object with the schema number. Complete values
# are replaced by a letter until only one letter is left.
json_is_valid() {
	awk_holds '
		!/^\{"schema":2,"type":"[a-z]+"[,}]/ { bad = 1 }
		{
			gsub(/"([^"\\]|\\.)*"/, "S")
			gsub(/-?(0|[1-9][0-9]*)/, "V")
			gsub(/true|false|null/, "V")
			do {
				n = gsub(/\{(S:[SV](,S:[SV])*)?\}/, "V")
				n += gsub(/\[([SV](,[SV])*)?\]/, "V")
			} while (n)
			if ($0 != "V")
				bad = 1
		}
		END { exit bad || !NR }' "$1: valid JSON"
}

# json_has NAME KEY...: the first line has all of these keys.
json_has() {
	name=$1
	shift
	is=0
	for key in "$@"; do
		head -n 1 "$dir/out" | grep -q "\"$key\":" || is=1
	done
	result $is "$name: has $*"
}

# json_is NAME KEY...: the output is valid JSON, and has these keys.
json_is() {
	json_is_valid "$1"
	json_has "$@"
}

# Prints the value of a key, from the last line that has it.
json_value() {
	sed -n "s/.*\"$1\":\"\{0,1\}\([^,\"}]*\).*/\1/p" "$dir/out" | tail -n 1
}

value_is() {
	holds "$3" [ "$(json_value "$1")" = "$2" ]
}

# Prints the hundredths of a second since boot.
uptime_cs() {
	read -r up _ </proc/uptime
	echo "${up%.*}${up#*.}"
}

# takes CS NAME COMMAND...: the command takes at least CS hundredths of a second.
takes() {
	least=$1 timed=$2
	shift 2
	before=$(uptime_cs)
	"$@"
	after=$(uptime_cs)
	holds "$timed" [ $((after - before)) -ge "$least" ]
}

# Each line of stdin has an exit status, a command line, and the expected error message.
refusals() {
	while IFS='|' read -r want line said; do
		# shellcheck disable=SC2086
		runs "$want" "$line" $line
		error_has "${said:-^twheelctl: }" "$line: explains the error"
	done
}

test_front() {
	runs 2 "no verb"
	error_has '^Usage: twheelctl' "no verb: usage on stderr"
	runs 0 "--help" --help
	output_has 'only as long as its wheel is open' "--help: says how long a timer lives"
	runs 0 "--version" --version
	output_has '^twheelctl [0-9]+\.[0-9]+\.[0-9]+$' "--version: name and number"
	run -V
	output_has '^twheelctl [0-9]' "-V: name and number"
	runs 0 "help" help
	output_has '^Usage: twheelctl VERB' "help: what --help says"
	runs 0 "help --help" help --help
	runs 0 "help of a verb" help stat
	output_has '^Usage: twheelctl stat' "help of a verb: what its --help says"
	runs 2 "help of an unknown verb" help frobnicate

	for verb in info doctor after monitor shell stat wheel; do
		runs 0 "$verb --help" $verb --help
		output_has "^Usage: twheelctl $verb" "$verb --help: synopsis"
		output_has 'only as long as its wheel is open' \
			"$verb --help: says how long a timer lives"
		runs 2 "$verb: unknown option" $verb --frobnicate
		error_has "^twheelctl: $verb: unknown option --frobnicate" \
			"$verb: unknown option is named"
		error_has "^hint: twheelctl $verb --help" "$verb: unknown option: hint"
		runs 2 "$verb: missing argument" $verb --clock
		run $verb --help
		awk_holds '{ if (length($0) > 80) exit bad = 1 } END { exit bad }' \
			"$verb --help: fits 80 columns"
	done

	status=0
	"$ctl" info >/dev/full 2>"$dir/err" || status=$?
	status_is 1 "output that cannot be written"
	for line in "monitor --add 10ms,periodic" "stat 100ms" "wheel --interval=50ms" "info --help"; do
		status=0
		# shellcheck disable=SC2086
		timeout 60 "$ctl" $line >/dev/full 2>"$dir/err" </dev/null || status=$?
		status_is 1 "$line: output that cannot be written"
		error_has "^twheelctl: cannot write: " "$line: explains the error"
	done

	negative='^twheelctl: .*-[0-9.s]+"?: a duration cannot be negative$'
	refusals <<-END
		2|frobnicate|^twheelctl: .*frobnicate
		2|--frobnicate|^twheelctl: .*frobnicate
		2|help info x|^twheelctl: info: help accepts one verb$
		2|after -x|^twheelctl: after: unknown option -x$
		2|after -5|$negative
		2|after -5s|$negative
		2|after -0.5|$negative
		2|after -.5s|$negative
		2|after -- -5|$negative
		2|monitor --add -5s|$negative
		2|monitor --add 1s,period=-5|$negative
		2|monitor --add 1s --idle-timeout=-5|$negative
		2|stat 1s -1|^twheelctl: stat: -1: an interval or a count cannot be negative$
		2|info -5|^twheelctl: info: unknown option -5$
		2|monitor --add 5s -qx|^twheelctl: monitor: unknown option -x$
		2|info --json=1|^twheelctl: info: --json takes no argument$
		2|--clock|^twheelctl: --clock needs an argument$
		2|--|^twheelctl: there is no verb
		2|-|^twheelctl: there is no verb
		3|--device=/nonexistent info|^twheelctl: cannot open /nonexistent:
	END
	for line in "-n 3 monitor" "--json -xj monitor" "--add=1s monitor" "--json=1 info"; do
		# shellcheck disable=SC2086
		runs 2 "$line" $line
		error_has '^twheelctl: unknown option before the verb: --?(n|x|add=1s|json=1)$' \
			"$line: the error names the option"
		error_has '^hint: the options of a verb follow it' "$line: hint"
	done
	for line in "--json --clock=tai info --tick=1us" "-j --clock tai info --tick 1us" \
		"--tick=1s -j info --clock=tai --tick=1us"; do
		# shellcheck disable=SC2086
		run $line
		value_is clock tai "$line: options before the verb"
		value_is tick_ns 512 "$line: options after the verb"
	done
	run --json after 1ms -- echo --json
	output_is --json "options before the verb are not those of a command"
	run --json help info
	output_has '^Usage: twheelctl info' "an option before help"
	runs 0 "help help" help help
	output_has '^ +-V, --version' "help help: the overview, with the version"
}

test_info() {
	runs 0 "info" info
	output_has '^clock +monotonic$' "info: default clock"
	output_has '^tick +524\.288us' "info: default tick"
	output_has '^levels +8 of 64 buckets' "info: default levels"
	run info --json
	json_is "info --json" backend device module_version clock tick_ns min_tick_ns levels \
		slot_bits horizon_ns max_timers table_bytes features
	value_is backend kernel "info: the backend"
	value_is module_version "$(cat /sys/module/twheel/version)" "info: version of the module"

	for clock in monotonic boottime realtime tai; do
		run info --json --clock=$clock
		value_is clock $clock "info --clock=$clock"
	done
	run info --json --tick 1ms --levels 3 --slot-bits 9 --max-timers 77
	value_is tick_ns 524288 "--tick is rounded down to a power of two"
	value_is levels 3 "--levels"
	value_is slot_bits 9 "--slot-bits"
	value_is max_timers 77 "--max-timers"
	value_is horizon_ns $((524288 << 27)) "horizon of that shape"
	run info --json --tick 2ms
	value_is tick_ns 1048576 "--tick=2ms"
	run info --json --tick 5s
	value_is tick_ns 4294967296 "--tick=5s"
	runs 2 "info with an argument" info extra
}

# Wrong shapes and values. Values that the device refuses are wrong usage too.
test_usage() {
	sed 's/^/2|/' >"$dir/rows" <<-END
		info --clock=sundial
		info --tick=0
		info --tick=1parsec
		info --levels=0
		info --levels=17
		info --levels=abc
		info --levels=-1
		info --levels=3x
		info --slot-bits=3
		info --slot-bits=17
		info --max-timers=0
		info --max-timers=4294967296
		info --max-timers=16777217
		after|^twheelctl: after: the DURATION is missing$
		after nonsense|^twheelctl: after: "nonsense": not a duration \(try 250ms, 5s, 1h30m\)$
		after 1s,periodic|^twheelctl: after: takes one timer that expires once, not "1s,periodic"$
		after 1s,period=1s|^twheelctl: after: takes one timer that expires once, not "1s,period=1s"$
		after 1s,count=2|^twheelctl: after: takes one timer that expires once, not "1s,count=2"$
		after idle|^twheelctl: after: takes one timer that expires once, not "idle"$
		after 1s --|^twheelctl: after: there is no command after --$
		after 1s --json|^twheelctl: after: --json: options come before the DURATION, a command after --$
		after 1s -x -- true|^twheelctl: after: -x: options come before the DURATION, a command after --$
		monitor
		monitor --add
		monitor --add 1s extra
		monitor --add 1s,
		monitor --add 1s,sometimes
		monitor --add 1s,period=
		monitor --add 1s,period=1ns
		monitor --add 1s,slack=x
		monitor --add 1s,count=0
		monitor --add 1s,count=10000,label=abcdefghijklmnopqrs
		monitor --add 1s,label=a --add 2s,label=a
		monitor --add 1s,label=a,count=2 --add 2s,label=a,count=3
		monitor --add 1s,label=a,count=12 --add 2s,label=a-12
		monitor --add 1s,label=a-9 --add 2s,label=a,count=12
		monitor --add 1s,count=16777217
		monitor --add 1s,count=1x
		monitor --add 1s,label=
		monitor --add 1s,label=1a
		monitor --add 1s,label=t1
		monitor --add 1s,label=a"b
		monitor --add 1s,label=abcdefghijklmnopqrstuvwx
		monitor --add @1,periodic
		monitor --add 0,periodic
		monitor --add idle,periodic
		monitor --add 1s -n 0
		monitor --add 1s -n -1
		monitor --add 1s -n 2x
		monitor --add 1s -F %n --json
		monitor --add 1s -F %z
		monitor --add 1s -F %
		monitor --add 1s --idle-timeout forever
		shell extra
		shell -F %z
		shell -F %n --json
		stat 0
		info --tick=5|^twheelctl: info: --tick: "5": a duration needs a unit, for example ms, s or min$
		after 1|^twheelctl: after: "1": a duration needs a unit, for example ms, s or min$
		after @1s
		monitor --add 1.5
		monitor --add 1s,period=2
		monitor --add 1s,slack=2
		monitor --add 1s --idle-timeout 10
		stat 1
		stat 1s 0
		stat 1s x
		stat 1s 2 3
		wheel --interval=1
		stat 25h
		stat --add x
		wheel extra
		wheel --random=0
		wheel --interval=0
	END
	refusals <"$dir/rows"
	run info --slot-bits=17
	error_has ' from 4 to 12, not "17"$' "info --slot-bits=17: the range"
	runs 2 "an empty timer" monitor --add=
	run monitor --add 1s,period=1ns
	error_has '^hint: a period is at least one tick \(524.288us\)' "too short a period: hint"
	run info --max-timers=16777217
	error_has '^hint: max_timers_limit.* 16777216' "too many timers: hint"
	# Names that look alike, but differ.
	run monitor -F %n --add 1ms,label=abcdefghijklmn-1,count=2 \
		--add 2ms,label=abcdefghijklmn-2,count=2 --add 3ms,label=a,count=12 \
		--add 4ms,label=a-13 --add 5ms,label=a-01 --add 6ms,label=a-1-1
	status_is 0 "names that differ"
	awk_holds '{ n += !seen[$0]++ } END { exit n != 19 || NR != 19 }' \
		"names that differ: each timer expires once"
}

# A duration and its value in ns, or "-" if it is invalid. The daemon's units_test has more of
# them, for the same parser.
test_durations() {
	while read -r text ns; do
		run after --json --clock=realtime "@1,slack=$text"
		if [ "$ns" = - ]; then
			status_is 2 "duration $text is refused"
			continue
		fi
		echo "add 200d,slack=$text" | run_shell --json
		value_is slack_ns "$ns" "duration $text is $ns ns"
	done <<-END
		0 0
		250 -
		1ns 1
		7µs 7000
		1h30m 5400000000000
		1.5s 1500000000
		18446744073709551615ns 18446744073709551615
		213504d -
		5x -
		-5s -
	END
	# 2^53 and 2^53 + 1, which a reader that uses doubles would not distinguish.
	printf 'add @9007199.254740992\nadd @9007199.254740993\n' | run_shell --json
	output_has '"deadline_ns":9007199254740992,' "JSON: a number that a double has"
	output_has '"deadline_ns":"9007199254740993",' "JSON: beyond 2^53 it is a string"
	echo 'add @4000000000.5' | run_shell --json
	value_is deadline_ns 4000000000500000000 "a deadline with @ is in seconds"
	echo 'add @3600000000' | run_shell --json
	value_is deadline_ns 3600000000000000000 "a deadline with @ may be a century away"
	echo 'add idle,period=2s' | run_shell --json
	value_is period_ns 2000000000 "period="
	echo 'sleep 1s' >"$dir/script"
	takes 99 "sleep of the shell" run_shell <"$dir/script"
	takes 99 "after waits" run after 1s -- true
	run monitor --add '1ms,slack=1min 30s' --json
	status_is 0 "a duration may have blanks, as systemd.time(7) has it"
	run monitor --help
	output_has '^It needs a unit: ns' "--help says that a duration needs a unit"
}

test_after() {
	takes 29 "after 300ms takes that long" run after 300ms
	status_is 0 "after"
	output_has '^[0-9]+\.[0-9]{9}  after +\+' "after: prints the expiration"

	run after 1ms,label=tea
	output_has '^[0-9]+\.[0-9]{9}  tea +\+[0-9.]+[mun]?s$' \
		"after: prints the label and the lateness"

	takes 29 "after: the command runs afterwards" run after 300ms -- sh -c 'echo "$0 $1"; exit 7' one -x
	status_is 7 "after: status of the command"
	output_is "one -x" "after: the command's output and nothing else"
	run after 1ms echo -n hello
	output_is "hello" "after: without --"
	run after 1ms -- sh -c 'ls -l /proc/self/fd'
	output_lacks twheel "after: the command does not inherit the wheel"
	runs 127 "after: no such command" after 1ms -- /nonexistent/command
	error_has '^twheelctl: cannot run /nonexistent/command: No such file or directory$' \
		"after: no such command: explains the error"
	runs 126 "after: a command that cannot be run" after 1ms -- "$dir"
	error_has '^twheelctl: cannot run /.*: Permission denied$' \
		"after: a command that cannot be run: explains the error"
	runs 0 "after a moment in the past" after --clock=realtime @1
	output_has '^[0-9.]+  after         due when armed$' "a moment in the past: is not late"
	run after --json --clock=realtime @1
	value_is lateness_ns null "a moment in the past: JSON"
	json_is_valid "after --json, of a moment in the past"
	run after 0
	output_has '  due when armed$' "after 0: is not late"
	run monitor -F '%l %L' --add @1
	output_is "- -" "monitor -F: what was due when armed"
	run monitor -F %L --add @1,period=50ms -n 3
	awk_holds '($0 == "-") != (NR == 1) { bad = 1 } END { exit bad || NR != 3 }' \
		"monitor: the next expirations of a periodic timer can be late"
	# The wheel counts the same lateness as is printed.
	printf '%s\n' 'add @1,period=1h' 'wait 1' 'cancel t1' 'add 1ms' wait 'add @1' wait \
		'add 1h,label=x' 'rearm x @1' wait stats | run_shell --json
	holds "shell: timers that were due when armed are not late" \
		[ "$(sed -n 's/.*"lateness_ns":\([0-9a-z]*\).*/\1/p' "$dir/out" | grep -c null)" -eq 3 ]
	awk_holds '
		match($0, /"(worst_)?lateness_ns":[0-9]+/) {
			split(substr($0, RSTART, RLENGTH), field, ":")
			if (field[1] ~ /worst/)
				exit bad = field[2] != worst
			worst = field[2] > worst ? field[2] : worst
		}
		END { exit bad || !worst }' "shell: the worst lateness is the only one that is printed"
	run after --json 1ms,slack=5ms
	json_is "after --json" name id deadline_ns expired_ns lateness_ns expirations
	runs 0 "after on another clock" after --clock=boottime 20ms
}

test_monitor() {
	runs 0 "monitor ends when nothing is left" monitor -F %n --add 800ms,label=b --add 20ms,label=a --add 1600ms
	output_is "$(printf 'a\nb\nt1')" "monitor: in the order of the deadlines"

	runs 0 "monitor -n" monitor --add 20ms,periodic -n 4 --json
	lines_are 4 "monitor -n 4: four lines"
	json_is "monitor --json" name id deadline_ns expired_ns lateness_ns expirations
	run monitor --add 20ms,periodic --add 5ms,count=50 -n 54 --json
	awk_holds '
		function field(key) {
			match($0, "\"" key "\":-?[0-9]+")
			return substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3) + 0
		}
		{
			late = field("expired_ns") - field("deadline_ns")
			if (late < 0 || late != field("lateness_ns"))
				exit bad = 1
		}
		END { exit bad || NR != 54 }' "monitor: never early, and the lateness is the difference"

	run monitor --add 20ms,period=30ms -n 3 --json
	awk_holds '
		{
			match($0, /"deadline_ns":[0-9]+/)
			d = substr($0, RSTART + 14, RLENGTH - 14) + 0
			if (NR > 1 && (d <= last || (d - last) % 30000000))
				exit bad = 1
			last = d
		}
		END { exit bad || NR != 3 }' "monitor: the deadlines of a periodic timer do not drift"

	run monitor --add 5ms,count=300,label=x -F %n
	awk_holds '{ seen[$0]++ } END { for (i = 1; i <= 300; i++) if (seen["x-" i] != 1) exit 1; exit NR != 300 }' \
		"monitor: count=300 expires 300 times, each once"
	run monitor --add 5ms,label=x -F '%n %i %d %t %l %L %x %%'
	output_has '^x 0x[0-9a-f]+ [0-9]+\.[0-9]{9} [0-9]+\.[0-9]{9} \+[0-9.]+(ns|us|ms|s) [0-9]+ 1 %$' \
		"monitor -F: every directive"
	run monitor --add 5ms,label=x
	output_has '^[0-9]+\.[0-9]{9}  x +\+[0-9.]+(ns|us|ms|s)$' "monitor: the usual line"
	run monitor --banner --add 5ms --add 1ms
	output_has '^2 timers, clock monotonic, tick 524.288us$' "monitor --banner"
	lines_are 3 "monitor --banner: the expirations follow"
	run monitor --banner --json --add 5ms
	json_is "monitor --banner --json" timers clock tick_ns now_ns
	runs 0 "monitor --quiet" monitor --quiet --add 5ms
	output_is "" "monitor --quiet prints nothing"
	runs 0 "monitor: idle timers are not waited for" monitor --add 1ms,keep --add idle
	lines_are 1 "monitor: idle timers do not expire"

	runs 124 "monitor --idle-timeout: nothing came" monitor --add 1h --idle-timeout 50ms
	output_is "" "monitor --idle-timeout: nothing is printed"
	error_has '^twheelctl: no timer expired for 50ms$' \
		"monitor --idle-timeout: the error gives the reason"
	runs 124 "monitor --idle-timeout: nothing more came" monitor --add 1ms --add 1h --idle-timeout 300ms
	lines_are 1 "monitor --idle-timeout: earlier expirations are printed"
	runs 0 "monitor --idle-timeout starts anew with each expiration" monitor --add 20ms,periodic --idle-timeout 10s -n 5
	runs 124 "monitor -n: fewer can come" monitor --add 1ms -n 2
	error_has '^twheelctl: nothing is left that could expire, after 1 of 2 expirations$' \
		"monitor -n: says why it ends"
	run monitor --add 1ms --add 1h -n 2 --idle-timeout 300ms
	error_has '^twheelctl: no timer expired for 300ms, after 1 of 2 expirations$' \
		"monitor -n --idle-timeout: the error gives the reason"

	start monitor --add 1ms --add 1h
	lines_are 1 "monitor: a line is written when it happens"
	stop -TERM

	# A reader that was stopped gets one event that counts all missed expirations.
	start monitor --add 10ms,periodic --json
	kill -STOP $pid
	sleep 1
	kill -CONT $pid
	wait_for '"expirations":([5-9][0-9]|[0-9]{3})'
	stop -TERM
	output_has '"expirations":([5-9][0-9]|[0-9]{3})' \
		"monitor: expirations that were missed are counted"
}

test_shell() {
	# Ids and times may have any value.
	run_shell <<-END
		# a comment, and an empty line

		add 10s,label=a,slack=1s
		add 1h,period=1m,keep
		add idle,label=i   # another comment
		get a
		get 0x200000001
		rearm a 20s
		rearm i 1h
		rearm i idle
		rearm i idle
		list
		cancel t1
		drain
		wait
		get i
		cancel i
		list
		quit
		add 1s
	END
	status_is 0 "shell: a session"
	answers_are "shell: its answers" <<-END
		added a ID armed deadline T slack 1s
		added t1 ID armed deadline T period 1m keep
		added i ID idle keep
		timer a ID armed deadline T slack 1s
		timer a ID armed deadline T slack 1s
		rearmed a ID was armed deadline T slack 1s
		rearmed i ID was idle deadline T keep
		rearmed i ID was armed keep
		rearmed i ID was idle keep
		timer a ID armed deadline T slack 1s
		timer t1 ID armed deadline T period 1m keep
		timer i ID idle keep
		listed 3
		cancelled t1 ID was armed deadline T period 1m keep
		drained 1
		T  a             LATE
		timer i ID idle keep
		cancelled i ID was idle keep
		listed 0
	END

	run_shell <<-END
		add 1h,period=1m,slack=2s,keep
		rearm t1 2h
		get t1
		rearm t1 idle
		rearm t1 2h,period=3m
		rearm t1 2h,slack=0,period=0
	END
	answers_are "shell: rearm keeps what is not said" <<-END
		added t1 ID armed deadline T period 1m slack 2s keep
		rearmed t1 ID was armed deadline T period 1m slack 2s keep
		timer t1 ID armed deadline T period 1m slack 2s keep
		rearmed t1 ID was armed period 1m slack 2s keep
		rearmed t1 ID was idle deadline T period 3m slack 2s keep
		rearmed t1 ID was armed deadline T keep
	END

	runs 0 "monitor: an idle time-out of more than 2^31 s" monitor --idle-timeout=30000d --add 10ms

	run_shell <<-END
		add 10s,label=a
		rearm a idle
		get a
		rearm a 1ms
		wait 1
		list
	END
	output_has '^timer a 0x[0-9a-f]+ idle$' "shell: rearm idle"
	output_has '^listed 0$' "shell: rearm idle does not keep a timer"

	run_shell --json <<-END
		add 10s
		get t1
		rearm t1 1ms
		wait
		list
		drain cancel
		stats
		cancel t1
	END
	json_is_valid "shell --json"
	holds "shell --json: a record for each command" \
		[ "$(sed 's/.*"type":"\([a-z]*\)".*/\1/' "$dir/out" | tr '\n' ' ')" = \
			"added timer rearmed expiration listed drained stats error " ]
	value_is status 5 "shell --json: an error has its status"
	value_is delivered 1 "shell stats: delivered"
	value_is rearmed 1 "shell stats: rearmed"

	printf 'help\n\377\nadd 1s\n' | run_shell --json
	json_is_valid "shell --json: help, and a command that is none"
	holds "shell --json: help is a record for each command" \
		[ "$(sed 's/.*"type":"\([a-z]*\)".*/\1/' "$dir/out" | uniq | tr '\n' ' ')" = \
			"command error added " ]
	output_has '"command":"\\ufffd"' "shell --json: invalid text is replaced"
	# Characters of two, three and four bytes. An overlong one, and half of a surrogate pair.
	good='\303\274\342\202\254\360\237\230\200'
	# shellcheck disable=SC2059
	printf "$good"'\300\257\355\240\200x\n' | run_shell --json
	is=0
	# shellcheck disable=SC2059
	LC_ALL=C grep -qF "$(printf '"command":"'"$good"'\\ufffd\\ufffd\\ufffd\\ufffd\\ufffdx"')" \
		"$dir/out" || is=1
	result $is "shell --json: valid and invalid UTF-8"

	run_shell <<-END
		add 1h
		add 1h
		rearm t1 2h
		cancel t2
		stats
	END
	output_has '^armed +1$' "shell stats: armed"
	output_has '^registered +2$' "shell stats: registered"
	output_has '^displaced +2$' "shell stats: displaced"

	status=0
	timeout 60 "$ctl" shell >"$dir/out" 2>"$dir/err" <&- || status=$?
	status_is 1 "shell: without an input"
	holds "shell: without an input: explains the error" grep -q '^twheelctl: stdin: ' "$dir/err"
	status=0
	: >"$dir/out"
	timeout 60 "$ctl" info 2>"$dir/err" </dev/null >&- || status=$?
	status_is 1 "info: without an output"

	# The timer expires while the shell waits for a line.
	: >"$dir/out"
	(
		echo 'add 20ms,label=x'
		wait_for '^came x'
		echo 'get x'
	) | run_shell -F 'came %n'
	output_has '^came x$' "shell: expirations come while it waits for a line"
	error_has 'line 2: get x: no such timer' "shell: a timer is gone after its event"
	printf 'add 1ms\nsleep 200ms\nlist' | run_shell -F 'came %n'
	output_has '^came t1$' "shell: sleep prints expirations"
	output_has '^listed 0$' "shell: a last line without a newline"
	# The shell reads no events between commands, so the expiration can still be canceled.
	printf 'add 0,label=x\ncancel x\nwait\n' | run_shell
	output_has '^cancelled x .* was expired' "shell: cancel withdraws an unread event"
	lines_are 2 "shell: a canceled event is not delivered"
	# An expiration stays unread until it is read, whoever looks at the timer meanwhile.
	printf 'add 0,label=x\nget x\nlist\nstats\ndrain\nget x\nwait\n' | run_shell -F 'came %n'
	holds "shell: get, list, stats and drain withdraw nothing" \
		[ "$(grep -c '^timer x 0x[0-9a-f]* expired' "$dir/out")" -eq 3 ]
	output_has '^drained 0$' "shell: drain does not count an expired timer"
	output_has '^came x$' "shell: list and drain leave an unread event"
	printf 'add 1ms,periodic\nwait 3\nquit\n' | run_shell -F %n
	output_has '^t1$' "shell: wait N"
	printf 'add 1ms,label=x\nwait\nadd 1ms,label=x\nwait\n' | run_shell -F 'came %n'
	holds "shell: a label is free again after its timer" \
		[ "$(grep -c '^came x$' "$dir/out")" -eq 2 ]
	echo help | run_shell
	output_is "$(cat <<-'END'
		add TIMER              create a timer, such as 5s or 1s,periodic,label=NAME
		rearm NAME TIMER       give a timer another deadline, or disarm it by "idle"
		cancel NAME            end a timer
		get NAME               show a timer
		list                   show all timers
		drain [expire|cancel]  expire all armed timers now (default), or cancel them
		stats                  show the counters of the wheel
		sleep DURATION         print expirations for this long
		wait [N]               print N expirations, or all that can still come
		help                   list the commands
		quit                   leave the shell, which ends all timers
	END
	)" "shell help: each command"
	echo 'sleep 500ms' >"$dir/script"
	takes 49 "shell: sleep takes its time" run_shell <"$dir/script"
}

# Commands that fail, with ; instead of a newline, and the status that -e returns.
test_shell_errors() {
	while IFS='|' read -r want script line said; do
		echo "$script" | tr ';' '\n' >"$dir/script"
		run_shell -e <"$dir/script"
		status_is "$want" "shell -e: $script"
		holds "shell -e: $script: says where, and why" \
			grep -qxF "twheelctl: line $line: $said" "$dir/err"
		output_lacks '^listed' "shell -e: $script: ends there"
		run_shell <"$dir/script"
		status_is 0 "shell: $script"
		output_has '^listed' "shell: $script: the shell continues"
	done <<-END
		2|frobnicate;list|1|frobnicate: unknown command: try "help"
		2|add;list|1|add TIMER: too few words
		2|add soon;list|1|add soon: not a duration (try 250ms, 5s, 1h30m)
		2|add 1s 2s;list|1|add: too many words
		2|add 1s,count=2;list|1|add 1s,count=2: add creates a single timer, without count=
		2|add 1s,period=1ns;list|1|add 1s,period=1ns: Invalid argument
		2|add 1h,label=a;rearm a 1s,label=b;list|2|rearm 1s,label=b: count= and label= are only for new timers
		2|drain everything;list|1|drain everything: the mode must be expire (default) or cancel
		2|sleep;list|1|sleep DURATION: too few words
		2|sleep well;list|1|sleep well: not a duration (try 250ms, 5s, 1h30m)
		2|wait 0;list|1|wait 0: not a number of expirations
		2|wait long;list|1|wait long: not a number of expirations
		2|list all of them;list|1|list: too many words
		1|add 1h,label=a;add 1h,label=a;list|2|add 1h,label=a: the label is taken
		5|cancel nobody;list|1|cancel nobody: no such timer
		5|get 0x100000000;list|1|get 0x100000000: no such timer
		5|get 7x;list|1|get 7x: no such timer
		5|rearm nobody 1s;list|1|rearm nobody: no such timer
		5|add 1ms,label=x;wait;cancel x;list|3|cancel x: no such timer
		124|wait 1;list|1|wait: nothing is left that could expire
		124|add 1ms;wait 2;list|2|wait: nothing is left that could expire
	END
	printf 'add 1h\nadd 1h\nadd 1h\nlist\n' >"$dir/script"
	run_shell -e --max-timers=2 <"$dir/script"
	status_is 6 "shell -e: a full wheel"
	error_has 'the wheel is full' "shell -e: a full wheel: explains the error"
	head -c 5000 /dev/zero | tr '\0' x >"$dir/script"
	run_shell <"$dir/script"
	status_is 2 "shell: a line that is too long"
}

test_stat() {
	runs 0 "stat" stat --add 10ms,periodic,count=3 300ms 2
	output_has '^ +armed +unread +expired +moved +cascaded +wakeups' "stat: header"
	# A row may be printed while its events are on the way.
	holds "stat: two rows, with expirations in both" \
		[ "$(awk '/^ +[0-9]/ && $1 + $2 == 3 && $3 > 0' "$dir/out" | wc -l)" -eq 2 ]
	output_has '#+$' "stat: histogram"
	output_has '^worst [0-9]' "stat: worst lateness"

	run stat 1s 1 --json
	json_is "stat --json" elapsed_ns armed unread allocated registered rearmed cancelled \
		expired delivered armings displaced withdrawn moved cascaded wakeups \
		worst_lateness_ns lateness_sum_ns
	json_has "stat --json: its percentiles" p50_ns p99_ns
	# Some periodic timers may be unread at this moment.
	value_is allocated 100 "stat: the default load is 100 timers"
	awk_holds 'NR == 1 { match($0, /"elapsed_ns":[0-9]+/)
		exit substr($0, RSTART + 13, RLENGTH - 13) + 0 < 1000000000 }' "stat: a bare interval is seconds"
	lines_are 2 "stat --json: a row and the histogram"
	run stat --json --add 10ms,count=7 500ms 1
	awk_holds 'NR == 2 { while (match($0, /"count":[0-9]+/)) {
			sum += substr($0, RSTART + 8, RLENGTH - 8)
			$0 = substr($0, RSTART + RLENGTH)
		} }
		END { exit sum != 7 }' "stat: the histogram counts each expiration"
	run stat --add 1h 100ms 1
	output_has '^no expiration yet$' "stat: nothing expired"
	output_has '^ +1 .* - +- +[0-9]' "stat: no expirations, no percentiles"
	run stat --add 0,count=50 --add 1ms,count=50 500ms 1
	output_has '^ +0 +0 +100 ' "stat: early expirations are counted"

	start stat --add 10ms,periodic 100ms
	wait_for '^ +1 '
	stop -INT
	status_is 0 "stat: SIGINT ends it"
	output_has '^worst [0-9]' "stat: SIGINT: the histogram is printed"

	# Nothing else would end the wait within an hour.
	start stat --add 10h 1h
	stop -TERM
	status_is 0 "stat: SIGTERM ends it although no timer expires"
	output_has '^no expiration yet$' "stat: SIGTERM: the empty histogram is printed"
}

test_wheel() {
	runs 0 "wheel --once" wheel --once --random=300
	output_has '^at [0-9.]+  armed [0-9]+, due [0-9]+, idle 0$' "wheel: first line"
	holds "wheel: eight levels of 64 cells" \
		[ "$(grep -cE '^ +[0-7] +[0-9.a-z]+ [.+#1-9]{64} [0-9]+$' "$dir/out")" -eq 8 ]
	holds "wheel: the present bucket of each is marked" \
		[ "$(grep -cE '^ +\^$' "$dir/out")" -eq 8 ]
	awk_holds '
		NR == 1 { split($0, w, /[ ,]+/); all = w[4] + w[6]; due = w[6] }
		/ [.+#1-9]+ [0-9]+$/ { sum += $NF }
		END { exit all != 300 || sum + due != 300 }' "wheel: each timer is somewhere"
	run wheel --once --add 1h,count=12345 --add 2s,count=100 --add 900d
	output_has '^ +[0-7] .* 12k$' "wheel: a large number is rounded"
	output_has ' 100$' "wheel: a smaller number is not rounded"
	awk_holds 'length > 80 { bad = 1 } END { exit bad }' "wheel: fits 80 columns"
	run wheel --once --slot-bits=10 --levels=2 --random=5
	holds "wheel: 1024 buckets in 64 cells" \
		[ "$(grep -cE '^ +[01] .* [.+#1-9]{64} [0-9]+$' "$dir/out")" -eq 2 ]
	run wheel --once --slot-bits=4 --levels=1 --add 1h --add idle
	output_has 'armed 1, due 0, idle 1$' "wheel: idle timers are counted"
	holds "wheel: 16 buckets in 16 cells" \
		[ "$(grep -cE '^ +0 .* [.1]{16} 1$' "$dir/out")" -eq 1 ]

	# So far away that the bucket does not depend on when this runs: 4 * 10^9 s is in tick
	# 7629394531250, and 4 * 10^9 + 1 s in tick 7629394533157.3.
	run wheel --once --json --levels=2 --slot-bits=4 \
		--add @4000000000 --add @4000000001 --add @4000000001
	json_is "wheel --json" now_ns tick_ns armed due idle levels level bucket_ns buckets \
		cursor occupied
	output_has '"level":1,"bucket_ns":8388608,"buckets":16,"cursor":[0-9]+,"occupied":\[\{"bucket":2,"timers":2\},\{"bucket":11,"timers":1\}\]' \
		"wheel: buckets of the top level"
	run wheel --once --json --add 1h --add 1h --add 2h --add 3h --add 4h,keep
	value_is armed 5 "wheel --json: armed"
	awk_holds '
		function number(key,   v) {
			match($0, "\"" key "\":\"?[0-9]+")
			v = substr($0, RSTART + length(key) + 3, RLENGTH - length(key) - 3)
			sub(/"/, "", v)
			$0 = substr($0, RSTART + RLENGTH)
			return v
		}
		{
			now = number("now_ns")
			for (level = 0; level < 8; level++) {
				width = number("bucket_ns")
				buckets = number("buckets")
				cursor = number("cursor")
				if (int(now / width) % buckets != cursor)
					exit bad = 1
			}
		}
		END { exit bad }' "wheel --json: the cursor is at the current time"

	# Level 1 has buckets of 1.07 s here. Use three timers, because one may be due just
	# when its bucket is reached.
	run wheel --json --tick 100ms --levels 2 --slot-bits 4 --interval 100ms \
		--add 3s --add 3300ms --add 3.6s
	output_has '"level":1,[^]]*"occupied":\[\{"bucket":[0-9]+,"timers":[123]' \
		"wheel: at first the timers are in level 1"
	output_has '"level":0,[^]]*"occupied":\[\{"bucket":[0-9]+,"timers":[123]' \
		"wheel: later a timer moves down to level 0"
	run wheel --json --tick 100ms --levels 2 --slot-bits 4 --interval 100ms \
		--add 200ms,slack=1100ms --add 400ms,slack=1100ms
	output_has '"level":1,[^]]*"occupied":\[\{"bucket":[0-9]+,"timers":[12]' \
		"wheel: a timer with slack is in level 1, however near its deadline"
	output_lacks '"level":0,[^]]*"occupied":\[\{' \
		"wheel: a timer with slack does not move to level 0"

	runs 0 "wheel ends when no timer is left" wheel --add 1ms --add 300ms --interval 50ms
	output_has 'armed 0, due 0, idle 0$' "wheel: the last picture is empty"
	output_lacks "$(printf '\033')" "wheel: no escapes where there is no terminal"
}

# The in-process wheel, if it is selected. Needs no device.
test_inprocess() {
	export TWHEEL_BACKEND=inprocess
	runs 0 "in process: info" info
	output_has '^device +none: ' "in process: info: no device"
	output_lacks '^module' "in process: info: no module"
	output_has '^tick +524\.288us' "in process: info: default tick"
	run info --json --clock=boottime --tick=1us --levels=3 --slot-bits=9 --max-timers=77
	json_is_valid "in process: info --json"
	value_is backend inprocess "in process: info: the backend"
	value_is clock boottime "in process: --clock"
	value_is tick_ns 512 "in process: --tick"
	value_is levels 3 "in process: --levels"
	value_is slot_bits 9 "in process: --slot-bits"
	value_is max_timers 77 "in process: --max-timers"
	runs 2 "in process: too many timers" info --max-timers=16777217
	error_has '^twheelctl: cannot create a wheel of this shape: ' \
		"in process: too many timers: explains the error"
	run after 20ms echo hello
	output_is "hello" "in process: after"
	run monitor -F %n --add 200ms,label=b --add 20ms,label=a --add 400ms
	output_is "$(printf 'a\nb\nt1')" "in process: monitor"
	runs 0 "in process: monitor, periodic" monitor --add 20ms,periodic -n 4 --idle-timeout 10s
	runs 124 "in process: nothing came" monitor --add 1h --idle-timeout 50ms
	runs 6 "in process: a full wheel" monitor --max-timers=2 --add 1h,count=3
	printf 'add 0,label=x\nadd 1h,keep\nrearm t1 2h\ncancel t1\nlist\nwait\nlist\n' |
		run_shell -F 'came %n'
	output_has '^rearmed t1 .* was armed' "in process: shell: rearm"
	output_has '^cancelled t1 .* was armed' "in process: shell: cancel"
	output_has '^listed 1$' "in process: shell: list"
	output_has '^came x$' "in process: shell: wait"
	runs 0 "in process: stat" stat --add 10ms,periodic,count=3 300ms 2
	output_has '#+$' "in process: stat: histogram"
	run wheel --once --random=300
	awk_holds 'NR == 1 { split($0, w, /[ ,]+/); exit w[4] + w[6] != 300 }' "in process: wheel"
	runs 3 "in process: a device that is named is used" info --device=/nonexistent
	export TWHEEL_BACKEND=sundial
	runs 2 "an unknown backend" info
	error_has '^twheelctl: TWHEEL_BACKEND .*, not "sundial"$' \
		"an unknown backend: the error names it"
	unset TWHEEL_BACKEND
}

# Each row of the table of exit statuses that concerns the device.
test_device() {
	runs 3 "no such node" info --device=/nonexistent
	error_has '^twheelctl: cannot open /nonexistent: No such file' \
		"no such node: explains the error"
	error_has '^hint: ' "no such node: hint"
	refusals <<-END
		3|info --device=/dev/null|/dev/null is not a twheel device
		6|monitor --max-timers=2 --add 1h,count=3|timer 3: the wheel is full
		6|wheel --once --max-timers=2 --random=3
	END
	for verb in "after 1s" "monitor --add 1s" shell stat wheel; do
		# shellcheck disable=SC2086
		run $verb --device=/nonexistent
		[ "$verb" != "after 1s" ] || run after --device=/nonexistent 1s
		status_is 3 "$verb without a device"
	done

	mknod "$dir/absent" c 10 242
	runs 3 "a node without a driver" info --device="$dir/absent"

	minor=$(grep ' twheel$' /proc/misc | sed 's/^ *//; s/ .*//')
	mknod "$dir/node" c 10 "$minor"
	chmod 666 "$dir/node"
	runs 0 "another node of the device" info --device="$dir/node"
	as_nobody "$ctl" info --device="$dir/node"
	status_is 0 "another user with permission"
	chmod 000 "$dir/node"
	as_nobody "$ctl" info --device="$dir/node"
	status_is 4 "no permission"
	error_has "cannot open $dir/node: Permission denied" "no permission: explains the error"
	error_has '^hint: its mode is 0000' "no permission: hint"
	chmod 666 "$dir/node"
	as_nobody "$ctl" info --device="$dir/node" --tick 1us
	status_is 4 "too short a tick for this user"
	error_has '^hint: .*CAP_SYS_RESOURCE' "too short a tick: hint"
	run info --json --tick 1us
	value_is tick_ns 512 "a short tick for root"

	limit=/sys/module/twheel/parameters/max_wheels_per_user
	if [ -w $limit ]; then
		most=$(cat $limit)
		# The limits do not apply to root.
		su -s /bin/sh nobody -c "cd / && exec $ctl monitor --add 1h" >/dev/null 2>&1 &
		holder=$!
		wait_for_wheel $holder 1
		echo 1 >$limit
		as_nobody "$ctl" info
		status_is 6 "too many wheels of a user"
		error_has '^hint: this user .* max_wheels_per_user .*: ' "too many wheels: hint"
		as_nobody "$ctl" doctor
		status_is 6 "doctor: too many wheels"
		output_has 'do: this user .* max_wheels_per_user .*: ' \
			"doctor: too many wheels: what to do"
		echo "$most" >$limit
		kill $holder
		wait $holder 2>/dev/null || :
	fi
	limit=/sys/module/twheel/parameters/max_bytes_per_user
	if [ -w $limit ]; then
		most=$(cat $limit)
		echo 200000 >$limit
		as_nobody "$ctl" monitor --add 1h,count=5000
		status_is 6 "too many timers of a user"
		error_has ': this user has reached max_bytes_per_user of the module$' \
			"too many timers of a user: explains the error"
		runs 6 "too many timers of a wheel" monitor --max-timers=5 --add 1h,count=6
		error_has ': the wheel is full$' "too many timers of a wheel: explains the error"
		echo "$most" >$limit
	fi
}

# Waits until process $1 has $2 open wheels, for at most 20 s.
wait_for_wheel() {
	tries=0
	while [ "$(cat /proc/"$1"/fdinfo/* 2>/dev/null | grep -c '^twheel-clock:')" -ne "$2" ] &&
		[ $tries -lt 200 ]; do
		tries=$((tries + 1))
		usleep 100000
	done
}

# Finds the descriptor of process $1 that is a wheel, and a line of its fdinfo.
wheel_fd() {
	grep -l '^twheel-clock:' /proc/"$1"/fdinfo/* | sed 's,.*/,,'
}

wheel_has() {
	sed -n "s/^twheel-$2:.//p" /proc/"$1"/fdinfo/"$(wheel_fd "$1")"
}

# Wheels of other processes are shown as they are, and not changed.
test_others() {
	"$ctl" monitor --add 20ms,periodic,count=3 --add 1h,slack=2s >/dev/null 2>&1 &
	holder=$!
	# Two processes that share one wheel.
	(
		exec 5<>/dev/twheel
		sleep 1000 &
		echo $! >"$dir/sharer"
		exec sleep 1000
	) &
	shared=$!
	# One process with two wheels.
	(
		exec 5<>/dev/twheel 6<>/dev/twheel
		exec sleep 1000
	) &
	two=$!
	wait_for_wheel $holder 1
	wait_for_wheel $shared 1
	wait_for_wheel $two 2
	sleep 1
	fd=$(wheel_fd $holder)
	id=$(wheel_has $holder id)
	timers=$(wheel_has $holder timers)

	runs 0 "ps" ps
	output_has '^ *WHEEL +PID:FD +COMMAND' "ps: header"
	# As many digits as fit.
	short=$(echo "$id" | tail -c 8)
	output_has "^ *$short +$holder:$fd +twheelctl +[0-9]+ +[0-9]+ +[1-9][0-9]* +[0-9.]+(us|ms|s) " \
		"ps: a wheel"
	holds "ps: a wheel of two processes is one line" \
		[ "$(grep -c "^ *$(sed -n 's/^twheel-id:.//p' /proc/$shared/fdinfo/5 | tail -c 8) " "$dir/out")" -eq 1 ]
	output_has " $shared:5\+1 +sleep " \
		"ps: a shared wheel shows one process, and counts the other"
	awk_holds 'length > 80 { bad = 1 } END { exit bad }' "ps: fits 80 columns"
	run ps --pid=$two
	lines_are 3 "ps --pid: two wheels"
	run ps --pid=$two:6
	lines_are 2 "ps --pid=PID:FD: one of them"
	runs 5 "ps --pid=PID:FD: not a wheel" ps --pid=$two:0
	run ps --json
	json_is "ps --json" wheel holders pid fd command clock tick_ns max_timers timers armed unread \
		expired moved worst_lateness_ns next_in_ns
	output_has "\"holders\":\[\{\"pid\":$shared,\"fd\":5,\"command\":\"sleep\"\},\{\"pid\":[0-9]+,\"fd\":5," \
		"ps --json: all who hold it"
	output_has "\"pid\":$shared,.*\"next_in_ns\":null" "ps --json: nothing armed"

	runs 0 "top" top -n 2 -i 300ms
	holds "top: two screens" [ "$(grep -c '^ *WHEEL ' "$dir/out")" -eq 2 ]
	awk_holds 'length > 80 { bad = 1 } END { exit bad }' "top: fits 80 columns"
	output_lacks "$(printf '\033')" "top: no escapes where there is no terminal"
	awk_holds '
		/WHEEL/ { first = 1; next }
		first { n += $2 == "'"$holder:$fd"'" && $6 > 0; first = 0 }
		END { exit n != 2 }' "top: what expires most is first, with its rate"
	run top -n 1 -i 300ms --json --pid=$holder
	json_is "top --json" wheel elapsed_ns elapsed_expired elapsed_moved p99_ns
	output_has '"elapsed_expired":[1-9]' "top --json: expirations since the last row"

	runs 0 "hist" hist
	output_has '#+$' "hist: all wheels"
	before=$(wheel_has $holder lateness | tr ' ' '\n' | awk -F = '{ n += $2 } END { print n }')
	run hist --pid=$holder:"$fd" --json
	json_is_valid "hist --json"
	sum=$(grep -o '"count":[0-9]*' "$dir/out" | awk -F : '{ n += $2 } END { print n }')
	after=$(wheel_has $holder lateness | tr ' ' '\n' | awk -F = '{ n += $2 } END { print n }')
	holds "hist --pid: counts what fdinfo counts" \
		[ "$before" -le "$sum" -a "$sum" -le "$after" ]
	run hist --pid=$shared
	output_has '^no expiration yet$' "hist --pid: nothing has expired"

	runs 0 "list" list --pid=$holder
	output_has '^0x[0-9a-f]+ +(armed|expired) +([0-9.]+[mun]?s|due) +20ms +- +0x1$' \
		"list: a periodic timer"
	output_has '^0x[0-9a-f]+ +armed +[0-9hms]+ +- +2s +0x4$' "list: a timer with slack"
	output_has '^listed 4; --all adds [1-9][0-9]* idle timers$' "list: the last line counts timers"
	run list --pid=$holder --all
	output_has ' idle +- ' "list --all: idle timers"
	run list --pid=$holder --json
	json_is "list --json" id user_data state deadline_ns period_ns slack_ns keep

	runs 0 "stat --pid" stat --pid=$holder 300ms 2
	holds "stat --pid: two rows of that wheel" \
		[ "$(awk '/^ +[0-9]/ && $1 + $2 == 4 && $3 > 0' "$dir/out" | wc -l)" -eq 2 ]
	output_has '^worst ' "stat --pid: the histogram"
	run stat --pid=$holder 300ms 1 --json
	json_is "stat --pid --json" elapsed_ns armings p99_ns
	runs 0 "wheel --pid" wheel --pid=$holder --once
	awk_holds 'NR == 1 { split($0, w, /[ ,]+/); exit w[4] + w[6] != 4 }' \
		"wheel --pid: each armed timer"
	holds "observing a wheel leaves no timer behind" \
		[ "$(wheel_has $holder timers)" -eq "$timers" ]
	"$ctl" wheel --pid=$shared --once >/dev/null
	"$ctl" list --pid=$shared >/dev/null
	run stat --pid=$shared 10ms 1 --json
	value_is registered 0 "stat --pid: an observer registers no timer"

	refusals <<-END
		2|list
		2|list --pid=0
		2|list --pid=x
		2|list --pid=$two:
		2|list --pid=$two:x
		2|list --pid=-1
		2|list --pid=99999999999
		2|list --pid=$two
		2|list --pid=$two extra
		2|list --pid=$two --tick=1s
		2|stat --pid=$holder --add 1s
		2|stat --pid=$holder --tick=1ms
		2|wheel --pid=$holder --random=3
		2|ps extra
		2|ps -o $dir/x
		2|ps --openmetrics --json
		2|top -n 0
		2|top -i 0
		2|hist extra
		5|list --pid=$two:0
		5|list --pid=4194303
		5|stat --pid=4194303
		5|list --pid=$$
		5|list --pid=$two:77
		5|ps --pid=4194303
	END
	error_has '^twheelctl: process 4194303: No such process$' \
		"ps of no process: explains the error"
	runs 1 "ps into no directory" ps --openmetrics -o "$dir/none/x"
	error_has "cannot write $dir/none/x: " \
		"ps into a missing directory: the error names the file"
	ln -s "$dir/none/x" "$dir/dangling"
	runs 1 "ps into a link to nothing" ps --openmetrics -o "$dir/dangling"
	holds "ps into a link to nothing: it stays one" [ -L "$dir/dangling" ]
	run list --pid=$two
	error_has "^hint: use --pid=$two:6$" "a process with two wheels: the hint lists them"
	as_nobody "$ctl" list --pid=$holder
	status_is 4 "list of another user's process"
	as_nobody "$ctl" list --pid=$holder:"$fd"
	status_is 4 "list of another user's descriptor"
	error_has '^hint: .*root' "list of another user's descriptor: hint"
	as_nobody "$ctl" ps
	error_has '^hint: only root may look at [0-9]+ other processes$' \
		"ps: the hint counts the processes that it cannot see"
	yama=/proc/sys/kernel/yama/ptrace_scope
	if [ -e $yama ]; then
		scope=$(cat $yama)
		(cd / && exec su -s /bin/sh nobody -c "exec $ctl monitor --add 1h" >/dev/null 2>&1) &
		theirs=$!
		wait_for_wheel $theirs 1
		echo 1 >$yama
		as_nobody "$ctl" list --pid=$theirs
		status_is 4 "list of the user's own process, with Yama"
		error_has '^hint: .*Yama.* is 1$' \
			"list of the user's own process: the hint names Yama"
		echo 0 >$yama
		as_nobody "$ctl" list --pid=$theirs
		status_is 0 "list of the user's own process"
		echo "$scope" >$yama
		kill $theirs
	fi

	mkdir "$dir/metrics"
	echo old >"$dir/metrics/twheel.prom"
	exec 7<"$dir/metrics/twheel.prom"
	runs 0 "ps --openmetrics" ps --openmetrics -o "$dir/metrics/twheel.prom"
	holds "ps --openmetrics: who reads the old file reads it to its end" [ "$(cat <&7)" = old ]
	exec 7<&-
	holds "ps --openmetrics: one file" [ "$(ls "$dir/metrics")" = twheel.prom ]
	cp "$dir/metrics/twheel.prom" "$dir/out"
	output_has "^twheel_timers\{backend=\"kernel\",pid=\"$holder\",comm=\"twheelctl\",id=\"$id\",state=\"idle\"\} [1-9]" \
		"ps --openmetrics: timers"
	output_has "^twheel_lateness_seconds_count\{.*pid=\"$holder\".*\} [1-9]" "ps --openmetrics: lateness"
	output_has "^twheel_next_seconds\{.*pid=\"$shared\".*\} \+Inf$" "ps --openmetrics: nothing armed"
	output_has '^twheel_module_info\{version="[0-9.]+",kernel="[^"]+"\} 1$' \
		"ps --openmetrics: the module"
	runs 1 "ps --openmetrics: no such directory" ps --openmetrics -o "$dir/none/twheel.prom"
	mkdir "$dir/metrics/taken.prom"
	runs 1 "ps --openmetrics: a name that is taken" ps --openmetrics -o "$dir/metrics/taken.prom"
	holds "ps --openmetrics: what failed is taken away" \
		[ "$(echo "$dir"/metrics/*)" = "$dir/metrics/taken.prom $dir/metrics/twheel.prom" ]

	start stat --pid=$holder 100ms
	kill $holder
	status=0
	wait $pid || status=$?
	status_is 0 "stat --pid ends with the process"
	kill $shared $two "$(cat "$dir/sharer")"
}

test_doctor() {
	runs 0 "doctor" doctor
	for check in kernel module device wheel timer; do
		output_has "^ok    $check " "doctor: $check"
	done
	output_has "^ok    wheel .* marks parked, " "doctor: the module supports parked words"
	output_lacks "^FAIL" "doctor: all is well"
	run doctor --json
	json_is "doctor --json" check ok found
	status=0
	TWHEEL_BACKEND=inprocess "$ctl" doctor >"$dir/out" || status=$?
	status_is 1 "doctor: the environment asks for another backend"
	output_has '^FAIL  backend .*TWHEEL_BACKEND' \
		"doctor: another backend: the check names the variable"
	output_has '^ok    timer ' "doctor: another backend: the kernel wheel is still checked"
	runs 3 "doctor: no such node" doctor --device=/nonexistent
	output_has '^FAIL  device ' "doctor: no such node: which check"
	runs 3 "doctor: another device" doctor --device=/dev/null
	output_has '^FAIL  device .*not a twheel device' \
		"doctor: another device: explains the error"
	chmod 000 "$dir/node"
	as_nobody "$ctl" doctor --device="$dir/node"
	status_is 4 "doctor: no permission"
	output_has 'do: its mode is 0000' "doctor: no permission: what to do"
	chmod 666 "$dir/node"
	as_nobody "$ctl" doctor --device="$dir/node" --tick=1us
	status_is 4 "doctor: too short a tick"
	output_has 'do: .*CAP_SYS_RESOURCE' "doctor: too short a tick: what to do"
	runs 2 "doctor with an argument" doctor extra
}

# elsewhere COMMAND: runs it in a mount namespace of its own.
elsewhere() {
	status=0
	unshare -m sh -c "$1" >"$dir/out" 2>"$dir/err" </dev/null || status=$?
}

# Wheels in a machine whose /proc hides processes, or which lacks /proc or /sys, like some chroots.
test_bare_machine() {
	"$ctl" monitor --add 1h >/dev/null 2>&1 &
	holder=$!
	wait_for_wheel $holder 1
	hide='mount -t proc -o hidepid=2 proc /proc'
	elsewhere "$hide; su -s /bin/sh nobody -c 'exec $ctl list --pid=$holder'"
	status_is 4 "hidepid: list of another user's process"
	error_has "you may not look at process $holder: /proc hides it \(hidepid\)$" \
		"hidepid: list: explains the error"
	elsewhere "$hide; su -s /bin/sh nobody -c 'exec $ctl ps --pid=$holder'"
	status_is 4 "hidepid: ps of another user's process"
	elsewhere "$hide; su -s /bin/sh nobody -c 'exec $ctl ps'"
	status_is 0 "hidepid: ps"
	error_has '^hint: /proc hides the processes of other users' \
		"hidepid: ps: the hint says that processes are hidden"
	elsewhere "$hide; $ctl list --pid=$holder"
	status_is 0 "hidepid: root sees all"
	elsewhere "$hide; $ctl list --pid=4194303"
	status_is 5 "hidepid: no such process"

	elsewhere "umount -l /sys; $ctl doctor"
	status_is 0 "without /sys: doctor"
	output_has '^ok    module +loaded, version unknown because /sys is not mounted$' \
		"without /sys: doctor: what it cannot see"
	elsewhere "umount -l /sys; $ctl ps"
	status_is 0 "without /sys: ps"
	error_lacks 'module' "without /sys: ps: the module is loaded"

	elsewhere "umount -l /sys; umount -l /proc; $ctl doctor"
	status_is 0 "without /proc and /sys: doctor"
	for args in ps top "list --pid=$holder" "ps --pid=$holder" 'ps --openmetrics'; do
		elsewhere "umount -l /proc; $ctl $args"
		status_is 1 "without /proc: $args"
		error_has '^twheelctl: cannot look for the wheels of processes: /proc is not mounted$' \
			"without /proc: $args: explains the error"
	done
	elsewhere "umount -l /proc; $ctl watch --timeout=20s -- sh -c 'exit 3'"
	status_is 3 "without /proc: watch"
	kill $holder
}

as_nobody() {
	status=0
	(
		cd /
		su -s /bin/sh nobody -c "$*"
	) >"$dir/out" 2>"$dir/err" </dev/null || status=$?
}

# The output of info without the module, and for a user who is not in the group.
test_absent_module() {
	if [ ! -e /twheel.ko ]; then
		number=$((number + 1))
		echo "ok $number info without the module # SKIP not in the test machine"
		return
	fi
	echo 'twheel:x:777:' >>/etc/group
	chown 0:777 "$dir/node"
	chmod 660 "$dir/node"
	as_nobody "$ctl" info --device="$dir/node"
	status_is 4 "not in the group"
	error_has '^hint: join the group .* twheel ' "not in the group: hint"

	run info --device=/nonexistent
	error_has '^hint: omit --device' "loaded, but another node: hint"
	rmmod twheel
	runs 3 "doctor: module not loaded" doctor
	output_has '^FAIL  module +not loaded$' "doctor: explains the error"
	output_has 'do: the module is not installed: ' "doctor: what to do"
	status=0
	container=lxc "$ctl" doctor >"$dir/out" 2>"$dir/err" || status=$?
	status_is 3 "doctor in a container: module not loaded"
	output_has '^ok    kernel .*, in a container$' "doctor in a container: says where it is"
	output_has 'do: load the module on the host .*, .*--device=/dev/twheel$' \
		"doctor in a container: what to do"
	runs 3 "module not loaded" info
	error_has '^hint: the module is not installed: .*make load.* then "modprobe twheel"$' \
		"not installed: hint"
	error_has '^hint: set TWHEEL_BACKEND=inprocess' \
		"not loaded: the hint suggests the in-process wheel"
	for verb in ps 'top -n 1 -i 10ms' hist; do
		# shellcheck disable=SC2086 # words
		runs 0 "$verb: module not loaded" $verb
		error_has '^hint: the module is not installed: ' \
			"$verb: the hint says that there is no module"
	done
	mkdir -p /usr/src/twheel-1.2
	: >/usr/src/twheel-1.2/dkms.conf
	run info
	error_has '^hint: the module is not built for Linux [^ ]+: .* dkms autoinstall and modprobe twheel$' \
		"DKMS has it, but not for this kernel: hint"
	rm -r /usr/src/twheel-1.2
	modules=/lib/modules/$(uname -r)
	mkdir -p "$modules"
	echo 'updates/dkms/twheelish.ko:' >"$modules/modules.dep"
	run info
	error_has '^hint: the module is not installed: .*make load' \
		"not installed, a similar name: hint"
	echo 'updates/dkms/twheel.ko.xz:' >>"$modules/modules.dep"
	run info
	error_has '^hint: the module is not loaded: modprobe twheel$' "not loaded: hint"
	runs 3 "a node whose module is gone" info --device="$dir/node"
	rm -r "$modules"
	insmod /twheel.ko
	runs 0 "the module is back" info
}

test_front
test_info
test_usage
test_durations
test_after
test_monitor
test_shell
test_shell_errors
test_stat
test_wheel
test_inprocess
test_device
test_others
test_doctor
[ ! -e /twheel.ko ] || test_bare_machine
test_absent_module
done_testing
