# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# What vm/run.sh, and vm/init.c with vm/judge.c in the machine, report about a bad machine.

# The scan for leaks takes ten seconds, and most of these tests do not need it.
in_uml=(--kernel uml --append twheel.leaks=0)

boot good "${in_uml[@]}" --log-ok 'a word' -- sh -c 'echo "twheel: a word" >/dev/kmsg'
ok "judge: a good machine passes" test "$status" -eq 0

boot bad "${in_uml[@]}" --limit 2 --run false --run 'kill -SEGV $$' --run 'sleep 60' \
	--run 'echo "twheel: a word" >/dev/kmsg' --run 'echo "WARNING: planted" >/dev/kmsg'
ok "judge: a machine with any failure fails" refused
ok "judge: a program that fails is reported" says 'fail: status 1: false'
ok "judge: a program that crashes is reported" says 'fail: signal 11: kill'
ok "judge: a program that hangs is reported" says 'fail: more than 8 s: sleep 60'
ok "judge: a line of the module is reported" says 'fail: kernel log: twheel: a word'
ok "judge: a log line that vm/forbidden lists is reported" says 'fail: kernel log: WARNING: planted'

mutant uml warn user 'timer_test -t get'
ok "judge: a kernel warning ends the machine" \
	says 'the machine died without a verdict'
ok "judge: a kernel warning fails the machine" refused
mutant uml leak user 'timer_test -t get'
ok "judge: a memory leak of the module is reported" says 'fail: memory: unreferenced object'
ok "judge: a memory leak fails the machine" refused

boot load "${in_uml[@]}" --params no_such_thing=1,max_timers=x -- true
ok "judge: a module that cannot be loaded is reported" says 'fail: cannot load the module'

# The exit status of make vm is that of its script.
make_vm 'test -c /dev/twheel && exit 9'
ok "make vm SCRIPT=: exits with the status of the script" says 'Error 9'
ok "make vm: refuses an unknown argument" \
	make_says 'make vm takes no further word: "Makefile"' Makefile
ok "make vm: refuses a script that does not exist" make_says 'no file "absent.sh"' SCRIPT=absent.sh
