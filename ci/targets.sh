#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/targets.sh [SHARE]: what make check-full has to have done, by what its stages have
# printed, in build/logs: a line of TAP for each figure. Of what is done by the million
# it is SHARE percent, or 100.

. "$(dirname "$0")/../vm/lib.sh"

share=${1:-100}
number=0
failed=0

# target WHAT REACHED NEEDED: numbers, of which a fraction does not count.
target() {
	local verdict=ok

	number=$((number + 1))
	if ! [[ $2 =~ ^[0-9]+(\.[0-9]+)?$ ]] || [ "${2%.*}" -lt "$3" ]; then
		verdict='not ok'
		failed=1
	fi
	echo "$verdict $number $1: ${2:-none} (needs $3)"
}

# reached STAGES WHAT [BY]: the figures of "# reached WHAT BY NUMBER" in the logs of these,
# with BY before each.
reached() {
	local name

	for name in $1; do
		tr -d '\r' 2>/dev/null <"$logs/$name.log" || true
	done | awk -v what="$2" -v by="${3-}" '
		$1 == "#" && $2 == "reached" && $3 == what && (by == "" || $4 == by) { print $4, $5 }'
}

# The pairs that there must be, and of so many loops how many one has of them.
needed='cancel_rearm 1;rearm_rearm 1;drain_cancel 1;batch_batch 1;close_ioctl 1;mmap_close 1'
needed+=';fork_close 50;exchange_expiry 1;read_read 1;poll_close 1;stats_any 1'
needed+=';cpu_offline_expiry 1000;exchange_close 1;kick_cancel 1;mark_kick 1;armed_over_read 1'

# complete: how many of these have done all their loops.
complete() {
	reached pairs loops |
		awk -v needed="$needed" -v all="$(of 1000000)" '
			BEGIN {
				nr = split(needed, pair, ";")
				for (i = 1; i <= nr; i++) {
					split(pair[i], part, " ")
					share[part[1]] = part[2]
				}
			}
			$1 in share && $2 >= all / share[$1] { done[$1] }
			END { print length(done) }'
}

# rounds TEST [STAGES]: how many there were, of what ends or comes and goes.
rounds() {
	reached "${2:-lives lives-uml stress}" rounds "$1" | sum
}

# of NUMBER: that share of it.
of() {
	echo $(($1 * share / 100))
}

sum() {
	awk '{ sum += $2 } END { printf "%.0f\n", sum }'
}

# least NUMBER: of so many numbers; of more or fewer there is none.
least() {
	awk -v nr="$1" 'NR == 1 || $2 < least { least = $2 } END { if (NR == nr) print least }'
}

# passed STAGE...: how many of these have, and nothing in them has failed.
passed() {
	local name good=0 passed failed skipped

	for name; do
		read -r passed failed skipped _ 2>/dev/null <"$build/results/$name" || continue
		[ "$passed" = 0 ] || [ "$((failed + skipped))" != 0 ] || good=$((good + 1))
	done
	echo "$good"
}

pairs='pairs pairs-debug kcsan-pairs'
echo TAP version 13
target 'lines of the module that were reached in the kernel, in percent' \
	"$(reached module percent lines | least 1)" 95
target 'branches' "$(reached module percent branches | least 1)" 90
target 'calls of which each place that can fail did fail, once' \
	"$(reached stress places | awk '$2 && !seen[$1]++' | wc -l)" 28
target 'loops of two calls that race' "$(reached "$pairs" loops | sum)" "$(of 12000000)"
target "pairs of calls with $(of 1000000) loops, or their share of these" "$(complete)" 16
target 'wheels opened, armed and closed' "$(rounds open_arm_close)" "$(of 1000000)"
target 'of these under KASAN, on two processors' "$(rounds open_arm_close stress)" "$(of 3000)"
target 'and on one' "$(rounds open_arm_close lives-uml)" "$(of 50000)"
target 'programs killed with wheels in use' "$(rounds killed)" 1000
target 'mappings that outlived their descriptor' "$(rounds mapping_stays)" "$(of 100000)"
target 'of these under KASAN' "$(rounds mapping_stays 'lives-uml stress')" \
	"$(of 10000)"
target 'events through epolls of epolls' "$(reached 'lives lives-uml stress' events nested_epoll | sum)" "$(of 100000)"
target 'wheels closed below epolls of epolls' "$(rounds nested_epoll)" "$(of 100000)"
target 'wheels closed in each way of epoll' "$(rounds ways_of_epoll)" "$(of 100000)"
target 'and of io_uring' "$(rounds io_uring)" "$(of 100000)"
target 'loads and unloads of the module in use, on two processors' \
	"$(rounds loads_and_unloads lives)" "$(of 1000)"
target 'and under KASAN' "$(rounds loads_and_unloads 'lives-uml stress')" \
	"$(of 2000)"
target 'times that an old id was tried' \
	"$(reached 'lives lives-uml' tries | sum)" \
	"$(of 30000000)"
target 'calls of the fuzzer, guided, and exchanges' \
	"$(reached 'calls stress fuzz-uml' calls | sum)" \
	"$(of 20000000)"
target 'flips of arguments under calls, where fewest' \
	"$(reached 'races-6.12 rt-races debug-races rt-debug-races' flips | least 4)" 10000000
target 'models of the core' "$(reached fuzz operations | wc -l)" 4
target 'operations of the one with the fewest' "$(reached fuzz operations | least 4)" "$(of 100000000)"
target 'armings of the races of the core, each' \
	"$(reached core-races armings | least 2)" 10000000
target 'events that were read and compared, none of them early' "$(reached 'soak storms' events | sum)" 10000000
target 'seconds of the soak, whose sums were right in each' \
	"$(reached soak seconds | sum)" 600
target 'wake-ups of two processes, each by a timer of the other' "$(rounds ping_pong)" 10000
target 'machines that slept and woke, and whose processors came and went' "$(passed power)" 1
# What is in planted ones is meant to be complained of.
machines=0
good=0
for log in "$logs"/*.output.log; do
	if [ -e "$log" ] && [[ ${log##*/} != gate-* ]]; then
		machines=$((machines + 1))
		# The machine's own comes first, and counts for as long as nobody objects.
		[ "$(tr -d '\r' <"$log" | sed -n 's/.*twheel-vm: verdict: //p' |
			tail -n 1)" != PASS ] || good=$((good + 1))
	fi
done
target 'machines whose kernels, watching themselves or not, had nothing to say' \
	"$good" "$((machines ? machines : 1))"
target 'kernels' "$(passed vm-6.12 vm-6.1 rt rt-6.1)" 4
target 'machines of 64 bits, of 32, and of the other order of bytes' \
	"$(passed vm-6.12 vm-6.1 debug-32 s390x)" 4
[ "$share" = 100 ] ||
	echo "# targets:cut: $share % of 12000000 and 1000000 loops, 1000000 wheels, 100000 mappings," \
		"epolls and io_urings, 3000 loads, 30000000 old ids, 20000000 calls, 100000000 operations"
echo "1..$number"
exit $failed
