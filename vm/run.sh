#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# vm/run.sh [OPTION...] -- COMMAND...: boots a virtual machine with /dev/twheel and
# runs a command in it. It shows the output of the command, and exits with status 0
# only if vm/init.c, which explains when it does so, reports the verdict PASS.
#
#   --kernel NAME     the kernel: 6.12 (default), 6.1, or another one of vm/kernel.sh
#   --variant NAME    the variant of the module: see vm/module.sh
#   --bin PATH[:DIR]  copies a program, or all programs of a directory, into DIR of
#                     the machine (default: /bin)
#   --run 'COMMAND'   runs a shell command instead of the one after --; may be repeated
#   --limit SECONDS   the time for each command (default: 120)
#   --timeout SECONDS the time for the whole run (default: 300)
#   --params A=1,B=2  parameters of the module
#   --log-ok TEXT     lines of the module with this text do not fail the machine
#   --oom-ok PROGRAM  this program may make the kernel run out of memory: the stack trace
#                     at the beginning of the report does not fail the machine
#   --append TEXT     text to append to the kernel's command line
#   --memory SIZE     the memory of the machine (default: 1G, more for debug kernels)
#   --slow N          multiplies --limit and --timeout by N, and tells the tests by
#                     TWHEEL_TEST_SLOW (default: 1, 10 for debug kernels, 4 for
#                     user-mode Linux)
#   --exact           uses the number of executed instructions as the clock, so that the
#                     load of the host has no effect, and skips idle time
#   --alike           the same with one processor. Two runs yield nearly the same times,
#                     unless the host is busy
#   --turns US        the processors of an exact machine take turns whenever a clock
#                     expires; this makes them do so at least this often (default: 1000 for
#                     debug kernels, where a processor could otherwise wait for minutes)
#   --settle SECONDS  how long an exact machine waits first, while its kernel adjusts the
#                     clock (default: 60)
#   --qemu 'OPTIONS'  further options for QEMU
#   --gcov DIR        uses the variant gcov of the module, and writes its counts into DIR
#   --name NAME       the name of the logs: the output goes to build/logs/NAME.output.log,
#                     and the kernel's messages to build/logs/NAME.console.log
#   --raw             shows the lines of init as well
#   --shell           runs a shell without time limits instead of a command. If stdin is not
#                     a terminal, it runs the script on stdin, and exits with its status
#
# QEMU emulates the processor, which works everywhere; VM_ACCEL=kvm uses the
# host's. User-mode Linux (--kernel uml) is a program that runs in the host's time,
# so it ignores --exact and --alike, and it does not support --shell.
#
# Debug kernels are so slow on an emulated processor that their message about an
# interrupt that took long does not fail the machine.

. "$(dirname "$0")/lib.sh"

if [ "${VM_ACCEL-}" = kvm ] && ! { [ -w /dev/kvm ] && grep -qwE 'vmx|svm' /proc/cpuinfo; }; then
	die "VM_ACCEL=kvm needs a writable /dev/kvm and a processor with vmx or svm: unset VM_ACCEL to emulate one"
fi

kernel=6.12
variant=
limit=120
timeout=300
params=
append=
memory=
slow=
exact=
alike=
settle=60
turns=
more=
gcov=
name=
raw=
shell=
bins=()
commands=()
log_ok=()
oom_ok=()

while [ $# -gt 0 ]; do
	case $1 in
	--kernel | --variant | --limit | --timeout | --params | --append | --memory | --slow | \
		--settle | --turns | --gcov | --name)
		printf -v "${1#--}" %s "$2"
		shift
		;;
	--bin) bins+=("$2") && shift ;;
	--run) commands+=("$2") && shift ;;
	--log-ok) log_ok+=("$2") && shift ;;
	--oom-ok) oom_ok+=("$2") && shift ;;
	--qemu) more=$2 && shift ;;
	--exact) exact=1 ;;
	--alike) exact=1 alike=1 ;;
	--raw) raw=1 ;;
	--shell) shell=1 ;;
	--) break ;;
	*) die "unknown option: $1" ;;
	esac
	shift
done
if [ $# -gt 1 ]; then
	shift
	commands+=("$(printf '%q ' "$@")")
fi
[ -n "$shell" ] || [ ${#commands[@]} -gt 0 ] || die "there is no command to run: give one after --, or use --run or --shell"

name=${name:-$kernel.$$}
console=$logs/$name.console.log
output=$logs/$name.output.log
dir=$(mktemp -d)
machine=
trap '[ -z "$machine" ] || kill "$machine" 2>/dev/null || true; rm -rf "$dir"' EXIT

[ -z "$gcov" ] || variant=gcov
modules=$("$top/vm/module.sh" "$kernel" ${variant:+"$variant"})
kdir=$("$top/vm/kernel.sh" "$kernel")
image=$kdir/bzImage

# has NAME...: true if the kernel was built with one of these options.
has() {
	printf 'CONFIG_%s=y\n' "$@" | grep -qxF -f - "$kdir/headers/.config"
}

host_khz() {
	gcc -O2 -Wall -Wextra -Werror -o "$dir/tsc" "$top/vm/tsc.c"
	"$dir/tsc"
}

# User-mode Linux is slow because it shares a processor with other programs.
if has UML; then
	slow=${slow:-4}
fi
# An instruction counts as 2^shift ns: fewer with KMSAN, whose instrumentation would look like a
# stall.
shift=3
if has KMSAN; then
	memory=${memory:-4G}
	shift=1
fi
if has KASAN KCSAN KMSAN PROVE_LOCKING; then
	memory=${memory:-2G}
	slow=${slow:-10}
	turns=${turns:-1000}
fi
if has UML; then
	[ -z "$shell" ] || die "--shell does not work in user-mode Linux: choose another --kernel"
	exact=
	alike=
fi
limit=$((limit * ${slow:-1}))
timeout=$((timeout * ${slow:-1}))

# The machine's files.
root=$dir/root
mkdir -p "$root"/{bin,dev,etc,lib,proc,root,sbin,sys,tmp,vm}
cross=$(sed -n 's/^CROSS_COMPILE=//p' "$kdir/make" 2>/dev/null || true)
for file in init judge; do
	"${cross}gcc" -O2 -Wall -Wextra -Werror -std=gnu11 -c -o "$dir/$file.o" "$top/vm/$file.c"
done
"${cross}gcc" -static -s -o "$root/init" "$dir"/{init,judge}.o
cp "$modules/twheel.ko" "$modules/taken/taken.ko" "$root"
forbidden=$root/vm/forbidden
grep -v ${slow:+-e 'interrupt took'} -e '^$' "$top/vm/forbidden" >"$forbidden"
printf '%s\n' "${log_ok[@]}" >"$root/vm/log-ok"
printf '%s\n' "${oom_ok[@]}" >"$root/vm/oom-ok"
printf '%s\n' "${commands[@]}" >"$root/vm/commands"
printf '%s\n' 'root::0:0:root:/:/bin/sh' 'nobody::65534:65534:nobody:/:/bin/sh' \
	>"$root/etc/passwd"
printf '%s\n' 'root:x:0:' 'nogroup:x:65534:' >"$root/etc/group"
busybox=$kdir/busybox
[ -e "$busybox" ] || busybox=$(command -v busybox)
cp "$busybox" "$root/bin/busybox"
busybox --list | while read -r applet; do
	[ "$applet" = busybox ] || ln -s /bin/busybox "$root/bin/$applet"
done
for bin in "${bins[@]}"; do
	from=${bin%%:*}
	to=$root/bin
	[ "$from" = "$bin" ] || to=$root/${bin#*:}
	mkdir -p "$to"
	[ -e "$from" ] || die "no $from"
	find "$from" -maxdepth 1 -type f \( -perm -u+x -o -name '*.sh' \) \
		-exec cp --remove-destination {} "$to" \; -print
done >"$dir/programs"
# The machine has no shared libraries, unless --bin has copied some. twheeld, which may be in
# build/user, is not meant for make vm.
while read -r program; do
	if [ -e "$root/lib64" ] || [ "${program##*/}" = twheeld ]; then
		continue
	fi
	if readelf -l "$program" 2>/dev/null | grep -q INTERP; then
		echo "run.sh: $program needs shared libraries, which the machine does not have: link it with -static" >&2
	fi
done <"$dir/programs"
# The same files must yield the same bytes, or two runs of an exact machine differ.
find "$root" -exec touch -h -d @0 {} +
(cd "$root" && find . | sort | cpio --quiet -o -H newc -R 0:0 --reproducible) >"$dir/initramfs"

# The machine itself. The kernel logs to one serial port, and init and the programs use another.
if has ARM64; then
	# Enable memory tagging, because a wrong tag is another way for an access to fault.
	qemu=(qemu-system-aarch64 -machine "virt,mte=on" -cpu "max,pauth-impdef=on,sve=off,sme=off")
	ports=(-serial chardev:log -device "pci-serial,chardev=tty")
	words=(console=ttyAMA0 twheel.port=/dev/ttyS0)
elif has S390; then
	qemu=(qemu-system-s390x -cpu max)
	ports=(-device "sclpconsole,chardev=log" -device "sclplmconsole,chardev=tty")
	words=(console=ttysclp0 twheel.port=/dev/sclp_line0)
elif has UML; then
	words=(console=tty0 twheel.port=/dev/tty1)
else
	qemu=(qemu-system-x86_64)
	ports=(-serial chardev:log -serial chardev:tty)
	words=(console=ttyS0)
fi
now=$(date +%s)
if ! has UML; then
	qemu+=(
		-smp 2 -m "${memory:-1G}" -no-reboot -no-user-config -nodefaults -display none
		-kernel "$image" -initrd "$dir/initramfs"
		-chardev "file,id=log,path=$console" "${ports[@]}"
	)
	# QEMU 7.2 computes wrong flags for cmpxchg16b, as it does for cmpxchg8b (see
	# tests/lib/emulated.h), so our processors do not have it.
	if [ -n "$exact" ]; then
		# Every run sees the same date, and nothing random.
		now=1767225600
		qemu+=(
			-seed 1
			-accel 'tcg,thread=single' -icount "shift=$shift,sleep=off"
			-rtc 'base=2026-01-01T00:00:00,clock=vm'
		)
		has ARM64 S390 || qemu+=(-cpu 'max,-rdrand,-rdseed,-cx16')
		words+=(nokaslr "twheel.settle=$settle")
		# No due timer may wait for a later interrupt, because nothing happens by chance
		# here.
		[[ $append = *twheel.hangs=* ]] || words+=(twheel.hangs=0)
		# The buffer of an empty network flushes at this interval, which ends a turn.
		[ -z "$turns" ] || qemu+=(
			-netdev 'hubport,id=turn,hubid=0'
			-object "filter-buffer,id=turns,netdev=turn,interval=$turns"
		)
	elif [ "${VM_ACCEL:-tcg}" = kvm ]; then
		qemu+=(-accel kvm -cpu host)
	else
		qemu+=(-accel 'tcg,thread=multi')
		# On a busy host, an interrupt can be late while the kernel checks its timer or
		# measures the TSC, so skip both. QEMU uses the TSC of the host.
		has ARM64 S390 || {
			qemu+=(-cpu 'max,-cx16')
			words+=(no_timer_check)
			[ "$(uname -m)" != x86_64 ] || words+=("tsc_early_khz=$(host_khz)")
		}
	fi
	# A booting kernel patches much of its code. A second emulated processor can execute a
	# half-patched instruction (seen in sched_clock_idle_wakeup_event()), so init starts the
	# other processors later.
	[ -z "$exact" ] && [ "${VM_ACCEL:-tcg}" = kvm ] ||
		words+=(maxcpus=1 tsc=reliable twheel.emulated=1)
	# Patching all locks for the second processor and testing the kernel's ciphers would take a
	# fifth of the time of an emulated boot.
	words+=(noreplace-smp cryptomgr.notests)
fi
words+=(
	ignore_loglevel log_buf_len=4M printk.devkmsg=on
	panic=-1 oops=panic panic_on_warn=1 softlockup_panic=1 hung_task_panic=1
	sysctl.kernel.panic_on_rcu_stall=1
	"twheel.now=$now" "twheel.limit=$limit"
	${slow:+"twheel.slow=$slow"} ${gcov:+twheel.gcov=1}
	${params:+"twheel.params=$params"}
	${append:+"$append"}
)
# Turn KCSAN on from the beginning. Its reports must not panic: of_race() in judge.c judges them.
if has KCSAN; then
	words+=(kcsan.early_enable=1 panic_on_warn=0)
fi
if [ -n "$shell" ] && ! [ -t 0 ]; then
	words+=(twheel.shell=pipe)
elif [ -n "$shell" ]; then
	size=$(stty size 2>/dev/null || echo 24 80)
	words+=("twheel.shell=${size/ /x}")
fi
[ -z "$alike" ] || qemu+=(-smp 1)
if has UML; then
	# The options of the program and of the kernel are one command line.
	program=("$image" "mem=${memory:-1G}" "uml_dir=$dir/" "initrd=$dir/initramfs"
		con=null ssl=null "con0=null,fd:1" "con1=null,fd:3" "${words[@]}")
else
	# shellcheck disable=SC2206
	program=("${qemu[@]}" $more -append "${words[*]}")
fi

# Binds this script to one processor: the last one that we may use and that no other machine has
# locked. The lock lasts until all that inherited it have ended.
one_processor() {
	local processor range

	for processor in $(for range in $(taskset -cp "$BASHPID" | sed 's/.*: //; s/,/ /g'); do
		seq "${range%-*}" "${range#*-}"
	done | sort -rn); do
		exec 9>"$cache/.processor-$processor"
		! flock -n 9 || break
	done
	taskset -cp "$processor" "$BASHPID" >/dev/null
}

# This prefix of a command writes the number of its process to $dir/pid.
# shellcheck disable=SC2016
told=(bash -c 'echo $$ >"$0"; exec "$@"' "$dir/pid")

# Starts a machine that runs commands, not a shell. Its output goes to a file, so that no reader can
# make the machine wait.
launch() {
	if has UML; then
		# Its programs are processes that it stops at each system call. On two processors
		# they would have to wake each other all the time.
		one_processor
		exec 3>"$output" >"$console" 2>&1
	else
		program+=(-chardev "file,id=tty,path=$output")
	fi
	exec timeout --foreground -k 5 "$timeout" "${told[@]}" "${program[@]}" </dev/null
}

# QEMU has a thread that emulates the processor and one that advances the clock of an idle machine.
# The latter may run before the former has counted its last instructions (QEMU 7.2), and then two
# runs differ. So both share one processor of the host, and the latter runs only while the former
# sleeps.
make_clock_wait() {
	(
		until [ -s "$console" ]; do
			kill -0 "$machine" 2>/dev/null || exit 0
			sleep 0.1
		done
		chrt --idle -p 0 "$(cat "$dir/pid")" >/dev/null
	) &
}

# Writes to $dir/waiting how many percent of the time in which the emulator could have run it had to
# wait for a processor of the host.
watch_waiting() {
	until [ -s "$dir/pid" ]; do
		sleep 0.1
	done
	while cat "/proc/$(cat "$dir/pid")"/task/*/schedstat >"$dir/now" 2>/dev/null; do
		awk '{ ran += $1; waited += $2 }
		     END { print int(100 * waited / (ran + waited + 1)) }' \
			"$dir/now" >"$dir/waiting"
		sleep 1
	done
}

# Sends the script on stdin as soon as the machine listens, and then the end-of-file character again
# and again, because a command of the script may have consumed it.
send_script() {
	until grep -qs '^twheel-vm: kernel: ' "$output"; do
		sleep 0.1
	done
	cat
	echo
	while sleep 1; do
		printf '\004'
	done
}

# Copies the counts of the module beside the .gcno files, which gcov needs to interpret them.
unpack_gcov() {
	mkdir -p "$gcov"
	cp "$modules"/*.gcno "$gcov"
	tr -d '\r' <"$output" | awk -v dir="$gcov" '
		/^twheel-vm: / {
			if (command)
				close(command)
			command = ""
		}
		/^twheel-vm: gcov: / {
			n = split($3, path, "/")
			command = "base64 -d >" dir "/" path[n]
			next
		}
		command { print | command }'
	ls "$gcov"/*.gcda >/dev/null
}

status=0
: >"$output"
: >"$console"
[ -z "$alike" ] || one_processor
watch_waiting &
watcher=$!
if [ -n "$shell" ] && ! [ -t 0 ]; then
	exec 3<&0
	"${told[@]}" "${program[@]}" -chardev "stdio,id=tty,signal=off,logfile=$output" \
		< <(send_script <&3 2>/dev/null) 3<&- || status=$?
elif [ -n "$shell" ]; then
	"${told[@]}" "${program[@]}" -mon tty \
		-chardev "stdio,id=tty,mux=on,signal=off,logfile=$output" || status=$?
else
	# Only show the lines of init that report a failure.
	filter='/^twheel-vm: \(kernel\|run\|exit\|verdict\): /d'
	counted='/^twheel-vm: gcov: /,/^twheel-vm: counted/d'
	launch &
	machine=$!
	[ -z "$alike" ] || make_clock_wait
	tail -s 0.2 -n +1 -f --pid="$machine" "$output" |
		sed -u -e "$counted" -e "${raw:+#}$filter"
	wait "$machine" || status=$?
	machine=
	# The process of user-mode Linux may abort after its kernel has powered down (seen once;
	# its main() mentions signals that arrive while it halts). This is no failure if powering
	# down was its last message, which it is not after a panic.
	if has UML && [ "$status" -eq 134 ] &&
		grep . "$console" | tail -n 1 | grep -q 'reboot: Power down'; then
		status=0
	fi
	# Some consoles do not print the last newline.
	[ -z "$(tail -c 1 "$output")" ] || echo | tee -a "$output"
fi
# The watcher has not ended by itself if the emulator did not start.
[ -s "$dir/pid" ] || kill "$watcher"
wait "$watcher" || true

# Programs in the shell may have printed an unfinished line before the verdict.
said=$(tr -d '\r' <"$output" | sed -n "s/^${shell:+.*}twheel-vm: verdict: //p" | tail -n 1)
verdict=$said
# The kernel's messages after the verdict count as well.
tr -d '\r' <"$console" | sed '1,/twheel-vm: begin/d' |
	awk -v programs=" ${oom_ok[*]} " '
		/ invoked oom-killer: / {
			match($0, /[^ ]+ invoked/)
			name = substr($0, RSTART, RLENGTH - length("invoked"))
			lines = index(programs, " " name) ? 8 : 0
		}
		# Skip the stack of an out-of-memory report: see of_oom() in judge.c.
		stack && /\]  / { next }
		{ stack = lines && lines-- && /Call [Tt]race:$/ }
		stack { lines = 0; next }
		# Skip races that only involve the kernel: see of_race() in judge.c.
		!race && /BUG: KCSAN: / { race = $0; next }
		{ interrupted = /\] +asm_/ || interrupted && /\]  / }
		race && !interrupted && /\]  .* \[twheel\]/ { print race; race = "" }
		race && /=====/ { race = "" }
		{ print }
		END { print race }' |
	grep -F -f "$forbidden" >"$dir/complaints" || true
# init has already judged long interrupts and races: see of_chance() and of_race() in judge.c.
took='hrtimer: interrupt took [0-9]+ ns$'
tr -d '\r' <"$output" | sed -n "s/^twheel-vm: of the kernel's own: //p" >"$dir/theirs"
if [ "$said" = PASS ]; then
	sed -i -E "/$took/d" "$dir/complaints"
	grep -v -F -f "$dir/theirs" "$dir/complaints" >"$dir/left" || true
	mv "$dir/left" "$dir/complaints"
fi
complaint=$(head -n 1 "$dir/complaints")
if [ -n "$shell" ] && [ "$status" -eq 0 ] && [ -z "$said$complaint" ] &&
	! grep -q 'Kernel panic' "$console"; then
	echo
	echo "The machine was switched off."
	exit 0
fi
if [ "$status" -ne 0 ] || [ -z "$said" ]; then
	case $status in
	124 | 137) verdict="FAIL: no verdict within $timeout s" ;;
	*) verdict="FAIL: the machine died without a verdict" ;;
	esac
	if [ -n "$complaint" ]; then
		grep -F -m 1 -A 30 -e "$complaint" "$console"
	else
		tail -n 25 "$console"
	fi | tr -d '\r'
elif ! grep -q 'twheel-vm: begin' "$console"; then
	verdict="FAIL: there is no kernel log"
elif [ "$said" = PASS ] && [ -n "$complaint" ]; then
	verdict="FAIL: kernel log: $complaint"
elif [ -z "$shell" ] && [ "$said" = PASS ] &&
	[ "$(grep -c 'twheel-vm: exit: ' "$output")" -ne "$(wc -l <"$root/vm/commands")" ]; then
	verdict="FAIL: not all commands were run"
fi
# The kernel also reports a long interrupt if the emulator had to wait for a processor of the host,
# so that report alone does not count then. In a machine whose clock counts instructions, the
# interrupt was really long.
waiting=$(cat "$dir/waiting" 2>/dev/null || echo 0)
if [ -z "$exact" ] && [ "$waiting" -ge 5 ] && ! grep -Eqv "$took" "$dir/complaints" &&
	[[ $verdict =~ ^"FAIL: kernel log: "(.* )?"hrtimer: interrupt took "[0-9]+" ns"$ ]]; then
	verdict=PASS
	echo "# ignored, because the machine had to wait for a processor for $waiting % of its time:"
	echo "# ${BASH_REMATCH[0]}"
fi
if [ "$verdict" != "$said" ]; then
	echo "twheel-vm: verdict: $verdict" | tee -a "$output"
elif [ -z "$raw$shell" ]; then
	echo "twheel-vm: verdict: $verdict"
fi
if [ -n "$gcov" ]; then
	unpack_gcov
fi
# For a script, its exit status says more than the verdict.
left=0
if [ -n "$shell" ]; then
	left=$(tr -d '\r' <"$output" | sed -n 's/^.*twheel-vm: exit: //p' | tail -n 1)
	[[ $left != signal* ]] || left=$((128 + ${left#signal }))
fi
[ "$verdict" = PASS ] || [ "${left:-0}" -ne 0 ] || left=1
exit "${left:-0}"
