#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# vm/module.sh KERNEL [VARIANT [MAKE-ARGUMENT...]]: builds the modules for one
# of the VM's kernels in build/modules/KERNEL[-VARIANT], and prints that
# directory. The sources there are links, so the checkout stays clean and each
# kernel keeps its own objects. Some variants bring arguments of their own:
#
#   kcov    says which code a system call ran
#   untraced  has no tracepoints, of whose making the kernel warns where memory ends
#   gcov    counts how often each line ran, without the branches that UBSAN adds; untraced
#   canary  has a pattern in each local variable that nothing was written to, but
#           for padding, which gcc clears
#   bug-X   has the bug of tests/mutants/planted/X.patch, and says which code a system call ran
#   canary-bug-X   has both

. "$(dirname "$0")/lib.sh"

kernel=${1:?which kernel?}
dir=$build/modules/$kernel${2:+-$2}
shift $(($# > 1 ? 2 : 1))

# A warning of any of these kernels' compilers is one of ours.
flags=-Werror
variables=()
case ${dir##*/"$kernel"} in
-untraced | -bug-half | -gcov) flags+=' -DNOTRACE' ;;&
-kcov | -bug-*) variables+=(KCOV_INSTRUMENT=y) ;;
-gcov)
	variables+=(GCOV_PROFILE=y UBSAN_SANITIZE=n)
	# What it counts goes to files that are named by their directory.
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
# All that goes in. Where that is what is there, not even make is asked, which takes seconds.
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
# builder COMMAND...: where the kernel's compiler is. In a tree, $dir is /mnt, and links
# would lead out of it.
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
# What a build in the checkout leaves there is for another kernel.
find "$top" -maxdepth 1 -name '*.c' ! -name '*.mod.c' -exec cp "-${links}f" -t "$dir" {} +
cp "-r${links}f" "$top"/Kbuild "$top/include" "$top/kunit" "$top/tests/device/taken" "$dir"
if [[ ${dir##*/"$kernel"} = *-bug-* ]]; then
	bug=$top/tests/mutants/planted/${dir##*-bug-}.patch
	# Copies, as links lead to the checkout: also from twheel_core.c, which includes twheel.c.
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
