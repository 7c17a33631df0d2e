#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/package/debian.sh [install | cross]: builds the Debian packages into build/packages,
# from a copy of the files that git tracks, and checks them with lintian. With "install", a
# Debian in a virtual machine then installs and uses them: see tests/package/installed.sh. With
# "cross", they are built for arm64, and installed beside those of this architecture. Prints
# TAP.

# check() calls all of these functions.
# shellcheck disable=SC2317

. "$(dirname "$0")/../../vm/lib.sh"

cd "$top"
packages=$build/packages
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# shellcheck source=../../tests/lib/tap.sh
. tests/lib/tap.sh

# The version in Debian's changelog is the one that DKMS uses.
one_version() {
	[ "$(dpkg-parsechangelog -S Version)" = \
		"$(sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' packaging/dkms.conf)" ]
}

build_packages() {
	local from=$packages/twheel

	rm -rf "$packages"
	mkdir -p "$from"
	git ls-files -z | xargs -0 cp --parents -t "$from" || return
	(cd "$from" && DEB_BUILD_OPTIONS="parallel=$(nproc) noautodbgsym" \
		dpkg-buildpackage -b -us -uc) || return
	rm -r "$from"
}

lintian_is_content() {
	lintian --allow-root --fail-on error,warning "$packages"/twheel_*.changes
}

# A file that is in no package would have stopped the build. Each package has at least these.
contents() {
	local deb

	for deb in "$packages"/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -tf - | sed "s|^\.|$(basename "$deb" | sed 's/_.*//') |"
	done >"$dir/contents"
	grep -vxF -f "$dir/contents" <<-END && return 1
		libtwheel-dev /usr/include/libtwheel.h
		libtwheel-dev /usr/include/libtwheel/twheel.h
		libtwheel-dev /usr/lib/$triplet/libtwheel.a
		libtwheel-dev /usr/lib/$triplet/pkgconfig/libtwheel.pc
		libtwheel-dev /usr/share/doc/libtwheel-dev/porting.md.gz
		libtwheel-dev /usr/share/man/man3/libtwheel.3.gz
		libtwheel0 /usr/lib/$triplet/libtwheel.so.0
		python3-twheel /usr/lib/python3/dist-packages/twheel/__init__.py
		python3-twheel /usr/lib/python3/dist-packages/twheel/py.typed
		python3-twheel /usr/lib/python3/dist-packages/twheeld/py.typed
		twheel-dkms /lib/udev/rules.d/60-twheel.rules
		twheel-dkms /usr/share/man/man4/twheel.4.gz
		twheel-dkms /usr/src/twheel-$version/dkms.conf
		twheel-utils /usr/bin/twheelctl
		twheel-utils /usr/share/doc/twheel-utils/examples/twheel.grafana.json
		twheel-utils /usr/share/doc/twheel-utils/examples/twheel.rules.yml
		twheel-utils /usr/share/man/man1/twheelctl.1.gz
		twheeld /etc/twheel/twheeld.conf
		twheeld /lib/systemd/system/twheeld.service
		twheeld /usr/sbin/twheeld
		twheeld /usr/share/doc/twheeld/examples/twheeld.grafana.json
		twheeld /usr/share/doc/twheeld/examples/twheeld.rules.yml
	END
	true
}

# Each symbol is recorded with the package version that introduced it.
symbols() {
	dpkg-deb --ctrl-tarfile "$packages"/libtwheel0_*.deb | tar -xOf - ./symbols |
		grep -x ' twheel_open@LIBTWHEEL_0.3 0.3.0'
}

# The Python package loads the library by hand, so no tool finds out which functions it needs.
python_needs() {
	dpkg-deb -f "$packages"/python3-twheel_*.deb Depends | grep -F "libtwheel0 (>= $version)"
}

# Runs in a Debian of its own, because headers of another architecture may replace this one's.
cross() {
	local root=$dir/cross

	mkdir -p "$dir/given/twheel"
	git ls-files -z | xargs -0 cp --parents -t "$dir/given/twheel" &&
		mmdebstrap --variant=apt --architectures="$(dpkg --print-architecture),arm64" \
			--include=crossbuild-essential-arm64 --format=directory bookworm "$root" \
			"deb $(debian_mirror) bookworm main" || return
	cp /etc/resolv.conf "$root/etc"
	inside "$root" "$dir/given" sh -ec '
		export DEBIAN_FRONTEND=noninteractive
		cd /mnt/twheel
		apt-get -q update
		apt-get -q -y --no-install-recommends -aarm64 build-dep ./
		dpkg-buildpackage -aarm64 -b -us -uc
		apt-get -q -y --no-install-recommends install /mnt/*_arm64.deb'
}

# Boots the machine, whose script prints TAP. The machine's clock is the host's.
machine() {
	local from

	from=$("$top/vm/debian.sh")
	mkdir "$dir/given"
	cp "$packages"/*.deb debian/tests/smoke userspace/examples/first.c "$dir/given"
	cp tests/package/installed.sh "$dir/given/run"
	cp tests/lib/tap.sh "$dir/given"
	truncate -s 64M "$dir/given.img"
	mke2fs -q -t ext4 -d "$dir/given" "$dir/given.img"
	timeout 1500 qemu-system-x86_64 -accel 'tcg,thread=multi' -cpu max,-cx16 -smp 2 -m 1G \
		-no-user-config -nodefaults -display none -kernel "$from/vmlinuz" -initrd "$from/initrd" \
		-drive "file=$from/disk.img,format=raw,if=virtio,snapshot=on" \
		-drive "file=$dir/given.img,format=raw,if=virtio,readonly=on" \
		-serial "file:$logs/installed.console.log" -serial "file:$dir/said" \
		-append 'root=/dev/vda rw console=ttyS0 tsc=reliable no_timer_check panic=-1' </dev/null
	tr -d '\r' <"$dir/said"
}

need build-essential debhelper dh-dkms dh-python dpkg-dev git lintian python3 uthash-dev xxd
"$top/vm/deps.sh" daemon
triplet=$(dpkg-architecture -qDEB_HOST_MULTIARCH)
version=$(dpkg-parsechangelog -S Version)
if [ "${1:-}" = install ]; then
	"$top/vm/deps.sh" vm
	need e2fsprogs
	# If the packages fail, the stage that tests them reports it.
	quietly build_packages
	machine
	exit
fi
echo 'TAP version 13'
if [ "${1:-}" = cross ]; then
	need mmdebstrap
	check "packages for arm64 can be built and installed" cross
	done_testing
	exit
fi
check "all files agree on the version" one_version
check "dpkg-buildpackage -b" build_packages
check "lintian has no complaint" lintian_is_content
check "each package has its files" contents
check "the symbols file matches the library" symbols
check "python3-twheel depends on the library's version" python_needs
done_testing
