# SPDX-License-Identifier: GPL-2.0
"""timeout() behaves like asyncio's, where CPython's tests, which asyncio_suite.py runs with it,
say nothing. Each test also runs with asyncio's."""
import asyncio
import time

import pytest

from twheel.aio import Timeouts

# A timer that is due can come so much later that another one overtakes it, which is added when it
# is due already.
LONG_TICK_NS = 2**28


def test_in_time(run):
    async def test(timers):
        async with timers.timeout(10) as cm:
            await asyncio.sleep(0.002)
        assert not cm.expired()
        with pytest.raises(RuntimeError):
            cm.reschedule(1)
    run(test)


def test_none_left_and_nothing_waits(run):
    async def test(timers):
        async with timers.timeout(0) as cm:
            pass
        assert not cm.expired()
        await asyncio.sleep(0.005)
    run(test)


def test_reschedule(run):
    async def test(timers):
        loop = asyncio.get_running_loop()
        async with timers.timeout(0.4) as cm:
            for _ in range(6):
                await asyncio.sleep(0.08)
                cm.reschedule(loop.time() + 5)
            assert abs(cm.when() - loop.time() - 5) < 1
            cm.reschedule(None)
            assert cm.when() is None
        with pytest.raises(TimeoutError):
            async with timers.timeout(None) as cm:
                cm.reschedule(loop.time() + 0.01)
                await asyncio.sleep(10)
        with pytest.raises(TimeoutError):
            async with timers.timeout(10) as cm:
                cm.reschedule(loop.time() - 1)
                await asyncio.sleep(10)
    run(test)


def test_canceled_from_outside_as_well(run):
    async def test(timers):
        async def inner():
            nonlocal cm
            async with timers.timeout(0) as cm:
                task.cancel()
                await asyncio.sleep(10)
        cm = None
        task = asyncio.create_task(inner())
        with pytest.raises((asyncio.CancelledError, TimeoutError)):
            await task
    run(test)


def test_many_at_once(run):
    async def test(timers):
        async def one(i):
            try:
                async with timers.timeout(0.01 if i % 2 else 10):
                    await asyncio.sleep(10 if i % 2 else 0.01)
            except TimeoutError:
                return i % 2
            return 2 * (i % 2)
        results = await asyncio.gather(*(one(i) for i in range(1000)))
        assert sum(results) == 500
    run(test)


def test_outside_of_a_task(run):
    async def test(timers):
        cm = timers.timeout(1)
        seen = []

        def enter():
            try:
                cm.__aenter__().send(None)
            except RuntimeError as error:
                seen.append(error)
        asyncio.get_running_loop().call_soon(enter)
        await asyncio.sleep(0.01)
        assert seen
    run(test)


def test_the_outermost_that_is_over_raises(monkeypatch):
    async def main():
        with Timeouts(tick_ns=LONG_TICK_NS) as timers:
            when = asyncio.get_running_loop().time() + 0.01
            canceled = False
            with pytest.raises(TimeoutError):
                async with timers.timeout_at(when) as outer:
                    async with timers.timeout(None):
                        time.sleep(0.02)
                        # As if the kernel wheel's tick came late.
                        monkeypatch.setattr(Timeouts, "_collect", lambda self: None)
                        try:
                            async with timers.timeout_at(when) as inner:
                                await asyncio.sleep(10)
                        except asyncio.CancelledError:
                            canceled = True
                            raise
            monkeypatch.undo()
            assert canceled and outer.expired() and inner.expired()
            assert not asyncio.current_task().cancelling()
            assert not len(timers)
    asyncio.run(main())


def test_outer_ones_that_are_not_over(run):
    async def test(timers):
        async with timers.timeout(10) as outer:
            for _ in range(2):
                with pytest.raises(TimeoutError):
                    async with timers.timeout(0.001):
                        await asyncio.sleep(10)
            # One that has ended is no outer one any more.
            async with timers.timeout(0.001):
                pass
            await asyncio.sleep(0.01)
        assert not outer.expired()
    run(test)


def test_a_timeout_around_another_task():
    async def inner(timers):
        with pytest.raises(TimeoutError):
            async with timers.timeout(0):
                await asyncio.sleep(10)
        return "its own"

    async def main():
        with Timeouts(tick_ns=LONG_TICK_NS) as timers:
            try:
                async with timers.timeout(0.01):
                    task = asyncio.create_task(inner(timers))
                    time.sleep(0.02)
                    await asyncio.wait([task])
            except TimeoutError:
                pass
            assert await task == "its own"
    asyncio.run(main())
