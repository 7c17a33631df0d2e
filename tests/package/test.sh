#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/package/test.sh: installs the module with DKMS for both kernels of the VM, as on a
# machine that has them, and then the programs with make install into a directory. All of this
# happens in a mount namespace, where the directories that it writes to are its own. Prints
# TAP.

# check() calls all of these functions.
# shellcheck disable=SC2317

. "$(dirname "$0")/../../vm/lib.sh"

packaging=$top/packaging
if [ "${1:-}" = --inside ]; then
	dir=$2
else
	# Always the same, for ccache.
	dir=$build/packaging
	as_root rm -rf "$dir"
	mkdir "$dir"
	trap 'as_root rm -rf "$dir"' EXIT
fi
# shellcheck source=../../tests/lib/tap.sh
. "$top/tests/lib/tap.sh"

# The directories of the machine that DKMS writes to, if they exist.
listing() {
	{ find /lib/modules /usr/src /var/lib/dkms /etc/udev -name '*twheel*' -ls || true; } \
		2>/dev/null | sort
}

# ---- Inside the namespace ----

fresh_directories() {
	local where

	mkdir -p /lib/modules /var/lib/dkms
	for where in /usr/src /lib/modules /var/lib/dkms; do
		mount -t tmpfs "test" "$where"
	done
	cp -a /etc "$dir/etc"
	mount --bind "$dir/etc" /etc
	rm -f /etc/udev/rules.d/*twheel*
}

# Installs a kernel and its headers like their packages do. Prints its version.
give_kernel() {
	local headers=$1/headers version=${2:-}

	[ -n "$version" ] || version=$(sed -n 's/^#define UTS_RELEASE "\(.*\)"$/\1/p' \
		"$headers/include/generated/utsrelease.h")
	mkdir "/lib/modules/$version"
	ln -s "$headers" "/lib/modules/$version/build"
	touch "/lib/modules/$version/modules."{order,builtin,builtin.modinfo}
	echo "$version"
}

ko() {
	ls "/lib/modules/$1/updates/dkms/"twheel.ko*
}

is_installed() {
	dkms status "twheel/$2" -k "$1" | grep ': installed$' && ko "$1"
}

# The module has the version of dkms.conf, and is for this kernel.
is_version() {
	[ "$(modinfo -F version "$(ko "$1")")" = "$2" ] &&
		[[ $(modinfo -F vermagic "$(ko "$1")") = "$1 "* ]]
}

# kmod creates the node at boot from these, and modprobe finds the module for it.
has_node() {
	grep -x 'twheel twheel c10:250' "/lib/modules/$1/modules.devname" &&
		modprobe -S "$1" -R char-major-10-250 | grep -x twheel
}

# Prints all files with our name, except those of the kernels.
nothing_is_left() {
	! listing | grep .
}

has_rule() {
	cmp "$packaging/60-twheel.rules" /etc/udev/rules.d/60-twheel.rules
}

no_leftovers() {
	! find "/usr/src/twheel-$1" -type f ! -name '*.[ch]' ! -name Kbuild ! -name COPYING \
		! -name dkms.conf | grep . &&
		! find "/usr/src/twheel-$1" -name '*.mod.c' -o -path '*kunit*' | grep .
}

# The machine has loaded another build of the module.
load_another() {
	mkdir -p "$dir/module/twheel"
	echo 0123456789ABCDEF >"$dir/module/twheel/srcversion"
	mount --bind "$dir/module" /sys/module
}

# says TEXT COMMAND...: the command succeeds, and its output contains TEXT.
says() {
	"${@:2}" | grep -e "$1"
}

# dpkg_says STATE VERB: runs dkms.sh with a dpkg that reports the package in this state.
dpkg_says() {
	mkdir -p "$dir/dpkg"
	printf '#!/bin/sh\necho %s\n' "$1" >"$dir/dpkg/dpkg-query"
	chmod +x "$dir/dpkg/dpkg-query"
	PATH=$dir/dpkg:$PATH "$packaging/dkms.sh" "$2"
}

leaves_package_alone() {
	local before

	before=$(listing)
	! dpkg_says installed install && ! dpkg_says installed remove &&
		[ "$(listing)" = "$before" ]
}

# The error must not come from the compiler.
is_passed_over() {
	{ dkms autoinstall -k "$1" || true; } 2>&1 | grep 'it should not be built' && ! ko "$1"
}

refuses() {
	! KERNELVER=1.2.3 "$packaging/dkms.sh" install && nothing_is_left
}

# signer FILE: prints who signed that module.
signer() {
	modinfo -F signer "$1"
}

# signed_by KERNEL SIGNER [VARIABLE...]: signs with the key of DKMS, or with another one.
signed_by() {
	local ko=$dir/twheel.ko

	cp "$unsigned" "$ko"
	[ -z "$(signer "$ko")" ] && env KDIR="/lib/modules/$1/build" "${@:3}" \
		"$packaging/dkms.sh" sign "$ko" && [ "$(signer "$ko")" = "$2" ]
}

own_key() {
	openssl req -new -x509 -nodes -subj '/CN=ours' -newkey rsa:2048 -keyout "$dir/key" \
		-outform DER -out "$dir/cert"
}

not_without_key() {
	! KDIR="/lib/modules/$1/build" KEY=/nowhere "$packaging/dkms.sh" sign "$unsigned"
}

inside() {
	local first second old version

	fresh_directories
	version=$(sed -n 's/^PACKAGE_VERSION="\(.*\)"$/\1/p' "$packaging/dkms.conf")
	check "install without kernel headers changes nothing" refuses
	first=$(give_kernel "$1")
	check "install, for $first" says '; modprobe twheel loads it$' \
		env KERNELVER="$first" "$packaging/dkms.sh" install
	check "$first: the module is installed" is_installed "$first" "$version"
	check "$first: the module has its version" is_version "$first" "$version"
	check "$first: the node loads the module" has_node "$first"
	check "DKMS keeps the sources and nothing else" no_leftovers "$version"
	check "the udev rule is installed" has_rule

	check "the module is signed with DKMS's key" signed_by "$first" 'DKMS module signing key'
	check "a key can be created" own_key
	check "the module can be signed with another key" \
		signed_by "$first" ours KEY="$dir/key" CERT="$dir/cert"
	check "without a key signing fails" not_without_key "$first"

	second=$(give_kernel "$2")
	check "$second: DKMS builds for a kernel that is installed later" \
		dkms autoinstall -k "$second"
	check "$second: the module is installed" is_installed "$second" "$version"
	check "$second: the module has its version" is_version "$second" "$version"
	check "$second: the node loads the module" has_node "$second"

	old=$(give_kernel "$2" 5.10.0-1-amd64)
	check "DKMS skips a kernel that is too old" is_passed_over "$old"

	load_another
	check "reinstall while another build is loaded" \
		says ' another one is loaded: rmmod twheel' \
		env KERNELVER="$first" "$packaging/dkms.sh" install
	check "reinstall: $first has the module" is_installed "$first" "$version"
	check "reinstall: $second has the module" is_installed "$second" "$version"
	check "install leaves Debian's package alone" leaves_package_alone
	check "remove the module" says '^the module stays loaded until the next boot' \
		dpkg_says config-files remove
	umount /sys/module
	check "remove leaves nothing" nothing_is_left
	check "remove a module that is not installed" "$packaging/dkms.sh" remove
	echo "$number $failures" >"$dir/sums"
}

# lintian checks flags and hardening in the packages: see tests/package/debian.sh.
build_programs() {
	make -s -j "$(nproc)" -C "$top/userspace" O="$dir/user" WERROR=1
}

# ours COMMAND...: runs make install and the like, as a package does it.
ours() {
	make -s -C "$top/userspace" O="$dir/user" DESTDIR="$dir/root" PREFIX=/usr "$@"
}

# The root contains exactly the files that stdin names, and the pages of functions.
has_only() {
	diff <(cd "$dir/root" && find . ! -type d ! -name 'twheel_*.3' | sort) -
}

# <libtwheel.h> alone describes the device, and does not clash with a copy of linux-libc-dev's.
header_alone() {
	local include

	mkdir -p "$dir/libc/linux"
	cp "$top/include/uapi/linux/twheel.h" "$dir/libc/linux"
	for include in '' '#include <linux/twheel.h>'; do
		printf '%s\n' "$include" '#include <libtwheel.h>' "$include" \
			'struct twheel_event e = { .flags = TWHEEL_FEATURE_PARKED };' |
			gcc -Wall -Werror ${include:+-I"$dir/libc"} -I"$dir/root/usr/include" \
				-x c -fsyntax-only - || return
	done
}

# Checks where make install puts files, and that they work there.
installed_files() {
	ours install && has_only <<-END
		./usr/bin/twheelctl
		./usr/include/libtwheel.h
		./usr/include/libtwheel/twheel.h
		./usr/include/libtwheel_keyed.h
		./usr/include/twheel.hpp
		./usr/include/twheel/asio.hpp
		./usr/include/twheel/glib.h
		./usr/include/twheel/libev.h
		./usr/include/twheel/libevent.h
		./usr/include/twheel/libuv.h
		./usr/include/twheel/reader.h
		./usr/include/twheel/sd-event.h
		./usr/lib/libtwheel.a
		./usr/lib/libtwheel.so
		./usr/lib/libtwheel.so.0
		./usr/lib/libtwheel.so.0.3.0
		./usr/lib/pkgconfig/libtwheel.pc
		./usr/share/bash-completion/completions/twheelctl
		./usr/share/man/man1/twheelctl-ps.1
		./usr/share/man/man1/twheelctl-watch.1
		./usr/share/man/man1/twheelctl.1
		./usr/share/man/man3/libtwheel.3
		./usr/share/man/man4/twheel.4
		./usr/share/man/man5/twheelctl-json.5
		./usr/share/man/man7/twheel.7
		./usr/share/zsh/site-functions/_twheelctl
	END
}

# The daemon is installed too if it was built.
installed_daemon() {
	(cd "$dir/root" && find . ! -type d) >"$dir/before"
	make -s -C "$top/userspace/daemon" O="$dir/user" && ours install &&
		has_only < <(grep -v '/twheel_[^/]*\.3$' "$dir/before" | sort - <(cat <<-END
			./etc/twheel/twheeld.conf
			./usr/lib/systemd/system/twheeld.service
			./usr/sbin/twheeld
			./usr/share/man/man5/twheeld.conf.5
			./usr/share/man/man8/twheeld.8
		END
		))
}

# unit_starts ROOT PREFIX CONFIGURATION: the unit there starts that daemon with this file.
unit_starts() {
	grep -x "ExecStart=$2/sbin/twheeld -c $3" "$1$2/lib/systemd/system/twheeld.service" &&
		[ -x "$1$2/sbin/twheeld" ] && [ -e "$1$3" ] &&
		diff <(grep -v ^ExecStart= "$packaging/twheeld.service") \
			<(grep -v ^ExecStart= "$1$2/lib/systemd/system/twheeld.service")
}

# A user without root can install everything below a directory, and uninstall it.
home_is_enough() {
	local to=$dir/home

	make -s -C "$top/userspace" O="$dir/user" PREFIX="$to" install &&
		unit_starts "" "$to" "$to/etc/twheel/twheeld.conf" &&
		make -s -C "$top/userspace" O="$dir/user" PREFIX="$to" uninstall &&
		[ -z "$(find "$to" ! -type d)" ]
}

# A user may remove files that root's install has left, but not write to them.
over_left_files() {
	ln -sf /dev/full "$dir/user/twheeld.service" && home_is_enough
}

# Everybody may read the files, even if root's umask denies that.
readable_by_all() {
	local unreadable

	(umask 077 && ours install DESTDIR="$dir/private" &&
		"$packaging/dkms.sh" sources "$dir/private/usr/src/twheel") || return
	unreadable=$(find "$dir/private/usr" "$dir/private/etc" ! -type l ! -perm -o+r)
	echo "$unreadable"
	[ -z "$unreadable" ]
}

# Each function that the library exports has a page. One more page describes a struct.
function_pages() {
	diff <(nm -D --defined-only "$dir/root/usr/lib/libtwheel.so" |
		sed -n 's/.* T \(twheel_[a-z_]*\).*/\1.3/p' | cat - <(echo twheel_options.3) | sort) \
		<(find "$dir/root/usr/share/man/man3" -name 'twheel_*.3' -printf '%f\n' | sort)
}

valid_pages() {
	mandoc -T lint -W warning "$dir"/root/usr/share/man/man*/*
}

# The manual pages describe each option of the help texts.
options_in_page() {
	local ctl=$dir/root/usr/bin/twheelctl verb option missing=0

	mandoc -T ascii "$dir"/root/usr/share/man/man1/twheelctl*.1 | col -bx >"$dir/page"
	for verb in $("$ctl" help | sed -n 's/^  \([a-z]*\) .*/\1/p'); do
		for option in $("$ctl" help "$verb" | grep -oE -- '(^|[ ,])--?[A-Za-z][a-z-]*'); do
			grep -qE -- "(^|[ ,])$option([ ,=]|\$)" "$dir/page" && continue
			echo "$verb: no $option"
			missing=1
		done
	done
	return $missing
}

# Tries each relative directory, in both makefiles. The library has only three.
relative_refused() {
	local where what

	for where in "$top"/userspace{,/lib}; do
		for what in PREFIX LIBDIR DESTDIR SYSCONFDIR ZSHDIR; do
			[[ $what:${where##*/} != @(SYSCONFDIR|ZSHDIR):lib ]] || continue
			grep "$what must be absolute, not \"relative\"" <<<"$(make -n -C "$where" \
				O="$dir/user" "$what=relative" install 2>&1)" || return
		done
	done
}

runs() {
	"$dir/root/usr/bin/twheelctl" --version
}

# The configuration is valid as installed: the only error is that there is no Redis.
daemon_runs() {
	local status=0

	"$dir/root/usr/sbin/twheeld" --version || return
	"$dir/root/usr/sbin/twheeld" -c "$dir/root/etc/twheel/twheeld.conf" \
		--redis=unix:/nowhere --check || status=$?
	[ $status = 1 ]
}

uninstalled() {
	ours uninstall && [ -z "$(find "$dir/root" ! -type d)" ]
}

# An administrator's configuration survives installing and uninstalling.
conf_is_kept() {
	echo 'batch = 64' >>"$dir/root/etc/twheel/twheeld.conf"
	cp "$dir/root/etc/twheel/twheeld.conf" "$dir/conf"
	ours install && cmp "$dir/conf" "$dir/root/etc/twheel/twheeld.conf" &&
		ours uninstall && cmp "$dir/conf" "$dir/root/etc/twheel/twheeld.conf" &&
		[ "$(cd "$dir/root" && find . ! -type d)" = ./etc/twheel/twheeld.conf ]
}

# ---- Outside the namespace ----

if [ "${1:-}" = --inside ]; then
	unsigned=$5
	inside "$3" "$4"
	exit
fi

echo 'TAP version 13'
"$top/vm/deps.sh" build
"$top/vm/deps.sh" daemon
need dkms kmod openssl mandoc bsdextrautils dpkg-dev binutils
kernels=("$("$top/vm/kernel.sh" 6.12)" "$("$top/vm/kernel.sh" 6.1)")
before=$(listing)
unsigned=$("$top/vm/module.sh" 6.12)/twheel.ko
as_root unshare -m "$0" --inside "$dir" "${kernels[@]}" "$unsigned" || echo "Bail out! exit $?"
read -r number failures <"$dir/sums"
after=$(listing)
check "build the programs" build_programs
check "relative directories are refused" relative_refused
check "install the programs" installed_files
check "<libtwheel.h> describes the device" header_alone
check "the installed twheelctl runs" runs
check "install the daemon if it was built" installed_daemon
check "the unit starts the daemon" unit_starts "$dir/root" /usr /etc/twheel/twheeld.conf
check "the installed twheeld runs" daemon_runs
check "install with umask 077: everybody may read the files" readable_by_all
check "a manual page for each function" function_pages
check "manual pages without a warning" valid_pages
check "each option of the help is in the manual pages" options_in_page
check "uninstall the programs" uninstalled
check "install below a home directory" home_is_enough
check "install over another user's files" over_left_files
check "install again" ours install
check "install keeps a changed configuration" conf_is_kept
status=0
diff <(echo "$before") <(echo "$after") >"$dir/out" || status=1
result $status "the machine is as it was"
done_testing
