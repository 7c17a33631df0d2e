#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# tests/device/here.sh DIRECTORY [SECONDS]: runs the device tests in DIRECTORY, and the races on the
# device, with the /dev/twheel of this machine. Prints TAP with one result for each program,
# what it skipped, and the output of a program that fails. Run it as root, because the tests
# set module parameters.
#
# Each program may take at most 5 minutes, and all of them SECONDS (default: 3600).

dir=${1:?which directory has the programs?}
# uptime: prints the seconds since boot, because the tests set the wall clock.
uptime() {
	cut -d . -f 1 /proc/uptime
}
end=$(($(uptime) + ${2:-3600}))
log=$(mktemp)
trap 'rm -f "$log"' EXIT
nr=0
bad=0

for program in "$dir"/*_test; do
	name=${program##*/}
	case $name in
	# The library's tests need no device, except for this one's threads.
	lib_thread_test) set -- -v kernel_8 ;;
	lib_*) continue ;;
	# This one loads and unloads the module.
	module_test) continue ;;
	*) set -- ;;
	esac
	nr=$((nr + 1))
	left=$((end - $(uptime)))
	[ $left -gt 0 ] || left=1
	[ $left -lt 300 ] || left=300
	TWHEEL_TEST_SECONDS=4 timeout -k 10 $left "$program" "$@" >"$log" 2>&1
	status=$?
	counts="$(grep '^ok ' "$log" | grep -vc '# SKIP') passed, $(grep -c '^ok .*# SKIP' "$log") skipped"
	if [ $status = 0 ]; then
		sed -n 's/^ok [0-9]* \(.*# SKIP\)/# \1/p' "$log"
		echo "ok $nr $name: $counts"
	else
		bad=$((bad + 1))
		sed 's/^/# /' "$log"
		echo "not ok $nr $name: $counts, status $status"
	fi
done
echo "1..$nr"
[ $bad = 0 ]
