#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# How much of twheel.c the suites reach: by gcov, from the build of the same
# suites for user space (user-mode Linux needs three changes to the kernel for
# that). Fails below 95 % of the lines or 90 % of the branches; which of them
# were not reached is left in build/coverage/twheel.c.gcov. Prints TAP.
set -eu

min_lines=95
min_branches=90

top=$(cd "$(dirname "$0")/.." && pwd)
out=$top/build/coverage

make -s -C "$top/tests/core" COVERAGE=1 O="$out" clean all
"$out/core_test" > "$out/ktap" || { cat "$out/ktap"; exit 1; }

cd "$out"
LC_ALL=C gcov -b -o "$out" "$top/twheel.c" > gcov.log
awk -v min_lines=$min_lines -v min_branches=$min_branches '
	/^File / { ours = $0 ~ /\/twheel\.c.$/ }
	ours && sub(/^Lines executed:/, "") { lines = $1 + 0 }
	ours && sub(/^Taken at least once:/, "") { branches = $1 + 0 }
	END {
		bad = lines < min_lines || branches < min_branches
		printf "1..1\n%sok 1 twheel.c: %.2f %% of lines, %.2f %% of branches\n",
			bad ? "not " : "", lines, branches
		exit bad
	}
' gcov.log
