#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# packaging/dkms.sh install       registers the module with DKMS, which builds and installs it for
#                                 the running kernel (or KERNELVER), for the other kernels whose
#                                 headers are installed, and for each kernel installed later
# packaging/dkms.sh remove        removes it from DKMS, with all modules that were built
# packaging/dkms.sh sources DIR   copies the files that DKMS needs into a directory
# packaging/dkms.sh sign FILE     signs a module with the sign-file program of KDIR, the key KEY and
#                                 its certificate CERT (default: those of DKMS)
#
# install and remove need root. /dev/twheel exists from the next boot on, or after modprobe, and
# opening it loads the module.

set -euo pipefail
# Installed files are readable by everybody, even if root's umask is stricter.
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

# Removes every version, because two of them would conflict over the name of the module.
remove() {
	local known

	for known in /var/lib/dkms/twheel/[0-9]*; do
		[ ! -d "$known" ] || dkms remove "twheel/${known##*/}" --all
	done
	rm -rf /usr/src/twheel-[0-9]*
	rm -f "$rules"
}

# Debian's package installs the same files in the same places.
refuse_package() {
	local state

	state=$(dpkg-query -W -f '${db:Status-Status}' twheel-dkms 2>/dev/null) || return 0
	[ "$state" != installed ] ||
		die "the package twheel-dkms is installed; remove it first: apt-get purge twheel-dkms"
}

is_loaded() {
	[ -e /sys/module/twheel ]
}

# A module stays loaded when another one is installed, and modprobe does not replace it.
is_loaded_from() {
	is_loaded && [ "$(cat /sys/module/twheel/srcversion)" = \
		"$(modinfo -k "$1" -F srcversion twheel)" ]
}

install_sources() {
	local to=$1 source

	mkdir -p "$to"
	for source in Kbuild COPYING twheel*.c include/*.h include/uapi/linux/*.h; do
		case $source in
		# An earlier build in the checkout has generated this.
		*.mod.c) ;;
		*) install -D -m 644 "$source" "$to/$source" ;;
		esac
	done
	install -m 644 packaging/dkms.conf "$to"
}

reload_rules() {
	# This fails if udevd does not run, and then nothing needs to reload.
	udevadm control --reload 2>/dev/null || true
}

# The configuration of DKMS is a script, which sets the paths of its key.
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
	[ -x "$tool" ] || die "there is no $tool: set KDIR to the headers of a kernel"
	[[ ($key = pkcs11:* || -r $key) && -r $cert ]] ||
		die "cannot read the key $key and its certificate $cert: set KEY and CERT. DKMS creates its own pair when it first builds a module"
	"$tool" sha512 "$key" "$cert" "$file"
}

case ${1:-} in
sources)
	install_sources "${2:?a directory is missing}"
	exit
	;;
sign)
	sign "${2:?the file of a module is missing}"
	exit
	;;
esac
[ "$(id -u)" = 0 ] || die "this needs root"
command -v dkms >/dev/null || die "dkms is not installed: apt-get install dkms"

case ${1:-} in
install)
	refuse_package
	[ -e "/lib/modules/$kernel/build" ] ||
		die "the headers of kernel $kernel are not installed: apt-get install linux-headers-$kernel"
	remove
	install_sources "/usr/src/twheel-$(version)"
	install -D -m 644 packaging/60-twheel.rules "$rules"
	reload_rules
	dkms install "twheel/$(version)" -k "$kernel"
	# DKMS builds by itself only for kernels that are installed from now on, but one of the
	# others may be booted next.
	for other in /lib/modules/*/build; do
		other=$(basename "$(dirname "$other")")
		[ "$other" = "$kernel" ] || dkms install "twheel/$(version)" -k "$other" ||
			echo "dkms.sh: the module could not be installed for kernel $other" >&2
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
	die "usage: dkms.sh install | remove | sources DIR | sign FILE"
	;;
esac
