#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench/timers/test.sh: tests that each backend of the bench works and yields rows, and that the
# judge reaches the right verdict on planted rows. It measures nothing. Prints TAP.

# check() calls these functions by their names.
# shellcheck disable=SC2317

. "$(dirname "$0")/../../vm/lib.sh"

# Treat warnings as errors.
export WERROR=1

here=$top/bench/timers
out=$build/bench-test
mkdir -p "$out"
dir=$out
# shellcheck source=../../tests/lib/tap.sh
. "$top/tests/lib/tap.sh"

# Every backend on the list works, with few timers.
measured() {
	"$out/bench" --part=ops,threads,calls --n=200 --reps=1 >"$out/measured" || return
	if grep -P '\tno\t' "$out/measured"; then
		return 1
	fi
	sed -n 's/^\t\&bench_\([a-z_]*\),$/\1/p' "$here/backend.c" >"$out/all"
	# The backends of other languages are separate programs, which only make bench needs.
	while read -r name; do
		[[ $name != @(tokio|go) || -x $out/bench-$name ]] || continue
		echo "$name"
	done <"$out/all" >"$out/listed"
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

# The benches that HERE=1 runs work with the device of a VM. --slow, because the many timers keep
# its interrupts so busy that the kernel reports it.
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

# The benches of the device that create many timers yield the rows that the judge reads.
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

# row WHERE OP BACKEND N THREADS PATTERN VALUE: prints a row.
row() {
	printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\tns\t0\t1\tyes\n' "$@"
}

# rows WHERE OP N THREADS PATTERN {BACKEND VALUE}...: prints a row for each backend.
rows() {
	local common=("$1" "$2")
	local of=("${@:3:3}")

	for ((i = 6; i < $#; i += 2)); do
		row "${common[@]}" "${@:i:1}" "${of[@]}" "${@:i+1:1}"
	done
}

# Prints the rows of a run that reaches every target.
reaching() {
	local n op pattern vm='vm(emulated)'

	printf 'where\top\tbackend\tn\tthreads\tpattern\tvalue\tunit\tspread\treps\tchecked\n'
	for n in 1000 100000 1000000 10000000; do
		for op in move cancel; do
			for pattern in sequential random; do
				rows native "$op" "$n" 1 "$pattern" exchange 4 exchange+call 4.5 least 8 \
					libtwheel $((n > 100000 ? 9 : 5)) timerfd 500 wheel 50
			done
		done
		rows native move "$n" 1 random tokio 60 go 90
		rows native pair "$n" 1 hot exchange 8 libtwheel 10 wheel 12 timerfd 700 tokio 90 go 60
		rows native brief "$n" 1 hot libtwheel 11
		rows native turnover "$n" 1 random libtwheel 11 libev 20 heap 20 wheel 10 timerfd 1000
		rows native again "$n" 1 random exchange 8 least 16 libtwheel $((n > 100000 ? 17 : 9))
		rows native turn "$n" 1 random none 1 libtwheel 20 exchange 18 wheel 60
		rows uml arm "$n" 1 sequential core 4 timer_list 11 hrtimer 800
		rows uml arm "$n" 1 random core 4 timer_list 11 hrtimer 800
		rows uml move "$n" 1 random core 40 timer_list 100 hrtimer 1000
		rows uml cancel "$n" 1 sequential core 5 timer_list 20 hrtimer 300
		rows uml cancel "$n" 1 random core 5 timer_list 20 hrtimer 300
		rows uml expire "$n" 1 bucket,random core 30
		rows uml expire "$n" 1 spread core 30
		rows uml cascade "$n" 1 random core 30
	done
	for n in 10000 1000000; do
		for pattern in sequential random; do
			for op in move cancel again; do
				rows native "gain_$op" "$n" 2 "$pattern" exchange 2 libtwheel 1.9
				rows native "rate_$op" "$n" 2 "$pattern" exchange 400 libtwheel 300 \
					wheel+mutex 10 heap+mutex 10 libev+mutex 10
			done
		done
		rows native move "$n" 2 random exchange+call 5 least 8 libtwheel $((n > 100000 ? 9 : 5))
		rows native gain_move "$n" 2 random libtwheel-rearm 1
	done
	rows native futex 10000 2 again libtwheel 0
	rows native calls 50 1 paced libtwheel 0.04
	for n in 1 2; do
		rows native calls 1000000 $n requests libtwheel 0.5
		rows native calls 1000000 $n random libtwheel 0.5
		rows native calls 100000 $n heartbeat libtwheel 0.5
	done
	rows native expire_own 1000000 1 random libtwheel 0.2 wheel 0.4 lazy 0.4 libev 0.5 heap 1
	rows native expire_own 100000 1 random libtwheel 0.4 wheel 0.6 lazy 0.6 libev 0.5 heap 7
	rows native expire_own 100000 1 random,1ms libtwheel 0.3
	rows native silent_own 1000000 1 random libtwheel 0.2 wheel 0.4 lazy 0.8 libev 0.6 heap 1
	for n in 100000 1000000; do
		rows native heartbeat $n 1 paced none 10 libtwheel 40 wheel 80 lazy 45 heap 90 timerfd 1000
		rows native heartbeat $n 4 paced none 10 libtwheel 30 heap+mutex 200
	done
	rows "$vm" heartbeat 100000 1 paced none 5 libtwheel 70 heap 370 timerfd 1600
	rows "$vm" heartbeat 100000 4 paced none 5 libtwheel 70 heap+mutex 400
	rows "$vm" create 1000 1 pair twheel 2800 twheel-batch 1000 libtwheel 200 timerfd 8000
	rows uml create 1000 1 pair twheel 900 twheel-batch 150
	rows native create 1000 1 pair timerfd 4000
	rows "$vm" expire 100000 1 random twheel 0.6 timerfd 6.3 libev 0.6
	rows "$vm" expire 100000 1 random,1ms twheel 0.5
	rows "$vm" memory 1000000 1 machine twheel 85
	rows "$vm" memory 1000000 1 cgroup twheel 88
	rows "$vm" memory 1000000 1 own libtwheel 0.01
	rows "$vm" idle_wakeups 1000000 1 10s twheel 0
	rows "$vm" idle_cpu 1000000 1 10s twheel 1
	rows "$vm" idle_cpu 0 1 10s none 1
	rows "$vm" storm_usual 2000 1 bystander twheel 500
	rows "$vm" storm_worst 1000000 1 bystander twheel 550
	rows "$vm" storm_worst 1000000 1 bystander,once twheel 550
	rows "$vm" storm_ratio 1000000 1 bystander twheel 1.1
}

# spoil OP BACKEND N PATTERN VALUE [THREADS [WHERE]]: prints the rows that reach every target, with
# another value in this row, or without the row if the value is "-".
spoil() {
	awk -F '\t' -v OFS='\t' -v op="$1" -v backend="$2" -v n="$3" -v pattern="$4" -v value="$5" \
		-v threads="${6:-1}" -v where="${7:-native}" '
		$1 == where && $2 == op && $3 == backend && $4 == n && $5 == threads &&
		$6 == pattern {
			if (value == "-")
				next
			$7 = value
		}
		{ print }' "$out/reaching"
}

judge() {
	"$here/judge" "$@" >"$out/judged" || {
		cat "$out/judged"
		return 1
	}
}

# A run that reaches every target is accepted, and no line says that one is missed or not measured.
all_reached() {
	reaching >"$out/reaching"
	judge "$out/reaching" && ! grep -E 'MISSED|not measured|not judged' "$out/judged"
}

# missed TARGET SPOIL...: only that target is missed if this row has another value.
missed() {
	spoil "${@:2}" >"$out/spoiled"
	! judge "$out/spoiled" || return
	[ "$(sed -n 's/^\(N[0-9]*\) .* MISSED.*/\1/p' "$out/judged" | sort -u)" = "$1" ] ||
		return
	# It is also missed if the row is absent.
	spoil "${@:2:4}" - "${@:7}" >"$out/spoiled"
	! judge "$out/spoiled" >/dev/null && grep -q "^$1 not measured" "$out/judged"
}

# Each line has a value just beyond the limit of a target, in a row that no other target depends on.
each_missed() {
	local name rest bad=0

	while read -r name rest; do
		# shellcheck disable=SC2086
		missed "$name" $rest >"$out/why" || {
			echo "$name $rest: $(grep -E 'MISSED|not measured' "$out/why")"
			bad=1
		}
	done <<-'END'
		N1 move libtwheel 100000 sequential 6.1
		N1 move least 1000000 sequential 6.8
		N2 cancel libtwheel 100000 random 6.1
		N2 cancel least 1000000 random 6.8
		N4 gain_again libtwheel 1000000 random 1.6 2
		N4 rate_again heap+mutex 10000 random 31 2
		N5 move hrtimer 1000000 random 790 1 uml
		N7 create twheel 1000 pair 1300 1 uml
		N7 create twheel-batch 1000 pair 250 1 uml
		N7 create twheel-batch 1000 pair 1300 1 vm(emulated)
		N7 create libtwheel 1000 pair 250 1 vm(emulated)
		N8 expire twheel 100000 random 0.7 1 vm(emulated)
		N12 heartbeat timerfd 100000 paced 800 1 vm(emulated)
		N13 move exchange+call 1000 random 4.1
		N13 move least 1000000 random 7.4 2
		N15 heartbeat libtwheel 1000000 paced 46
		N17 turnover libev 1000000 random 13
		N17 turnover heap 1000 random 13
		N17 pair wheel 100000 hot 9
		N20 turn wheel 100000 random 33
		N20 turn exchange 1000000 random 15
		N21 again libtwheel 1000 random 10.5
		N21 again least 1000000 random 13
		N21 futex libtwheel 10000 again 0.1 2
		N22 move tokio 1000000 random 53
		N22 move go 100000 random 44
		N22 pair tokio 1000 hot 49
		N22 pair go 1000000 hot 49
		N23 gain_move libtwheel-rearm 10000 random 0.89 2
	END
	return $bad
}

# For each line, the better of two runs counts.
better_of_two() {
	spoil move tokio 1000000 random 53 >"$out/one"
	spoil gain_move libtwheel-rearm 10000 random 0.8 2 >"$out/two"
	! judge "$out/one" || return
	! judge "$out/two" || return
	judge kept="$out/kept1,$out/kept2" "$out/one" "$out/two" || return
	! judge "$out/two" "$out/two" || return
	# kept= writes the rows of each run to a file of its own.
	! judge "$out/kept1" || return
	judge "$out/kept1" "$out/kept2" && ! cmp -s "$out/kept1" "$out/kept2"
}

# If other programs used the caches, only targets beyond 100,000 timers are not judged.
not_our_caches() {
	local others="other programs used the caches"

	spoil move exchange 1000000 random 12.1 >"$out/reaching2"
	cp "$out/reaching" "$out/reaching1"
	cp "$out/reaching2" "$out/reaching"
	spoil move least 1000000 random 1 >"$out/beyond"
	spoil move exchange+call 1000 random 4.1 >"$out/below"
	spoil memory twheel 1000000 machine 97 1 'vm(emulated)' >"$out/counted"
	cp "$out/reaching1" "$out/reaching"
	judge "$out/beyond" || return
	grep -q "^run 1: .*$others" "$out/judged" || return
	grep -q "^N13 not judged: .*$others" "$out/judged" || return
	! judge "$out/below" || return
	! judge "$out/counted" || return
	# Another run, during which the caches were free, is judged.
	! judge "$out/beyond" <(spoil move least 1000000 random 1)
}

# A picture shows the backends that a reader knows, the cheapest first. Backends that need a mutex
# are shown with it if there are two threads, and a rate becomes the time of an operation.
drawn() {
	{
		rows native move 100000 1 random timerfd 1500 tokio 60 libtwheel 9 exchange 5
		rows native rate_move 10000 2 random wheel+mutex 10 libtwheel 250 wheel 100 |
			sed 's|\tns\t|\tMop/s\t|'
	} | "$here/plot.awk" -v picture=cost >"$out/cost.svg" || return
	grep -o '<title>.*' "$out/cost.svg"
	grep -q ': twheel 9.0, Tokio 60, timerfd 1,500; .* by two threads at once: twheel 8.0, private wheel 200<' \
		"$out/cost.svg"
}

quietly make -s -C "$here" O="$out"
# make check-ci has installed Go.
! command -v go >/dev/null || quietly make -s -C "$here" O="$out" "$out/bench-go"
check "judge: accepts planted rows that reach every target" all_reached
check "judge: a planted row makes it report each target as missed" each_missed
check "judge: the better of two runs counts for each target" better_of_two
check "judge: nothing is judged beyond 100,000 timers if other programs used the caches" not_our_caches
check "plot: a picture shows the right rows in the right order" drawn
check "bench: each backend works and yields rows" measured
check "bench: each backend works in the loop of a server" server
check "bench: the backends work with the table of the device" device
check "vm_bench: create and storm yield rows" crowd
done_testing
