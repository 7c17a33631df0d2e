#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/reliability.sh [--write]: what the last whole run of make check, or make
# check-full, has shown, from its tallies and logs. A table of its stages and one of the
# figures that these have printed go to build/reliability.md. A summary of 15 lines at most
# is printed.
#
# --write puts the summary into doc/testing.md. It is refused unless the run was a full one
# in which nothing failed and no stage was cut.

. "$(dirname "$0")/../vm/lib.sh"

doc=$top/doc/testing.md
results=$build/results
[ -e "$results/.run" ] || die "nothing has been run"
read -r tier day commit minutes made <"$results/.run"

# The stages, in the order in which they ended.
names() {
	find "$results" -type f ! -name '.*' -printf '%T@ %f\n' | sort -n | cut -d ' ' -f 2
}

stages() {
	local name passed failed skipped

	echo '| stage | passed | failed | skipped |'
	echo '|---|---|---|---|'
	names | while read -r name; do
		read -r passed failed skipped _ <"$results/$name"
		echo "| $name | $passed | $failed | $skipped |"
	done
}

# What each stage had to do and has done, and what it was cut by.
figures() {
	local name

	echo '| stage | figure | reached | needed |'
	echo '|---|---|---|---|'
	names | while read -r name; do
		# What is planted has figures of its own, which nobody is to count on.
		[[ -e $logs/$name.log && $name != gate* ]] || continue
		awk -v stage="$name" '
			{ sub(/\r$/, "") }
			$1 == "#" && $2 == "target" { print "| " stage " | " $3 " | " $4 " | " $5 " |" }
			/late by|:cut:/ {
				sub(/^# [^ ]*\.c:[0-9]+:/, "")
				gsub(/\|/, "\\|")
				print "| " stage " | " $0 " | | |"
			}' "$logs/$name.log"
	done
}

heading() {
	echo "Commit $commit, $day, $(nproc) processors, ${minutes:-?} minutes;" \
		"kernels fetched or built: ${made:-?}."
	echo
}

# How targets begin whose sum is in the summary, and what that is.
chosen() {
	cat <<-'END'
		percent.lines	lines of the module reached, in percent
		percent.branches	branches reached, in percent
		places.	places of calls that failed in turn
		loops.	loops of two calls that race
		rounds.open_arm_close	wheels opened, armed and closed
		rounds.killed	programs killed with wheels in use
		calls.	guided calls of the fuzzer
		events.	events compared, none early
		seconds.	seconds of the soak, with right sums
	END
}

# 15 lines at most.
summary() {
	heading
	echo '| what | reached |'
	echo '|---|---|'
	names | while read -r name; do
		cat "$results/$name"
	done | awk '
		{ passed += $1; failed += $2; skipped += $3 }
		END {
			printf "| results that passed, failed, were skipped | %d, %d, %d |\n",
				passed, failed, skipped
		}'
	awk -F '\t| *[|] *' '
		NR == FNR {
			begin[NR] = $1
			what[NR] = $2
			next
		}
		{
			for (i in begin)
				if (index($3, begin[i]) == 1)
					sum[i] += $4
		}
		END {
			for (i = 1; i in begin; i++)
				if (i in sum)
					print "| " what[i] " | " sum[i] " |"
		}' <(chosen) <(figures)
}

{
	heading
	stages
	echo
	figures
} >"$build/reliability.md"
summary >"$logs/reliability.summary"
cat "$logs/reliability.summary"
echo
echo "All figures are in build/reliability.md."

[ "${1:-}" = --write ] || exit 0

[ "$tier" = 1 ] || die "that was not make check-full"
cat "$results"/* | awk '{ bad += $2 + $3 } END { exit bad > 0 }' ||
	die "a stage has failed, or was cut"
awk -v new="$logs/reliability.summary" '
	/^<!-- end run/ {
		inside = 0
		print ""
	}
	!inside
	/^<!-- begin run/ {
		inside = found = 1
		print ""
		while ((getline line < new) > 0)
			print line
	}
	END { exit !found }' "$doc" >"$logs/testing.md" || die "$doc has no place for it"
cp "$logs/testing.md" "$doc"
