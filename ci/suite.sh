#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/suite.sh KERNEL [WHAT [OPTION-OF-run.sh...]]: the tests of the device, in one
# machine. WHAT is
#
#   64       the device with 64-bit programs, or those of the kernel's architecture (the
#            default)
#   32       the device with 32-bit programs
#   library  the library, as 64-bit programs
#   tool     twheelctl and the examples, as 64-bit programs
#   lib32    the library, twheelctl and the examples as 32-bit programs
#   races    what takes threads that truly meet, as 64-bit programs
#   threads  the same of the library: each timer is accounted for, for a minute, or
#            TWHEEL_RACE_SECONDS; the wheel in the process is raced natively, by
#            tests/library/check.sh
#   races32  both as 32-bit programs
#   unmapped what does without the table, on an arm64 processor without LSE, where the module
#            refuses to map it; and that the library takes a wheel in the process there
#   signals  what sleeps and copies, under a signal each millisecond
#   fail_nth what allocates, with each allocation failing in turn
#
# The clock of the machine counts instructions (see --exact of vm/run.sh): how
# busy the host is, no test can notice. That takes one processor of the host, which
# plays all of the machine's in turn. For races each has its own. S/390 and the
# kernels "debug", "rt-debug", "kmsan" and "newest" have but one then, and what needs two is
# with the races: who waits for a lock without a pause may be given each turn of the one that
# has it, by QEMU before 8.1 ("accel/tcg/tcg-accel-ops-rr: ensure fairness with icount").
# Seen on 7.3, for minutes, with the lock of another processor's timers.
# User-mode Linux has the host's time. There read_test runs once more under a storm of signals.
#
# The programs are those of ci/programs.sh. The library is the same on each kernel.

. "$(dirname "$0")/../vm/lib.sh"

kernel=${1:?which kernel?}
what=${2:-64}
shift $(($# > 1 ? 2 : 1))
tests=$top/tests
run=()
# A page that was given back must not be written to, where the kernel can see that.
poison=page_poison=1
options=(--exact --append "nowatchdog $poison")
bins=(--bin "$build/user")

# The tests that one processor at a time is enough for.
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

# races DIRECTORY, threads DIRECTORY: those there.
races() {
	run+=(--run "$1/race_test" --run "$1/table_race_test"
		--run "$1/clock_test -t backward_in_softirq")
	[[ $kernel != s390x-* && $kernel != *debug && $kernel != newest ]] || run+=(--run "$1/million_test")
	options=(--append "$poison")
}

threads() {
	run+=(--run "TWHEEL_TEST_SECONDS=${TWHEEL_RACE_SECONDS:-60} $1/lib_thread_test \
			-T close_and_end -T set_by_all -T handed_over -T calls_of_pairs \
			-T locks_inherit -T never_forgotten -T nobody_oversleeps -T come_and_go \
			-T keys -v kernel_8"
		--run "$1/lib_thread_test -V inprocess_2 -V inprocess_4 -V inprocess_8")
	options=()
}

case $what in *32*) quietly "$top/ci/programs.sh" 32 ;; esac
case $what in
library | tool | lib32)
	# It gives back no pages that the kernel writes to, and to poison each is a sixth of the work.
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
			# Those of bash are for the machine that builds.
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
		# There is no twheelctl for them.
		[[ $kernel/$test != @(arm64|s390x)-*/module_test ]] || test+=' -T ps_finds_all'
		# The sizes of slabs tell nothing there; kmemleak looks after them.
		[[ $kernel/$test != debug/module_test* ]] ||
			test+=' -T kill_with_timers -T open_and_close -T cancelled_timers'
		# It has no cgroups and no sockets; a million takes it half an hour, two of the
		# six of killed_test more than seven minutes, and what only counts maps and
		# unmaps so long that RCU complains.
		case $kernel/$test in
		kmsan/million_test | kmsan/killed_test) continue ;;
		# They have no tracepoints.
		kcsan/trace_test | kmsan/trace_test) continue ;;
		kmsan/module_test) test+=' -T cgroup -T unload_while_sent -T opener_pays' ;;
		kmsan/read_test) test+=' -T passed_by_message -T passed_to_nobody' ;;
		kmsan/table_test) test+=' -T passed_descriptor -T charged -T charged_for_all -T no_memory -T map_and_unmap' ;;
		# What has two processors, and what vm/config/uml.config says it lacks.
		uml/million_test) continue ;;
		uml/expiry_test) test+=' -T arm_is_bounded' ;;
		uml/clock_test | uml/table_ioctl_test) test+=' -F namespace' ;;
		uml/fault_test) test+=' -T argument_across_border' ;;
		uml/kick_test) test+=' -T errors -T million_moves' ;;
		uml/read_test) run+=(--run "TWHEEL_TEST_SIGNALS=1000 $dir$test") ;;
		uml/module_test) test+=' -T kill_with_timers -T open_and_close -T cancelled_timers' ;;
		s390x-*/million_test | debug/million_test | rt-debug/million_test) continue ;;
		newest/million_test) continue ;;
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
	# Who polls, or counts how often it was switched, sees them.
	for test in batch_test 'fault_test -T argument_across_border' \
		'kick_test -T errors -T million_moves -T wakes_nobody -T disarmed_unread_stays' \
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
	die "unknown: $what"
	;;
esac
case $kernel in
debug | rt-debug | kmsan)
	# All of it is searched for leaks, twice.
	[ "$kernel" != debug ] || options+=(--memory 768M)
	# Of two processors that take turns, one that does not rest may have them all for two
	# minutes, as in such a search, or while it waits for the other's lock; and the work
	# that the other has got is not done meanwhile.
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
