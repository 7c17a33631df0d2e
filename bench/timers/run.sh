#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench/timers/run.sh [--full] [--here] [PART...]: runs all benches and compares
# them with the targets. The exit status is 1 if a target is missed. Other programs
# disturb the native parts, so the better of this run and of the one before counts,
# if that was of the same commit.
#
#   --full  measures more numbers of timers, with more repetitions
#   --here  uses /dev/twheel of this machine instead of an emulated one
#   PART    only runs these: ops, threads, expire, heartbeat, server (native), uml, device.
#           For the others, the rows of the last run are used. Targets without rows
#           are not judged
#
# The rows are written to build/bench/rows.tsv, with pictures beside them, and those of the run
# before to rows.before.tsv. bench/timers/compare compares the two.

. "$(dirname "$0")/../../vm/lib.sh"

here=$top/bench/timers
out=$build/bench
full=()
on=vm
usage() {
	sed -n 's/^# \?//p' "$0" | sed -n '3,/^The rows are/p' | sed '$d'
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
		die "there is no part $name"
		;;
	esac
done

# Where the table and the device are. In rows of this machine's device, the first column is "here".
table=()
device=("$top/bench/device/vm_bench.sh")
if [ $on = here ]; then
	[ -w /dev/twheel ] || die "there is no /dev/twheel that you can open: load the module with make load"
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
# Without Tokio and Go, which a machine measured with --here may lack, N22 is not measured.
quietly make -s -C "$here" O="$out" rivals || echo "bench: Tokio and Go are not measured, because their programs cannot be built" >&2
# Fail now, and not after half an hour.
[[ $on = vm || " $* " != *" device "* ]] || "$out/vm_bench" check >&2 || die "the device cannot be measured here"

for name in ${all:+"${parts[@]}"}; do
	rm -f "$out/$name.tsv"
done

# measured NAME: prints a comment with the date and the commit of these rows.
measured() {
	echo "# $1: $(date -u +%F), twheel" \
		"$(git -C "$top" describe --always --dirty 2>/dev/null || echo 'of no commit')"
}

# part NAME COMMAND...: writes the rows of this command to a file.
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

# Only some backends can expire a million timers within a second.
expirations() {
	"$out/bench" --part=expire "${full[@]}"
	[ -n "${full[*]}" ] ||
		"$out/bench" --part=expire --n=1000000 --only=libtwheel,wheel,lazy,heap,libev
}

# Prints a comment that describes the machine.
machine() {
	echo "# $(sed -n 's/^model name[[:space:]]*: //p' /proc/cpuinfo | head -n 1)," \
		"$(nproc) processors, Linux $(uname -r | sed 's/[-+].*//')"
}

# Prints the targets whose parts have rows.
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

# The emulated device counts instructions, so other programs do not disturb it. The kernel for the
# next parts, which may have to be built from scratch, is therefore built at the same time.
builder=
if [[ $on = vm && " $* " = *" device "*" uml "* ]]; then
	setsid chrt --idle 0 "$top/bench/device/kunit.sh" --build >"$logs/bench-build.log" 2>&1 &
	builder=$!
	# If this script ends, the build must not continue beside the next measurement.
	trap '[ -z "$builder" ] || kill -- "-$builder" 2>/dev/null || true' EXIT
fi
# built: waits for the build before a native measurement begins.
built() {
	[ -n "$builder" ] || return 0
	wait "$builder" || {
		builder=
		cat "$logs/bench-build.log" >&2
		die "bench: the kernel for user-mode Linux cannot be built"
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
for name in cost more; do
	"$here/plot.awk" -v "picture=$name" "$out/rows.tsv" >"$out/$name.svg" || rm "$out/$name.svg"
done
cat "$out/rows.tsv"
echo "bench: $((SECONDS / 60)) minutes" >&2
mapfile -t judged < <(numbers)
# commits FILE: prints the commits of its rows.
commits() {
	sed -n 's/^# [a-z]*: [0-9-]*, twheel //p' "$1" | sort -u
}
# The better of two runs counts, if the run before was of the same commit.
runs=("$out/rows.tsv")
before=$out/rows.before.tsv
if [ -e "$before" ] && [ "$(commits "$before")" = "$(commits "${runs[0]}")" ]; then
	runs+=("$before")
fi
[ ${#judged[@]} = 0 ] || "$here/judge" only="$(
	IFS=,
	echo "${judged[*]}"
)" "${runs[@]}"
