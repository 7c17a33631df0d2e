#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/library/abi.sh: checks that a program which was linked with an earlier release of this
# version of libtwheel, such as 0.3, runs with the current library. abidiff compares the
# library with a build of the last tag. New functions are allowed. Prints TAP.

# check() calls all of these functions.
# shellcheck disable=SC2317

. "$(dirname "$0")/../../vm/lib.sh"

here=$top/userspace/lib
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# shellcheck source=../../tests/lib/tap.sh
. "$top/tests/lib/tap.sh"

# interface LIBRARY SOURCE: prints what a program can see of the library, by the headers of SOURCE.
interface() {
	mkdir -p "$dir/headers"
	cp "$2"/userspace/lib/libtwheel*.h "$2/include/uapi/linux/twheel.h" "$dir/headers"
	abidw --exported-interfaces-only --headers-dir "$dir/headers" --drop-private-types \
		--no-show-locs --no-corpus-path --no-comp-dir-path --no-write-default-sizes \
		--type-id-style hash "$1"
}

# compatible OLD NEW: fails if abidiff finds an incompatible change.
compatible() {
	abidiff --no-added-syms --suppressions "$dir/suppressions" "$1" "$2"
}

# differs OLD NEW WHAT: passes if abidiff reports a change that mentions WHAT.
differs() {
	! compatible "$1" "$2" >"$dir/said" && grep -e "$3" "$dir/said"
}

# The library exports the functions that its headers declare, and nothing else.
exports() {
	diff <(nm -D --defined-only "$library" | sed -n 's/.* T \(twheel_[a-z_]*\).*/\1/p' | sort) \
		<(cat "$here"/libtwheel*.h | sed -n 's/^[a-z].*[ *]\(twheel_[a-z_]*\)(.*/\1/p' | sort)
}

# The interface without one function, and the interface with a narrower field.
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

# released TAG: builds that release and prints its interface.
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
# The kernel fills the first two structures, which have room to grow: the device tests check
# their sizes. The third starts with its size, and grows at its end.
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
	# This is the first release of its version, so there is no older program.
	echo "# no release of $version is tagged"
fi
check "build a library without twheel_wake()" less
check "abidiff reports the missing function" differs "$dir/abi" "$dir/less" twheel_wake
check "make an interface with a narrower field" narrower
check "abidiff reports the narrower field" differs "$dir/narrower" "$dir/abi" expirations
done_testing
