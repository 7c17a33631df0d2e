#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/coverage.sh core | module: how much its tests reach of the wheel in user space (twheel.c,
# by the KUnit suites), or of the module in a kernel, by one machine that runs the suite and
# the failing calls. Fails below 95 % of the lines or 90 % of the branches. Prints TAP; which
# lines were not reached is left in build/coverage-core or build/coverage-module.
#
# A line that no test can reach may say GCOVR_EXCL_LINE, and has to say why. A branch of a
# line that only checks what cannot be (lockdep_assert_held, WARN_ON) does not count, because
# one of the two is for a kernel that is broken. Nor does a branch of the kernel's macros for
# bits, most of which ask whether a number is constant, nor of unsafe_copy_to_user(), which
# has one for each 8 bytes.

. "$(dirname "$0")/../vm/lib.sh"

min_lines=95
min_branches=90
not_counted='.*(lockdep_assert|WARN_ON|_bit\(|unsafe_copy_to_user)'

need gcc-12 gcovr python3
out=$build/coverage-${1-}
rm -rf "$out"
case ${1-} in
core)
	sources='twheel\.c'
	quietly make -s -C "$top/tests/core" COVERAGE=1 O="$out" all
	quietly "$out/core_test"
	;;
module)
	sources='twheel[a-z_]*\.[ch]'
	quietly "$top/ci/programs.sh"
	quietly "$top/ci/programs.sh" stress
	quietly "$top/ci/suite.sh" debug 64 --name coverage --gcov "$out" \
		--bin "$build/stress/fail_nth" --run fail_nth
	;;
*)
	die "coverage of what?"
	;;
esac

cd "$out"
quietly gcov-12 -b -c ./*.gcda
gcovr --use-gcov-files --keep --root / --filter ".*/$sources\$" \
	--exclude-branches-by-pattern "$not_counted" --json-summary sums.json --txt lines.txt . 2>gcovr.log ||
	{ cat gcovr.log; die "no coverage"; }
gcovr --use-gcov-files --keep --root / --filter ".*/$sources\$" --branches \
	--exclude-branches-by-pattern "$not_counted" --txt branches.txt . 2>>gcovr.log
sed 's/^/# /' lines.txt
python3 - "$1" $min_lines $min_branches <<'END'
import json, sys
sums, bad = json.load(open("sums.json")), 0
print("1..2")
for n, (kind, least) in enumerate(zip(("line", "branch"), map(int, sys.argv[2:])), 1):
    reached = sums[kind + "_percent"] or 0
    name = {"line": "lines", "branch": "branches"}[kind]
    # The figures of a full run are those of the module.
    prefix = "" if sys.argv[1] == "module" else "core_"
    print(f"# target percent.{prefix}{name} {reached} {least}")
    print(f"{'not ' * (reached < least)}ok {n} {reached} % of the {name}")
    bad |= reached < least
sys.exit(bad)
END
