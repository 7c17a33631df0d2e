# SPDX-License-Identifier: GPL-2.0
"""Times are those of the loop's clock, whatever that clock is.

A loop may count from another origin (trio-asyncio, simulated clocks) or in whole milliseconds
(uvloop). call_at(), timeout() and reschedule() use its times, and are never early by it.
"""
import asyncio
import math
import time

import pytest

from twheel.aio import Timeouts


class Shifted(asyncio.SelectorEventLoop):
    """A loop whose clock started at another time."""

    def __init__(self, seconds):
        super().__init__()
        self.shift = seconds

    def time(self):
        return super().time() + self.shift


class Coarse(asyncio.SelectorEventLoop):
    """A loop whose clock has whole milliseconds, rounded down, like uvloop's."""

    def time(self):
        return math.floor(super().time() * 1000) / 1000


LOOPS = {"asyncio": asyncio.SelectorEventLoop, "ahead": lambda: Shifted(1000),
         "behind": lambda: Shifted(-1000), "coarse": Coarse}


@pytest.fixture(params=LOOPS)
def run(request):
    """Return: run(TEST), which runs the coroutine TEST(timers, loop) in a loop with each clock."""
    def runner(test, debug=False):
        async def main(loop):
            with Timeouts() as timers:
                return await asyncio.wait_for(test(timers, loop), 60)
        loop = LOOPS[request.param]()
        loop.set_debug(debug)
        try:
            return loop.run_until_complete(main(loop))
        finally:
            loop.close()
    return runner


def not_early(begin, seconds):
    """Wait for a callback that must not be early; the loop's wait_for() ends the test
    otherwise."""
    assert time.monotonic() - begin >= seconds


def reached(loop, when):
    """Check a callback at a time of the loop's clock, which may have advanced by a millisecond
    between the test's reading and that of the timer."""
    assert loop.time() >= when - 1e-6  # floats are rounded


def test_call_at(run):
    async def test(timers, loop):
        done = loop.create_future()
        when = loop.time() + 0.05
        handle = timers.call_at(when, done.set_result, None)
        assert abs(handle.when() - when) < 0.05
        await done
        reached(loop, when)
    run(test)


def test_reschedule(run):
    async def test(timers, loop):
        done = loop.create_future()
        handle = timers.call_later(3600, done.set_result, None)
        when = loop.time() + 0.05
        handle.reschedule(when)
        assert handle.when() == when
        await done
        reached(loop, when)
    run(test)


def test_when_after_restart(run):
    async def test(timers, loop):
        handle = timers.call_at(loop.time() + 1000, print)
        handle.restart(10)
        assert abs(handle.when() - loop.time() - 10) < 1
        handle.cancel()
    run(test)


def test_the_past_is_now(run):
    async def test(timers, loop):
        done = loop.create_future()
        timers.call_at(loop.time() - 5, done.set_result, None)
        await done
    run(test)


def test_never(run):
    async def test(timers, loop):
        handle = timers.call_at(math.inf, print)
        assert handle.when() == math.inf
        handle.cancel()
    run(test)


@pytest.mark.parametrize("at", [False, True], ids=["timeout", "timeout_at"])
def test_timeout(run, at):
    async def test(timers, loop):
        # The loop's clock may stand still meanwhile.
        time.sleep(0.02)
        begin, when = time.monotonic(), loop.time() + 0.05
        with pytest.raises(TimeoutError):
            async with timers.timeout_at(when) if at else timers.timeout(0.05):
                await asyncio.sleep(3600)
        if at:
            reached(loop, when)
        else:
            not_early(begin, 0.05)
    run(test)


def test_timeout_restart(run):
    async def test(timers, loop):
        with pytest.raises(TimeoutError):
            async with timers.timeout(3600) as cm:
                begin = time.monotonic()
                cm.restart(0.05)
                await asyncio.sleep(3600)
        not_early(begin, 0.05)
    run(test)


def test_never_early_by_a_fraction(run):
    """For each fraction of a millisecond at which the timer may be made."""
    async def test(timers, loop):
        for i in range(40):
            until = time.perf_counter() + i * 0.00005
            while time.perf_counter() < until:
                pass
            done = loop.create_future()
            begin, read = time.monotonic(), loop.time()
            timers.call_at(read + 0.003, done.set_result, None)
            turned = isinstance(loop, Coarse) and loop.time() != read
            await done
            # A clock that advanced meanwhile has taken off a millisecond, as for any timer.
            if not turned:
                not_early(begin, 0.003)
    run(test)


def test_the_clock_advances_before_the_block_is_entered(run):
    """timeout() counts from its call, even if a coarse clock advances before "async with"."""
    async def test(timers, loop):
        begin = time.monotonic_ns()
        block = timers.timeout(3600)
        asked = loop.time()
        while loop.time() == asked:
            pass
        async with block:
            assert block._handle._deadline >= begin + 3600 * 10**9
            begin = time.monotonic_ns()
            block.restart(1800)
            assert block._handle._deadline >= begin + 1800 * 10**9
    run(test)
