#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/promtool.sh: prints the path of promtool. If it is not installed, this unpacks Debian's package
# without installing it, because the package would start a server.

. "$(dirname "$0")/../vm/lib.sh"

command -v promtool && exit
dir=$build/prometheus
exec 9>"$build/.promtool.lock"
flock 9
if ! [ -x "$dir/usr/bin/promtool" ]; then
	rm -rf "$dir"
	mkdir -p "$dir"
	(cd "$dir" && with_index apt_get download prometheus) >&2
	dpkg-deb -x "$dir"/prometheus_*.deb "$dir"
fi
echo "$dir/usr/bin/promtool"
