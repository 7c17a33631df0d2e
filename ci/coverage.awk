# SPDX-License-Identifier: GPL-2.0
#
# What gcov has written (-b -c), FILE.gcov of each source, judged as ci/coverage.sh
# says: lines of TAP, and what was not reached.
#
#   -v min_lines=PERCENT -v min_branches=PERCENT
#   -v reasons=FILE   lines of FUNCTION | LINE | WHY

function percent(part, all) { return all ? 100 * part / all : 100 }
function report(name, l, lh, b, bh) {
	printf "# %-16s %6.2f %% of lines (%d of %d), %6.2f %% of branches (%d of %d)\n",
		name, percent(lh, l), lh, l, percent(bh, b), bh, b
}
function not_reached() {
	if (key in reason)
		printf "# %s:%d: %s: %s: %s\n", file, number, function_name, text,
			reason[key]
	else {
		printf "# %s:%d: %s: %s: not reached\n", file, number, function_name, text
		unexplained++
	}
}
BEGIN {
	macros = "lockdep_assert|WARN_ON|_bit\\(|unsafe_copy_to_user"
	while ((getline line < reasons) > 0) {
		if (line ~ /^#/ || line !~ /\|/)
			continue
		split(line, part, / *\| */)
		reason[part[1] "|" part[2]] = part[3]
	}
}
FNR == 1 {
	file = FILENAME
	sub(/\.gcov$/, "", file)
	order[++nr] = file
	function_name = ""
}
/^function / { function_name = $2; next }
/^branch / {
	if (line_text ~ macros)
		next
	branches[file]++
	if ($3 == "taken" && $4 + 0 > 0)
		taken[file]++
	else if (chosen)
		not_reached()
	next
}
/^call / { next }
/^ *[-#=0-9*]+:/ {
	count = $1
	sub(/:.*/, "", count)
	line_text = $0
	sub(/^[^:]*:[^:]*:/, "", line_text)
	number = $0
	sub(/^[^:]*: */, "", number)
	sub(/:.*/, "", number)
	if (count == "-")
		next
	lines[file]++
	text = line_text
	gsub(/^[ \t]+|[ \t]+$/, "", text)
	key = function_name "|" text
	there[key] = 1
	if (text ~ macros && text ~ /(^|[^a-z_])(if|while|for|switch) \(| \? / ||
	    text ~ macros && text !~ /assert/ && text ~ /&&|\|\|/) {
		printf "# %s:%d: %s: decides, and is left out\n", file, number, text
		uncounted++
	}
	chosen = 0
	if (count !~ /^#|^=|^0\*?$/) {
		hit[file]++
		chosen = text ~ /\?.*(-E[A-Z]+|VM_FAULT_SIGBUS)/
	} else if (text ~ /-E[A-Z]+|return err|PTR_ERR\(|goto |VM_FAULT_SIGBUS/) {
		not_reached()
	}
}
END {
	for (i = 1; i <= nr; i++) {
		f = order[i]
		report(f, lines[f], hit[f], branches[f], taken[f])
		l += lines[f]; lh += hit[f]; b += branches[f]; bh += taken[f]
	}
	for (key in reason)
		if (!(key in there)) {
			printf "# coverage.reasons: %s: there is no such line\n", key
			unexplained++
		}
	pl = percent(lh, l); pb = percent(bh, b)
	printf "%sok 1 the module in the kernel: %.2f %% of lines\n",
		pl < min_lines ? "not " : "", pl
	printf "%sok 2 the module in the kernel: %.2f %% of branches\n",
		pb < min_branches || uncounted ? "not " : "", pb
	printf "%sok 3 each error return was reached, or has a reason\n", unexplained ? "not " : ""
	printf "# target percent.lines %.2f %d\n# target percent.branches %.2f %d\n",
		pl, min_lines, pb, min_branches
	print "1..3"
	exit pl < min_lines || pb < min_branches || uncounted || unexplained || !l || !b
}
