#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/bindings/python.sh [ARGUMENT...]: the tests of python3-twheel, over the wheel in the
# process. Prints TAP. With arguments, they are pytest's, and so is the output.

. "$(dirname "$0")/../../vm/lib.sh"

need mypy python3-pytest python3-setuptools python3-wheel
# shellcheck source=python_env.sh
. "$top/tests/bindings/python_env.sh"

options=(-p no:cacheprovider -o faulthandler_timeout=120)
[ $# -gt 0 ] || options+=(-p no:terminal -s --tap)
cd "$top/tests/bindings/python"
exec timeout -s ABRT 300 /usr/bin/python3 -m pytest "${options[@]}" "${@:-.}"
