# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced by the scripts beside it: a kernel's source, with the wheel in it.

. "$(dirname "${BASH_SOURCE[0]}")/../../vm/lib.sh"

# take_tree VERSION: Debian's source of it, unpacked, in $tree; for us alone for as long
# as descriptor 9 is open.
take_tree() {
	local new source=linux-source-$1

	need "$source" bc bison flex gcc libelf-dev make python3 xz-utils
	mkdir -p "$cache"
	tree=$cache/uml-$(dpkg-query -W -f '${Version}' "$source")
	exec 9>"$tree.lock"
	flock 9
	[ ! -d "$tree" ] || return 0
	echo "unpacking $source" >&2
	new=$(mktemp -d "$tree.XXXXXX")
	tar -C "$new" --strip-components=1 -xf "/usr/src/$source.tar.xz" || {
		rm -rf "$new"
		die "no source"
	}
	mv -T "$new" "$tree"
}

# plant OBJECT...: puts the wheel, the suites and the bench there, as links; these are
# built.
plant() {
	rm -rf "$tree/lib/twheel"
	mkdir "$tree/lib/twheel"
	ln -s "$top"/twheel{,_quota,_store,_slots,_word,_marks,_timers,_events}.c "$top/include" "$top"/kunit/*.[ch] \
		"$tree/lib/twheel"
	cat >"$tree/lib/twheel/Makefile" <<-END
		ccflags-y := -I\$(srctree)/lib/twheel/include \\
			-I\$(srctree)/lib/twheel/include/uapi -Werror
		obj-y := $*
	END
	grep -qx 'obj-y += twheel/' "$tree/lib/Makefile" ||
		echo 'obj-y += twheel/' >>"$tree/lib/Makefile"
}
