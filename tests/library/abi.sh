#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/library/abi.sh: whether a program that was linked with an earlier release of this
# version of libtwheel, 0.3 or so, runs with the library as it is. abidiff compares it with the
# build of the last tag. New functions are welcome. TAP out.

# All these functions are called, by way of check().
# shellcheck disable=SC2317

. "$(dirname "$0")/../../vm/lib.sh"

here=$top/userspace/lib
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# shellcheck source=../../tests/lib/tap.sh
. "$top/tests/lib/tap.sh"

# interface LIBRARY SOURCE: what a program can see of it, by the headers of that source.
interface() {
	mkdir -p "$dir/headers"
	cp "$2"/userspace/lib/libtwheel*.h "$2/include/uapi/linux/twheel.h" "$dir/headers"
	abidw --exported-interfaces-only --headers-dir "$dir/headers" --drop-private-types \
		--no-show-locs --no-corpus-path --no-comp-dir-path --no-write-default-sizes \
		--type-id-style hash "$1"
}

# compatible ABI ABI
compatible() {
	abidiff --no-added-syms --suppressions "$dir/suppressions" "$1" "$2"
}

# differs ABI ABI WHAT: it finds that.
differs() {
	! compatible "$1" "$2" >"$dir/said" && grep -e "$3" "$dir/said"
}

# The library exports the functions that its headers declare, and nothing else.
exports() {
	diff <(nm -D --defined-only "$library" | sed -n 's/.* T \(twheel_[a-z_]*\).*/\1/p' | sort) \
		<(cat "$here"/libtwheel*.h | sed -n 's/^[a-z].*[ *]\(twheel_[a-z_]*\)(.*/\1/p' | sort)
}

# What the library would be without one function, and what it was with a narrower field.
less() {
	sed '/\ttwheel_wake;/d' "$here/libtwheel.map" >"$dir/map"
	gcc -shared -pthread -Wl,-soname,libtwheel.so.0 -Wl,--version-script,"$dir/map" \
		-o "$dir/libtwheel.so.0" "$out"/lib/*.o
	interface "$dir/libtwheel.so.0" "$top" >"$dir/less"
}

narrower() {
	local id

	id=$(sed -n "s/.*typedef-decl name='uint32_t'.* id='\(.*\)'.*/\1/p" "$dir/abi")
	sed "s/<var-decl name='expirations' type-id='[^']*'/<var-decl name='expirations' type-id='$id'/" \
		"$dir/abi" >"$dir/narrower"
	! cmp -s "$dir/narrower" "$dir/abi"
}

# released TAG: its interface.
released() {
	mkdir "$dir/source"
	git -C "$top" archive "$1" | tar -xC "$dir/source" &&
		make -s -C "$dir/source/userspace/lib" O="$dir/old" CFLAGS='-O1 -g' \
			"$dir/old/libtwheel.so.0" &&
		interface "$dir/old/libtwheel.so.0" "$dir/source" >"$dir/released"
}

need abigail-tools
out=$build/abi
library=$out/libtwheel.so.0
make -s -C "$here" O="$out" CFLAGS='-O1 -g' "$library" >&2
# The kernel fills the first two, which have room to grow: the device asserts their sizes.
# The third begins with its size, and grows at its end.
cat >"$dir/suppressions" <<-END
	[suppress_type]
	name = twheel_stats
	[suppress_type]
	name = twheel_info
	[suppress_type]
	name = twheel_options
	has_data_member_inserted_at = end
END
interface "$library" "$top" >"$dir/abi"
version=$(sed -n 's/^VERSION := \([0-9]*\.[0-9]*\).*/\1/p' "$here/Makefile")
tag=$(git -C "$top" describe --tags --abbrev=0 --match "v$version*" 2>/dev/null || true)
echo 'TAP version 13'
check "the library exports what its headers declare" exports
if [ "$tag" ]; then
	check "$tag can be built" released "$tag"
	check "a program of $tag runs" compatible "$dir/released" "$dir/abi"
else
	# The first of its version: there is no program that it could break.
	echo "# no release of $version is tagged"
fi
check "a library without a function" less
check "that is found" differs "$dir/abi" "$dir/less" twheel_wake
check "a narrower field" narrower
check "that is found, too" differs "$dir/narrower" "$dir/abi" expirations
done_testing
