#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/reliability.sh [--write]: what the last whole run of make check, or make
# check-full, has shown, from its tallies and logs: a table of its stages, and one
# of the figures that these have printed. --write puts both into
# doc/reliability.md, and is refused unless the run was a full one in which
# nothing failed and no stage was cut. What a stage has cut itself is in the table.

. "$(dirname "$0")/../vm/lib.sh"

doc=$top/doc/reliability.md
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

# What was counted in thousands, said to be a share, or is a figure of its kind
# whatever it is: of each stage the lines of TAP that tell it. A number that is
# only a name (a seed, a size) tells nothing.
figures() {
	local name

	echo '| stage | figure |'
	echo '|---|---|'
	names | while read -r name; do
		# What is planted has figures of its own, which nobody is to count on.
		[[ -e $logs/$name.log && $name != gate* ]] || continue
		awk -v stage="$name" '
			BEGIN {
				many = "[0-9][0-9][0-9][0-9]+ ([a-z]+ )?(operations|armings|" \
					"expirations|events|loops|calls|opens|looks|timers|" \
					"words|times|states|programs|exchanges|blocks|flips)"
				share = "[0-9.]+ % of (lines|branches)|[0-9]+ (loops|rounds|" \
					"places|unloads|killed)|late by|needs|:cut:"
			}
			{ sub(/\r$/, "") }
			/^ *(ok [0-9]+|#) / || $0 ~ share {
				if ($0 !~ many && $0 !~ share)
					next
				sub(/^ *(ok [0-9]+( -)?|#) /, "")
				# Neither where a test said it, nor what two runs are compared by.
				sub(/^[^ ]*\.c:[0-9]+:/, "")
				sub(/, hash [0-9a-f]+$/, "")
				gsub(/ +/, " ")
				gsub(/\|/, "\\|")
				if (!seen[$0]++)
					print "| " stage " | " $0 " |"
			}' "$logs/$name.log"
	done
}

tables() {
	echo "Commit $commit, $day, on $(nproc) processors, ${minutes:-?} minutes," \
		"in which ${made:-?} kernels were fetched or built."
	echo
	stages
	echo
	figures
}

if [ "${1:-}" != --write ]; then
	tables
	exit
fi

[ "$tier" = 1 ] || die "that was not make check-full"
cat "$results"/* | awk '{ bad += $2 + $3 } END { exit bad > 0 }' ||
	die "a stage has failed, or was cut"
tables >"$logs/reliability.new"
awk -v new="$logs/reliability.new" '
	/^<!-- end of the run/ { inside = 0 }
	!inside
	/^<!-- the run/ {
		inside = found = 1
		while ((getline line < new) > 0)
			print line
	}
	END { exit !found }' "$doc" >"$logs/reliability.md" || die "$doc has no place for it"
cp "$logs/reliability.md" "$doc"
