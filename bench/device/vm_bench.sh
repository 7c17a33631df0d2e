#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench/device/vm_bench.sh PROGRAM [KERNEL [COMMAND...]]: runs vm_bench in the VM, or
# these commands, rows on stdout. Machines of a single processor, emulated, with a clock that counts instructions,
# one a nanosecond: so the rows do not depend on what else the host does. They
# know nothing of caches.

. "$(dirname "$0")/../../vm/lib.sh"

program=${1:?which vm_bench?}
kernel=${2:-6.12}
dir=$(mktemp -d)
rates=
# However this ends, none goes on beside what is measured next.
trap '[ -z "$rates" ] || kill -- "-$rates" 2>/dev/null || true; rm -rf "$dir"' EXIT
cp "$program" "$dir/vm_bench"

# machine NAME COMMAND...: runs these in one. Where instructions are counted, a copy should
# not take one for each byte. And 100,000 timerfds that expire in a second keep the hrtimer
# interrupt so busy that the kernel remarks on it, as it may on slow machines.
machine() {
	"$top/vm/run.sh" --kernel "$kernel" --name "vm-bench-$1" --limit 600 --timeout 620 --alike \
		--qemu '-smp 1 -icount shift=0,sleep=off -cpu max,-rdrand,-rdseed,-cx16,-erms' \
		--slow 1 --bin "$dir/vm_bench" "${@:2}" >"$dir/$1"
}

status=0
if [ $# -gt 2 ]; then
	runs=()
	for run in "${@:3}"; do
		runs+=(--run "$run")
	done
	machine out "${runs[@]}" || status=$?
else
	# As neither notices the other. Each takes about as long.
	set -m
	machine rates --run 'vm_bench -r 1 create expire' --run 'vm_bench -r 1 heartbeat memory' &
	set +m
	rates=$!
	machine rest --run 'vm_bench -r 5 idle' --run 'vm_bench -r 5 storm' || status=$?
	wait "$rates" || status=$?
	rates=
	cat "$dir/rates" "$dir/rest" >"$dir/out"
fi
if [ "$status" -ne 0 ]; then
	cat "$dir/out" >&2
	die "vm_bench failed"
fi
# What could not be measured, for who misses its rows.
grep -E '^(# [a-z+_-]*[:,]|vm_bench: )' "$dir/out" >&2 || true
# Each of them has a header.
grep -P '\t' "$dir/out" | awk '!/^where\t/ || !header++'
echo "# vm(emulated): a ns is an instruction, not a time; costs are the same each time,"
echo "# vm(emulated): how late something is depends on the moment, and there are some of it"
