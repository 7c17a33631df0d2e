#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/library/abi.sh [record]: whether a program that was linked with the last release of
# libtwheel runs with this one: abidiff compares the library with libtwheel.abi beside this
# script. New functions are welcome. TAP out. "record" writes that file: at a release, and
# before the first release that has no tag whenever the change is meant.

# All these functions are called, by way of check().
# shellcheck disable=SC2317

. "$(dirname "$0")/../../vm/lib.sh"

here=$top/userspace/lib
recorded=$top/tests/library/libtwheel.abi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# shellcheck source=../../tests/lib/tap.sh
. "$top/tests/lib/tap.sh"

# record LIBRARY: as it is kept.
record() {
	abidw --exported-interfaces-only --headers-dir "$dir/headers" --drop-private-types \
		--no-show-locs --no-corpus-path --no-comp-dir-path --no-write-default-sizes \
		--type-id-style hash "$1"
}

# compatible ABI LIBRARY
compatible() {
	record "$2" >"$dir/abi" &&
		abidiff --no-added-syms --suppressions "$dir/suppressions" "$1" "$dir/abi"
}

# differs ABI LIBRARY WHAT: it finds that.
differs() {
	! compatible "$1" "$2" >"$dir/said" && grep -e "$3" "$dir/said"
}

# What it would be without one function, and what it would have been with a narrower field.
less() {
	sed '/\ttwheel_wake;/d' "$here/libtwheel.map" >"$dir/map"
	gcc -shared -pthread -Wl,-soname,libtwheel.so.0 -Wl,--version-script,"$dir/map" \
		-o "$dir/libtwheel.so.0" "$out"/lib/*.o
}

narrower() {
	local id

	id=$(sed -n "s/.*typedef-decl name='uint32_t'.* id='\(.*\)'.*/\1/p" "$recorded")
	sed "s/<var-decl name='expirations' type-id='[^']*'/<var-decl name='expirations' type-id='$id'/" \
		"$recorded" >"$dir/narrower"
	! cmp -s "$dir/narrower" "$recorded"
}

need abigail-tools
out=$build/abi
library=$out/libtwheel.so.0
make -s -C "$here" O="$out" CFLAGS='-O1 -g' "$library" >&2
mkdir "$dir/headers"
cp "$here"/libtwheel*.h "$top/include/uapi/linux/twheel.h" "$dir/headers"
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
if [ "${1:-}" = record ]; then
	record "$library" >"$recorded"
	exit
fi
echo 'TAP version 13'
check "as it was, or more" compatible "$recorded" "$library"
check "a library without a function" less
check "that is found" differs "$recorded" "$dir/libtwheel.so.0" twheel_wake
check "a narrower field" narrower
check "that is found, too" differs "$dir/narrower" "$library" expirations
the_end
