#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/core/fuzz.sh [models | races] [--seconds N | --operations N] [--armings N]
#                        [--keep]
#
# Runs the wheel, its timers and their words in user space: against models of them ("models"),
# with libFuzzer and random operations under the sanitizers, and in races ("races"). By default
# it does both. Prints TAP, with the number of operations or armings that were done. libFuzzer
# runs for 20 s for each of the two models by default. With --operations, both models and the
# random operations do this many each (make check-full asks for its share of 100000000). The
# races arm timers 300000 times, or as often as --armings says.
#
# Racing threads spin while they wait for each other, so the races take ten times as long if
# something else needs a processor.
#
# corpus/ has one input per line, in base64, for each of the fuzzers, and seeds of random
# operations that have failed before; these run first. --keep replaces it by what libFuzzer has
# now: the smallest set that reaches the same branches. An input that fails is printed in the
# same form. It belongs in corpus/ too, as soon as it no longer fails.

. "$(dirname "$0")/../../vm/lib.sh"

seconds=20
operations=0
random=3000000
armings=300000
keep=
models=1
races=1
while [ $# -gt 0 ]; do
	case $1 in
	models) races= ;;
	races) models= ;;
	--seconds) seconds=$2 && shift ;;
	--operations)
		operations=$2
		random=$2
		shift
		;;
	--armings) armings=$2 && shift ;;
	--keep) keep=1 ;;
	*) die "unknown: $1" ;;
	esac
	shift
done

need make gcc libc6-dev clang-14 libclang-rt-14-dev
here=$top/tests/core
out=$build/core
make -s -C "$here" O="$out" fuzz >&2

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# fuzzer NAME OPTION...: leaves the output in NAME.log.
fuzzer() {
	(cd "$dir" && nice "${fixed[@]}" "$out/$1_fuzzer" -max_len=2048 -artifact_prefix="$dir/$1-" "${@:2}") \
		>"$dir/$1.log" 2>&1
}

# done_by NAME: prints how many operations the last run has done.
done_by() {
	sed -n 's/^operations: //p' "$dir/$1.log"
}

# Prints the output of a fuzzer that failed, and its input.
complain() {
	local input

	grep -m 8 -E 'not so|ERROR|runtime error| in (wheel|timers?|store|reconcile)|ssertion' "$dir/$1.log" || tail -5 "$dir/$1.log"
	for input in "$dir/$1"-*; do
		[ ! -e "$input" ] || echo "input: $(base64 -w 0 "$input")"
	done
}

# fuzz NAME CORPUS OPERATIONS OPTION...: runs all known inputs, then new ones until there were
# enough operations. Leaves a line of TAP in NAME-CORPUS.tap, without its number.
fuzz() {
	local name=$1 corpus=$2 operations=$3 total=0 inputs=0 line

	shift 3
	mkdir "$dir/$corpus-$name"
	while read -r line; do
		inputs=$((inputs + 1))
		base64 -d <<<"$line" >"$dir/$corpus-$name/$inputs"
	done < <(grep -v '^#' "$here/corpus/$corpus")
	{
		if [ "$inputs" = 0 ]; then
			echo "not ok - $name: no corpus"
			return
		fi
		if ! fuzzer "$name" -runs=0 "$corpus-$name"; then
			complain "$name" | sed 's/^/# /'
			echo "not ok - $name: an input of the corpus"
			return
		fi
		while :; do
			if ! fuzzer "$name" -len_control=0 "$@" "$corpus-$name"; then
				complain "$name" | sed 's/^/# /'
				echo "not ok - $name: libFuzzer, after $total operations"
				return
			fi
			total=$((total + $(done_by "$name")))
			[ "$total" -lt "$operations" ] || break
		done
		echo "# target operations.$corpus-$name $total $operations"
		echo "ok - $name: libFuzzer, $inputs inputs of corpus/$corpus, $total operations"
	} >"$dir/$name-$corpus.tap"
}

# Replaces the corpus by a smaller one that reaches as much.
keep_corpus() {
	mkdir "$dir/$1.few"
	fuzzer "$1" -set_cover_merge=1 -use_counters=0 "$1.few" "$1-$1"
	{
		echo "# SPDX-License-Identifier: GPL-2.0"
		for input in "$dir/$1.few"/*; do
			base64 -w 0 "$input"
			echo
		done | LC_ALL=C sort
	} >"$here/corpus/$1"
}

number=0
failed=0

# again COMMAND...: prints the command's lines of TAP, renumbered from the last one.
again() {
	"$@" >"$dir/again" 2>&1 || failed=1
	awk -v number="$number" '
		/^TAP version|^1\.\./ { next }
		/^(not )?ok / { sub(/[0-9]+/, ++number) }
		{ print /^(not )?ok |^#/ ? $0 : "# " $0 }' "$dir/again"
	number=$((number + $(grep -cE '^(not )?ok ' "$dir/again" || true)))
}

echo 'TAP version 13'
echo "1..$((${models:-0} * 4 + ${races:-0} * 2))"

if [ -n "$models" ]; then
	for name in wheel timers; do
		fuzz $name $name "$operations" -max_total_time="$seconds" &
	done
	wait
	export FUZZ_RANDOM=1
	for name in wheel timers; do
		fuzz $name random "$random" -max_len=9 -runs=100 &
	done
	wait
	unset FUZZ_RANDOM
	for name in wheel-{wheel,random} timers-{timers,random}; do
		number=$((number + 1))
		sed "s/^\(not \)\?ok - /\1ok $number /" "$dir/$name.tap"
		grep -q '^ok' "$dir/$name.tap" || failed=1
	done
	for name in wheel timers; do
		[ -z "$keep" ] || keep_corpus "$name"
	done
fi

if [ -n "$races" ]; then
	export TSAN_OPTIONS=halt_on_error=1
	again "$out/race" armings="$armings"
	again "${fixed[@]}" "$out/race_tsan" armings="$armings"
fi
exit $failed
