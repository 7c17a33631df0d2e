#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/bindings/go.sh [GOARCH...]: runs the tests of the Go package, and the tests that
# package time has for its timers, which tests/bindings/go/wheeltime adapts. They run here with
# the timers of package time, and in the VM with the kernel wheel, for amd64 or for example
# 386. Prints TAP. A test that is skipped in the VM counts as failed.

# silent() calls passed() and vendors().
# shellcheck disable=SC2317

. "$(dirname "$0")/../../vm/lib.sh"

need golang-go qemu-system-x86
out=$build/go
dir=$out
package=$top/userspace/bindings/go
std=$(go env GOROOT)/src/time
export CGO_ENABLED=0 GOFLAGS=-mod=readonly GOPROXY=off GOTOOLCHAIN=local
[ $# -gt 0 ] || set amd64

# shellcheck source=../../tests/lib/tap.sh
. "$top/tests/lib/tap.sh"

# tests FILE...: prints the names of the tests in these files.
tests() {
	sed -n 's/^func \(Test[A-Za-z0-9]*\)(.*/\1/p' "$@"
}

# passed TEST LOG: prints what the log says about the test, unless it passed.
passed() {
	grep -q "^--- PASS: $1 " "$2" || sed -n "/^=== RUN *$1\r*\$/,/^---/p" "$2" | grep . || echo "did not run"
}

# all_passed WHERE LOG FILE...: one result for each test.
all_passed() {
	local name

	while read -r name; do
		silent "$1: $name" passed "$name" "$2"
	done < <(tests "${@:3}")
}

# in_machine GOARCH: one result for each test, and then the verdict.
in_machine() {
	local log=$out/$1.log ended=0

	"$top/vm/run.sh" --name "go-$1" --limit 400 --timeout 900 \
		--bin "$out/go_test_$1" --bin "$out/std_test_$1" \
		--run "TWHEEL_BACKEND=kernel go_test_$1 -test.v" \
		--run "TWHEEL_BACKEND=kernel std_test_$1 -test.v" >"$log" 2>&1 || ended=$?
	# Some names are in both packages.
	sed '/^=== RUN *TestSleep\r*$/,$d' "$log" >"$log.package"
	sed -n '/^=== RUN *TestSleep\r*$/,$p' "$log" >"$log.std"
	all_passed "$1" "$log.package" "$package"/*_test.go
	all_passed "$1, of package time" "$log.std" "$out"/std/*_test.go
	silent "$1: the machine's verdict is PASS" [ "$ended" = 0 ]
	[ "$ended" = 0 ] || tail -n 40 "$log" | sed 's/^/# /'
}

# The tests of package time, with another import. Those that testenv would skip are for Plan 9.
rm -rf "$out/std"
mkdir -p "$out/std"
cp -r "$top/tests/bindings/go/wheeltime" "$out/std"
for file in sleep_test.go tick_test.go; do
	sed -e 's|^\t\. "time"|\t. "wheeltime/wheeltime"|' -e '/testenv/d' "$std/$file" >"$out/std/$file"
done
cat >"$out/std/go.mod" <<-END
	module wheeltime

	go 1.19

	require twheel v0.3.0

	replace twheel => $package
END

echo 'TAP version 14'
silent gofmt gofmt -l "$package" "$top/tests/bindings/go"
silent "the client of twheeld: go vet" env -C "$package" go vet ./twheeld ./examples/...
silent "the shim has 40 lines at most" [ "$(wc -l <"$out/std/wheeltime/wheeltime.go")" -le 40 ]
for arch in "$@"; do
	export GOARCH=$arch
	for part in "go $package" "std $out/std"; do
		cd "${part#* }"
		silent "$arch: go vet, ${part%% *}" go vet .
		silent "$arch: go test -c, ${part%% *}" \
			go test -c -ldflags '-s -w' -o "$out/${part%% *}_test_$arch" .
	done
done
unset GOARCH
# A program that vendors its modules gets the text of the license as well.
vendors() {
	rm -rf "$out/vendor"
	env -C "$out/std" go mod vendor -o "$out/vendor" &&
		cmp "$out/vendor/twheel/LICENSE" "$top/LICENSES/MIT.txt"
}
silent "go mod vendor copies the license" vendors
for os in darwin freebsd; do
	silent "$os: go vet" env GOOS=$os go vet "$package"
done
for part in "go $package" "std $out/std"; do
	TWHEEL_BACKEND=inprocess "$out/${part%% *}_test_$1" -test.v >"$out/here.log" 2>&1 || :
	# Tests that need the kernel wheel are skipped.
	files=("${part#* }"/*_test.go)
	all_passed "without a wheel, ${part%% *}" "$out/here.log" "${files[@]/*\/kernel_test.go/\/dev\/null}"
done
for arch in "$@"; do
	in_machine "$arch"
done
done_testing
