#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/build.sh: builds what the stages run: all programs, and the module for both kernels.
# Prints TAP.

. "$(dirname "$0")/../vm/lib.sh"
# shellcheck source=../tests/lib/tap.sh
. "$top/tests/lib/tap.sh"

programs() {
	"$top/ci/programs.sh"
	"$top/ci/programs.sh" stress
	[ -z "${FULL-}" ] || "$top/ci/programs.sh" stress32
}

modules() {
	"$top/vm/module.sh" 6.12
	"$top/vm/module.sh" 6.1
}

"$top/vm/deps.sh" check

# built PART PID: what it said counts only if it fails, and then its end.
built() {
	local is=0

	wait "$2" || is=1
	[ $is = 0 ] || tail -n 30 "$logs/build-$1.output" | sed 's/^/# /'
	verdict $is "$1"
}

# Neither has work for two processors all the time.
programs >"$logs/build-programs.output" 2>&1 &
programs=$!
modules >"$logs/build-modules.output" 2>&1 &
built modules $!
built programs $programs
the_end
