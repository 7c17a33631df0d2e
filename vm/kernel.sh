#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# vm/kernel.sh NAME: prints the directory of a kernel. In it are
#
#   bzImage   what to boot, or of user-mode Linux to run
#   headers/  what to build modules against (KDIR)
#   make      variables for make, if modules for it need some
#   tests/    the kernel's own tests of what it finds bugs with, as modules
#   busybox   if that of this machine does not run there
#   root/usr/bin/make  if its modules are built inside root/, which has the compiler
#
# A name is an entry of ~/.cache/twheel/kernels with the first two in it. These
# are made on demand; whatever else is put there, a kernel of one's own for
# instance, works as well.
#
#   6.12, 6.1, 6.12-rt, 6.1-rt, arm64-6.12, s390x-6.1  Debian's
#   newest     the newest that Debian has for a release, with the compiler of that release
#   debug      KASAN, lockdep, debug objects, kmemleak, failing calls, UBSAN, KCOV, GCOV
#   kcsan      data races
#   rt-debug   PREEMPT_RT, with lockdep and debug objects
#   kmsan      what goes out to user space without having been written
#   uml        what debug has, as far as there is such for user-mode Linux: a
#              program of this machine's, with one processor and at its speed
#
# Debian's kernels are unpacked, not installed: no hook of the package runs.
# What has been unpacked stays in use, and needs no network, until it is
# removed from the cache. Then the newest comes.
#
# The others are built from Debian's source, by vm/config/base.config and that
# of their name, and uml by its own alone. The name in the cache leads to a
# directory that is named after all that went into it, so what changes is built
# anew, and only once.

. "$(dirname "$0")/lib.sh"

kernels=$cache/kernels
version=6.12
source=linux-source-$version

# What to give to apt.
apt=()

# foreign ARCHITECTURE PACKAGE...: gets ready for kernels of it. Apt gets a world of
# its own for that, so that this machine goes on without it.
foreign() {
	local dir=$cache/apt-$1

	need "${@:2}"
	mkdir -p "$dir"/{lists,cache/archives}/partial
	apt=(
		-o APT::Architectures::=amd64 -o "APT::Architectures::=$1"
		-o "Dir::State::lists=$dir/lists" -o "Dir::Cache=$dir/cache"
		-o Acquire::Languages=none -o APT::Sandbox::User=root
	)
	quietly apt-get -q "${apt[@]}" update
}

# dependency PACKAGE PATTERN: the names of packages that it depends on.
dependency() {
	apt-cache "${apt[@]}" depends -i "$1" |
		sed -n 's/^ *|\?Depends: <\?\([^:>]*\).*/\1/p' | grep "$2" || true
}

# stock NAME IMAGE HEADERS [ARCHITECTURE CROSS-COMPILER]: a kernel out of the two
# metapackages.
stock() {
	local arch=${4:+:$4} image headers version dir tmp debs

	with_index apt-cache "${apt[@]}" show "$2$arch" "$3$arch"
	image=$(dependency "$2$arch" '^linux-image-' | head -n 1)
	headers=$(dependency "$3$arch" '^linux-headers-' | head -n 1)
	if [ -z "$image" ] || [ -z "$headers" ]; then
		die "no packages for kernel $1"
	fi
	echo "fetching $image" >&2

	tmp=$(mktemp -d "$kernels/.tmp.XXXXXX")
	# shellcheck disable=SC2064
	trap "rm -rf '$tmp'" EXIT
	# What is of no architecture, and the tools of the build, which run here.
	# shellcheck disable=SC2046
	(cd "$tmp" && with_index apt-get -q "${apt[@]}" download "$image$arch" "$headers$arch" \
		$(dependency "$headers$arch" '^linux-\(headers\|kbuild\)-') \
		${arch:+"busybox-static$arch"})

	version=$(dpkg-deb -f "$tmp/$image"_*.deb Version)
	dir=${image#linux-image-}_$version
	dpkg-deb --fsys-tarfile "$tmp/$image"_*.deb |
		tar -xf - -C "$tmp" --wildcards './boot/vmlinuz-*'
	mv "$tmp"/boot/vmlinuz-* "$tmp/bzImage"
	rm -r "${tmp:?}/boot" "$tmp/$image"_*.deb
	for debs in "$tmp"/*.deb; do
		dpkg-deb -x "$debs" "$tmp/root"
		rm "$debs"
	done
	if [ -n "$arch" ]; then
		mv "$tmp/root/bin/busybox" "$tmp"
		printf 'CROSS_COMPILE=%s\n' "$5" >"$tmp/make"
	fi

	# The links between the packages are relative, one path is not.
	ln -s "root/usr/src/$headers" "$tmp/headers"
	sed -i "s|^include /usr/src/|include $kernels/$dir/root/usr/src/|" \
		"$tmp/headers/Makefile"

	rm -rf "${kernels:?}/$dir"
	chmod 755 "$tmp"
	mv "$tmp" "$kernels/$dir"
	ln -sfn "$dir" "$kernels/$1"
}

# newest NAME RELEASE: the kernel of the backports to that release. This machine's C library
# may be too old for the programs that build modules, so the release's own comes along.
newest() {
	local tmp mirror version dir

	need mmdebstrap
	mirror=$(debian_mirror)
	echo "fetching Debian's newest kernel, from $2-backports" >&2
	tmp=$(mktemp -d "$kernels/.tmp.XXXXXX")
	# shellcheck disable=SC2064
	trap "as_root rm -rf '$tmp'" EXIT
	chmod 755 "$tmp"
	quietly as_root mmdebstrap --variant=extract --format=directory \
		--include=base-files,dash,coreutils,findutils,sed,grep,mawk,make,gcc,libc6-dev \
		--include="linux-headers-amd64/$2-backports,linux-image-amd64/$2-backports" \
		"$2" "$tmp/root" "deb $mirror $2 main" "deb $mirror $2-backports main"
	as_root ln -s mawk "$tmp/root/usr/bin/awk"
	as_root mkdir -p "$tmp/root/mnt"
	version=$(basename "$tmp"/root/usr/lib/modules/*)
	cp "$tmp/root/usr/lib/modules/$version/vmlinuz" "$tmp/bzImage"
	as_root rm -r "$tmp/root/usr/lib/modules/$version/kernel"
	ln -s "root/usr/src/linux-headers-$version" "$tmp/headers"

	dir=$version
	as_root rm -rf "${kernels:?}/$dir"
	mv "$tmp" "$kernels/$dir"
	ln -sfn "$dir" "$kernels/$1"
}

# The compiler of a kernel of our own: its sanitizer may exist in one only.
compiler() {
	case $1 in
	kmsan) echo clang-14 ;;
	*) echo gcc ;;
	esac
}

# The files that say what a kernel of our own has, and who compiles it.
fragments() {
	[ "$1" = uml ] || echo "$top/vm/config/base.config"
	echo "$top/vm/config/$1.config"
}
recipe() {
	case $1 in
	uml) echo compile_uml ;;
	*) echo compile ;;
	esac
}

# What a kernel of our own is named by: all that it is made from.
fingerprint() {
	local files

	mapfile -t files < <(fragments "$1")
	{
		dpkg-query -W -f '${Version}\n' "$source" &&
			"$(compiler "$1")" --version &&
			cat "${files[@]}" &&
			declare -f configure install_headers "$(recipe "$1")"
	} | sha256sum | cut -c 1-16
}

# What olddefconfig did not take as it was wanted: the last line about a symbol
# is what counts.
refused() {
	sed -n 's/^\(# \)\?\(CONFIG_[A-Z0-9_]*\)[= ].*/\2 &/p' "$@" |
		awk '{ name = $1; sub(/^[^ ]* /, ""); wanted[name] = $0 }
		     END { for (name in wanted) print wanted[name] }' |
		while read -r line; do
			case $line in
			'#'*) ! grep -q "^${line:2:-11}=" .config ;;
			*) grep -qxF "$line" .config ;;
			esac || echo "$line"
		done
}

# What is called in the source tree that we are in, in which set -e is off.

# configure FRAGMENT...: with the command ${make[@]}.
configure() {
	local missing

	cat "$@" >fragment &&
		"${make[@]}" KCONFIG_ALLCONFIG=fragment allnoconfig &&
		"${make[@]}" olddefconfig || return
	missing=$(refused "$@")
	[ -z "$missing" ] || die "not to be had: ${missing//$'\n'/, }"
}

# install_headers DIR: what modules are built with.
install_headers() {
	"${make[@]}" run-command \
		KBUILD_RUN_COMMAND="scripts/package/install-extmod-build $1/headers" &&
		cp .config "$1/headers"
}

# compile DIR COMPILER FRAGMENT...: a kernel.
compile() {
	local make=(make -s CC="$2" HOSTCC="$2")

	configure "${@:3}" &&
		"${make[@]}" "-j$(nproc)" bzImage modules &&
		mkdir -p "$1/tests" &&
		cp arch/x86/boot/bzImage "$1" &&
		find lib mm kernel -name '*.ko' -exec install -t "$1/tests" {} + &&
		install_headers "$1"
}

# compile_uml DIR COMPILER FRAGMENT...: the same for user-mode Linux, whose modules
# need what it takes from arch/x86.
compile_uml() {
	local make=(make -s ARCH=um CC="$2" HOSTCC="$2")

	# User-mode Linux keeps 2,696 bytes of a program's registers. The host takes all of them
	# back or none: 11,008 bytes where the processor has AMX, so that no program ran there.
	# What is beyond belongs to what no program here asks for, and is zero.
	sed -i -e '/^int restore_fp_registers/,/^}/ {
			s/struct iovec iov;/static unsigned long whole[2048];\n\t&/
			s/iov.iov_base = fp_regs;/memcpy(whole, fp_regs, FP_SIZE * sizeof(*whole));\n\t\tiov.iov_base = whole;/
			s/iov.iov_len = .*/iov.iov_len = sizeof(whole);/
		}' -e 's/^#include <stdlib.h>/&\n#include <string.h>/' arch/x86/um/os-Linux/registers.c &&
		{
			grep -q 'iov_len = sizeof(whole)' arch/x86/um/os-Linux/registers.c ||
				die "registers.c of user-mode Linux is not what it was"
		} &&
		configure "${@:3}" &&
		"${make[@]}" "-j$(nproc)" linux modules &&
		mkdir "$1" &&
		install -s linux "$1/bzImage" &&
		install_headers "$1" &&
		find arch/x86/Makefile* arch/x86/include arch/x86/um \( -name '*.h' -o -name 'Makefile*' \) \
			-exec cp --parents {} "$1/headers" \; &&
		echo ARCH=um >"$1/make"
}

# own NAME DIR: a kernel of our own.
own() {
	local tmp files

	need $source xz-utils make flex bison bc libelf-dev libssl-dev perl python3 rsync
	echo "building kernel $1, which takes a while" >&2
	tmp=$(mktemp -d "$kernels/.tmp.XXXXXX")
	# shellcheck disable=SC2064
	trap "rm -rf '$tmp'" EXIT
	mkdir "$tmp/$source"
	unpack_source "$source" "$tmp/$source"
	mapfile -t files < <(fragments "$1")
	(
		cd "$tmp/$source"
		# In a directory of its own, no file is what it was.
		export CCACHE_DISABLE=1
		renice -n 10 "$BASHPID" >/dev/null
		"$(recipe "$1")" "$tmp/made" "$(compiler "$1")" "${files[@]}"
	) >"$kernels/.$1.log" 2>&1 </dev/null || {
		tail -n 30 "$kernels/.$1.log" >&2
		die "cannot build kernel $1"
	}
	echo "CC=$(compiler "$1")" >>"$tmp/made/make"
	rm -rf "${kernels:?}/$2"
	mv "$tmp/made" "$kernels/$2"
}

name=${1:?which kernel?}
mkdir -p "$kernels"
if [ -e "$top/vm/config/$name.config" ]; then
	need $source "$(compiler "$name")"
	dir=$name-$(fingerprint "$name")
	if ! [ -e "$kernels/$dir/bzImage" ]; then
		exec 9>"$kernels/.$name.lock"
		flock 9
	fi
	[ -e "$kernels/$dir/bzImage" ] || own "$name" "$dir"
	# For those who look there; we take the directory itself.
	[ "$(readlink "$kernels/$name")" = "$dir" ] || ln -sfn "$dir" "$kernels/$name"
	echo "$kernels/$dir"
	exit
fi
if ! [ -e "$kernels/$name/bzImage" ]; then
	exec 9>"$kernels/.lock"
	flock 9
fi
if ! [ -e "$kernels/$name/bzImage" ]; then
	case $name in
	6.1) stock "$name" linux-image-amd64 linux-headers-amd64 ;;
	6.12) stock "$name" linux-image-6.12-amd64 linux-headers-6.12-amd64 ;;
	newest) newest "$name" trixie ;;
	6.1-rt) stock "$name" linux-image-rt-amd64 linux-headers-rt-amd64 ;;
	6.12-rt) stock "$name" linux-image-6.12-rt-amd64 linux-headers-6.12-rt-amd64 ;;
	arm64-6.12)
		foreign arm64 qemu-system-arm gcc-aarch64-linux-gnu libc6-dev-arm64-cross
		stock "$name" linux-image-6.12-arm64 linux-headers-6.12-arm64 arm64 \
			aarch64-linux-gnu-
		;;
	s390x-6.1)
		foreign s390x qemu-system-misc gcc-s390x-linux-gnu libc6-dev-s390x-cross
		stock "$name" linux-image-s390x linux-headers-s390x s390x s390x-linux-gnu-
		;;
	*) die "no kernel $name in $kernels" ;;
	esac
fi
realpath "$kernels/$name"
