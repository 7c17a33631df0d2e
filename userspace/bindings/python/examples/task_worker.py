#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""How does a worker do tasks of twheeld that take longer than their leases? Usage: [QUEUE]"""
import signal
import sys
import threading
import time

import twheeld


def handle(task: twheeld.Task) -> None:
    """Performs one task. If this raises an exception, the task is repeated."""
    seconds = (task.payload or {}).get("seconds", 0)
    if seconds < 0:
        raise twheeld.Dead("time does not run backward")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if task.lost.wait(0.1):
            return                      # twheeld was away for too long: another worker does it
    # A task can run twice, so store the key together with the effects of the task.
    print(task.key, "attempt", task.attempt, flush=True)


def main(queue: str = "jobs") -> None:
    """Works until SIGTERM or SIGINT, and finishes the current task."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    client = twheeld.Client()
    client.make_queue(queue, mode="pull")
    # The lease is short, because a worker that dies delays its task by that time.
    client.work(queue, handle, lease=3, wait=1, stop=stop)


main(*sys.argv[1:2])
