#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench/timers/run.sh [--full] [--here] [PART...]: every bench, and what of the
# numbers it reaches; exits with 1 if one is missed. What else the machine does
# shows in the native parts: so each number is the better of this run and the one
# before, if that was of the same commit.
#
#   --full  all numbers of timers, and more repetitions
#   --here  with this machine's /dev/twheel, in place of an emulated one's
#   PART    these alone: ops, threads, expire, heartbeat, server (native), uml, device.
#           Of the others the rows of the last run are taken, if there are any,
#           and what there are no rows for is not judged
#
# The rows are in build/bench/rows.tsv and rows.json, and as pictures beside these; those
# of the run before in rows.before.tsv: bench/timers/compare compares two of them.

. "$(dirname "$0")/../../vm/lib.sh"

here=$top/bench/timers
out=$build/bench
full=()
on=vm
usage() {
	sed -n 's/^# \?//p' "$0" | sed -n '3,/^The rows/p' | sed '$d'
}
while [ $# -gt 0 ]; do
	case $1 in
	--full) full=(--full) ;;
	--here) on=here ;;
	--help) usage && exit ;;
	*) break ;;
	esac
	shift
done
for name; do
	case $name in
	ops | threads | expire | heartbeat | server | uml | device) ;;
	*)
		usage >&2
		die "no such part: $name"
		;;
	esac
done

# Whose table, and where the device is: the rows of what is here say "here".
table=()
device=("$top/bench/device/vm_bench.sh")
if [ $on = here ]; then
	[ -w /dev/twheel ] || die "there is no /dev/twheel for us: make load"
	table=(env TWHEEL_BACKEND=kernel)
	device=("${table[@]}")
fi
mkdir -p "$out"
parts=(device expire heartbeat ops server threads uml)
all=
if [ $# = 0 ]; then
	all=1
	set -- device ops threads expire heartbeat server uml
fi
quietly make -s -C "$here" O="$out"
# On a machine without them, which is measured with --here, N22 is not.
quietly make -s -C "$here" O="$out" rivals || echo "bench: without Tokio or Go" >&2
# Before all else, and not after half an hour.
[[ $on = vm || " $* " != *" device "* ]] || "$out/vm_bench" check >&2 || die "the device cannot be measured here"

for name in ${all:+"${parts[@]}"}; do
	rm -f "$out/$name.tsv"
done

# measured NAME: what was measured, and when, for who reads its rows later.
measured() {
	echo "# $1: $(date -u +%F), twheel" \
		"$(git -C "$top" describe --always --dirty 2>/dev/null || echo 'of no commit')"
}

# part NAME COMMAND...: its rows.
part() {
	local start=$SECONDS

	echo "bench: $1 ..." >&2
	if ! {
		"${@:2}" && measured "$1"
	} >"$out/$1.new" 2>"$logs/bench-$1.log"; then
		cat "$logs/bench-$1.log" >&2
		die "bench: $1 failed"
	fi
	mv "$out/$1.new" "$out/$1.tsv"
	echo "bench: $1: $(grep -vc '^#' "$out/$1.tsv") rows, $((SECONDS - start)) s" >&2
}

# A million within a second is for those alone that are in time.
expirations() {
	"$out/bench" --part=expire "${full[@]}"
	[ -n "${full[*]}" ] ||
		"$out/bench" --part=expire --n=1000000 --only=libtwheel,wheel,lazy,heap,libev
}

# The machine that it is, for who reads the rows elsewhere.
machine() {
	echo "# $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)," \
		"$(nproc) processors, Linux $(uname -r | sed 's/[-+].*//')"
}

# The numbers whose parts have rows.
numbers() {
	local number part parts

	while read -r number parts; do
		for part in $parts; do
			[ -e "$out/$part.tsv" ] || continue 2
		done
		echo "$number"
	done <<-'END'
		N1 ops
		N2 ops
		N3 ops threads
		N4 threads
		N5 uml
		N6 ops uml
		N7 device uml
		N8 device
		N9 device
		N10 device
		N11 device
		N12 heartbeat device
		N13 ops threads
		N14 expire
		N15 heartbeat
		N16 expire
		N17 ops
		N18 uml
		N19 threads
		N20 server
		N21 ops threads
		N22 ops
		N23 threads
	END
}

# The emulated device does not notice what else the machine does, as all that comes after
# it would: that is when the kernel of the bench is built, which may be from nothing.
builder=
if [[ $on = vm && " $* " = *" device "*" uml "* ]]; then
	setsid chrt --idle 0 "$top/bench/device/kunit.sh" --build >"$logs/bench-build.log" 2>&1 &
	builder=$!
	# However this ends, it does not go on beside what is measured next.
	trap '[ -z "$builder" ] || kill -- "-$builder" 2>/dev/null || true' EXIT
fi
# built: no build goes on beside a measurement, and none is in vain.
built() {
	[ -n "$builder" ] || return 0
	wait "$builder" || {
		builder=
		cat "$logs/bench-build.log" >&2
		die "bench: the kernel cannot be built"
	}
	builder=
}

for name; do
	[ "$name" = device ] || built
	case $name in
	ops) part ops "${table[@]}" "$out/bench" --part=ops "${full[@]}" ;;
	threads) part threads "${table[@]}" "$out/bench" --part=threads,calls "${full[@]}" ;;
	expire) part expire expirations ;;
	heartbeat) part heartbeat "$out/bench" --part=heartbeat "${full[@]}" ;;
	server) part server "$out/bench" --part=server,turn "${full[@]}" ;;
	uml) part uml "$top/bench/device/kunit.sh" ${full:+full=1} ;;
	device) part device "${device[@]}" "$out/vm_bench" ;;
	esac
done

files=()
for name in "${parts[@]}"; do
	[ ! -e "$out/$name.tsv" ] || files+=("$out/$name.tsv")
done
{
	head -n 1 "${files[0]}"
	machine
	awk '!/^where\t/' "${files[@]}"
} >"$out/rows"
[ ! -e "$out/rows.tsv" ] || mv "$out/rows.tsv" "$out/rows.before.tsv"
mv "$out/rows" "$out/rows.tsv"
"$here/json" "$out/rows.tsv" >"$out/rows.json"
for name in cost more; do
	"$here/plot.awk" -v "picture=$name" "$out/rows.tsv" >"$out/$name.svg" || rm "$out/$name.svg"
done
cat "$out/rows.tsv"
echo "bench: $((SECONDS / 60)) minutes" >&2
mapfile -t judged < <(numbers)
# commits FILE: of which commits its rows are.
commits() {
	sed -n 's/^# [a-z]*: [0-9-]*, twheel //p' "$1" | sort -u
}
# Each number is the better of two runs, if the run before was of the same commit.
runs=("$out/rows.tsv")
before=$out/rows.before.tsv
if [ -e "$before" ] && [ "$(commits "$before")" = "$(commits "${runs[0]}")" ]; then
	runs+=("$before")
fi
[ ${#judged[@]} = 0 ] || "$here/judge" only="$(
	IFS=,
	echo "${judged[*]}"
)" "${runs[@]}"
