#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/suite.sh KERNEL [WHAT [OPTION-OF-run.sh...]]: runs tests in one machine with this
# kernel. WHAT is
#
#   64       tests of the device as 64-bit programs, or as programs for the kernel's
#            architecture (default)
#   32       tests of the device as 32-bit programs
#   library  tests of the library as 64-bit programs
#   tool     tests of twheelctl and of the examples as 64-bit programs
#   lib32    tests of the library, twheelctl and the examples as 32-bit programs
#   races    tests of the device whose threads must run at the same time, as 64-bit programs
#   threads  such tests of the library, which account for each timer and take a minute, or
#            TWHEEL_RACE_SECONDS. tests/library/check.sh races the in-process wheel, without
#            a machine
#   races32  both as 32-bit programs
#   unmapped tests that do not need the table, on an arm64 processor without LSE, where the
#            module refuses to map it, and a test that the library then uses an in-process wheel
#   signals  tests that sleep and copy, while a signal arrives each millisecond
#   fail_nth tests that allocate memory, and each allocation fails in turn
#
# The clock of the machine counts instructions (see --exact of vm/run.sh), so the tests
# cannot notice host load. One processor of the host then runs all processors of the machine
# in turns; for races, each runs on its own.
#
# S/390 and the kernels "debug", "rt-debug", "kmsan" and "newest" only get one processor then,
# and tests that need two run with the races. The reason is that QEMU before 8.1 may schedule a
# CPU that spins on a lock instead of the one that holds it ("accel/tcg/tcg-accel-ops-rr: ensure
# fairness with icount"). We saw this for minutes on 7.3, with the lock of another CPU's timers.
#
# User-mode Linux runs in the host's time. There, read_test runs a second time, with a signal
# each millisecond.
#
# ci/programs.sh builds the programs. The library is the same for all kernels.

. "$(dirname "$0")/../vm/lib.sh"

kernel=${1:?the name of a kernel is missing}
what=${2:-64}
shift $(($# > 1 ? 2 : 1))
tests=$top/tests
run=()
# Kernels that can detect it report a write to a freed page.
poison=page_poison=1
options=(--exact --append "nowatchdog $poison")
bins=(--bin "$build/user")

# Prints the tests that do not need two processors at the same time.
programs() {
	local test

	for test in "$tests"/{device,library}/*_test.c; do
		test=$(basename "$test" .c)
		case $test in
		race_test | table_race_test | lib_thread_test) ;;
		lib_*) [[ $what != lib* ]] || echo "$test" ;;
		*) [[ $what = lib* ]] || echo "$test" ;;
		esac
	done
}

# races DIRECTORY, threads DIRECTORY: adds the programs of this directory in the machine.
races() {
	run+=(--run "$1/race_test" --run "$1/table_race_test"
		--run "$1/clock_test -t backward_in_softirq")
	options=(--append "$poison")
}

threads() {
	run+=(--run "TWHEEL_TEST_SECONDS=${TWHEEL_RACE_SECONDS:-60} $1/lib_thread_test \
			-T close_and_end -T set_by_all -T handed_over -T calls_of_pairs \
			-T locks_inherit -T timer_never_lost -T nobody_oversleeps -T come_and_go \
			-T keys -v kernel_8"
		--run "$1/lib_thread_test -V inprocess_2 -V inprocess_4 -V inprocess_8")
	options=()
}

case $what in *32*) quietly "$top/ci/programs.sh" 32 ;; esac
case $what in
library | tool | lib32)
	# The library frees no pages that the kernel writes to, and poisoning them takes a sixth
	# of the time.
	options=(--exact --append nowatchdog)
	[ "$what" != lib32 ] || bins=(--bin "$build/user32:/bin32")
	dir=
	[ "$what" != lib32 ] || dir=/bin32/
	if [ "$what" != tool ]; then
		for test in $(programs); do
			run+=(--run "$dir$test")
		done
	fi
	[ "$what" != library ] || run+=(--run lib_cxx_test --run lib_hpp_test)
	if [ "$what" != library ]; then
		bins+=(--bin "$tests/tool:/tests/tool" --bin "$tests/lib:/tests/lib")
		in_32="TWHEELCTL=/bin32/twheelctl IDLE_SERVER=/bin32/idle_server EXAMPLES=/bin32"
		[ "$what" = lib32 ] || in_32=
		for test in "$tests"/tool/*_test.sh; do
			# Tests that need bash do not run in the machine.
			! grep -qx '#!/bin/sh' "$test" || run+=(--run "${in_32:+$in_32 }sh /tests/tool/${test##*/}")
		done
	fi
	;;
64 | 32)
	dir=
	if [ "$what" = 32 ]; then
		bins=(--bin "$build/user32:/bin32" --bin "$build/user/twheelctl")
		dir=/bin32/
	fi
	for test in $(programs); do
		# twheelctl is not built for these architectures.
		[[ $kernel/$test != @(arm64|s390x)-*/module_test ]] || test+=' -T ps_finds_all'
		# On the debug kernel, the sizes of slabs prove nothing, but kmemleak finds leaks.
		[[ $kernel/$test != debug/module_test* ]] || test+=' -T cancelled_timers'
		# kmsan has no cgroups and no sockets. There two of the six tests of killed_test
		# take more than seven minutes, and map_and_unmap so long that RCU reports a
		# stall.
		case $kernel/$test in
		kmsan/killed_test) continue ;;
		# kcsan and kmsan have no tracepoints.
		kcsan/trace_test | kmsan/trace_test) continue ;;
		kmsan/module_test) test+=' -T cgroup -T unload_while_sent -T opener_pays' ;;
		kmsan/read_test) test+=' -T passed_by_message -T passed_to_nobody' ;;
		kmsan/table_test) test+=' -T passed_descriptor -T charged -T charged_for_all -T no_memory -T map_and_unmap' ;;
		# These need two processors, or a feature that user-mode Linux lacks: see
		# vm/config/uml.config.
		uml/expiry_test) test+=' -T arm_is_bounded' ;;
		uml/clock_test) test+=' -F namespace' ;;
		uml/fault_test) test+=' -T argument_across_border' ;;
		uml/read_test) run+=(--run "TWHEEL_TEST_SIGNALS=1000 $dir$test") ;;
		uml/module_test) test+=' -T cancelled_timers' ;;
		esac
		run+=(--run "$dir$test")
	done
	;;
races)
	races /bin
	;;
threads)
	threads /bin
	;;
races32)
	bins=(--bin "$build/user32:/bin32")
	races /bin32
	threads /bin32
	;;
unmapped)
	options+=(--qemu '-machine mte=off -cpu cortex-a53')
	run=(--run 'uapi_test -t table_as_announced' --run 'lib_test -t no_table')
	for test in batch_test clock_test expiry_test 'poll_test -T fdinfo_lateness' read_test setup_test \
		timer_test; do
		run+=(--run "$test")
	done
	;;
signals)
	# Leave out tests that notice signals: they poll, or count context switches.
	for test in batch_test 'fault_test -T argument_across_border' \
		'kick_test -T wakes_nobody -T disarmed_unread_stays' \
		read_test setup_test table_test timer_test; do
		run+=(--run "TWHEEL_TEST_SIGNALS=1000 $test")
	done
	;;
fail_nth)
	bins=(--bin "$build/stress/fail_nth")
	options+=(--variant untraced)
	run+=(--run fail_nth)
	;;
*)
	die "there are no tests $what: see the list in $0"
	;;
esac
case $kernel in
debug | rt-debug | kmsan)
	# kmemleak searches the whole memory twice, so keep it small.
	[ "$kernel" != debug ] || options+=(--memory 768M)
	# If two processors take turns, a busy one may get all of them for two minutes, for example
	# during that search or while it spins on a lock of the other, whose work waits.
	[[ $what = *races* || $what = threads ]] || options+=(--qemu "-smp 1")
	;;
newest)
	[ "$what" != 64 ] || options+=(--qemu "-smp 1")
	;;
arm64-* | s390x-*)
	[[ $kernel/$what != s390x-*/64 ]] || options+=(--qemu "-smp 1")
	quietly "$top/ci/programs.sh" "${kernel%%-*}"
	bins=(--bin "$build/user-${kernel%%-*}")
	;;
esac
exec "$top/vm/run.sh" --kernel "$kernel" --name "vm-$kernel-$what" --raw --limit 300 \
	--timeout 1200 --log-ok 'minor 250 is taken' "${options[@]}" "${bins[@]}" "$@" "${run[@]}"
