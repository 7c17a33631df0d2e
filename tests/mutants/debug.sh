# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# What only the kernel "debug" can find: KASAN, lockdep, kmemleak, debug objects.

plant debug rcu twice preempt refcount fortify context atomic active work shift uaf slab \
	vmalloc leak
found "lockdep is off after its first report" 'lockdep has given up'
ok "debug: its name" says 'hint: planted_timer'
plant debug bounds list
# Lockdep tells of one only.
plant debug order
plant debug irq
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
