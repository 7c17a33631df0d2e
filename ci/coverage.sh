#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/coverage.sh core | module: measures the coverage of the wheel in user space (twheel.c, by the
# KUnit suites), or of the module in a VM that runs the suite of the device and fail_nth. Fails
# below 95 % of the lines or 90 % of the branches. Prints TAP. The lines that were not reached are
# in build/coverage-core or build/coverage-module.
#
# A line that no test can reach may be marked with GCOVR_EXCL_LINE and a reason. Three kinds of
# branches do not count: those of lockdep_assert_held() and WARN_ON(), because one of the two is
# only taken if the kernel is broken; those of the kernel's macros for bits, because most of them
# ask whether a number is constant; and those of unsafe_copy_to_user(), which has one per 8 bytes.

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
	die "usage: ci/coverage.sh core | module"
	;;
esac

cd "$out"
quietly gcov-12 -b -c ./*.gcda
gcovr --use-gcov-files --keep --root / --filter ".*/$sources\$" \
	--exclude-branches-by-pattern "$not_counted" --json-summary sums.json --txt lines.txt . 2>gcovr.log ||
	{ cat gcovr.log; die "gcovr has failed: see its messages above"; }
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
    # Targets without a prefix are those of the module.
    prefix = "" if sys.argv[1] == "module" else "core_"
    print(f"# target percent.{prefix}{name} {reached} {least}")
    print(f"{'not ' * (reached < least)}ok {n} {reached} % of the {name}")
    bad |= reached < least
sys.exit(bad)
END
