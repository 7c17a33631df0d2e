# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# What tests/core/kunit.sh must see.

# suite CASE: the output is in $output, the exit status in $status.
suite() {
	status=0
	output=$("$top/tests/core/kunit.sh" --kasan --planted "planted_$1" 6.12 2>&1) || status=$?
	printf '%s\n' "$output" | sed 's/^/# /'
}
suite nothing
ok "a suite without a bug passes" test "$status" -eq 0
suite uaf
ok "use after free in a case" says 'BUG: KASAN: slab-use-after-free in planted_uaf'
ok "fails it" says ': 0 passed, 1 failed'
ok "and the run" test "$status" -eq 1
suite warn
ok "a warning that the case does not know" says ': 1 passed, 0 failed'
ok "fails the run" test "$status" -eq 1
suite expect
ok "an expectation that is not met fails the run" test "$status" -eq 1
suite oops
ok "a kernel that dies" says 'Kernel panic - not syncing: planted'
ok "fails the run" test "$status" -eq 1
suite skip
ok "a case that is skipped fails the run" test "$status" -eq 1
