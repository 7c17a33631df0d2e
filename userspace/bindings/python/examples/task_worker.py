#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""How does a worker do tasks of twheeld that take longer than their leases? Usage: [QUEUE]"""
import signal
import sys
import threading
import time

import twheeld


def handle(task: twheeld.Task) -> None:
    """Does one task. An exception lets it be repeated."""
    seconds = (task.payload or {}).get("seconds", 0)
    if seconds < 0:
        raise twheeld.Dead("time does not run backward")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if task.lost.wait(0.1):
            return                      # twheeld was away for too long: others do it again
    # To be told twice is not to do it twice: store the key with what the task does.
    print(task.key, "attempt", task.attempt, flush=True)


def main(queue: str = "jobs") -> None:
    """Works until SIGTERM or SIGINT, and finishes the task at hand."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    client = twheeld.Client()
    client.make_queue(queue, mode="pull")
    # A lease is short, so that a worker that dies delays its task by no more.
    client.work(queue, handle, lease=3, wait=1, stop=stop)


main(*sys.argv[1:2])
