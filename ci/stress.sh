#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/stress.sh KERNEL short|full [OPTION...] [-- OPTION-of-run.sh...]: the hostile
# tests of tests/hostile in machines of this kernel, TAP out. What a budget was
# too small for is said in lines that begin with "# " and have "cut:" in them.
#
#   --pairs N     seconds for each pair of calls that race
#   --loops N     and how many loops end a pair sooner
#   --fuzz N      for the fuzzer
#   --calls N     and how many calls end it sooner
#   --lives N     for each way in which wheels end
#   --loads N     and how many loads and unloads of the module end that sooner
#   --storms N    for each storm, and as long without one, for how late others are then;
#                 only with --parallel, or alone; the latter not where the kernel watches
#                 itself
#   --soak N      for the soak
#   --part N      in 10,000: how much of what make check-full needs of them
#   --seed N      of what is chosen at random; another each time in the full tier
#   --only WHAT   one of these alone, or fail_nth or cmdspace
#   --not WHAT    all but that one
#   --parallel    with a processor of the host's for each of the machine's
#   --32          as 32-bit programs
#
# The seconds are those of the machine. Without --parallel it counts instructions for
# a clock, has one processor of the host's for its two, and gives it to the other
# each 40 us, where calls take longer each 100 us: so calls meet wherever either
# is, and the host may be busy. For storms it has but one, as in turns one may wait for
# a second, and the timers on it.
#
# User-mode Linux (uml) has one processor, and the host's time in any case.
#
# fail_nth is for kernels that fail calls on demand, and the fuzzer sees where it
# goes in those with KCOV, and must: vm/config/debug.config and uml.config. The others
# pass it by.

. "$(dirname "$0")/../vm/lib.sh"

kernel=${1:?which kernel?}
tier=${2:?short or full?}
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
*) die "unknown: $tier" ;;
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
# One that hangs is not to take as long as all of them may.
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
	# For more than a minute the tick, the neighbor's timerfd and its poll may meet in one
	# interrupt, which is twice in a machine and never in another.
	options+=(--alike --settle 5 --append twheel.hangs=12)
elif [ -z "$parallel" ]; then
	options+=(--exact --settle 5 --turns "$turn")
fi

run=()
# part NAME ARGUMENT...: one of the programs.
part() {
	[ "${only:-$1}" != "$1" ] || [ "$not" = "$1" ] || run+=(--run "$*")
}

if [ -n "$watching" ]; then
	# Loading has many places, most of the kernel: see ci/coverage.sh and UML for these.
	part fail_nth -F load
fi
part cmdspace
part fuzz --part "$part" --seconds "$fuzz" --calls "$calls" --guided "${watching:-0}" --seed "$seed"
# A module is loaded, and a processor goes, while all others wait; in turns, one may
# wait for ever. With one processor there are no turns, and none can go.
without=(-T loads_and_unloads -T cpu_offline_expiry)
[ -z "$parallel" ] || without=()
[ "$kernel" != uml ] || without=(-T cpu_offline_expiry)
part pairs --part "$part" --loops "$loops" --seconds "$pairs" --seed "$seed" "${without[@]}"
# A page that was given back must not be written to, where the kernel can see that.
[ -n "$only" ] && [ "$only" != lives ] || options+=(--append page_poison=1)
part lives --part "$part" --count "$count" --loads "$loads" --seconds "$lives" --seed "$seed" "${without[@]}"
if [ "$tier" = full ] || [ "$only" = soak ]; then
	part soak --part "$part" --seconds "$soak" --seed "$seed"
fi
# Who is punctual beside them is for processors that are truly two, or one; and a kernel
# that does nothing else.
if [ -n "$parallel$exactly" ]; then
	part storms --part "$part" --seconds "$storms" --late "${late:-0}" --exact "${exactly:-0}"
fi
[ ${#run[@]} -gt 0 ] || die "nothing of that on $kernel"
exec "$top/vm/run.sh" "${options[@]}" "$@" "${run[@]}"
