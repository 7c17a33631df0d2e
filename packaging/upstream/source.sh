#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# packaging/upstream/source.sh [newest | 6.12]: prints the directory of a kernel source from Debian,
# for the upstream series and its check. newest is the newest package in the backports of the
# release after this machine's. A source in the cache is used until you remove it.
#
# Drivers and architectures that the check does not build are not unpacked.

. "$(dirname "$0")/../../vm/lib.sh"

release=trixie-backports
name=${1:-newest}
sources=$cache/source
link=$sources/upstream-$name

# fetch DIR: downloads the newest linux-source of the backports into DIR, with lists and settings of
# apt that are separate from the machine's.
fetch() {
	local apt package

	mkdir -p "$1"/{lists,cache/archives}/partial
	echo "deb $(debian_mirror) $release main" >"$1/sources.list"
	apt=(
		-o "Dir::State::lists=$1/lists" -o "Dir::Cache=$1/cache" -o Dir::State::status=/dev/null
		-o "Dir::Etc::sourcelist=$1/sources.list" -o Dir::Etc::sourceparts=-
		-o Acquire::Languages=none -o APT::Sandbox::User=root
	)
	quietly apt-get -q "${apt[@]}" update
	package=$(apt-cache "${apt[@]}" depends linux-source |
		sed -n 's/^ *Depends: \(linux-source-[0-9.]*\)$/\1/p' | head -n 1)
	[ -n "$package" ] || die "Debian's $release contains no linux-source package"
	echo "fetching $package" >&2
	(cd "$1" && quietly apt-get -q "${apt[@]}" download "$package")
	dpkg-deb --fsys-tarfile "$1/$package"_*.deb | tar -xf - -C "$1" "./usr/src/$package.tar.xz"
	archive=$1/usr/src/$package.tar.xz
	version=$(dpkg-deb -f "$1/$package"_*.deb Version)
}

mkdir -p "$sources"
exec 9>"$sources/.lock-upstream-$name"
flock 9
if ! [ -e "$link/Makefile" ]; then
	need xz-utils
	tmp=$(mktemp -d "$sources/.tmp.XXXXXX")
	# shellcheck disable=SC2064
	trap "rm -rf '$tmp'" EXIT
	case $name in
	newest)
		fetch "$tmp"
		;;
	6.12)
		need linux-source-6.12
		archive=/usr/src/linux-source-6.12.tar.xz
		version=$(dpkg-query -W -f '${Version}' linux-source-6.12)
		;;
	*)
		die "there is no source named $name: use newest or 6.12"
		;;
	esac
	dir=$sources/upstream-$(basename "$archive" .tar.xz)-$version
	mkdir "$tmp/tree"
	unwanted=('arch/*/boot/dts/*' 'samples/*.[ch]' 'sound/*.[ch]' 'drivers/media/*.[ch]')
	for arch in alpha arc arm csky hexagon loongarch m68k microblaze mips nios2 openrisc parisc \
		sh sparc xtensa; do
		unwanted+=("arch/$arch/*.[chS]")
	done
	for part in gpu infiniband scsi staging net/ethernet net/wireless; do
		unwanted+=("drivers/$part/*.[ch]")
	done
	tar -xf "$archive" -I 'xz -T0' -C "$tmp/tree" --strip-components=1 \
		"${unwanted[@]/#/--exclude=*/}"
	rm -rf "$dir"
	mv "$tmp/tree" "$dir"
	ln -sfn "$(basename "$dir")" "$link"
fi
realpath "$link"
