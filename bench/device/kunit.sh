#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench/device/kunit.sh [--build | --device | NAME=VALUE...]: measures what the wheel costs in the
# kernel, beside hrtimer and timer_list, and what the device costs a program that makes system
# calls. Prints rows with a header. With --build, it only builds; with --device, it only measures
# the device.
#
#   full=1  measures all with 10^7 timers, not only the wheel
#   reps=N  number of repetitions; at most 3 for a million timers or more, unless full=1
#   only=N  only measures N timers
#
# The kernel is user-mode Linux, which runs natively. Its source and build are in the same places
# as those of tests/core/kunit.sh. The device is also measured with retpolines, which the kernels
# of distributions use.

. "$(dirname "$0")/../../tests/core/tree.sh"

take_tree 6.12
mend_registers "$tree"
plant twheel.o twheel_quota.o twheel_store.o twheel_slots.o twheel_word.o twheel_marks.o twheel_timers.o \
	twheel_turn.o twheel_ioctl.o twheel_chrdev.o twheel_bench_kunit.o
ln -s "$top"/bench/device/twheel_bench*.[ch] "$tree/lib/twheel"
# shellcheck disable=SC2016
echo 'ccflags-y += $(TWHEEL_CFLAGS)' >>"$tree/lib/twheel/Makefile"
dir=$tree.build-bench
log=$logs/kunit-bench.log
mkdir -p "$dir"
rm -rf "$dir/lib/twheel"
config=(CONFIG_HIGH_RES_TIMERS=y CONFIG_BLK_DEV_INITRD=y CONFIG_DEVTMPFS=y CONFIG_NULL_CHAN=y)
(
	cd "$tree"
	quietly python3 tools/testing/kunit/kunit.py build --arch=um --build_dir="$dir" \
		--jobs="$(nproc)" --kunitconfig="$top/kunit/.kunitconfig" \
		"${config[@]/#/--kconfig_add=}"
)
for name in "${config[@]}"; do
	grep -qx "$name" "$dir/.config" || die "the kernel was configured without $name"
done
# Copy the programs and unlock the tree, so that others can build during the run.
linux=$(mktemp "$dir/linux.XXXXXX")
trap 'rm -rf "$linux" "$linux".*' EXIT
install "$dir/linux" "$linux"
# Only our own files get retpolines, because the other code is the same for all timers.
quietly make -s -C "$tree" ARCH=um O="$dir" "-j$(nproc)" linux \
	TWHEEL_CFLAGS='-mindirect-branch=thunk-inline -mindirect-branch-register'
install "$dir/linux" "$linux.retpoline"
[ "${1-}" != --build ] || exit 0
exec 9>&-

# A real kernel maps most of its memory in pages of 2 MiB or more, so a cache miss costs one memory
# access and not another one for the address of the page. The memory of user-mode Linux is a file.
# It is on a tmpfs with large pages, if we are root, may mount one and get such pages.
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
# Prints how many KiB of files on a tmpfs are in large pages.
in_large() {
	sed -n 's/^ShmemHugePages: *\([0-9]*\) kB/\1/p' /proc/meminfo
}
memory=$dir/memory
pages=$linux.pages
echo small >"$pages"
mkdir -p "$memory"
export -f run large in_large
export linux pages memory

# programs: makes the initramfs for the machine that measures the device.
programs() {
	local files=$linux.files

	need busybox-static cpio
	quietly make -s -C "$top/bench/timers" O="$build/bench"
	mkdir -p "$files"/{bin,dev,proc}
	cp "$build/bench/vm_bench" "$files/bin"
	cp "$(command -v busybox)" "$files/bin/busybox"
	cat >"$files/init" <<-'END'
		#!/bin/busybox sh
		/bin/busybox mount -t proc proc /proc
		/bin/busybox mount -t devtmpfs dev /dev
		# The kernel puts unknown words of its command line into the environment.
		/bin/vm_bench -w "$where" -c "$call" -r "$reps" native
		echo "status: $?"
		/bin/busybox poweroff -f
	END
	chmod +x "$files/init"
	(cd "$files" && find . | cpio --quiet -o -H newc) >"$linux.initramfs"
}

# device WHERE LINUX CALL: prints rows of the device, measured on the same processor as the host.
device() {
	local log=$logs/uml-device.log

	taskset -c "$processor" timeout 300 "$2" mem=1500M "initrd=$linux.initramfs" con=null \
		con0=null,fd:1 kunit.enable=0 quiet panic=-1 "where=$1" "call=$3" "reps=${reps:-5}" \
		</dev/null >"$log" 2>&1 || true
	grep -q '^status: 0' "$log" || {
		tail -n 40 "$log" >&2
		die "the bench of the device has failed: see $log"
	}
	grep -P "^\Q$1\E\t" "$log" | tr -d '\r'
}

# devices: measures the device, and the host that it is compared with.
devices() {
	local call

	programs
	processor=$(taskset -cp "$$" | sed 's/.*[-,: ]//')
	taskset -c "$processor" "$build/bench/vm_bench" -w native -r "${reps:-5}" host >"$linux.host"
	call=$(awk -F '\t' '$2 == "ioctl" { print $7 }' "$linux.host")
	[ -z "${with_header-}" ] || head -n 1 "$linux.host"
	grep -P '\t(ioctl|create)\t' "$linux.host"
	device uml "$linux" "$call"
	device uml+retpoline "$linux.retpoline" "$call"
}

reps=$(printf '%s\n' "$@" | sed -n 's/^reps=//p')
if [ "${1-}" = --device ]; then
	with_header=1 devices
	exit
fi
set -- "${@/#/twheel_bench_kunit.}"
{ [ "$(id -u)" = 0 ] && unshare -m bash -c 'large "$@"' large "$@"; } \
	</dev/null >"$log" 2>&1 || true
if [ "$(cat "$pages")" = small ]; then
	run "$@" </dev/null >"$log" 2>&1 || true
fi

grep -Eq '^# Totals: pass:[1-9][0-9]* fail:0 ' "$log" || {
	tail -n 40 "$log" >&2
	die "the bench has failed: see $log"
}
printf 'where\top\tbackend\tn\tthreads\tpattern\tvalue\tunit\tspread\treps\tchecked\tvalues\n'
echo "# uml: the kernel's memory is in $(cat "$pages") pages"
sed -n 's/^.*bench-row: //p' "$log"
devices
