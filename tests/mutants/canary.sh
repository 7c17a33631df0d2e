# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154,SC2034,SC2317
# What shows in that variant of the module.

# Whatever kernel it is: a module that was built like that.
mkdir -p "$build/canary"
gcc -O2 -Wall -Wextra -Werror -std=gnu11 -static -o "$build/canary/canary" \
	"$top/tests/mutants/canary.c"
boot canary --kernel 6.12 --variant canary --exact --bin "$build/canary" -- canary
ok "canary: a member that nothing was written to" says 'nothing was written to: fefefefe'
mutant 6.12 stray user 'uapi_test -t no_stray_bytes' --variant canary-bug-stray --exact
ok "canary: one of the module's" says 'has_canary(&(i), sizeof(i))'
ok "canary: fails its test" says 'not ok 1 global.no_stray_bytes'
