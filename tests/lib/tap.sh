# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
# Sourced by tests that are shell scripts; prints one line of TAP for each assertion. All
# functions but verdict() and done_testing() need the directory $dir, which the script creates.
# run() and its like leave the program's output there, and its status in $status.

number=0
failures=0
status=0

# verdict STATUS NAME: prints one line of TAP.
verdict() {
	number=$((number + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $number $2"
	else
		failures=$((failures + 1))
		echo "not ok $number $2"
	fi
}

# result STATUS NAME: the same, and shows the output of a program that failed.
result() {
	verdict "$1" "$2"
	[ "$1" -ne 0 ] || return 0
	{
		echo "status $status"
		# The beginning and the end, because the error may be in either.
		head -n 10 "${dir:?}/out"
		tail -n +11 "$dir/out" | tail -n 30
		[ ! -s "$dir/err" ] || { echo "stderr:" && head -n 20 "$dir/err"; }
	} | sed 's/^/# /'
}

# holds NAME COMMAND...: passes if the command succeeds. Its output is not shown.
holds() {
	name=$1
	shift
	is=0
	"$@" >/dev/null 2>&1 || is=1
	result $is "$name"
}

status_is() {
	holds "$2: status $1" [ "$status" -eq "$1" ]
}

output_has() {
	holds "$2" grep -Eq -e "$1" "$dir/out"
}

# check NAME COMMAND...: passes if the command succeeds, and shows its output if it fails.
check() {
	checked=$1
	shift
	status=0
	"$@" >"$dir/out" 2>&1 </dev/null || status=$?
	result $status "$checked"
}

# silent NAME COMMAND...: passes if the command succeeds and prints nothing.
silent() {
	checked=$1
	shift
	status=0
	"$@" >"$dir/out" 2>&1 </dev/null || status=$?
	[ ! -s "$dir/out" ] || status=1
	result $status "$checked"
}

# Prints the plan, and succeeds if every assertion passed.
done_testing() {
	echo "1..$number"
	[ "$failures" -eq 0 ]
}
