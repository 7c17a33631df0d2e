#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/power.sh [KERNEL]: processors come and go, and the machine sleeps. In two
# machines: while one whose clock counts instructions sleeps, its clock stands
# still, so nothing would wake it. Where it only almost sleeps, the kernel waits for a
# second, busily.

. "$(dirname "$0")/../vm/lib.sh"

kernel=${1:-6.12}
bin=$build/power
quietly "$top/ci/programs.sh" power

# machine NAME OPTION... -- COMMAND: with its HPET the emulated machine does not wake.
machine() {
	"$top/vm/run.sh" --kernel "$kernel" --name "power-$kernel-$1" --raw --limit 600 \
		--timeout 900 --append 'no_console_suspend suspend.pm_test_delay=1' \
		--qemu '-machine pc,hpet=off' --bin "$bin" "${@:2}"
}

machine awake --exact -- power -T sleeps
machine asleep -- power -t sleeps
