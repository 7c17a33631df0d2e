#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Restarts 10^5 timeouts, with loop.call_later() and with twheel, and prints the ratio.

python.py [TIMERS [ROUNDS]]. The loop runs after each 1,000 heartbeats, which is included in the CPU
time, because asyncio cleans up its heap then. LD_LIBRARY_PATH must contain the library.
"""
import asyncio
import statistics
import sys
import time

from twheel.aio import Timeouts

TURN = 1000
DELAY = 30


def nothing() -> None:
    """The callback, which is never called, because the heartbeats keep coming."""


async def by_asyncio(timers: int) -> float:
    """Returns the CPU time in ns of a heartbeat, which is a cancel() and a call_later()."""
    loop = asyncio.get_running_loop()
    handles = [loop.call_later(DELAY, nothing) for _ in range(timers)]
    begin = time.process_time_ns()
    for first in range(0, timers, TURN):
        for i in range(first, min(first + TURN, timers)):
            handles[i].cancel()
            handles[i] = loop.call_later(DELAY, nothing)
        await asyncio.sleep(0)
    return (time.process_time_ns() - begin) / timers


async def by_twheel(timers: int) -> float:
    """Returns the CPU time in ns of a heartbeat, which is a restart()."""
    with Timeouts() as timeouts:
        handles = [timeouts.call_later(DELAY, nothing) for _ in range(timers)]
        begin = time.process_time_ns()
        for first in range(0, timers, TURN):
            for i in range(first, min(first + TURN, timers)):
                handles[i].restart()
            await asyncio.sleep(0)
        return (time.process_time_ns() - begin) / timers


def main(timers: int = 100000, rounds: int = 5) -> None:
    """Measures both in turns, and prints the medians."""
    rows = [(asyncio.run(by_asyncio(timers)), asyncio.run(by_twheel(timers)))
            for _ in range(rounds)]
    theirs, ours = (statistics.median(column) for column in zip(*rows))
    print(f"loop.call_later()  {theirs:6.0f} ns for each of {timers} heartbeats")
    print(f"twheel restart()   {ours:6.0f} ns")
    print(f"ratio              {theirs / ours:6.1f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
