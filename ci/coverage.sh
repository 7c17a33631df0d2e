#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/coverage.sh [LOG-DIRECTORY]: how much of the module its tests reach, in a
# kernel: by gcov, of one machine that runs the suite and the failing calls. Fails
# below 95 % of the lines or 90 % of the branches, and for each error return that
# was not reached and has no reason in ci/coverage.reasons, and for each reason whose
# line is not there any more. One that shares its line with what is returned otherwise
# was reached if each branch of that line was.
#
# The directory (build/coverage-kernel) is left with what was counted: FILE.gcov
# has a count for each line. Given one, it only reads what is there.
#
# A branch of a line that only checks what cannot be (lockdep_assert_held, WARN_ON)
# does not count: one of the two is for a kernel that is broken. Nor does one of the
# kernel's macros for bits, most of whose branches ask whether a number is constant, nor
# unsafe_copy_to_user(), which has one for each 8 bytes. No such line may decide anything
# itself, as that would not be counted either.

. "$(dirname "$0")/../vm/lib.sh"

files=(twheel_core twheel_quota twheel_store twheel_slots twheel_word twheel_marks twheel_timers
	twheel_events twheel_turn twheel_ioctl twheel_chrdev)

if [ $# -eq 0 ]; then
	out=$build/coverage-kernel
	rm -rf "$out"
	quietly "$top/ci/programs.sh"
	quietly "$top/ci/programs.sh" stress
	"$top/ci/suite.sh" debug 64 --name coverage --gcov "$out" \
		--bin "$build/stress/fail_nth" --run fail_nth >"$logs/coverage.suite.log" 2>&1 || {
		tail -n 40 "$logs/coverage.suite.log"
		die "the suite fails"
	}
else
	out=$1
fi

cd "$out"
need gcc-12
gcov-12 -b -c "${files[@]/%/.gcda}" >gcov.log 2>&1
# What a file of the module is called there: of the headers, two have code of ours.
sources=(twheel.c twheel_quota.c twheel_store.c twheel_store.h twheel_slots.c twheel_word.c
	twheel_marks.c twheel_timers.c twheel_timers.h twheel_events.c twheel_turn.c twheel_ioctl.c twheel_chrdev.c)

awk -v min_lines=95 -v min_branches=90 -v reasons="$top/ci/coverage.reasons" \
	-f "$top/ci/coverage.awk" "${sources[@]/%/.gcov}"
