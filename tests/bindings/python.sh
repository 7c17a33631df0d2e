#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/bindings/python.sh [ARGUMENT...]: runs the tests of python3-twheel, with the in-process
# wheel, and with the kernel wheel in user-mode Linux. Prints TAP. Arguments are passed to
# pytest, which then prints its usual output, and uses only the in-process wheel.

. "$(dirname "$0")/../../vm/lib.sh"

need mypy python3-pytest python3-setuptools python3-wheel
# shellcheck source=python_env.sh
. "$top/tests/bindings/python_env.sh"

# shellcheck source=python_vm.sh
. "$top/tests/bindings/python_vm.sh"

options=(-p no:cacheprovider -o faulthandler_timeout=120)
cd "$top/tests/bindings/python"
[ $# -eq 0 ] || exec timeout -s ABRT 300 /usr/bin/python3 -m pytest "${options[@]}" "$@"

options+=(-p no:terminal -s --tap)
status=0
echo "# run: pytest, in the process"
timeout -s ABRT 300 /usr/bin/python3 -m pytest "${options[@]}" . || status=$?
echo "# exit: $status"
# The other tests need a compiler or a network.
in_machine python python3.11 -m pytest "${options[@]}" --ignore=python/test_cdef.py \
	--ignore=python/test_package.py --deselect=python/test_rest.py::test_types \
	--deselect=python/test_rest.py::test_heartbeat_server python || status=1
exit $status
