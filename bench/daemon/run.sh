#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# bench/daemon/run.sh [--smoke] [OPTION...]: measures twheeld with tasks.py, which takes the
# options.
#
#   --smoke  only runs one round with few tasks, to see that it works
#
# BullMQ is installed from npm into the cache. Clients, servers and Redis run on this machine, and
# other programs disturb them, so only compare numbers of the same run.

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

# Install BullMQ once. Its lock file stays in the cache, so later runs use the same versions.
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
# Use memory for files, as the tests do, because an fsync on a slow disk would delay everything.
[ ! -w /dev/shm ] || export TMPDIR=/dev/shm
"$here/tasks.py" "$out/twheeld" "$out/daemon/bench/load" "$modules" "$@"
