#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/daemon/check.sh [SECONDS [PART...]]: runs all tests of the daemon: units and parsers,
# the scripts, the daemon with its own Redis, and crashes for SECONDS (default: 20). With
# arguments it runs only these parts; make check-full runs those in "more". Prints TAP. With
# --build it only builds the daemon.

# run() calls the functions of the parts.
# shellcheck disable=SC2317

. "$(dirname "$0")/../../vm/lib.sh"

# Any warning is an error in these builds.
export WERROR=1

more=(prometheus page races failover)
only_build=
[ "${1-}" != --build ] || only_build=1

"$top/vm/deps.sh" daemon

seconds=${1:-20}
parts=("${@:2}")
if [ "${parts[*]}" = more ]; then
	parts=("${more[@]}")
elif [ ${#parts[@]} = 0 ]; then
	parts=(unit scripts daemon config redis cluster ctl race chaos demo upgrade schedules calendars clients)
fi
daemon=$top/userspace/daemon
tests=$top/tests/daemon
out=$build/daemon

# run NAME COMMAND...: prints a document for ci/flat.awk.
run() {
	status=0
	echo "# run: $1"
	"${@:2}" 2>&1 </dev/null || status=$?
	echo "# exit: $status"
	[ $status = 0 ] || bad=1
}

# whole PART: one TAP result for a part that prints no TAP itself.
whole() {
	local status=0

	"whole_$1" || status=$?
	echo 1..1
	[ "$status" = 0 ] || printf 'not '
	echo "ok 1 - $1"
	return "$status"
}

part_unit() {
	"$tests/unit/check.sh" 2
}

part_scripts() {
	"$tests/model_test.py"
}

# The tests wait most of the time, so four processes run them, each of which takes the next
# test that no other has taken.
part_daemon() {
	local part pids=() status=0 worst=0

	rm -rf "$out/share"
	mkdir "$out/share"
	for part in 0 1 2; do
		"$tests/daemon_test.py" "$out/twheeld" --share "$out/share" >"$out/share.$part" 2>&1 &
		pids+=($!)
	done
	"$tests/daemon_test.py" "$out/twheeld" --share "$out/share" || worst=$?
	status=$worst
	for part in 0 1 2; do
		printf '# exit: %s\n# run: daemon, %s\n' "$status" "$part"
		status=0
		wait "${pids[part]}" || worst=$? status=$worst
		cat "$out/share.$part"
	done
	return "$worst"
}

# SIGHUP and tokens.
part_config() {
	"$tests/config_test.py" "$out/twheeld"
}

part_schedules() {
	local without=$out/without status=0

	"$tests/schedule_test.py" "$out/twheeld" || status=$?
	printf '# exit: %s\n# run: schedules, without libical\n' "$status"
	quietly make -s -C "$daemon" O="$without" WITHOUT_LIBICAL=1
	TWHEELD_LIBICAL=$out/twheeld "$tests/schedule_test.py" "$without/twheeld" no_rules || status=$?
	return "$status"
}

part_calendars() {
	local number=20000 status=0

	[ -z "${FULL-}" ] || number=100000
	# shellcheck disable=SC2046 # a list
	quietly cc -O2 -Wall -Wextra -Werror -D_GNU_SOURCE -I"$daemon" -o "$out/cron_lines" \
		"$tests/unit/cron_lines.c" "$daemon/text/cron.c" "$daemon/ground/zone.c" \
		$(pkg-config --cflags --libs glib-2.0)
	"$tests/calendar_test.py" "$out/cron_lines" "$number" || status=$?
	printf '# exit: %s\n# run: rules\n' "$status"
	# shellcheck disable=SC2046 # a list
	quietly cc -O2 -Wall -Wextra -Werror -D_GNU_SOURCE -DHAVE_LIBICAL -I"$daemon" \
		-o "$out/rule_lines" "$tests/unit/rule_lines.c" "$daemon/text/rule.c" \
		"$daemon/ground/zone.c" $(pkg-config --cflags --libs glib-2.0 libical)
	"$tests/rule_test.py" "$out/rule_lines" $((number / 10)) || status=$?
	return "$status"
}

# The clients in the bindings.
part_clients() {
	need golang-go
	(
		cd "$top/userspace/bindings/go"
		export CGO_ENABLED=0 GOFLAGS=-mod=readonly GOPROXY=off GOTOOLCHAIN=local
		quietly go test -c -o "$out/go_client_test" ./twheeld
		quietly go build -o "$out/go_client_example" ./examples/task_worker
	)
	GO_CLIENT_TEST=$out/go_client_test GO_CLIENT_EXAMPLE=$out/go_client_example \
		PYTHONDONTWRITEBYTECODE=1 "$tests/client_test.py" "$out/twheeld"
}

# With each kind of Redis: TLS, users, Sentinel, a cluster.
part_redis() {
	"$tests/redis_test.py" "$out/twheeld"
}

part_cluster() {
	"$tests/cluster_test.py" "$out/twheeld"
}

# Masters are killed.
part_failover() {
	whole failover
}

whole_failover() {
	"$tests/failover_chaos.py" "$out/twheeld" c3 "$seconds" &&
		"$tests/failover_chaos.py" "$out/twheeld" c4 "$seconds"
}

part_ctl() {
	local shared=$build/shared status=0

	quietly make -s -C "$top/userspace" ctl
	quietly make -s -C "$top/userspace" STATIC=0 O="$shared" ctl
	TWHEELCTL=$build/user/twheelctl TWHEELD_PROGRAM=$out/twheeld "$tests/ctl_test.sh" || status=$?
	# The same tests with libcurl, which a static program does not have.
	printf '# exit: %s\n# run: ctl, with libcurl\n' "$status"
	TWHEELCTL=$shared/twheelctl TWHEELD_PROGRAM=$out/twheeld "$tests/ctl_test.sh" || status=$?
	printf '# exit: %s\n# run: ctl, names and TLS\n' "$status"
	TWHEELCTL=$shared/twheelctl TWHEELCTL_STATIC=$build/user/twheelctl \
		"$tests/reach_test.py" "$out/twheeld" || status=$?
	return "$status"
}

part_race() {
	"$tests/race_test.py" "$out/twheeld"
}

part_races() {
	"$tests/race_test.py" "$out/twheeld" 100000
}

# The daemon of the previous release, whose sources git has, runs beside this one.
part_upgrade() {
	local before=f432acc old=$out/before

	if ! git -C "$top" cat-file -e "$before" 2>/dev/null; then
		echo "1..0 # SKIP there is no history with the release before"
		return
	fi
	mkdir -p "$old/source"
	git -C "$top" archive "$before" | tar -x -C "$old/source"
	quietly make -s -C "$old/source/userspace/daemon" O="$old" WERROR=
	"$tests/upgrade_test.py" "$out/twheeld" "$old/twheeld"
}

part_chaos() {
	whole chaos
}

whole_chaos() {
	"$tests/daemon_chaos.py" "$out/twheeld" "$seconds"
}

part_demo() {
	whole demo
}

whole_demo() {
	"$tests/demo.sh" "$out/twheeld"
}

part_prometheus() {
	PROMTOOL=$("$top/ci/promtool.sh") "$tests/prometheus_test.py" "$out/twheeld"
}

# Leaves screenshots in $out.
part_page() {
	need chromium chromium-driver python3-selenium
	PICTURES=$out "$tests/browser_test.py" "$out/twheeld"
}

mkdir -p "$out"
# Other parts may run at the same time.
exec 9>"$out/.lock"
flock 9
quietly make -s -j "$(nproc)" -C "$daemon" O="$out"
exec 9>&-
[ -z "$only_build" ] || exit 0
bad=0
for part in "${parts[@]}"; do
	run "$part" "part_$part"
done
exit $bad
