# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# Bugs in the module itself, for the tests of the device.

# In a machine just begun it may be pages of slabs that cannot be had, and none is lost.
four='fail_nth -v register; fail_nth -v register; fail_nth -v register; fail_nth -v register'
mutant uml leak stress "$four -t nothing_leaked"
ok "what is not freed where memory ends" says 'FAIL  afterwards.nothing_leaked'
mutant uml pages stress 'fail_nth -t no_pages_leaked'
ok "nor a page" says 'not ok 1 afterwards.no_pages_leaked'
mutant 6.12 missed stress 'lives -t ping_pong --seconds 5'
ok "a poll that asks before it has queued itself" says 'not ok 1 lives.ping_pong'
mutant uml unchecked stress 'fail_nth -v open'
ok "memory that nobody asks for whether it is there" \
	says 'the machine died without a verdict'
mutant uml forget stress 'fail_nth -v register'
ok "a timer that stays when its id cannot be told" \
	says 'not ok 1 fail_nth.register.each_place'
mutant uml half stress 'fail_nth -f load'
ok "what is left of a module that was not loaded" says 'not ok 1 load.each_place'
mutant uml uncharged user 'table_test -t charged_for_all'
ok "timers that no cgroup is charged for" says 'TIMERS * OF_TIMER'
ok "fails its test" refused
mutant uml unpaid user 'table_test -t charged_for_all'
ok "nor for wheels" says 'WHEELS * OF_WHEEL'
ok "fails its test" refused
mutant 6.12 early user 'read_test -t many'
ok "an event from before its deadline" says '# event 0 of '
ok "fails its test" refused
mutant 6.12 early stress 'fuzz -t conservation --seconds 60'
ok "and one of the fuzzer" says '# event '
ok "fails its test" refused
mutant 6.12 keeps user 'read_test -t faulting_reader_hands_on'
ok "a reader that keeps others waiting as its memory comes" \
	says 'not ok 1 reading.faulting_reader_hands_on'
mutant 6.12 stale stress 'pairs -t reuse_stale --seconds 5'
ok "an id that is given out again" says 'REGISTER, or the old id'
ok "fails its test" refused
# Which heeds it now and then: of two kills one may come just before that.
mutant uml deaf user \
	'for i in 1 2 3 4 5 6 7 8 9 10 11 12; do killed_test -v in_kick || exit; done'
ok "a call that heeds a kill too late" says 'not ok 1 killed.in_kick.midway'
mutant uml ahead stress 'soak --seconds 5'
ok "a wheel that is ahead of its clock" says ' s: early'
ok "fails its test" refused
mutant uml freed stress 'lives -t open_arm_close --count 100'
ok "a wheel that is freed while its hrtimer is armed" refused
ok "in a machine that has come to the test of it" says 'twheel-vm: run: lives'
# One that fires on the way may end the machine before a word of it is out; not one in an hour.
mutant uml freed user 'timer_test -t get'
ok "what is said of that" says 'ODEBUG: free active'
mutant 6.12 torn stress 'pairs -t stats_any --seconds 20'
ok "numbers that others change while they are read" says 'not ok 1 pairs.stats_any'
mutant 6.12 claims stress 'pairs -t read_cancel --seconds 20'
ok "an event that is canceled while it is read" says 'both, or none'
ok "fails its test" refused
mutant uml count stress 'fuzz --seconds 60 --guided 1'
ok "an expiration that is not counted" says '# not conserved: '
mutant uml lost stress 'fuzz --seconds 60 --guided 1'
ok "a timer that its bucket has forgotten" says ' timers that are armed do not come'
mutant uml maze stress 'fuzz --seconds 200 --guided 1'
ok "what only two numbers of 32 and 64 bits lead to" says 'both numbers'
mutant 6.12 store user 'table_race_test -t claim -t disarm_at_expiry'
ok "an expiry that is claimed by a store" says 'FAIL  table_race.claim'
ok "fails its test" refused
# What these need is said in the scripts that run them.
alike=(--alike --append 'nowatchdog tsc=reliable')
mutant 6.12 slow exact 'exact -t every_distance' "${alike[@]}"
ok "a wheel that comes a millisecond later" says 'FAIL  exact.tick_524us.every_distance'
ok "fails its test" refused
mutant 6.12 greedy exact 'exact -t beside_storms' "${alike[@]}"
ok "one that does all at once, which others wait for" says 'FAIL  exact.tick_524us.beside_storms'
ok "fails its test" refused
storm='storms -t one_instant --seconds 1 --exact 1'
mutant 6.12 greedy stress "$storm" --alike --settle 5
ok "and the storm of one instant" says '!= punctual(storm, &usual)'
ok "fails its test" refused
mutant 6.12 awake power 'power -t sleeps' --qemu '-machine pc,hpet=off' \
	--append 'no_console_suspend'
ok "a clock that stands still while the machine sleeps" says 'FAIL  power.boottime.sleeps'
ok "fails its test" refused
mutant 6.12 second user 'table_race_test -t second_read -t disarm_at_expiry'
ok "a word that is not read again" says 'FAIL  table_race.second_read'
ok "fails its test" refused
mutant kcsan plain user 'table_race_test -t flippers_and_neighbors'
ok "a word of the table that is read plainly" \
	says 'fail: kernel log: BUG: KCSAN: data-race in reconcile'
ok "fails the machine" refused
mutant kmsan stray user 'uapi_test -t no_stray_bytes' --exact --qemu "-smp 1"
ok "a member for user space that has no value" says 'BUG: KMSAN: kernel-infoleak'
ok "fails the machine" refused
mutant 6.12 stray user 'uapi_test -t no_stray_bytes' --variant canary-bug-stray --exact
ok "where each variable has a pattern" says 'has_canary(&(i), sizeof(i))'
ok "fails its test" says 'not ok 1 global.no_stray_bytes'
