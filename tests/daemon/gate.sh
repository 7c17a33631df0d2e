#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# C5: planted bugs. The model and chaos must notice each one. Prints TAP.
#
#   gate.sh [SEED]
#
# The model has no workers, so it cannot notice a bug of theirs. Chaos depends on chance: most
# bugs take one run of two seconds, and a bug may take up to nine.
set -u
cd "$(dirname "$0")" || exit 1
seed=${1:-$(date +%s)}
scripts="no-run take-early put-seconds no-token cancel-keeps-due old-body recover-forgets"
workers="no-lease-check"
# Chaos has no tasks that may be late, and breaks no header.
model="late-ignored broken-header-stops"
# shellcheck source=../../tests/lib/tap.sh
. ../lib/tap.sh

# judged STATUS NAME
judged() {
	verdict "$1" "$2"
	[ "$1" = 0 ] || sed 's/^/#   /' "$log"
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'exit 1' INT TERM
echo "TAP version 13"
echo "# seed $seed"
for plant in $scripts $model; do
	./model_test.py --operations 5000 --seed "$seed" --plant "$plant" >"$log" 2>&1
	judged $? "C5: the model notices $plant"
done
for plant in $scripts $workers; do
	noticed=1
	for try in 1 2 3 4 5 6 7 8 9; do
		./chaos.py --seconds 2 --seed $((seed + try)) --plant "$plant" >"$log" 2>&1
		noticed=$?
		[ $noticed = 0 ] && break
	done
	judged $noticed "C5: chaos notices $plant"
done
the_end
