# SPDX-License-Identifier: GPL-2.0
"""timeout() behaves like asyncio's. Each test also runs with that."""
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


def test_expires(run):
    async def test(timers):
        with pytest.raises(TimeoutError) as raised:
            async with timers.timeout(0.01) as cm:
                await asyncio.sleep(10)
        assert cm.expired()
        assert asyncio.current_task().cancelling() == 0
        assert raised.value.__cause__ is None or isinstance(raised.value.__cause__,
                                                            asyncio.CancelledError)
    run(test)


def test_at(run):
    async def test(timers):
        when = asyncio.get_running_loop().time() + 0.01
        with pytest.raises(TimeoutError):
            async with timers.timeout_at(when) as cm:
                assert cm.when() == when
                await asyncio.sleep(10)
    run(test)


@pytest.mark.parametrize("delay", [0, -1])
def test_none_left(run, delay):
    async def test(timers):
        with pytest.raises(TimeoutError):
            async with timers.timeout(delay) as cm:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
        assert cm.expired()
    run(test)


def test_none_left_and_nothing_waits(run):
    async def test(timers):
        async with timers.timeout(0) as cm:
            pass
        assert not cm.expired()
        await asyncio.sleep(0.005)
    run(test)


def test_disabled(run):
    async def test(timers):
        async with timers.timeout(None) as cm:
            assert cm.when() is None
            await asyncio.sleep(0.01)
        assert not cm.expired()
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


def test_another_exception_passes(run):
    async def test(timers):
        with pytest.raises(KeyError):
            async with timers.timeout(0.01):
                try:
                    await asyncio.sleep(10)
                except asyncio.CancelledError:
                    raise KeyError from None
        assert asyncio.current_task().cancelling() == 0
    run(test)


def test_canceled_from_outside(run):
    async def test(timers):
        async def inner():
            async with timers.timeout(10):
                await asyncio.sleep(10)
        task = asyncio.create_task(inner())
        await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
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


def test_nested(run):
    async def test(timers):
        with pytest.raises(TimeoutError):
            async with timers.timeout(10) as outer:
                async with timers.timeout(0.01) as inner:
                    await asyncio.sleep(10)
        assert inner.expired() and not outer.expired()
        with pytest.raises(TimeoutError):
            async with timers.timeout(0.01) as outer:
                async with timers.timeout(10) as inner:
                    await asyncio.sleep(10)
        assert outer.expired() and not inner.expired()
        with pytest.raises(TimeoutError):
            async with timers.timeout(0.01) as outer:
                async with timers.timeout(0.01) as inner:
                    await asyncio.sleep(10)
    run(test)


def test_awaits_after_it_caught(run):
    async def test(timers):
        async with timers.timeout(10) as outer:
            try:
                async with timers.timeout(0.01):
                    await asyncio.sleep(10)
            except TimeoutError:
                await asyncio.sleep(0.01)
        assert not outer.expired()
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


def test_says_what_it_is(run):
    async def test(timers):
        cm = timers.timeout(10)
        assert "[created]" in repr(cm)
        async with cm:
            assert "[active] when=" in repr(cm)
        assert "[finished]" in repr(cm)
    run(test)
