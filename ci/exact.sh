#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/exact.sh [KERNEL]: tests how late timers are, to the nanosecond, in a machine whose clock
# counts instructions, so that the assertions hold on every host.

. "$(dirname "$0")/../vm/lib.sh"

kernel=${1:-6.12}
quietly "$top/ci/programs.sh" exact
quietly "$top/vm/module.sh" "$kernel"
# The watchdogs of the processors and of the clock would run so often that a simulated day takes
# long.
"$top/vm/run.sh" --kernel "$kernel" --name "exact-$kernel" --alike \
	--append 'nowatchdog tsc=reliable' --limit 0 --timeout 1800 --bin "$build/exact" --raw -- exact
