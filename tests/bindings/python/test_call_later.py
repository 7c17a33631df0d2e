# SPDX-License-Identifier: GPL-2.0
"""Timers behave like asyncio's. Each test also runs with those of asyncio."""
import asyncio
import contextvars
import gc
import random
import threading
import time
import weakref

import pytest

from twheel.aio import Timeouts


def soon():
    """Return: a time that comes after the test has made its timers, even on a busy machine."""
    return asyncio.get_running_loop().time() + 0.3


def sleep_until(when):
    """Keep the loop from running until then."""
    time.sleep(max(0, when - time.monotonic()))


async def called_before(when):
    """Let the loop run until all timers of that time were called."""
    await asyncio.sleep(when - time.monotonic() + 0.02)


def test_is_called_with_its_arguments(run):
    async def test(timers):
        done = asyncio.get_running_loop().create_future()
        timers.call_later(0.01, lambda *args: done.set_result(args), 1, "two")
        assert await done == (1, "two")
    run(test)


def test_is_never_early(run):
    async def test(timers):
        loop = asyncio.get_running_loop()
        early = []
        done = asyncio.Event()
        left = 300

        def called(begin, delay, handle):
            nonlocal left
            if loop.time() < begin + delay - 1e-9 or loop.time() < handle[0].when():
                early.append((delay, loop.time() - begin))
            left -= 1
            if not left:
                done.set()
        for i in range(left):
            handle = []
            delay = i * 0.0003
            handle.append(timers.call_later(delay, called, loop.time(), delay, handle))
        await done.wait()
        assert not early
    run(test)


def test_is_called_once(run):
    async def test(timers):
        calls = []
        timers.call_later(0.005, calls.append, 1)
        await asyncio.sleep(0.1)
        assert calls == [1]
    run(test)


@pytest.mark.parametrize("step, number", [(0.002, 40), (1e-6, 100)],
                         ids=["of deadlines", "within a tick"])
def test_order(run, step, number):
    async def test(timers):
        calls = []
        first = soon()
        times = [first + i * step for i in range(number)]
        random.Random(number).shuffle(times)
        for when in times:
            timers.call_at(when, calls.append, when)
        await called_before(max(times))
        assert calls == sorted(times)
    run(test)


def test_order_when_all_are_late(run):
    async def test(timers):
        calls = []
        first = soon()
        for late in (0.03, 0.01, 0.02):
            timers.call_at(first + late, calls.append, late)
        sleep_until(first + 0.05)
        timers.call_later(0, calls.append, 0)
        await asyncio.sleep(0.02)
        assert calls == [0.01, 0.02, 0.03, 0]
    run(test)


def test_in_the_turn_in_which_it_is_due(run):
    async def test(timers):
        loop = asyncio.get_running_loop()
        calls = []
        first = soon()
        timers.call_at(first, calls.append, "timer")
        sleep_until(first + 0.02)
        # The first of these comes in that turn, and the second in the next one.
        loop.call_soon(loop.call_soon, calls.append, "next turn")
        await asyncio.sleep(0.02)
        assert calls == ["timer", "next turn"]
    run(test)


def test_zero_comes_after_call_soon(run):
    async def test(timers):
        calls = []
        timers.call_later(0, calls.append, "later")
        asyncio.get_running_loop().call_soon(calls.append, "soon")
        assert not calls
        await asyncio.sleep(0.01)
        assert sorted(calls) == ["later", "soon"]
    run(test)


def test_zeros_in_their_order(run):
    async def test(timers):
        calls = []
        for i in range(100):
            timers.call_later(0, calls.append, i)
        await asyncio.sleep(0.01)
        assert calls == list(range(100))
    run(test)


def test_zero_from_a_callback_does_not_starve_the_loop(run):
    async def test(timers):
        count = 0

        def again():
            nonlocal count
            count += 1
            timers.call_later(0, again)
        again()
        for _ in range(50):
            await asyncio.sleep(0)
        assert 10 <= count <= 60
    run(test)


def test_the_past_is_now(run):
    async def test(timers):
        loop = asyncio.get_running_loop()
        calls = []
        timers.call_later(-5, calls.append, "later")
        timers.call_at(loop.time() - 5, calls.append, "at")
        timers.call_at(0, calls.append, "zero")
        await asyncio.sleep(0.01)
        assert sorted(calls) == ["at", "later", "zero"]
    run(test)


def test_never(run):
    async def test(timers):
        calls = []
        handles = [timers.call_later(delay, calls.append, 1) for delay in (float("inf"), 1e12)]
        assert handles[0].when() == float("inf")
        await asyncio.sleep(0.02)
        assert not calls
        for handle in handles:
            handle.cancel()
    run(test)


def test_when(run):
    async def test(timers):
        loop = asyncio.get_running_loop()
        handle = timers.call_later(10, print)
        assert abs(handle.when() - loop.time() - 10) < 1
        assert abs(timers.call_at(12345678.25, print).when() - 12345678.25) < 1e-6
    run(test)


def test_cancel(run):
    async def test(timers):
        calls = []
        handle = timers.call_later(0.005, calls.append, 1)
        assert not handle.cancelled()
        handle.cancel()
        handle.cancel()
        assert handle.cancelled()
        await asyncio.sleep(0.02)
        assert not calls
    run(test)


def test_cancel_a_zero(run):
    async def test(timers):
        calls = []
        timers.call_later(0, calls.append, 1).cancel()
        await asyncio.sleep(0.01)
        assert not calls
    run(test)


def test_cancel_after_the_call(run):
    async def test(timers):
        calls = []
        handle = timers.call_later(0.001, calls.append, 1)
        await asyncio.sleep(0.02)
        handle.cancel()
        assert calls == [1] and handle.cancelled()
    run(test)


def test_cancel_inside_its_own_callback(run):
    async def test(timers):
        calls = []

        def called():
            calls.append(1)
            handle.cancel()
        handle = timers.call_later(0.001, called)
        await asyncio.sleep(0.02)
        assert calls == [1] and handle.cancelled()
    run(test)


def test_cancel_of_another_that_is_due(run):
    async def test(timers):
        calls = []
        first = soon()

        def called(i):
            calls.append(i)
            for handle in handles:
                handle.cancel()
        handles = [timers.call_at(first + i * 1e-6, called, i) for i in range(10)]
        sleep_until(first + 0.02)
        await asyncio.sleep(0.02)
        assert calls == [0]
    run(test)


def test_cancel_drops_references(run):
    class Big:
        pass

    async def test(timers):
        big = Big()
        gone = weakref.ref(big)
        handle = timers.call_later(100, print, big)
        del big
        assert gone()
        handle.cancel()
        gc.collect()
        assert not gone()
    run(test)


def test_a_forgotten_handle_is_called(run):
    async def test(timers):
        calls = []
        timers.call_later(0.01, calls.append, 1)
        gc.collect()
        await asyncio.sleep(0.05)
        assert calls == [1]
    run(test)


def test_call_later_inside_a_callback(run):
    async def test(timers):
        calls = []
        timers.call_later(0.002, lambda: timers.call_later(0.002, calls.append, 1))
        await asyncio.sleep(0.05)
        assert calls == [1]
    run(test)


def test_an_exception_stops_nothing(run):
    async def test(timers):
        loop = asyncio.get_running_loop()
        seen = []
        calls = []
        loop.set_exception_handler(lambda _, context: seen.append(context))

        def bad():
            raise ValueError("bad")
        timers.call_later(0.002, calls.append, 1)
        timers.call_later(0.004, bad)
        timers.call_later(0.006, calls.append, 2)
        time.sleep(0.02)
        await asyncio.sleep(0.02)
        assert calls == [1, 2]
        assert [type(context["exception"]) for context in seen] == [ValueError]
        assert "bad" in seen[0]["message"] and "bad" in repr(seen[0]["handle"])
    run(test)


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
def test_exit_ends_the_loop(run, kind):
    async def test(timers):
        def leave():
            raise kind
        timers.call_later(0.002, leave)
        await asyncio.sleep(5)
    with pytest.raises(kind):
        run(test)


@pytest.mark.parametrize("kind", ["asyncio", "twheel"])
def test_exit_loses_no_other(kind):
    def leave():
        raise KeyboardInterrupt
    loop = asyncio.new_event_loop()
    timers = loop if kind == "asyncio" else Timeouts(loop)
    calls = []
    first = loop.time() + 0.1
    timers.call_at(first, leave)
    timers.call_at(first + 1e-6, calls.append, "other")
    sleep_until(first + 0.02)
    with pytest.raises(KeyboardInterrupt):
        loop.run_forever()
    assert not calls
    loop.run_until_complete(asyncio.sleep(0.02))
    assert calls == ["other"]
    timers.close()
    loop.close()


def test_a_callback_runs_the_loop():
    """asyncio forbids that, but nest_asyncio is popular."""
    async def main():
        loop = asyncio.get_running_loop()
        calls = []

        def nest():
            loop._run_once()
            calls.append("nest")
        with Timeouts() as timers:
            first = soon()
            timers.call_at(first, nest)
            timers.call_at(first + 1e-6, calls.append, "other")
            sleep_until(first + 0.02)
            await asyncio.sleep(0.02)
        assert calls == ["other", "nest"]
    asyncio.run(main())


def test_context(run):
    async def test(timers):
        var = contextvars.ContextVar("var", default="none")
        calls = []
        var.set("ours")
        timers.call_later(0.002, lambda: calls.append(var.get()))
        other = contextvars.copy_context()
        other.run(var.set, "other")
        timers.call_later(0.004, lambda: calls.append(var.get()), context=other)
        timers.call_later(0.006, lambda: var.set("callback"))
        await asyncio.sleep(0.03)
        assert calls == ["ours", "other"]
        assert var.get() == "ours"
    run(test)


def test_debug_mode(run):
    async def test(timers):
        calls = []
        timers.call_later(0.002, calls.append, 1)
        await asyncio.sleep(0.02)
        assert calls == [1]
    run(test, debug=True)


def test_loop_stops_in_a_callback(run):
    async def test(timers):
        calls = []
        task = asyncio.current_task()
        timers.call_later(0.002, task.cancel)
        timers.call_later(0.004, calls.append, 1)
        time.sleep(0.02)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(5)
        task.uncancel()
        await asyncio.sleep(0.01)
        assert calls == [1]
    run(test)


def test_many(run):
    async def test(timers):
        count = 20000
        calls = bytearray(count)
        done = asyncio.Event()
        rng = random.Random(3)
        left = 0

        def called(i):
            nonlocal left
            calls[i] += 1
            left -= 1
            if not left:
                done.set()
        handles = [timers.call_later(rng.random() * 0.3, called, i) for i in range(count)]
        left = count - len(handles[::3])
        for handle in handles[::3]:
            handle.cancel()
        await done.wait()
        await asyncio.sleep(0.1)
        assert all(calls[i] == (i % 3 != 0) for i in range(count))
    run(test)


def test_not_a_number(run):
    # asyncio accepts it, and never calls.
    async def test(timers):
        try:
            timers.call_later(float("nan"), print).cancel()
        except ValueError:
            pass
        calls = []
        timers.call_later(0.002, calls.append, 1)
        await asyncio.sleep(0.02)
        assert calls == [1]
    run(test)


def test_debug_mode_tells_where_a_timer_was_made(run):
    async def test(timers):
        seen = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().set_exception_handler(lambda loop, what: seen.set_result(what))
        handle = timers.call_later(0.01, lambda: 1 / 0)
        context = await seen
        assert context["handle"] is handle
        assert context["source_traceback"][-1].filename == __file__
        assert f"created at {__file__}" in repr(handle)
    run(test, debug=True)


def test_debug_mode_names_a_slow_callback(run, caplog):
    def slow():
        time.sleep(0.05)

    async def test(timers):
        asyncio.get_running_loop().slow_callback_duration = 0.04
        timers.call_later(0.002, slow)
        await asyncio.sleep(0.1)
        lines = [record.getMessage() for record in caplog.records]
        assert any("<locals>.slow" in line and " took 0." in line for line in lines), lines
    run(test, debug=True)


@pytest.mark.parametrize("debug", [True, False])
def test_other_threads(run, debug):
    """asyncio refuses them only in its debug mode, so that the check costs nothing otherwise."""
    async def test(timers):
        refused = []

        def arm():
            try:
                timers.call_later(3600, print).cancel()
            except RuntimeError as error:
                refused.append(str(error))
        thread = threading.Thread(target=arm)
        thread.start()
        thread.join()
        assert len(refused) == debug
        assert all("Non-thread-safe operation" in text for text in refused)
    run(test, debug=debug)


@pytest.mark.parametrize("name", ["call_later", "call_at"])
@pytest.mark.parametrize("callback", ["function", "object", None])
def test_debug_mode_refuses_callbacks(run, name, callback):
    async def coroutine():
        pass

    async def test(timers):
        made = coroutine() if callback == "object" else None
        what = {"function": coroutine, "object": made, None: "no callable"}[callback]
        with pytest.raises(TypeError, match="coroutines cannot be used|a callable object"):
            getattr(timers, name)(10, what)
        if made:
            made.close()
    run(test, debug=True)


def test_closed_loop():
    async def make():
        return Timeouts()
    for debug in False, True:
        timers = asyncio.run(make(), debug=debug)
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            timers.call_later(1, print)
        timers.close()
