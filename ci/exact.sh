#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/exact.sh [KERNEL]: tests how late timers are, to the nanosecond, in a machine whose clock
# counts instructions, so that the assertions hold on every host. Runs two such machines at the
# same time, each on a processor of its own. Both must yield the same times.

. "$(dirname "$0")/../vm/lib.sh"

kernel=${1:-6.12}
bin=$build/exact
quietly "$top/ci/programs.sh" exact

# The watchdogs of the processors and of the clock would run so often that a simulated day takes
# long.
quiet='nowatchdog tsc=reliable'

# once RUN OPTION...: runs the test in a machine.
once() {
	"$top/vm/run.sh" --kernel "$kernel" --name "exact-$kernel-$1" --alike \
		--append "$quiet" --limit 0 --timeout 900 --bin "$bin" "${@:2}" -- exact
}

# Prints the lines that must be the same in both runs.
times() {
	tr -d '\r' <"$logs/exact-$kernel-$1.output.log" | grep '^# .* hash '
}

quietly "$top/vm/module.sh" "$kernel"
status=0
once 2 >/dev/null &
once 1 --raw || status=1
wait $! || {
	echo "# the second run has failed: see $logs/exact-$kernel-2.output.log"
	status=1
}
[ $status -eq 0 ] || exit $status
# Each test runs once per clock or geometry, and prints a hash of its times.
if [ "$(times 1 | wc -l)" -lt 24 ]; then
	echo "# the output contains fewer than 24 hashes of times to compare"
	exit 1
fi
if ! diff <(times 1) <(times 2); then
	echo "# the two runs yielded different times: see the difference above"
	exit 1
fi
