# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# The same in user-mode Linux.

plant uml rcu twice refcount fortify context atomic active work shift uaf slab vmalloc leak
found "lockdep is off after its first report" 'lockdep has given up'
plant uml order
plant uml irq
plant uml bounds list
boot uml-copy --kernel uml -- insmod /planted.ko bug=copy
ok "uml: a machine with copy fails" refused
ok "uml: more than the object to a program" says 'usercopy_abort'
boot uml-put --kernel uml -- insmod /planted.ko bug=put
ok "uml: a machine with put fails" refused
ok "uml: a page that is given back twice" says 'put_page_testzero'
boot uml-stop --kernel uml -- insmod /planted.ko bug=uaf
ok "uml: the first report is the last" says 'the machine died without a verdict'
