#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/bindings/asyncio.sh [PATTERN...]: CPython's tests of asyncio with timers of twheel.aio, over
# the wheel in the process: see asyncio_suite.py. Those of Debian's Python. Without a pattern, those
# that need no network then run over the kernel's wheel in user-mode Linux. Prints TAP.

. "$(dirname "$0")/../../vm/lib.sh"

need libpython3.11-testsuite
# shellcheck source=python_env.sh
. "$top/tests/bindings/python_env.sh"

# shellcheck source=python_vm.sh
. "$top/tests/bindings/python_vm.sh"

# The tests warn of much that they do on purpose.
status=0
echo "# run: asyncio_suite.py, in the process"
timeout -s ABRT 1800 /usr/bin/python3 -W ignore "$top/tests/bindings/asyncio_suite.py" "$@" \
	2>"$logs/asyncio.log" || status=$?
echo "# exit: $status"
[ $# -eq 0 ] || exit $status
# test_nested_timeouts wants two timers of one deadline, 10 ms from its begin, in one turn of the
# loop. There it can take as long to open the wheel.
in_machine asyncio python3.11 -W ignore asyncio_suite.py test_base_events.BaseEventLoopTests \
	test_futures test_locks test_queues test_runners test_taskgroups test_tasks test_threads \
	test_timeouts test_waitfor -test_nested_timeouts '2>/dev/null' || status=1
exit $status
