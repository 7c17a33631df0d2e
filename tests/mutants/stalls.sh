# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# What goes on for too long.

boot stall-hung --exact --limit 400 -- insmod /planted.ko bug=hung
ok "a task that hangs" says 'INFO: task insmod'
ok "that ends it" says 'the machine died without a verdict'
# Of two who watch for the same, one is told not to.
boot stall-soft --append rcupdate.rcu_cpu_stall_suppress=1 -- insmod /planted.ko bug=spin
ok "a processor that is kept" says 'BUG: soft lockup - CPU#'
ok "that ends it" says 'the machine died without a verdict'
boot stall-rcu --append nosoftlockup -- insmod /planted.ko bug=spin
ok "one that RCU waits for" says 'rcu: INFO: rcu'
ok "that ends it" says 'the machine died without a verdict'
boot stall-busy --exact -- insmod /planted.ko bug=busy
ok "an interrupt that is due again at its end" \
	says 'fail: kernel log: hrtimer: interrupt took'
ok "a machine with it fails" refused
