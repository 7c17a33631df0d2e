# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# What the gates share: ok() judges, boot() and mutant() run a machine with a bug.

# shellcheck source=../../tests/lib/tap.sh
. "$top/tests/lib/tap.sh"

# ok NAME COMMAND...: passes if the command succeeds.
ok() {
	local is=0

	"${@:2}" >/dev/null || is=1
	verdict $is "$1"
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

# The bugs of tests/mutants/planted/planted.c that say the same in each kernel: what that is, and
# what the bug is.
declare -A told named
while IFS='|' read -r bug said name; do
	told[$bug]=$said named[$bug]=$name
done <<'END'
rcu|fail: kernel log: WARNING: suspicious RCU usage|what RCU may have freed
twice|fail: kernel log: ODEBUG: activate active|what RCU is told to free twice
preempt|fail: kernel log: BUG: using smp_processor_id() in preemptible|a processor that it may leave
refcount|at lib/refcount.c:|a reference to what nobody holds
fortify|planted_fortify|more than a member has room for
context|fail: kernel log: [ BUG: Invalid wait context ]|a lock that may sleep below one that spins
hardirq|fail: kernel log: [ BUG: Invalid wait context ]|a lock that sleeps, in an interrupt
atomic|fail: kernel log: BUG: sleeping function called from invalid context|sleep with a lock held
active|fail: kernel log: ODEBUG: free active|an armed timer freed
work|hint: planted_nothing|queued work freed
shift|fail: kernel log: UBSAN: shift-out-of-bounds|a shift too far
uaf|fail: kernel log: BUG: KASAN: slab-use-after-free in planted_uaf|use after free
slab|fail: kernel log: BUG: KASAN: slab-out-of-bounds in look_beyond|past the end of kmalloc()
vmalloc|fail: kernel log: BUG: KASAN: vmalloc-out-of-bounds in look_beyond|past the end of vmalloc()
leak|fail: memory: unreferenced object|a leak
bounds|fail: kernel log: UBSAN: array-index-out-of-bounds|an index out of bounds
list|__list_del_entry_valid_or_report|an entry that is on no list
order|fail: kernel log: WARNING: possible circular locking dependency detected|locks in two orders
irq|fail: kernel log: WARNING: inconsistent lock state|a lock shared with an interrupt
race|fail: kernel log: BUG: KCSAN: data-race in planted_counts|two who count
foreign|fail: kernel log: BUG: KCSAN: data-race in planted_reads|a plain read of what others write
padding|fail: kernel log: BUG: KMSAN: kernel-infoleak|bytes that nothing was written to
END

# plant KERNEL BUG...: one after the other in one machine, which goes on and tells of each.
# Where a bug takes two processors, these take turns as QEMU counts. Of what ODEBUG has to
# say the kernel prints five reports, of which each bug takes one or two.
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
	for bug in "$@"; do
		ok "$kernel: ${named[$bug]}" says "${told[$bug]}"
	done
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
