#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/hardware.sh [--yes] [--no-bench]: what the module does on this machine, for those who
# develop it. Builds the module for the running kernel, loads it, runs the tests of the device and
# make bench HERE=1, unloads the module again, and leaves one file to send: build/hardware.txt.
#
# It asks before it loads the module, unless --yes is given. A bug of the module can bring the
# machine down: save your work.

. "$(dirname "$0")/../vm/lib.sh"

yes=
bench=1
for option; do
	case $option in
	--yes) yes=1 ;;
	--no-bench) bench= ;;
	*) die "unknown: $option" ;;
	esac
done
report=$build/hardware.txt
headers=/lib/modules/$(uname -r)/build
cd "$top"

[ -e "$headers/Makefile" ] || die "no kernel headers in $headers: install linux-headers-$(uname -r)"
[ ! -d /sys/module/twheel ] || die "twheel is loaded already: unload it first (sudo rmmod twheel)"
if grep -qs '\[\(integrity\|confidentiality\)\]' /sys/kernel/security/lockdown; then
	die "the kernel takes signed modules only: see Secure Boot in doc/install.md"
fi
make -s -C "$headers" M="$top" modules >&2 </dev/null
built=$(modinfo -F vermagic "$top/twheel.ko")
[ "${built%% *}" = "$(uname -r)" ] || die "twheel.ko is for ${built%% *}, and this is $(uname -r)"
ci/programs.sh >&2

if [ -z "$yes" ]; then
	cat >&2 <<-'END'
		This loads twheel.ko into the running kernel, tests and measures it for up to half an
		hour, and unloads it. A bug of the module can bring this machine down: save your work.
	END
	read -r -p 'Go on? [y/N] ' answer
	[[ $answer = [yY]* ]] || die "nothing was loaded"
fi
as_root insmod "$top/twheel.ko"
trap 'as_root rmmod twheel' EXIT

# What of the kernel's log is bad news, from when the module was loaded: what follows the last line
# of ours, or all of it if so much was logged that this line is gone.
begins="make hardware begins: $$"
echo "$begins" | as_root tee /dev/kmsg >/dev/null
complaints() {
	as_root dmesg | awk -v begins="$begins" '
		index($0, begins) { n = 0; next }
		{ line[n++] = $0 }
		END { for (i = 0; i < n; i++) print line[i] }' | grep -F -f vm/forbidden
}

{
	echo "twheel $(modinfo -F version twheel.ko), $(git describe --always --dirty 2>/dev/null)"
	uname -srvm
	sed -n 's/^model name[[:space:]]*: /processor: /p' /proc/cpuinfo | head -n 1
	echo "processors: $(nproc)"
	sed -n 's/^MemTotal: */memory: /p' /proc/meminfo
	echo "clock: $(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)"
	echo "machine: $(systemd-detect-virt 2>/dev/null || true)"
	grep -s . /sys/devices/system/cpu/vulnerabilities/* | sed 's/.*vulnerabilities.//' || true
	echo
	as_root tests/device/here.sh "$build/user" && echo 'tests: passed' || echo 'tests: FAILED'
	echo
	if complaints; then
		echo 'kernel log: FAILED, see the lines above'
	else
		echo 'kernel log: no complaint'
	fi
	if [ -n "$bench" ]; then
		echo
		as_root bench/timers/run.sh --here device ops threads expire heartbeat 2>&1 || true
		cat "$build/bench/rows.tsv" 2>/dev/null
	fi
} >"$report"
trap - EXIT
as_root rmmod twheel || echo 'rmmod: FAILED' >>"$report"
grep -E '^(tests|kernel log|rmmod):' "$report" >&2
echo "all of it is in build/hardware.txt" >&2
! grep -qE '^(tests|kernel log|rmmod): FAILED' "$report"
