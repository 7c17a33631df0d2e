# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# Data races.

plant kcsan race foreign
# Where two take turns anyway, neither is there while the other's write is delayed.
boot kcsan-turns --kernel kcsan --append panic_on_warn=0 -- insmod /planted.ko bug=turns
found "what only the order of memory keeps apart" 'kernel log: BUG: KCSAN: data-race in take_turns'
# With one processor, nobody else is there while a write is delayed.
boot kcsan-tick --kernel kcsan --append panic_on_warn=0 --qemu "-smp 1" \
	-- insmod /planted.ko bug=tick
found "an interrupt that counts as well" \
	'kernel log: BUG: KCSAN: data-race in planted_counts_too'
# And in the module, beside the test that is there for it.
mutant kcsan plain user 'table_race_test -t flippers_and_neighbours'
ok "kcsan: a word of the table that is read plainly" \
	says 'fail: kernel log: BUG: KCSAN: data-race in reconcile'
ok "kcsan: fails the run" refused
