#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# vm/source.sh [VERSION]: prints a directory with those parts of the kernel's source (default: 6.12)
# that we need: user-mode Linux, the harness of the selftests, kunit.py and checkpatch. It is
# unpacked from Debian's linux-source-VERSION into the cache.

. "$(dirname "$0")/lib.sh"

base=linux-source-${1:-6.12}
need "$base" xz-utils
dir=$cache/source/$base-$(dpkg-query -W -f '${Version}' "$base")

if ! [ -d "$dir" ]; then
	mkdir -p "$cache/source"
	exec 9>"$cache/source/.lock-$base"
	flock 9
fi
if ! [ -d "$dir" ]; then
	tmp=$(mktemp -d "$cache/source/.tmp.XXXXXX")
	# shellcheck disable=SC2064
	trap "rm -rf '$tmp'" EXIT
	unpack_source "$base" "$tmp"
	chmod 755 "$tmp"
	mv "$tmp" "$dir"
fi
echo "$dir"
