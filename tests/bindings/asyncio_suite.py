#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""CPython's own tests of asyncio, where twheel.aio provides the timers of every loop. Prints
TAP.

loop.call_later() and loop.call_at() use timers of a wheel, and so do asyncio.sleep() and
wait_for(). asyncio.timeout() and timeout_at() are those of twheel.aio. A loop that does not
wait in a selector, or has its own clock, keeps asyncio's timers; the tests make such loops from
mock objects. The only tests that are left out are those that CPython itself skips, most of which
are for Windows. They have no line.

  asyncio_suite.py [PATTERN...] [-PATTERN...]   tests whose names contain one of the first,
                                                and none of the others
"""
import asyncio
import selectors
import sys
import sysconfig
import unittest
from test import support
from test.support import os_helper

from twheel.aio import Timeout, Timeouts

call_at = asyncio.BaseEventLoop.call_at
call_later = asyncio.BaseEventLoop.call_later
close = asyncio.BaseEventLoop.close
timeout = asyncio.timeout
timeout_at = asyncio.timeout_at
shown = Timeout.__repr__
MADE = []


def timers(loop):
    """Return: the wheel of a loop, or None for a loop that cannot have one."""
    selector = getattr(loop, "_selector", None)
    if (loop.is_closed() or not isinstance(selector, selectors.BaseSelector) or
            type(loop).time is not asyncio.BaseEventLoop.time):
        return None
    if "_twheel" not in loop.__dict__:
        loop._twheel = Timeouts(loop)
    return loop._twheel


def made(handle):
    """Count a timer, and hide this module in the record of where it was made, as asyncio does."""
    MADE[0] += 1
    if handle._source_traceback:
        del handle._source_traceback[-1]
    return handle


def call_at_wheel(loop, when, callback, *args, context=None):
    """Replaces loop.call_at()."""
    mine = timers(loop)
    if not mine:
        return call_at(loop, when, callback, *args, context=context)
    return made(mine.call_at(when, callback, *args, context=context))


def call_later_wheel(loop, delay, callback, *args, context=None):
    """Replaces loop.call_later()."""
    mine = timers(loop)
    if not mine:
        return call_later(loop, delay, callback, *args, context=context)
    return made(mine.call_later(delay, callback, *args, context=context))


def timeout_wheel(delay):
    """Replaces asyncio.timeout()."""
    mine = timers(asyncio.get_running_loop())
    return mine.timeout(delay) if mine else timeout(delay)


def timeout_at_wheel(when):
    """Replaces asyncio.timeout_at()."""
    mine = timers(asyncio.get_running_loop())
    return mine.timeout_at(when) if mine else timeout_at(when)


def close_both(loop):
    """Replaces loop.close()."""
    if not loop.is_running() and "_twheel" in loop.__dict__:
        loop.__dict__.pop("_twheel").close()
    close(loop)


class Result(unittest.TestResult):
    """Prints TAP. A test with several subtests has a line for each that fails."""

    def __init__(self):
        super().__init__()
        self.number = 0
        self.bad = 0

    def say(self, bad, name, text=""):
        self.number += 1
        self.bad += bad
        for line in text.splitlines():
            print("#", line)
        print(f"{'not ' if bad else ''}ok {self.number} {name.replace('#', '')}", flush=True)

    def addSuccess(self, test):
        self.say(False, test.id())

    def addExpectedFailure(self, test, err):
        self.say(False, test.id())

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.say(True, test.id())

    def addSkip(self, test, reason):
        print(f"# CPython leaves out {test.id()}: {reason}")

    def addError(self, test, err):
        super().addError(test, err)
        self.say(True, test.id(), self.errors[-1][1])

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.say(True, test.id(), self.failures[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.say(True, subtest.id(), (self.errors + self.failures)[-1][1])


def each(suite):
    """Yield the tests of a nested suite."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from each(test)
        else:
            yield test


def main(*patterns):
    """Run the tests. Return: the exit status."""
    out = [p[1:] for p in patterns if p.startswith("-")]
    wanted = [p for p in patterns if not p.startswith("-")] or [""]
    MADE.append(0)
    asyncio.BaseEventLoop.call_at = call_at_wheel
    asyncio.BaseEventLoop.call_later = call_later_wheel
    asyncio.BaseEventLoop.close = close_both
    asyncio.timeout, asyncio.timeout_at = timeout_wheel, timeout_at_wheel
    # The name of the module is part of it, but not of what asyncio shows.
    Timeout.__repr__ = lambda self: shown(self).replace("twheel.aio.", "")
    # There is no network beyond this machine.
    support.use_resources = []
    library = sysconfig.get_path("stdlib")
    suite = unittest.defaultTestLoader.discover(f"{library}/test/test_asyncio",
                                                top_level_dir=library)
    result = Result()
    # The tests leave files where they are killed.
    with os_helper.temp_cwd():
        unittest.TestSuite(test for test in each(suite)
                           if any(p in test.id() for p in wanted)
                           and not any(p in test.id() for p in out)).run(result)
    if not patterns:
        result.say(result.number < 2000, "two thousand tests at least")
        result.say(MADE[0] < 1000, "a thousand timers of wheels at least")
    print(f"# {MADE[0]} timers of wheels")
    print(f"1..{result.number}")
    return 1 if result.bad or not result.wasSuccessful() else 0


if __name__ == "__main__":
    print("TAP version 14")
    sys.exit(main(*sys.argv[1:]))
