# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# What the gates share: ok() judges, boot() and mutant() run a machine with a bug.

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
