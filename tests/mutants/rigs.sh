# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# The rigs themselves: the machine, the tally and the judges, given what is broken.

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

# counts "PASSED FAILED SKIPPED" STATUS TAP [TARGETS]: what becomes of the log on stdin.
counts() {
	local file

	file=$(mktemp)
	awk -v status="$2" -v tap="$3" -v targets="${4-0}" -v counts="$file" -f "$top/ci/tally.awk"
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

ok "tally: a target that was reached" counts "1 0 0" 0 1 1 <<<$'1..1\n# target a 96.5 95\nok 1 one'
ok "tally: one that was missed" counts "1 1 0" 0 1 1 <<<$'1..1\n# target a 94.9 95\nok 1 one'
ok "tally: one without a number" counts "1 1 0" 0 1 1 <<<$'1..1\n# target a 95\r\nok 1 one'
ok "tally: none where two are wanted" counts "1 1 0" 0 1 2 <<<$'1..1\nok 1 one'
ok "tally: one that needs nothing" counts "1 1 0" 0 1 2 <<'END'
# target a 1 1
# target b 1 0
ok 1 one
1..1
END

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir -p "$copy"/{ci,vm,build/{logs,results}}
cp "$top/vm/lib.sh" "$copy/vm"

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
printf '# target %s 9\n' 'rounds.killed 7' 'rounds.killed 5' 'percent.branches 91.35' \
	>"$copy/build/logs/one.log"
echo '# target rounds.killed 8 9' >"$copy/build/logs/gate-one.log"
echo '1 0 0' >"$copy/build/results/gate-one"
ok "tables: of a whole one" written
ok "tables: with its figures" grep -qF '| one | rounds.killed | 7 | 9 |' "$copy/build/reliability.md"
ok "tables: but those of what was planted" never grep -q gate-one.*killed "$copy/build/reliability.md"
ok "tables: its sums are in the summary" grep -q '| 2, 0, 0 |$' "$copy/doc/testing.md"
ok "tables: and its targets" grep -q '| 91.35 |$' "$copy/doc/testing.md"
ok "tables: or their sums" grep -q 'killed .*| 12 |$' "$copy/doc/testing.md"
ok "tables: in 15 lines" test "$(sed '1d;$d' "$copy/doc/testing.md" | wc -l)" -le 17
echo '1 1 0' >"$copy/build/results/two"
ok "tables: not of one in which a test failed" never written
echo '1 0 1' >"$copy/build/results/two"
ok "tables: nor of one that was cut" never written
