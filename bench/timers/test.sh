#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench/timers/test.sh: that each backend does its work and has its rows, that the
# judge passes over nothing, and that compare sees what got worse. How fast anything
# is, nothing here looks at. Prints TAP.

# Many of these functions are called by check().
# shellcheck disable=SC2016,SC2317

. "$(dirname "$0")/../../vm/lib.sh"

# A warning is an error here.
export WERROR=1

here=$top/bench/timers
out=$build/bench-test
# See kept_rows(). What they reach; they miss N13.
kept=$out/kept.tsv
reached=N1,N2,N3,N4,N5,N6,N7,N8,N9,N10,N11,N12,N14,N15,N16,N17,N18,N19
mkdir -p "$out"
dir=$out
# shellcheck source=../../tests/lib/tap.sh
. "$top/tests/lib/tap.sh"

# status N COMMAND...: whether that is its exit status.
status() {
	local got=0

	"${@:2}" || got=$?
	[ "$got" -eq "$1" ]
}

in_out() {
	(cd "$out" && "$@")
}

piped() {
	"$here/compare" <(cat "$kept") <(cat "$kept")
}

# The kept rows, but for what awk CONDITION says of the columns; or changed by it.
without() {
	awk -F '\t' "/^#/ || !($1)" "$kept" >"$out/rows.tsv"
}
changed() {
	awk -F '\t' -v OFS='\t' "!/^#/ { $1 } { print }" "$kept" >"$out/rows.tsv"
}

# What a timer of libtwheel takes of the program is BYTES.
own() {
	changed "if (\$3 == \"libtwheel\" && \$6 == \"own\") \$7 = $1"
}

# judged NUMBER WORDS: the judge fails, and says so of this number.
judged() {
	status 1 "$here/judge" "$out/rows.tsv" >"$out/judged" || return
	grep -q "^$1 .*$2" "$out/judged" || {
		cat "$out/judged"
		return 1
	}
}

# All that are on the list have worked, with as few timers as it takes.
measured() {
	"$out/bench" --part=ops,threads,calls --n=200 --reps=1 >"$out/measured" || return
	if grep -P '\tno\t' "$out/measured"; then
		return 1
	fi
	sed -n 's/^\t\&bench_\([a-z_]*\),$/\1/p' "$here/backend.c" >"$out/listed"
	grep -v '^#' "$out/measured" | cut -f 3 | sort -u >"$out/names"
	[ "$(grep -vcx backend "$out/names")" -eq "$(wc -l <"$out/listed")" ] || {
		cat "$out/names"
		return 1
	}
}

# The loop of a server has a row for each backend, and one for itself.
server() {
	"$out/bench" --part=server --reps=1 >"$out/server.tsv" &&
		awk -F '\t' '
			$2 == "server" { rows++ }
			$2 == "server" && $11 != "yes" { bad = 1 }
			END { exit bad || rows != 7 }' "$out/server.tsv"
}

# kept_rows: those of doc/bench, with what each would take on a machine that reaches all
# but N13: where, operations, the backend or any, and the value. The last that fits counts.
# What is named nowhere here stays what was measured.
kept_rows() {
	awk -F '\t' -v OFS='\t' '
		FILENAME == "-" {
			split($0, word, " ")
			place[++costs] = word[1]
			op[costs] = "^(" word[2] ")$"
			backend[costs] = word[3]
			cost[costs] = word[4]
			next
		}
		!/^#/ {
			for (i = 1; i <= costs; i++)
				if ($1 == place[i] && $2 ~ op[i] && (backend[i] == "any" || $3 == backend[i]))
					$7 = cost[i]
		}
		{ print }' - "$top/doc/bench/rows.tsv" <<-'END'
		native move|cancel|pair|brief|turnover|expire_own|silent_own any 30
		native move|cancel|pair|brief|turnover|expire_own|silent_own exchange 10
		native move|cancel|pair|brief|turnover|expire_own|silent_own exchange+call 8.5
		native move|cancel|pair|brief|turnover|expire_own|silent_own table 12
		native move|cancel|pair|brief|turnover|expire_own|silent_own libtwheel 12
		native move|cancel|pair|brief|turnover|expire_own|silent_own timerfd 1500
		native gain_.* any 1.9
		native rate_.* any 5
		native rate_.* exchange 110
		native rate_.* libtwheel 100
		native heartbeat any 105
		native heartbeat none 5
		native heartbeat libtwheel 25
		native heartbeat timerfd 1005
		uml arm|move|cancel any 30
		uml arm|move|cancel core 10
		uml arm|move|cancel core+lock 12
		uml move hrtimer 500
		uml expire|cascade core 200
		vm(emulated) create timerfd 8000
		vm(emulated) create twheel 2500
		vm(emulated) create twheel-batch 400
		vm(emulated) expire timerfd 6.5
		vm(emulated) expire libev 0.6
		vm(emulated) expire twheel 0.5
		vm(emulated) heartbeat any 1005
		vm(emulated) heartbeat none 5
		vm(emulated) heartbeat libtwheel 25
		vm(emulated) heartbeat heap 105
		vm(emulated) heartbeat heap+mutex 105
	END
	printf 'native\tlate_p50\tlibtwheel\t10000\t1\trandom\t313.8\tus\t1\t3\tyes\n'
}

# Each fault of a backend that check_test knows is found.
checks() {
	"$out/check_test" >"$out/checked" || {
		cat "$out/checked"
		return 1
	}
}

# Where the process may not have a descriptor each, and root not help itself to more.
crew() {
	local root=()

	[ "$(id -u)" != 0 ] || root=(setpriv --bounding-set=-sys_resource)
	(
		ulimit -n 2100
		"${root[@]}" "$out/bench" --part=ops --only=timerfd --n=3000 --reps=1
	) >"$out/crew.tsv" || return
	cat "$out/crew.tsv"
	grep -q '^# timerfd: of 3000 timers, 1940 are those of 2 threads' "$out/crew.tsv" &&
		awk -F '\t' '
			$3 == "timerfd" && $11 == "yes" { rows++ }
			$3 == "timerfd" && $11 != "yes" { bad = 1 }
			END { exit bad || rows != 6 }' "$out/crew.tsv"
}

# What HERE=1 measures: the same by the device, in a machine that has one. With a timer
# each it keeps interrupts busy, of which the kernel tells on slow machines.
device() {
	"$top/vm/run.sh" --name bench-test --exact --slow 1 \
		--bin "$out/bench" --bin "$out/vm_bench" --run 'vm_bench check' \
		--run "TWHEEL_BACKEND=kernel bench --part=ops,threads,calls --n=200 --reps=1 \
			--only=exchange,libtwheel,libtwheel-rearm,timerfd" >"$out/device" || {
		cat "$out/device"
		return 1
	}
	awk -F '\t' '
		$1 == "here" && $3 ~ /^libtwheel/ && $11 == "yes" { seen[$3 " " $5]++ }
		$11 == "no" { bad = 1 }
		END {
			exit bad || seen["libtwheel 1"] < 6 || seen["libtwheel 2"] < 6 ||
				seen["libtwheel-rearm 1"] < 6
		}' "$out/device"
}

# What needs the device and a crowd, where a ns is an instruction: a slower machine has no
# time for a million at once.
crowd() {
	"$top/bench/device/vm_bench.sh" "$out/vm_bench" 6.12 'vm_bench -r 1 -b twheel create storm' \
		'vm_bench -r 1 -b io_uring storm' >"$out/crowd" || return
	awk -F '\t' '
		$7 > 0 && $11 == "yes" { seen[$3, $2]++ }
		END {
			exit !seen["twheel", "create"] || seen["twheel", "storm_usual"] != 1 ||
				seen["twheel", "storm_worst"] != 3 || seen["twheel", "storm_took"] != 2 ||
				seen["twheel", "storm_ratio"] != 2 || seen["io_uring", "storm_worst"] != 1
		}' "$out/crowd" && "$here/judge" only=N11 "$out/crowd"
}

# The two pictures of the kept rows are XML. Each panel is there, and each shows twheel.
plots() {
	local name

	for name in cost more; do
		"$here/plot.awk" -v "picture=$name" "$kept" >"$out/$name.svg" || return
	done
	python3 - "$out/cost.svg" 2 "$out/more.svg" 3 <<-'END'
		import sys
		from xml.etree import ElementTree

		for path, panels in zip(sys.argv[1::2], map(int, sys.argv[2::2])):
		    texts = [text.text for text in ElementTree.parse(path).iter('{http://www.w3.org/2000/svg}text')]
		    assert sum(text.endswith(', ns') for text in texts) == panels, texts
		    assert texts.count('twheel') == panels, texts
	END
}

# Without rows there is no picture, and a wrong name is an error.
no_plot() {
	! "$here/plot.awk" -v picture=cost /dev/null >"$out/none.svg" && [ ! -s "$out/none.svg" ] &&
		status 2 "$here/plot.awk" -v picture=typo "$kept"
}

json() {
	"$here/json" "$kept" | python3 -c '
import json, sys
rows = json.load(sys.stdin)
assert len(rows) == int(sys.argv[1]), len(rows)
assert all(isinstance(row["value"], (int, float)) for row in rows)' \
		"$(grep -c '^[^#]*.[0-9]' "$kept")"
}

quietly make -s -C "$here" O="$out"
kept_rows >"$kept"
check "each backend does its work, and has rows" measured
check "and in the loop of a server" server
check "timerfds beyond the limit of descriptors" crew
check "who does not do the work is found out" checks
check "bench: a part that there is not" status 2 "$out/bench" --part=typo
check "the device, in place of the library's own table" device
check "timers made, and a crowd beside another wheel" crowd
check "plots" plots
check "no plot of no rows" no_plot
check "json: the rows" json
check "judge: rows that reach all" "$here/judge" only="$reached" "$kept"
cp "$kept" "$out/rows.tsv"
check "judge: and one that they miss" judged N13 MISSED
changed 'if ($2 == "move" && $3 == "exchange+call") $7 *= 1.4'
check "judge: set, as fast as it must be" "$here/judge" only=N13 "$out/rows.tsv"

check "judge: a number that there is not" status 2 "$here/judge" only=N20 "$kept"
without '$2 == "calls"'
check "judge: one number, whatever the others are" status 0 "$here/judge" only=N4 "$out/rows.tsv"

# name / condition of what is missing / number that is then not measured
while IFS=/ read -r name condition which; do
	without "$condition"
	check "judge: without $name" judged "$which" 'not measured'
done <<'END'
what libtwheel does at random/$3 == "libtwheel" && $4 == 100000 && $6 == "random"/N1
timerfd/$3 == "timerfd" && $2 == "cancel"/N2
requests/$2 == "brief"/N3
system calls/$2 == "calls" && $6 == "paced"/N3
libev behind a mutex/$3 == "libev+mutex"/N4
the second thread/$2 == "gain_move" && $3 == "libtwheel" && $4 == 1000000/N4
timer_list/$3 == "timer_list"/N5
ten million in the kernel/$1 == "uml" && $4 == 10000000 && $2 == "cascade"/N6
ten million/$1 == "native" && $4 == 10000000/N6
batches/$3 == "twheel-batch"/N7
expirations/$2 == "expire" && $3 == "twheel"/N8
memory/$2 == "memory"/N9
memory by its cgroup/$2 == "memory" && $6 == "cgroup"/N9
memory of the program/$3 == "libtwheel" && $6 == "own"/N9
an idle machine/$2 == "idle_cpu" && $3 == "none"/N10
the bystander/$2 == "storm_ratio"/N11
a million heartbeats/$2 == "heartbeat" && $4 == 1000000/N12
a million expirations/$2 == "expire_own" && $4 == 1000000/N14
connections that fall silent/$2 == "silent_own"/N16
private wheels/$2 == "heartbeat" && ($3 == "wheel" || $3 == "lazy")/N15
a wheel that moves/$2 == "turnover" && $3 == "wheel"/N17
ten million that expire/$1 == "uml" && $4 == 10000000 && $2 == "expire"/N18
the exchange behind a call/$2 == "move" && $3 == "exchange+call"/N13
the exchange behind a call, by two/$2 == "move" && $3 == "exchange+call" && $5 == 2/N13
system calls of requests/$2 == "calls" && $6 == "requests"/N19
system calls of two threads/$2 == "calls" && $5 == 2/N19
system calls of heartbeats/$2 == "calls" && $6 == "heartbeat"/N19
END
while IFS=/ read -r name change which words; do
	changed "$change"
	check "judge: $name" judged "$which" "$words"
done <<'END'
twice the time/if ($3 == "libtwheel" && $2 == "move" && $4 == 100000) $7 *= 2/N1/MISSED
a disarm that takes twice the time/if ($3 == "libtwheel" && $2 == "cancel") $7 *= 2/N2/MISSED
a fast timerfd/if ($3 == "timerfd" && $2 == "move" && $4 == 1000) $7 *= 0.3/N1/MISSED: the bare exchange reaches
a slow request/if ($3 == "libtwheel" && ($2 == "pair" || $2 == "brief")) $7 *= 3/N3/MISSED
a second thread that gains nothing/if ($3 == "libtwheel" && substr($2, 1, 5) == "gain_") $7 *= 0.5/N4/MISSED
ten million that cost more/if ($1 == "uml" && $4 == 10000000 && $2 == "cancel") $7 *= 3/N6/MISSED
a backend that does not do its work/if ($3 == "libtwheel" && $2 == "move") $11 = "no"/N1/not measured
one wake-up/if ($2 == "idle_wakeups") $7 = 1/N10/MISSED
a ratio that is no number/if ($2 == "storm_ratio") $7 = "-nan"/N11/not measured
a ratio that is nothing/if ($2 == "storm_ratio") $7 = 0/N11/not measured
a ratio that is not that of its rows/if ($2 == "storm_worst") $7 *= 9/N11/not measured
a timer without memory/if ($2 == "memory" && $3 == "twheel") $7 = 0/N9/not measured
a row that nobody checked/if ($2 == "move" && $3 == "libtwheel") $11 = ""/N1/not measured
rows of two places/if ($2 == "move" && $3 == "libtwheel") $1 = "here"/N1/not measured
a heartbeat that costs less than nothing/if ($2 == "heartbeat" && $3 == "libtwheel") $7 = 1/N12/not measured
expirations that cost more/if ($2 == "expire_own" && $3 == "libtwheel") $7 *= 3/N14/MISSED
a silence that costs more/if ($2 == "silent_own" && $3 == "libtwheel") $7 *= 3/N16/MISSED
a lazy wheel that is faster/if ($2 == "heartbeat" && $3 == "lazy") $7 = 6/N15/MISSED
a request that takes three times as long/if ($2 == "turnover" && $3 == "libtwheel") $7 *= 3/N17/MISSED
expiry that grows/if ($1 == "uml" && $2 == "expire" && $4 == 10000000) $7 *= 2/N18/MISSED
arming at random/if ($1 == "uml" && $2 == "arm" && $3 == "core" && $6 == "random") $7 *= 10/N5/MISSED
a slower function/if ($3 == "exchange+call" && $2 == "move") $7 *= 0.4/N13/reached 3.* MISSED
a flush for each/if ($2 == "calls" && $6 == "random") $7 = 1.5/N19/MISSED
calls that nobody made/if ($2 == "calls" && $6 == "random") $7 = 0/N19/not measured
few connections/if ($2 == "heartbeat" && $3 == "timerfd") $4 = 10/N12/not measured
END

own 0.004
check "judge: next to nothing of the program" "$here/judge" only="$reached" "$out/rows.tsv"
own 4
check "judge: four bytes of the program" judged N9 MISSED

check "compare: nothing has changed" status 0 "$here/compare" "$kept" "$kept"
while IFS=/ read -r name change; do
	changed "$change"
	check "compare: $name" status 1 "$here/compare" "$kept" "$out/rows.tsv"
done <<'END'
a row costs five times as much/if ($2 == "idle_cpu" && $3 == "twheel") $7 *= 5
what was nothing is something/if ($2 == "idle_wakeups") $7 = 50
what is no number/if ($2 == "move" && $3 == "libtwheel") $7 = "-nan"
half of all are ten times as late/if ($2 == "late_p50" && $3 == "libtwheel") $7 *= 10
a rate that is none/if ($2 == "rate_move" && $3 == "libtwheel") $7 = 0
ten times as much, of values that say nothing/if ($2 == "move" && $3 == "table") { $7 *= 10; $12 = "1 2 30" }
a backend does not do its work any more/if ($3 == "libtwheel-rearm") $11 = "no"
a bystander that is later/if ($2 == "storm_ratio" && $6 == "bystander") { $7 *= 3; $12 = "" }
some more instructions/if ($1 == "vm(emulated)" && $2 == "expire" && $3 == "twheel") { $7 *= 1.05; $12 = "" }
END
without '$2 == "idle_wakeups"'
check "compare: a row has gone" status 1 "$here/compare" "$kept" "$out/rows.tsv"
changed 'if ($3 == "heap") $7 *= 10; if ($3 == "timerfd") $4 = 5; if ($2 ~ /^late_(p999|max)$|storm_worst/) $7 *= 10'
check "compare: others are worse, or gone" status 0 "$here/compare" "$kept" "$out/rows.tsv"
changed 'if ($2 == "move" && $3 == "heap") $7 /= 10; if ($2 == "gain_move") $7 *= 10'
check "compare: better is not worse" status 0 "$here/compare" "$kept" "$out/rows.tsv"

# A row that costs 1.5 times as much, with VALUES in place of the kept ones.
doubtful() {
	changed "if (\$2 == \"move\" && \$3 == \"libtwheel\") { \$7 = 30; \$12 = \"$1\" }"
	cp "$out/rows.tsv" "$out/before.tsv"
	changed "if (\$2 == \"move\" && \$3 == \"libtwheel\") { \$7 = 45; \$12 = \"$2\" }"
	"$here/compare" "$out/before.tsv" "$out/rows.tsv"
}
check "compare: worse, and it is proven" status 1 doubtful "29 30 31" "44 45 46"
check "compare: worse, but by chance" status 0 doubtful "10 30 50" "20 45 70"
# The rows of the last test are there still.
check "compare: no ministat" status 2 env PATH="$out/nothing" "$(command -v awk)" \
	-f "$here/compare" "$out/before.tsv" "$out/rows.tsv"
check "compare: worse, of two values" status 1 doubtful "10 50" "20 70"

check "compare: what are not rows" status 2 "$here/compare" "$kept" "$top/README.md"
head -n 1 "$kept" >"$out/rows.tsv"
check "compare: no rows before" status 2 "$here/compare" "$out/rows.tsv" "$kept"
: >"$out/rows.tsv"
check "compare: nothing before" status 2 "$here/compare" "$out/rows.tsv" "$kept"
cp "$kept" "$out/it's a=b.tsv"
# To be found from where it is.
check "compare: any name" in_out "$here/compare" "it's a=b.tsv" "it's a=b.tsv"
check "judge: what are not rows" status 2 "$here/judge" "$top/README.md"
check "judge: nothing" status 2 "$here/judge"
check "judge: any name" in_out "$here/judge" only="$reached" "it's a=b.tsv"
check "compare: what is piped" piped

the_end
