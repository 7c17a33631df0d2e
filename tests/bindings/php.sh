#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/bindings/php.sh: the tests of the timers for PHP, over the wheel in the process. Prints
# TAP.

. "$(dirname "$0")/../../vm/lib.sh"

need gcc make php-cli uthash-dev
out=$build/php
make -s -C "$top/userspace/lib" O="$out" "$out/libtwheel.so.0"

export LD_LIBRARY_PATH=$out TWHEEL_BACKEND=inprocess
[ "$(wc -l <"$top/userspace/bindings/php/examples/idle_server.php")" -le 40 ] ||
	die "the example has more than 40 lines"
exec timeout 120 php "$top/tests/bindings/php/timers_test.php"
