#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench/timers/test.sh: tests that each backend of the bench works and yields rows, and that the
# judge agrees with the page about the published rows. It measures nothing. Prints TAP.

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

# With the rows that doc/bench publishes, the judge reports as missed, on one machine or the other,
# just the targets that the page lists as missed.
published() {
	! "$here/judge" "$top"/doc/bench/rows{,2}.tsv >"$out/judged" || return
	! "$here/judge" "$top/doc/bench/xeon.tsv" >>"$out/judged" || return
	! grep -E 'not measured|not judged' "$out/judged" || return
	diff <(sed -n 's/^\(N[0-9]*\) .* MISSED.*/\1/p' "$out/judged" | sort -u) \
		<(sed -n '/^## Misses/,$s/^| \(N[0-9N, ]*\):.*/\1/p' "$top/doc/bench/README.md" |
			tr -s ', ' '\n' | sort -u)
}

# A target whose rows are missing is not reached.
missing() {
	grep -hv $'\tturn\t' "$top"/doc/bench/rows{,2}.tsv >"$out/fewer"
	! "$here/judge" only=N20 "$out/fewer" >"$out/judged" && grep -q '^N20 not measured' "$out/judged"
}

quietly make -s -C "$here" O="$out"
# make check-ci has installed Go.
! command -v go >/dev/null || quietly make -s -C "$here" O="$out" "$out/bench-go"
check "judge: misses what the page with the published rows says" published
check "judge: a target without rows is not reached" missing
check "bench: each backend works and yields rows" measured
check "bench: each backend works in the loop of a server" server
check "bench: the backends work with the table of the device" device
check "vm_bench: create and storm yield rows" crowd
done_testing
