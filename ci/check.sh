#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/check.sh [--full] [STAGE...]: make check, and make check-full. A line for each
# stage when it has ended, with what failed in full, and the sums on the last line. The
# whole output of a stage is in build/logs/STAGE.log. With names, only build and those,
# while what others have left in build/results stays there, and counts.
#
# The full one takes no longer than TWHEEL_CHECK_MINUTES (90), and begins no stage in the
# last five of these. What it has cut so counts as skipped, or as failed if it had begun,
# and the run as failed. Of what is done by the million it does TWHEEL_CHECK_SHARE (10)
# percent, and gives it as much of the time that all would have. Each such cut is printed;
# ci/targets.sh judges, in the end, whether the share has been done. Then comes what
# ci/reliability.sh has to say, which leaves all figures in build/reliability.md.

. "$(dirname "$0")/../vm/lib.sh"

full=
if [ "${1-}" = --full ]; then
	full=1
	shift
fi
wanted=" $* "
minutes=${TWHEEL_CHECK_MINUTES:-90}
share=${TWHEEL_CHECK_SHARE:-10}
# What threads race in, on both processors of a machine: beside others the host would
# give these turns of milliseconds, in which nothing meets. Before all else, one by one.
loners=' stress-6.12 core-races storms pairs pairs-debug kcsan-pairs debug-races rt-races races-6.1'
loners+=' daemon rt-debug-races s390x-races arm64-races stress-32 stress-6.1 stress-rt exact'
loners+=' gate-core '
# In user-mode Linux, which waits where QEMU with a clock of instructions would not.
sleepers=' uml gate-uml '
# How long the threads of libtwheel race: in the full one for a minute.
[ -n "$full" ] || export TWHEEL_RACE_SECONDS=${TWHEEL_RACE_SECONDS:-4}
# When all others have ended.
last=' targets '

known=()
names=()
kinds=()
commands=()

# stage NAME tap|plain COMMAND...: one more to run.
stage() {
	known+=("$1")
	[[ $wanted = "  " || $1 = build || $wanted = *" $1 "* ]] || return 0
	names+=("$1")
	kinds+=("$2")
	commands+=("$(printf '%q ' "${@:3}")")
}

# report NAME SECONDS TEXT: under the counts of a stage.
report() {
	local passed failed skipped

	read -r passed failed skipped <"$results/$1"
	(
		flock 8
		printf '%-14s %5d passed, %d failed, %d skipped %6d s\n' "$1" \
			"$passed" "$failed" "$skipped" "$2"
		[ -z "$3" ] || printf '%s\n' "$3"
	) 8>"$results/.lock"
}

run_stage() {
	local name=${names[$1]} tap=0 status=0 start=$SECONDS text cuts='' limited=$full

	[ "${kinds[$1]}" = plain ] || tap=1
	# The first is a function of ours, and the last takes no time.
	[[ $1 != 0 && $last != *" $name "* ]] || limited=
	if [ -n "$limited" ] && [ "$SECONDS" -ge $((minutes * 60 - 300)) ]; then
		echo "0 0 1" >"$results/$name"
		report "$name" 0 "    cut: $minutes minutes are soon over"
		return
	fi
	if [ -n "$limited" ]; then
		timeout $((minutes * 60 - SECONDS)) bash -c "${commands[$1]}" \
			>"$logs/$name.log" 2>&1 </dev/null || status=$?
	else
		eval "${commands[$1]}" >"$logs/$name.log" 2>&1 </dev/null || status=$?
	fi
	text=$(awk -v status="$status" -v tap="$tap" -v counts="$results/$name" \
		-f "$top/ci/tally.awk" "$logs/$name.log")
	if [ -n "$full" ] && [ "$status" -eq 124 ]; then
		text+=$'\n'"    cut: $minutes minutes are over"
	fi
	# What had a budget of its own, and was cut by that.
	cuts=$(tr -d '\r' <"$logs/$name.log" |
		LC_ALL=C sed -n 's/.*[^a-z_]\([a-z_]*:cut: .*\)/    \1/p')
	text+=${text:+${cuts:+$'\n'}}$cuts
	report "$name" $((SECONDS - start)) "$text"
}

# Prints the number of the stage that is next.
take() {
	local next

	exec 7>"$results/.queue"
	flock 7
	read -r next <"$results/.next"
	echo $((next + 1)) >"$results/.next"
	echo "$next"
}

# run_all LIST: runs those that are in it, in the order of the stages.
run_all() {
	local i

	for i in "${!names[@]}"; do
		[[ $1 != *" ${names[i]} "* ]] || run_stage "$i"
	done
}

# Runs one stage after the other, until there are none.
work() {
	local next

	while next=$(take) && [ "$next" -lt ${#names[@]} ]; do
		[[ $loners$sleepers$last = *" ${names[next]} "* ]] || run_stage "$next"
	done
}

build_all() {
	"$top/ci/programs.sh" || return
	"$top/ci/programs.sh" stress || return
	[ -z "$full" ] || "$top/ci/programs.sh" stress32 || return
	"$top/vm/module.sh" 6.12 || return
	"$top/vm/module.sh" 6.1
}

# share NUMBER: of what is done with all the time.
share() {
	echo $(($1 * share / 100))
}

stage build plain build_all
# The longest first, so that no processor waits for another's at the end.
stage vm-6.12 tap "$top/ci/suite.sh" 6.12
stage gate tap "$top/ci/gate/gate.sh"
stage kcsan tap "$top/ci/suite.sh" kcsan races
stage uml tap "$top/ci/suite.sh" uml 64 --bin "$build/stress/fail_nth" --run fail_nth
stage vm-6.1 tap "$top/ci/suite.sh" 6.1
stage stress-6.12 tap "$top/ci/stress.sh" 6.12 short --parallel --fuzz 10
# Where an interrupt that takes long does so whatever the host does.
stage storms-exact tap "$top/ci/stress.sh" 6.12 short --only storms
stage lib tap "$top/userspace/lib/check.sh"
stage builds tap "$top/userspace/lib/builds.sh"
stage daemon tap "$top/userspace/daemon/check.sh" ${full:+60}
stage daemon-vm tap "$top/userspace/daemon/test/vm.sh"
stage threads tap "$top/ci/suite.sh" 6.12 threads
stage fuzz-uml tap "$top/ci/stress.sh" uml short --only fuzz --fuzz 60
stage lint tap "$top/ci/lint/lint.sh"
stage bench tap "$top/userspace/bench/test.sh"
stage fuzz tap "$top/userspace/tests/unit/fuzz.sh" models ${full:+--operations "$(share 100000000)"}
stage core-races tap "$top/userspace/tests/unit/fuzz.sh" races ${full:+--armings 10000000}
stage races-6.12 tap "$top/ci/suite.sh" 6.12 races
stage rt tap "$top/ci/suite.sh" 6.12-rt 64
stage model tap "$top/doc/model/run.sh"
stage kunit-6.12 tap "$top/kunit/run.sh" --kasan 6.12
stage kunit-6.1 tap "$top/kunit/run.sh" 6.1
stage packaging tap "$top/packaging/test.sh"
stage core tap make -C "$top/userspace/tests/unit" check
stage coverage plain "$top/kunit/coverage.sh"
# And these, of which the last ones can be done without most easily.
if [ -n "$full" ]; then
	# Where the machine is slow, what the budget allows: it says what it has cut.
	stage stress tap "$top/ci/stress.sh" debug full --not pairs --parallel \
		--fuzz "$(share 1200)" --lives "$(share 100)" --soak "$(share 600)"
	stage calls tap "$top/ci/stress.sh" uml full --only fuzz --fuzz "$(share 20000)" \
		--calls "$(share 20000000)"
	stage signals tap "$top/ci/suite.sh" uml signals
	stage lives-uml tap "$top/ci/stress.sh" uml full --only lives --lives "$(share 150)"
	stage debug tap "$top/ci/suite.sh" debug 64 --bin "$build/stress/fail_nth" \
		--run "fail_nth -F load"
	stage kcsan-64 tap "$top/ci/suite.sh" kcsan 64
	stage rt-debug tap "$top/ci/suite.sh" rt-debug 64
	stage kmsan tap "$top/ci/suite.sh" kmsan 64
	stage module tap "$top/ci/coverage.sh"
	stage soak tap "$top/ci/stress.sh" 6.12 full --only soak --parallel
	stage storms tap "$top/ci/stress.sh" 6.12 full --only storms --parallel
	stage pairs tap "$top/ci/stress.sh" 6.12 full --only pairs --pairs "$(share 600)" \
		--loops "$(share 1000000)" --parallel
	stage pairs-debug tap "$top/ci/stress.sh" debug full --only pairs --pairs "$(share 200)" \
		--loops "$(share 1000000)" --parallel
	stage lives tap "$top/ci/stress.sh" 6.12 full --only lives --lives "$(share 400)" \
		--parallel
	# Alone at the end it would leave a processor idle.
	stage gate-tests tap "$top/ci/gate/gate.sh" tests
	stage exact tap "$top/ci/exact.sh"
	stage gate-core tap "$top/ci/gate/gate.sh" core
	stage power tap "$top/ci/power.sh"
	stage gate-stock tap "$top/ci/gate/gate.sh" stock
	stage gate-stalls tap "$top/ci/gate/gate.sh" stalls
	stage gate-uml tap "$top/ci/gate/gate.sh" uml
	stage gate-debug tap "$top/ci/gate/gate.sh" debug
	stage gate-kcsan tap "$top/ci/gate/gate.sh" kcsan
	stage gate-rt-debug tap "$top/ci/gate/gate.sh" rt-debug
	stage s390x tap "$top/ci/suite.sh" s390x-6.1 64
	stage arm64 tap "$top/ci/suite.sh" arm64-6.12 64
	stage gate-kmsan tap "$top/ci/gate/gate.sh" kmsan
	stage debug-32 tap "$top/ci/suite.sh" debug 32 --bin "$build/stress32/fail_nth:/bin32" \
		--run "/bin32/fail_nth -F load"
	stage stress-32 tap "$top/ci/stress.sh" 6.12 short --32 --parallel
	stage stress-6.1 tap "$top/ci/stress.sh" 6.1 short --parallel --fuzz 10
	stage stress-rt tap "$top/ci/stress.sh" 6.12-rt short --parallel --fuzz 10
	stage kcsan-pairs tap "$top/ci/stress.sh" kcsan short --only pairs --parallel
	stage debug-races tap "$top/ci/suite.sh" debug races
	stage rt-races tap "$top/ci/suite.sh" 6.12-rt races
	stage rt-debug-races tap "$top/ci/suite.sh" rt-debug races
	stage s390x-races tap "$top/ci/suite.sh" s390x-6.1 races
	stage arm64-races tap "$top/ci/suite.sh" arm64-6.12 races
	stage races-6.1 tap "$top/ci/suite.sh" 6.1 races
	stage rt-6.1 tap "$top/ci/suite.sh" 6.1-rt 64
	stage races32 tap "$top/ci/suite.sh" 6.12 races32
	stage canary tap "$top/ci/suite.sh" 6.12 64 --variant canary
	stage gate-kunit tap "$top/ci/gate/gate.sh" kunit
	stage gate-canary tap "$top/ci/gate/gate.sh" canary
	stage targets tap "$top/ci/targets.sh" "$share"
fi

for name; do
	[[ " ${names[*]} " = *" $name "* ]] || die "no such stage: $name; there are: ${known[*]}"
done

results=$build/results
if [ $# -eq 0 ]; then
	rm -rf "$results"
	# What ci/targets.sh counts.
	rm -f "$logs"/*.output.log
fi
mkdir -p "$results"
# A stage that dies without a word leaves this behind, and no log of an earlier one.
for name in "${names[@]}"; do
	echo "0 1 0 unseen" >"$results/$name"
	rm -f "$logs/$name.log"
done
# What ci/reliability.sh says of the run, while this is not one of some stages.
rm -f "$results/.run"
if [ $# -eq 0 ]; then
	commit=$(git -C "$top" describe --always --dirty 2>/dev/null || echo uncommitted)
	run="${full:-short} $(date -u +%F) $commit"
	echo "$run" >"$results/.run"
fi

# However this ends, the sums are its last line.
sums() {
	grep -l unseen "$results"/* | sed 's|.*/|never ended: |' || true
	if [ -n "$full" ] && [ -e "$results/.run" ]; then
		made=$(find "$cache/kernels" -mindepth 2 -maxdepth 2 -name bzImage \
			-cnewer "$results/.run" 2>/dev/null | wc -l) || true
		echo "$run $((SECONDS / 60)) $made" >"$results/.run"
		"$top/ci/reliability.sh" || true
	fi
	[ ! -e "$results/.run" ] || echo "after $((SECONDS / 60)) minutes"
	cat "$results"/* | awk '
		{ passed += $1; failed += $2; skipped += $3 }
		END {
			printf "%d passed, %d failed", passed, failed
			if (skipped)
				printf ", %d skipped", skipped
			print ""
			exit failed || skipped
		}' || exit 1
}
trap sums EXIT

"$top/vm/deps.sh" check
run_stage 0
echo 1 >"$results/.next"
run_all "$loners"
run_all "$sleepers" &
for ((worker = $(nproc); worker > 0; worker--)); do
	work &
done
wait
run_all "$last"
