#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/core/check.sh: runs the suites of the wheel in user space, with sanitizers. Prints TAP.

. "$(dirname "$0")/tree.sh"

out=$build/core
make -s -C "$top/tests/core" O="$out" all >&2
"${fixed[@]}" "$out/core_test" >"$out/ktap" || status=$?
flat "$out/ktap"
exit "${status:-0}"
