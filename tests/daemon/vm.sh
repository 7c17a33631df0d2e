#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/daemon/vm.sh [KERNEL]: boots a machine with /dev/twheel, a Redis and the daemon, and
# runs vm_test.sh there. Prints TAP.

. "$(dirname "$0")/../../vm/lib.sh"

# Any warning is an error in these builds.
export WERROR=1

need pkg-config libhiredis-dev libcurl4-openssl-dev libmicrohttpd-dev libjansson-dev \
	libssl-dev libglib2.0-dev libsystemd-dev redis-server curl xxd

daemon=$top/userspace/daemon
out=$build/daemon
machine=$build/daemon-vm
quietly make -s -C "$daemon" O="$out"

# Programs, and the libraries that they are linked to: what is put there is executable.
rm -rf "$machine"
mkdir -p "$machine"/{daemon,dlib,lib64}
install "$out/twheeld" "$(command -v redis-server)" "$(command -v curl)" "$top/tests/daemon/vm_test.sh" \
	"$top/tests/lib/tap.sh" "$machine/daemon"
ldd "$machine"/daemon/{twheeld,redis-server,curl} | awk '$2 == "=>" { print $3 }' | sort -u |
	xargs -I{} install {} "$machine/dlib"
install /lib64/ld-linux-x86-64.so.2 "$machine/lib64"
"$top/vm/run.sh" --kernel "${1:-6.12}" --name "daemon-${1:-6.12}" --raw \
	--bin "$machine/daemon:daemon" --bin "$machine/dlib:dlib" --bin "$machine/lib64:lib64" \
	-- sh /daemon/vm_test.sh
