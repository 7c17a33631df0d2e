#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The examples do what they show: each ends by itself, with status 0. TAP out.
# EXAMPLES= names the directory where they are; those of an event loop are not
# there where that was not.

dir=${EXAMPLES:-/bin}
n=0

# example NAME
example()
{
	name=$1
	n=$((n + 1))
	if "$dir/$name" >/tmp/example.out 2>&1; then
		echo "ok $n $name"
	else
		echo "not ok $n $name, status $?"
		sed 's/^/# /' /tmp/example.out
	fi
}

echo 'TAP version 13'
for name in oneshot request_deadline dead_man loop_epoll; do
	example "$name"
done
for name in loop_libevent loop_libuv loop_io_uring; do
	[ -e "$dir/$name" ] && example "$name"
done
echo "1..$n"
