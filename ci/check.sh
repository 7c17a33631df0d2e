#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/check.sh begin TIER STAGE... | end: what make check and make check-full do before and
# after their stages (ci/stages.mk). The last line of the end is the sums. After
# a full run ci/reliability.sh comes before that.

. "$(dirname "$0")/../vm/lib.sh"

results=$build/results

begin() {
	local name

	rm -rf "$results"
	mkdir -p "$results"
	for name in "${@:2}"; do
		echo '0 1 0 unseen' >"$results/$name"
		rm -f "$logs/$name.log"
	done
	echo "$1 $(date -u +%F)" \
		"$(git -C "$top" describe --always --dirty 2>/dev/null || echo uncommitted)" \
		>"$results/.run"
	date +%s >"$results/.begun"
}

end() {
	local tier day commit minutes made

	grep -l unseen "$results"/* | sed 's|.*/|never ended: |' || true
	read -r tier day commit <"$results/.run"
	minutes=$((($(date +%s) - $(cat "$results/.begun")) / 60))
	if [ "$tier" = full ]; then
		made=$(find "$cache/kernels" -mindepth 2 -maxdepth 2 -name bzImage \
			-cnewer "$results/.begun" 2>/dev/null | wc -l) || true
		echo "1 $day $commit $minutes $made" >"$results/.run"
		"$top/ci/reliability.sh" || true
	fi
	echo "after $minutes minutes"
	cat "$results"/* | awk '
		{ passed += $1; failed += $2; skipped += $3 }
		END {
			printf "%d passed, %d failed", passed, failed
			if (skipped)
				printf ", %d skipped", skipped
			print ""
			exit failed || skipped
		}'
}

"$@"
