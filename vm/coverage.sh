#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# vm/coverage.sh [LOG-DIRECTORY]: how much of the module its tests reach, in a
# kernel: by gcov, of one machine that runs the suite and the failing calls. Fails
# below 95 % of the lines or 90 % of the branches, and for each error return that
# was not reached and has no reason in vm/coverage.reasons, and for each reason whose
# line is not there any more. One that shares its line with what is returned otherwise
# was reached if each branch of that line was.
#
# The directory (build/coverage-kernel) is left with what was counted: FILE.gcov
# has a count for each line. Given one, it only reads what is there.
#
# A branch of a line that only checks what cannot be (lockdep_assert_held, WARN_ON)
# does not count: one of the two is for a kernel that is broken. Nor does one of the
# kernel's macros for bits, most of whose branches ask whether a number is constant. No
# such line may decide anything itself, as that would not be counted either.

. "$(dirname "$0")/lib.sh"

min_lines=95
min_branches=90
files=(twheel_core twheel_slots twheel_timers twheel_chrdev)

if [ $# -eq 0 ]; then
	out=$build/coverage-kernel
	rm -rf "$out"
	quietly "$top/vm/programs.sh"
	quietly "$top/vm/programs.sh" stress
	"$top/vm/suite.sh" debug 64 --exact --name coverage --gcov "$out" \
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
# What a file of the module is called there: of the headers, three have code of ours.
sources=(twheel.c twheel.h twheel_slots.c twheel_slots.h twheel_timers.c twheel_timers.h
	twheel_chrdev.c)

awk -v min_lines=$min_lines -v min_branches=$min_branches \
	-v reasons="$top/vm/coverage.reasons" '
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
		macros = "lockdep_assert|WARN_ON|_bit\\("
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
			chosen = text ~ /\?.*-E[A-Z]+/
		} else if (text ~ /-E[A-Z]+|return err|goto |VM_FAULT_SIGBUS/) {
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
		print "1..3"
		exit pl < min_lines || pb < min_branches || uncounted || unexplained || !l || !b
	}
' "${sources[@]/%/.gcov}"
