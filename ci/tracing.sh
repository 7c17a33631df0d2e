#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/tracing.sh: runs each bpftrace command of twheel(4) in a VM, beside a program whose timers
# expire and are read. Prints TAP. Copies Debian's bpftrace and its libraries into the VM.

. "$(dirname "$0")/../vm/lib.sh"

need bpftrace
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir"/{bin,lib,lib64}
cp "$(command -v bpftrace)" "$dir/bin"
ldd "$dir/bin/bpftrace" | awk '$2 == "=>" { print $3 }' | while read -r library; do
	cp -L "$library" "$dir/lib"
done
cp -L /lib64/ld-linux-x86-64.so.2 "$dir/lib64"
chmod +x "$dir"/lib*/*

# Writes each command of the page to a script, with an added probe that ends it after four seconds.
mandoc -T ascii "$top/doc/man/twheel.4" | col -b | awk -v dir="$dir/bin" '
	/^ *bpftrace -e / { file = dir "/command" ++n ".sh" }
	file {
		end = sub(/\047$/, " interval:s:4 { exit(); }\047")
		print >file
		if (end)
			file = ""
	}'
cat >"$dir/bin/all.sh" <<-'END'
	while :; do oneshot; done >/dev/null 2>&1 &
	number=0
	for what in '^@late_ns:' '^@\[oneshot\]: [1-9]' '^@unread_ns:'; do
	    number=$((number + 1))
	    sh "/bin/command$number.sh" >/tmp/out 2>&1
	    sed 's/^/# /' /tmp/out
	    grep -q "$what" /tmp/out || printf 'not '
	    echo "ok $number bpftrace prints $what"
	done
	kill $!
	echo "1..$number"
	[ ! -e "/bin/command$((number + 1)).sh" ] || echo 'Bail out! twheel(4) contains a command that this test does not check'
END
exec "$top/vm/run.sh" --name vm-tracing --raw --memory 2G --limit 300 --timeout 400 \
	--bin "$build/user/oneshot" --bin "$dir/bin" --bin "$dir/lib:/lib/x86_64-linux-gnu" \
	--bin "$dir/lib64:/lib64" --run 'sh /bin/all.sh' 2>&1
