#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# packaging/dkms.sh install | remove: gives the module to DKMS, which builds and installs
# it for the running kernel (KERNELVER= names another), for the others that are here with
# their headers, and for each that comes later; or takes it back, with all that was built.
# As root.
#
# packaging/dkms.sh sources DIR: puts what DKMS needs into a directory.
#
# packaging/dkms.sh sign FILE: signs a module by the sign-file of KDIR, with the key KEY and
# its certificate CERT, which are DKMS's by default.
#
# From the next boot on, or after modprobe, /dev/twheel is there; the first to
# open it loads the module.

set -euo pipefail
# All may read what is installed, whatever root's umask is.
umask 022

cd "$(dirname "$0")/.."

rules=/etc/udev/rules.d/60-twheel.rules
kernel=${KERNELVER:-$(uname -r)}

die() {
	echo "dkms.sh: $*" >&2
	exit 1
}

version() {
	sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' packaging/dkms.conf
}

# Of every version, as two of them would dispute over the name.
remove() {
	local known

	for known in /var/lib/dkms/twheel/[0-9]*; do
		[ ! -d "$known" ] || dkms remove "twheel/${known##*/}" --all
	done
	rm -rf /usr/src/twheel-[0-9]*
	rm -f "$rules"
}

# The package has the same files in the same places.
refuse_package() {
	local state

	state=$(dpkg-query -W -f '${db:Status-Status}' twheel-dkms 2>/dev/null) || return 0
	[ "$state" != installed ] ||
		die "the package twheel-dkms is installed: apt-get purge twheel-dkms"
}

is_loaded() {
	[ -e /sys/module/twheel ]
}

# What is loaded stays, and modprobe is content with it.
is_loaded_from() {
	is_loaded && [ "$(cat /sys/module/twheel/srcversion)" = \
		"$(modinfo -k "$1" -F srcversion twheel)" ]
}

install_sources() {
	local to=$1 source

	mkdir -p "$to"
	for source in Kbuild COPYING twheel*.c include/*.h include/uapi/linux/*.h; do
		case $source in
		# What an earlier build in the checkout has left.
		*.mod.c) ;;
		*) install -D -m 644 "$source" "$to/$source" ;;
		esac
	done
	install -m 644 packaging/dkms.conf "$to"
}

reload_rules() {
	# Where no udevd runs there is nobody to tell.
	udevadm control --reload 2>/dev/null || true
}

# Where DKMS keeps its key, its configuration says, which is a script.
sign() {
	local file=$1 kernelver=$kernel tool key cert conf
	local mok_signing_key=/var/lib/dkms/mok.key mok_certificate=/var/lib/dkms/mok.pub

	for conf in /etc/dkms/framework.conf{,.d/*.conf}; do
		# shellcheck disable=SC1090
		[ ! -r "$conf" ] || . "$conf"
	done
	key=${KEY:-$mok_signing_key}
	cert=${CERT:-$mok_certificate}
	tool=${KDIR:-/lib/modules/$kernelver/build}/scripts/sign-file
	[ -x "$tool" ] || die "no $tool: KDIR= names the headers of a kernel"
	[[ ($key = pkcs11:* || -r $key) && -r $cert ]] ||
		die "no key $key with $cert: say KEY= and CERT=. DKMS makes its own when it builds a module"
	"$tool" sha512 "$key" "$cert" "$file"
}

case ${1:-} in
sources)
	install_sources "${2:?which directory?}"
	exit
	;;
sign)
	sign "${2:?which module?}"
	exit
	;;
esac
[ "$(id -u)" = 0 ] || die "only root can do that"
command -v dkms >/dev/null || die "there is no dkms: apt-get install dkms"

case ${1:-} in
install)
	refuse_package
	[ -e "/lib/modules/$kernel/build" ] ||
		die "no headers of kernel $kernel: apt-get install linux-headers-$kernel"
	remove
	install_sources "/usr/src/twheel-$(version)"
	install -D -m 644 packaging/60-twheel.rules "$rules"
	reload_rules
	dkms install "twheel/$(version)" -k "$kernel"
	# One may be the next that is booted, and DKMS comes to those only that come now.
	for other in /lib/modules/*/build; do
		other=$(basename "$(dirname "$other")")
		[ "$other" = "$kernel" ] || dkms install "twheel/$(version)" -k "$other" ||
			echo "dkms.sh: not for $other" >&2
	done
	if is_loaded && ! is_loaded_from "$kernel"; then
		echo "installed for $kernel; another one is loaded: rmmod twheel, then modprobe twheel"
	else
		echo "installed for $kernel; modprobe twheel loads it"
	fi
	;;
remove)
	refuse_package
	remove
	reload_rules
	! is_loaded || echo "the module stays loaded until the next boot, or rmmod twheel"
	;;
*)
	die "install, remove, sources or sign?"
	;;
esac
