#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# vm/source.sh: prints a directory with the few files of the kernel's source
# that the build and the checks use: the harness of its selftests, and
# checkpatch. They come out of Debian's linux-source-6.12 into the cache.

. "$(dirname "$0")/lib.sh"

base=linux-source-6.12
need $base xz-utils
dir=$cache/source/$(dpkg-query -W -f '${Version}' $base)

if ! [ -d "$dir" ]; then
	mkdir -p "$cache/source"
	exec 9>"$cache/source/.lock"
	flock 9
fi
if ! [ -d "$dir" ]; then
	tmp=$(mktemp -d "$cache/source/.tmp.XXXXXX")
	# shellcheck disable=SC2064
	trap "rm -rf '$tmp'" EXIT
	tar -xJf /usr/src/$base.tar.xz -C "$tmp" --strip-components=1 \
		$base/tools/testing/selftests/kselftest.h \
		$base/tools/testing/selftests/kselftest_harness.h \
		$base/scripts/checkpatch.pl \
		$base/scripts/spelling.txt \
		$base/scripts/const_structs.checkpatch
	chmod 755 "$tmp"
	mv "$tmp" "$dir"
fi
echo "$dir"
