#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench/timers/test.sh: each backend of the bench works, and has rows. How fast anything is,
# nothing here looks at; bench/timers/judge does. Prints TAP.

# These functions are called by check().
# shellcheck disable=SC2317

. "$(dirname "$0")/../../vm/lib.sh"

# A warning is an error here.
export WERROR=1

here=$top/bench/timers
out=$build/bench-test
mkdir -p "$out"
dir=$out
# shellcheck source=../../tests/lib/tap.sh
. "$top/tests/lib/tap.sh"

# Every backend on the list works, with as few timers as it takes.
measured() {
	"$out/bench" --part=ops,threads,calls --n=200 --reps=1 >"$out/measured" || return
	if grep -P '\tno\t' "$out/measured"; then
		return 1
	fi
	sed -n 's/^\t\&bench_\([a-z_]*\),$/\1/p' "$here/backend.c" >"$out/all"
	# Those of other languages are programs, which only make bench needs.
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

# The rows of the kernel's benches of many timers, which the judge reads.
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

quietly make -s -C "$here" O="$out"
# make check-ci has installed it.
! command -v go >/dev/null || quietly make -s -C "$here" O="$out" "$out/bench-go"
check "each backend works, and has rows" measured
check "and so in the loop of a server" server
check "the device in place of the library's own table" device
check "timers made, and a crowd beside another wheel" crowd
the_end
