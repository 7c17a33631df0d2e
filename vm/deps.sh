#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# vm/deps.sh [PURPOSE]: installs the Debian packages that are missing for
#
#   build        building the programs, and modules for the kernels of the VM
#   daemon       building twheeld, and running its tests and its demo
#   vm           building, and booting the VM (default)
#   check        the same, and make check
#   check-ci     the same, and make check-ci and make check-full
#   bench        make bench
#   hardware     what make hardware builds
#   bench-tasks  the daemon, and the rivals that make bench-tasks compares it with

. "$(dirname "$0")/lib.sh"

# Debian's kernel headers need gcc-12.
packages=(make gcc gcc-12 libc6-dev uthash-dev pahole libelf1 libssl3)

# The libraries of the daemon, and a Redis to test it with.
daemon=(pkg-config libhiredis-dev libcurl4-openssl-dev libmicrohttpd-dev libjansson-dev libssl-dev)
daemon+=(libglib2.0-dev libical-dev libsystemd-dev redis-server redis-sentinel openssl xxd python3 python3-croniter
	python3-dateutil)

case ${1:-vm} in
build) ;;
hardware)
	# The headers of the running kernel have brought their compiler.
	packages=(make gcc g++ libc6-dev uthash-dev kmod libev-dev libevent-dev libuv1-dev liburing-dev)
	;;
daemon)
	packages+=("${daemon[@]}")
	;;
bench-tasks)
	packages+=("${daemon[@]}")
	# A Node.js that is not Debian's may include npm.
	command -v npm >/dev/null || packages+=(nodejs npm)
	;;
vm | check | check-ci)
	packages+=(qemu-system-x86 busybox-static cpio kmod xz-utils)
	;;&
check | check-ci)
	packages+=(g++ linux-source-6.12 perl ccache "${daemon[@]}")
	packages+=(libev-dev libevent-dev libuv1-dev liburing-dev)
	;;&
check-ci)
	# Not gcc-multilib, because it conflicts with cross compilers.
	packages+=(gcc-12-multilib libc6-dev-i386)
	packages+=(ministat golang-go libasio-dev libboost-dev libglib2.0-dev libsystemd-dev pkg-config)
	packages+=(linux-source-6.1 flex bison bc libelf-dev libssl-dev python3 rsync)
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
	die "unknown purpose: $1"
	;;
esac

need "${packages[@]}"
