#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# vm/kernel.sh NAME: prints the directory of a kernel. In it are
#
#   bzImage   what to boot
#   headers/  what to build modules against (KDIR)
#
# A name is an entry of ~/.cache/twheel/kernels with these two in it. Those
# listed at the end are made on demand; whatever else is put there, a kernel
# of one's own for instance, works as well.
#
# Debian's kernels are unpacked, not installed: no hook of the package runs.
# What has been unpacked stays in use, and needs no network, until it is
# removed from the cache. Then the newest comes.

. "$(dirname "$0")/lib.sh"

kernels=$cache/kernels

# dependency PACKAGE PATTERN...: the names of packages that it depends on.
dependency() {
	apt-cache depends -i "$1" | sed -n 's/^ *|\?Depends: //p' | grep "$2" || true
}

# stock NAME IMAGE HEADERS: a kernel out of the two metapackages.
stock() {
	local image headers version dir tmp debs

	with_index apt-cache show "$2" "$3"
	image=$(dependency "$2" '^linux-image-' | head -n 1)
	headers=$(dependency "$3" '^linux-headers-' | head -n 1)
	if [ -z "$image" ] || [ -z "$headers" ]; then
		die "no packages for kernel $1"
	fi
	echo "fetching $image" >&2

	tmp=$(mktemp -d "$kernels/.tmp.XXXXXX")
	# shellcheck disable=SC2064
	trap "rm -rf '$tmp'" EXIT
	# shellcheck disable=SC2046
	(cd "$tmp" && with_index apt-get -q download "$image" "$headers" \
		$(dependency "$headers" '^linux-\(headers\|kbuild\)-'))

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

	# The links between the packages are relative, one path is not.
	ln -s "root/usr/src/$headers" "$tmp/headers"
	sed -i "s|^include /usr/src/|include $kernels/$dir/root/usr/src/|" \
		"$tmp/headers/Makefile"

	rm -rf "${kernels:?}/$dir"
	chmod 755 "$tmp"
	mv "$tmp" "$kernels/$dir"
	ln -sfn "$dir" "$kernels/$1"
}

name=${1:?which kernel?}
if ! [ -e "$kernels/$name/bzImage" ]; then
	mkdir -p "$kernels"
	exec 9>"$kernels/.lock"
	flock 9
fi
if ! [ -e "$kernels/$name/bzImage" ]; then
	case $name in
	6.1) stock "$name" linux-image-amd64 linux-headers-amd64 ;;
	6.12) stock "$name" linux-image-6.12-amd64 linux-headers-6.12-amd64 ;;
	*) die "no kernel $name in $kernels" ;;
	esac
fi
realpath "$kernels/$name"
