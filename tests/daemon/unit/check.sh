#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Compiles the daemon's unit tests with ASan and UBSan, and the one that uses threads also with
# TSan, and runs them. Then it runs the fuzzers for a while, which requires a clang with
# libFuzzer.
#
#   check.sh [SECONDS]        time for each fuzzer; default 5, 0 for none
#   check.sh --fuzz SECONDS   only the fuzzers
#
# Prints one TAP stream: a line for each assertion, with the name of its program. The exit
# status is 0 if all pass. CC, CLANG and CFLAGS come from the environment.

. "$(dirname "$0")/../../../vm/lib.sh"

alone=
if [ "${1-}" = --fuzz ]; then
	alone=1
	shift
fi
seconds=${1:-5}
here=$top/tests/daemon/unit
daemon=$top/userspace/daemon
cd "$daemon"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

cc=${CC:-cc}
clang=${CLANG:-clang-14}
flags="-std=gnu11 -O1 -g -Wall -Wextra -Wno-missing-field-initializers -Werror"
flags="$flags ${CFLAGS:-} -I$daemon -I$here"
sanitize="-fsanitize=address,undefined -fno-sanitize-recover=undefined"
sanitize="$sanitize -fno-omit-frame-pointer"
others=$sanitize
setarch=()

units="ground/units.c ../shared/duration.c"
cron="text/cron.c ground/zone.c"
json="text/*.c ground/zone.c ground/hash.c ground/now.c $units ../shared/base64.c"
glib=$(pkg-config --libs glib-2.0)
flags="$flags $(pkg-config --cflags glib-2.0)"
config="config/*.c $units ../shared/base64.c"
callback="callback/*.c text/body.c text/run.c $units ../shared/base64.c config/address.c"
callback="$callback config/value.c ground/now.c"

# shellcheck source=../../../tests/lib/tap.sh
. "$top/tests/lib/tap.sh"

# build COMPILER PROGRAM "SOURCES" "LIBRARIES": compiles file by file, so that programs with the
# same sanitizers share their objects.
build() {
	local dir=$out/objects/$1$sanitize objects=() source object

	mkdir -p "$dir"
	for source in "$here/$2.c" $3; do
		object=$dir/${source//\//.}.o
		objects+=("$object")
		# shellcheck disable=SC2086 # these are lists
		[ -e "$object" ] || "$1" $flags $sanitize -c -o "$object" "$source" || return
	done
	# shellcheck disable=SC2086 # these, too
	"$1" $sanitize -o "$out/$2" "${objects[@]}" $4
} >"$out/log" 2>&1

# Renumbers the lines of a program, and adds its name.
relay() {
	while IFS= read -r text; do
		case $text in
		"ok "*) verdict 0 "$1: ${text#* - }" ;;
		"not ok "*) verdict 1 "$1: ${text#* - }" ;;
		"1.."*) ;;
		"#"*) echo "$text" ;;
		*) echo "# $text" ;;
		esac
	done <"$out/tap"
}

# check PROGRAM "SOURCES" "LIBRARIES" [ARGUMENT...]
check() {
	program=$1 sources=$2 libraries=$3
	shift 3
	if ! build "$cc" "$program" "$sources" "$libraries"; then
		verdict 1 "$program compiles"
		sed 's/^/# /' "$out/log"
		return
	fi
	status=0
	timeout 300 "${setarch[@]}" "$out/$program" "$@" >"$out/tap" 2>"$out/err" || status=$?
	relay "$program"
	if [ -s "$out/err" ]; then
		head -n 60 "$out/err" | sed 's/^/# /'
	fi
	verdict "$status" "$program ends with status 0"
}

# fuzz PROGRAM "SOURCES" "LIBRARIES"
fuzz() {
	if ! build "$clang" "$1" "$2" "$3"; then
		verdict 1 "$1 compiles"
		sed 's/^/# /' "$out/log"
		return
	fi
	mkdir -p "$out/corpus.$1"
	status=0
	[ ! -d "$here/corpus/$1" ] || cp "$here/corpus/$1"/* "$out/corpus.$1"
	"$out/$1" -max_total_time="$seconds" -print_final_stats=1 \
		-artifact_prefix="$out/" -max_len=4096 "$out/corpus.$1" \
		>"$out/log" 2>&1 || status=$?
	runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$out/log")
	[ "$status" -eq 0 ] || tail -n 40 "$out/log" | sed 's/^/# /'
	verdict "$status" "$1: ${runs:-no} inputs in $seconds s break nothing"
}

units() {
	check units_test "$units ../shared/base64.c" ""
	check log_test "ground/log.c ground/now.c" ""
	check address_test "config/address.c $units" ""
	check config_test "$config" ""
	check body_test "text/body.c" ""
	check json_test "$json" "-ljansson -lm $glib"
	check pull_test "$json" "-ljansson -lm $glib"
	check cron_test "$cron" "$glib"
	check schedule_test "$json" "-ljansson -lm $glib"
	check sign_test "callback/sign.c ../shared/base64.c" "-lcrypto"
	check route_test "redis/route.c redis/error.c $units" ""
	check clock_test "redis/clock.c" ""
	check task_test "work/task.c ground/hash.c" ""
	check resolve_test "redis/resolve.c" "-pthread"
	# TSan needs a process whose addresses are not randomized.
	sanitize="-fsanitize=thread"
	setarch=("${fixed[@]}")
	check resolve_test "redis/resolve.c" "-pthread"
	sanitize=$others setarch=()
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 \
		-subj /CN=sink -addext subjectAltName=DNS:localhost -keyout "$out/key" \
		-out "$out/tls" 2>"$out/log"
	cat "$out/key" >>"$out/tls"
	check callback_test "$callback" "-lcurl -lcrypto" "$top/tests/lib/sink.py" "$out/tls"

	status=0
	python3 "$here/page_test.py" >"$out/tap" || status=$?
	relay page_test
	verdict "$status" "page_test ends with status 0"
}

[ -n "$alone" ] || units
if [ "$seconds" -gt 0 ]; then
	sanitize="$others -fsanitize=fuzzer"
	fuzz fuzz_json "$json" "-ljansson -lm $glib"
	fuzz fuzz_config "$config" ""
	fuzz fuzz_query "$json" "-ljansson -lm $glib"
	fuzz fuzz_body "text/body.c" ""
fi

done_testing
