#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/package/container.sh: builds the image of packaging/Containerfile from the packages
# that tests/package/debian.sh has made, and runs it with twheeld as process 1. The base image
# does not come from a registry but is a Debian from apt's mirror. Prints TAP, or one line with
# the reason if podman cannot run.

# check() calls all of these functions.
# shellcheck disable=SC2317

. "$(dirname "$0")/../../vm/lib.sh"

cd "$top"
packages=$build/packages
name=twheeld-test-$$
dir=$(mktemp -d)
chmod 755 "$dir"
# shellcheck source=../../tests/lib/tap.sh
. tests/lib/tap.sh

# crun requires a single version of cgroups, and the limits that this process may set. On a
# machine with both versions, podman gets only the new one, at the place where it looks.
if [ "${1:-}" != --inside ]; then
	compgen -G "$packages/twheeld_*.deb" >/dev/null || quietly tests/package/debian.sh
	need podman buildah crun mmdebstrap redis-server podman-compose netavark aardvark-dns iptables
	# shellcheck disable=SC2016
	as_root unshare -m sh -c 'if [ -d /sys/fs/cgroup/unified ]; then
			umount -R /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup; fi
		exec "$0" --inside' "$top/tests/package/container.sh"
	exit
fi
trap 'podman rm -f -t 0 "$name" >"$dir/out" 2>&1; compose down -t 0 >"$dir/out" 2>&1
	CONTAINERS_CONF=$dir/conf podman network rm -f "${name}_default" >"$dir/out" 2>&1
	podman volume rm -f "${name}_tasks" >"$dir/out" 2>&1
	podman rmi -f "$name" "$name-redis" >"$dir/out" 2>&1
	kill "$redis" 2>/dev/null; rm -rf "$dir"' EXIT
redis=
run=(podman run --network=none --cgroups=disabled --ulimit nofile=4096:4096
	--ulimit nproc=1024:1024)

# Some machines use a private mirror, so the layers stay here.
base() {
	local mirror tar=$cache/container-bookworm.tar

	mirror=$(debian_mirror)
	[ -e "$tar" ] || {
		mmdebstrap --quiet --variant=minbase bookworm "$tar.new.tar" "deb $mirror bookworm main" &&
			mv "$tar.new.tar" "$tar"
	} || return
	podman image exists localhost/twheel-base || podman import -q "$tar" localhost/twheel-base
}

image() {
	mkdir "$dir/debs"
	cp "$packages"/twheeld_*.deb "$dir/debs" || return
	podman build --isolation=chroot --network=host --build-arg BASE=localhost/twheel-base \
		-f packaging/Containerfile -t "$name" "$dir/debs"
}

# Prints the response for a path, over the socket in a directory of ours.
ask() {
	curl -sf --unix-socket "$dir/run/http" "http://localhost$1"
}

# until COMMAND...: waits until the command succeeds, for 20 seconds.
until_() {
	local end=$((SECONDS + 20))

	until "$@"; do
		[ $SECONDS -lt $end ] || return
		sleep 0.1
	done
}

starts() {
	mkdir -m 777 "$dir/run"
	printf 'callback-allow = 127.0.0.0/8\n' >"$dir/run/conf"
	redis-server --port 0 --unixsocket "$dir/run/redis" --unixsocketperm 777 --save '' \
		--dir "$dir" >"$dir/redis.log" &
	redis=$!
	"${run[@]}" -d --name "$name" -v "$dir/run:/run/twheeld" "$name" -c /run/twheeld/conf \
		--redis=unix:/run/twheeld/redis --listen=unix:/run/twheeld/http \
		--listen=127.0.0.1:7733 || return
	until_ ask /readyz
}

is_first() {
	[ "$(podman exec "$name" cat /proc/1/comm)" = twheeld ] &&
		[ "$(podman exec "$name" stat -c %U /proc/1)" = nobody ]
}

# The command line of the probe in compose.yaml.
probe() {
	local words

	words=$(python3 -c 'import re; text = open("packaging/compose.yaml").read()
print(" ".join(re.search(r">-\n((?: {8}.*\n)+)", text)[1].split()))') || return
	podman exec "$name" sh -c "$words" && ! podman exec "$name" sh -c "${words/healthz/nothing}"
}

has_zombie() {
	podman exec "$name" sh -c 'cat /proc/[0-9]*/stat' | grep -q ') Z '
}

reaps() {
	for _ in 1 2 3; do
		podman exec "$name" sh -c '(sleep 0.2 &)' || return
	done
	sleep 0.5
	! has_zombie
}

reloads() {
	podman kill -s HUP "$name" && until_ logged 'the configuration was read again'
}

logged() {
	podman logs "$name" 2>&1 | grep -q "$1"
}

stops() {
	local begin=$SECONDS

	podman stop -t 20 "$name" && [ $((SECONDS - begin)) -lt 10 ] && logged '^stopping: ' &&
		[ "$(podman inspect -f '{{.State.ExitCode}}' "$name")" = 0 ]
}

# The daemon accepts all options of the command line in compose.yaml, and can read a token that
# belongs to the user who is named there.
composes() {
	local words

	(umask 077 && printf 'admin 0123456789abcdef-token read,put,work,admin *\n' >"$dir/run/token")
	chown "$(sed -n 's|^#   sudo chown \([0-9]*\) packaging/token$|\1|p' packaging/compose.yaml)" \
		"$dir/run/token" || return
	mapfile -t words < <(sed -n 's|^      - \(--.*\)|\1|p' packaging/compose.yaml |
		sed "s|=/run/secrets/|=/run/twheeld/|; s|redis://redis:6379|unix:/run/twheeld/redis|")
	[ ${#words[@]} = 5 ] &&
		"${run[@]}" --rm -v "$dir/run:/run/twheeld" "$name" "${words[@]}" --check
}

# compose.yaml as a whole, with images of ours. Its containers have a network and find each other by
# their names.
compose() {
	CONTAINERS_CONF=$dir/conf podman-compose -p "$name" -f "$dir/packaging/compose.yaml" "$@"
}

# Takes the place of the image of Redis, which does not have protected-mode.
redis_image() {
	podman build --isolation=chroot --network=host -t "$name-redis" -f - "$dir/debs" <<-'END'
		FROM localhost/twheel-base
		RUN apt-get -q update && apt-get -q -y --no-install-recommends install redis-server
		WORKDIR /data
		ENTRYPOINT ["/bin/sh", "-c", "exec \"$@\" --protected-mode no", "sh"]
	END
}

prepare_compose() {
	port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
	mkdir "$dir/packaging"
	sed "s|docker.io/library/redis:7|localhost/$name-redis|; s|image: twheeld|image: localhost/$name|
		s|127.0.0.1:7733:7733|127.0.0.1:$port:7733|" packaging/compose.yaml \
		>"$dir/packaging/compose.yaml"
	cp -p "$dir/run/token" "$dir/packaging"
	cat >"$dir/conf" <<-END
		[network]
		network_backend = "netavark"
		[containers]
		cgroups = "disabled"
		default_ulimits = ["nofile=4096:4096", "nproc=1024:1024"]
	END
}

# Asks for a path with the token in compose.yaml.
ask_compose() {
	curl -sf -H "Authorization: Bearer 0123456789abcdef-token" "http://127.0.0.1:$port$1" "${@:2}"
}

up() {
	redis_image && prepare_compose && compose up -d && until_ ask_compose /readyz &&
		ask_compose /v1/queues && ! curl -sf "http://127.0.0.1:$port/v1/queues"
}

healthy() {
	CONTAINERS_CONF=$dir/conf podman healthcheck run "${name}_twheeld_1"
}

# Redis's data are in a volume, which outlives its container.
again() {
	ask_compose /v1/queues/kept -X PUT -H 'Content-Type: application/json' -d '{}' &&
		compose down -t 30 && compose up -d && until_ ask_compose /readyz &&
		ask_compose /v1/queues/kept
}

down() {
	compose down -t 30 && ! podman container exists "${name}_twheeld_1"
}

echo 'TAP version 13'
quietly base
if ! "${run[@]}" --rm localhost/twheel-base true >"$dir/out" 2>&1; then
	echo "1..0 # SKIP podman cannot run here: $(tail -n 1 "$dir/out")"
	exit
fi
check "the image is built from the package" image
check "twheeld starts and reaches Redis" starts
check "twheeld is process 1, and runs as nobody" is_first
check "the probe of compose.yaml succeeds" probe
check "twheeld reaps orphans" reaps
check "SIGHUP reloads the configuration" reloads
check "twheeld accepts the command line of compose.yaml" composes
check "podman stop sends SIGTERM, and twheeld exits with 0" stops
check "podman-compose up: twheeld reaches Redis by its name, and requires the token" up
check "the health check of compose.yaml passes" healthy
check "after podman-compose down and up, the queues are still there" again
check "podman-compose down" down
done_testing
