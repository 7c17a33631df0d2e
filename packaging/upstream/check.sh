#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# packaging/upstream/check.sh [--full] [newest | 6.12 [BUILD...]]: checks the upstream series against
# that kernel source. Prints TAP.
#
# It generates the series, applies it with git am, runs checkpatch on it, and builds the driver's
# directory after each patch with W=1 and sparse, but not the kernel. With --full, it builds for
# five architectures and more configurations, builds the manual's page, and runs the KUnit suites
# and the selftests in user-mode Linux. BUILD, such as arm64-module or um-user, replaces the list of
# builds.
#
# The tree and the builds stay in the cache, which one checkout at a time can use.

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

# Makes the tree from hard links to the source, with a repository of the files that the series
# touches.
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

# Runs checkpatch on a patch. These types of messages are ignored:
#   that MAINTAINERS may need an update, because the last patch updates it
#   in trace.h, the style in which TRACE_EVENT() is written everywhere
#   in the header of the ABI, that BIT() is missing, because user space does not have it
#   that <linux/cpufeature.h> could replace <asm/cpufeature.h>, which it does not include for riscv
#   that macros for KUnit parameters or for tests use an argument twice
#   in programs, rules that only apply to the kernel's own code
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
	# A patch that has passed is not checked again, even if its date or the name of its commit
	# differs.
	sum=$(sed '/^\(From [0-9a-f]*\|Date:\|index\) /d' "$1" | cat - "$0" | sha256sum)
	! grep -qxF "$sum" "$work/passed" 2>/dev/null || return 0
	(cd "$source" && perl scripts/checkpatch.pl --strict --terse --show-types --no-summary \
		--ignore "$known" "$1") && echo "$sum" >>"$work/passed"
}

# Prints the lines of the patches that name something that only this tree has.
leftovers() {
	grep -nE '^\+.*(\bG[0-9]+\b|\btwheel\([1-9]\)|libtwheel|twheelctl|[ "(](ci|bench|vm)/)' \
		"$patches"/000[1-9]*.patch || true
}

# Prints the lines of the cover letter that are too wide, or beyond two screens of 50 lines.
letter() {
	awk '/^== 1/ { exit } NR > 3 && (length > 75 || NR > 103 && NF)' "$top/packaging/upstream/series.txt"
}

# variant NAME: prints the symbols of a variant of the configuration. All variants include $common.
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

# machine ARCHITECTURE: prints the symbols that this architecture needs to support the device.
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

# configure ARCHITECTURE-VARIANT: makes the configuration for the whole series once, in a directory
# of that name.
configure() {
	local out=$work/$1 line

	mkdir -p "$out"
	# shellcheck disable=SC2046,SC2086
	printf 'CONFIG_%s\n' $common $(machine "${1%%-*}") $(variant "${1#*-}") >"$out/fragment"
	! cmp -s "$out/fragment" "$out/configured" || return 0
	quietly make_in "$1" KCONFIG_ALLCONFIG="$out/fragment" allnoconfig || return
	while read -r line; do
		grep -qx "$line" "$out/.config" || {
			echo "the configuration refuses $line"
			return 1
		}
	done <"$out/fragment"
	cp "$out/.config" "$out/config"
	quietly make_in "$1" "-j$(nproc)" prepare modules_prepare || return
	cp "$out/fragment" "$out/configured"
}

# Ignore what sparse reports for the architecture's own files. Debian's sparse is older than Linux 7
# and does not accept a call of __builtin_strlen() as a constant, so with newer sources it reports
# each MODULE_LICENSE().
foreign='^[^ :]*/tree/arch/|: note: in included file:$'
[ "$name" = 6.12 ] || foreign+='|:1: error: bad constant expression$'

# Debian's sparse refuses the extensions of riscv in the -march of Linux 7, and does not need it.
checker() {
	cat <<-'END'
		#!/bin/sh
		for arg; do
			shift
			case $arg in -march=*) ;; *) set -- "$@" "$arg" ;; esac
		done
		exec sparse -D__typeof_unqual__=__typeof__ "$@"
	END
}

# built ARCHITECTURE-VARIANT [ALL]: builds the driver's directory, and prints nothing if there is no
# warning. With ALL, it compiles every file, even those that the configuration does not link. The
# configuration drops symbols that only a later patch introduces.
built() {
	local out=$work/$1 objects=("$driver/") file

	if [ -n "${2-}" ]; then
		for file in "$tree/$driver"/*.c; do
			file=${file##*/}
			objects+=("$driver/${file%.c}.o")
		done
	fi
	# The build reads the configuration anew if it or a Kconfig file has changed.
	cmp -s "$out/config" "$out/.config" || cp "$out/config" "$out/.config"
	rm -rf "${out:?}/$driver"
	make_in "$1" W=1 C=1 CHECK="$dir/sparse" "-j$(nproc)" \
		"${objects[@]}" 2>&1 | { grep -vE "$foreign" || true; }
}

# Checks that all global symbols of the driver have its prefix, and that the suites use none of
# them.
prefixed() {
	local out=$work/$1/$driver nm

	nm=$(cross "${1%%-*}")nm
	"$nm" -g --defined-only "$out/twheel.o" |
		awk '{ sub(/^\./, "", $3) } $3 !~ /^twheel_|^__|^(init|cleanup)_module$/ { print $3 " has no prefix" }'
	"$nm" -u "$out/twheel_kunit.o" | awk '$2 ~ /^\.?twheel_/ { print $2 " is not in the suites" }'
}

checker >"$dir/sparse"
chmod +x "$dir/sparse"

at() {
	git_in_tree checkout -qf "$(git_in_tree rev-list --reverse base..series | sed -n "$1p")"
}

# bisectable ARCHITECTURE-VARIANT: checks that the tree builds after each patch that contains code.
bisectable() {
	local patch

	silent "$1: configuration" configure "$1"
	for patch in 2 3 4; do
		at $patch
		silent "$1, patch $patch: W=1 and sparse" built "$1" all
	done
	git_in_tree checkout -qf series
	silent "$1: names of global symbols" prefixed "$1"
}

# Builds the page as the only one of a manual, and ignores warnings of sphinx about anything else.
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

# Builds user-mode Linux from the tree, with the suites built in and the device as a module.
user_mode() {
	local out=$work/um-user

	configure um-user || return
	cp "$out/config" "$out/.config"
	make_in um-user "-j$(nproc)" linux modules headers
}

# allnoconfig turns off the option that makes the kernel run the suites at boot.
suites() {
	"$tree/tools/testing/kunit/kunit.py" exec --build_dir="$work/um-user" --timeout 1200 \
		--kernel_args=kunit.autorun=1 'twheel*'
}

# Runs the selftests in that kernel, which is killed if it does not power off in time.
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
silent "no patch names something that only this tree has" leftovers
silent "the cover letter fits two screens" letter
check "git am" applies
for patch in "$patches"/000[1-9]*.patch; do
	silent "checkpatch --strict: ${patch##*/}" checked "$patch"
done
builds=(x86-module)
if [ -n "$full" ]; then
	need binutils-powerpc64-linux-gnu busybox-static cpio gcc-aarch64-linux-gnu gcc-powerpc64-linux-gnu \
		gcc-riscv64-linux-gnu gcc-s390x-linux-gnu python3-sphinx
	silent "the page, without a warning" page
	builds+=(um-user {arm64,s390,riscv,powerpc}-module {x86,arm64,s390,riscv,powerpc}-builtin)
	builds+=(x86-{suites,bare,rt,compat,debug} arm64-rt)
fi
[ $# -lt 2 ] || builds=("${@:2}")
for it in "${builds[@]}"; do
	case $it in
	um-user)
		check "user-mode Linux: build" user_mode
		check "kunit.py" suites
		check "selftests in user-mode Linux" selftests
		;;
	*-module)
		bisectable "$it"
		;;
	*)
		silent "$it: configuration" configure "$it"
		silent "$it: W=1 and sparse" built "$it"
		;;
	esac
done
done_testing
