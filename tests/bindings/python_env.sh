# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# Sourced after vm/lib.sh: the Python package of this tree, with Debian's python3 and the
# in-process wheel.

need gcc make python3-cffi uthash-dev
out=$build/python
make -s -C "$top/userspace/lib" O="$out" "$out/libtwheel.so.0"

export LD_LIBRARY_PATH=$out PYTHONPATH=$top/userspace/bindings/python PYTHONDONTWRITEBYTECODE=1
export TWHEEL_BACKEND=inprocess
export -n TWHEEL_CHECKED
# A process that hangs is ended, and prints where it is.
export PYTHONFAULTHANDLER=1
