#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/stress.sh KERNEL short|full [OPTION...] [-- OPTION-of-run.sh...]: runs the hostile tests of
# tests/hostile in a machine with this kernel. Prints TAP. A line that begins with "# " and
# contains "cut:" reports a test whose budget was too small.
#
#   --pairs N     seconds for each pair of racing calls
#   --loops N     number of loops that end a pair before that
#   --fuzz N      seconds for the fuzzer
#   --calls N     number of calls that end it before that
#   --lives N     seconds for each way in which a wheel can end
#   --loads N     number of times the module is loaded and unloaded that end this before that
#   --storms N    seconds for each storm, and the same time without it, to compare how late others
#                 are; only with --parallel, or with --only storms on a kernel without detectors
#   --soak N      seconds for the soak test
#   --part N      share of the targets of make check-full that this run must reach, in 1/10,000
#   --seed N      seed of random choices (default in the full tier: another one each time)
#   --only WHAT   runs one of these alone, or fail_nth or cmdspace
#   --not WHAT    runs all except this one
#   --parallel    gives each processor of the machine its own processor of the host
#   --32          runs 32-bit programs
#
# The seconds are those of the machine. Without --parallel, the clock of the machine counts
# instructions. Its two processors then share one of the host and take turns every 40 us, or
# every 100 us on kernels whose calls take longer, so that calls interrupt each other everywhere,
# even on a busy host. For storms, it has only one processor, because otherwise one processor and
# its timers could wait for a second.
#
# User-mode Linux (uml) always has one processor and the host's time.
#
# fail_nth needs a kernel with fault injection. On kernels with KCOV, which are those of
# vm/config/debug.config and uml.config, coverage must guide the fuzzer. Other kernels skip both.

. "$(dirname "$0")/../vm/lib.sh"

kernel=${1:?the name of a kernel is missing}
tier=${2:?the second argument must be short or full}
shift 2
only=
not=
parallel=
bits=
part=0
case $tier in
short)
	pairs=4 fuzz=30 lives=4 storms=1 soak=10
	loops=100000 calls=0 count=10000 loads=10 limit=2500 seed=1
	;;
full)
	pairs=110 fuzz=900 lives=120 storms=5 soak=600
	loops=1000000 calls=20000000 count=1000000 loads=1000 limit=25000 seed=$((SRANDOM | 1))
	;;
*) die "there is no tier $tier: use short or full" ;;
esac
while [ $# -gt 0 ]; do
	case $1 in
	--pairs | --loops | --fuzz | --calls | --lives | --loads | --storms | --soak | --part | \
		--seed | --only | --not)
		printf -v "${1#--}" %s "$2"
		shift
		;;
	--parallel) parallel=1 ;;
	--32) bits=32 ;;
	--) break ;;
	*) die "unknown option: $1" ;;
	esac
	shift
done
[ $# -eq 0 ] || shift
# If the fuzzer alone hangs, do not wait for as long as all tests may take.
[ "$only" != fuzz ] || limit=$((fuzz + 600))

quietly "$top/ci/programs.sh" "stress$bits"
options=(--kernel "$kernel" --name "stress$bits-$kernel-$tier${only:+-$only}" --raw --limit "$limit"
	--timeout $((limit + limit / 5)) --bin "$build/stress$bits" --oom-ok lives --log-ok 'minor 250 is taken')
config=$("$top/vm/kernel.sh" "$kernel")/headers/.config
watching=
turn=40
if grep -qx 'CONFIG_KCOV=y' "$config"; then
	watching=1
	turn=100
	options+=(--variant kcov)
fi
late=
! grep -qxE 'CONFIG_(KASAN|KCSAN|KMSAN|PROVE_LOCKING)=y' "$config" || late=1

exactly=
if [ -z "$parallel" ] && [ "$only" = storms ]; then
	exactly=1
	# For more than a minute, the tick, the timerfd of the bystander and its poll can coincide
	# in one interrupt. This happens twice in one machine and never in another.
	options+=(--alike --settle 5 --append twheel.hangs=12)
elif [ -z "$parallel" ]; then
	options+=(--exact --settle 5 --turns "$turn")
fi

run=()
# part NAME ARGUMENT...: adds one of the programs.
part() {
	[ "${only:-$1}" != "$1" ] || [ "$not" = "$1" ] || run+=(--run "$*")
}

if [ -n "$watching" ]; then
	# Loading the module has many points of failure, most of them in the kernel.
	# ci/coverage.sh and the stage "fail-nth" test those.
	part fail_nth -F load
fi
part cmdspace
part fuzz --part "$part" --seconds "$fuzz" --calls "$calls" --guided "${watching:-0}" --seed "$seed"
# Loading a module and taking a processor offline stop all other processors. If these take turns,
# one may wait forever. With one processor there are no turns, and it cannot go offline.
without=(-T loads_and_unloads -T cpu_offline_expiry)
[ -z "$parallel" ] || without=()
[ "$kernel" != uml ] || without=(-T cpu_offline_expiry)
part pairs --part "$part" --loops "$loops" --seconds "$pairs" --seed "$seed" "${without[@]}"
# Kernels that can detect it report a write to a freed page.
[ -n "$only" ] && [ "$only" != lives ] || options+=(--append page_poison=1)
part lives --part "$part" --count "$count" --loads "$loads" --seconds "$lives" --seed "$seed" "${without[@]}"
if [ "$tier" = full ] || [ "$only" = soak ]; then
	part soak --part "$part" --seconds "$soak" --seed "$seed"
fi
# The storms compare lateness, which needs processors that do not take turns, or only one.
# Two million timers are more than a user may have on a machine as small as this one.
if [ -n "$parallel$exactly" ]; then
	[ "${only:-storms}" != storms ] || [ "$not" = storms ] ||
		options+=(--params max_bytes_per_user=0)
	part storms --part "$part" --seconds "$storms" --late "${late:-0}" --exact "${exactly:-0}"
fi
[ ${#run[@]} -gt 0 ] || die "no test is left to run on $kernel with these options"
exec "$top/vm/run.sh" "${options[@]}" "$@" "${run[@]}"
