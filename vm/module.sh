#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# vm/module.sh KERNEL [VARIANT [MAKE-ARGUMENT...]]: builds the modules for one
# of the VM's kernels in build/modules/KERNEL[-VARIANT], and prints that
# directory. The sources there are links, so the checkout stays clean and each
# kernel keeps its own objects. These variants add arguments:
#
#   kcov      records which code a system call has run
#   untraced  has no tracepoints, because the kernel warns if it runs out of memory while it
#             registers them
#   gcov      counts how often each line has run, without tracepoints and the branches of UBSAN
#   canary    fills local variables that are not initialized with a pattern; gcc still clears
#             their padding
#   bug-X     contains the bug of tests/mutants/planted/X.patch, and records as kcov does
#   canary-bug-X   combines both

. "$(dirname "$0")/lib.sh"

kernel=${1:?the name of a kernel is missing}
dir=$build/modules/$kernel${2:+-$2}
shift $(($# > 1 ? 2 : 1))

# Treat warnings as errors, whichever of the kernels' compilers reports them.
flags=-Werror
variables=()
case ${dir##*/"$kernel"} in
-untraced | -bug-half | -gcov) flags+=' -DNOTRACE' ;;&
-kcov | -bug-*) variables+=(KCOV_INSTRUMENT=y) ;;
-gcov)
	variables+=(GCOV_PROFILE=y UBSAN_SANITIZE=n)
	# gcov writes its counts to files whose names contain the directory, so a cached object is
	# wrong.
	export CCACHE_DISABLE=1
	;;
-canary*) flags+=' -ftrivial-auto-var-init=pattern' ;;
esac
variables+=("KCFLAGS=$flags")
from=$("$top/vm/kernel.sh" "$kernel")
headers=$from/headers
[ -d "$headers" ] || die "kernel $kernel has no headers"
if [ -e "$from/make" ]; then
	mapfile -t -O ${#variables[@]} variables <"$from/make"
fi

mkdir -p "$dir"
exec 9>"$dir/.lock"
flock 9
# A list of all inputs. If it is the list of the last build, make does not run, which takes seconds.
made=$(
	printf '%s\n' "$(readlink -f "$from")" "${variables[@]}"
	find "$top"/*.c "$top"/{Kbuild,include,kunit,tests/device/taken,tests/mutants/planted} -type f ! -name '*.mod.c' \
		\( -name '*.[ch]' -o -name Kbuild -o -name '*.patch' \) -exec sha256sum {} + | sort
)
if [ $# -eq 0 ] && [ -e "$dir/twheel.ko" ] && [ "$(cat "$dir/.made" 2>/dev/null)" = "$made" ]; then
	echo "$dir"
	exit
fi
rm -f "$dir/.made"
find "$dir" -type l -delete
# ${builder[@]} runs a command where the kernel's compiler is. If that is a tree with a Debian,
# $dir is mounted on /mnt, so the sources are copied, because links would point outside of the
# tree.
links=s
place=$dir
builder=()
if [ -e "$from/root/usr/bin/make" ]; then
	links=
	place=/mnt
	headers=$(realpath "$headers")
	headers=${headers#"$from/root"}
	builder=(inside "$from/root" "$dir")
fi
# Skip files that a build in the checkout has generated, because they belong to another kernel.
find "$top" -maxdepth 1 -name '*.c' ! -name '*.mod.c' -exec cp "-${links}f" -t "$dir" {} +
cp "-r${links}f" "$top"/Kbuild "$top/include" "$top/kunit" "$top/tests/device/taken" "$dir"
if [[ ${dir##*/"$kernel"} = *-bug-* ]]; then
	bug=$top/tests/mutants/planted/${dir##*-bug-}.patch
	# Copy the file, because patch would follow the link into the checkout, and copy
	# twheel_core.c as well, because it includes twheel.c.
	file=$(sed -n 's|^+++ b/||p' "$bug")
	for copy in "$file" twheel_core.c; do
		cp --remove-destination "$top/$copy" "$dir/$copy"
	done
	patch -s -d "$dir" -p1 <"$bug" >&2
fi
for m in "$place" "$place/taken"; do
	"${builder[@]}" make -s -j "$(nproc)" -C "$headers" M="$m" "${variables[@]}" "$@" modules >&2
done
[ $# -gt 0 ] || echo "$made" >"$dir/.made"
echo "$dir"
