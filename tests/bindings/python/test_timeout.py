# SPDX-License-Identifier: GPL-2.0
"""timeout() behaves like asyncio's, where CPython's tests, which asyncio_suite.py runs with it,
say nothing. Each test also runs with asyncio's."""
import asyncio

import pytest


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
