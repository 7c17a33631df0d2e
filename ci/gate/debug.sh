# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# What only the kernel "debug" can find: KASAN, lockdep, kmemleak, debug objects.

plant debug rcu twice preempt refcount fortify context atomic active work shift uaf slab \
	vmalloc leak
found "what RCU may have freed" 'kernel log: WARNING: suspicious RCU usage'
found "what RCU is told to free twice" 'kernel log: ODEBUG: activate active'
found "a processor that it may leave" 'kernel log: BUG: using smp_processor_id() in preemptible'
ok "debug: a reference to what nobody holds" says 'at lib/refcount.c:'
ok "debug: more than a member has room for" says 'planted_fortify'
found "a lock that may sleep below one that spins" 'kernel log: [ BUG: Invalid wait context ]'
found "lockdep is off after its first report" 'lockdep has given up'
found "sleep with a lock held" 'kernel log: BUG: sleeping function called from invalid context'
found "an armed timer freed" 'kernel log: ODEBUG: free active'
ok "debug: its name" says 'hint: planted_timer'
ok "debug: queued work freed" says 'hint: planted_nothing'
found "a shift too far" 'kernel log: UBSAN: shift-out-of-bounds'
found "use after free" 'kernel log: BUG: KASAN: slab-use-after-free in planted_uaf'
found "past the end of kmalloc()" 'kernel log: BUG: KASAN: slab-out-of-bounds in look_beyond'
found "past the end of vmalloc()" 'kernel log: BUG: KASAN: vmalloc-out-of-bounds in look_beyond'
found "a leak" 'memory: unreferenced object'
plant debug bounds list
found "an index out of bounds" 'kernel log: UBSAN: array-index-out-of-bounds'
ok "debug: an entry that is on no list" says '__list_del_entry_valid_or_report'
# Lockdep tells of one only.
plant debug order
found "locks in two orders" 'kernel log: WARNING: possible circular locking dependency detected'
plant debug irq
found "a lock shared with an interrupt" 'kernel log: WARNING: inconsistent lock state'
boot debug-copy --kernel debug --memory 768M --exact -- insmod /planted.ko bug=copy
ok "debug: a machine with copy fails" refused
ok "debug: more than the object to a program" says 'RIP: 0010:usercopy_abort'
boot debug-put --kernel debug --memory 768M --exact -- insmod /planted.ko bug=put
ok "debug: a machine with put fails" refused
ok "debug: a page that is given back twice" says 'linux/mm.h:'
boot debug-queue --kernel debug --memory 768M --exact --qemu "-smp 1" \
	--append 'nowatchdog rcupdate.rcu_cpu_stall_suppress=1' -- insmod /planted.ko bug=spin
found "work that waits for a processor" 'kernel log: BUG: workqueue lockup'
boot debug-stop --kernel debug --memory 768M --exact -- insmod /planted.ko bug=uaf
ok "debug: the first report is the last" says 'the machine died without a verdict'
