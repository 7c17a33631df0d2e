# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# The kernel's own tests of its bug detectors. Some run at boot, and vm/kernel.sh keeps the
# others as modules. vm/judge.c must notice the bugs that these provoke.

# reported TEXT: the kernel has logged a line that begins like this, after its time and thread.
reported() {
	tr -d '\r' <"$logs/gate-$kernel.console.log" | sed 's/^\(\[[^]]*\]\)*  *//' >"$logs/gate.log"
	grep -q "^$1" "$logs/gate.log"
}

tests=$("$top/vm/kernel.sh" "$kernel")/tests
run=()
for module in "$tests"/*.ko; do
	[ ! -e "$module" ] || run+=(--run "insmod /tests/${module##*/}; true")
done
[ ${#run[@]} -gt 0 ] || run=(--run true)
boot "$kernel" --kernel "$kernel" --raw --limit 120 --timeout 180 --bin "$tests:/tests" \
	--append 'panic_on_warn=0 kunit.enable=1 twheel.leaks=0' "${run[@]}"
case $kernel in
debug | rt-debug)
	ok "$kernel: lockdep passes its self-tests" reported 'Good, all [0-9]* testcases passed!'
	ok "$kernel: debug objects pass their self-test" reported 'ODEBUG: selftest passed'
	;;&
debug)
	ok "$kernel: KASAN passes its self-test" reported 'ok 1 kasan$'
	ok "$kernel: a report of KASAN fails the machine" says 'fail: kernel log: BUG: KASAN: '
	ok "$kernel: UBSAN reports an excessive shift" \
		says 'fail: kernel log: UBSAN: shift-out-of-bounds'
	ok "$kernel: UBSAN reports an index out of bounds" \
		says 'fail: kernel log: UBSAN: array-index-out-of-bounds'
	ok "$kernel: the verdict on the machine is FAIL" refused
	;;
kcsan)
	ok "$kernel: KCSAN passes its self-test" \
		reported 'kcsan: selftest: [0-9]*/[0-9]* tests passed'
	ok "$kernel: KCSAN passes its suite" reported 'ok 1 kcsan$'
	ok "$kernel: a race outside of twheel is not counted as twheel's" \
		says "of the kernel's own: BUG: KCSAN: "
	;;
kmsan)
	ok "$kernel: KMSAN passes its suite" reported 'ok 1 kmsan$'
	ok "$kernel: a report of KMSAN fails the machine" says 'fail: kernel log: BUG: KMSAN: '
	ok "$kernel: the verdict on the machine is FAIL" refused
	;;
esac
