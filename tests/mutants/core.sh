# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# Bugs of the wheel and of libtwheel, for the tests that run in user space.

need make gcc libc6-dev uthash-dev clang-14 libclang-rt-14-dev patch
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
export TSAN_OPTIONS=halt_on_error=1
# core BUG PROGRAM ARGUMENT...: runs a program that has this bug. Leaves the output in $output
# and the exit status in $status.
core() {
	local dir=$copy/$1

	copy_with "$1"
	quietly make -s -C "$dir/tests/core" O="$dir/out" "$dir/out/$2"
	seen "${fixed[@]}" "$dir/out/$2" "${@:3}"
}
# lib BUG SANITIZERS PROGRAM ARGUMENT...: the same for libtwheel.
lib() {
	copy_with "$1"
	seen "$copy/$1/tests/library/check.sh" "${@:2}"
}
# copy_with BUG: makes a copy of the sources with this bug.
copy_with() {
	local dir=$copy/$1

	[ ! -d "$dir" ] || return 0
	mkdir -p "$dir"/{userspace,vm}
	cp -r "$top"/twheel*.c "$top/include" "$top/kunit" "$dir"
	cp -r "$top"/userspace/{lib,loops,bindings,flags.mk} "$dir/userspace"
	cp -r "$top/tests" "$dir"
	cp "$top"/vm/{lib,source}.sh "$dir/vm"
	[ "$1" = none ] || patch -s -F0 -d "$dir" -p1 <"$top/tests/mutants/planted/$1.patch"
}
seen() {
	status=0
	output=$("$@" 2>&1) || status=$?
	printf '%s\n' "$output" | sed 's/^/# /'
}
broken() {
	[ "$status" -ne 0 ]
}
# Writes the known inputs of a fuzzer to files.
known() {
	local line inputs=0

	grep -v '^#' "$top/tests/core/corpus/$1" | while read -r line; do
		inputs=$((inputs + 1))
		base64 -d <<<"$line" >"$copy/$1-$inputs"
	done
}
known wheel
known timers

core none race armings=100000
ok "core: without a bug no arming is lost" test "$status" -eq 0
core none wheel_fuzzer "$copy"/wheel-*
ok "core: without a bug the known inputs of the wheel's fuzzer pass" \
	test "$status" -eq 0
core none timers_fuzzer "$copy"/timers-*
ok "core: without a bug the known inputs of the timers' fuzzer pass" test "$status" -eq 0
core lost wheel_fuzzer "$copy"/wheel-*
ok "core lost: a timer missing from its bucket fails the wheel's fuzzer" broken
FUZZ_RANDOM=1 core lost wheel_fuzzer -max_len=9 -runs=20
ok "core lost: a timer missing from its bucket fails random operations" broken
core count timers_fuzzer "$copy"/timers-*
ok "core count: an uncounted expiration fails the timers' fuzzer" broken
core store race armings=100000
ok "core store: an expiry that claims with a plain store fails the race" broken
core second race armings=100000
ok "core second: a missing second read of the word fails the race" broken
core unmarked race armings=400000
ok "core unmarked: a missing second look for marks fails the race" broken
core plain race_tsan armings=100000
ok "core plain: ThreadSanitizer reports a plain read of the word" \
	says 'WARNING: ThreadSanitizer: data race'
ok "core plain: a plain read of the word fails the race" broken
core beyond timers_fuzzer "$copy"/timers-*
ok "core beyond: AddressSanitizer reports an access past the end" says 'heap-buffer-overflow'
ok "core beyond: an access past the end fails the fuzzer" broken
core shift core_test
ok "core shift: UBSan reports an excessive shift" says 'shift exponent'
ok "core shift: an excessive shift fails the suites" broken

threads=(-V kernel_2 -V kernel_8 -V inprocess_4 -V inprocess_8 -t timers)
lib none thread lib_thread_test "${threads[@]}"
ok "lib: without a bug the threads test passes" test "$status" -eq 0
lib none address,undefined lib_timer_test -V kernel -t timer_verbs
ok "lib: without a bug the timer test passes" test "$status" -eq 0
lib early_unlock thread lib_thread_test "${threads[@]}"
ok "lib early_unlock: ThreadSanitizer reports an access without the lock" \
	says 'WARNING: ThreadSanitizer: data race'
ok "lib early_unlock: an access without the lock fails the threads test" broken
lib small address,undefined lib_timer_test -V kernel -t timer_verbs
ok "lib small: AddressSanitizer reports an access past the end" says 'heap-buffer-overflow'
ok "lib small: an access past the end fails the timer test" broken
lib shift address,undefined lib_timer_test -V kernel -t timer_verbs
ok "lib shift: UBSan reports an excessive shift" says 'shift exponent'
ok "lib shift: an excessive shift fails the timer test" broken
