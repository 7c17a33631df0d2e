# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# What a kernel with PREEMPT_RT and lockdep finds.

plant rt-debug rcu twice preempt context active work list
found "what RCU may have freed" 'kernel log: WARNING: suspicious RCU usage'
found "what RCU is told to free twice" 'kernel log: ODEBUG: activate active'
found "a processor that it may leave" 'kernel log: BUG: using smp_processor_id() in preemptible'
found "a lock that sleeps below one that spins" 'kernel log: [ BUG: Invalid wait context ]'
found "sleep with a lock held" 'kernel log: BUG: sleeping function called from invalid context'
found "an armed timer freed" 'kernel log: ODEBUG: free active'
ok "rt-debug: queued work freed" says 'hint: planted_nothing'
ok "rt-debug: an entry that is on no list" says '__list_del_entry_valid_or_report'
plant rt-debug hardirq
found "a lock that sleeps, in an interrupt" 'kernel log: [ BUG: Invalid wait context ]'
plant rt-debug irq
found "a lock shared with an interrupt" 'kernel log: WARNING: inconsistent lock state'
plant rt-debug order
found "locks in two orders" 'kernel log: WARNING: possible circular locking dependency detected'
# And in the module, beside a race that is there for it.
mutant rt-debug store user 'table_race_test -t claim -t disarm_at_expiry'
ok "rt-debug: an expiry that is claimed by a store" says 'FAIL  table_race.claim'
ok "rt-debug: fails its test" refused
