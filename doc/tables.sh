#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# doc/tables.sh [--check] [DOCUMENT...]: writes the parts of documents that are generated.
#
#   first      the first program, from userspace/examples/first.c
#   epoll      the marked lines of userspace/examples/loop_epoll.c, also in libtwheel(3)
#   examples   the question of each example, from its first comment
#   guarantees the tests of each guarantee, from the tags G1 to G11 in their comments
#   cost       the better rows of doc/bench/rows.tsv and rows2.tsv, for the backends that most
#              programs use
#   costs      more rows, for all backends, and beside twheel and a private wheel what they cost
#              in doc/bench/xeon.tsv, the run of another machine
#
# Each part is between the lines "<!-- begin NAME -->" and "<!-- end NAME -->". Parts with other
# names are not changed. The letter to the kernel's list contains a table of costs without such
# lines, and it ends at the first empty line.
#
# With --check, this writes nothing. It prints the differences of parts that are out of date, names
# of tests that do not exist, and lines of output that the demo does not print; if there are any, it
# exits with status 1.

# fill() calls these functions by the names in a document.
# shellcheck disable=SC2317

set -euo pipefail
export LC_ALL=C

cd "$(dirname "$0")/.."
documents=(README.md doc/testing.md doc/bench/README.md userspace/examples/README.md
	doc/man/libtwheel.3 packaging/upstream/series.txt)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
rows=$dir/rows.tsv
bench/timers/better.awk doc/bench/rows.tsv doc/bench/rows2.tsv >"$rows"

first() {
	echo '```c'
	# Leave out the license and the question.
	sed 1,2d userspace/examples/first.c
	echo '```'
}

# epoll_lines: prints the lines between the marks, without their indentation.
epoll_lines() {
	sed -n '/begin epoll/,/end epoll/{/ epoll /d;s/^\t//;p}' userspace/examples/loop_epoll.c
}

epoll() {
	echo '```c'
	epoll_lines
	echo '```'
}

examples() {
	local file question

	echo '| program | question |'
	echo '|---|---|'
	for file in userspace/examples/*.c; do
		[[ $file != */idle_clients.c ]] || continue
		question=$(sed -n '1,4s,^[/ ]\* \(.*?\).*,\1,p' "$file")
		[ -n "$question" ] || {
			echo "doc/tables.sh: the first comment of $file is not a question" >&2
			return 1
		}
		echo "| ${file##*/} | $question |"
	done
}

# tags FILE...: prints "NUMBER TEST" for each tag. A tag in the comment of a test or a fixture
# applies to that; a tag in any other comment applies to the whole program.
tags() {
	awk '
		FNR == 1 {
			n = split(FILENAME, part, "/")
			program = part[n]
			sub(/(_kunit)?\.c$/, "", program)
			whole = part[n - 1] "/" program
			tag = ""
		}
		/^\/\*/ {
			tag = ""
			inside = 1
		}
		inside {
			line = $0
			while (match(line, /(^|[^A-Za-z0-9_])G(1[01]|[1-9])([^A-Za-z0-9_]|$)/)) {
				word = substr(line, RSTART, RLENGTH)
				gsub(/[^0-9]/, "", word)
				tag = tag " " word
				# The character behind it may be the one before the next.
				line = substr(line, RSTART + RLENGTH - 1)
			}
			if (/\*\//)
				inside = 0
			next
		}
		/^$/ { next }
		tag != "" {
			test = ""
			if (/^TEST\(|^PAIR\(|^STORM\(/) {
				test = $0
				sub(/^[A-Z]*\(/, "", test)
				sub(/[,)].*/, "", test)
				test = (/^TEST/ ? "global" : program) "." test
			} else if (/^TEST_F/) {
				test = $0
				sub(/^[A-Z_]*\(/, "", test)
				sub(/, /, ".", test)
				sub(/[,)].*/, "", test)
			} else if (/^static void .*struct kunit/) {
				test = $3
				sub(/\(.*/, "", test)
				test = program "." test
			} else if (/^FIXTURE\(/) {
				test = $0
				sub(/^FIXTURE\(/, "", test)
				sub(/\).*/, ".*", test)
			} else {
				test = whole
			}
			n = split(tag, number, " ")
			for (i = 1; i <= n; i++)
				if (!seen[number[i], test]++)
					print number[i], test
		}
		{ tag = "" }' "$@"
}

guarantees() {
	local words=('never early' 'late by a known amount' 'exactly once' 'never lost'
		'cancel is final' 'in order' 'same steps for any number of timers' 'bounded'
		'the mapping is not trusted' 'limits are errors' 'close frees everything')
	local files i tests

	mapfile -t files < <(find tests kunit \
		tests/model \( -name '*.c' -o -name '*.pml' \) | sort)
	tags "${files[@]}" | sort -u >"$dir/tags"
	echo '| | guarantee | tests |'
	echo '|---|---|---|'
	for i in {1..11}; do
		tests=$(sed -n "s/^$i \(.*\)/\`\1\`/p" "$dir/tags" | paste -sd, | sed 's/,/, /g')
		[ -n "$tests" ] || {
			echo "doc/tables.sh: no test has the tag G$i" >&2
			return 1
		}
		echo "| G$i | ${words[i - 1]} | $tests |"
	done
}

# table BACKENDS [RANGES]: reads lines of "op, n, threads, pattern, words", and prints a row for each
# with the ns of one operation in each of these backends, or as "xeon:BACKEND" on that machine.
# With RANGES, a cell of the first backend shows both runs if they differ by more than a tenth.
table() {
	awk -F '\t' -v backends="$1" -v ranges="${2-}" '
		# Returns the value in run 1 or 2, or the better one for run 0. Run 3 is that
		# of the other machine.
		function value(run, op, n, threads, pattern, backend,   key) {
			key = run SUBSEP op SUBSEP n SUBSEP threads SUBSEP pattern SUBSEP backend
			return key in of ? of[key] : ""
		}
		# Three digits, and a comma from 1,000 on.
		function shown(ns,   s) {
			if (ns == "")
				return ""
			s = ns < 10 ? sprintf("%.1f", ns) : sprintf("%.0f", ns)
			return s + 0 >= 1000 ? substr(s, 1, length(s) - 3) "," substr(s, length(s) - 2) : s
		}
		# Returns the ns of an operation of the row in a backend.
		function ns(run, b,   n, op, v) {
			if (sub(/^xeon:/, "", b))
				run = 3
			n = $2
			op = $1
			# Most backends have no row for "again", because it is the same as
			# "turnover".
			if (op == "again" && !((op, $3, b) in most))
				op = "turnover"
			# The number of timerfds is limited by the number of descriptors.
			if (b == "timerfd" && value(run, op, n, $3, $4, b) == "")
				n = most[op, $3, b]
			if ($3 > 1 && value(run, op, n, $3, $4, b) == "")
				b = b "+mutex"
			v = value(run, op, n, $3, $4, b)
			# A rate counts the operations of both threads, in millions a second.
			if (v != "" && $1 ~ /^rate_/)
				v = $3 * 1000 / v
			# The generator of the heartbeats is not part of their cost.
			if (v != "" && $1 == "heartbeat")
				v -= value(run, $1, n, $3, $4, "none")
			return v
		}
		FNR == 1 {
			file++
		}
		file <= 4 {
			if ($1 == "native" && $11 ~ /^(yes|early)$/) {
				sub(/\/.*/, "", $6)
				of[file - 1, $2, $4, $5, $6, $3] = $7 * ($8 == "us" ? 1000 : 1)
				if (file < 4)
					most[$2, $5, $3] = $4
			}
			next
		}
		{
			printf "| %s |", $5
			nr = split(backends, list, " ")
			for (i = 1; i <= nr; i++) {
				v = ns(0, list[i])
				a = ns(1, list[i])
				b = ns(2, list[i])
				w = a > b ? a : b
				if (i == 1 && ranges && a != "" && b != "" && w > 1.1 * v)
					printf " %s-%s |", shown(v), shown(w)
				else
					printf " %s |", shown(v)
			}
			print ""
		}' "$rows" doc/bench/rows.tsv doc/bench/rows2.tsv doc/bench/xeon.tsv -
}

cost() {
	echo '| ns of CPU for each operation | twheel | Tokio | Go | libuv | libev | timerfd | private wheel |'
	echo '|---|---|---|---|---|---|---|---|'
	table 'libtwheel tokio go libuv libev timerfd wheel' <<-'END'
		move	1000	1	random	move one of 1,000 timers
		move	100000	1	random	move one of 100,000
		again	1000	1	random	disarm one of 1,000, arm it again
		turn	100000	1	random	move one of 100,000, each in a 256-byte connection
		expire_own	100000	1	random	expire 100,000 within 1 s
	END
}

costs() {
	local names=' on a Xeon | private wheel | on a Xeon | lazy wheel | heap | Tokio | Go | libev | libevent | libuv | timerfd |'

	echo "| ns of CPU for each operation | twheel |$names"
	echo "|---|---|$(sed 's/[^|]//g; s/|/---|/g' <<<"$names")"
	table 'libtwheel xeon:libtwheel wheel xeon:wheel lazy heap tokio go libev libevent libuv timerfd' ranges <<-'END'
		move	1000	1	random	move, 1,000 timers
		move	100000	1	random	move, 100,000 timers
		move	1000000	1	random	move, 1,000,000 timers
		again	1000	1	random	disarm one of 1,000, arm it again
		turn	1000000	1	random	move, 64 ready connections of 1,000,000
		rate_move	10000	2	random	move, 10,000 timers, two threads
		pair	1000000	1	hot	arm and then disarm, beside 1,000,000 others
		turnover	100000	1	random	one of 100,000 ends, another begins
		replace	100000	1	random	the same in one call
		heartbeat	100000	1	paced	heartbeat, 100,000 connections
		server	5000	1	cold	request of 5,000 connections, cold caches
		expire_own	100000	1	random	expire 100,000 within 1 s
		expire_own	100000	1	random,1ms	the same in ticks of 1 ms, as libev's
		expire_own	1000000	1	random	expire 1,000,000 within 1 s
		silent_own	1000000	1	random	arm, move, expire, end, 1,000,000
	END
}

# letter: prints the rows of the table in the letter, whose lines have 75 characters.
letter() {
	table 'libtwheel wheel lazy timerfd' <<-'END' |
		move	1000	1	random	move one of 1,000 timers later
		move	100000	1	random	move one of 100,000 timers later
		rate_move	10000	2	random	two threads, 10,000 timers
		expire_own	100000	1	random	expire 100,000 timers within 1 s
	END
		awk -F ' *[|] *' '{ printf "%-32s%8s%15s%12s%8s\n", $2, $3, $4, $5, $6 }'
}

# fill FILE: prints the file with its parts up to date.
fill() {
	local line skip=

	case $1 in
	*.3)
		sed -n '1,/begin epoll/p' "$1"
		epoll_lines
		sed -n '/end epoll/,$p' "$1"
		return
		;;
	*.txt)
		sed '/^ns of CPU/q' "$1"
		letter
		sed '1,/^ns of CPU/d' "$1" | sed -n '/^$/,$p'
		return
		;;
	esac

	while IFS= read -r line; do
		if [[ $line =~ ^'<!-- begin '(first|epoll|examples|guarantees|cost|costs)' -->'$ ]]; then
			printf '%s\n\n' "$line"
			"${BASH_REMATCH[1]}" || return
			echo
			skip=1
		elif [[ $line = '<!-- end '* ]]; then
			skip=
			printf '%s\n' "$line"
		elif [ -z "$skip" ]; then
			printf '%s\n' "$line"
		fi
	done <"$1"
}

# unknown FILE: prints the names of tests in the file that do not exist.
unknown() {
	local files name

	mapfile -t files < <(find tests -name '*.c')
	sed -nE 's/^TEST_F[A-Z_]*\(([a-z_0-9]+), ([a-z_0-9]+).*/\1.\2/p' "${files[@]}" >"$dir/tests"
	sed -nE 's/^PAIR\(([a-z_0-9]+).*/pairs.\1/p; s/^STORM\(([a-z_0-9]+).*/storms.\1/p' \
		"${files[@]}" >>"$dir/tests"
	# shellcheck disable=SC2016
	{
		grep -oE '`[a-z_0-9]+\.[a-z_0-9*]+`' "$1" | tr -d '`' |
			grep -vE '\.(c|h|sh|py|awk|md|pml|tsv|rules|syzlang)$|^twheel|^global\.' | sort -u ||
			true
	} |
		while read -r name; do
			# A star in a name matches any text.
			grep -qE "^${name//\*/.*}$" "$dir/tests" || echo "$1: there is no test $name"
		done
}

# strange FILE: prints lines in the file that look like output of the demo but do not match it.
strange() {
	awk '
		# Turn each text that the demo prints into a pattern.
		FILENAME ~ /\.c$/ {
			if (!match($0, /printf\(".*\\n"/))
				next
			text = substr($0, RSTART + 8, RLENGTH - 11)
			gsub(/[().+*?|]/, "[&]", text)
			gsub(/%(llu|u)/, "[0-9]+", text)
			gsub(/%s/, "[a-z ]+", text)
			printed[++nr] = "^" text "$"
			next
		}
		/^([0-9]+ connections,|backend:|clients:|server:|PASS:)/ {
			for (i = 1; i <= nr; i++)
				if ($0 ~ printed[i])
					next
			print FILENAME ":" FNR ": the demo does not print this line: " $0
		}' userspace/examples/idle_server.c userspace/examples/idle_clients.c "$1"
}

check=
if [ "${1-}" = --check ]; then
	check=1
	shift
fi
[ $# -eq 0 ] || documents=("$@")
status=0
for file in "${documents[@]}"; do
	fill "$file" >"$dir/new"
	if [ -n "$check" ]; then
		diff -u --label "$file" --label 'as doc/tables.sh writes it' "$file" "$dir/new" || status=1
		{
			unknown "$file"
			strange "$file"
		} >"$dir/found"
		cat "$dir/found"
		[ ! -s "$dir/found" ] || status=1
	else
		cmp -s "$file" "$dir/new" || cp "$dir/new" "$file"
	fi
done
exit $status
