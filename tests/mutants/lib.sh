# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# What the gates share: ok() judges, and boot() and mutant() run a machine with a bug.

# shellcheck source=../../tests/lib/tap.sh
. "$top/tests/lib/tap.sh"

# ok NAME COMMAND...: passes if the command succeeds.
ok() {
	local is=0

	"${@:2}" >/dev/null || is=1
	verdict $is "$1"
}

# boot NAME OPTION...: leaves the output in $output and the exit status in $status.
boot() {
	local name=gate-$1

	status=0
	shift
	output=$("$top/vm/run.sh" --name "$name" "$@" 2>&1) || status=$?
	printf '%s\n' "$output" | sed 's/^/# /'
}

# make_vm LINE: runs make vm with a script that consists of LINE, with the same results.
make_vm() {
	status=0
	echo "$1" >"$build/gate-script"
	output=$(make -C "$top" vm SCRIPT=build/gate-script 2>&1) || status=$?
	printf '%s\n' "$output" | sed 's/^/# /'
}

says() {
	grep -qF -e "$1" <<<"$output"
}

# make_says TEXT ARGUMENT...: passes if make vm with these arguments fails with this message.
make_says() {
	! output=$(make -C "$top" -n vm "${@:2}" 2>&1) && says "$1"
}

refused() {
	[ "$status" -ne 0 ] && says 'twheel-vm: verdict: FAIL'
}

# mutant KERNEL BUG BIN COMMAND [OPTION...]: runs a test of the module that has this bug.
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
