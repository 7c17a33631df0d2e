#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/mutants/gate.sh [judge | detectors KERNEL | tests | core]: plants bugs and checks that
# they are reported. Prints TAP.
#
#   judge      the judge of a machine, which gets a bad one (the default)
#   detectors  the detectors of a debug kernel, with the kernel's own tests of them
#   tests      the tests of the device, which get bugs of the module
#   core       the tests of the wheel and of libtwheel in user space, which get bugs of these

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
