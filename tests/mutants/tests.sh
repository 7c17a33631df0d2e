# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# Bugs in the module itself, for the tests of the device.

# Right after boot, slab pages may be what cannot be allocated, and then none is lost.
four='fail_nth -v register; fail_nth -v register; fail_nth -v register; fail_nth -v register'
mutant uml leak stress "$four -t nothing_leaked"
ok "leak: memory lost when allocations fail" says 'FAIL  afterwards.nothing_leaked'
mutant uml pages stress 'fail_nth -t no_pages_leaked'
ok "pages: a page lost when allocations fail" says 'not ok 1 afterwards.no_pages_leaked'
mutant 6.12 missed stress 'lives -t ping_pong --seconds 5'
ok "missed: a poll that checks before it queues itself" says 'not ok 1 lives.ping_pong'
mutant uml unchecked stress 'fail_nth -v open'
ok "unchecked: an allocation that is not checked" \
	says 'the machine died without a verdict'
mutant uml forget stress 'fail_nth -v register'
ok "forget: a timer that stays when its id cannot be returned" \
	says 'not ok 1 fail_nth.register.each_place'
mutant uml half stress 'fail_nth -f load'
ok "half: leftovers of a module that failed to load" says 'not ok 1 load.each_place'
mutant uml uncharged user 'table_test -t charged_for_all'
ok "uncharged: timers that no cgroup is charged for" says 'TIMERS * OF_TIMER'
ok "uncharged: the machine fails" refused
mutant uml unpaid user 'table_test -t charged_for_all'
ok "unpaid: wheels that no cgroup is charged for" says 'WHEELS * OF_WHEEL'
ok "unpaid: the machine fails" refused
mutant 6.12 early user 'read_test -t many'
ok "early: an event before its deadline fails a device test" says '# event 0 of '
ok "early: the device test's machine fails" refused
mutant 6.12 early stress 'fuzz -t conservation --seconds 60'
ok "early: an event before its deadline fails the fuzzer" says '# event '
ok "early: the fuzzer's machine fails" refused
mutant 6.12 keeps user 'read_test -t faulting_reader_hands_on'
ok "keeps: a reader that keeps others waiting while it faults in memory" \
	says 'not ok 1 reading.faulting_reader_hands_on'
mutant 6.12 stale stress 'pairs -t reuse_stale --seconds 5'
ok "stale: an id that is assigned again" says 'REGISTER, or the old id'
ok "stale: the machine fails" refused
# The bug notices a signal now and then: one of two kills may come just before that.
mutant uml deaf user \
	'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do killed_test -v in_kick || exit; done'
ok "deaf: a call that notices a kill too late" says 'not ok 1 killed.in_kick.midway'
mutant uml ahead stress 'soak --seconds 5'
ok "ahead: a wheel that is ahead of its clock" says ' s: early'
ok "ahead: the machine fails" refused
mutant uml freed stress 'lives -t open_arm_close --count 100'
ok "freed: a wheel that is freed while its hrtimer is armed" refused
ok "freed: the machine fails during the test" says 'twheel-vm: run: lives'
# An hrtimer that fires on the way may end the machine before it logs anything, but one that is
# an hour away does not.
mutant uml freed user 'timer_test -t get'
ok "freed: debug objects report the armed hrtimer" says 'ODEBUG: free active'
mutant 6.12 torn stress 'pairs -t stats_any --seconds 20'
ok "torn: counters that change while they are read" says 'not ok 1 pairs.stats_any'
mutant 6.12 claims stress 'pairs -t read_cancel --seconds 20'
ok "claims: an event that is canceled while it is read" says 'both, or none'
ok "claims: the machine fails" refused
mutant uml count stress 'fuzz --seconds 60 --guided 1'
ok "count: an expiration that is not counted" says '# not conserved: '
mutant uml lost stress 'fuzz --seconds 60 --guided 1'
ok "lost: a timer missing from its bucket" says ' armed timers do not expire'
mutant uml maze stress 'fuzz --seconds 200 --guided 1'
ok "maze: code behind comparisons with 32-bit and 64-bit constants" says 'both numbers'
mutant 6.12 store stress 'pairs -t exchange_expiry --seconds 20'
ok "store: an expiry that claims with a plain store" says 'not ok 1 pairs.exchange_expiry'
ok "store: the machine fails" refused
# The scripts that usually run these tests explain the options.
alike=(--alike --append 'nowatchdog tsc=reliable')
mutant 6.12 slow exact 'exact -t every_distance' "${alike[@]}"
ok "slow: a wheel that is a millisecond late" says 'FAIL  exact.tick_524us.every_distance'
ok "slow: the machine fails" refused
mutant 6.12 greedy exact 'exact -t beside_storms' "${alike[@]}"
ok "greedy: a wheel without a budget, which delays others" \
	says 'FAIL  exact.tick_524us.beside_storms'
ok "greedy: the machine fails" refused
storm='storms -t one_instant --seconds 1 --exact 1'
mutant 6.12 greedy stress "$storm" --alike --settle 5
ok "greedy: a wheel without a budget fails the storm of one instant" \
	says '!= punctual(storm, &usual)'
ok "greedy: the storm's machine fails" refused
mutant 6.12 awake power 'power -t sleeps' --qemu '-machine pc,hpet=off' \
	--append 'no_console_suspend'
ok "awake: a clock that stands still while the machine sleeps" says 'FAIL  power.boottime.sleeps'
ok "awake: the machine fails" refused
mutant 6.12 second user 'table_race_test -t second_read'
ok "second: a missing second read of the word" says 'FAIL  table_race.second_read'
ok "second: the machine fails" refused
mutant kcsan plain user 'table_race_test -t flippers_and_neighbors'
ok "plain: KCSAN reports a plain read of the word" \
	says 'fail: kernel log: BUG: KCSAN: data-race in reconcile'
ok "plain: the machine fails" refused
mutant kmsan stray user 'uapi_test -t no_stray_bytes' --exact --qemu "-smp 1"
ok "stray: KMSAN reports an uninitialized member for user space" says 'BUG: KMSAN: kernel-infoleak'
ok "stray: KMSAN's machine fails" refused
mutant 6.12 stray user 'uapi_test -t no_stray_bytes' --variant canary-bug-stray --exact
ok "stray: the canary build finds an uninitialized member" says 'has_canary(&(i), sizeof(i))'
ok "stray: the canary build's test fails" says 'not ok 1 global.no_stray_bytes'
