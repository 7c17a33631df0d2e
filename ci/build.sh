#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/build.sh: builds what the stages run: all programs, and the module for both kernels.
# Prints TAP.

. "$(dirname "$0")/../vm/lib.sh"

"$top/vm/deps.sh" check
"$top/ci/programs.sh" 2>&1 | sed 's/^/# /'
"$top/ci/programs.sh" stress 2>&1 | sed 's/^/# /'
[ -z "${FULL-}" ] || "$top/ci/programs.sh" stress32 2>&1 | sed 's/^/# /'
"$top/vm/module.sh" 6.12 2>&1 | sed 's/^/# /'
"$top/vm/module.sh" 6.1 2>&1 | sed 's/^/# /'
echo 'ok 1 all is built'
echo '1..1'
