#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/bindings/php.sh: runs the tests of the PHP timers, with the in-process wheel, and with
# the kernel wheel in user-mode Linux, which has no sockets. Prints TAP.

. "$(dirname "$0")/../../vm/lib.sh"

need gcc make php-cli uthash-dev
out=$build/php
package=$top/userspace/bindings/php
machine=$out/machine
make -s -C "$top/userspace/lib" O="$out" "$out/libtwheel.so.0"
[ "$(wc -l <"$package/examples/idle_server.php")" -le 40 ] || die "the example has more than 40 lines"

status=0
echo "# run: timers_test.php, in the process"
TWHEEL_BACKEND=inprocess LD_LIBRARY_PATH=$out \
	timeout 120 php "$top/tests/bindings/php/timers_test.php" || status=$?
echo "# exit: $status"

# The machine gets executable files. PHPRC makes its PHP load extensions.
rm -rf "$machine"
mkdir -p "$machine"/{bin,ext,lib,lib64,package,examples,test}
php=$(readlink -f "$(command -v php)")
extensions=$(php -r 'echo PHP_EXTENSION_DIR;')
cp "$php" "$machine/bin/php"
cp "$extensions"/{ffi,posix}.so "$machine/ext"
printf 'extension=/ext/%s.so\n' ffi posix >"$machine/ext/php.ini"
ldd "$php" "$machine"/ext/*.so | sed -nE 's/.*=> (\S+) .*/\1/p' | sort -u |
	xargs cp -Lt "$machine/lib"
cp -L "$out/libtwheel.so.0" "$machine/lib"
cp -L /lib64/ld-linux-x86-64.so.2 "$machine/lib64"
cp "$package"/*.php "$machine/package"
cp "$package"/examples/*.php "$machine/examples"
cp "$top"/tests/bindings/php/*.php "$machine/test"
chmod -R +x "$machine"
"$top/vm/run.sh" --raw --kernel uml --name php --bin "$machine/bin" --bin "$machine/ext:/ext" \
	--bin "$machine/lib:/lib/x86_64-linux-gnu" --bin "$machine/lib64:/lib64" \
	--bin "$machine/test:/src/tests/bindings/php" \
	--bin "$machine/package:/src/userspace/bindings/php" \
	--bin "$machine/examples:/src/userspace/bindings/php/examples" \
	--run 'PHPRC=/ext TWHEEL_BACKEND=kernel php /src/tests/bindings/php/timers_test.php without-sockets' ||
	status=1
exit $status
