#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/library/check.sh [SANITIZERS TEST [ARGUMENT...]]: runs libtwheel's tests on this
# machine with the in-process wheel and sanitizers: one run for threads, one for addresses and
# undefined behavior. Prints TAP. With arguments, it runs only that program.
#
# Tests that need the module, root, or the library as it is built for use, run only in the VM.
# TWHEEL_TEST_SECONDS is the run time of each test with threads (default: 1), and
# TWHEEL_RACE_SECONDS that of the race of eight threads (default: 60).

. "$(dirname "$0")/../../vm/lib.sh"

# Any warning is an error in these builds.
export WERROR=1

tests=(lib_test lib_timer_test lib_many_test lib_keyed_test lib_thread_test lib_process_test)
# Variants, fixtures and tests that cannot run here.
without=(-V kernel -V kernel_2 -V kernel_8 -F on_its_way -F drained -F passed)
without+=(-T scribbled_header -T clock_set -T clock_of_2040 -T tai_set)
without+=(-T fallback -T not_our_device -T nonblock_is_shared -T observed -T next_of_others)
without+=(-T time_namespace -T no_table)
# Sanitizers manage memory themselves and lock none of it. Native runs in the VM include these
# tests.
without+=(-T small_memory -T not_overcommitted -T locked)
# The allocator of GCC 12's sanitizers does not support a child whose parent had threads,
# because one of its locks stays taken. Native runs in the VM include this test.
without+=(-T fork_in_the_middle)
without+=(-T no_system_call -T counted_system_calls -T set_and_read)

seconds=${TWHEEL_RACE_SECONDS:-60}
export TWHEEL_TEST_SECONDS=${TWHEEL_TEST_SECONDS:-1}
export TSAN_OPTIONS=halt_on_error=1
export UBSAN_OPTIONS=print_stacktrace=1

harness=$("$top/vm/source.sh")/tools/testing/selftests
sources=$top/tests

# build KIND DIR: builds the library and its tests with a sanitizer.
build() {
	local test flags=(-O1 -g -fno-sanitize-recover=all)

	make -s -C "$top/userspace/lib" SANITIZE="$1" O="$2" CFLAGS="${flags[*]}" \
		"$2/libtwheel.a" || return
	for test in "${tests[@]}"; do
		gcc "${flags[@]}" -fsanitize="$1" -std=gnu11 -Wall -Wextra \
			-Wno-missing-field-initializers -Werror -pthread \
			-I"$sources/lib" -I"$top/userspace/lib" -I"$top/include/uapi" -isystem "$harness" \
			-c -o "$2/$test.o" "$sources/library/$test.c" &&
			gcc -fsanitize="$1" -pthread -o "$2/$test" "$2/$test.o" "$2/libtwheel.a" || return
	done
}

# run_all KIND DIR: prints a TAP document for ci/flat.awk for each program.
run_all() {
	local test status bad=0

	for test in "${tests[@]}"; do
		status=0
		"${fixed[@]}" "$2/$test" "${without[@]}" >"$2/$test.log" 2>&1 || status=$?
		echo "# run: $1: $test"
		cat "$2/$test.log"
		echo "# exit: $status"
		[ "$status" = 0 ] || bad=1
	done
	return $bad
}

check() {
	local dir=$build/lib-${1%%,*}

	mkdir -p "$dir"
	build "$1" "$dir" && run_all "$1" "$dir"
}

# Eight threads use one wheel, and each arming is accounted for.
race() {
	local status=0

	echo "# run: thread: lib_thread_test, for $seconds s"
	TWHEEL_TEST_SECONDS=$seconds "${fixed[@]}" "$build/lib-thread/lib_thread_test" \
		-T close_and_end -T handed_over -T calls_of_pairs -T locks_inherit \
		-T timer_never_lost -T nobody_oversleeps -T come_and_go -T keys \
		-v inprocess_8 || status=$?
	echo "# exit: $status"
	return $status
} 2>&1

if [ $# -gt 0 ]; then
	dir=$build/lib-${1%%,*}
	mkdir -p "$dir"
	tests=("$2")
	build "$1" "$dir"
	exec "${fixed[@]}" "$dir/$2" "${@:3}"
fi

out=$(mktemp)
trap 'rm -f "$out"' EXIT
check address,undefined >"$out" 2>&1 &
status=0
check thread || status=1
wait $! || status=1
cat "$out"
race || status=1
exit $status
