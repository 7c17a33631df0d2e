#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/power.sh [KERNEL]: tests that timers survive processors that go offline, and a suspended
# machine. Two machines run these tests, because the clock of an exact machine stops while it is
# suspended, so that nothing would wake it. suspend.pm_test_delay shortens the five seconds for
# which the kernel waits in its test mode.

. "$(dirname "$0")/../vm/lib.sh"

kernel=${1:-6.12}
bin=$build/power
quietly "$top/ci/programs.sh" power

# machine NAME OPTION... -- COMMAND: runs a machine without an HPET, with which it would not wake
# up.
machine() {
	"$top/vm/run.sh" --kernel "$kernel" --name "power-$kernel-$1" --raw --limit 600 \
		--timeout 900 --append 'no_console_suspend suspend.pm_test_delay=1' \
		--qemu '-machine pc,hpet=off' --bin "$bin" "${@:2}"
}

machine awake --exact -- power -T sleeps
machine asleep -- power -t sleeps
