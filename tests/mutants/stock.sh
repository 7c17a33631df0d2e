# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# What takes Debian's kernel, or QEMU.

# The kernel's own count of what this is about says that it is nothing.
took='echo "hrtimer: interrupt took 54392 ns" >/dev/kmsg'
boot chance --exact --settle 5 --run "$took"
ok "an interrupt that takes long, once, passes" test "$status" -eq 0
boot no-chance --exact --settle 5 --append twheel.hangs=-1 --run "$took"
ok "more of them than may be by chance do not" refused

boot stale --exact --append page_poison=1 --run 'insmod /planted.ko bug=stale; rmmod planted'
ok "a page written to that was given back" says 'fail: kernel log: pagealloc: memory corruption'

# All that a machine survives, in one.
mapfile -t words <"$top/vm/forbidden"
planted=()
for word in "${words[@]}"; do
	planted+=(--run "echo '$word planted' >/dev/kmsg")
done
boot bad --limit 2 --run false --run 'kill -SEGV $$' --run 'sleep 60' \
	--run 'echo "twheel: a word" >/dev/kmsg' \
	--run 'insmod /planted.ko bug=hold' "${planted[@]}"
ok "a machine with any failure fails" refused
ok "a program that fails" says 'fail: status 1: false'
ok "a program that crashes" says 'fail: signal 11: kill'
ok "a program that hangs" says 'fail: more than 2 s: sleep 60'
ok "a module that cannot be unloaded" says 'fail: cannot unload the module'
ok "a module that talks" says 'fail: kernel log: twheel: a word'
for word in "${words[@]}"; do
	ok "a log with '$word'" says "fail: kernel log: $word planted"
done

# A shell, with a script on stdin.
boot shell --shell <<<'exit 7'
ok "a script in a shell that fails" test "$status" -eq 7
ok "and its verdict" refused
boot shell --shell <<<'rmmod twheel'
ok "one that succeeds, and unloads the module" test "$status" -eq 0
boot shell --shell <<<'kill -SEGV $$'
ok "one that crashes" test "$status" -eq 139
make_vm 'test -c /dev/twheel && exit 9'
ok "make vm SCRIPT=: its status" says 'Error 9'
ok "fails make" test "$status" -eq 2
make_vm 'test -c /dev/twheel'
ok "make vm SCRIPT=: one that succeeds" test "$status" -eq 0
# And with a person in front of it.
typed false 'exit 3'
ok "to leave the shell after a command that failed is no failure" test "$status" -eq 0
ok "and its verdict" says 'twheel-vm: verdict: PASS'

boot coarse --append highres=off -- true
ok "a machine whose timers go by a tick" says 'fail: no timers of high resolution'

# What a machine does not survive.
for bug in warn oops; do
	boot $bug -- insmod /planted.ko bug=$bug
	ok "a kernel with a bug: $bug" refused
	ok "no verdict: $bug" says 'the machine died without a verdict'
done
# A busy host may take longer to come to the command.
for seconds in 12 24 48; do
	boot hang --raw --timeout $seconds -- insmod /planted.ko bug=hang
	! says 'twheel-vm: run: ' || break
done
ok "a command that hangs the kernel is run" says 'twheel-vm: run: '
ok "a kernel that hangs" refused
ok "no verdict in time" says "no verdict within $seconds s"
