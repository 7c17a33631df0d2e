# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Functions and variables of the scripts here and in ci/, tests/, bench/ and packaging/.

set -euo pipefail

export LC_ALL=C
# If CDPATH is set, cd prints the directory that it enters.
unset CDPATH
# If make started this script, its options must not reach the makes that we start.
unset MAKEFLAGS MFLAGS MAKELEVEL

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$top/build
logs=$build/logs
# shellcheck disable=SC2034
cache=${XDG_CACHE_HOME:-$HOME/.cache}/twheel

mkdir -p "$logs"

# Many stages compile the same files with the same flags, and their last run did, in this checkout
# or in another one. With CCACHE_DEPEND, ccache uses the dependencies that the compiler writes for
# make, so a miss does not cost a second run of the preprocessor.
if [ -d /usr/lib/ccache ]; then
	export PATH=/usr/lib/ccache:$PATH CCACHE_MAXSIZE=1G CCACHE_BASEDIR=$top CCACHE_NOHASHDIR=1
	export CCACHE_DEPEND=1
	export CCACHE_DIR=${CCACHE_DIR:-$cache/ccache}
fi

# Sanitizers expect the addresses of a process that is not randomized.
fixed=()
# shellcheck disable=SC2034
! setarch -R true 2>/dev/null || fixed=(setarch -R)

die() {
	echo "${0##*/}: $*" >&2
	exit 1
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "need root or sudo for: $*"
	fi
}

case $top$cache in
*[[:space:]:]*) die "the kernel's makefiles do not work with a space or a colon in a path: move $top or $cache" ;;
esac

# quietly COMMAND...: runs a command, and shows its output only if it fails.
quietly() {
	local out

	out=$(mktemp)
	if "$@" >"$out" 2>&1 </dev/null; then
		rm "$out"
		return 0
	fi
	cat "$out" >&2
	rm "$out"
	return 1
}

apt_get() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
		-o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0 "$@"
}

# with_index COMMAND...: runs a command, and repeats it with a fresh package index if it fails.
with_index() {
	"$@" >/dev/null 2>&1 </dev/null && return
	quietly apt_get update
	quietly "$@"
}

# need PACKAGE...: installs the packages that are missing.
need() {
	local missing begin=$SECONDS

	missing=$(comm -23 <(printf '%s\n' "$@" | sort -u) \
		<(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
			sed -n 's/^installed //p' | sort -u))
	[ -n "$missing" ] || return 0
	echo "installing ${missing//$'\n'/ }" >&2
	# shellcheck disable=SC2086
	with_index apt_get install --no-install-recommends $missing
	echo "the installation took $((SECONDS - begin)) s" >&2
}

# debian_mirror: prints the address from which apt downloads Debian's packages.
debian_mirror() {
	local all

	# shellcheck disable=SC2016
	all=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian')
	[ -n "$all" ] || die "no mirror of Debian is configured: add one to /etc/apt/sources.list"
	head -n 1 <<<"$all"
}

# Two thirds of the kernel's source, which our kernels do not compile.
unwanted=(
	'arch/[!ux]*/*.[chS]' 'arch/*/boot/dts/*' 'Documentation/*/*' 'samples/*.[ch]'
	'sound/*.[ch]' 'drivers/gpu/*.[ch]' 'drivers/infiniband/*.[ch]'
	'drivers/media/*.[ch]' 'drivers/net/ethernet/*.[ch]'
	'drivers/net/wireless/*.[ch]' 'drivers/scsi/*.[ch]' 'drivers/staging/*.[ch]'
)

# unpack_source PACKAGE DIR: unpacks the rest of the source. DIR replaces the archive's only
# directory.
unpack_source() {
	tar -xf "/usr/src/$1.tar.xz" -I 'xz -T0' -C "$2" --strip-components=1 \
		"${unwanted[@]/#/--exclude=$1/}"
	find "$2/tools/testing" -mindepth 1 -maxdepth 1 ! -name kunit ! -name selftests -exec rm -rf {} +
	find "$2/tools/testing/selftests" -mindepth 1 ! -name 'kselftest*.h' -delete
}

# mend_registers DIR: changes the source of user-mode Linux so that it runs on processors with AMX.
# It saves 2,696 bytes of a program's registers, but the host only restores all of them, which are
# 11,008 bytes there. The rest belongs to features that no program here uses, and is set to zero.
mend_registers() {
	local file=$1/arch/x86/um/os-Linux/registers.c

	! grep -q 'iov_len = sizeof(whole)' "$file" || return 0
	sed -i -e '/^int restore_fp_registers/,/^}/ {
			s/struct iovec iov;/static unsigned long whole[2048];\n\t&/
			s/iov.iov_base = fp_regs;/memcpy(whole, fp_regs, FP_SIZE * sizeof(*whole));\n\t\tiov.iov_base = whole;/
			s/iov.iov_len = .*/iov.iov_len = sizeof(whole);/
		}' -e 's/^#include <stdlib.h>/&\n#include <string.h>/' "$file"
	grep -q 'iov_len = sizeof(whole)' "$file" ||
		die "registers.c of user-mode Linux is not what it was"
}

# inside ROOT DIR COMMAND...: runs a command in a tree with a Debian, where DIR is mounted on /mnt.
inside() {
	local unshare=(unshare -m)

	[ "$(id -u)" = 0 ] || unshare+=(-r)
	# shellcheck disable=SC2016
	"${unshare[@]}" sh -c 'mount --rbind /proc "$0/proc" && mount --bind "$1" "$0/mnt" &&
		root=$0 && shift && exec chroot "$root" "$@"' "$@"
}
