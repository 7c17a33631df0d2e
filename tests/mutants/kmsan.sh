# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# Memory that was not written.

plant kmsan padding
mutant kmsan stray user 'uapi_test -t no_stray_bytes' --exact --qemu "-smp 1"
ok "kmsan: a member of the module's that has no value" says 'BUG: KMSAN: kernel-infoleak'
ok "kmsan: fails the run" refused
