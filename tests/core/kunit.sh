#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Runs the suites in a kernel: user-mode Linux, built and started by the
# kernel's own kunit.py from Debian's linux-source-VERSION.
#
# The wheel and the suites are linked into the kernel without the device, so a
# call from one of them to the device is a link error.
#
# Source and build are kept in ${XDG_CACHE_HOME:-~/.cache}/twheel/.

. "$(dirname "$0")/tree.sh"

usage() {
	cat <<-EOF
	usage: run.sh [--kasan] VERSION [NAME=VALUE...]

	  --kasan     with KASAN, which finds what the wheel does to memory
	  VERSION     of the kernel: 6.12, 6.1
	  NAME=VALUE  parameter of the random suite: seed=42 ops=1000000
	EOF
}

kasan=
[ "${1-}" != --kasan ] || { kasan=1; shift; }
version=${1-}
case $version in
6.1|6.12) shift ;;
-h|--help) usage; exit 0 ;;
*) usage >&2; exit 2 ;;
esac

take_tree "$version"
plant twheel.o twheel_quota.o twheel_store.o twheel_kunit.o twheel_turn_kunit.o \
	twheel_model_kunit.o twheel_word_kunit.o
dir=$tree.build${kasan:+-kasan}
mkdir -p "$dir"
# Another checkout may have built these from files that look older.
rm -rf "$dir/lib/twheel"

failed=
args=("${@/#/--kernel_args=twheel_model_kunit.}")

cd "$tree"
kunit=tools/testing/kunit/kunit.py
log=$dir/twheel.log
python3 $kunit build --arch=um --build_dir="$dir" --jobs="$(nproc)" \
	--kunitconfig="$top/kunit/.kunitconfig" \
	${kasan:+--kconfig_add=CONFIG_KASAN=y --kconfig_add=CONFIG_KASAN_VMALLOC=y} \
	> "$log" 2>&1 || { cat "$log"; die "no kernel"; }

ktap=$dir/twheel.ktap
# A report of KASAN fails the case in which it comes; there is only the first.
python3 $kunit exec --arch=um --build_dir="$dir" --timeout=120 --raw_output=kunit \
	"${args[@]}" 'twheel*' > "$ktap" || failed=1
cat "$ktap"
# Of a warning no case knows.
! grep -E '(WARNING|BUG): ' "$ktap" || failed=1

# kunit.py sees what is missing, as after a crash. What has no results below it counts.
python3 $kunit parse "$ktap" > "$log" || failed=1
awk '
	/^ *(not )?ok / {
		match($0, /^ */)
		if (RLENGTH >= depth) {
			if ($1 == "ok" && !/# SKIP/)
				passed++
			else
				failed++
		}
		depth = RLENGTH
	}
	END {
		printf "linux %s: %d passed, %d failed\n", version, passed, failed
		exit failed || !passed
	}
' version="$version${kasan:+ with KASAN}" "$ktap" || failed=1
if [ "$failed" ]; then
	cat "$log"
	exit 1
fi
