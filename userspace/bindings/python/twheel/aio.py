# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""Timeouts of a wheel in an asyncio loop, with asyncio's names.

    timeouts = twheel.aio.Timeouts()
    handle = timeouts.call_later(30, connection.close)
    handle.restart()                    # a heartbeat
    async with timeouts.timeout(5):
        await something()

As with loop.call_later(), a callback runs in the context of contextvars in which the timer was
made, or that you passed, and its exceptions go to the exception handler of the loop. Use all of
this only in the thread of the loop.
"""
import asyncio
import contextvars
import enum
import logging
import operator
import os
import struct
import sys
import time
import traceback
from types import TracebackType
from typing import Any, Callable, Dict, List, Optional, Tuple, Type

from . import ClosedError, Stats, Usage, Wheel
from ._ffi import NEVER, fail, ffi, lib, to_ns

__all__ = ["Timeout", "TimerHandle", "Timeouts"]

_EVENTS = 256
_EVENT = struct.Struct("=5Q8x")
_now = time.monotonic_ns
_add = lib.twheel_add
_set = lib.twheel_set
_del = lib.twheel_del
_read = lib.twheel_read
_log = logging.getLogger("asyncio")
_by_deadline = operator.attrgetter("_deadline")


def _after(delay: int) -> int:
    return min(NEVER, _now() + delay)


# asyncio keeps the same number of frames in its debug mode.
_DEBUG_FRAMES = 10


class TimerHandle:
    """Returned by call_later(): an asyncio.TimerHandle with restart() and reschedule()."""

    __slots__ = ("_timeouts", "_id", "_deadline", "_when", "_delay", "_callback", "_args",
                 "_context", "_cancelled", "_source_traceback")

    def __init__(self, timeouts: "Timeouts", deadline: int, delay: int,
                 callback: Callable[..., object], args: Tuple[Any, ...],
                 context: Optional[contextvars.Context]) -> None:
        self._timeouts = timeouts
        # The id of the timer in the wheel, or 0 if it is not armed there.
        self._id = 0
        self._deadline = deadline
        # The time on the clock of the loop, if the caller passed one.
        self._when: Optional[float] = None
        self._delay = delay
        self._source_traceback: Optional[traceback.StackSummary] = None
        self._callback: Optional[Callable[..., object]] = callback
        self._args = args
        self._context = contextvars.copy_context() if context is None else context
        self._cancelled = False

    def restart(self, delay: Optional[float] = None) -> None:
        """Starts the delay again, and changes it if you pass one.

        This takes one atomic instruction, plus the overhead of Python. It also arms a timer
        whose callback was called. It raises RuntimeError if the timer was canceled.
        """
        if delay is not None:
            self._delay = to_ns(delay)
        self._when = None
        deadline = _now() + self._delay
        if not self._id or deadline > NEVER:
            self._move(min(NEVER, deadline))
            return
        got = _set(self._timeouts._c, self._id, deadline)
        if got < 0:
            fail(got)
        self._deadline = deadline

    def reschedule(self, when: float) -> None:
        """Like restart(), but with a time on the clock of the loop."""
        self._move(self._timeouts._on_wheel(when))
        self._when = when

    def _move(self, deadline: int) -> None:
        timeouts = self._timeouts
        c = timeouts._c
        if self._cancelled:
            raise RuntimeError("the timer is canceled")
        if not self._id or deadline <= _now():
            timeouts._drop(self)
            timeouts._arm(self, deadline)
            return
        got = _set(c, self._id, deadline)
        if got < 0:
            fail(got)
        self._deadline = deadline

    def cancel(self) -> None:
        """Prevents the call of the callback. A second call does nothing."""
        if not self._cancelled:
            self._timeouts._drop(self)
            self._end()

    def _end(self) -> None:
        self._id = 0
        self._cancelled = True
        # Do not keep these alive.
        self._callback = None
        self._args = ()

    def cancelled(self) -> bool:
        """True if the timer was canceled, or its Timeouts were closed."""
        return self._cancelled

    def when(self) -> float:
        """Returns the time on the clock of the loop at which the callback is due."""
        return self._timeouts._on_loop(self._deadline) if self._when is None else self._when

    def _run(self) -> None:
        """Calls back, as asyncio's handles do."""
        loop = self._timeouts._loop
        callback = self._callback
        assert callback is not None
        try:
            if not loop.get_debug():
                self._context.run(callback, *self._args)
                return
            begin = loop.time()
            self._context.run(callback, *self._args)
            took = loop.time() - begin
            # The warning of the loop itself would not name the callback, because the loop has only
            # called a method of Timeouts.
            if took >= loop.slow_callback_duration:
                _log.warning("Executing %r took %.3f seconds", self, took)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # pylint: disable=broad-except
            context: Dict[str, Any] = {
                "message": f"Exception in callback {callback!r}",
                "exception": error,
                "handle": self,
            }
            if self._source_traceback:
                context["source_traceback"] = self._source_traceback
            loop.call_exception_handler(context)

    def __repr__(self) -> str:
        state = "cancelled" if self._cancelled else f"when={self.when():.3f}"
        made = ""
        if self._source_traceback:
            frame = self._source_traceback[-1]
            made = f" created at {frame.filename}:{frame.lineno}"
        return f"<twheel.aio.TimerHandle {state} {self._callback!r}{made}>"


class _State(enum.Enum):
    CREATED = "created"
    ENTERED = "active"
    EXPIRING = "expiring"
    EXPIRED = "expired"
    EXITED = "finished"


# The innermost timeout() that the code is in. A task inherits that of the task that made it.
_innermost: "contextvars.ContextVar[Optional[Timeout]]" = contextvars.ContextVar(
    "twheel.aio.innermost", default=None)


class Timeout:
    """Returned by timeout(): an asyncio.Timeout with restart()."""

    __slots__ = ("_timeouts", "_when", "_deadline", "_state", "_handle", "_task", "_cancelling",
                 "_outer")

    def __init__(self, timeouts: "Timeouts", when: Optional[float],
                 deadline: Optional[int] = None) -> None:
        self._timeouts = timeouts
        self._when = when
        # The deadline on the clock of the wheel, or None to calculate it from _when.
        self._deadline = deadline
        self._state = _State.CREATED
        self._handle: Optional[TimerHandle] = None
        self._task: Optional["asyncio.Task[Any]"] = None
        self._cancelling = 0
        self._outer: Optional[Timeout] = None

    def when(self) -> Optional[float]:
        """Returns the deadline on the clock of the loop, or None."""
        return self._when

    def expired(self) -> bool:
        """True if the deadline passed while the block was running."""
        return self._state in (_State.EXPIRING, _State.EXPIRED)

    def restart(self, delay: float) -> None:
        """Gives the block this many seconds from now on."""
        timeouts = self._timeouts
        self.reschedule(timeouts._loop.time() + delay)
        deadline = timeouts._exactly(delay)
        if self._handle and deadline is not None:
            self._handle._move(deadline)

    def reschedule(self, when: Optional[float]) -> None:
        """Changes the deadline, or removes it if you pass None."""
        if self._state is not _State.ENTERED:
            raise RuntimeError(f"Cannot change state of {self._state.value} Timeout")
        if self._handle and when is not None:
            self._handle.reschedule(when)
        elif self._handle:
            self._handle.cancel()
            self._handle = None
        elif when is not None:
            self._handle = self._timeouts.call_at(when, self._expire)
        self._when = when

    def _expire(self) -> None:
        """Ends the block, and with it the blocks around it whose time is up, because the outermost
        of them has to raise the TimeoutError. Their own events can come up to a tick later."""
        now = _now()
        outer = self._outer
        while outer:
            if (outer._task is self._task and outer._handle
                    and outer._handle._deadline <= now):
                outer._handle.cancel()
                outer._interrupt()
            outer = outer._outer
        self._interrupt()

    def _interrupt(self) -> None:
        assert self._task is not None
        self._task.cancel()
        self._state = _State.EXPIRING
        self._handle = None

    async def __aenter__(self) -> "Timeout":
        if self._state is not _State.CREATED:
            raise RuntimeError("Timeout has already been entered")
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("Timeout should be used inside a task")
        self._timeouts._c
        self._state = _State.ENTERED
        self._task = task
        self._cancelling = task.cancelling()
        self.reschedule(self._when)
        if self._handle and self._deadline is not None:
            self._handle._move(self._deadline)
        self._outer = _innermost.get()
        _innermost.set(self)
        return self

    async def __aexit__(self, exc_type: Optional[Type[BaseException]],
                        exc: Optional[BaseException],
                        traceback: Optional[TracebackType]) -> None:
        task = self._task
        assert task is not None
        if _innermost.get() is self:
            _innermost.set(self._outer)
        # A task that was made in the block may keep this in its context.
        self._task = self._outer = None
        if self._handle:
            self._handle.cancel()
            self._handle = None
        if self._state is _State.EXPIRING:
            self._state = _State.EXPIRED
            if (task.uncancel() <= self._cancelling and exc_type is not None
                    and issubclass(exc_type, asyncio.CancelledError)):
                raise TimeoutError from exc
        else:
            self._state = _State.EXITED

    def __repr__(self) -> str:
        when = f" when={self._when}" if self._state is _State.ENTERED else ""
        return f"<twheel.aio.Timeout [{self._state.value}]{when}>"


class Timeouts:
    """The timeouts of a loop, on their own wheel.

    After close(), methods such as call_later() raise ClosedError, and no callback is called. In
    a forked child, they raise ChildProcessError.
    """

    # As in Wheel, _c is absent when this is closed.
    __slots__ = ("_c", "_loop", "_exact", "_wheel", "_handles", "_due", "_soon", "_pid", "_out",
                 "_events", "_bytes", "__weakref__")
    _c: Any

    def __init__(self, loop: Optional[asyncio.AbstractEventLoop] = None, *,
                 backend: Optional[str] = None, tick_ns: int = 0, max_timers: int = 0) -> None:
        """Opens a wheel in a loop, by default the running one. See Wheel for the rest."""
        self._loop = loop or asyncio.get_running_loop()
        # The loops of asyncio have the same clock as the wheel. Another loop may count from
        # another origin, or in whole milliseconds.
        self._exact = (getattr(self._loop.time, "__func__", None) is asyncio.BaseEventLoop.time)
        self._wheel = Wheel(backend, tick_ns=tick_ns, max_timers=max_timers)
        # The timers in the wheel, by their ids, and those that the loop has to call, in this order.
        self._handles: Dict[int, TimerHandle] = {}
        self._due: Dict[TimerHandle, None] = {}
        # Not None if the loop is going to call _called_soon().
        self._soon: Optional[asyncio.Handle] = None
        self._pid = os.getpid()
        self._out = ffi.new("uint64_t *")
        self._events = ffi.new("struct twheel_event[]", _EVENTS)
        self._bytes = ffi.buffer(self._events)
        self._loop.add_reader(self._wheel.fileno(), self._readable)
        self._c = self._wheel._c

    def __getattr__(self, name: str) -> Any:
        if name == "_c":
            raise ClosedError("the timeouts are closed")
        raise AttributeError(name)

    def call_later(self, delay: float, callback: Callable[..., object], *args: Any,
                   context: Optional[contextvars.Context] = None) -> TimerHandle:
        """Calls callback(*args) after this many seconds, like loop.call_later()."""
        ns = to_ns(delay)
        deadline = _after(ns)
        handle = TimerHandle(self, deadline, ns, callback, args, context)
        self._check(handle, "call_later")
        self._arm(handle, deadline)
        return handle

    def call_at(self, when: float, callback: Callable[..., object], *args: Any,
                context: Optional[contextvars.Context] = None) -> TimerHandle:
        """Calls callback(*args) at a time on the clock of the loop, like loop.call_at()."""
        deadline = self._on_wheel(when)
        handle = TimerHandle(self, deadline, max(0, deadline - _now()), callback, args, context)
        handle._when = when
        self._check(handle, "call_at")
        self._arm(handle, deadline)
        return handle

    def timeout(self, delay: Optional[float]) -> Timeout:
        """Returns an asynchronous context manager, like asyncio.timeout()."""
        if delay is None:
            return Timeout(self, None)
        return Timeout(self, self._loop.time() + delay, self._exactly(delay))

    def timeout_at(self, when: Optional[float]) -> Timeout:
        """Returns an asynchronous context manager, like asyncio.timeout_at()."""
        return Timeout(self, when)

    def _exactly(self, delay: float) -> Optional[int]:
        """Returns the deadline after a delay, or None if the loop has the clock of the wheel.

        Otherwise _on_wheel() would have to read the clock of the loop again. If that has advanced
        by a millisecond in the meantime, the timeout would be early by this millisecond.
        """
        return None if self._exact else _after(to_ns(delay))

    def _on_wheel(self, when: float) -> int:
        """Converts a time of the loop to one of the wheel, in nanoseconds, and rounds it up."""
        return to_ns(when) if self._exact else _after(to_ns(when - self._loop.time()))

    def _on_loop(self, deadline: int) -> float:
        """Converts a time of the wheel to one of the loop."""
        if deadline == NEVER:
            return float("inf")
        if self._exact:
            return deadline / 1e9
        return self._loop.time() + (deadline - _now()) / 1e9

    def _check(self, handle: TimerHandle, method: str) -> None:
        """Refuses what asyncio refuses, and in its debug mode remembers who made the timer."""
        # If the wheel is closed, or was never opened, this raises the error.
        self._c
        loop = self._loop
        if loop.is_closed():
            raise RuntimeError("Event loop is closed")
        if not loop.get_debug():
            return
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            running = None
        if loop.is_running() and running is not loop:
            raise RuntimeError("Non-thread-safe operation invoked on an event loop other than "
                               "the current one")
        callback = handle._callback
        if asyncio.iscoroutine(callback) or asyncio.iscoroutinefunction(callback):
            raise TypeError(f"coroutines cannot be used with {method}()")
        if not callable(callback):
            raise TypeError(f"a callable object was expected by {method}(), got {callback!r}")
        handle._source_traceback = traceback.extract_stack(sys._getframe(2), _DEBUG_FRAMES)

    def _arm(self, handle: TimerHandle, deadline: int) -> None:
        if deadline <= _now():
            # Timers that are already due come first.
            self._collect()
            handle._deadline = deadline
            self._due[handle] = None
            self._call_soon()
            return
        err = _add(self._c, deadline, 0, self._out)
        if err:
            fail(err)
        handle._deadline = deadline
        handle._id = self._out[0]
        self._handles[handle._id] = handle

    def _drop(self, handle: TimerHandle) -> None:
        """Removes a timer from the wheel, or from what the loop is going to call."""
        if handle._id:
            got = _del(self._c, handle._id)
            if got < 0:
                fail(got)
            del self._handles[handle._id]
            handle._id = 0
        else:
            self._due.pop(handle, None)

    def _readable(self) -> None:
        if not self.closed:
            self._collect()
            # In this turn of the loop, as asyncio calls its own timers.
            self._call_due()

    def _call_soon(self) -> None:
        if not self._soon:
            self._soon = self._loop.call_soon(self._called_soon)

    def _called_soon(self) -> None:
        self._soon = None
        self._call_due()

    def _call_due(self) -> None:
        """Calls what is due now, but nothing that becomes due meanwhile."""
        for handle in list(self._due):
            # It may have been canceled, or called by a loop that a callback ran.
            if handle not in self._due:
                continue
            del self._due[handle]
            # If this callback ends the loop by an exception, or runs it, the loop calls the others.
            if self._due:
                self._call_soon()
            handle._run()
        if self._soon and not self._due:
            self._soon.cancel()
            self._soon = None

    def _collect(self) -> None:
        """Reads what has expired."""
        due: List[TimerHandle] = []
        got = _EVENTS
        while got == _EVENTS:
            got = _read(self._c, self._events, _EVENTS)
            if got < 0:
                fail(got)
            for event in _EVENT.iter_unpack(self._bytes[:got * _EVENT.size]):
                handle = self._handles.pop(event[0], None)
                if handle:
                    due.append(handle)
        # The wheel only sorts by ticks.
        due.sort(key=_by_deadline)
        for handle in due:
            _del(self._c, handle._id)
            handle._id = 0
            self._due[handle] = None

    @property
    def closed(self) -> bool:
        """True after close()."""
        try:
            return not self._c
        except ClosedError:
            return True

    def close(self) -> None:
        """Cancels all pending callbacks and closes the wheel."""
        if self.closed:
            return
        # A forked child shares the epoll instance of its parent's loop.
        if self._pid == os.getpid() and not self._loop.is_closed():
            self._loop.remove_reader(self._wheel.fileno())
        for handle in (*self._handles.values(), *self._due):
            handle._end()
        self._handles.clear()
        self._due.clear()
        if self._soon:
            self._soon.cancel()
        del self._c
        self._wheel.close()

    def __enter__(self) -> "Timeouts":
        self._c
        return self

    def __exit__(self, exc_type: Optional[Type[BaseException]], exc: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> None:
        self.close()

    @property
    def backend(self) -> str:
        """Which wheel this is: "kernel" or "inprocess"."""
        self._c
        return self._wheel.backend

    @property
    def backend_reason(self) -> str:
        """The same as Wheel.backend_reason."""
        self._c
        return self._wheel.backend_reason

    def stats(self) -> Stats:
        """Returns the same as Wheel.stats()."""
        self._c
        return self._wheel.stats()

    def usage(self) -> Usage:
        """Returns the same as Wheel.usage()."""
        self._c
        return self._wheel.usage()

    def __len__(self) -> int:
        """Returns how many callbacks are pending."""
        return len(self._handles) + len(self._due)

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{self.backend}, {len(self)} pending"
        return f"<twheel.aio.Timeouts {state}>"
