#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# vm/debian.sh: prints the directory of a Debian that boots in QEMU, as a user has it who
# installs packages: systemd, udev, the headers of its kernel, DKMS, and the libraries
# that our packages depend on. In it are
#
#   vmlinuz, initrd, disk.img   its only disk, which must come first (vda)
#
# It runs the script run of its second disk, with that disk's root for $1 and the output
# on the second serial port, and powers off. If the script leaves a file /again, it reboots
# in place of that, and the script runs once more.
#
# All of it comes from Debian's packages, once: it stays in the cache under a name that is
# made from this script.

. "$(dirname "$0")/lib.sh"

packages=(
	linux-image-cloud-amd64 linux-headers-cloud-amd64 initramfs-tools systemd-sysv udev kmod
	dkms gcc libc6-dev man-db libhiredis0.14 libcurl4 libmicrohttpd12 libjansson4 libical3
	python3 python3-cffi podman crun
)
dir=$cache/debian/$(sha256sum "$0" | cut -c 1-16)

# unit: what runs the script.
unit() {
	cat <<-'END'
		[Unit]
		Description=What the second disk says
		ConditionPathExists=/dev/vdb

		[Service]
		Type=oneshot
		ExecStart=mkdir -p /given
		ExecStart=mount -o ro /dev/vdb /given
		ExecStart=sh -c 'exec sh /given/run /given >/dev/ttyS1 2>&1'
		ExecStopPost=sh -c 'if [ -e /again ]; then rm /again; systemctl --no-block reboot; \
			else systemctl --no-block poweroff; fi'
		TimeoutStartSec=infinity

		[Install]
		WantedBy=multi-user.target
	END
}

# make_it DIR: as root.
make_it() {
	local root=$1/root units=$1/root/etc/systemd/system

	mmdebstrap --variant=apt --include="${packages[*]}" --format=directory bookworm "$root" \
		"deb $mirror bookworm main"
	unit >"$units/given.service"
	mkdir -p "$units/multi-user.target.wants"
	ln -s ../given.service "$units/multi-user.target.wants"
	echo '/dev/vda / ext4 rw 0 1' >"$root/etc/fstab"
	rm -rf "${root:?}"/var/cache/apt/archives/*.deb
	cp "$root"/boot/vmlinuz-* "$1/vmlinuz"
	cp "$root"/boot/initrd.img-* "$1/initrd"
	mke2fs -q -t ext4 -d "$root" "$1/disk.img" 1600M
	rm -rf "${root:?}"
	chmod a+r "$1"/*
}

if ! [ -d "$dir" ]; then
	mkdir -p "$cache/debian"
	exec 9>"$cache/debian/.lock"
	flock 9
fi
if ! [ -d "$dir" ]; then
	need mmdebstrap e2fsprogs
	echo "making a Debian to boot, which takes minutes" >&2
	mirror=$(debian_mirror)
	tmp=$(mktemp -d "$cache/debian/.tmp.XXXXXX")
	# shellcheck disable=SC2064
	trap "as_root rm -rf '$tmp'" EXIT
	quietly as_root bash -euo pipefail -c "$(declare -p packages mirror; declare -f unit make_it)
		make_it '$tmp'"
	chmod 755 "$tmp"
	# Older ones are of other scripts.
	find "$cache/debian" -mindepth 1 -maxdepth 1 -type d ! -name '.tmp.*' -exec rm -rf {} +
	mv "$tmp" "$dir"
fi
echo "$dir"
