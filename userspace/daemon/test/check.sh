#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# userspace/daemon/test/check.sh [SECONDS]: what make check runs of the daemon: unit tests,
# the scripts against their model, planted bugs, the daemon with a Redis of its own, and
# crashes of daemons and of Redis for SECONDS (20) each. One TAP result for each program.

. "$(dirname "$0")/../../../vm/lib.sh"

seconds=${1:-20}
daemon=$top/userspace/daemon
out=$build/daemon
test=$daemon/test
number=0
failed=0

# run NAME COMMAND...: its own results, indented, and one for all of them.
run() {
	local status=0

	number=$((number + 1))
	echo "# Subtest: $1"
	"${@:2}" 2>&1 | sed 's/^/    /' || status=1
	[ $status = 0 ] || failed=1
	[ $status = 0 ] || printf 'not '
	echo "ok $number - $1"
}

echo 'TAP version 14'
mkdir -p "$out"
quietly make -s -C "$daemon" O="$out"
run unit "$test/unit/check.sh" 2
run page python3 "$test/unit/page_test.py"
run model python3 "$test/model_test.py" --operations 20000
run gate python3 "$test/gate_test.py"
run daemon python3 "$test/daemon_test.py" "$out/twheeld"
run chaos-c1 python3 "$test/chaos.py" "$out/twheeld" --case c1 --seconds "$seconds"
run chaos-c2 python3 "$test/chaos.py" "$out/twheeld" --case c2 --seconds "$seconds"
echo "1..$number"
exit $failed
