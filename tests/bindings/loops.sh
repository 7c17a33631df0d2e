#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/bindings/loops.sh: tests the adapters and twheel.hpp, each with its example, with the
# in-process wheel under sanitizers, and with the kernel wheel in user-mode Linux. Meanwhile it
# tests twheelctl watch with the in-process wheel; make tool tests that with the kernel wheel.
# Prints TAP.

# Many of these functions are called by name.
# shellcheck disable=SC2317

. "$(dirname "$0")/../../vm/lib.sh"

# Any warning is an error in these builds.
export WERROR=1

need gcc g++ make pkg-config clang-14 libc6-dev uthash-dev libasio-dev libboost-dev libev-dev \
	libevent-dev libglib2.0-dev libsystemd-dev libuv1-dev
user=$top/userspace
loops=$user/loops
out=$build/adapters
library=$out/libtwheel.a
harness=$("$top/vm/source.sh")/tools/testing/selftests
flags=(-O1 -g -pthread -Wall -Wextra -Wshadow -Werror -I"$user/lib" -I"$loops"
	-I"$user/bindings/cxx" -I"$top/include/uapi" -isystem "$harness" -I"$top/tests/lib")
sanitize=("-fsanitize=address,undefined" -fno-sanitize-recover=all)
dir=$out
machine=$out/machine
# What each program prints if all is well.
declare -A words
# shellcheck source=../../tests/lib/tap.sh
. "$top/tests/lib/tap.sh"
export TWHEEL_BACKEND=inprocess

# builds OPTION... SOURCE OPTION...: builds a C or C++ program.
builds() {
	local compiler=(gcc -std=gnu11)

	[[ $* != *.cpp* ]] || compiler=(g++ -std=c++17)
	"${compiler[@]}" "${flags[@]}" "$@"
}

# builds_and_prints WORDS SOURCE OPTION...: builds and runs it with sanitizers, and builds it
# for the machine without them.
builds_and_prints() {
	local name=${2##*/}

	name=${name%.*}
	words[$name]=$1
	builds -o "$machine/bin/$name" "${@:2:1}" "$library" "${@:3}" &&
		builds "${sanitize[@]}" -o "$out/$name" "${@:2:1}" "$library" "${@:3}" &&
		timeout 60 "${fixed[@]}" "$out/$name" | tee "$out/$name.log" &&
		grep -Eqx -e "$1" "$out/$name.log"
}

# in_machine: runs all of these with the kernel wheel, together with the libraries that they need.
in_machine() {
	local name runs=()

	ldd "$machine"/bin/* | sed -nE 's/.*=> (\S+) .*/\1/p' | sort -u | xargs cp -Lt "$machine/lib"
	cp -L /lib64/ld-linux-x86-64.so.2 "$machine/lib64"
	chmod -R +x "$machine"
	for name in "${!words[@]}"; do
		runs+=(--run "echo '== $name'; TWHEEL_BACKEND=kernel $name")
	done
	"$top/vm/run.sh" --kernel uml --name loops --bin "$machine/bin" \
		--bin "$machine/lib:/lib/x86_64-linux-gnu" --bin "$machine/lib64:/lib64" \
		"${runs[@]}"
}

# printed NAME: passes if the program's output in the machine has a line with its words, and no
# failed test.
printed() {
	tr -d '\r' <"$out/machine.log" | sed -n "/^== $1\$/,/^== /p" >"$out/$1.log"
	cat "$out/$1.log"
	grep -Eqx -e "${words[$1]}" "$out/$1.log" && ! grep -q '^not ok' "$out/$1.log"
}

# example WORDS SOURCE OPTION...
example() {
	check "${2##*/}" builds_and_prints "$@"
	check "${2##*/}: 60 lines at most" [ "$(wc -l <"$2")" -le 60 ]
}

# in_cxx COMPILER STANDARD HEADER OPTION...
in_cxx() {
	"$1" -std="$2" "${flags[@]}" "${@:4}" -x c++ -fsyntax-only - <<<"#include <$3>"
}

# The exit status of the test of watch, and its output.
passed() {
	local status=0

	wait "$watch" || status=$?
	cat "$out/watch.log"
	return "$status"
}

rm -rf "$machine"
mkdir -p "$out" "$machine"/{bin,lib,lib64}
make -s -C "$user" ctl O="$out"
make -s -C "$user" "$out/watched" O="$out"
read -r -a glib < <(pkg-config --cflags glib-2.0)

# The test of watch waits most of its time.
TWHEELCTL=$out/twheelctl EXAMPLES=$out sh "$top/tests/tool/watch_test.sh" >"$out/watch.log" 2>&1 &
watch=$!

echo 'TAP version 14'
example "1000 timers in libuv's loop" "$user/examples/loop_libuv.c" -luv
example "1000 timers in libevent's loop" "$user/examples/loop_libevent.c" -levent_core
example "1000 timers in libev's loop" "$loops/examples/libev.c" -lev
example "1000 timers in sd-event's loop" "$loops/examples/sd-event.c" -lsystemd
example "1000 timers in GLib's loop" "$loops/examples/glib.c" "${glib[@]}" -lglib-2.0
example "alive is kicked, after 5 signs" "$loops/examples/glib-source.c" "${glib[@]}" -lglib-2.0
check "glib-source.c: a source that was destroyed is not called" \
	[ "$(wc -l <"$out/glib-source.log")" = 2 ]
example "1000 timers in Asio's loop" "$loops/examples/asio.cpp"
example 'sleeper is silent' "$loops/examples/wheel.cpp"
check "reader.h: lib_reader_test" \
	builds_and_prints '# PASSED: .*' "$top/tests/library/lib_reader_test.c" \
	-Wno-missing-field-initializers
check "adapters: nested loops and exceptions" builds_and_prints '1\.\.4' \
	"$top/tests/bindings/nested_test.cpp" "${glib[@]}" -lglib-2.0 -lev
check "twheel.hpp: lib_hpp_test" builds_and_prints '1\.\.74' "$top/tests/library/lib_hpp_test.cpp"
for header in libuv libevent libev sd-event glib; do
	check "$header.h in C++" in_cxx g++ c++11 "twheel/$header.h" "${glib[@]}"
done
check "asio.hpp with Boost" in_cxx g++ c++17 twheel/asio.hpp -DTWHEEL_ASIO_BOOST
for standard in c++17 c++20; do
	check "twheel.hpp, clang, $standard" in_cxx clang++-14 $standard twheel.hpp -Wpedantic
done
check "twheelctl watch" passed
in_machine >"$out/machine.log" 2>&1 || :
for name in "${!words[@]}"; do
	check "$name, the kernel's wheel" printed "$name"
done
check "the machine's verdict is PASS" grep -qx 'twheel-vm: verdict: PASS' "$out/machine.log"
done_testing
