#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench/daemon/run.sh [--smoke] [OPTION...]: the numbers of twheeld, see tasks.py
#
#   --smoke  one round with few tasks: whether it works, not what the numbers are
#
# BullMQ comes from npm, into the cache. All sides run on this machine at once: what else it
# does shows in the numbers. Only what one run has of two sides can be compared.

. "$(dirname "$0")/../../vm/lib.sh"

here=$top/bench/daemon
out=${O:-$build/user}
bullmq=6.7.0
ioredis=5.11.1
modules=$cache/bullmq-$bullmq-ioredis-$ioredis

if [ "${1:-}" = --smoke ]; then
	shift
	set -- --rounds 1 --tasks 2000 --many 20000 "$@"
fi

# The rival, with its lock file: each later run has the same.
if ! [ -d "$modules/node_modules/bullmq" ]; then
	rm -rf "$modules" "$modules.new"
	mkdir -p "$modules.new"
	(
		cd "$modules.new"
		echo '{ "private": true }' >package.json
		quietly npm install --no-audit --no-fund --ignore-scripts \
			"bullmq@$bullmq" "ioredis@$ioredis"
	)
	mv "$modules.new" "$modules"
fi

quietly make -s -C "$top/userspace/daemon" O="$out" twheeld
quietly make -s -C "$here" O="$out"
# As in the tests: an fsync of a slow disk would delay all sides.
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
"$here/tasks.py" "$out/twheeld" "$out/daemon/bench/load" "$modules" "$@"
