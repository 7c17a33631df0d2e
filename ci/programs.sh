#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/programs.sh [WHAT]: builds programs and tests. Only one instance builds at a time. WHAT is
#
#   (nothing)         the programs and all tests, into build/user
#   32                the same for 32 bits, into build/user32
#   device            only the tests of the device, into both of these
#   arm64, s390x      the tests of the device and lib_test, into build/user-ARCHITECTURE
#   stress, stress32  the hostile tests, into build/stress or build/stress32
#   exact, power      the test of ci/exact.sh or ci/power.sh, into build/exact or build/power

. "$(dirname "$0")/../vm/lib.sh"

# Treat warnings as errors, unless the caller is a user, whose compiler may know other ones.
export WERROR=${WERROR-1}

harness=${KSELFTEST:-$("$top/vm/source.sh")/tools/testing/selftests}
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
	# rename() replaces the program at once, because a machine may be copying it just now.
	mv "$build/.$1" "$build/$1/$1"
	;;
*)
	die "unknown: $1"
	;;
esac
