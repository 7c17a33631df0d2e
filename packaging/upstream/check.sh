#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# packaging/upstream/check.sh [--full] [newest | 6.12]: the series against that source. Prints TAP.
#
# It is generated, applied by git am, judged by checkpatch, and built patch by patch with W=1 and
# sparse: what is in the driver's directory, not the kernel. --full builds it for five
# architectures and with more configurations, makes the page, and runs the suites and the
# selftests in user-mode Linux.
#
# The tree and its builds stay in the cache, for one checkout at a time.

. "$(dirname "$0")/../../vm/lib.sh"
# shellcheck source=../../tests/lib/tap.sh
. "$top/tests/lib/tap.sh"

full=
if [ "${1-}" = --full ]; then
	full=1
	shift
fi
name=${1:-newest}
need bc bison flex gcc git libelf-dev libssl-dev make perl python3 sparse
source=$("$top/packaging/upstream/source.sh" "$name")
work=$cache/upstream/${source##*/upstream-}
tree=$work/tree
driver=drivers/misc/twheel
patches=$build/upstream-$name
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$work"
exec 9>"$work/.lock"
flock 9

git_in_tree() {
	git -C "$tree" -c user.name=check -c user.email=check@localhost "$@"
}

# The source by hard links, and what the series touches in a repository.
take_tree() {
	[ ! -e "$tree/.git/refs/tags/base" ] || return 0
	rm -rf "$tree"
	cp -rl "$source" "$tree"
	git -C "$tree" init -q
	(cd "$patches/work" && git ls-tree -r --name-only base) |
		git_in_tree add -f --pathspec-from-file=-
	git_in_tree commit -q -m base
	git_in_tree tag base
}

applies() {
	take_tree
	git_in_tree am -q --abort 2>/dev/null || true
	rm -rf "${tree:?}/$driver"
	git_in_tree checkout -qf base &&
		git_in_tree am -q --whitespace=error-all "$patches"/000[1-9]*.patch &&
		git_in_tree tag -f series
}

# Nothing is left out of what checkpatch says but this:
#   that MAINTAINERS may need a change, which the last patch makes
#   in trace.h, how TRACE_EVENT() is written everywhere
#   in the header of the ABI, BIT(), which user space does not have
#   of <asm/cpufeature.h>, that <linux/cpufeature.h> may do, which does not include it for riscv
#   of macros that make KUnit's parameters or a test, that they use an argument twice
#   of programs, what is only a rule for the kernel's own code
checked() {
	local known=FILE_PATH_CHANGES sum

	case $1 in
	*/0002*) known+=,MACRO_ARG_REUSE ;;
	*/0003*) known+=,OPEN_ENDED_LINE,PARENTHESIS_ALIGNMENT,BIT_MACRO ;;
	*/0004*) known+=,INCLUDE_LINUX ;;
	*/0005*)
		known+=,BIT_MACRO,ARCH_DEFINES,MACRO_WITH_FLOW_CONTROL,ENOSYS,VOLATILE
		known+=,MACRO_ARG_REUSE,LONG_LINE_STRING
		;;
	esac
	# What has passed once is not judged again: dates and names of commits do not count.
	sum=$(sed '/^\(From [0-9a-f]*\|Date:\|index\) /d' "$1" | cat - "$0" | sha256sum)
	! grep -qxF "$sum" "$work/passed" 2>/dev/null || return 0
	(cd "$source" && perl scripts/checkpatch.pl --strict --terse --show-types --no-summary \
		--ignore "$known" "$1") && echo "$sum" >>"$work/passed"
}

# A variant of the configuration: its name, and a line for each symbol. All have what is common.
common='EXPERT=y 64BIT=y MODULES=y PRINTK=y BUG=y HIGH_RES_TIMERS=y MMU=y'
variant() {
	case $1 in
	module) echo 'TWHEEL=m KUNIT=m TWHEEL_KUNIT_TEST=m DEBUG_FS=y FTRACE=y TIME_NS=y
		NAMESPACES=y MEMCG=y CGROUPS=y PROC_FS=y MULTIUSER=y' ;;
	builtin) echo 'TWHEEL=y DEBUG_FS=y FTRACE=y ENABLE_DEFAULT_TRACERS=y PROC_FS=y' ;;
	suites) echo 'TWHEEL=m KUNIT=y TWHEEL_KUNIT_TEST=y PROC_FS=y' ;;
	bare) echo 'TWHEEL=y' ;;
	rt) echo 'TWHEEL=y PREEMPT_RT=y PROC_FS=y FTRACE=y ENABLE_DEFAULT_TRACERS=y' ;;
	compat) echo 'TWHEEL=m IA32_EMULATION=y PROC_FS=y' ;;
	user) echo 'TWHEEL=m KUNIT=y TWHEEL_KUNIT_TEST=y MODULE_UNLOAD=y PROC_FS=y SYSFS=y DEVTMPFS=y
		TMPFS=y SHMEM=y BLK_DEV_INITRD=y BINFMT_ELF=y BINFMT_SCRIPT=y MULTIUSER=y FUTEX=y
		EPOLL=y EVENTFD=y TIMERFD=y POSIX_TIMERS=y IO_URING=y NAMESPACES=y USER_NS=y
		CGROUPS=y MEMCG=y NET=y UNIX=y TTY=y NULL_CHAN=y USERFAULTFD=y MEMFD_CREATE=y
		DEBUG_FS=y FILE_LOCKING=y ADVISE_SYSCALLS=y AIO=y PROC_PAGE_MONITOR=y' ;;
	debug) echo 'TWHEEL=y DEBUG_KERNEL=y PROVE_LOCKING=y DEBUG_VM=y DEBUG_VM_PGTABLE=y
		DEBUG_OBJECTS=y DEBUG_OBJECTS_TIMERS=y PAGE_TABLE_CHECK=y PROC_FS=y' ;;
	esac
}

# What else an architecture needs to be one of those that the device is for.
machine() {
	case $1 in
	x86) echo SMP=y ;;
	powerpc) echo 'SMP=y PPC64=y PPC_BOOK3S_64=y' ;;
	riscv) echo 'SMP=y ARCH_RV64I=y' ;;
	esac
}

make_in() {
	make -s -C "$tree" "O=$work/$1" "ARCH=${1%%-*}" "CROSS_COMPILE=$(cross "${1%%-*}")" \
		KBUILD_BUILD_TIMESTAMP=0 "${@:2}"
}

cross() {
	case $1 in
	arm64) echo aarch64-linux-gnu- ;;
	powerpc) echo powerpc64-linux-gnu- ;;
	riscv) echo riscv64-linux-gnu- ;;
	s390) echo s390x-linux-gnu- ;;
	esac
}

# configure ARCHITECTURE-VARIANT: in a directory of that name, once, for the whole series.
configure() {
	local out=$work/$1 line

	mkdir -p "$out"
	# shellcheck disable=SC2046,SC2086
	printf 'CONFIG_%s\n' $common $(machine "${1%%-*}") $(variant "${1#*-}") >"$out/fragment"
	! cmp -s "$out/fragment" "$out/configured" || return 0
	quietly make_in "$1" KCONFIG_ALLCONFIG="$out/fragment" allnoconfig || return
	while read -r line; do
		grep -qx "$line" "$out/.config" || {
			echo "not to be had: $line"
			return 1
		}
	done <"$out/fragment"
	cp "$out/.config" "$out/config"
	quietly make_in "$1" "-j$(nproc)" prepare modules_prepare || return
	cp "$out/fragment" "$out/configured"
}

# What sparse says of the architecture's own files is not ours to fix. Debian's is older than Linux 7
# and takes no call of __builtin_strlen() for a constant, so there it complains of each
# MODULE_LICENSE().
foreign="^$tree/arch/|: note: in included file:\$"
[ "$name" = 6.12 ] || foreign+='|:1: error: bad constant expression$'

# built ARCHITECTURE-VARIANT [ALL]: the driver's directory. Silence is success. ALL: each file of
# it, whatever the configuration links. Symbols that come later in the series are left out.
built() {
	local out=$work/$1 objects=("$driver/") file

	if [ -n "${2-}" ]; then
		for file in "$tree/$driver"/*.c; do
			file=${file##*/}
			objects+=("$driver/${file%.c}.o")
		done
	fi
	cp "$out/config" "$out/.config"
	quietly make_in "$1" olddefconfig || return
	rm -rf "${out:?}/$driver"
	make_in "$1" W=1 C=1 CHECK='sparse -D__typeof_unqual__=__typeof__' "-j$(nproc)" \
		"${objects[@]}" 2>&1 | { grep -vE "$foreign" || true; }
}

# Whatever the driver defines for others has its prefix, and the suites need nothing of it.
prefixed() {
	local out=$work/$1/$driver nm

	nm=$(cross "${1%%-*}")nm
	"$nm" -g --defined-only "$out/twheel.o" |
		awk '$3 !~ /^twheel_|^__|^(init|cleanup)_module$/ { print $3 " has no prefix" }'
	"$nm" -u "$out/twheel_kunit.o" | awk '$2 ~ /^twheel_/ { print $2 " is not in the suites" }'
}

at() {
	git_in_tree checkout -qf "$(git_in_tree rev-list --reverse base..series | sed -n "$1p")"
}

# bisectable ARCHITECTURE-VARIANT: each patch that has code builds.
bisectable() {
	local patch

	git_in_tree checkout -qf series
	silent "$1: configuration" configure "$1"
	for patch in 2 3 4; do
		at $patch
		silent "$1, patch $patch: W=1 and sparse" built "$1" all
	done
	silent "$1: names of global symbols" prefixed "$1"
}

# The page, alone in a manual. What sphinx says of anything else is none of ours.
page() {
	local root=$work/page file

	rm -rf "$root"
	mkdir -p "$root/Documentation"
	for file in "$tree"/*; do
		[ "${file##*/}" = Documentation ] || ln -s "$file" "$root"
	done
	for file in "$tree"/Documentation/{conf.py,sphinx,sphinx-static,images}; do
		[ ! -e "$file" ] || ln -s "$file" "$root/Documentation"
	done
	cp "$tree/Documentation/userspace-api/twheel.rst" "$root/Documentation/index.rst"
	(cd "$root/Documentation" &&
		srctree=$root sphinx-build -q -b html -d "$root/doctrees" . "$root/html" 2>&1) |
		grep -E 'Documentation/index|twheel|rror' || true
	grep -q 'struct twheel_slot' "$root/html/index.html" || echo "no reference of the header"
}

# User-mode Linux of that tree, with the suites built in and the device as a module.
user_mode() {
	local out=$work/um-user

	configure um-user || return
	cp "$out/config" "$out/.config"
	make_in um-user "-j$(nproc)" linux modules headers
}

suites() {
	"$tree/tools/testing/kunit/kunit.py" exec --build_dir="$work/um-user" --timeout 1200 'twheel*'
}

# The selftests there. It is killed if it does not end by itself.
selftests() {
	local out=$work/um-user root=$work/root log=$work/selftests.log

	rm -rf "$root"
	mkdir -p "$root"/{bin,tests,proc,sys,dev,tmp}
	make -s -C "$tree/tools/testing/selftests/twheel" "OUTPUT=$root/tests" \
		KHDR_INCLUDES="-isystem $out/usr/include" LDFLAGS=-static || return
	cp /bin/busybox "$root/bin"
	cp "$out/$driver/twheel.ko" "$root"
	cat >"$root/init" <<-'END'
		#!/bin/busybox sh
		/bin/busybox mount -t proc none /proc
		/bin/busybox mount -t sysfs none /sys
		/bin/busybox mount -t devtmpfs none /dev
		/bin/busybox mount -t tmpfs none /tmp
		/bin/busybox insmod /twheel.ko
		export TWHEEL_TEST_SLOW=4
		for program in /tests/*_test; do
			$program && echo "PASSED $program" || echo "FAILED $program"
		done
		/bin/busybox rmmod twheel && echo UNLOADED
		/bin/busybox poweroff -f
	END
	chmod +x "$root/init"
	(cd "$root" && find . | cpio -o -H newc --quiet) >"$work/initramfs"
	timeout 1200 "$out/linux" mem=1G "initrd=$work/initramfs" con=null con0=null,fd:1 \
		</dev/null >"$log" 2>&1 || true
	grep -aE '^(PASSED|FAILED|UNLOADED|not ok|# Totals|# SKIP)|SKIP|(WARNING|BUG|panic)\b' "$log"
	! grep -aqE '^(FAILED|not ok)|(WARNING|BUG): |panic' "$log" &&
		grep -aq '^UNLOADED' "$log" && [ "$(grep -ac '^PASSED' "$log")" = 7 ]
}

silent "make upstream, for $name" "$top/packaging/upstream/series.py" "$source" "$patches"
check "git am" applies
for patch in "$patches"/000[1-9]*.patch; do
	silent "checkpatch --strict: ${patch##*/}" checked "$patch"
done
bisectable x86-module
if [ -n "$full" ]; then
	need binutils-powerpc64-linux-gnu busybox-static cpio gcc-aarch64-linux-gnu gcc-powerpc64-linux-gnu \
		gcc-riscv64-linux-gnu gcc-s390x-linux-gnu python3-sphinx
	for arch in arm64 s390 riscv powerpc; do
		bisectable $arch-module
	done
	for it in {x86,arm64,s390,riscv,powerpc}-builtin x86-{suites,bare,rt,compat,debug} arm64-rt; do
		silent "$it: configuration" configure "$it"
		silent "$it: W=1 and sparse" built "$it"
	done
	git_in_tree checkout -qf series
	silent "the page, without a warning" page
	check "user-mode Linux: build" user_mode
	check "kunit.py" suites
	check "selftests in user-mode Linux" selftests
fi
done_testing
