#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/bindings/asyncio.sh [PATTERN]: CPython's tests of asyncio with timers of twheel.aio, over the
# wheel in the process: see asyncio_suite.py. Those of Debian's Python. Prints TAP.

. "$(dirname "$0")/../../vm/lib.sh"

need libpython3.11-testsuite
# shellcheck source=python_env.sh
. "$top/tests/bindings/python_env.sh"

# The tests warn of much that they do on purpose.
exec timeout -s ABRT 1800 /usr/bin/python3 -W ignore "$top/tests/bindings/asyncio_suite.py" "$@" \
	2>"$logs/asyncio.log"
