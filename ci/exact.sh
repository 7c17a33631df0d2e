#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/exact.sh [KERNEL]: how late timers are, to the nanosecond, in a machine
# whose clock counts instructions: what is asserted there holds on every host.
# Runs it twice, at once, each with a processor of the host's; both must give the very
# same times.

. "$(dirname "$0")/../vm/lib.sh"

kernel=${1:-6.12}
bin=$build/exact
quietly "$top/ci/programs.sh" exact

# Without these two, which look at the clocks all the time, days pass faster.
quiet='nowatchdog tsc=reliable'

# once RUN OPTION...: the first run's output is for the reader.
once() {
	"$top/vm/run.sh" --kernel "$kernel" --name "exact-$kernel-$1" --alike \
		--append "$quiet" --limit 0 --timeout 900 --bin "$bin" "${@:2}" -- exact
}

# What both runs must agree on.
times() {
	tr -d '\r' <"$logs/exact-$kernel-$1.output.log" | grep '^# .* hash '
}

quietly "$top/vm/module.sh" "$kernel"
status=0
once 2 >/dev/null &
once 1 --raw || status=1
wait $! || {
	echo "# the second run failed: see $logs/exact-$kernel-2.output.log"
	status=1
}
[ $status -eq 0 ] || exit $status
# A variant of each test for each clock or geometry.
if [ "$(times 1 | wc -l)" -lt 24 ]; then
	echo "# no times to compare"
	exit 1
fi
if ! diff <(times 1) <(times 2); then
	echo "# two runs, two results"
	exit 1
fi
