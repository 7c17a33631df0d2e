#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# vm/deps.sh [WHAT]: installs the Debian packages that are missing for
#
#   build   modules for the kernels of the VM, and programs
#   daemon  twheeld, its tests and its demo
#   vm      that, and booting them (the default)
#   check   that, and what make check builds and runs
#   check-ci  that, and what make check-ci and make check-full do
#   bench   what make bench runs
#   bench-tasks  the daemon, and the rivals of make bench-tasks

. "$(dirname "$0")/lib.sh"

# The compiler is the one that Debian's kernel headers ask for.
packages=(make gcc gcc-12 libc6-dev uthash-dev pahole libelf1 libssl3)

# Those of the daemon: hiredis and so on, and a Redis to run it with.
daemon=(pkg-config libhiredis-dev libcurl4-openssl-dev libmicrohttpd-dev libjansson-dev libssl-dev)
daemon+=(libglib2.0-dev libical-dev libsystemd-dev redis-server redis-sentinel openssl xxd python3 python3-croniter
	python3-dateutil)

case ${1:-vm} in
build) ;;
daemon)
	packages+=("${daemon[@]}")
	;;
bench-tasks)
	packages+=("${daemon[@]}")
	# A Node.js of another source may have npm in it.
	command -v npm >/dev/null || packages+=(nodejs npm)
	;;
vm | check | check-ci)
	packages+=(qemu-system-x86 busybox-static cpio kmod xz-utils)
	;;&
check | check-ci)
	packages+=(g++ linux-source-6.12 flex bison bc perl ccache "${daemon[@]}")
	packages+=(libev-dev libevent-dev libuv1-dev liburing-dev)
	;;&
check-ci)
	# gcc-12-multilib and not gcc-multilib, which excludes cross compilers.
	packages+=(gcc-12-multilib libc6-dev-i386)
	packages+=(ministat golang-go libasio-dev libboost-dev libglib2.0-dev libsystemd-dev pkg-config)
	packages+=(linux-source-6.1 libelf-dev libssl-dev lcov python3 rsync)
	packages+=(sparse shellcheck codespell git spin coccinelle)
	packages+=(clang-14 libclang-rt-14-dev dkms mandoc bsdextrautils)
	;;&
bench)
	packages+=(qemu-system-x86 busybox-static cpio kmod xz-utils g++)
	packages+=(libev-dev libevent-dev libuv1-dev liburing-dev ministat)
	packages+=(golang-go cargo rustc librust-tokio-dev)
	packages+=(linux-source-6.12 flex bison bc libelf-dev libssl-dev python3)
	;;&
vm | check | check-ci | bench) ;;
*)
	die "unknown: $1"
	;;
esac

need "${packages[@]}"
