#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# userspace/daemon/check.sh [SECONDS]: all tests of the daemon: units and parsers,
# the scripts, the daemon with a Redis of its own, and crashes for SECONDS (20). Prints TAP.

. "$(dirname "$0")/../../vm/lib.sh"

need pkg-config libhiredis-dev libcurl4-openssl-dev libmicrohttpd-dev libjansson-dev \
	libssl-dev libsystemd-dev redis-server redis-sentinel xxd python3 clang-14 \
	libclang-rt-14-dev

seconds=${1:-20}
daemon=$top/userspace/daemon
out=$build/daemon
number=0
failed=0

# run NAME COMMAND...: its own results, indented, and one for all of them.
run() {
	local status=0

	number=$((number + 1))
	"${@:2}" >"$out/$1.tap" 2>&1 </dev/null || status=$?
	sed 's/^/    /' "$out/$1.tap"
	if [ $status != 0 ]; then
		failed=1
		printf 'not '
	fi
	echo "ok $number - $1"
}

mkdir -p "$out"
quietly make -s -C "$daemon" O="$out"
quietly make -s -C "$top/userspace" ctl
echo 'TAP version 14'
run unit "$daemon/test/unit/check.sh" 2
run scripts "$daemon/test/check.sh"
run daemon "$daemon/test/daemon_test.py" "$out/twheeld"
run ctl env TWHEELCTL="$build/user/twheelctl" TWHEELD_PROGRAM="$out/twheeld" \
	"$daemon/test/ctl_test.sh"
run chaos "$daemon/test/daemon_chaos.py" "$out/twheeld" "$seconds"
echo "1..$number"
exit $failed
