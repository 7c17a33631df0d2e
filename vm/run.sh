#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# vm/run.sh [OPTION...] -- COMMAND...: boots a machine with /dev/twheel and
# runs a command in it. Shows what it prints, and exits with 0 only if
# vm/init.c gave the verdict PASS: see there for what that takes.
#
#   --kernel NAME     6.12 (default), 6.1, or another that vm/kernel.sh knows
#   --variant NAME    of the module: see vm/module.sh
#   --bin PATH[:DIR]  puts a program, or all those in a directory, into DIR of
#                     the machine (default: /bin)
#   --run 'COMMAND'   a shell command, any number of times; instead of --
#   --limit SECONDS   for each command (default: 120)
#   --timeout SECONDS for the whole (default: 300)
#   --params A=1,B=2  parameters of the module
#   --log-ok TEXT     a line of the module that is no complaint
#   --oom-ok PROGRAM  may make the kernel out of memory; where that was, which
#                     is what the report of it begins with, is no complaint
#   --append TEXT     more for the kernel's command line
#   --memory SIZE     of the machine (default: 1G, more for debug kernels)
#   --slow N          gives N times the time, for --limit and --timeout and, as
#                     TWHEEL_TEST_SLOW, to tests (default: 1, 10 for debug kernels,
#                     4 for user-mode Linux)
#   --exact           counts instructions for a clock: how busy the host is cannot be
#                     noticed, and idle time takes no time
#   --alike           that, with one processor: two runs give the same times, to
#                     the nanosecond
#   --turns US        of an exact machine's processors, which take turns when any clock
#                     comes to an end: at least so often (default: 1000 for debug
#                     kernels, whose own clocks may leave one waiting for minutes)
#   --settle SECONDS  of an exact machine before it begins, for its kernel to put the
#                     clock right (default: 60)
#   --qemu 'OPTIONS'  more for QEMU
#   --gcov DIR        the module counts what runs; puts that into DIR
#   --name NAME       of the logs: build/logs/NAME.output.log has the output,
#                     build/logs/NAME.console.log all that the kernel said
#   --raw             shows init's own lines, too
#   --shell           a shell instead of a command, without limits. A script on
#                     stdin takes its place, and its exit status is that of this
#
# QEMU emulates the processor, which works everywhere; VM_ACCEL=kvm uses
# the host's. User-mode Linux (--kernel uml) is a program of the host's, with its
# time, so that --exact and --alike mean nothing to it; and it has no --shell.
#
# A kernel that watches itself makes an emulated processor slow: it then does not
# count as a complaint that an interrupt took long.

. "$(dirname "$0")/lib.sh"

if [ "${VM_ACCEL-}" = kvm ] && ! { [ -w /dev/kvm ] && grep -qwE 'vmx|svm' /proc/cpuinfo; }; then
	die "VM_ACCEL=kvm needs /dev/kvm, and a processor with vmx or svm: without it, QEMU emulates one"
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
[ -n "$shell" ] || [ ${#commands[@]} -gt 0 ] || die "nothing to run"

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

# has NAME...: whether one of these options is in the kernel.
has() {
	printf 'CONFIG_%s=y\n' "$@" | grep -qxF -f - "$kdir/headers/.config"
}

host_khz() {
	gcc -O2 -Wall -Wextra -Werror -o "$dir/tsc" "$top/vm/tsc.c"
	"$dir/tsc"
}

# What is no emulator's is slow because it shares a processor with others.
if has UML; then
	slow=${slow:-4}
fi
# Of 2^shift ns an instruction; what KMSAN adds to it is not to be seen as a stall.
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
	[ -z "$shell" ] || die "there is no shell in user-mode Linux"
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
# There is no C library for a program to find, unless --bin has brought one. twheeld, which
# is in build/user once it was built, is not for make vm.
while read -r program; do
	if [ -e "$root/lib64" ] || [ "${program##*/}" = twheeld ]; then
		continue
	fi
	if readelf -l "$program" 2>/dev/null | grep -q INTERP; then
		echo "run.sh: $program cannot run there: link it with -static" >&2
	fi
done <"$dir/programs"
# The same bytes from the same files, for machines that must do the same again.
find "$root" -exec touch -h -d @0 {} +
(cd "$root" && find . | sort | cpio --quiet -o -H newc -R 0:0 --reproducible) >"$dir/initramfs"

# The machine itself. The kernel's log goes to one port, ours is another.
if has ARM64; then
	# With tags on memory, which are a way of their own to fault.
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
	# QEMU 7.2 leaves wrong flags behind where it emulates cmpxchg16b, as it does with
	# cmpxchg8b (see tests/lib/emulated.h): no processor of ours has that.
	if [ -n "$exact" ]; then
		# A year in which all is as it was in the other run, and nothing random.
		now=1767225600
		qemu+=(
			-seed 1
			-accel 'tcg,thread=single' -icount "shift=$shift,sleep=off"
			-rtc 'base=2026-01-01T00:00:00,clock=vm'
		)
		has ARM64 S390 || qemu+=(-cpu 'max,-rdrand,-rdseed,-cx16')
		words+=(nokaslr "twheel.settle=$settle")
		# Nor do timers that are due wait for a later interrupt by chance.
		[[ $append = *twheel.hangs=* ]] || words+=(twheel.hangs=0)
		# The clock of a network which nobody is in.
		[ -z "$turns" ] || qemu+=(
			-netdev 'hubport,id=turn,hubid=0'
			-object "filter-buffer,id=turns,netdev=turn,interval=$turns"
		)
	elif [ "${VM_ACCEL:-tcg}" = kvm ]; then
		qemu+=(-accel kvm -cpu host)
	else
		qemu+=(-accel 'tcg,thread=multi')
		# On a busy host no interrupt may come while a kernel tries whether the timer works,
		# or how fast the TSC counts. QEMU has that of the host.
		has ARM64 S390 || {
			qemu+=(-cpu 'max,-cx16')
			words+=(no_timer_check)
			[ "$(uname -m)" != x86_64 ] || words+=("tsc_early_khz=$(host_khz)")
		}
	fi
	# While it boots, a kernel patches its own code much. A processor that QEMU emulates
	# beside another may run into half of that (seen in sched_clock_idle_wakeup_event()),
	# so the others come when init says so.
	[ -z "$exact" ] && [ "${VM_ACCEL:-tcg}" = kvm ] ||
		words+=(maxcpus=1 tsc=reliable twheel.emulated=1)
	# A fifth of what an emulated boot takes: to patch all locks when the second processor
	# comes, and the tests of the kernel's own ciphers.
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
# It is there, but it would not look; and what it finds is told apart later.
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
	# What it is run with, and the words for its kernel, are one list.
	program=("$image" "mem=${memory:-1G}" "uml_dir=$dir/" "initrd=$dir/initramfs"
		con=null ssl=null "con0=null,fd:1" "con1=null,fd:3" "${words[@]}")
else
	# shellcheck disable=SC2206
	program=("${qemu[@]}" $more -append "${words[*]}")
fi

# Alone from here on: the last of those that we may have that no other machine has so,
# for as long as anybody has the lock open.
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

# Whoever runs the emulator by this writes down which process that is.
# shellcheck disable=SC2016
told=(bash -c 'echo $$ >"$0"; exec "$@"' "$dir/pid")

# What is not a shell. Its output goes to a file, so that no reader can make the machine
# wait.
launch() {
	if has UML; then
		# Its programs are processes which it is told of at each of their calls:
		# two processors would have to wake each other.
		one_processor
		exec 3>"$output" >"$console" 2>&1
	else
		program+=(-chardev "file,id=tty,path=$output")
	fi
	exec timeout --foreground -k 5 "$timeout" "${told[@]}" "${program[@]}" </dev/null
}

# Of two processors, QEMU may take either first after an interrupt, as its own threads
# come. Of these, the one that advances the clock of a machine at rest may do so before
# the one that plays the processor has added what it executed last (QEMU 7.2): so they
# have one processor of the host's, and the former only what the latter leaves.
in_turn() {
	(
		until [ -s "$console" ]; do
			kill -0 "$machine" 2>/dev/null || exit 0
			sleep 0.1
		done
		chrt --idle -p 0 "$(cat "$dir/pid")" >/dev/null
	) &
}

# Notes how much of the time that it could have run, in percent, the emulator
# had to wait for a processor of the host.
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

# The script on stdin, once the machine listens, and then the end of the file
# until it has been noticed, as a command may read from there as well.
feed() {
	until grep -qs '^twheel-vm: kernel: ' "$output"; do
		sleep 0.1
	done
	cat
	echo
	while sleep 1; do
		printf '\004'
	done
}

# What the module counted, to the objects that tell what that means.
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
		< <(feed <&3 2>/dev/null) 3<&- || status=$?
elif [ -n "$shell" ]; then
	"${told[@]}" "${program[@]}" -mon tty \
		-chardev "stdio,id=tty,mux=on,signal=off,logfile=$output" || status=$?
else
	# Of init's own lines only the bad ones are for the reader.
	filter='/^twheel-vm: \(kernel\|run\|exit\|verdict\): /d'
	counted='/^twheel-vm: gcov: /,/^twheel-vm: counted/d'
	launch &
	machine=$!
	[ -z "$alike" ] || in_turn
	tail -s 0.2 -n +1 -f --pid="$machine" "$output" |
		sed -u -e "$counted" -e "${raw:+#}$filter"
	wait "$machine" || status=$?
	machine=
	# The process of user-mode Linux may abort when its kernel has powered down (seen once;
	# its main() tells of signals that come as it halts). With that for its last word, the
	# machine has said all that it had to; one that panics has not.
	if has UML && [ "$status" -eq 134 ] &&
		grep . "$console" | tail -n 1 | grep -q 'reboot: Power down'; then
		status=0
	fi
	# Some consoles keep the last end of a line for themselves.
	[ -z "$(tail -c 1 "$output")" ] || echo | tee -a "$output"
fi
# It has nothing to watch if that did not even begin.
[ -s "$dir/pid" ] || kill "$watcher"
wait "$watcher" || true

# What ran in the shell may have left a line without an end before it.
said=$(tr -d '\r' <"$output" | sed -n "s/^${shell:+.*}twheel-vm: verdict: //p" | tail -n 1)
verdict=$said
# What the kernel said after the verdict counts as well.
tr -d '\r' <"$console" | sed '1,/twheel-vm: begin/d' |
	awk -v programs=" ${oom_ok[*]} " '
		/ invoked oom-killer: / {
			match($0, /[^ ]+ invoked/)
			name = substr($0, RSTART, RLENGTH - length("invoked"))
			lines = index(programs, " " name) ? 8 : 0
		}
		# Its stack: see of_oom() in judge.c.
		stack && /\]  / { next }
		{ stack = lines && lines-- && /Call [Tt]race:$/ }
		stack { lines = 0; next }
		# A race of the kernel alone: see of_race() in judge.c.
		!race && /BUG: KCSAN: / { race = $0; next }
		{ interrupted = /\] +asm_/ || interrupted && /\]  / }
		race && !interrupted && /\]  .* \[twheel\]/ { print race; race = "" }
		race && /=====/ { race = "" }
		{ print }
		END { print race }' |
	grep -F -f "$forbidden" >"$dir/complaints" || true
# Which interrupts took long by chance, and whose memory a race was about,
# init has judged: see of_chance() and of_race() in judge.c.
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
	echo "The plug was pulled."
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
# Of all complaints, this one the kernel also has when an emulated processor
# gets no time: an interrupt seems to take long, whatever is done in it. Not where
# instructions are counted: there it did.
waiting=$(cat "$dir/waiting" 2>/dev/null || echo 0)
if [ -z "$exact" ] && [ "$waiting" -ge 5 ] && ! grep -Eqv "$took" "$dir/complaints" &&
	[[ $verdict =~ ^"FAIL: kernel log: "(.* )?"hrtimer: interrupt took "[0-9]+" ns"$ ]]; then
	verdict=PASS
	echo "# not counted, as the machine had to wait for $waiting % of its time:"
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
# Of a script it is the status that tells more.
left=0
if [ -n "$shell" ]; then
	left=$(tr -d '\r' <"$output" | sed -n 's/^.*twheel-vm: exit: //p' | tail -n 1)
	[[ $left != signal* ]] || left=$((128 + ${left#signal }))
fi
[ "$verdict" = PASS ] || [ "${left:-0}" -ne 0 ] || left=1
exit "${left:-0}"
