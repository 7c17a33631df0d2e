# SPDX-License-Identifier: GPL-2.0
"""Nothing crashes after close(), after a fork, or when the interpreter exits."""
import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
import traceback

import pytest

import twheel
from twheel.aio import TimerHandle, Timeouts

# For each method and property, how to use it. None: it works on a closed wheel.
WHEEL = {
    "add": (1,), "add_ns": (1,), "wait": (0,), "wake": (), "read": (), "drain": ("expire",),
    "list": (), "info": (), "stats": (), "usage": (), "fileno": (), "now_ns": (), "backend": (),
    "backend_reason": (),
    "close": None, "closed": None, "from_fd": None,
}
TIMEOUTS = {
    "call_later": (1, print), "call_at": (1e9, print), "timeout": (1,), "timeout_at": (1,),
    "stats": (), "usage": (), "backend": (), "backend_reason": (), "close": None, "closed": None,
}
# These work in a forked child.
IN_CHILD = {"fileno", "now_ns", "backend", "backend_reason"}


def public(cls):
    """Return: the names that need an entry above."""
    return {name for name in dir(cls) if not name.startswith("_")}


def use(thing, name, args):
    """Call a method, or read a property."""
    found = getattr(thing, name)
    if not callable(found):
        return
    result = found(*args)
    if name == "list":
        list(result)


def in_child(function):
    """Run a function in a forked child. Return: its exit status, 0 unless it raised or crashed."""
    pid = os.fork()
    if not pid:
        status = 1
        try:
            function()
            status = 0
        except BaseException:  # pylint: disable=broad-except
            traceback.print_exc()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_every_method_is_listed():
    assert public(twheel.Wheel) == set(WHEEL)
    assert public(Timeouts) == set(TIMEOUTS)


@pytest.mark.parametrize("name", [name for name, args in WHEEL.items() if args is not None])
def test_method_of_a_closed_wheel(name):
    wheel = twheel.Wheel()
    wheel.close()
    with pytest.raises(twheel.ClosedError):
        use(wheel, name, WHEEL[name])


def test_timer_of_a_closed_wheel():
    wheel = twheel.Wheel()
    timer = wheel.add(1)
    wheel.close()
    wheel.close()
    assert wheel.closed and "closed" in repr(wheel) and repr(timer)
    for call in (lambda: timer.set(1), lambda: timer.set_ns(1), timer.clear, timer.delete):
        with pytest.raises(twheel.ClosedError):
            call()
    with pytest.raises(twheel.ClosedError):
        with wheel:
            pass


def test_a_wheel_that_was_not_opened():
    wheel = twheel.Wheel.__new__(twheel.Wheel)
    with pytest.raises(twheel.ClosedError):
        wheel.read()
    wheel.close()
    timeouts = Timeouts.__new__(Timeouts)
    with pytest.raises(twheel.ClosedError):
        timeouts.call_later(0, print)
    timeouts.close()


def test_descriptor_is_closed():
    wheel = twheel.Wheel()
    fd = wheel.fileno()
    wheel.close()
    with pytest.raises(OSError):
        os.fstat(fd)
    wheel = twheel.Wheel()
    fd = wheel.fileno()
    del wheel
    gc.collect()
    with pytest.raises(OSError):
        os.fstat(fd)


@pytest.mark.parametrize("name", [name for name, args in TIMEOUTS.items() if args is not None])
def test_method_of_closed_timeouts(name):
    async def test():
        timeouts = Timeouts()
        timeouts.close()
        timeouts.close()
        assert timeouts.closed and "closed" in repr(timeouts)
        if name.startswith("timeout"):
            with pytest.raises(twheel.ClosedError):
                async with getattr(timeouts, name)(1):
                    pass
        else:
            with pytest.raises(twheel.ClosedError):
                use(timeouts, name, TIMEOUTS[name])
            if name.startswith("call"):
                # Timers that are due at once do not go to the wheel.
                with pytest.raises(twheel.ClosedError):
                    getattr(timeouts, name)(0, print)
    asyncio.run(test())


def test_close_with_pending():
    async def test():
        calls = []
        timeouts = Timeouts()
        handles = [timeouts.call_later(delay, calls.append, delay)
                   for delay in (0, 0.001, 0.001, 100)]
        handles[0].cancel()
        time.sleep(0.01)
        # One timer is called, and closes; another one is due, and one is pending.
        handles.append(timeouts.call_at(handles[1].when() - 1e-4, timeouts.close))
        await asyncio.sleep(0.03)
        assert calls in ([], [0.001], [0.001, 0.001]) and len(timeouts) == 0
        before = list(calls)
        assert handles[3].cancelled()
        for handle in handles[:4]:
            handle.cancel()
        for call in (handles[3].restart, lambda: handles[3].restart(1),
                     lambda: handles[3].reschedule(1)):
            with pytest.raises(twheel.ClosedError):
                call()
        await asyncio.sleep(0.01)
        assert calls == before
    asyncio.run(test())


def test_close_in_a_callback_spares_those_that_are_due():
    async def test():
        calls = []
        timeouts = Timeouts()
        when = asyncio.get_running_loop().time() + 0.3
        timeouts.call_at(when, timeouts.close)
        handles = [timeouts.call_at(when + 1e-6 * i, calls.append, i) for i in range(1, 10)]
        time.sleep(0.32)
        await asyncio.sleep(0.02)
        assert timeouts.closed and not calls
        assert all(handle.cancelled() for handle in handles)
    asyncio.run(test())


def test_close_inside_timeout():
    async def test():
        timeouts = Timeouts()
        async with timeouts.timeout(10) as cm:
            timeouts.close()
        assert not cm.expired()
    asyncio.run(test())


def test_the_loop_is_closed_first():
    async def test():
        timeouts = Timeouts()
        timeouts.call_later(0.001, print)
        return timeouts
    timeouts = asyncio.run(test())
    timeouts.close()
    with pytest.raises(twheel.ClosedError):
        timeouts.call_later(1, print)


def test_restart():
    async def test():
        calls = []
        loop = asyncio.get_running_loop()
        with Timeouts() as timeouts:
            handle = timeouts.call_later(0.4, lambda: calls.append(loop.time()))
            for _ in range(6):
                await asyncio.sleep(0.08)
                before = loop.time()
                handle.restart()
            assert not calls
            assert before + 0.4 - 1e-6 <= handle.when() <= loop.time() + 0.4
            await asyncio.sleep(0.42)
            assert len(calls) == 1 and calls[0] >= handle.when()
            # Again, after it was called.
            handle.restart(0.01)
            handle.reschedule(loop.time() + 0.02)
            handle.restart(0)
            await asyncio.sleep(0.05)
            assert len(calls) == 2 and len(timeouts) == 0
            handle.restart(float("inf"))
            assert handle.when() == float("inf") and len(timeouts) == 1
            handle.restart(0.001)
            time.sleep(0.01)
            # It is due, and was not called yet.
            await asyncio.sleep(0)
            handle.restart(10)
            await asyncio.sleep(0.02)
            assert len(calls) in (2, 3)
            handle.cancel()
            with pytest.raises(RuntimeError):
                handle.restart()
            assert all(t.state == "idle" for t in timeouts._wheel.list())
    asyncio.run(test())


def test_restart_of_what_is_due():
    async def test():
        calls = []
        with Timeouts() as timeouts:
            when = asyncio.get_running_loop().time() + 0.3
            timeouts.call_at(when, lambda: second.restart(100))
            second = timeouts.call_at(when + 1e-6, lambda: calls.append(second.when()))
            time.sleep(0.32)
            await asyncio.sleep(0.01)
            assert not calls
            second.restart(0.001)
            await asyncio.sleep(0.01)
            assert len(calls) == 1
    asyncio.run(test())


def test_timers_of_wheels_are_freed():
    async def test():
        with Timeouts() as timeouts:
            for _ in range(100):
                for handle in [timeouts.call_later(0.001, int) for _ in range(100)]:
                    handle.cancel()
            del handle
            await asyncio.sleep(0.01)
            for _ in range(20):
                for _ in range(100):
                    timeouts.call_later(0.0005, int)
                await asyncio.sleep(0.003)
            await asyncio.sleep(0.01)
            assert timeouts.stats().allocated < 500
        gc.collect()
        assert not [thing for thing in gc.get_objects() if isinstance(thing, TimerHandle)]
    asyncio.run(test())


def test_close_while_threads_wait():
    for _ in range(50):
        wheel = twheel.Wheel()
        ended = []

        def wait():
            try:
                while True:
                    wheel.wait()
                    wheel.read()
            except twheel.ClosedError:
                ended.append(1)
        threads = [threading.Thread(target=wait) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(20):
            wheel.add(0)
        wheel.close()
        for thread in threads:
            thread.join(20)
        assert len(ended) == 4


def test_close_while_threads_work():
    for _ in range(50):
        wheel = twheel.Wheel()
        bad = []

        def work():
            try:
                while True:
                    timer = wheel.add(0)
                    timer.set(10)
                    wheel.read()
                    wheel.stats()
                    timer.delete()
            except twheel.ClosedError:
                pass
            except BaseException as error:  # pylint: disable=broad-except
                bad.append(error)
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.002)
        fd = wheel.fileno()
        wheel.close()
        for thread in threads:
            thread.join(20)
            assert not thread.is_alive()
        assert not bad
        with pytest.raises(OSError):
            os.fstat(fd)


def test_fork_wheel():
    wheel = twheel.Wheel()
    timer = wheel.add(100)

    def child():
        for name, args in WHEEL.items():
            if args is None:
                continue
            if name in IN_CHILD:
                use(wheel, name, args)
                continue
            with pytest.raises(ChildProcessError):
                use(wheel, name, args)
        for call in (lambda: timer.set(1), timer.clear, timer.delete, timer.delete):
            with pytest.raises(ChildProcessError):
                call()
        wheel.close()
        with pytest.raises(twheel.ClosedError):
            wheel.read()
        with twheel.Wheel() as own:
            own.add(0.001)
            assert own.wait(5)
    assert in_child(child) == 0
    assert timer.set(0.001) is True
    assert wheel.wait(5)
    assert wheel.read()
    wheel.close()


def test_fork_timeouts():
    async def test():
        calls = []
        timeouts = Timeouts()
        handle = timeouts.call_later(0.05, calls.append, 1)

        def child():
            for call in (lambda: timeouts.call_later(1, print),
                         lambda: timeouts.call_later(0, print), handle.restart,
                         lambda: handle.restart(1), handle.cancel, timeouts.stats):
                with pytest.raises(ChildProcessError):
                    call()
            assert not handle.cancelled()
            timeouts.close()
            timeouts.close()
            asyncio.set_event_loop(None)

            async def other():
                done = asyncio.Event()
                with Timeouts() as own:
                    own.call_later(0.001, done.set)
                    await asyncio.wait_for(done.wait(), 5)
            asyncio._set_running_loop(None)
            asyncio.run(other())
        assert in_child(child) == 0
        # The child took nothing from its parent's loop.
        await asyncio.sleep(0.2)
        assert calls == [1]
        timeouts.close()
    asyncio.run(test())


def test_fork_of_a_thread_that_waits():
    wheel = twheel.Wheel()
    thread = threading.Thread(target=wheel.wait)
    thread.start()
    time.sleep(0.01)
    assert in_child(wheel.close) == 0
    wheel.wake()
    thread.join()
    wheel.close()


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "1 / 0"])
def test_the_interpreter_ends(ending):
    script = f"""
import asyncio, os, sys, threading, twheel
from twheel.aio import Timeouts
wheel = twheel.Wheel()
timers = [wheel.add(100) for _ in range(100)]
class Cycle: pass
cycle = Cycle()
cycle.self = cycle
cycle.wheel = twheel.Wheel()
sys.modules["kept"] = twheel.Wheel()
threading.Thread(target=wheel.wait, daemon=True).start()
loop = asyncio.new_event_loop()
timeouts = Timeouts(loop)
timeouts.call_later(100, print)
loop.run_until_complete(asyncio.sleep(0.01))
{ending}
"""
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", script], timeout=60, check=False,
                              stderr=subprocess.PIPE)
        assert done.returncode == {"": 0, "sys.exit(3)": 3}.get(ending, 1), done.stderr
