#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# vm/suite.sh KERNEL [WHAT [OPTION-OF-run.sh...]]: the tests of the device, in one
# machine. WHAT is
#
#   all     with 64-bit and with 32-bit programs (the default)
#   64      with 64-bit programs, or those of the kernel's architecture
#   races   those of 64 in which threads meet
#
# The programs are those of vm/programs.sh. The library is the same on each
# kernel: its tests, and the scripts, are in "all" alone.

. "$(dirname "$0")/lib.sh"

kernel=${1:?which kernel?}
what=${2:-all}
shift $(($# > 1 ? 2 : 1))
tests=$top/userspace/selftests
run=()
bins=(--bin "$build/user")

case $what in
all)
	bins+=(--bin "$build/user32:/bin32" --bin "$tests:/tests")
	in_32="TWHEELCTL=/bin32/twheelctl IDLE_SERVER=/bin32/idle_server EXAMPLES=/bin32"
	for test in "$tests"/*_test.c; do
		test=$(basename "$test" .c)
		run+=(--run "$test")
		# Once is enough of the library.
		[[ $test = lib_* && $kernel != 6.12 ]] || run+=(--run "/bin32/$test")
	done
	run+=(--run lib_cxx_test)
	# Eight threads at one wheel for a minute, each timeout accounted for.
	if [ "$kernel" = 6.12 ]; then
		run+=(--run "TWHEEL_TEST_SECONDS=60 lib_thread_test -T timers \
			-T never_forgotten -T come_and_go -T keys -v kernel_8")
	fi
	for test in "$tests"/*_test.sh; do
		run+=(--run "sh /tests/${test##*/}" --run "$in_32 sh /tests/${test##*/}")
	done
	;;
64)
	for test in "$tests"/*_test.c; do
		test=$(basename "$test" .c)
		[[ $test = lib_* ]] || run+=(--run "$test")
	done
	;;
races)
	for test in kick doors race table_race; do
		run+=(--run "${test}_test")
	done
	;;
*)
	die "unknown: $what"
	;;
esac
case $kernel in
arm64-* | s390x-*) bins=(--bin "$build/user-${kernel%%-*}") ;;
esac
exec "$top/vm/run.sh" --kernel "$kernel" --name "vm-$kernel" --raw --limit 300 \
	--timeout 1200 --log-ok 'minor 250 is taken' "${bins[@]}" "$@" "${run[@]}"
