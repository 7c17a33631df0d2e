#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/bindings/go.sh [GOARCH...]: the tests of the Go package, over the kernel's wheel in
# the VM: amd64, or for example 386. Prints TAP. A test that is skipped there has failed.

# passed() is called by silent().
# shellcheck disable=SC2317

. "$(dirname "$0")/../../vm/lib.sh"

need golang-go qemu-system-x86
out=$build/go
dir=$out
export CGO_ENABLED=0 GOFLAGS=-mod=readonly GOPROXY=off GOTOOLCHAIN=local
[ $# -gt 0 ] || set amd64

# shellcheck source=../../tests/lib/tap.sh
. "$top/tests/lib/tap.sh"

# passed TEST LOG: prints what the log has of it, unless that is that it passed.
passed() {
	grep -q "^--- PASS: $1 " "$2" || sed -n "/^=== RUN *$1\r*\$/,/^---/p" "$2" | grep . || echo "did not run"
}

# in_machine GOARCH: the tests as they are named, and then the verdict.
in_machine() {
	local log=$out/$1.log name ended=0

	"$top/vm/run.sh" --name "go-$1" --bin "$out/go_test_$1" --run "go_test_$1 -test.v" \
		>"$log" 2>&1 || ended=$?
	while read -r name; do
		silent "$1: $name" passed "$name" "$log"
	done < <(sed -n 's/^func \(Test[A-Za-z]*\)(.*/\1/p' twheel_test.go)
	silent "$1: the verdict of the machine" [ "$ended" = 0 ]
	[ "$ended" = 0 ] || tail -n 40 "$log" | sed 's/^/# /'
}

cd "$top/userspace/bindings/go"
mkdir -p "$out"
echo 'TAP version 14'
silent gofmt gofmt -l .
for arch in "$@"; do
	export GOARCH=$arch
	silent "$arch: go vet" go vet .
	silent "$arch: go test -c" go test -c -ldflags '-s -w' -o "$out/go_test_$arch" .
	in_machine "$arch"
done
the_end
