#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# vm/programs.sh [ARCHITECTURE]: builds the programs and the tests of the device:
# into build/user and build/user32, or, for arm64 or s390x, the tests into
# build/user-ARCHITECTURE.

. "$(dirname "$0")/lib.sh"

harness=$("$top/vm/source.sh")/tools/testing/selftests
case ${1-} in
'')
	make -j "$(nproc)" -C "$top/userspace" all selftests KSELFTEST="$harness"
	make -j "$(nproc)" -C "$top/userspace" all selftests KSELFTEST="$harness" BITS=32
	;;
arm64 | s390x)
	cross=${1/arm64/aarch64}-linux-gnu-
	need "gcc-${cross%-}" "libc6-dev-$1-cross"
	out=$build/user-$1
	tests=("$top"/userspace/selftests/*_test.c)
	tests=("${tests[@]##*/}")
	for test in "${tests[@]%.c}"; do
		[[ $test = lib_* ]] || echo "$out/$test"
	done | xargs make -C "$top/userspace" KSELFTEST="$harness" O="$out" CC="${cross}gcc" \
		AR="${cross}ar" LD="${cross}ld" OBJCOPY="${cross}objcopy"
	;;
*)
	die "unknown: $1"
	;;
esac
