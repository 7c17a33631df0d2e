#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/build.sh: builds what the stages run: all programs, and the module for both kernels.
# Prints TAP.

. "$(dirname "$0")/../vm/lib.sh"

"$top/vm/deps.sh" check
# build COMMAND...: what it says counts only if it fails, and then its end.
build() {
	"$@" >"$logs/build.output" 2>&1 && return
	tail -n 30 "$logs/build.output" | sed 's/^/# /'
	echo "not ok 1 $*"
	echo '1..1'
	exit 1
}
build "$top/ci/programs.sh"
build "$top/ci/programs.sh" stress
[ -z "${FULL-}" ] || build "$top/ci/programs.sh" stress32
build "$top/vm/module.sh" 6.12
build "$top/vm/module.sh" 6.1
echo 'ok 1 all is built'
echo '1..1'
