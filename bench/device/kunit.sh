#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench/device/kunit.sh [--build | NAME=VALUE...]: what the wheel costs in the kernel, beside
# hrtimer and timer_list: rows on stdout, with a header line. Or builds alone.
#
#   full=1  all with 10^7 timers, not the wheel alone
#   reps=N  repetitions; with a million and more no more than 3, unless full=1
#   only=N  with N timers alone
#
# It runs natively, in user-mode Linux; source and build are kept where
# tests/core/kunit.sh keeps them.

. "$(dirname "$0")/../../tests/core/tree.sh"

take_tree 6.12
plant twheel.o twheel_quota.o twheel_store.o twheel_slots.o twheel_word.o twheel_marks.o twheel_timers.o \
	twheel_events.o twheel_bench_kunit.o
dir=$tree.build-bench
log=$logs/kunit-bench.log
mkdir -p "$dir"
rm -rf "$dir/lib/twheel"
(
	cd "$tree"
	quietly python3 tools/testing/kunit/kunit.py build --arch=um --build_dir="$dir" \
		--jobs="$(nproc)" --kunitconfig="$top/kunit/.kunitconfig" \
		--kconfig_add=CONFIG_HIGH_RES_TIMERS=y
)
grep -qx CONFIG_HIGH_RES_TIMERS=y "$dir/.config" || die "no high resolution"
[ "${1-}" != --build ] || exit 0
# So that they need not wait for the run.
linux=$(mktemp "$dir/linux.XXXXXX")
trap 'rm -f "$linux" "$linux.pages"' EXIT
install "$dir/linux" "$linux"
exec 9>&-

# A kernel maps its own memory by 2 MiB and more, mostly, and a timer that is not in a
# cache then costs one wait for memory, not one for the page's address too. Here its
# memory is a file: in such pages, if we are root, may mount one and get them.
run() {
	"$linux" mem=4G console=tty kunit_shutdown=halt 'kunit.filter_glob=twheel_bench' "$@"
}
large() {
	local before

	mount -t tmpfs -o huge=always,size=5g twheel-bench "$memory" || return
	before=$(in_large)
	head -c 64M /dev/zero >"$memory/try"
	[ $(($(in_large) - before)) -ge 60000 ] || return
	rm "$memory/try"
	echo large >"$pages"
	TMPDIR=$memory run "$@"
}
# KiB of the machine's files in memory.
in_large() {
	sed -n 's/^ShmemHugePages: *\([0-9]*\) kB/\1/p' /proc/meminfo
}
memory=$dir/memory
pages=$linux.pages
echo small >"$pages"
mkdir -p "$memory"
export -f run large in_large
export linux pages memory
set -- "${@/#/twheel_bench_kunit.}"
{ [ "$(id -u)" = 0 ] && unshare -m bash -c 'large "$@"' large "$@"; } \
	</dev/null >"$log" 2>&1 || true
if [ "$(cat "$pages")" = small ]; then
	run "$@" </dev/null >"$log" 2>&1 || true
fi

grep -Eq '^# Totals: pass:[1-9][0-9]* fail:0 ' "$log" || {
	tail -n 40 "$log" >&2
	die "the bench failed: $log"
}
printf 'where\top\tbackend\tn\tthreads\tpattern\tvalue\tunit\tspread\treps\tchecked\tvalues\n'
echo "# uml: the kernel's memory is in $(cat "$pages") pages"
sed -n 's/^.*bench-row: //p' "$log"
