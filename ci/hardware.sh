#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/hardware.sh [--yes] [--no-bench]: tests and measures the module on this machine, and writes a
# report for its developers. It builds the module for the running kernel, loads it, runs the tests
# of the device and most of make bench HERE=1, unloads the module, and leaves the report in
# build/hardware.txt.
#
# It asks before it loads the module, unless you give --yes. A bug of the module can crash the
# machine, so save your work first. With Secure Boot it signs the module as make sign does, with the
# key of DKMS or with KEY= and CERT=. KSELFTEST=DIR names the directory of the kernel's
# kselftest_harness.h, if the distribution has no package linux-source-6.12.

. "$(dirname "$0")/../vm/lib.sh"

yes=
bench=1
for option; do
	case $option in
	--yes) yes=1 ;;
	--no-bench) bench= ;;
	*) die "unknown option: $option" ;;
	esac
done
report=$build/hardware.txt
parts=("$build"/bench/{device,ops,threads,expire,heartbeat})
headers=/lib/modules/$(uname -r)/build
# Debian has modinfo where users do not look.
PATH+=:/usr/sbin:/sbin
cd "$top"

[ -e "$headers/Makefile" ] || die "there are no kernel headers in $headers: install linux-headers-$(uname -r)"
[ "$(id -u)" = 0 ] || command -v sudo >/dev/null || die "you need root or sudo to load the module"
[ ! -d /sys/module/twheel ] || die "the module is already loaded: unload it first (sudo rmmod twheel)"
if command -v apt-get >/dev/null; then
	vm/deps.sh hardware
elif [ -z "${KSELFTEST-}" ]; then
	die "not a Debian: KSELFTEST=DIR has to name tools/testing/selftests of a kernel's source"
fi
make -s -C "$headers" M="$top" modules >&2 </dev/null
built=$(modinfo -F vermagic "$top/twheel.ko")
[ "${built%% *}" = "$(uname -r)" ] || die "twheel.ko was built for kernel ${built%% *}, but $(uname -r) is running: install its headers"
# A kernel that is locked down only loads signed modules.
if grep -qs '\[\(integrity\|confidentiality\)\]' /sys/kernel/security/lockdown; then
	as_root env KEY="${KEY-}" CERT="${CERT-}" packaging/dkms.sh sign twheel.ko
fi
WERROR=0 ci/programs.sh >&2

if [ -z "$yes" ]; then
	cat >&2 <<-'END'
		This loads twheel.ko into the running kernel, tests and measures it for up to half an
		hour, and unloads it. Tests set the wall clock of this machine forward and back. A bug
		of the module can crash this machine, so save your work.
	END
	read -r -p 'Continue? [y/N] ' answer || answer=
	[[ $answer = [yY]* ]] || die "canceled: the module was not loaded"
fi

# complaints: prints the problems in the kernel's log since the line that we write now, with what
# follows each. If the log is so full that our line is gone, it takes the whole log.
begins="make hardware begins: $$"
echo "$begins" | as_root tee /dev/kmsg >/dev/null
complaints() {
	as_root dmesg | awk -v begins="$begins" '
		index($0, begins) { n = 0; next }
		{ line[n++] = $0 }
		END { for (i = 0; i < n; i++) print line[i] }' | grep -F -A 40 -f vm/forbidden |
		sed "s/\b$(uname -n)\b/HOST/g"
}
as_root insmod "$top/twheel.ko"
trap 'as_root rmmod twheel' EXIT
# sudo forgets the password after 15 minutes, which is less than the benchmarks may take, and nobody
# may be there to enter it once more.
if [ "$(id -u)" != 0 ]; then
	while kill -0 $$ && sudo -n -v; do sleep 60; done >/dev/null 2>&1 &
fi

{
	echo "twheel $(modinfo -F version twheel.ko), $(git describe --always --dirty 2>/dev/null)"
	uname -srvm
	sed -n '/^model name/ { s/.*: /processor: /p; q }' /proc/cpuinfo
	echo "processors: $(nproc)"
	sed -n 's/^MemTotal: */memory: /p' /proc/meminfo
	echo "clock: $(cat /sys/devices/system/clocksource/clocksource0/current_clocksource)"
	echo "machine: $(systemd-detect-virt 2>/dev/null || true)"
	grep -s . /sys/devices/system/cpu/vulnerabilities/* | sed 's/.*vulnerabilities.//' || true
	echo
	as_root tests/device/here.sh "$build/user" 420 && echo 'tests: passed' || echo 'tests: FAILED'
	if [ -n "$bench" ]; then
		echo
		as_root rm -f "${parts[@]/%/.tsv}"
		# It prints the rows of this run, and fails if a target is missed.
		as_root timeout -k 10 1140 bench/timers/run.sh --here "${parts[@]##*/}" 2>&1 ||
			echo "bench: ended with status $?"
	fi
} >"$report"
# If the benchmarks ended before they printed any row, add those of the completed parts.
if [ -n "$bench" ] && ! grep -q '^bench: [0-9]* minutes$' "$report"; then
	cat "${parts[@]/%/.tsv}" >>"$report" 2>/dev/null || true
fi
trap - EXIT
{
	echo
	as_root rmmod twheel && echo 'rmmod: passed' || echo 'rmmod: FAILED'
	if complaints; then
		echo 'kernel log: FAILED, see the lines above'
	else
		echo 'kernel log: no complaint'
	fi
} >>"$report"
# The directory may contain the name of the user.
sed -i "s|$top/||g" "$report"
[ "$(id -u)" = 0 ] || as_root chown -R "$(id -u)" "$build"
grep -E '^(tests|kernel log|rmmod):' "$report" >&2
echo "the whole report is in build/hardware.txt" >&2
! grep -qE '^(tests|kernel log|rmmod): FAILED' "$report"
