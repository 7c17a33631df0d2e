#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/library/builds.sh: builds libtwheel as others might, with various compilers, C
# libraries and options. It also builds the tool and the examples, and runs these with the
# in-process wheel. Programs that use a sanitizer or unload a plugin also run in a machine,
# with the kernel wheel. Prints TAP.

# Many of these functions are called by name.
# shellcheck disable=SC2317

. "$(dirname "$0")/../../vm/lib.sh"

# Any warning is an error in these builds.
export WERROR=1

need gcc g++ clang-14 libc6-dev musl-tools uthash-dev valgrind file gcc-aarch64-linux-gnu \
	libc6-dev-arm64-cross

user=$top/userspace
out=$build/lib-builds
# shellcheck source=../../tests/lib/tap.sh
. "$top/tests/lib/tap.sh"
log=$logs/builds-last.log
export TWHEEL_BACKEND=inprocess

# The subcommands that talk to twheeld need jansson, which Debian packages only for glibc.
tool=()
for source in "$user"/{ctl,shared}/*.c; do
	grep -qE 'jansson\.h|"(body|http|transfer)\.h"' "$source" || tool+=("$source")
done

# ok NAME COMMAND...: one line of TAP, followed by the command's output if it fails. Fails with it.
ok() {
	local status=0

	"${@:2}" >"$log" 2>&1 || status=$?
	verdict $status "$1"
	[ $status = 0 ] || { echo "status $status"; tail -n 40 "$log"; } | sed 's/^/# /'
	return $status
}

# build_library DIR MAKE-VARIABLE...
build_library() {
	make -s -C "$user/lib" O="$1" "${@:2}"
}

# compile DIR NAME FILE... -- OPTION...: compiles with $cc and $flags. Files are compiled one
# by one, so that ccache can store the objects.
compile() {
	local dir=$1 name=$2 argument object options=() files=() made=() others=()

	for argument in "${@:3}"; do
		case $argument in
		-std=* | -W* | -f*) options+=("$argument") ;;
		*.c | *.cpp) files+=("$argument") ;;
		--) ;;
		*) others+=("$argument") ;;
		esac
	done
	for argument in "${files[@]}"; do
		object=$dir/$name-${argument##*/}.o
		"${cc[@]}" "${flags[@]}" "${options[@]}" -Wall -Wextra -Wno-missing-field-initializers \
			-Werror -pthread -I"$user/lib" -I"$top/include/uapi" -c -o "$object" \
			"$argument" || return
		made+=("$object")
	done
	"${cc[@]}" "${flags[@]}" -pthread -o "$dir/$name" "${made[@]}" "${others[@]}"
}

# with_library DIR COMMAND...: runs a command with the shared library in DIR.
with_library() {
	LD_LIBRARY_PATH=$1 timeout 60 "${@:2}"
}

# Every global name in the archive has the library's prefix.
names_are_ours() {
	local others

	others=$(nm -g --defined-only "$1" |
		awk 'NF == 3 && $3 !~ /^(DW\.ref\.__gcc|twheel)_/ { print $3 }')
	echo "$others"
	[ -z "$others" ]
}

# The shared library exports exactly the functions that the headers declare.
names_are_declared() {
	diff <(nm -D --defined-only "$1" | awk '$2 == "T" { sub("@.*", "", $3); print $3 }' | sort) \
		<(grep -h '^[a-z].*(' "$user"/lib/libtwheel.h "$user"/lib/libtwheel_keyed.h |
			grep -o '\<twheel_[a-z_]*(' | tr -d '(' | sort -u)
}

# program DIR NAME SOURCE... -- OPTION...: builds and runs a program.
program() {
	! ok "${1##*/}: $2" compile "$@" || ok "${1##*/}: $2 runs" with_library "$1" "$1/$2" || true
}

# programs DIR STATIC: builds the tool and examples with the library in DIR. STATIC is -static
# where static linking works.
programs() {
	local dir=$1 static=$2 name

	! ok "${dir##*/}: compile twheelctl" \
		compile "$dir" twheelctl "${tool[@]}" "$dir/libtwheel.a" -- \
		-std=gnu11 ||
		ok "${dir##*/}: twheelctl --version" timeout 60 "$dir/twheelctl" --version || true
	for name in request_deadline by_key; do
		program "$dir" $name "$user/examples/$name.c" "$dir/libtwheel.a" -- -std=gnu11 -Wshadow
		[ -z "$static" ] || program "$dir" $name-static "$user/examples/$name.c" \
			"$dir/libtwheel.a" -- -std=gnu11 -static
		program "$dir" $name-shared "$user/examples/$name.c" -- -std=gnu11 -L"$dir" -ltwheel
	done
}

# plugin DIR NAME OPTION...: builds a plugin that contains the library, or shares it.
plugin() {
	local dir=$1 name=$2

	! ok "${dir##*/}: $name" compile "$dir" "$name" "$top/tests/library/lib_plugin.c" -- \
		-fPIC -shared "${@:3}" ||
		ok "${dir##*/}: $name is unloaded before its thread ends" \
			with_library "$dir" "$dir/loader" dlclose "$dir/$name" || true
}

# sanitized DIR: programs with a sanitizer that use the library in DIR, which has none.
sanitized() {
	local dir=$1 source=$top/tests/library/lib_builds.c

	export TSAN_OPTIONS=halt_on_error=1
	flags=(-O1 -g "-fsanitize=address,undefined" -fno-sanitize-recover=all)
	if ok "address: compile a program" \
		compile "$dir" asan "$source" "$dir/libtwheel.a" -- -ldl; then
		ok "address: a wheel that is left open is no leak" \
			"${fixed[@]}" "$dir/asan" left_open || true
		ok "address: memory that is passed in an event" \
			"${fixed[@]}" "$dir/asan" handed || true
		ok "address: a plugin that is unloaded leaks nothing" \
			"${fixed[@]}" "$dir/asan" dlclose "$dir/plugin.so" || true
	fi
	flags=(-O1 -g -fsanitize=thread)
	if ok "thread: compile a program" \
		compile "$dir" tsan "$source" "$dir/libtwheel.a" -- -ldl; then
		ok "thread: a wheel that is left open" "${fixed[@]}" "$dir/tsan" left_open || true
		ok "thread: memory that is passed in an event" \
			"${fixed[@]}" "$dir/tsan" handed || true
	fi
	! ok "thread: compile a program with the shared library" \
		compile "$dir" tsan-shared "$source" -- \
		-L"$dir" -ltwheel -ldl ||
		ok "thread: memory that is passed in an event, with the shared library" \
			env LD_LIBRARY_PATH="$dir" \
			"${fixed[@]}" "$dir/tsan-shared" handed || true
	ok "thread: memory that is passed in an event, by a library with the sanitizer" \
		sanitized_whole "$out/tsan" || true
}

# sanitized_whole DIR: a program and a library that both have a sanitizer, which then also sees
# the library's accesses.
sanitized_whole() {
	local dir=$1

	build_library "$dir" SANITIZE=thread CFLAGS='-O1 -g' "$dir/libtwheel.a" &&
		compile "$dir" tsan-whole "$top/tests/library/lib_builds.c" "$dir/libtwheel.a" -- -ldl &&
		"${fixed[@]}" "$dir/tsan-whole" handed
}

# over_the_kernel DIR: runs the same programs and plugins in a machine, with the C library that
# they are linked to. Addresses are fixed, for the thread sanitizer.
over_the_kernel() {
	local machine=$1/machine what runs=()

	mkdir -p "$machine"/{bin,lib,lib64}
	install "$1"/{asan,tsan,tsan-shared,loader,plugin.so,plugin-shared.so} "$machine/bin"
	install "$out/tsan/tsan-whole" "$machine/bin"
	install "$1"/libtwheel.so.* "$machine/lib"
	install /lib64/ld-linux-x86-64.so.2 "$machine/lib64"
	ldd "$1"/{asan,tsan,loader} | awk '$2 == "=>" { print $3 }' | sort -u |
		xargs -I{} install {} "$machine/lib"
	for what in 'asan left_open' 'asan handed' 'asan dlclose /bin/plugin.so' 'tsan left_open' \
		'tsan handed' 'tsan-shared handed' 'tsan-whole handed' 'loader exit' 'loader dlclose /bin/plugin.so' \
		'loader dlclose /bin/plugin-shared.so'; do
		runs+=(--run "TSAN_OPTIONS=halt_on_error=1 TWHEEL_BACKEND=kernel $what")
	done
	"$top/vm/run.sh" --name lib-builds --append norandmaps --bin "$machine/bin" \
		--bin "$machine/lib:lib" --bin "$machine/lib64:lib64" "${runs[@]}"
}

# cxx COMPILER STANDARD: builds and runs the C++ test.
cxx() {
	cc=("$1")
	flags=(-O2 -g -std="$2" -Wshadow)
	program "$out/gcc" "cxx-$1-$2" "$top/tests/library/lib_cxx_test.cpp" "$out/gcc/libtwheel.a" --
}

# hpp COMPILER OPTION...: uses twheel.hpp with options that other projects use, where a warning
# is an error.
hpp() {
	"$1" -std=c++17 "${@:2}" -Wall -Wextra -Wpedantic -Werror -I"$user/lib" \
		-I"$user/bindings/cxx" -I"$top/include/uapi" -pthread \
		-o "$out/hpp" "$top/tests/library/lib_hpp_codes.cpp" "$out/gcc/libtwheel.a" &&
		timeout 60 "$out/hpp"
}

# exits PROGRAM: runs it several times, because threads may be lucky once.
exits() {
	local _

	for _ in {1..8}; do
		timeout 60 "$1" exit || return
	done
}

# kind NAME CC STATIC FLAG...: all of this for one compiler and its flags.
kind() {
	local dir=$out/$1

	read -r -a cc <<<"$2"
	flags=("${@:4}")
	ok "$1: build the library" build_library "$dir" CC="$2" CFLAGS="${flags[*]}" || return 0
	ok "$1: all global names in the archive have the prefix" \
		names_are_ours "$dir/libtwheel.a" || true
	ok "$1: the library exports what its headers declare" \
		names_are_declared "$dir/libtwheel.so" || true
	programs "$dir" "$3"
	ok "$1: compile a program that loads plugins" compile "$dir" loader \
		"$top/tests/library/lib_builds.c" "$dir/libtwheel.a" -- -ldl || return 0
	ok "$1: a process exits while threads use the library" exits "$dir/loader" || true
	plugin "$dir" plugin.so "$dir/libtwheel.a"
	plugin "$dir" plugin-shared.so -L"$dir" -ltwheel
}

rm -rf "$out"
mkdir -p "$out"
echo 'TAP version 14'
kind gcc gcc -static -O2 -g
sanitized "$out/gcc"
ok "the kernel's wheel: sanitizers and plugins" over_the_kernel "$out/gcc" || true
for standard in c++11 c++17; do
	cxx g++ $standard
	cxx clang++-14 $standard
done
for compiler in g++ clang++-14; do
	ok "twheel.hpp: $compiler -fno-exceptions" hpp $compiler -fno-exceptions || true
	ok "twheel.hpp: $compiler -fno-rtti" hpp $compiler -fno-rtti || true
	ok "twheel.hpp: $compiler, strict conversions" \
		hpp $compiler -Wconversion -Wsign-conversion \
		-Wold-style-cast -Wzero-as-null-pointer-constant || true
done
kind gcc-strict gcc '' -O3 -Wshadow -Wformat=2 -Wundef
kind clang clang-14 -static -O2 -g
kind lto gcc -static -g -O2 -flto=auto -ffat-lto-objects
cc=(gcc)
flags=(-O2)
# Built by a program without LTO.
program "$out/lto" by_key-plain "$user/examples/by_key.c" "$out/lto/libtwheel.a" -- -std=gnu11
# musl comes without kernel headers, so glibc's come after its own. The unwinder of Debian's
# compiler does not link with musl.
kind musl musl-gcc -static -O2 -g -fno-exceptions -idirafter /usr/include \
	-idirafter "/usr/include/$(gcc -print-multiarch)"
for header in libtwheel/twheel.h libtwheel.h libtwheel_keyed.h; do
	ok "<$header> by itself, C99" gcc -std=c99 -pedantic -Wall -Wextra -Wshadow -Werror \
		-I"$user/lib" -I"$top/include/uapi" -include "$header" -x c -fsyntax-only \
		- <<<'extern int anything;' || true
done
cc=(gcc)
flags=(-O2)
if ok 'without the fallback: build the library' build_library "$out/without" WITHOUT_FALLBACK=1 &&
	ok 'without the fallback: compile a program' compile "$out/without" loader \
		"$top/tests/library/lib_builds.c" "$out/without/libtwheel.a" -- -ldl; then
	ok 'without the fallback: twheel_open() reports that' \
		timeout 60 "$out/without/loader" no_fallback || true
fi
# kbuild exports MAKEFLAGS with these options, and a package may be built without an environment.
ok 'make -rR, without builtin variables and rules' \
	make -rR -s -C "$user/lib" O="$out/rR" WERROR=1 || true
ok 'make without an environment' \
	env -i PATH="$PATH" make -s -C "$user/lib" O="$out/env" WERROR=1 || true
cross() {
	make -s -C "$user" CROSS_COMPILE=aarch64-linux-gnu- O="$out/arm64" lib ctl &&
		make -s -C "$user" CROSS_COMPILE=aarch64-linux-gnu- O="$out/arm64" PREFIX=/usr \
			DESTDIR="$out/arm64/root" install &&
		file -b "$out"/arm64/root/usr/{bin/twheelctl,lib/libtwheel.so.0.*} |
		grep -c 'ARM aarch64' | grep -x 2
}
ok 'CROSS_COMPILE=aarch64-linux-gnu-: builds and installs' cross || true
ok 'valgrind: by_key' valgrind -q --error-exitcode=9 --leak-check=full "$out/gcc/by_key" || true
done_testing
