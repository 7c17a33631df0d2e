#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/bindings/foreign.sh [NAME...]: runs other projects on top of libtwheel, with their own
# tests. All tests run with the in-process wheel, and those of timers also with the kernel
# wheel in user-mode Linux. Prints TAP, and the counts as comments. NAME is
#
#   libuv   Debian's source, with foreign/libuv_timer.c in place of its src/timer.c, and all of its
#           tests but three: 399 pass, and 21 of timers and loops with the kernel wheel
#   glib    Debian's GLib with foreign/glib_timeout.c by LD_PRELOAD, and the tests of GLib, GObject
#           and GIO that use timeouts: 388 pass, and 48 with the kernel wheel
#   asio    Debian's Boost.Asio with foreign/asio_timer_queue.hpp in place of its timer queue, and
#           Boost's tests of timers, with all clocks and with its reactor for select(): 26 pass, and
#           26 with the kernel wheel
#   mosquitto, nginx
#           Debian's source, with foreign/mosquitto_keepalive.c or foreign/nginx_timer.c in place of
#           its timers, and 2,000 clients of foreign/silent_clients.c, or 200 with the kernel wheel:
#           the server kicks each silent client, and none early. Comments compare it with the server
#           as Debian has it
#
# The tests of asyncio and of Go's package time are in asyncio.sh and go.sh.

. "$(dirname "$0")/../../vm/lib.sh"

# Many of these functions are called by name.
# shellcheck disable=SC2317

need gcc make uthash-dev
out=$build/foreign
shims=$top/tests/bindings/foreign
library=$out/libtwheel.a
machine=$out/machine
include=(-I"$top/userspace/lib" -I"$top/include/uapi")
dir=$out
# shellcheck source=../lib/tap.sh
. "$top/tests/lib/tap.sh"
export TWHEEL_BACKEND=inprocess
export -n TWHEEL_CHECKED
[ $# -gt 0 ] || set -- libuv glib asio mosquitto nginx

# source_of PACKAGE [PATTERN]: unpacks Debian's source, or its files that match, into
# $out/PACKAGE. It uses apt lists of its own, so that this machine's configuration stays as it is.
source_of() {
	local apt=$cache/apt-source options=(-q)

	mkdir -p "$apt"/{lists,cache/archives}/partial "$apt/$1"
	echo "deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
		"$(debian_mirror) bookworm main" >"$apt/sources.list"
	options+=(-o "Dir::Etc::sourcelist=$apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
		-o "Dir::State::lists=$apt/lists" -o "Dir::Cache=$apt/cache"
		-o Acquire::Languages=none -o APT::Sandbox::User=root)
	cd "$apt/$1"
	if ! ls ./*.dsc >/dev/null 2>&1; then
		apt-get "${options[@]}" update
		apt-get "${options[@]}" --download-only source "$1"
	fi
	rm -rf "${out:?}/$1"
	if [ $# -eq 1 ]; then
		dpkg-source --no-check -x ./*.dsc "$out/$1"
	else
		mkdir "$out/$1"
		tar -xf ./*.orig.tar.* -C "$out/$1" --strip-components=1 --wildcards "$2"
	fi
}

# told NAME LOG: prints a line for each test of a log with TAP, except for skipped ones.
told() {
	local line

	while IFS= read -r line; do
		case $line in
		*'# SKIP'*) echo "# $1 skips ${line#ok * }" ;;
		ok*) verdict 0 "$1: ${line#ok * }" ;;
		*) verdict 1 "$1: ${line#not ok * }" ;;
		esac
	done < <(tr -d '\r' <"$2" | sed -E -n 's/^((not )?ok [0-9]+) (- )?/\1 /p')
}

# counts NAME LOG MINIMUM: prints how many tests passed, and fails below MINIMUM.
counts() {
	local passed

	passed=$(tr -d '\r' <"$2" | grep '^ok ' | grep -vc '# SKIP' || :)
	echo "# $1: $passed tests passed"
	verdict "$((passed < $3))" "$1: $3 tests at least"
}

# in_machine NAME COMMAND...: runs the programs in $machine/bin, together with the libraries
# that they need.
in_machine() {
	local runs=() command

	ldd "$machine"/bin/* | sed -nE 's/.*=> (\S+) .*/\1/p' | sort -u | xargs cp -Lt "$machine/lib"
	cp -L /lib64/ld-linux-x86-64.so.2 "$machine/lib64"
	chmod -R +x "$machine"
	for command in "${@:2}"; do
		runs+=(--run "export TWHEEL_BACKEND=kernel; $command")
	done
	"$top/vm/run.sh" --kernel uml --name "foreign-$1" --bin "$machine/bin" \
		--bin "$machine/lib:/lib/x86_64-linux-gnu" --bin "$machine/lib64:/lib64" \
		"${runs[@]}" >"$out/$1.machine.log" 2>&1 || :
}

new_machine() {
	rm -rf "$machine"
	mkdir -p "$machine"/{bin,lib,lib64}
}

build_libuv() {
	cd "$out/libuv1"
	cp "$shims/libuv_timer.c" src/timer.c
	# The wheel ends with its loop.
	sed -i -e '/^void uv__loop_close(/i void uv__timers_end(uv_loop_t *loop);' \
		-e '/^void uv__loop_close(/,/^}/s/^  uv__signal_loop_cleanup/  uv__timers_end(loop);\n&/' \
		src/unix/loop.c
	grep -q 'timers_end(loop)' src/unix/loop.c
	cmake -S . -B build -DLIBUV_BUILD_BENCH=OFF -DCMAKE_C_FLAGS="-O1 -w ${include[*]}" \
		-DCMAKE_C_STANDARD_LIBRARIES="$library"
	make -C build -j "$(nproc)" uv_run_tests_a
}

libuv() {
	local tests

	check "libuv: unpack the source" source_of libuv1
	check "libuv: build with libtwheel" build_libuv
	cd "$out/libuv1"
	# The tests refuse to run as root unless they are told to, and each has only five seconds.
	UV_RUN_AS_ROOT=1 UV_TEST_TIMEOUT_MULTIPLIER=4 timeout 400 build/uv_run_tests_a \
		>"$out/libuv.all.log" 2>&1 || :
	# Two of these connect to addresses beyond this machine, and the third expects a
	# refusal, which root does not get.
	grep -Ev ' - (tcp_close_while_connecting|tcp_connect_timeout|fs_copyfile)$' "$out/libuv.all.log" \
		>"$out/libuv.log"
	told libuv "$out/libuv.log"
	counts libuv "$out/libuv.log" 390

	new_machine
	cp build/uv_run_tests_a "$machine/bin"
	# loop_backend_timeout requires twheel_next() to be exact for a timer of 1 s. That is the
	# test's premise and no defect, because a kernel wheel promises a lower bound: the loop may
	# wake up once more, but no timer is early.
	read -r -d '' -a tests < <(sed -nE 's/^ *TEST_ENTRY *\(((timer|loop|fork_timer)[a-z0-9_]*)\).*/\1/p' \
		test/test-list.h | grep -vx loop_backend_timeout | sort -u && printf '\0')
	in_machine libuv "export UV_RUN_AS_ROOT=1; for test in ${tests[*]}; do \
uv_run_tests_a \$test \$test && echo ok 1 \$test || echo not ok 1 \$test; done"
	told "libuv, the kernel's wheel" "$out/libuv.machine.log"
	counts "libuv, the kernel's wheel" "$out/libuv.machine.log" 20
	check "libuv: the machine's verdict is PASS" \
		grep -qx 'twheel-vm: verdict: PASS' "$out/libuv.machine.log"
}

build_glib() {
	local flags

	read -r -a flags < <(pkg-config --cflags --libs glib-2.0)
	gcc -std=gnu11 -O1 -g -fPIC -shared -Wall -Wextra -Werror "${include[@]}" -o "$out/glib_timeout.so" \
		"$shims/glib_timeout.c" "$library" "${flags[@]}" -pthread -Wl,--exclude-libs,ALL
}

# of_glib PROGRAM [OPTION...]: prints the output of a test program, which has two tries,
# because many tests judge times.
of_glib() {
	local status

	for _ in 1 2; do
		status=0
		timeout 120 env LD_PRELOAD="$out/glib_timeout.so" "/usr/libexec/installed-tests/glib/$1" \
			--tap "${@:2}" >"$out/glib.one.log" 2>&1 || status=$?
		[ $status -ne 0 ] || break
	done
	cat "$out/glib.one.log"
	[ $status -eq 0 ] || echo "not ok 0 $1 ended with status $status"
}

glib() {
	local program test each twice

	need libglib2.0-dev libglib2.0-tests
	check "glib: build the shim" build_glib
	cd "$out"
	# Each test of mainloop runs in a process of its own, because some count the
	# descriptors of the default context, which include the wheel's from its first timeout
	# on.
	read -r -d '' -a each < <(/usr/libexec/installed-tests/glib/mainloop -l | grep '^/' && printf '\0')
	for test in "${each[@]}"; do
		of_glib mainloop -m slow -p "$test"
	done >glib.log
	for program in timeout unix utils spawn-multithreaded thread-pool-slow actions cancellable \
		contexts gmenumodel gsubprocess network-address task unix-streams gdbus-auth \
		gdbus-connection gdbus-peer gdbus-proxy gdbus-exit-on-close gapplication; do
		of_glib "$program"
	done >>glib.log
	# The timeout test of this program sets a closure, which GLib supports only for its own
	# sources.
	of_glib closure -s /closure/timeout >>glib.log
	told glib glib.log
	counts glib glib.log 370

	new_machine
	cp /usr/libexec/installed-tests/glib/{mainloop,timeout} glib_timeout.so "$machine/bin"
	# Here, too, each program has two tries.
	twice='export LD_PRELOAD=/bin/glib_timeout.so; twice() { "$@" >/tmp/one || "$@" >/tmp/one ||'
	twice+=' echo not ok 0 $* >>/tmp/one; cat /tmp/one; }'
	in_machine glib "$twice; for test in ${each[*]}; do twice mainloop --tap -m slow -p \$test; done" \
		"$twice; twice /bin/timeout --tap"
	told "glib, the kernel's wheel" glib.machine.log
	counts "glib, the kernel's wheel" glib.machine.log 45
	check "glib: the machine's verdict is PASS" \
		grep -qx 'twheel-vm: verdict: PASS' glib.machine.log
}

# program_of_asio NAME SOURCE [OPTION...]: builds Boost's tests for here and for the machine.
program_of_asio() {
	g++ -std=c++17 -O1 -g -Wall -Wextra -Werror -I"$out/asio" "${include[@]}" -I"$asio_tests" \
		"${@:3}" -o "$machine/bin/asio_$1" "$2" "$library" -pthread
}

# Boost tests only one of the clocks of std::chrono. The same tests fit the others.
build_asio() {
	local clock

	mkdir -p "$out/asio/boost/asio/detail" &&
		cp "$shims/asio_timer_queue.hpp" "$out/asio/boost/asio/detail/timer_queue.hpp" || return
	for clock in steady high_resolution; do
		sed "s/system_timer/${clock}_timer/g" "$asio_tests/system_timer.cpp" >"$out/asio/$clock.cpp" &&
			program_of_asio "$clock" "$out/asio/$clock.cpp" || return
	done
	program_of_asio deadline "$asio_tests/deadline_timer.cpp" &&
		program_of_asio system "$asio_tests/system_timer.cpp" &&
		program_of_asio select "$asio_tests/system_timer.cpp" -DBOOST_ASIO_DISABLE_EPOLL
}

# One line. The programs sleep for most of their time, so they run together.
asio_names='deadline high_resolution select steady system'
asio_script="cd /tmp; for name in $asio_names; do \
{ asio_\$name 2>&1 || echo not ok 0 \$name ended with an error; } >\$name.log & done; wait; \
for name in $asio_names; do sed -E -e \"s/^(.*) passed\$/ok 1 \$name: \\1/\" \
-e \"s/^(.*) failed\$/not ok 1 \$name: \\1/\" \$name.log; done"

asio() {
	asio_tests=$out/boost1.74/libs/asio/test
	need g++ libboost-dev
	new_machine
	check "asio: unpack the tests" source_of boost1.74 '*/libs/asio/test'
	check "asio: build with libtwheel" build_asio
	PATH=$machine/bin:$PATH timeout 300 sh -c "$asio_script" >"$out/asio.log" 2>&1 || :
	told asio "$out/asio.log"
	counts asio "$out/asio.log" 26
	in_machine asio "$asio_script"
	told "asio, the kernel's wheel" "$out/asio.machine.log"
	counts "asio, the kernel's wheel" "$out/asio.machine.log" 26
	check "asio: the machine's verdict is PASS" \
		grep -qx 'twheel-vm: verdict: PASS' "$out/asio.machine.log"
}

# Warnings about the server's own source are not ours to heed.
flags_of_servers="-O1 -w ${include[*]}"

make_mosquitto() {
	CFLAGS=$flags_of_servers make -C src -j "$(nproc)" mosquitto BROKER_LDADD="$library -ldl -lm" \
		WITH_TLS=no WITH_TLS_PSK=no WITH_EC=no WITH_CJSON=no WITH_STRIP=no WITH_SYSTEMD=no \
		WITH_WEBSOCKETS=no WITH_WRAP=no
}

build_mosquitto() {
	cd "$out/mosquitto" &&
		sed -i '/^\ttime_t last_msg_in;/a\	uint64_t keepalive_timer;' lib/mosquitto_internal.h &&
		grep -q keepalive_timer lib/mosquitto_internal.h &&
		make_mosquitto && mv src/mosquitto "$out/mosquitto.before" &&
		cp "$shims/mosquitto_keepalive.c" src/keepalive.c &&
		make_mosquitto && mv src/mosquitto "$out/mosquitto.twheel"
}

make_nginx() {
	# Without modules that need libraries, and those that talk to other servers.
	./configure --with-http_dav_module --without-http_rewrite_module --without-http_gzip_module \
		--without-http_proxy_module --without-http_fastcgi_module --without-http_uwsgi_module \
		--without-http_scgi_module --without-http_grpc_module --without-http_memcached_module \
		--with-cc-opt="$flags_of_servers" --with-ld-opt="$library" &&
		make -j "$(nproc)"
}

build_nginx() {
	local member='struct { uint64_t id; ngx_queue_t link; } timer;'

	cd "$out/nginx" && make_nginx && mv objs/nginx "$out/nginx.before" &&
		sed -i "s/^    ngx_rbtree_node_t   timer;/    $member/" src/event/ngx_event.h &&
		grep -q "$member" src/event/ngx_event.h &&
		cp "$shims/nginx_timer.c" src/event/ngx_event_timer.c &&
		cp "$shims/nginx_timer.h" src/event/ngx_event_timer.h &&
		make -j "$(nproc)" && mv objs/nginx "$out/nginx.twheel"
}

build_clients() {
	gcc -std=gnu11 -O1 -g -Wall -Wextra -Werror -Wno-missing-field-initializers \
		-o "$out/silent_clients" "$shims/silent_clients.c"
}

# with_clients LOG SERVER CLIENTS PROGRAM [tell]: in a directory of its own
with_clients() {
	rm -rf "$out/$1.run" && mkdir "$out/$1.run" && cd "$out/$1.run" &&
		timeout 200 "$out/silent_clients" "${@:2}" >"$out/$1.log" 2>&1
}

# server mosquitto|nginx
server() {
	local name=$1 status=0

	check "$name: the source" source_of "$name"
	check "$name: builds" "build_$name"
	check "$name: the clients build" build_clients
	with_clients "$name.before" "$name" 2000 "$out/$name.before" tell || :
	sed 's/^# */# as it was: /' "$out/$name.before.log"
	with_clients "$name" "$name" 2000 "$out/$name.twheel" || status=$?
	grep '^#' "$out/$name.log" || :
	told "$name" "$out/$name.log"
	verdict $status "$name: the clients end with status 0"

	new_machine
	cp "$out/$name.twheel" "$machine/bin/$name"
	cp "$out/silent_clients" "$machine/bin"
	# As in the in-process run, it is root's. nginx looks that up.
	in_machine "$name" "mkdir -p /etc /tmp/run && cd /tmp/run && \
echo root:x:0:0:root:/:/bin/sh >/etc/passwd && echo root:x:0: >/etc/group && \
silent_clients $name 200 $name"
	tr -d '\r' <"$out/$name.machine.log" | grep '^# '"$name" || :
	told "$name, the kernel's wheel" "$out/$name.machine.log"
	check "$name: the machine's verdict is PASS" \
		grep -qx 'twheel-vm: verdict: PASS' "$out/$name.machine.log"
}

mkdir -p "$out"
make -s -C "$top/userspace/lib" O="$out" "$library"
echo 'TAP version 14'
for name in "$@"; do
	case $name in
	libuv)
		need cmake dpkg-dev
		libuv
		;;
	glib) glib ;;
	asio)
		need dpkg-dev
		asio
		;;
	mosquitto | nginx)
		need dpkg-dev
		server "$name"
		;;
	*) die "unknown: $name" ;;
	esac
done
done_testing
