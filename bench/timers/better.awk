#!/usr/bin/awk -f
# SPDX-License-Identifier: GPL-2.0
#
# better.awk ROWS.tsv...: merges the rows of several runs. Of each row, it prints the cheapest,
# because other programs on the machine only add time. The cost of a heartbeat is the difference to
# its generator, which is backend "none", so all rows of a heartbeat come from the run with the
# cheapest generator.

BEGIN {
	FS = "\t"
}

FNR == 1 {
	nr_runs++
}

# Headers and comments.
FNR == 1 || /^#/ {
	if (nr_runs == 1)
		print
	next
}

{
	# The pattern contains the factor of the compressed time, which may differ.
	pattern = $6
	sub(/\/.*/, "", pattern)
	group = $1 SUBSEP $2 SUBSEP $4 SUBSEP $5 SUBSEP pattern
	key = group SUBSEP $3
	if (!(key in number)) {
		number[key] = ++nr_keys
		group_of[nr_keys] = group
	}
	row[number[key], nr_runs] = $0
	cost[number[key], nr_runs] = $8 == "Mop/s" ? -$7 : $7
	if ($2 == "heartbeat" && $3 == "none" && (!(group in quiet) || $7 < none[group])) {
		none[group] = $7
		quiet[group] = nr_runs
	}
}

END {
	for (i = 1; i <= nr_keys; i++) {
		best = 0
		for (run = 1; run <= nr_runs; run++)
			if ((i, run) in row && (!best || cost[i, run] < cost[i, best]))
				best = run
		if (group_of[i] in quiet && (i, quiet[group_of[i]]) in row)
			best = quiet[group_of[i]]
		print row[i, best]
	}
}
