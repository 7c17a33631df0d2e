#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the suites in a kernel: user-mode Linux from Debian's linux-source-VERSION, with KUnit
# and as little else as possible. Prints TAP.
#
# The wheel and the suites are linked into the kernel without the device, so a call from one of
# them to the device is a link error.
#
# Sources and builds are kept in ${XDG_CACHE_HOME:-~/.cache}/twheel/.

. "$(dirname "$0")/tree.sh"

usage() {
	cat <<-EOF
	usage: kunit.sh [--kasan] [--build] VERSION [NAME=VALUE...]

	  --kasan     with KASAN, which finds what the wheel does to memory
	  --build     only builds the kernel
	  VERSION     of the kernel: 6.12, 6.1
	  NAME=VALUE  parameter of the random suite: seed=42 ops=1000000
	EOF
}

kasan=
only_build=
while [[ ${1-} = --* ]]; do
	case $1 in
	--kasan) kasan=1 ;;
	--build) only_build=1 ;;
	*) usage && exit ;;
	esac
	shift
done
version=${1-}
case $version in
6.1|6.12) shift ;;
*) usage >&2; exit 2 ;;
esac

take_tree "$version"
plant twheel.o twheel_kunit.o twheel_turn_kunit.o twheel_model_kunit.o twheel_word_kunit.o
dir=$tree.build${kasan:+-kasan}
mkdir -p "$dir"
# Another checkout may have built these from files that look older.
rm -rf "$dir/lib/twheel"

build() {
	local make=(make -s -C "$tree" ARCH=um "O=$dir")

	cat "$top/tests/core/kunit.config" >"$dir/fragment"
	[ -z "$kasan" ] || printf 'CONFIG_%s=y\n' KASAN KASAN_GENERIC KASAN_VMALLOC >>"$dir/fragment"
	cmp -s "$dir/fragment" "$dir/configured" || {
		"${make[@]}" KCONFIG_ALLCONFIG="$dir/fragment" allnoconfig
		cp "$dir/fragment" "$dir/configured"
	}
	[ -z "$kasan" ] || grep -qx CONFIG_KASAN_GENERIC=y "$dir/.config"
	"${make[@]}" "-j$(nproc)" linux
}
quietly build
[ -z "$only_build" ] || exit 0

# A report of KASAN fails the case in which it occurs; KASAN prints only the first one.
ktap=$dir/twheel.ktap
timeout 1200 "$dir/linux" mem=1G console=tty kunit.enable=1 kunit_shutdown=halt \
	'kunit.filter_glob=twheel*' \
	"${@/#/twheel_model_kunit.}" </dev/null >"$ktap" 2>&1 || true
flat "$ktap"
