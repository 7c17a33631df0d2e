#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# make check: runs every test there is. A line for each stage, what failed in
# full, and the sums on the last line. The whole output of a stage is in
# build/logs/STAGE.log.

. "$(dirname "$0")/lib.sh"

kernels=(6.12 6.1)

# stage NAME tap|plain COMMAND...: runs it, and reports when it has ended.
# Beware: set -e is off in a function that is run like this.
stage() {
	local name=$1 tap=0 status=0 start=$SECONDS report passed failed skipped
	[ "$2" = plain ] || tap=1
	shift 2

	"$@" >"$logs/$name.log" 2>&1 </dev/null || status=$?
	report=$(awk -v status="$status" -v tap="$tap" -v counts="$results/$name" \
		-f "$top/vm/tally.awk" "$logs/$name.log")
	read -r passed failed skipped <"$results/$name"
	(
		flock 8
		printf '%-12s %5d passed, %d failed, %d skipped %6d s\n' "$name" \
			"$passed" "$failed" "$skipped" $((SECONDS - start))
		[ -z "$report" ] || printf '%s\n' "$report"
	) 8>"$results/.lock"
}

build_all() {
	local kernel

	"$top/vm/programs.sh" || return
	for kernel in "${kernels[@]}"; do
		"$top/vm/module.sh" "$kernel" || return
	done
}

results=$build/results
rm -rf "$results"
mkdir -p "$results"
# A stage that dies without a word leaves this behind.
for name in build vm-6.12 vm-6.1 gate kunit-6.12 kunit-6.1 lint model core coverage \
	lib fuzz packaging; do
	echo "0 1 0" >"$results/$name"
done

# However this ends, the sums are its last line.
sums() {
	cat "$results"/* | awk '
		{ passed += $1; failed += $2; skipped += $3 }
		END {
			printf "%d passed, %d failed", passed, failed
			if (skipped)
				printf ", %d skipped", skipped
			print ""
			exit failed || skipped
		}' || exit 1
}
trap sums EXIT

"$top/vm/deps.sh" check
stage build plain build_all

# Two lanes. A machine has virtual processors of its own, which notice when
# they have to wait for a real one; so the rest yields.
(
	stage vm-6.12 tap "$top/vm/suite.sh" 6.12
	stage vm-6.1 tap "$top/vm/suite.sh" 6.1
	stage gate tap "$top/vm/gate.sh"
) &
(
	renice -n 19 "$BASHPID" >/dev/null
	stage kunit-6.12 tap "$top/kunit/run.sh" 6.12
	stage kunit-6.1 tap "$top/kunit/run.sh" 6.1
	stage lint tap "$top/vm/lint.sh"
	stage model tap "$top/doc/model/run.sh"
	stage core tap make -C "$top/userspace/core" check
	stage coverage plain "$top/kunit/coverage.sh"
	stage lib tap "$top/userspace/lib/check.sh"
	stage fuzz tap "$top/userspace/core/fuzz.sh"
	stage packaging tap "$top/packaging/test.sh"
) &
wait
