# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# Sourced by the scripts beside it: a kernel source tree that includes the wheel, and the
# conversion of its KTAP.

. "$(dirname "${BASH_SOURCE[0]}")/../../vm/lib.sh"

# take_tree VERSION: leaves the path of the source in $tree, and locks it while descriptor 9 is
# open.
take_tree() {
	need bc bison flex gcc make python3
	tree=$("$top/vm/source.sh" "$1")
	exec 9>"$tree.lock"
	flock 9
}

# plant OBJECT...: links the wheel, the suites and the benchmark into the tree, which then
# builds OBJECT.
plant() {
	rm -rf "$tree/lib/twheel"
	mkdir "$tree/lib/twheel"
	ln -s "$top"/twheel*.c "$top/include" "$top"/kunit/*.[ch] \
		"$tree/lib/twheel"
	cat >"$tree/lib/twheel/Makefile" <<-END
		ccflags-y := -I\$(srctree)/lib/twheel/include \\
			-I\$(srctree)/lib/twheel/include/uapi -Werror
		obj-y := $*
	END
	grep -qx 'obj-y += twheel/' "$tree/lib/Makefile" ||
		echo 'obj-y += twheel/' >>"$tree/lib/Makefile"
}

# flat KTAP: converts it with the kernel's kunit.py to flat TAP. kunit.py notices missing
# results, such as after a crash, but the cases do not notice kernel warnings.
flat() {
	local status=0

	NO_COLOR=1 python3 "$("$top/vm/source.sh")/tools/testing/kunit/kunit.py" parse "$1" >"$1.parsed" || status=$?
	awk '
		{ sub(/^\[[0-9:]+\] /, "") }
		/^=+ .* \([0-9]+ subtests?\) =+$/ { suite = $2 ": " }
		/^\[PASSED\]/ { print "ok " ++number " - " suite $2; next }
		/^\[SKIPPED\]/ { print "ok " ++number " - " suite $2 " # SKIP"; next }
		/^\[/ { print "not ok " ++number " - " suite $0; next }
		{ print "# " $0 }
		END { print "1.." number + 0 }' "$1.parsed"
	! grep -E '(WARNING|BUG): ' "$1" || status=1
	return $status
}
