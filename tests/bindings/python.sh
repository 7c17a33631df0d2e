#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/bindings/python.sh [ARGUMENT...]: the tests of python3-twheel, over the wheel in the
# process. Prints TAP. With arguments, they are pytest's, and so is the output.

. "$(dirname "$0")/../../vm/lib.sh"

need gcc make mypy python3-cffi python3-pytest python3-setuptools python3-wheel uthash-dev
out=$build/python
make -s -C "$top/userspace/lib" O="$out" "$out/libtwheel.so.0"

export LD_LIBRARY_PATH=$out PYTHONPATH=$top/userspace/bindings/python PYTHONDONTWRITEBYTECODE=1
export TWHEEL_BACKEND=inprocess
export -n TWHEEL_CHECKED
# A process that hangs is ended, and shows where.
export PYTHONFAULTHANDLER=1

options=(-p no:cacheprovider -o faulthandler_timeout=120)
[ $# -gt 0 ] || options+=(-p no:terminal -s --tap)
cd "$top/tests/bindings/python"
exec timeout -s ABRT 300 /usr/bin/python3 -m pytest "${options[@]}" "${@:-.}"
