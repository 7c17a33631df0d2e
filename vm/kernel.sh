#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# vm/kernel.sh NAME: prints the directory of a kernel, which contains
#
#   bzImage   the kernel to boot; for user-mode Linux the program to run
#   headers/  the headers that modules are built with (KDIR)
#   make      variables for make, if building modules for this kernel needs any
#   tests/    the kernel's tests of its own detectors of bugs, as modules
#   busybox   if this machine's busybox does not run on that kernel
#   root/usr/bin/make  if modules are built inside root/, which contains the compiler
#
# A name is an entry of ~/.cache/twheel/kernels that contains the first two. The
# kernels below are made on demand. Any other entry works as well, for example a
# kernel that you have built yourself.
#
#   6.12, 6.1, 6.12-rt, 6.1-rt, arm64-6.12, s390x-6.1  kernels of Debian
#   newest     the newest kernel in Debian's backports, with the compiler of that release
#   debug      KASAN, lockdep, debug objects, kmemleak, fault injection, UBSAN, KCOV, GCOV
#   kcsan      KCSAN, which finds data races
#   rt-debug   PREEMPT_RT, with lockdep and debug objects
#   kmsan      KMSAN, which finds uninitialized memory that is copied to user space
#   uml        user-mode Linux with what it supports of debug. It is a program of this
#              machine, with one processor and at the speed of the machine
#
# Debian's kernels are unpacked, not installed, so no hook of a package runs. An
# unpacked kernel is used, without a network, until you remove it from the cache;
# then the newest one is downloaded.
#
# The other kernels are built from Debian's source with vm/config/base.config and
# vm/config/NAME.config; uml only uses the latter. The name in the cache is a link to
# a directory whose name is a hash of all inputs, so a kernel is built again only
# if an input changes.

. "$(dirname "$0")/lib.sh"

kernels=$cache/kernels
version=6.12
source=linux-source-$version

# Options for apt.
apt=()

# foreign ARCHITECTURE PACKAGE...: prepares for kernels of that architecture. apt uses separate
# lists and settings for it, so that the machine's own do not change.
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

# dependency PACKAGE PATTERN: prints which packages of these names it depends on.
dependency() {
	apt-cache "${apt[@]}" depends -i "$1" |
		sed -n 's/^ *|\?Depends: <\?\([^:>]*\).*/\1/p' | grep "$2" || true
}

# stock NAME IMAGE HEADERS [ARCHITECTURE CROSS-COMPILER]: makes a kernel from the packages on which
# these two metapackages depend.
stock() {
	local arch=${4:+:$4} image headers version dir tmp debs

	with_index apt-cache "${apt[@]}" show "$2$arch" "$3$arch"
	image=$(dependency "$2$arch" '^linux-image-' | head -n 1)
	headers=$(dependency "$3$arch" '^linux-headers-' | head -n 1)
	if [ -z "$image" ] || [ -z "$headers" ]; then
		die "apt has no packages for kernel $1: $2 and $3"
	fi
	echo "fetching $image" >&2

	tmp=$(mktemp -d "$kernels/.tmp.XXXXXX")
	# shellcheck disable=SC2064
	trap "rm -rf '$tmp'" EXIT
	# The headers that all architectures share, and the build tools, which run on this machine.
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

	# The links between the packages are relative, but one path in a makefile is absolute.
	ln -s "root/usr/src/$headers" "$tmp/headers"
	sed -i "s|^include /usr/src/|include $kernels/$dir/root/usr/src/|" \
		"$tmp/headers/Makefile"

	rm -rf "${kernels:?}/$dir"
	chmod 755 "$tmp"
	mv "$tmp" "$kernels/$dir"
	ln -sfn "$dir" "$kernels/$1"
}

# newest NAME RELEASE: makes a kernel from the backports for that release. This machine's C
# library may be too old for the programs that build modules, so this unpacks a minimal system of
# the release.
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

# compiler NAME: prints the compiler for a kernel that we build. Only clang has KMSAN.
compiler() {
	case $1 in
	kmsan) echo clang-14 ;;
	*) echo gcc ;;
	esac
}

# fragments NAME: prints the configuration files of a kernel that we build. recipe NAME: prints the
# function that compiles it.
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

# fingerprint NAME: prints a hash of everything that a kernel of ours is made from.
fingerprint() {
	local files

	mapfile -t files < <(fragments "$1")
	{
		dpkg-query -W -f '${Version}\n' "$source" &&
			"$(compiler "$1")" --version &&
			cat "${files[@]}" &&
			declare -f configure install_headers "$(recipe "$1")" &&
			if [ "$1" = uml ]; then declare -f mend_registers; fi
	} | sha256sum | cut -c 1-16
}

# refused FRAGMENT...: prints the settings that olddefconfig has changed. The last line about a
# symbol counts.
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

# The functions below run in the source tree, and in conditions, where set -e has no effect.
# fingerprint() includes their text, so any change of it rebuilds the kernels.

# configure FRAGMENT...: makes the configuration with the command ${make[@]}.
configure() {
	local missing

	cat "$@" >fragment &&
		"${make[@]}" KCONFIG_ALLCONFIG=fragment allnoconfig &&
		"${make[@]}" olddefconfig || return
	missing=$(refused "$@")
	[ -z "$missing" ] || die "not to be had: ${missing//$'\n'/, }"
}

# install_headers DIR: installs the files that building a module needs.
install_headers() {
	"${make[@]}" run-command \
		KBUILD_RUN_COMMAND="scripts/package/install-extmod-build $1/headers" &&
		cp .config "$1/headers"
}

# compile DIR COMPILER FRAGMENT...: compiles a kernel.
compile() {
	local make=(make -s CC="$2" HOSTCC="$2")

	configure "${@:3}" &&
		"${make[@]}" "-j$(nproc)" bzImage modules &&
		mkdir -p "$1/tests" &&
		cp arch/x86/boot/bzImage "$1" &&
		find lib mm kernel -name '*.ko' -exec install -t "$1/tests" {} + &&
		install_headers "$1"
}

# compile_uml DIR COMPILER FRAGMENT...: compiles user-mode Linux, whose modules need headers of
# arch/x86.
compile_uml() {
	local make=(make -s ARCH=um CC="$2" HOSTCC="$2")

	mend_registers . &&
		configure "${@:3}" &&
		"${make[@]}" "-j$(nproc)" linux modules &&
		mkdir "$1" &&
		install -s linux "$1/bzImage" &&
		install_headers "$1" &&
		find arch/x86/Makefile* arch/x86/include arch/x86/um \( -name '*.h' -o -name 'Makefile*' \) \
			-exec cp --parents {} "$1/headers" \; &&
		echo ARCH=um >"$1/make"
}

# own NAME DIR: builds a kernel from Debian's source and our configuration.
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
		# The directory is a new one each time, so ccache would never hit.
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

name=${1:?the name of a kernel is missing}
mkdir -p "$kernels"
if [ -e "$top/vm/config/$name.config" ]; then
	need $source "$(compiler "$name")"
	dir=$name-$(fingerprint "$name")
	if ! [ -e "$kernels/$dir/bzImage" ]; then
		exec 9>"$kernels/.$name.lock"
		flock 9
	fi
	[ -e "$kernels/$dir/bzImage" ] || own "$name" "$dir"
	# The link is for people who look there. The scripts use the directory itself.
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
	*) die "there is no kernel $name: put it into $kernels, or use a name that this script knows" ;;
	esac
fi
realpath "$kernels/$name"
