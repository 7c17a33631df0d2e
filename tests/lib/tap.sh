# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=sh
# Sourced by tests that are scripts: one line of TAP for each assertion. All but verdict()
# and the_end() need the directory $dir, which the script makes; run() and its like leave
# there what the program printed, and its status in $status.

number=0
failures=0
status=0

# verdict STATUS NAME: one line of TAP.
verdict() {
	number=$((number + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $number $2"
	else
		failures=$((failures + 1))
		echo "not ok $number $2"
	fi
}

# result STATUS NAME: the same, and what there was to see if it is bad.
result() {
	verdict "$1" "$2"
	[ "$1" -ne 0 ] || return 0
	{
		echo "status $status"
		head -n 40 "${dir:?}/out"
		[ ! -s "$dir/err" ] || { echo "stderr:" && head -n 20 "$dir/err"; }
	} | sed 's/^/# /'
}

# holds NAME COMMAND...: passes if the command succeeds. What it prints is not shown.
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

# check NAME COMMAND...: passes if the command succeeds, and shows what it printed if not.
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

# The plan, and whether all was well.
the_end() {
	echo "1..$number"
	[ "$failures" -eq 0 ]
}
