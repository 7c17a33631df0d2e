#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# vm/power.sh [KERNEL [OPTION-OF-THE-TEST...]]: processors come and go, and the machine sleeps.

. "$(dirname "$0")/lib.sh"

kernel=${1:-6.12}
bin=$build/power
mkdir -p "$bin"
harness=$("$top/vm/source.sh")/tools/testing/selftests
gcc -O2 -Wall -Wextra -Wno-missing-field-initializers -Werror -std=gnu11 -pthread -static \
	-isystem "$harness" -I"$top/include/uapi" \
	-o "$bin/power" "$top/userspace/selftests/power/power.c"
# With its HPET the emulated machine does not wake.
exec "$top/vm/run.sh" --kernel "$kernel" --exact --name "power-$kernel" --raw --limit 600 \
	--timeout 900 --append no_console_suspend --qemu '-machine pc,hpet=off' --bin "$bin" -- power "${@:2}"
