#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/streams.sh: tests that ci/flat.awk does not turn a broken log into a success. Prints TAP.

. "$(dirname "$0")/../vm/lib.sh"
# shellcheck source=../tests/lib/tap.sh
. "$top/tests/lib/tap.sh"

# counts NAME "PASSED FAILED SKIPPED": checks how many results the log on stdin yields.
counts() {
	local is=0 got

	got=$(awk -f "$top/ci/flat.awk" | awk '
		/^ok.*# SKIP/ { s++; next } /^ok/ { p++ } /^not ok/ { f++ } /^1\.\./ { plan = substr($1, 4) }
		END { print p + 0, f + 0, s + 0, plan == p + f + s ? "" : "wrong plan" }')
	[ "$got" = "$2 " ] || { is=1 && echo "# $got, not $2"; }
	verdict $is "$1"
}

run='twheel-vm: run: a_test' left='twheel-vm: exit:' pass='twheel-vm: verdict: PASS'

counts 'passed, failed and skipped' '1 1 1' <<<$'1..3\nok 1 a\nnot ok 2 b\nok 3 c # SKIP why'
counts 'a plan at the end' '1 0 0' <<<$'ok 1 a\n1..1'
counts 'no plan' '1 1 0' <<<'ok 1 a'
counts 'fewer than planned' '1 1 0' <<<$'1..2\nok 1 a'
counts 'more than planned' '2 1 0' <<<$'1..1\nok 1 a\nok 2 b'
counts 'nothing at all' '0 1 0' </dev/null
counts 'all skipped' '0 0 1' <<<'1..0 # SKIP why'
counts 'bail out' '1 2 0' <<<$'1..2\nok 1 a\nBail out! oh'
counts 'an expected failure does not count as a success' '1 1 0' <<<$'1..2\nok 1 a # XFAIL b\nok 2 c'
counts 'a target that was reached' '1 0 0' <<<$'1..1\n# target a 9 9\nok 1 a'
counts 'a target that was not reached' '1 1 0' <<<$'1..1\n# target a 8.9 9\nok 1 a'
counts 'a machine' '3 0 0' <<<"$run"$'\r\n1..1\nok 1 a\n'"$left 0"$'\n'"$run"$'\n1..1\nok 1 b\n'"$left 0"$'\n'"$pass"
counts 'a machine that died' '1 2 0' <<<"$run"$'\n1..2\nok 1 a\ntwheel-vm: verdict: FAIL: it died'
counts 'a machine that was cut off' '1 2 0' <<<"$run"$'\n1..2\nok 1 a'
counts 'a machine without a verdict' '1 1 0' <<<"$run"$'\n1..1\nok 1 a\n'"$left 0"
counts 'a machine whose kernel logged a warning' '1 1 0' <<<"$run"$'\n1..1\nok 1 a\n'"$left 0"$'\ntwheel-vm: verdict: FAIL: kernel log: WARNING'
counts 'a command with a bad status' '2 1 0' <<<"$run"$'\n1..1\nok 1 a\n'"$left signal 11"$'\n'"$pass"
counts 'a command without a test' '1 0 1' <<<"$run"$'\n1..0\n'"$left 0"$'\n'"$pass"
counts 'a command that prints nothing' '1 1 0' <<<"$run"$'\n'"$left 0"$'\n'"$pass"
counts 'a script with several documents' '2 1 0' <<<$'# run: a\n1..1\nok 1 a\n# exit: 0\n# run: b\n1..1\nok 1 b\n# exit: 1'
done_testing
