#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench/device/vm_bench.sh PROGRAM [KERNEL [COMMAND...]]: runs vm_bench, or these
# commands, in the VM, and prints rows. The VM has one emulated processor, and its clock
# counts an instruction as a nanosecond. So the rows depend neither on the load of the
# host nor on caches.
#
# With VM_ACCEL=kvm, it then measures the time of single calls, expirations and heartbeats in a
# VM with two real processors. These rows are named vm(kvm).

. "$(dirname "$0")/../../vm/lib.sh"

program=${1:?the path of vm_bench is missing}
kernel=${2:-6.12}
dir=$(mktemp -d)
rates=
# If this script ends, no machine must continue beside the next measurement.
trap '[ -z "$rates" ] || kill -- "-$rates" 2>/dev/null || true; rm -rf "$dir"' EXIT
cp "$program" "$dir/vm_bench"

# machine NAME OPTION...: runs a machine. -erms, because a copy would otherwise count an instruction
# per byte. --slow, because 100,000 timerfds that expire within a second keep the hrtimer interrupt
# so busy that the kernel reports it.
machine() {
	"$top/vm/run.sh" --kernel "$kernel" --name "vm-bench-$1" --limit 600 --timeout 620 --alike \
		--qemu '-smp 1 -icount shift=0,sleep=off -cpu max,-rdrand,-rdseed,-cx16,-erms' \
		--slow 1 --bin "$dir/vm_bench" "${@:2}" >"$dir/$1"
}

# The timers are measured alone, because two machines would share the processors.
native() {
	"$top/vm/run.sh" --kernel "$kernel" --name vm-bench-kvm --limit 600 --timeout 620 --slow 1 \
		--bin "$dir/vm_bench" \
		--run "vm_bench -w 'vm(kvm)' -r 3 create expire heartbeat" >"$dir/kvm"
}

status=0
if [ $# -gt 2 ]; then
	runs=()
	for run in "${@:3}"; do
		runs+=(--run "$run")
	done
	machine out "${runs[@]}" || status=$?
else
	# Run two machines at once, because neither notices the other. They take about the same
	# time.
	set -m
	machine rates --run 'vm_bench -r 1 create expire' --run 'vm_bench -r 1 heartbeat memory' &
	set +m
	rates=$!
	machine rest --run 'vm_bench -r 5 idle' --run 'vm_bench -r 5 storm' || status=$?
	wait "$rates" || status=$?
	rates=
	cat "$dir/rates" "$dir/rest" >"$dir/out"
	if [ "${VM_ACCEL-}" = kvm ]; then
		native || status=$?
		cat "$dir/kvm" >>"$dir/out"
	fi
fi
if [ "$status" -ne 0 ]; then
	cat "$dir/out" >&2
	die "vm_bench has failed: see its output above"
fi
# Show what could not be measured, and why.
grep -E '^(# [a-z+_-]*[:,]|vm_bench: )' "$dir/out" >&2 || true
# Keep only the first of the headers.
grep -P '\t' "$dir/out" | awk '!/^where\t/ || !header++'
echo "# vm(emulated): an instruction counts as 1 ns; costs are the same in each run,"
echo "# vm(emulated): but lateness depends on the moment, so there are several values of it"
