# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# The same in user-mode Linux.

plant uml rcu twice refcount fortify context atomic active work shift uaf slab vmalloc leak
found "what RCU may have freed" 'kernel log: WARNING: suspicious RCU usage'
found "what RCU is told to free twice" 'kernel log: ODEBUG: activate active'
ok "uml: a reference to what nobody holds" says 'at lib/refcount.c:'
ok "uml: more than a member has room for" says 'planted_fortify'
found "a lock that may sleep below one that spins" 'kernel log: [ BUG: Invalid wait context ]'
found "lockdep is off after its first report" 'lockdep has given up'
found "sleep with a lock held" 'kernel log: BUG: sleeping function called from invalid context'
found "an armed timer freed" 'kernel log: ODEBUG: free active'
ok "uml: queued work freed" says 'hint: planted_nothing'
found "a shift too far" 'kernel log: UBSAN: shift-out-of-bounds'
found "use after free" 'kernel log: BUG: KASAN: slab-use-after-free in planted_uaf'
found "past the end of kmalloc()" 'kernel log: BUG: KASAN: slab-out-of-bounds in look_beyond'
found "past the end of vmalloc()" 'kernel log: BUG: KASAN: vmalloc-out-of-bounds in look_beyond'
found "a leak" 'memory: unreferenced object'
plant uml order
found "locks in two orders" 'kernel log: WARNING: possible circular locking dependency detected'
plant uml irq
found "a lock shared with an interrupt" 'kernel log: WARNING: inconsistent lock state'
plant uml bounds list
found "an index out of bounds" 'kernel log: UBSAN: array-index-out-of-bounds'
ok "uml: an entry that is on no list" says '__list_del_entry_valid_or_report'
boot uml-copy --kernel uml -- insmod /planted.ko bug=copy
ok "uml: a machine with copy fails" refused
ok "uml: more than the object to a program" says 'usercopy_abort'
boot uml-put --kernel uml -- insmod /planted.ko bug=put
ok "uml: a machine with put fails" refused
ok "uml: a page that is given back twice" says 'put_page_testzero'
boot uml-stop --kernel uml -- insmod /planted.ko bug=uaf
ok "uml: the first report is the last" says 'the machine died without a verdict'
