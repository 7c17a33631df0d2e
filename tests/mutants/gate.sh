#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/mutants/gate.sh [KERNEL]: what goes wrong must be seen to go wrong. Plants each kind
# of misbehavior, and expects the rig to find it. KERNEL is a debug kernel, or the name
# of another file beside this one, which says what it plants: stock, canary, stalls, tests,
# core, kunit. Without one, the rigs themselves are given what is broken. Prints TAP.

. "$(dirname "$0")/../../vm/lib.sh"
. "$top/tests/mutants/lib.sh"

kernel=${1:-rigs}
[[ $kernel != lib && $kernel != gate && -e $top/tests/mutants/$kernel.sh ]] ||
	die "no bugs for kernel $kernel"
# shellcheck source=/dev/null
. "$top/tests/mutants/$kernel.sh"
the_end
