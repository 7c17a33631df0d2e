# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced by the scripts beside it.

set -euo pipefail

export LC_ALL=C
# With it, cd prints a directory.
unset CDPATH
# When make started us, its options are not for the makes that we start.
unset MAKEFLAGS MFLAGS MAKELEVEL

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$top/build
logs=$build/logs
# shellcheck disable=SC2034
cache=${XDG_CACHE_HOME:-$HOME/.cache}/twheel

mkdir -p "$logs"

# Many stages compile the same files with the same flags, and so did their last run, in this
# checkout or in another. Where make asks for the dependencies, ccache goes by these: what it
# does not have then costs no second run of the preprocessor.
if [ -d /usr/lib/ccache ]; then
	export PATH=/usr/lib/ccache:$PATH CCACHE_MAXSIZE=1G CCACHE_BASEDIR=$top CCACHE_NOHASHDIR=1
	export CCACHE_DEPEND=1
	export CCACHE_DIR=${CCACHE_DIR:-$cache/ccache}
fi

# The addresses of a process that is not randomized are those that sanitizers expect.
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
*[[:space:]:]*) die "the kernel's makefiles take no space and no colon in a path: $top, $cache" ;;
esac

# Runs a command that is only worth reading when it fails.
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

# Tries a command, and again with a fresh package index if it fails.
with_index() {
	"$@" >/dev/null 2>&1 </dev/null && return
	quietly apt_get update
	quietly "$@"
}

# need PACKAGE...: installs those that are missing.
need() {
	local missing begin=$SECONDS

	missing=$(comm -23 <(printf '%s\n' "$@" | sort -u) \
		<(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
			sed -n 's/^installed //p' | sort -u))
	[ -n "$missing" ] || return 0
	echo "installing ${missing//$'\n'/ }" >&2
	# shellcheck disable=SC2086
	with_index apt_get install --no-install-recommends $missing
	echo "they took $((SECONDS - begin)) s" >&2
}

# debian_mirror: where apt has Debian's packages from.
debian_mirror() {
	local all

	# shellcheck disable=SC2016
	all=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian')
	[ -n "$all" ] || die "apt knows no mirror of Debian"
	head -n 1 <<<"$all"
}

# Two thirds of the kernel's source, in which we have no share.
unwanted=(
	'arch/[!ux]*/*.[chS]' 'arch/*/boot/dts/*' 'Documentation/*/*' 'samples/*.[ch]'
	'sound/*.[ch]' 'drivers/gpu/*.[ch]' 'drivers/infiniband/*.[ch]'
	'drivers/media/*.[ch]' 'drivers/net/ethernet/*.[ch]'
	'drivers/net/wireless/*.[ch]' 'drivers/scsi/*.[ch]' 'drivers/staging/*.[ch]'
)

# unpack_source PACKAGE DIR: what is left of it. DIR is made what the archive's only directory is.
unpack_source() {
	tar -xf "/usr/src/$1.tar.xz" -I 'xz -T0' -C "$2" --strip-components=1 \
		"${unwanted[@]/#/--exclude=$1/}"
	find "$2/tools/testing" -mindepth 1 -maxdepth 1 ! -name kunit ! -name selftests -exec rm -rf {} +
	find "$2/tools/testing/selftests" -mindepth 1 ! -name 'kselftest*.h' -delete
}

# inside ROOT DIR COMMAND...: runs it in a tree of Debian's, where DIR is /mnt.
inside() {
	local unshare=(unshare -m)

	[ "$(id -u)" = 0 ] || unshare+=(-r)
	# shellcheck disable=SC2016
	"${unshare[@]}" sh -c 'mount --rbind /proc "$0/proc" && mount --bind "$1" "$0/mnt" &&
		root=$0 && shift && exec chroot "$root" "$@"' "$@"
}
