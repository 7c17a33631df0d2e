#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/package/test.sh: the module by DKMS, for both kernels of the VM, as on a
# machine that has them. TAP out. All this happens in a mount namespace, where
# the directories that it writes to are its own. Then make install of the programs,
# into a directory.

# All these functions are called, by way of check().
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

# What the machine has of us, where DKMS writes to; not each has all of these.
listing() {
	{ find /lib/modules /usr/src /var/lib/dkms /etc/udev -name '*twheel*' -ls || true; } \
		2>/dev/null | sort
}

# ---- Inside ----

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

# As the packages of a kernel and its headers do it. Prints its version.
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

# Of the version that dkms.conf says, and for this kernel.
is_version() {
	[ "$(modinfo -F version "$(ko "$1")")" = "$2" ] &&
		[[ $(modinfo -F vermagic "$(ko "$1")") = "$1 "* ]]
}

# From this kmod makes the node at boot, and modprobe knows what to load for it.
has_node() {
	grep -x 'twheel twheel c10:250' "/lib/modules/$1/modules.devname" &&
		modprobe -S "$1" -R char-major-10-250 | grep -x twheel
}

# Whatever has the name, but for the kernels.
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

# The machine has loaded another build of it.
load_another() {
	mkdir -p "$dir/module/twheel"
	echo 0123456789ABCDEF >"$dir/module/twheel/srcversion"
	mount --bind "$dir/module" /sys/module
}

# says TEXT COMMAND...: it succeeds, with this in its output.
says() {
	"${@:2}" | grep -e "$1"
}

# A dpkg that knows the package in this state.
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

# Not by an error of the compiler.
is_passed_over() {
	{ dkms autoinstall -k "$1" || true; } 2>&1 | grep 'it should not be built' && ! ko "$1"
}

refuses() {
	! KERNELVER=1.2.3 "$packaging/dkms.sh" install && nothing_is_left
}

# signer FILE: who signed that module.
signer() {
	modinfo -F signer "$1"
}

# With the key that DKMS made when it built, and with another one.
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
	check "without headers nothing is done" refuses
	first=$(give_kernel "$1")
	check "install, for $first" says '; modprobe twheel loads it$' \
		env KERNELVER="$first" "$packaging/dkms.sh" install
	check "$first: installed" is_installed "$first" "$version"
	check "$first: version" is_version "$first" "$version"
	check "$first: a node that loads it" has_node "$first"
	check "sources and nothing else" no_leftovers "$version"
	check "the rule of udev" has_rule

	check "sign, by DKMS's key" signed_by "$first" 'DKMS module signing key'
	check "a key" own_key
	check "sign, by that key" signed_by "$first" ours KEY="$dir/key" CERT="$dir/cert"
	check "no key, no signature" not_without_key "$first"

	second=$(give_kernel "$2")
	check "a kernel comes later: $second" dkms autoinstall -k "$second"
	check "$second: installed" is_installed "$second" "$version"
	check "$second: version" is_version "$second" "$version"
	check "$second: a node that loads it" has_node "$second"

	old=$(give_kernel "$2" 5.10.0-1-amd64)
	check "an old kernel comes" is_passed_over "$old"

	load_another
	check "install anew, while another one is loaded" says ' another one is loaded: rmmod twheel' \
		env KERNELVER="$first" "$packaging/dkms.sh" install
	check "anew: installed" is_installed "$first" "$version"
	check "anew: and for $second" is_installed "$second" "$version"
	check "nothing of the package is touched" leaves_package_alone
	check "remove" says '^the module stays loaded until the next boot' \
		dpkg_says config-files remove
	umount /sys/module
	check "nothing is left" nothing_is_left
	check "remove what is not there" "$packaging/dkms.sh" remove
	echo "$number $failures" >"$dir/sums"
}

# Flags and hardening are of the packages, which lintian looks at: tests/package/debian.sh.
build_programs() {
	make -s -j "$(nproc)" -C "$top/userspace" O="$dir/user" WERROR=1
}

# ours COMMAND...: make install and the like, as a package does it.
ours() {
	make -s -C "$top/userspace" O="$dir/user" DESTDIR="$dir/root" PREFIX=/usr "$@"
}

# The files in the root are those that stdin names, and the pages of functions.
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

# What make install puts where, and whether it is of use there.
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

# The daemon comes too, where it was built.
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

# A user without root has all of it below a directory, and gets rid of it.
home_is_enough() {
	local to=$dir/home

	make -s -C "$top/userspace" O="$dir/user" PREFIX="$to" install &&
		unit_starts "" "$to" "$to/etc/twheel/twheeld.conf" &&
		make -s -C "$top/userspace" O="$dir/user" PREFIX="$to" uninstall &&
		[ -z "$(find "$to" ! -type d)" ]
}

# What root's install has left there, a user may remove, but not write to.
over_left_files() {
	ln -sf /dev/full "$dir/user/twheeld.service" && home_is_enough
}

# All may read it, though root's umask keeps others out.
readable_by_all() {
	local unreadable

	(umask 077 && ours install DESTDIR="$dir/private" &&
		"$packaging/dkms.sh" sources "$dir/private/usr/src/twheel") || return
	unreadable=$(find "$dir/private/usr" "$dir/private/etc" ! -type l ! -perm -o+r)
	echo "$unreadable"
	[ -z "$unreadable" ]
}

# Each function that the library exports has a page. One more is of a struct.
function_pages() {
	diff <(nm -D --defined-only "$dir/root/usr/lib/libtwheel.so" |
		sed -n 's/.* T \(twheel_[a-z_]*\).*/\1.3/p' | cat - <(echo twheel_options.3) | sort) \
		<(find "$dir/root/usr/share/man/man3" -name 'twheel_*.3' -printf '%f\n' | sort)
}

valid_pages() {
	mandoc -T lint -W warning "$dir"/root/usr/share/man/man*/*
}

# Each option that a help text has, the manual pages have, too.
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

# Each that is relative, in both directories. The library has but three.
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

# The configuration as it comes is a valid one: what is wrong is that no Redis is there.
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

# An administrator's configuration outlives both.
conf_is_kept() {
	echo 'batch = 64' >>"$dir/root/etc/twheel/twheeld.conf"
	cp "$dir/root/etc/twheel/twheeld.conf" "$dir/conf"
	ours install && cmp "$dir/conf" "$dir/root/etc/twheel/twheeld.conf" &&
		ours uninstall && cmp "$dir/conf" "$dir/root/etc/twheel/twheeld.conf" &&
		[ "$(cd "$dir/root" && find . ! -type d)" = ./etc/twheel/twheeld.conf ]
}

# ---- Outside ----

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
check "the programs are built" build_programs
check "relative directories are refused" relative_refused
check "install the programs" installed_files
check "<libtwheel.h> describes the device" header_alone
check "twheelctl, installed" runs
check "install the daemon, where it was built" installed_daemon
check "the unit starts it" unit_starts "$dir/root" /usr /etc/twheel/twheeld.conf
check "twheeld, installed" daemon_runs
check "umask 077: all may read it" readable_by_all
check "a manual page for each function" function_pages
check "manual pages without a warning" valid_pages
check "each option of twheelctl is in its page" options_in_page
check "uninstall the programs" uninstalled
check "install into a home" home_is_enough
check "install after another user" over_left_files
check "install once more" ours install
check "a configuration that was changed is kept" conf_is_kept
status=0
diff <(echo "$before") <(echo "$after") >"$dir/out" || status=1
result $status "the machine is as it was"
done_testing
