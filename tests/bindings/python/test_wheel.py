# SPDX-License-Identifier: GPL-2.0
"""Tests of Wheel and Timer."""
import errno
import select
import signal
import threading
import time

import pytest

import twheel


@pytest.fixture
def wheel():
    with twheel.Wheel() as w:
        yield w


def events(wheel, count, seconds=5):
    """Wait for this many events."""
    got = []
    until = time.monotonic() + seconds
    while len(got) < count and time.monotonic() < until:
        wheel.wait(0.1)
        got += wheel.read()
    return got


def test_versions_agree():
    assert twheel.__version__ == twheel.runtime_version()


def test_an_event(wheel):
    timer = wheel.add(0.005, "data")
    [event] = events(wheel, 1)
    assert event.timer is timer and event.timer.data == "data"
    assert event.expired_ns >= event.deadline_ns > wheel.now_ns() - 5 * 10**9
    assert event.expirations == 1
    assert wheel.wait(0.01) is False
    assert wheel.read() == []


def test_set_clear_delete(wheel):
    timer = wheel.add(float("inf"))
    assert timer.set(10) is True
    assert timer.clear() is True
    assert timer.clear() is False
    assert timer.set(0.001) is False
    assert [event.timer for event in events(wheel, 1)] == [timer]
    assert timer.set(10) is False
    assert timer.delete() is True
    assert timer.delete() is False
    for call in (lambda: timer.set(1), lambda: timer.set_ns(1), timer.clear):
        with pytest.raises(twheel.ClosedError):
            call()


def test_a_deleted_timer_has_no_event(wheel):
    wheel.add(0).delete()
    timer = wheel.add(0)
    time.sleep(0.005)
    assert [event.timer for event in events(wheel, 1)] == [timer]
    assert all(t.state == "idle" for t in wheel.list())


def test_order(wheel):
    now = wheel.now_ns() + 3 * 10**8
    timers = [wheel.add_ns(now + i * 2 * 10**6) for i in (3, 1, 4, 0, 2)]
    assert [timers.index(event.timer) for event in events(wheel, 5)] == [3, 1, 4, 0, 2]


def test_many(wheel):
    timers = {wheel.add(0.001 * (i % 50), i) for i in range(10000)}
    got = events(wheel, 10000)
    assert {event.timer for event in got} == timers and len(got) == 10000


def test_select(wheel):
    wheel.add(0.01)
    assert select.select([wheel], [], [], 5)[0] == [wheel]
    assert wheel.read()


def test_processes_that_share_a_wheel_have_keys_of_their_own(wheel):
    with twheel.Wheel() as other:
        wheel.add(100)
        other.add(100)
        ours, theirs = ({t.user_data for t in w.list() if t.state == "armed"}
                        for w in (wheel, other))
    assert len(ours) == 1 == len(theirs) and ours != theirs


def test_list_drain_and_counts(wheel):
    timers = [wheel.add(100) for _ in range(300)]
    assert {t.id for t in wheel.list() if t.state == "armed"} == {t.id for t in timers}
    assert wheel.drain("cancel") == 300
    for timer in timers:
        timer.set(100)
    assert wheel.drain("expire") == 300
    assert len(events(wheel, 300)) == 300
    stats = wheel.stats()
    assert stats.expired == 300 == stats.delivered and len(stats.lateness) == 64
    assert stats.worst_lateness_ns <= stats.lateness_sum_ns
    assert wheel.usage().refills > 0


@pytest.mark.parametrize("clock", ["monotonic", "realtime", "boottime", "tai"])
def test_clocks(clock):
    with twheel.Wheel(clock=clock) as wheel:
        wheel.add(0.002)
        assert len(events(wheel, 1)) == 1


def test_the_clock_of_the_wheel_counts(wheel, monkeypatch):
    """Python's clocks may differ from it: in another time namespace, or if time_t ends in 2038."""
    monkeypatch.setattr(time, "clock_gettime_ns", lambda clock: 0)
    before = wheel.now_ns()
    timer = wheel.add(500)
    timer.set(1000)
    [listed] = [t for t in wheel.list() if t.state == "armed"]
    assert before + 1000 * 10**9 <= listed.deadline_ns < before + 1100 * 10**9


def test_options(monkeypatch):
    monkeypatch.setenv("TWHEEL_BACKEND", "inprocess")
    with twheel.Wheel("inprocess", tick_ns=10**6, max_timers=100) as wheel:
        assert wheel.backend == "inprocess" and "TWHEEL_BACKEND" in wheel.backend_reason
        assert wheel.info().tick_ns == 2**19 and wheel.info().max_timers == 100
        with pytest.raises(OSError) as raised:
            for _ in range(101):
                wheel.add(1)
        assert raised.value.errno == errno.ENOSPC


def test_bad_arguments(wheel):
    for bad in "backend", "clock":
        with pytest.raises(ValueError, match=f"^no such {bad}: 'none'$"):
            twheel.Wheel(**{bad: "none"})
    with pytest.raises(OSError):
        twheel.Wheel(tick_ns=2**63, max_timers=2**32 - 1)
    with pytest.raises(OverflowError):
        twheel.Wheel(max_timers=2**32)
    for call in (lambda: wheel.add(float("nan")), lambda: wheel.read(-1)):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(OSError):
        wheel.read(0)
    with pytest.raises(OSError):
        twheel.Wheel.from_fd(0)
    with pytest.raises(OverflowError):
        wheel.add_ns(-1)
    assert all(t.state == "idle" for t in wheel.list())


def test_wake(wheel):
    thread = threading.Timer(0.02, wheel.wake)
    thread.start()
    assert wheel.wait(30) is True
    thread.join()


def test_a_signal_does_not_end_a_wait(wheel):
    seen = []
    old = signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    begin = time.monotonic()
    assert wheel.wait(0.05) is False
    assert seen and time.monotonic() - begin >= 0.05
    signal.signal(signal.SIGALRM, old)


def test_an_exception_of_a_signal_ends_a_wait(wheel):
    def interrupt(*_):
        raise KeyboardInterrupt
    old = signal.signal(signal.SIGALRM, interrupt)
    with pytest.raises(KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        wheel.wait(30)
    signal.signal(signal.SIGALRM, old)


def test_threads_share_a_wheel(wheel):
    left = [0]
    bad = []

    def add():
        for i in range(2000):
            wheel.add(0 if i % 2 else 0.001, i)

    def read():
        while left[0] < 8000:
            for event in wheel.read(16):
                left[0] += 1
                if event.timer.id == 0 or event.timer.delete():
                    bad.append(event)
            if time.monotonic() > until:
                return
            wheel.wait(0.01)
    until = time.monotonic() + 30
    threads = [threading.Thread(target=add) for _ in range(4)]
    threads.append(threading.Thread(target=read))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert left[0] == 8000 and not bad
