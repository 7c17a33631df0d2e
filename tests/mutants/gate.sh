#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/mutants/gate.sh [judge | detectors KERNEL | tests | core]: what goes wrong must be seen
# to go wrong. Prints TAP.
#
#   judge      of a machine, given one that is bad (the default)
#   detectors  of a debug kernel: the kernel's own tests of them
#   tests      of the device, given bugs of the module
#   core       the tests of the wheel and of libtwheel in user space, given bugs of these

. "$(dirname "$0")/../../vm/lib.sh"
. "$top/tests/mutants/lib.sh"

kind=${1:-judge}
kernel=${2-}
case $kind in
judge | tests | core) ;;
detectors) [ -e "$top/vm/config/$kernel.config" ] || die "no detectors in kernel \"$kernel\"" ;;
*) die "no bugs for $kind" ;;
esac
# shellcheck source=/dev/null
. "$top/tests/mutants/$kind.sh"
done_testing
