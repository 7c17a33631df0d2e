#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# tests/package/installed.sh DIR: runs in a fresh Debian that tests/package/debian.sh has
# booted, with the packages in DIR. It installs them, uses them as their users do, reboots, and
# removes them. It runs again after the reboot. Prints TAP.

given=$1
dir=/var/lib/installed
examples=/usr/share/doc/twheel-utils/examples
mkdir -p $dir
# shellcheck source=../../tests/lib/tap.sh
. "$given/tap.sh"

nobody() {
	runuser -u nobody -- "$@"
}

is_loaded() {
	grep -q '^twheel ' /proc/modules
}

no_module() {
	! is_loaded
}

no_trace() {
	no_module && ! [ -e /dev/twheel ] && ! modinfo twheel
}

install_all() {
	DEBIAN_FRONTEND=noninteractive apt-get -y install "$given"/*.deb
}

# The node exists before the module is loaded, and anybody may open it.
has_node() {
	no_module && [ "$(stat -c '%F %t:%T %a' /dev/twheel)" = 'character special file a:fa 666' ]
}

first_open() {
	no_module && nobody twheelctl after 10ms && is_loaded
}

# "man twheel" shows the page of the device.
manuals() {
	man -w twheel | grep man4/twheel.4 && man twheel | grep -i 'timing wheel' &&
		man 7 twheel | grep -i never && man twheelctl | grep after &&
		man twheel_open | grep twheel_close && man twheeld.conf | grep redis
}

compile() {
	cc -o $dir/first "$given/first.c" -ltwheel && nobody $dir/first | grep 'of the kernel wheel'
}

# Another program has opened a wheel, whose timers Python must not take for its own.
shared() {
	nobody python3 - <<-'END'
		import fcntl, os, struct, twheel

		fd = os.open("/dev/twheel", os.O_RDWR | os.O_NONBLOCK)
		# REGISTER with user_data 1, in 10 ms, with TWHEEL_KEEP.
		fcntl.ioctl(fd, 0xc030c502, struct.pack("=5Q2I", 0, 1, 10**7, 0, 0, 2, 0))
		wheel = twheel.Wheel.from_fd(os.dup(fd))
		assert wheel.backend == "kernel" and wheel.backend_reason == ""
		ours = wheel.add(3600)
		before = ours.id
		assert wheel.wait(60) and wheel.read() == [] and ours.id == before
		assert {1, ours._key} <= {t.user_data for t in wheel.list()}
		ours.set(0.01)
		assert wheel.wait(60) and [e.timer for e in wheel.read()] == [ours]
		assert ours.delete() is False
	END
}

# A container needs the device, by its path or by its name in CDI. Its first process may be
# twheelctl watch.
in_container() {
	podman --cgroup-manager=cgroupfs run --rm --network=none "$@"
}

contained() {
	in_container --rootfs $dir/root twheelctl doctor >$dir/doctor
	[ $? = 3 ] && grep 'kernel .*, in Podman' $dir/doctor &&
		grep 'do: the module is loaded: start the container with --device=/dev/twheel' $dir/doctor &&
		in_container --device=/dev/twheel --user=65534 --rootfs $dir/root twheelctl doctor &&
		in_container --device=twheel.dev/wheel=all --rootfs $dir/root twheelctl doctor || return
	in_container --device=/dev/twheel --rootfs $dir/root twheelctl watch --timeout=2s --grace=1s -- \
		sh -c 'while :; do :; done'
	[ $? = 124 ]
}

container() {
	mkdir -p /etc/cdi $dir/root
	cp $examples/twheel-cdi.json /etc/cdi
	mount --bind / $dir/root
	ok=0
	contained || ok=1
	umount -l $dir/root
	rm /etc/cdi/twheel-cdi.json
	return $ok
}

# As doc/install.md describes it, with and without the module.
restricted() {
	install -D -m 644 -t /etc/udev/rules.d $examples/70-twheel-group.rules &&
		install -D -m 644 -t /etc/sysusers.d $examples/twheel-sysusers.conf && systemd-sysusers &&
		systemctl restart systemd-udevd && is_of_group || return
	nobody twheelctl info 2>$dir/refused
	[ $? = 4 ] && grep '^hint: join the group .*usermod -aG timers USER' $dir/refused &&
		no_module && setpriv --reuid=nobody --regid=nogroup --groups=timers twheelctl info &&
		is_loaded && udevadm settle && is_of_group
}

is_of_group() {
	stat -c '%G %a' /dev/twheel | tee $dir/mode
	grep -qx 'timers 660' $dir/mode
}

group() {
	ok=0
	restricted || ok=1
	rm -f /etc/udev/rules.d/70-twheel-group.rules /etc/sysusers.d/twheel-sysusers.conf
	! is_loaded || rmmod twheel
	systemctl restart systemd-udevd && has_node && [ $ok = 0 ]
}

# The daemon is installed, and does not run until it is told where Redis is.
daemon() {
	twheeld --version && ! systemctl is-enabled twheeld && ! systemctl is-active twheeld &&
		systemd-analyze verify twheeld.service
	twheeld -c /etc/twheel/twheeld.conf --redis=unix:/nowhere --check
	[ $? = 1 ]
}

purge() {
	DEBIAN_FRONTEND=noninteractive apt-get -y purge '*twheel*' && ! dpkg -l '*twheel*' | grep ^ii &&
		! find / -xdev -name '*twheel*' ! -path '/var/log/*' ! -path "$dir/*" \
			! -path '/given/*' ! -path '/var/cache/man/*' | grep .
}

if ! [ -e $dir/rebooted ]; then
	echo 'TAP version 13'
	check "at first nothing of twheel is installed" no_trace
	check "apt-get install ./*.deb" install_all
	check "the node exists before the module is loaded" has_node
	check "the first open loads the module" first_open
	check "man shows the manual pages" manuals
	check "a program can be built with the library" compile
	check "Python reads another program's wheel" shared
	check "a container can use the device" container
	check "twheeld starts once it is configured" daemon
	check "the package's own test passes" sh "$given/smoke"
	echo "number=$number failures=$failures" >$dir/rebooted
	touch /again
	exit
fi
# shellcheck source=/dev/null
. $dir/rebooted
check "the node exists after boot, before the module is loaded" has_node
check "the first open after boot loads the module" first_open
check "rmmod unloads the module" rmmod twheel
check "a group can be given access" group
check "purge removes everything" purge
done_testing
