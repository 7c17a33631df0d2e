#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/programs.sh [32 | device | arm64 | s390x | stress | stress32 | exact | power]: builds the
# programs and all tests, into build/user, or with 32 bits into build/user32; or the tests of the device alone,
# into the same; or these and lib_test for that architecture, into build/user-ARCHITECTURE; or the hostile
# ones, into build/stress or build/stress32; or those of ci/exact.sh or ci/power.sh, into
# build/exact or build/power. One at a time.

. "$(dirname "$0")/../vm/lib.sh"

# A warning is an error here.
export WERROR=1

harness=$("$top/vm/source.sh")/tools/testing/selftests
exec 9>"$build/.programs.lock"
flock 9
case ${1-} in
'')
	make -s -j "$(nproc)" -C "$top/userspace" all
	make -s -j "$(nproc)" -C "$top/tests" KSELFTEST="$harness"
	;;
32)
	make -s -j "$(nproc)" -C "$top/userspace" all BITS=32
	make -s -j "$(nproc)" -C "$top/tests" KSELFTEST="$harness" BITS=32
	;;
device)
	make -s -j "$(nproc)" -C "$top/tests" devicetests KSELFTEST="$harness"
	make -s -j "$(nproc)" -C "$top/tests" devicetests KSELFTEST="$harness" BITS=32
	;;
arm64 | s390x)
	cross=${1/arm64/aarch64}-linux-gnu-
	need "gcc-${cross%-}" "libc6-dev-$1-cross"
	make -s -C "$top/tests" devicetests "$build/user-$1/lib_test" KSELFTEST="$harness" \
		O="$build/user-$1" CROSS_COMPILE="$cross"
	;;
stress)
	make -s -j "$(nproc)" -C "$top/tests/hostile" KSELFTEST="$harness"
	;;
stress32)
	make -s -j "$(nproc)" -C "$top/tests/hostile" KSELFTEST="$harness" BITS=32
	;;
exact | power)
	mkdir -p "$build/$1"
	gcc -O2 -Wall -Wextra -Wno-missing-field-initializers -Werror -std=gnu11 -pthread -static \
		-isystem "$harness" -I"$top/tests/lib" -I"$top/include/uapi" \
		-o "$build/.$1" "$top/tests/device/$1/$1.c"
	# Another machine may just be made of what is there.
	mv "$build/.$1" "$build/$1/$1"
	;;
*)
	die "unknown: $1"
	;;
esac
