#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/gate/gate.sh [KERNEL]: what goes wrong must be seen to go wrong. Plants each kind
# of misbehaviour in a machine and expects the rig to find it, and gives the tally
# broken logs to count. With the name of a debug kernel, it plants what only
# that one can find; with "stock", what takes Debian's, or QEMU; with "canary", what shows
# in that variant of the module; with "stalls", what goes on for too long; with "tests",
# bugs in the module itself, for the tests of the device; with "core", bugs of the wheel
# and of libtwheel, for what is looked for in user space; with "kunit", what kunit/run.sh
# must see.

# Many of these functions are called by ok().
# shellcheck disable=SC2317

. "$(dirname "$0")/../../vm/lib.sh"

number=0
failed=0

# ok NAME COMMAND...: passes if the command succeeds.
ok() {
	local name=$1

	shift
	number=$((number + 1))
	if "$@" >/dev/null; then
		echo "ok $number $name"
	else
		echo "not ok $number $name"
		failed=1
	fi
}

# boot NAME OPTION...: the output is in $output, the exit status in $status.
boot() {
	local name=gate-$1

	status=0
	shift
	output=$("$top/vm/run.sh" --name "$name" "$@" 2>&1) || status=$?
	printf '%s\n' "$output" | sed 's/^/# /'
}

# make_vm LINE: the same of make vm, with a script of this line.
make_vm() {
	status=0
	echo "$1" >"$build/gate-script"
	output=$(make -C "$top" vm SCRIPT=build/gate-script 2>&1) || status=$?
	printf '%s\n' "$output" | sed 's/^/# /'
}

# typed LINE...: the same of a shell for a person, who types these lines.
typed() {
	local log=$logs/gate-typed.output.log

	status=0
	rm -f "$log"
	output=$(
		{
			timeout 300 grep -q 'pulls the plug' <(tail -s 0.2 -n +1 -F "$log" 2>/dev/null)
			for line; do
				sleep 1
				printf '%s\n' "$line"
			done
		} | timeout 600 script -qec "'$top/vm/run.sh' --name gate-typed --shell" /dev/null 2>&1
	) || status=$?
	printf '%s\n' "$output" | tr -d '\r' | sed 's/^/# /'
}

says() {
	grep -qF -e "$1" <<<"$output"
}

never() {
	! "$@"
}

never_says() {
	never says "$1"
}

refused() {
	[ "$status" -ne 0 ] && says 'twheel-vm: verdict: FAIL'
}

the_end() {
	echo "1..$number"
	exit $failed
}

# plant KERNEL BUG...: one after the other in one machine, which goes on. Where a
# bug takes two processors, these take turns as QEMU counts. Of what ODEBUG has to say
# the kernel prints five reports, of which each bug takes one or two.
plant() {
	local bug kernel=$1 run=() alone=()

	shift
	# See ci/suite.sh.
	[ "$kernel" != debug ] || alone=(--qemu "-smp 1" --memory 768M)
	for bug in "$@"; do
		run+=(--run "insmod /planted.ko bug=$bug; rmmod planted; true")
	done
	boot "$kernel-$1" --kernel "$kernel" --exact \
		--append 'panic_on_warn=0 kasan_multi_shot' "${alone[@]}" "${run[@]}"
	ok "$kernel: a machine with $* fails" refused
}

found() {
	ok "$kernel: $1" says "fail: $2"
}

# mutant KERNEL BUG BIN COMMAND [OPTION...]: the module with that bug, and a test of it.
made=' '
mutant() {
	local bin=${3#user}

	if [[ $made != *" $3 "* ]]; then
		quietly "$top/ci/programs.sh" ${bin:+"$bin"}
		made+="$3 "
	fi
	boot "tests-$1-$2" --kernel "$1" --variant "bug-$2" --raw --limit 300 --timeout 400 \
		--log-ok 'minor 250 is taken' --bin "$build/$3" "${@:5}" --run "$4"
}

kernel=${1-}
case $kernel in
debug)
	plant debug rcu twice preempt refcount fortify context atomic active work shift uaf slab \
		vmalloc leak
	found "what RCU may have freed" 'kernel log: WARNING: suspicious RCU usage'
	found "what RCU is told to free twice" 'kernel log: ODEBUG: activate active'
	found "a processor that it may leave" 'kernel log: BUG: using smp_processor_id() in preemptible'
	ok "debug: a reference to what nobody holds" says 'at lib/refcount.c:'
	ok "debug: more than a member has room for" says 'planted_fortify'
	found "a lock that may sleep below one that spins" 'kernel log: [ BUG: Invalid wait context ]'
	found "lockdep is off after its first report" 'lockdep has given up'
	found "sleep with a lock held" 'kernel log: BUG: sleeping function called from invalid context'
	found "an armed timer freed" 'kernel log: ODEBUG: free active'
	ok "debug: its name" says 'hint: planted_timer'
	ok "debug: queued work freed" says 'hint: planted_nothing'
	found "a shift too far" 'kernel log: UBSAN: shift-out-of-bounds'
	found "use after free" 'kernel log: BUG: KASAN: slab-use-after-free in planted_uaf'
	found "past the end of kmalloc()" 'kernel log: BUG: KASAN: slab-out-of-bounds in look_beyond'
	found "past the end of vmalloc()" 'kernel log: BUG: KASAN: vmalloc-out-of-bounds in look_beyond'
	found "a leak" 'memory: unreferenced object'
	plant debug bounds list
	found "an index out of bounds" 'kernel log: UBSAN: array-index-out-of-bounds'
	ok "debug: an entry that is on no list" says '__list_del_entry_valid_or_report'
	# Lockdep tells of one only.
	plant debug order
	found "locks in two orders" 'kernel log: WARNING: possible circular locking dependency detected'
	plant debug irq
	found "a lock shared with an interrupt" 'kernel log: WARNING: inconsistent lock state'
	boot debug-copy --kernel debug --memory 768M --exact -- insmod /planted.ko bug=copy
	ok "debug: a machine with copy fails" refused
	ok "debug: more than the object to a program" says 'RIP: 0010:usercopy_abort'
	boot debug-put --kernel debug --memory 768M --exact -- insmod /planted.ko bug=put
	ok "debug: a machine with put fails" refused
	ok "debug: a page that is given back twice" says 'linux/mm.h:'
	boot debug-queue --kernel debug --memory 768M --exact --qemu "-smp 1" \
		--append 'nowatchdog rcupdate.rcu_cpu_stall_suppress=1' -- insmod /planted.ko bug=spin
	found "work that waits for a processor" 'kernel log: BUG: workqueue lockup'
	boot debug-stop --kernel debug --memory 768M --exact -- insmod /planted.ko bug=uaf
	ok "debug: the first report is the last" says 'the machine died without a verdict'
	the_end
	;;
uml)
	plant uml rcu twice refcount fortify context atomic active work shift uaf slab vmalloc leak
	found "what RCU may have freed" 'kernel log: WARNING: suspicious RCU usage'
	found "what RCU is told to free twice" 'kernel log: ODEBUG: activate active'
	ok "uml: a reference to what nobody holds" says 'at lib/refcount.c:'
	ok "uml: more than a member has room for" says 'planted_fortify'
	found "a lock that may sleep below one that spins" 'kernel log: [ BUG: Invalid wait context ]'
	found "lockdep is off after its first report" 'lockdep has given up'
	found "sleep with a lock held" 'kernel log: BUG: sleeping function called from invalid context'
	found "an armed timer freed" 'kernel log: ODEBUG: free active'
	ok "uml: queued work freed" says 'hint: planted_nothing'
	found "a shift too far" 'kernel log: UBSAN: shift-out-of-bounds'
	found "use after free" 'kernel log: BUG: KASAN: slab-use-after-free in planted_uaf'
	found "past the end of kmalloc()" 'kernel log: BUG: KASAN: slab-out-of-bounds in look_beyond'
	found "past the end of vmalloc()" 'kernel log: BUG: KASAN: vmalloc-out-of-bounds in look_beyond'
	found "a leak" 'memory: unreferenced object'
	plant uml order
	found "locks in two orders" 'kernel log: WARNING: possible circular locking dependency detected'
	plant uml irq
	found "a lock shared with an interrupt" 'kernel log: WARNING: inconsistent lock state'
	plant uml bounds list
	found "an index out of bounds" 'kernel log: UBSAN: array-index-out-of-bounds'
	ok "uml: an entry that is on no list" says '__list_del_entry_valid_or_report'
	boot uml-copy --kernel uml -- insmod /planted.ko bug=copy
	ok "uml: a machine with copy fails" refused
	ok "uml: more than the object to a program" says 'usercopy_abort'
	boot uml-put --kernel uml -- insmod /planted.ko bug=put
	ok "uml: a machine with put fails" refused
	ok "uml: a page that is given back twice" says 'put_page_testzero'
	boot uml-stop --kernel uml -- insmod /planted.ko bug=uaf
	ok "uml: the first report is the last" says 'the machine died without a verdict'
	the_end
	;;
kcsan)
	plant kcsan race foreign
	found "two who count" 'kernel log: BUG: KCSAN: data-race in planted_counts'
	found "a plain read of what others write" 'kernel log: BUG: KCSAN: data-race in planted_reads'
	# Where two take turns anyway, neither is there while the other's write is delayed.
	boot kcsan-turns --kernel kcsan --append panic_on_warn=0 -- insmod /planted.ko bug=turns
	found "what only the order of memory keeps apart" 'kernel log: BUG: KCSAN: data-race in take_turns'
	# With one processor, nobody else is there while a write is delayed.
	boot kcsan-tick --kernel kcsan --append panic_on_warn=0 --qemu "-smp 1" \
		-- insmod /planted.ko bug=tick
	found "an interrupt that counts as well" \
		'kernel log: BUG: KCSAN: data-race in planted_counts_too'
	# And in the module, beside the test that is there for it.
	mutant kcsan plain user 'table_race_test -t flippers_and_neighbours'
	ok "kcsan: a word of the table that is read plainly" \
		says 'fail: kernel log: BUG: KCSAN: data-race in reconcile'
	ok "kcsan: fails the run" refused
	the_end
	;;
rt-debug)
	plant rt-debug rcu twice preempt context active work list
	found "what RCU may have freed" 'kernel log: WARNING: suspicious RCU usage'
	found "what RCU is told to free twice" 'kernel log: ODEBUG: activate active'
	found "a processor that it may leave" 'kernel log: BUG: using smp_processor_id() in preemptible'
	found "a lock that sleeps below one that spins" 'kernel log: [ BUG: Invalid wait context ]'
	found "sleep with a lock held" 'kernel log: BUG: sleeping function called from invalid context'
	found "an armed timer freed" 'kernel log: ODEBUG: free active'
	ok "rt-debug: queued work freed" says 'hint: planted_nothing'
	ok "rt-debug: an entry that is on no list" says '__list_del_entry_valid_or_report'
	plant rt-debug hardirq
	found "a lock that sleeps, in an interrupt" 'kernel log: [ BUG: Invalid wait context ]'
	plant rt-debug irq
	found "a lock shared with an interrupt" 'kernel log: WARNING: inconsistent lock state'
	plant rt-debug order
	found "locks in two orders" 'kernel log: WARNING: possible circular locking dependency detected'
	# And in the module, beside a race that is there for it.
	mutant rt-debug store user 'table_race_test -t claim -t disarm_at_expiry'
	ok "rt-debug: an expiry that is claimed by a store" says 'FAIL  table_race.claim'
	ok "rt-debug: fails its test" refused
	the_end
	;;
kmsan)
	plant kmsan padding
	found "bytes that nothing was written to" 'kernel log: BUG: KMSAN: kernel-infoleak'
	mutant kmsan stray user 'uapi_test -t no_stray_bytes' --exact --qemu "-smp 1"
	ok "kmsan: a member of the module's that has no value" says 'BUG: KMSAN: kernel-infoleak'
	ok "kmsan: fails the run" refused
	the_end
	;;
stalls)
	boot stall-hung --exact --limit 400 -- insmod /planted.ko bug=hung
	ok "a task that hangs" says 'INFO: task insmod'
	ok "that ends it" says 'the machine died without a verdict'
	# Of two who watch for the same, one is told not to.
	boot stall-soft --append rcupdate.rcu_cpu_stall_suppress=1 -- insmod /planted.ko bug=spin
	ok "a processor that is kept" says 'BUG: soft lockup - CPU#'
	ok "that ends it" says 'the machine died without a verdict'
	boot stall-rcu --append nosoftlockup -- insmod /planted.ko bug=spin
	ok "one that RCU waits for" says 'rcu: INFO: rcu'
	ok "that ends it" says 'the machine died without a verdict'
	boot stall-busy --exact -- insmod /planted.ko bug=busy
	ok "an interrupt that is due again at its end" \
		says 'fail: kernel log: hrtimer: interrupt took'
	ok "a machine with it fails" refused
	the_end
	;;
canary)
	# Whatever kernel it is: a module that was built like that.
	mkdir -p "$build/canary"
	gcc -O2 -Wall -Wextra -Werror -std=gnu11 -static -o "$build/canary/canary" \
		"$top/ci/gate/canary.c"
	boot canary --kernel 6.12 --variant canary --exact --bin "$build/canary" -- canary
	ok "canary: a member that nothing was written to" says 'nothing was written to: fefefefe'
	mutant 6.12 stray user 'uapi_test -t no_stray_bytes' --variant canary-bug-stray --exact
	ok "canary: one of the module's" says 'has_canary(&(i), sizeof(i))'
	ok "canary: fails its test" says 'not ok 1 global.no_stray_bytes'
	the_end
	;;
core)
	need make gcc libc6-dev uthash-dev clang-14 libclang-rt-14-dev patch
	copy=$(mktemp -d)
	trap 'rm -rf "$copy"' EXIT
	export TSAN_OPTIONS=halt_on_error=1
	# core BUG PROGRAM ARGUMENT...: with that bug; the output is in $output, the exit
	# status in $status.
	core() {
		local dir=$copy/$1

		copy_with "$1"
		quietly make -s -C "$dir/userspace/tests/unit" O="$dir/out" "$dir/out/$2"
		seen "${fixed[@]}" "$dir/out/$2" "${@:3}"
	}
	# lib BUG SANITIZERS PROGRAM ARGUMENT...: likewise, of libtwheel.
	lib() {
		copy_with "$1"
		seen "$copy/$1/userspace/lib/check.sh" "${@:2}"
	}
	# copy_with BUG: makes a copy of the sources that has it.
	copy_with() {
		local dir=$copy/$1

		[ ! -d "$dir" ] || return 0
		mkdir -p "$dir"/{userspace,vm}
		cp -r "$top"/twheel*.c "$top/include" "$top/kunit" "$dir"
		cp -r "$top"/userspace/{lib,shim,tests} "$dir/userspace"
		cp "$top"/vm/{lib,source}.sh "$dir/vm"
		[ "$1" = none ] || patch -s -d "$dir" -p1 <"$top/ci/gate/planted/$1.patch"
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

		grep -v '^#' "$top/userspace/tests/unit/corpus/$1" | while read -r line; do
			inputs=$((inputs + 1))
			base64 -d <<<"$line" >"$copy/$1-$inputs"
		done
	}
	known wheel
	known timers

	core none differential operations=300000
	ok "core: without a bug the models agree" test "$status" -eq 0
	core none race armings=100000
	ok "core: and no arming is lost" test "$status" -eq 0
	core none wheel_fuzzer "$copy"/wheel-*
	ok "core: nor do the inputs that are known of the wheel's fuzzer find any" \
		test "$status" -eq 0
	core none timers_fuzzer "$copy"/timers-*
	ok "core: or those of the timers'" test "$status" -eq 0
	core lost differential operations=300000
	ok "core: a timer that its bucket has forgotten" broken
	ok "core: by the model of the wheel" says 'not ok 1 '
	core lost wheel_fuzzer "$copy"/wheel-*
	ok "core: and by its fuzzer" broken
	core count differential operations=300000
	ok "core: an expiration that is not counted" broken
	ok "core: by the model of the timers" says 'not ok 2 '
	core count timers_fuzzer "$copy"/timers-*
	ok "core: and by their fuzzer" broken
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
	the_end
	;;
kunit)
	# suite CASE: the output is in $output, the exit status in $status.
	suite() {
		status=0
		output=$("$top/kunit/run.sh" --kasan --planted "planted_$1" 6.12 2>&1) || status=$?
		printf '%s\n' "$output" | sed 's/^/# /'
	}
	suite nothing
	ok "a suite without a bug passes" test "$status" -eq 0
	suite uaf
	ok "use after free in a case" says 'BUG: KASAN: slab-use-after-free in planted_uaf'
	ok "fails it" says ': 0 passed, 1 failed'
	ok "and the run" test "$status" -eq 1
	suite warn
	ok "a warning that the case does not know" says ': 1 passed, 0 failed'
	ok "fails the run" test "$status" -eq 1
	suite expect
	ok "an expectation that is not met fails the run" test "$status" -eq 1
	suite oops
	ok "a kernel that dies" says 'Kernel panic - not syncing: planted'
	ok "fails the run" test "$status" -eq 1
	suite skip
	ok "a case that is skipped fails the run" test "$status" -eq 1
	the_end
	;;
stock)
	# The kernel's own count of what this is about says that it is nothing.
	took='echo "hrtimer: interrupt took 54392 ns" >/dev/kmsg'
	boot chance --exact --settle 5 --run "$took"
	ok "an interrupt that takes long, once, passes" test "$status" -eq 0
	boot no-chance --exact --settle 5 --append twheel.hangs=-1 --run "$took"
	ok "more of them than may be by chance do not" refused

	boot stale --exact --append page_poison=1 --run 'insmod /planted.ko bug=stale; rmmod planted'
	ok "a page written to that was given back" says 'fail: kernel log: pagealloc: memory corruption'

	# All that a machine survives, in one.
	mapfile -t words <"$top/vm/forbidden"
	planted=()
	for word in "${words[@]}"; do
		planted+=(--run "echo '$word planted' >/dev/kmsg")
	done
	boot bad --limit 2 --run false --run 'kill -SEGV $$' --run 'sleep 60' \
		--run 'echo "twheel: a word" >/dev/kmsg' \
		--run 'insmod /planted.ko bug=hold' "${planted[@]}"
	ok "a machine with any failure fails" refused
	ok "a program that fails" says 'fail: status 1: false'
	ok "a program that crashes" says 'fail: signal 11: kill'
	ok "a program that hangs" says 'fail: more than 2 s: sleep 60'
	ok "a module that cannot be unloaded" says 'fail: cannot unload the module'
	ok "a module that talks" says 'fail: kernel log: twheel: a word'
	for word in "${words[@]}"; do
		ok "a log with '$word'" says "fail: kernel log: $word planted"
	done

	# A shell, with a script on stdin.
	boot shell --shell <<<'exit 7'
	ok "a script in a shell that fails" test "$status" -eq 7
	ok "and its verdict" refused
	boot shell --shell <<<'rmmod twheel'
	ok "one that succeeds, and unloads the module" test "$status" -eq 0
	boot shell --shell <<<'kill -SEGV $$'
	ok "one that crashes" test "$status" -eq 139
	make_vm 'test -c /dev/twheel && exit 9'
	ok "make vm SCRIPT=: its status" says 'Error 9'
	ok "fails make" test "$status" -eq 2
	make_vm 'test -c /dev/twheel'
	ok "make vm SCRIPT=: one that succeeds" test "$status" -eq 0
	# And with a person in front of it.
	typed false 'exit 3'
	ok "to leave the shell after a command that failed is no failure" test "$status" -eq 0
	ok "and its verdict" says 'twheel-vm: verdict: PASS'

	boot coarse --append highres=off -- true
	ok "a machine whose timers go by a tick" says 'fail: no timers of high resolution'

	# What a machine does not survive.
	for bug in warn oops; do
		boot $bug -- insmod /planted.ko bug=$bug
		ok "a kernel with a bug: $bug" refused
		ok "no verdict: $bug" says 'the machine died without a verdict'
	done
	# A busy host may take longer to come to the command.
	for seconds in 12 24 48; do
		boot hang --raw --timeout $seconds -- insmod /planted.ko bug=hang
		! says 'twheel-vm: run: ' || break
	done
	ok "a command that hangs the kernel is run" says 'twheel-vm: run: '
	ok "a kernel that hangs" refused
	ok "no verdict in time" says "no verdict within $seconds s"
	the_end
	;;
tests)
	# In a machine just begun it may be pages of slabs that cannot be had, and none is lost.
	four='fail_nth -v register; fail_nth -v register; fail_nth -v register; fail_nth -v register'
	mutant uml leak stress "$four -t nothing_leaked"
	ok "what is not freed where memory ends" says 'not ok 2 afterwards.nothing_leaked'
	mutant uml pages stress 'fail_nth -t no_pages_leaked'
	ok "nor a page" says 'not ok 1 afterwards.no_pages_leaked'
	mutant 6.12 missed stress 'lives -t ping_pong --seconds 5'
	ok "a poll that asks before it has queued itself" says 'not ok 1 lives.ping_pong'
	mutant uml unchecked stress 'fail_nth -v open'
	ok "memory that nobody asks for whether it is there" \
		says 'the machine died without a verdict'
	mutant uml forget stress 'fail_nth -v register'
	ok "a timer that stays when its id cannot be told" \
		says 'not ok 1 fail_nth.register.each_place'
	mutant uml half stress 'fail_nth -f load'
	ok "what is left of a module that was not loaded" says 'not ok 1 load.each_place'
	mutant uml uncharged user 'table_test -t charged_for_all'
	ok "timers that no cgroup is charged for" says 'TIMERS * OF_TIMER'
	ok "fails its test" refused
	mutant uml unpaid user 'table_test -t charged_for_all'
	ok "nor for wheels" says 'WHEELS * OF_WHEEL'
	ok "fails its test" refused
	mutant 6.12 early user 'read_test -t many'
	ok "an event from before its deadline" says '# event 0 of '
	ok "fails its test" refused
	mutant 6.12 early stress 'fuzz -t conservation --seconds 60'
	ok "and one of the fuzzer" says '# event '
	ok "fails its test" refused
	mutant 6.12 keeps user 'read_test -t faulting_reader_hands_on'
	ok "a reader that keeps others waiting as its memory comes" \
		says 'not ok 1 reading.faulting_reader_hands_on'
	mutant 6.12 stale stress 'pairs -t reuse_stale --seconds 5'
	ok "an id that is given out again" says 'REGISTER, or the old id'
	ok "fails its test" refused
	# Which heeds it now and then: of two kills one may come just before that.
	mutant uml deaf user \
		'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do killed_test -v in_drain_cancel || exit; done'
	ok "a call that heeds a kill too late" says 'not ok 1 killed.in_drain_cancel.midway'
	mutant uml ahead stress 'soak --seconds 5'
	ok "a wheel that is ahead of its clock" says ' s: early'
	ok "fails its test" refused
	mutant uml freed stress 'lives -t open_arm_close --count 100'
	ok "a wheel that is freed while its hrtimer is armed" refused
	ok "in a machine that has come to the test of it" says 'twheel-vm: run: lives'
	# One that fires on the way may end the machine before a word of it is out; not one in an hour.
	mutant uml freed user 'timer_test -t get'
	ok "what is said of that" says 'ODEBUG: free active'
	mutant 6.12 torn stress 'pairs -t stats_any --seconds 20'
	ok "numbers that others change while they are read" says 'not ok 1 pairs.stats_any'
	mutant 6.12 claims stress 'pairs -t read_cancel --seconds 20'
	ok "an event that is cancelled while it is read" says 'both, or none'
	ok "fails its test" refused
	mutant uml count stress 'fuzz --seconds 60 --guided 1'
	ok "an expiration that is not counted" says '# not conserved: '
	mutant uml lost stress 'fuzz --seconds 60 --guided 1'
	ok "a timer that its bucket has forgotten" says ' timers that are armed do not come'
	mutant uml maze stress 'fuzz --seconds 200 --guided 1'
	ok "what only two numbers of 32 and 64 bits lead to" says 'both numbers'
	mutant 6.12 store user 'table_race_test -t claim -t disarm_at_expiry'
	ok "an expiry that is claimed by a store" says 'FAIL  table_race.claim'
	ok "fails its test" refused
	# What these need is said in the scripts that run them.
	alike=(--alike --append 'nowatchdog tsc=reliable')
	mutant 6.12 slow exact 'exact -t every_distance' "${alike[@]}"
	ok "a wheel that comes a millisecond later" says 'FAIL  exact.tick_524us.every_distance'
	ok "fails its test" refused
	mutant 6.12 greedy exact 'exact -t beside_storms' "${alike[@]}"
	ok "one that does all at once, which others wait for" says 'FAIL  exact.tick_524us.beside_storms'
	ok "fails its test" refused
	storm='storms -t one_instant --seconds 1 --exact 1'
	mutant 6.12 greedy stress "$storm" --alike --settle 5
	ok "and the storm of one instant" says '!= punctual(storm, &usual)'
	ok "fails its test" refused
	mutant 6.12 awake power 'power -t sleeps' --qemu '-machine pc,hpet=off' \
		--append 'no_console_suspend'
	ok "a clock that stands still while the machine sleeps" says 'FAIL  power.boottime.sleeps'
	ok "fails its test" refused
	mutant 6.12 second user 'table_race_test -t second_read -t disarm_at_expiry'
	ok "a word that is not read again" says 'FAIL  table_race.second_read'
	ok "fails its test" refused
	the_end
	;;
'') ;;
*) die "no bugs for kernel $kernel" ;;
esac

# What any kernel will do for is seen in user-mode Linux, which boots in a second; that
# memory is lost is not what is planted here, and to look for it takes ten.
in_uml=(--kernel uml --append twheel.leaks=0)

# A good machine, with a word for the log that was agreed upon.
boot good "${in_uml[@]}" --log-ok 'a word' -- sh -c 'echo "twheel: a word" >/dev/kmsg'
ok "a good machine passes" test "$status" -eq 0

# A report of the OOM killer, and a trace that comes after it.
report="for l in 'good invoked oom-killer: x' 2 3 4 5 6 7"
oom="$report 'Call Trace:'; do echo \"\$l\" >/dev/kmsg; done"
boot oom "${in_uml[@]}" --oom-ok good --run "$oom"
ok "a report of the OOM killer that was expected passes" test "$status" -eq 0
boot oom "${in_uml[@]}" --oom-ok goo --run "$oom"
ok "one that was not" says 'fail: kernel log: Call Trace:'
boot oom "${in_uml[@]}" --oom-ok good --run "$oom; echo 'Call Trace:' >/dev/kmsg"
ok "another behind it" says 'fail: kernel log: Call Trace:'
stack="$oom; for l in ' ? psi_memstall_leave+0x82/0xb0'"
boot oom "${in_uml[@]}" --oom-ok good --run "$stack ' x+0x1/0x2'; do echo \"\$l\" >/dev/kmsg; done"
ok "whatever functions are in its stack" test "$status" -eq 0
boot oom "${in_uml[@]}" --oom-ok good --run "$stack 'a stall' ' of stalls'; do echo \"\$l\" >/dev/kmsg; done"
ok "what comes behind that" says 'fail: kernel log: a stall'
ok "to its end" says 'fail: kernel log:  of stalls'
boot oom "${in_uml[@]}" --oom-ok good --run "$report 8 'Call Trace:'; do echo \"\$l\" >/dev/kmsg; done"
ok "one that is too far down to be of it" says 'fail: kernel log: Call Trace:'

# What KCSAN tells of a race, to its end: of the kernel, of ours, and of neither.
race() {
	local line lines=("BUG: KCSAN: data-race in $1 / $1" "${@:2}")

	for line in "${lines[@]}"; do
		echo "echo \"$line\" >/dev/kmsg;"
	done
}
end='====='
by='of 8 bytes by task 5 on cpu 0:'
variable="read to 0x\$(sed -n 's/ . jiffies_64\$//p' /proc/kallsyms) $by"
boot races "${in_uml[@]}" --run "$(race alone ' alone+0x1/0x2' $end)" \
	--run "$(race theirs "$variable" ' alone+0x1/0x2' ' twheel_x+0x1/0x2 [twheel]' $end)"
ok "a race of the kernel's own passes" test "$status" -eq 0
ok "as does one in a variable of the kernel's, with the module above it" \
	says "of the kernel's own: BUG: KCSAN: data-race in theirs"
boot races "${in_uml[@]}" --run "$(race alone ' alone+0x1/0x2' $end)" \
	--run "$(race irq ' asm_sysvec_x+0x1/0x2' ' twheel_x+0x1/0x2 [twheel]')" \
	--run "for l in 'Workqueue: x [twheel]' $end; do echo \"\$l\" >/dev/kmsg; done" \
	--run "$(race direct "$variable" ' twheel_x+0x1/0x2 [twheel]' $end)" \
	--run "$(race heap "read to 0xffff888012345678 $by" ' alone+0x1/0x2' \
		' twheel_x+0x1/0x2 [twheel]' $end)" \
	--run "$(race ours ' twheel_x+0x1/0x2 [twheel]' $end)" \
	--run "$(race more "$variable" ' alone+0x1/0x2' 'WARNING: x')"
ok "one of ours" says 'fail: kernel log: BUG: KCSAN: data-race in ours / ours'
ok "one in the kernel's variable that the module reads itself" \
	says 'fail: kernel log: BUG: KCSAN: data-race in direct / direct'
ok "one in memory that was allocated" \
	says 'fail: kernel log: BUG: KCSAN: data-race in heap / heap'
ok "what is in the middle of one" says 'fail: kernel log: WARNING: x'
ok "one without an end" says 'fail: kernel log: BUG: KCSAN: data-race in more / more'
ok "and no other" never_says 'fail: kernel log: BUG: KCSAN: data-race in alone'
ok "one that the module was interrupted by is not of it" \
	never_says 'fail: kernel log: BUG: KCSAN: data-race in irq'

boot load "${in_uml[@]}" --params no_such_thing=1,max_timers=x -- true
ok "a module that cannot be loaded" says 'fail: cannot load the module'

# counts "PASSED FAILED SKIPPED" STATUS TAP: what becomes of the log on stdin.
counts() {
	local file

	file=$(mktemp)
	awk -v status="$2" -v tap="$3" -v counts="$file" -f "$top/ci/tally.awk"
	if [ "$(cat "$file")" != "$1" ]; then
		echo "# $(cat "$file"), not $1" >&2
		rm "$file"
		return 1
	fi
	rm "$file"
}

ok "tally: TAP" counts "2 1 1" 1 1 <<'END'
TAP version 13
1..4
ok 1 one
not ok 2 two
ok 3 # SKIP three
ok 4 four
END
ok "tally: the plan may come last" counts "1 0 0" 0 1 <<'END'
ok 1 one
1..1
END
ok "tally: leaves of KTAP" counts "3 1 1" 1 1 <<'END'
KTAP version 1
1..2
    KTAP version 1
    1..2
        KTAP version 1
        ok 1 row
        not ok 2 row
        ok 3 row # SKIP why
    not ok 1 rows
    ok 2 alone
not ok 1 suite
ok 2 another
END
ok "tally: a suite that fails without a case" counts "1 1 0" 0 1 <<'END'
KTAP version 1
1..1
    1..1
    ok 1 case
not ok 1 suite
END
ok "tally: no plan" counts "1 1 0" 0 1 <<<"ok 1 one"
ok "tally: fewer than planned" counts "1 1 0" 0 1 <<<$'1..2\nok 1 one'
ok "tally: more than planned" counts "2 1 0" 0 1 <<<$'1..1\nok 1 one\nok 2 two'
ok "tally: fewer than planned in a suite" counts "1 1 0" 0 1 <<'END'
1..1
    1..2
    ok 1 case
ok 1 suite
END
ok "tally: a suite that ends in the middle" counts "1 2 0" 0 1 <<'END'
1..1
    1..2
    ok 1 case
END
ok "tally: nothing at all" counts "0 1 0" 0 1 </dev/null
ok "tally: good results, bad status" counts "1 1 0" 2 1 <<<$'1..1\nok 1 one'
ok "tally: bail out" counts "1 2 0" 0 1 <<<$'1..2\nok 1 one\nBail out! oh'
ok "tally: nothing to do" counts "0 0 1" 0 1 <<<'1..0 # SKIP why'
ok "tally: without TAP, good" counts "1 0 0" 0 0 <<<anything
ok "tally: without TAP, bad" counts "0 1 0" 3 0 <<<anything
ok "tally: a machine" counts "3 0 0" 0 1 <<'END'
twheel-vm: kernel: 6.12
twheel-vm: run: one_test
1..1
ok 1 one
twheel-vm: exit: 0
twheel-vm: run: two_test
1..1
ok 1 two
twheel-vm: exit: 0
twheel-vm: verdict: PASS
END
ok "tally: a machine that died" counts "1 2 0" 1 1 <<'END'
twheel-vm: run: one_test
1..2
ok 1 one
twheel-vm: verdict: FAIL: the machine died without a verdict
END
ok "tally: a program that died" counts "1 3 0" 1 1 <<'END'
twheel-vm: run: one_test
1..2
ok 1 one
twheel-vm: exit: signal 11
twheel-vm: run: two_test
twheel-vm: exit: 0
twheel-vm: verdict: FAIL: signal 11: one_test
END
ok "tally: a program whose end was lost" counts "3 1 0" 0 1 <<'END'
twheel-vm: run: one_test
1..2
ok 1 one
and twheel-vm: exit: 0
twheel-vm: run: two_test
1..1
ok 1 two
twheel-vm: exit: 0
twheel-vm: verdict: PASS
END
ok "tally: a program that ran no test" counts "1 0 1" 0 1 <<<$'1..1\n    1..0\nok 1 program'
ok "tally: a failure that was expected" counts "1 1 0" 0 1 <<<$'1..2\nok 1 a # XFAIL b\nok 2 c'

# What a whole run has to have done, by logs that do not show it.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir -p "$copy"/{ci,vm,build/{logs,results}}
cp "$top/vm/lib.sh" "$copy/vm"
cp "$top/ci/targets.sh" "$copy/ci"

# targets GOOD: that so many have been reached.
targets() {
	local good

	good=$("$copy/ci/targets.sh" | grep -c '^ok ')
	[ "$good" = "$1" ] || {
		echo "# $good, not $1" >&2
		return 1
	}
}

ok "targets: nothing was run" targets 0
for percent in 96 97; do
	echo "ok 1 the module in the kernel: $percent.00 % of lines"
done >"$copy/build/logs/module.log"
ok "targets: two numbers where one is wanted" targets 0
sed -i 2d "$copy/build/logs/module.log"
printf 'twheel-vm: verdict: %s\n' PASS 'FAIL: kernel log' >"$copy/build/logs/a.output.log"
ok "targets: one was reached; a machine that was found out" targets 1
sed -i 2d "$copy/build/logs/a.output.log"
ok "targets: two" targets 2

# What the kernel has reached of the module, by files that gcov might have written.
lines() {
	printf '%9s:%5d:\t%s\n' "$@"
}
{
	echo 'function one called 1 returned 100% blocks executed 90%'
	lines 1 1 'if (a)'
	echo 'branch  0 taken 5'
	echo 'branch  1 taken 3 (fallthrough)'
	lines '#####' 2 '	return -EIO;'
	for line in {3..20}; do
		lines 1 "$line" 'a++;'
	done
} >"$copy/one.gcov"
echo 'one | return -EIO; | why not' >"$copy/reasons"

# covered VERDICTS: of one.gcov, as "1not 23" for ok 1, not ok 2, ok 3.
covered() {
	local verdicts

	verdicts=$(cd "$copy" && awk -v min_lines=95 -v min_branches=90 -v reasons=reasons \
		-f "$top/ci/coverage.awk" one.gcov | sed -n 's/^\(not \)\?ok \([0-9]\).*/\1\2/p' |
		tr -d '\n')
	[ "$verdicts" = "$1" ] || {
		echo "# $verdicts, not $1" >&2
		return 1
	}
}
ok "coverage: enough of it" covered 123
mv "$copy/reasons" "$copy/why"
: >"$copy/reasons"
ok "coverage: an error return that was not reached, without a reason" covered '12not 3'
cp "$copy/why" "$copy/reasons"
echo 'one | return -EPERM; | it is gone' >>"$copy/reasons"
ok "coverage: a reason whose line is not there" covered '12not 3'
cp "$copy/why" "$copy/reasons"
lines '#####' 21 'b++;' >>"$copy/one.gcov"
ok "coverage: too few of the lines" covered 'not 123'
sed -i '$d' "$copy/one.gcov"
sed -i '$a branch  0 never executed' "$copy/one.gcov"
ok "coverage: too few of the branches" covered '1not 23'
sed -i '$d' "$copy/one.gcov"
lines 1 21 'if (WARN_ON(a))' >>"$copy/one.gcov"
ok "coverage: a branch that would not be counted" covered '1not 23'
sed -i '$d' "$copy/one.gcov"
sed -i 's/return -EIO;/a++;/; 2s/if (a)/return a ? 0 : -EIO;/; s/taken 3/taken 0/' \
	"$copy/one.gcov"
: >"$copy/reasons"
ok "coverage: one of two returns of a line" covered '1not 2not 3'
sed -i '2s/-EIO/VM_FAULT_SIGBUS/' "$copy/one.gcov"
ok "coverage: or of a page that is not there" covered '1not 2not 3'

# Two runs of the exact machine, which are made up: how many times the first prints, how
# many the second, and which of them fails, if one does.
cp "$top/ci/exact.sh" "$copy/ci"
for script in ci/programs vm/module; do
	printf '#!/bin/sh\n' >"$copy/$script.sh"
done
cat >"$copy/vm/run.sh" <<'END'
#!/bin/bash
case $* in
*exact-6.12-1\ *) lines=$FIRST nr=1 ;;
*) lines=$SECOND nr=2 ;;
esac
seq -f '# row %g, hash 1f' "$lines" >"${0%/vm/run.sh}/build/logs/exact-6.12-$nr.output.log"
[ "$nr" != "$FAILS" ]
END
chmod +x "$copy"/{ci,vm}/*.sh
alike() {
	FIRST=$1 SECOND=$2 FAILS=${3-} "$copy/ci/exact.sh" >"$copy/exact.log" 2>&1
}
# differ WORDS FIRST SECOND: for that reason.
differ() {
	! alike "${@:2}" && grep -q "$1" "$copy/exact.log"
}
ok "exact: two runs with the same times" alike 24 24
ok "exact: with others" differ 'two runs, two results' 24 25
ok "exact: with too few" differ 'no times to compare' 23 23
ok "exact: a first run that fails" never alike 24 24 1
ok "exact: a second" differ 'the second run failed' 24 24 2

# What make vm does not run, it does not say to have run.
make_says() {
	! output=$(make -C "$top" -n vm "${@:2}" 2>&1) && says "$1"
}
ok "make vm: a further word" make_says 'make vm takes no further word: "Makefile"' Makefile
ok "make vm: a script that is absent" make_says 'no file "absent.sh"' SCRIPT=absent.sh

# What a whole run leaves, and what may go into doc/testing.md.
cp "$top/ci/reliability.sh" "$copy/ci"
rm -f "$copy/build/results"/*
mkdir "$copy/doc"
written() {
	printf '<!-- begin run -->\nold\n<!-- end run -->\n' >"$copy/doc/testing.md"
	"$copy/ci/reliability.sh" --write >/dev/null 2>&1
	! grep -qx old "$copy/doc/testing.md"
}
for run in short 1; do
	echo "$run 2000-01-01 abc 1 0" >"$copy/build/results/.run"
	echo '1 0 0' >"$copy/build/results/one"
	[ $run = 1 ] || ok "tables: not of a short run" never written
done
echo '# 7 killed' >"$copy/build/logs/one.log"
echo '# 8 killed' >"$copy/build/logs/gate-one.log"
echo '1 0 0' >"$copy/build/results/gate-one"
echo 'ok 1 branches: 91.35 (needs 90)' >"$copy/build/logs/targets.log"
ok "tables: of a whole one" written
ok "tables: with its figures" grep -q ' one | 7 killed' "$copy/build/reliability.md"
ok "tables: but those of what was planted" never grep -q '8 killed' "$copy/build/reliability.md"
ok "tables: its sums are in the summary" grep -q '| 2, 0, 0 |$' "$copy/doc/testing.md"
ok "tables: and its targets" grep -q '| 91.35 |$' "$copy/doc/testing.md"
ok "tables: in 15 lines" test "$(sed '1d;$d' "$copy/doc/testing.md" | wc -l)" -le 17
echo '1 1 0' >"$copy/build/results/two"
ok "tables: not of one in which a test failed" never written
echo '1 0 1' >"$copy/build/results/two"
ok "tables: nor of one that was cut" never written

the_end
