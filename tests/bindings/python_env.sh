# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash disable=SC2154
# Sourced, behind vm/lib.sh: the Python of this tree over the wheel in the process, with Debian's
# python3.

need gcc make python3-cffi uthash-dev
out=$build/python
make -s -C "$top/userspace/lib" O="$out" "$out/libtwheel.so.0"

export LD_LIBRARY_PATH=$out PYTHONPATH=$top/userspace/bindings/python PYTHONDONTWRITEBYTECODE=1
export TWHEEL_BACKEND=inprocess
export -n TWHEEL_CHECKED
# A process that hangs is ended, and shows where.
export PYTHONFAULTHANDLER=1
