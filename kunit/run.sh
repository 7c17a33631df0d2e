#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Runs the suites in a kernel: user-mode Linux, built and started by the
# kernel's own kunit.py from Debian's linux-source-VERSION.
#
# The wheel and the suites are linked into the kernel without the device, so a
# call from one of them to the device is a link error.
#
# Source and build are kept in ${XDG_CACHE_HOME:-~/.cache}/twheel/.
set -eu

usage()
{
	cat <<-EOF
	usage: run.sh [--kasan] [--planted CASE] VERSION [NAME=VALUE...]

	  --kasan     with KASAN, which finds what the wheel does to memory
	  --planted   only this case, with a bug (see vm/gate.sh kunit)
	  VERSION     of the kernel: 6.12, 6.1
	  NAME=VALUE  parameter of the random suite: seed=42 ops=1000000
	EOF
}

die()
{
	echo "run.sh: $*" >&2
	exit 1
}

# Installs those of the packages that are missing; says nothing if none is.
need()
{
	missing=
	for package; do
		state=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || state=
		[ "$state" = installed ] || missing="$missing $package"
	done
	[ "$missing" ] || return 0

	sudo=
	[ "$(id -u)" = 0 ] || sudo=sudo
	echo "installing$missing" >&2
	$sudo apt-get update -qq
	# shellcheck disable=SC2086
	$sudo env DEBIAN_FRONTEND=noninteractive \
		apt-get install -qq -y --no-install-recommends $missing >/dev/null
}

# Unpacks the source into $1, whole or not at all.
unpack()
{
	[ ! -d "$1" ] || return 0
	new=$(mktemp -d "$1.XXXXXX")
	trap 'rm -rf "$new"' EXIT
	echo "unpacking linux-source-$version" >&2
	tar -C "$new" --strip-components=1 -xf "/usr/src/linux-source-$version.tar.xz"
	mv -T "$new" "$1"
	trap - EXIT
}

# Puts the wheel and the suites into the source tree $1, as links.
plant()
{
	rm -rf "$1/lib/twheel"
	mkdir "$1/lib/twheel"
	ln -s "$top"/twheel.c "$top"/twheel_slots.c "$top"/twheel_timers.c \
		"$top/include" "$here"/*.[ch] "$1/lib/twheel"
	cat > "$1/lib/twheel/Makefile" <<-'EOF'
	ccflags-y := -I$(srctree)/lib/twheel/include -I$(srctree)/lib/twheel/include/uapi -Werror
	obj-y := twheel.o twheel_slots.o twheel_kunit.o twheel_turn_kunit.o \
		twheel_model_kunit.o twheel_look_kunit.o
	EOF
	[ ! "$planted" ] || {
		ln -s "$top/vm/planted/twheel_planted_kunit.c" "$1/lib/twheel"
		echo 'obj-y += twheel_planted_kunit.o' >> "$1/lib/twheel/Makefile"
	}
	grep -qx 'obj-y += twheel/' "$1/lib/Makefile" ||
		echo 'obj-y += twheel/' >> "$1/lib/Makefile"
}

here=$(cd "$(dirname "$0")" && pwd)
top=$(dirname "$here")
kasan=
[ "${1-}" != --kasan ] || { kasan=1; shift; }
planted=
suites='twheel*'
[ "${1-}" != --planted ] || { planted=$2 suites=twheel_planted.$2; shift 2; }
version=${1-}
case $version in
6.1|6.12) shift ;;
-h|--help) usage; exit 0 ;;
*) usage >&2; exit 2 ;;
esac

need "linux-source-$version" bc bison flex gcc libelf-dev make python3 xz-utils

cache=${XDG_CACHE_HOME:-$HOME/.cache}/twheel
tree=$cache/uml-$(dpkg-query -W -f '${Version}' "linux-source-$version")
build=$tree.build${kasan:+-kasan}
mkdir -p "$cache" "$build"
exec 9> "$tree.lock"
flock 9

unpack "$tree"
plant "$tree"
# Another checkout may have built these from files that look older.
rm -rf "$build/lib/twheel"

failed=
args=
for arg; do
	args="$args --kernel_args=twheel_model_kunit.$arg"
done

cd "$tree"
kunit=tools/testing/kunit/kunit.py
log=$build/twheel.log
python3 $kunit build --arch=um --build_dir="$build" --jobs="$(nproc)" \
	--kunitconfig="$here/.kunitconfig" \
	${kasan:+--kconfig_add=CONFIG_KASAN=y --kconfig_add=CONFIG_KASAN_VMALLOC=y} \
	> "$log" 2>&1 || { cat "$log"; die "no kernel"; }

ktap=$build/twheel.ktap
# A report of KASAN fails the case in which it comes; there is only the first.
# shellcheck disable=SC2086
python3 $kunit exec --arch=um --build_dir="$build" --timeout=120 --raw_output=kunit \
	$args "$suites" > "$ktap" || failed=1
cat "$ktap"
# Of a warning no case knows.
! grep -E '(WARNING|BUG): ' "$ktap" || failed=1

# kunit.py sees what is missing, as after a crash. What has no results below it counts.
python3 $kunit parse "$ktap" > "$log" || failed=1
awk '
	/^ *(not )?ok / {
		match($0, /^ */)
		if (RLENGTH >= depth) {
			if ($1 == "ok" && !/# SKIP/)
				passed++
			else
				failed++
		}
		depth = RLENGTH
	}
	END {
		printf "linux %s: %d passed, %d failed\n", version, passed, failed
		exit failed || !passed
	}
' version="$version${kasan:+ with KASAN}" "$ktap" || failed=1
if [ "$failed" ]; then
	cat "$log"
	exit 1
fi
