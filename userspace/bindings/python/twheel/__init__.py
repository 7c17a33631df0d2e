# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""Timing wheels for very many timeouts: libtwheel for Python.

    import twheel

    with twheel.Wheel() as wheel:
        timer = wheel.add(5, "data")
        timer.set(5)                    # a heartbeat
        while wheel.wait():
            for event in wheel.read():
                print(event.timer.data)

twheel.aio provides timeouts for asyncio. Delays are in seconds, as elsewhere in Python, and
names that end in _ns mean whole nanoseconds.
"""
import errno
import itertools
import os
import struct
import time
from types import TracebackType
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Type

from ._ffi import fail, ffi, lib, own, to_ns

__all__ = ["ClosedError", "Error", "Event", "Info", "Listed", "Stats", "Timer", "Usage", "Wheel",
           "runtime_version"]
__version__ = "0.3.0"

Error = OSError

_CLOCKS = {"monotonic": time.CLOCK_MONOTONIC, "realtime": time.CLOCK_REALTIME,
           "boottime": time.CLOCK_BOOTTIME, "tai": time.CLOCK_TAI}
_BACKENDS = {None: 0, "kernel": lib.TWHEEL_OPEN_KERNEL, "inprocess": lib.TWHEEL_OPEN_INPROCESS}
_STATES = {lib.TWHEEL_IDLE: "idle", lib.TWHEEL_ARMED: "armed", lib.TWHEEL_EXPIRED: "unread"}
_DRAIN = {"expire": lib.TWHEEL_DRAIN_EXPIRE, "cancel": lib.TWHEEL_DRAIN_CANCEL}
_EVENT = struct.Struct("=5Q8x")
# Wheel has a method that is called list.
_list = list


class ClosedError(RuntimeError):
    """The wheel is closed, or the timer has been deleted."""


class Event(NamedTuple):
    """A timer has expired. expired_ns minus deadline_ns is its lateness."""

    timer: "Timer"
    deadline_ns: int
    expired_ns: int
    expirations: int


class Info(NamedTuple):
    """The properties of a wheel: see twheel(4)."""

    features: int
    tick_ns: int
    min_tick_ns: int
    horizon_ns: int
    table_bytes: int
    clock_id: int
    max_timers: int
    levels: int
    slot_bits: int


class Stats(NamedTuple):
    """The statistics of a wheel: see twheel(4)."""

    armed: int
    unread: int
    allocated: int
    registered: int
    rearmed: int
    cancelled: int
    expired: int
    delivered: int
    armings: int
    displaced: int
    withdrawn: int
    moved: int
    cascaded: int
    wakeups: int
    worst_lateness_ns: int
    lateness_sum_ns: int
    lateness: List[int]


class Usage(NamedTuple):
    """How many system calls arming has cost this process: see libtwheel(3)."""

    kicks: int
    refills: int
    withdrawn: int


class Listed(NamedTuple):
    """A timer of Wheel.list(). state is "armed", "unread" or "idle"."""

    id: int
    user_data: int
    deadline_ns: int
    state: str


class Timer:
    """A timer that Wheel.add() has made. You own it until you call delete()."""

    __slots__ = ("data", "_wheel", "_key", "_id")

    def __init__(self, wheel: "Wheel", key: int, data: Any) -> None:
        self.data = data
        self._wheel = wheel
        self._key = key
        self._id = 0

    @property
    def id(self) -> int:
        """The id of the timer in libtwheel."""
        return self._id

    def _live_id(self) -> int:
        self._wheel._c
        if self._key not in self._wheel._timers:
            raise ClosedError("the timer was deleted")
        return self._id

    def _result(self, got: int) -> bool:
        if got < 0:
            fail(got)
        return got > 0

    def set(self, delay: float) -> bool:
        """Arms the timer, or moves it, so that it expires after this many seconds.

        Returns True if the timer was armed or its event was unread, and then no event for the
        old deadline will be read. If this returns False, such an event may be in the list that
        you are processing.
        """
        return self._result(lib.twheel_set(self._wheel._c, self._live_id(),
                                           self._wheel._deadline(delay)))

    def set_ns(self, deadline_ns: int) -> bool:
        """Like set(), but with a deadline on the clock of the wheel."""
        return self._result(lib.twheel_set(self._wheel._c, self._live_id(), deadline_ns))

    def clear(self) -> bool:
        """Disarms the timer and keeps it. Returns the same as set()."""
        return self._result(lib.twheel_clear(self._wheel._c, self._live_id()))

    def delete(self) -> bool:
        """Deletes the timer. Returns the same as set(), or False if it was deleted before."""
        timers = self._wheel._timers
        self._wheel._c
        # If several threads delete the timer, only one of them finds it here.
        if not timers.pop(self._key, None):
            return False
        got = lib.twheel_del(self._wheel._c, self._id)
        if got < 0:
            timers[self._key] = self
        return self._result(got)

    def __repr__(self) -> str:
        return f"<twheel.Timer {self._id:#x} data={self.data!r}>"


class Wheel:
    """A timing wheel: the kernel's, or one inside this process.

    Any thread may call any method at any time. While a thread clears or deletes a timer, no
    other thread may change that timer. After close() each method raises ClosedError. In a
    forked child each raises ChildProcessError, except close(), fileno(), backend,
    backend_reason and now_ns().
    """

    # close() deletes _c, and __getattr__() then raises ClosedError, so that methods need not check
    # if the wheel is open.
    __slots__ = ("_c", "_timers", "_keys", "_waiters", "__weakref__")
    _c: Any

    def __init__(self, backend: Optional[str] = None, *, clock: str = "monotonic",
                 tick_ns: int = 0, slack_ns: int = 0, max_timers: int = 0) -> None:
        """Opens a wheel. backend is "kernel" or "inprocess", or None to accept either.

        clock is "monotonic", "realtime", "boottime" or "tai". 0 means the default.
        """
        if backend not in _BACKENDS:
            raise ValueError(f"no such backend: {backend!r}")
        if clock not in _CLOCKS:
            raise ValueError(f"no such clock: {clock!r}")
        options = ffi.new("struct twheel_options *")
        options.size = ffi.sizeof("struct twheel_options")
        options.flags = _BACKENDS[backend] | lib.TWHEEL_OPEN_CHECKED
        if clock == "realtime":
            options.flags |= lib.TWHEEL_OPEN_REALTIME
        else:
            options.clock_id = _CLOCKS[clock]
        options.tick_ns = tick_ns
        options.slack_ns = slack_ns
        options.max_timers = max_timers
        out = ffi.new("struct twheel **")
        err = lib.twheel_open(out, options)
        if err in (-errno.ENOENT, -errno.EACCES):
            fail(err, "/dev/twheel")
        self._begin(err, out)

    @classmethod
    def from_fd(cls, fd: int) -> "Wheel":
        """Uses a kernel wheel that another process has opened.

        The descriptor was inherited, or received over a socket. The wheel takes it over.
        """
        out = ffi.new("struct twheel **")
        wheel = cls.__new__(cls)
        wheel._begin(lib.twheel_open_fd(out, fd), out)
        return wheel

    def _begin(self, err: int, out: Any) -> None:
        if err:
            fail(err)
        self._timers: Dict[int, Timer] = {}
        # Begin at a random key, because processes that share a wheel read each other's events, and
        # must not mistake them for their own.
        self._keys = itertools.count(int.from_bytes(os.urandom(7), "little"))
        self._waiters: List[None] = []
        self._c = own(out[0])

    def __getattr__(self, name: str) -> Any:
        if name == "_c":
            raise ClosedError("the wheel is closed")
        raise AttributeError(name)

    @property
    def closed(self) -> bool:
        """True after close()."""
        try:
            return not self._c
        except ClosedError:
            return True

    def close(self) -> None:
        """Closes the wheel and deletes its timers. Threads that wait get a ClosedError.

        If another thread is in a call, the wheel is only closed when that call returns.
        """
        try:
            wheel = self._c
            del self._c
        except (AttributeError, ClosedError):
            return
        # A thread that calls a method later finds no _c.
        if self._waiters:
            lib.twheel_wake(wheel)
        self._timers.clear()

    def __enter__(self) -> "Wheel":
        self._c
        return self

    def __exit__(self, exc_type: Optional[Type[BaseException]], exc: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()

    def fileno(self) -> int:
        """The descriptor to wait for. Do not read or close it."""
        return int(lib.twheel_fd(self._c))

    @property
    def backend(self) -> str:
        """Which wheel this is: "kernel" or "inprocess"."""
        name: bytes = ffi.string(lib.twheel_backend(self._c))
        return name.decode()

    @property
    def backend_reason(self) -> str:
        """Why this is not the kernel's wheel; empty if it is."""
        reason: bytes = ffi.string(lib.twheel_backend_reason(self._c))
        return reason.decode()

    def now_ns(self) -> int:
        """The time on the clock of the wheel."""
        return int(lib.twheel_now(self._c))

    def _deadline(self, delay: float) -> int:
        # The wheel may belong to another time namespace, and Python cannot read its clock.
        return int(lib.twheel_after(self._c, to_ns(delay)))

    def add(self, delay: float, data: Any = None) -> Timer:
        """Makes a timer that expires after this many seconds.

        With float("inf"), it does not expire before you set() another delay.
        """
        return self.add_ns(self._deadline(delay), data)

    def add_ns(self, deadline_ns: int, data: Any = None) -> Timer:
        """Like add(), but with a deadline on the clock of the wheel."""
        self._c
        out = ffi.new("uint64_t *")
        timer = Timer(self, next(self._keys), data)
        # Do this before it is armed, because another thread may read its event at once.
        self._timers[timer._key] = timer
        try:
            err = lib.twheel_add(self._c, deadline_ns, timer._key, out)
            if err:
                fail(err)
        except BaseException:
            self._timers.pop(timer._key, None)
            raise
        timer._id = out[0]
        return timer

    def wait(self, timeout: Optional[float] = None) -> bool:
        """Waits until there may be something to read. Returns False if the time is up.

        It also returns True after wake(), so it is normal that read() then returns nothing.
        """
        until = None if timeout is None else time.monotonic_ns() + to_ns(timeout)
        got = -errno.EINTR
        wheel = None
        self._waiters.append(None)
        try:
            wheel = self._c
            while got == -errno.EINTR:
                left = -1
                if until is not None:
                    left = min(max(0, until - time.monotonic_ns()), 2**63 - 1)
                got = lib.twheel_wait(wheel, left)
        finally:
            self._waiters.pop()
            self._tell_others(wheel)
            # Otherwise a traceback would keep the wheel alive.
            del wheel
        self._c
        if got < 0:
            fail(got)
        return bool(got)

    def _tell_others(self, wheel: Any) -> None:
        # A read may have consumed the wake of close().
        if self._waiters and wheel and self.closed:
            lib.twheel_wake(wheel)

    def wake(self) -> None:
        """Ends a wait() of another thread. If no thread waits, the next wait() returns at once."""
        err = lib.twheel_wake(self._c)
        if err:
            fail(err)

    def read(self, n: int = 256) -> List[Event]:
        """Returns up to n events, in the order of their ticks, without waiting.

        Events of deleted timers and of other processes are left out. While you process the
        list, you may delete or move the timer of a later event, which is then stale.
        """
        events = ffi.new("struct twheel_event[]", n)
        wheel = self._c
        got = lib.twheel_read(wheel, events, n)
        self._tell_others(wheel)
        del wheel
        self._c
        if got < 0:
            fail(got)
        taken = []
        for timer_id, key, deadline, expired, times in _EVENT.iter_unpack(
                ffi.buffer(events, got * _EVENT.size)):
            timer = self._timers.get(key)
            if timer:
                timer._id = timer_id
                taken.append(Event(timer, deadline, expired, times))
        return taken

    def drain(self, mode: str) -> int:
        """Ends every arming, and returns how many it has ended.

        With "expire", each armed timer expires now, so that read() returns its event. With
        "cancel", no event follows. The timers themselves stay.
        """
        got = lib.twheel_drain(self._c, _DRAIN[mode])
        if got < 0:
            fail(got)
        return int(got)

    def list(self) -> Iterator[Listed]:
        """Lists the timers of the wheel, including those of other processes."""
        cursor = ffi.new("uint32_t *")
        timers = ffi.new("struct twheel_timer[]", 256)
        while True:
            got = lib.twheel_list(self._c, timers, 256, cursor)
            if got < 0:
                fail(got)
            if not got:
                return
            for t in timers[0:got]:
                yield Listed(t.id, t.user_data, t.deadline_ns, _STATES[t.state])

    def info(self) -> Info:
        """Returns the properties of the wheel."""
        out = ffi.new("struct twheel_info *")
        err = lib.twheel_info(self._c, out)
        if err:
            fail(err)
        return Info(*(getattr(out, name) for name in Info._fields))

    def stats(self) -> Stats:
        """Returns the statistics of the wheel."""
        out = ffi.new("struct twheel_stats *")
        err = lib.twheel_stats(self._c, out)
        if err:
            fail(err)
        counts: List[Any] = [getattr(out, name) for name in Stats._fields[:-1]]
        return Stats._make([*counts, _list(out.lateness)])

    def usage(self) -> Usage:
        """Returns how many system calls arming has cost this process."""
        out = ffi.new("struct twheel_usage *", {"size": ffi.sizeof("struct twheel_usage")})
        err = lib.twheel_usage(self._c, out)
        if err:
            fail(err)
        return Usage(out.kicks, out.refills, out.withdrawn)

    def __repr__(self) -> str:
        return "<twheel.Wheel closed>" if self.closed else f"<twheel.Wheel {self.backend}>"


def runtime_version() -> str:
    """Returns the version of the library that is loaded."""
    version: bytes = ffi.string(lib.twheel_version())
    return version.decode()
