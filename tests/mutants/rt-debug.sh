# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# What a kernel with PREEMPT_RT and lockdep finds.

plant rt-debug rcu twice preempt context active work list
found "sleep with a lock held" 'kernel log: BUG: sleeping function called from invalid context'
plant rt-debug hardirq
plant rt-debug irq
plant rt-debug order
# And in the module, beside a race that is there for it.
mutant rt-debug store user 'table_race_test -t claim -t disarm_at_expiry'
ok "rt-debug: an expiry that is claimed by a store" says 'FAIL  table_race.claim'
ok "rt-debug: fails its test" refused
