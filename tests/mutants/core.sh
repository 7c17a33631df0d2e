# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# Bugs of the wheel and of libtwheel, for what is looked for in user space.

need make gcc libc6-dev uthash-dev clang-14 libclang-rt-14-dev patch
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
export TSAN_OPTIONS=halt_on_error=1
# core BUG PROGRAM ARGUMENT...: with that bug; the output is in $output, the exit
# status in $status.
core() {
	local dir=$copy/$1

	copy_with "$1"
	quietly make -s -C "$dir/tests/core" O="$dir/out" "$dir/out/$2"
	seen "${fixed[@]}" "$dir/out/$2" "${@:3}"
}
# lib BUG SANITIZERS PROGRAM ARGUMENT...: likewise, of libtwheel.
lib() {
	copy_with "$1"
	seen "$copy/$1/tests/library/check.sh" "${@:2}"
}
# copy_with BUG: makes a copy of the sources that has it.
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
# The inputs that are known of a fuzzer.
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
ok "core: nor do the inputs that are known of the wheel's fuzzer find any" \
	test "$status" -eq 0
core none timers_fuzzer "$copy"/timers-*
ok "core: or those of the timers'" test "$status" -eq 0
core lost wheel_fuzzer "$copy"/wheel-*
ok "core: a timer that its bucket has forgotten fails the fuzzer of the wheel" broken
FUZZ_RANDOM=1 core lost wheel_fuzzer -max_len=9 -runs=20
ok "core: and its random operations" broken
core count timers_fuzzer "$copy"/timers-*
ok "core: an expiration that is not counted fails the fuzzer of the timers" broken
core store race armings=100000
ok "core: an expiry that is claimed by a store" broken
core second race armings=100000
ok "core: a word that is not read again" broken
core unmarked race armings=400000
ok "core: marks that are not looked for again" broken
core plain race_tsan armings=100000
ok "core: one that is read plainly" says 'WARNING: ThreadSanitizer: data race'
ok "core: fails the race" broken
core beyond timers_fuzzer "$copy"/timers-*
ok "core: past the end of what was allocated" says 'heap-buffer-overflow'
ok "core: fails the fuzzer" broken
core shift core_test
ok "core: a shift too far" says 'shift exponent'
ok "core: fails the suites" broken

threads=(-V kernel_2 -V kernel_8 -V inprocess_4 -V inprocess_8 -t timers)
lib none thread lib_thread_test "${threads[@]}"
ok "lib: without a bug the threads agree" test "$status" -eq 0
lib none address,undefined lib_timer_test -V kernel -t timer_verbs
ok "lib: and one alone is right" test "$status" -eq 0
lib early_unlock thread lib_thread_test "${threads[@]}"
ok "lib: what is done without its lock" says 'WARNING: ThreadSanitizer: data race'
ok "lib: fails the threads" broken
lib small address,undefined lib_timer_test -V kernel -t timer_verbs
ok "lib: past the end of what was allocated" says 'heap-buffer-overflow'
ok "lib: fails the test" broken
lib shift address,undefined lib_timer_test -V kernel -t timer_verbs
ok "lib: a shift too far" says 'shift exponent'
ok "lib: fails the test" broken
