#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The scripts against the model (M2), chaos (C1, C2), and the gate (C5). Prints TAP.
#
#   check.sh [SECONDS [SEED]]
#
# Chaos takes SECONDS (20) for C1, and as long for C2. Needs redis-server and Python, no port
# and no root.
#
# A file system in memory holds the append-only files. With everysec, Redis puts off its
# writes while an fsync takes long. A kill in that time loses them: chaos would report it.
set -u
cd "$(dirname "$0")" || exit 1
seconds=${1:-20}
seed=${2:-$(date +%s)}
if [ -w /dev/shm ]; then
	export TMPDIR=/dev/shm
fi
counter=$(mktemp)
trap 'rm -f "$counter"' EXIT
trap 'exit 1' INT TERM
echo 0 >"$counter"
failed=0

# Renumbers the lines of one test. A test that fails without such a line is one.
part() {
	echo "# $*"
	{ "$@" 2>&1 </dev/null; echo "exit $?"; } | awk -v n="$(cat "$counter")" -v file="$counter" \
		-v name="$1" '
		/^TAP version|^1\.\.[0-9]+$/ { next }
		/^(not )?ok [0-9]+/ {
			bad = bad || /^not/
			sub(/ok [0-9]+/, "ok " ++n)
			print; fflush()
			next
		}
		/^exit [0-9]+$/ {
			if ($2 != 0 && !bad) {
				print "not ok " ++n " - " name " ended with " $2
				bad = 1
			}
			next
		}
		{ print (/^#/ ? "" : "# ") $0; fflush() }
		END { print n >file; exit bad }' || failed=1
}

echo "TAP version 13"
echo "# seed $seed"
part ./model_test.py --operations 100000 --seed "$seed"
part ./chaos.py --case c1 --seconds "$seconds" --seed "$seed"
part ./chaos.py --case c2 --aof everysec --seconds $((seconds / 2)) --seed "$seed"
part ./chaos.py --case c2 --aof always --seconds $((seconds / 2)) --seed "$seed"
part ./gate.sh "$seed"
echo "1..$(cat "$counter")"
exit $failed
