#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/stage.sh NAME COMMAND...: runs a stage of make check, whose TAP goes to
# build/logs/NAME.log. When it has ended, prints a line with its counts, and what failed in
# full. build/results/NAME has the counts for ci/check.sh. The stage has TARGETS of the
# targets that ci/tally.awk judges.
#
# make check-full takes TWHEEL_CHECK_MINUTES (90). A stage that would begin in the last five
# is cut, and counts as skipped; one that runs when they are over is ended, and counts as
# failed.

. "$(dirname "$0")/../vm/lib.sh"

name=$1
shift
cd "$top"
results=$build/results
log=$logs/$name.log
mkdir -p "$results"
# What a stage leaves that dies without a word.
echo '0 1 0 unseen' >"$results/$name"
rm -f "$log"

# report TEXT: the counts, and @TEXT under them.
report() {
	local passed failed skipped

	read -r passed failed skipped <"$results/$name"
	printf '%-14s %5d passed, %d failed, %d skipped %6d s\n' "$name" "$passed" "$failed" \
		"$skipped" "$SECONDS"
	[ -z "$1" ] || printf '%s\n' "$1"
	# In the midst of others, the counts are enough.
	[ -n "${IN_CHECK-}" ] || [ "$((failed + skipped))" = 0 ]
}

left=
if [ -n "${FULL-}" ] && [ -n "${IN_CHECK-}" ] && [ "$name" != build ]; then
	left=$(($(cat "$results/.begun") + ${TWHEEL_CHECK_MINUTES:-90} * 60 - $(date +%s)))
	if [ "$left" -lt 300 ]; then
		echo '0 0 1' >"$results/$name"
		report '    cut: the time is soon over' || exit
		exit 0
	fi
fi
status=0
${left:+timeout "$left"} "$@" >"$log" 2>&1 </dev/null || status=$?
text=$(awk -v status="$status" -v tap=1 -v targets="${TARGETS:-0}" \
	-v counts="$results/$name" -f "$top/ci/tally.awk" "$log")
if [ -n "$left" ] && [ "$status" -eq 124 ]; then
	text+=$'\n''    cut: the time is over'
fi
# What had a budget of its own, and was cut by that.
cuts=$(tr -d '\r' <"$log" | LC_ALL=C sed -n 's/.*[^a-z_]\([a-z_]*:cut: .*\)/    \1/p')
text+=${text:+${cuts:+$'\n'}}$cuts
report "$text"
