#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/bindings/asyncio.sh [PATTERN]: CPython's tests of asyncio with timers of twheel.aio, over the
# wheel in the process: see asyncio_suite.py. Those of Debian's Python. Prints TAP.

. "$(dirname "$0")/../../vm/lib.sh"

need gcc make python3-cffi libpython3.11-testsuite uthash-dev
out=$build/python
make -s -C "$top/userspace/lib" O="$out" "$out/libtwheel.so.0"

export LD_LIBRARY_PATH=$out PYTHONPATH=$top/userspace/bindings/python PYTHONDONTWRITEBYTECODE=1
export TWHEEL_BACKEND=inprocess
export -n TWHEEL_CHECKED
# A process that hangs is ended, and shows where. The tests warn of much that they do on purpose.
export PYTHONFAULTHANDLER=1
exec timeout -s ABRT 1800 /usr/bin/python3 -W ignore "$top/tests/bindings/asyncio_suite.py" "$@" \
	2>"$logs/asyncio.log"
