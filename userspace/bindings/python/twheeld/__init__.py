# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
"""A client of twheeld: tasks, schedules and workers. It only needs the standard library.

    client = twheeld.Client()           # TWHEELD and TWHEELD_TOKEN name the daemon and the token
    client.put("mail", id="hello", delay=3, url="http://127.0.0.1:8000/")
    client.work("jobs", handle)         # calls handle(task) for each task that is due

Durations are in seconds, and times are Unix milliseconds or datetimes with a time zone. If
twheeld refuses a request, this raises an Error with the message of twheeld. If twheeld cannot be
reached, or answers 429 or 503, the request is repeated with a growing delay until the deadline of
the client has passed. A request whose fate is unknown, for example after 502 or 504 of a proxy, is
repeated as well, except for those that might then be done twice: a put with if_exists "fail", and
a run of a schedule. Several threads may use a client at the same time.
"""
import base64
import datetime
import http.client
import json
import os
import random
import socket
import ssl
import threading
import time
import urllib.parse
import uuid
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterable, List, Optional, Sequence, TypedDict, Union, cast

__all__ = ["Client", "Dead", "Error", "Put", "Retry", "Task", "Unavailable", "task"]

Json = Dict[str, Any]
Time = Union[int, datetime.datetime]

# Delays between repetitions, in seconds: the first one, and the longest.
_PAUSE, _PAUSE_MAX = 0.1, 5.0
_BATCH = 1000
# Errors of one task of a batch after which it is worth trying again.
_PASSING = ("store_down", "store_full", "busy", "stopping", "queue_full", "fate_unknown")


class Error(Exception):
    """An error that twheeld has reported. The status is 0 if it did not answer, and for a single
    task of a batch."""

    def __init__(self, status: int, code: str, message: str, culprit: Optional[str] = None):
        super().__init__(f"{culprit}: {message}" if culprit else message)
        self.status, self.code, self.message, self.field = status, code, message, culprit
        self.repeated = False           # the fate of an earlier try is unknown


class Unavailable(Error):
    """The deadline passed. With the code "fate_unknown", the request may have been done."""


class Dead(Exception):
    """Raised by a handler if the task should get no further attempt."""


class Retry(Exception):
    """Raised by a handler to begin the next attempt after this many seconds."""

    def __init__(self, delay: float, reason: str = ""):
        super().__init__(reason or f"again in {delay} s")
        self.delay = delay


class _PutBase(TypedDict):
    id: str
    state: str
    due: int
    version: int
    result: str


class Put(_PutBase, total=False):
    """The result for a task: created, replaced, updated, kept, moved or replayed."""
    was: str


@dataclass
class Task:
    """A task that a worker has reserved. Its key is equal for all attempts of a run."""
    queue: str
    id: str
    token: str
    key: str
    version: int
    attempt: int
    first_due: int
    payload: Any = None
    lost: threading.Event = field(default_factory=threading.Event)  # others may have it by now


def _duration(seconds: Optional[float]) -> Optional[str]:
    return None if seconds is None else f"{round(seconds * 1000)}ms"


def _time(when: Optional[Time]) -> Union[int, str, None]:
    if isinstance(when, datetime.datetime):
        if when.tzinfo is None:
            raise ValueError("a time needs a time zone")
        return when.isoformat()
    return when


def _present(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def task(*, id: Optional[str] = None, at: Optional[Time] = None, delay: Optional[float] = None,
         every: Optional[float] = None, if_exists: Optional[str] = None,
         url: Optional[str] = None, method: Optional[str] = None,
         headers: Optional[Dict[str, str]] = None, payload: Any = None,
         retry: Optional[Json] = None, timeout: Optional[float] = None,
         late: Optional[Json] = None, keep: Optional[float] = None) -> Json:
    """The fields of a task, for put_all() or for the template of a schedule. A payload of bytes
    is stored as it is, any other one as JSON. openapi.yaml describes "retry" and "late"."""
    is_bytes = isinstance(payload, bytes)
    callback = _present({"url": url, "method": method, "headers": headers})
    return _present({
        "id": id, "at": _time(at), "in": _duration(delay), "every": _duration(every),
        "if_exists": if_exists, "callback": callback or None,
        "payload": None if is_bytes else payload,
        "payload_base64": base64.b64encode(payload).decode() if is_bytes else None,
        "retry": retry, "timeout": _duration(timeout), "late": late, "keep": _duration(keep)})


def _named(fields: Json) -> Json:
    """Gives the task an id, so that the request can be repeated safely."""
    return fields if "id" in fields else {**fields, "id": uuid.uuid4().hex, "if_exists": "keep"}


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Client:
    """A client of the daemon at "unix:/PATH", "HOST:PORT" or a URL with http or https."""

    def __init__(self, server: Optional[str] = None, token: Optional[str] = None, *,
                 deadline: float = 30.0, timeout: float = 30.0,
                 context: Optional[ssl.SSLContext] = None):
        name: str = server or os.environ.get("TWHEELD") or "127.0.0.1:7733"
        self._unix = name[5:] if name.startswith("unix:") else None
        url = urllib.parse.urlsplit(name if "://" in name else "http://" + name)
        if self._unix is None and (url.scheme not in ("http", "https") or not url.hostname):
            raise ValueError(f"{name}: not unix:PATH, HOST:PORT or a URL of http or https")
        self._tls, self._host, self._port = url.scheme == "https", url.hostname or "", url.port
        self._token = token or os.environ.get("TWHEELD_TOKEN")
        self._context, self._local = context, threading.local()
        self.deadline, self.timeout = deadline, timeout

    def _connect(self, timeout: float) -> http.client.HTTPConnection:
        if self._unix is not None:
            conn: http.client.HTTPConnection = _Unix(self._unix, timeout)
        elif self._tls:
            conn = http.client.HTTPSConnection(self._host, self._port, timeout=timeout,
                                               context=self._context)
        else:
            conn = http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        try:
            conn.connect()
        except OSError as error:
            raise Unavailable(0, "unreachable", f"twheeld cannot be reached: {error}") from error
        return conn

    def _once(self, method: str, path: str, data: Optional[bytes], fresh: bool,
              timeout: float) -> Json:
        head = {"Content-Type": "application/json"}
        if self._token:
            head["Authorization"] = "Bearer " + self._token
        # A kept connection might be closed right now, which would leave the fate unknown.
        conn = None if fresh else getattr(self._local, "conn", None)
        self._local.conn = None
        conn = conn or self._connect(timeout)
        try:
            if conn.sock:
                conn.sock.settimeout(timeout)
            conn.request(method, path, data, head)
            answer = conn.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as error:
            conn.close()
            raise Unavailable(0, "fate_unknown", f"no answer: {error!r}") from error
        if conn.sock:                   # not closed by "Connection: close"
            self._local.conn = conn
        try:
            body = json.loads(text)
            if answer.status < 400 and isinstance(body, dict):
                return body
            words = body["error"]
            known = (words["code"], words["message"], words.get("field"))
        except (ValueError, KeyError, TypeError):
            # With 502 or 504, a proxy got no answer.
            known = ("fate_unknown" if answer.status in (502, 504) else "internal",
                     f"HTTP {answer.status}, and not by twheeld", None)
        kind = Unavailable if answer.status in (429, 503) or known[0] == "fate_unknown" else Error
        why = kind(answer.status, *known)
        why.__dict__["after"] = answer.headers.get("Retry-After", "")
        raise why

    def call(self, method: str, path: str, body: Optional[Json] = None, *, repeat: bool = True,
             wait: float = 0.0, within: float = float("inf")) -> Json:
        """Sends a request to a path behind /v1/queues, and repeats it as the module describes. If
        "repeat" is false, it repeats only requests that twheeld has certainly not carried out.
        "wait" extends the timeout, for a daemon that waits for tasks before it answers. "within"
        limits the deadline and the timeout of the client."""
        end = time.monotonic() + min(self.deadline, within)
        data = None if body is None else json.dumps(body, allow_nan=False).encode()
        pause, unknown = _PAUSE, False
        while True:
            try:
                return self._once(method, "/v1/queues" + path, data, not repeat,
                                  min(self.timeout, within) + wait)
            except Error as error:
                error.repeated = unknown
                unknown = unknown or error.code == "fate_unknown"
                after = str(getattr(error, "after", ""))
                delay = max(pause * (1 + random.random()), int(after) if after.isdigit() else 0)
                if (not isinstance(error, Unavailable) or time.monotonic() + delay > end
                        or (error.code == "fate_unknown" and not repeat)):
                    raise
            time.sleep(delay)
            pause = min(2 * pause, _PAUSE_MAX)

    # Queues and tasks

    def make_queue(self, queue: str, **settings: Any) -> Json:
        """Makes a queue, or changes its settings: mode="pull", for example."""
        return self.call("PUT", _path(queue), settings)

    def put(self, queue: str, **fields: Any) -> Put:
        """Makes a task from the fields that task() takes. A task without an id gets one here, so
        that it is only made once. If there already is a task with the id, it is replaced by
        default, so if a request of unknown fate is repeated, the task may run again. Use
        if_exists="keep" to prevent that."""
        item = _named(task(**fields))
        answer = self.call("POST", _path(queue, "tasks"), item,
                           repeat=item.get("if_exists") != "fail")
        return cast(Put, answer)

    def put_all(self, queue: str, tasks: Iterable[Json]) -> List[Union[Put, Error]]:
        """Makes many tasks. Returns the result for each, in the same order."""
        items = [_named(item) for item in tasks]
        results: Dict[int, Union[Put, Error]] = {}
        left, pause, end = list(range(len(items))), _PAUSE, time.monotonic() + self.deadline
        while left:
            for at in range(0, len(left), _BATCH):
                part = left[at:at + _BATCH]
                sure = all(items[n].get("if_exists") != "fail" for n in part)
                answer = self.call("POST", _path(queue, "tasks"),
                                   {"tasks": [items[n] for n in part]}, repeat=sure)
                for n, one in zip(part, answer["tasks"]):
                    results[n] = one if "error" not in one else Error(
                        0, one["error"]["code"], one["error"]["message"],
                        one["error"].get("field"))
            left = [n for n in left if _again(results[n], items[n])]
            if time.monotonic() + pause > end:
                break
            if left:
                time.sleep(pause)
            pause = min(2 * pause, _PAUSE_MAX)
        return [results[n] for n in range(len(items))]

    def get(self, queue: str, id: str) -> Json:
        """Reads a task: state, times, attempts, last error, callback, payload."""
        return self.call("GET", _path(queue, "tasks", id))

    def cancel(self, queue: str, id: str) -> str:
        """Cancels a task, and returns the state that it was in. If that was "leased", an attempt
        that has begun continues and is the last one. Otherwise no attempt begins any more."""
        return str(self.call("DELETE", _path(queue, "tasks", id))["state"])

    def move(self, queue: str, id: str, *, at: Optional[Time] = None,
             delay: Optional[float] = None) -> Json:
        """Gives a task another due time."""
        return self.call("PATCH", _path(queue, "tasks", id),
                         _present({"at": _time(at), "in": _duration(delay)}))

    def replay(self, queue: str, id: str) -> Json:
        """Schedules a dead task again."""
        return self.call("POST", _path(queue, "tasks", id, "replay"), {})

    # Schedules: openapi.yaml describes the fields of a definition

    def put_schedule(self, queue: str, name: str, definition: Json) -> Json:
        """Makes a schedule, or replaces its definition. Putting the same one changes nothing."""
        return self.call("PUT", _path(queue, "schedules", name), definition)

    def patch_schedule(self, queue: str, name: str, changes: Json) -> Json:
        """Changes fields of a schedule; None removes one."""
        return self.call("PATCH", _path(queue, "schedules", name), changes)

    def schedules(self, queue: str) -> List[Json]:
        """Returns all schedules of a queue, sorted by name."""
        found: List[Json] = []
        cursor = ""
        while True:
            answer = self.call("GET", _path(queue, "schedules") + "?limit=1000" + cursor)
            found += answer["schedules"]
            if "cursor" not in answer:
                return found
            cursor = "&cursor=" + urllib.parse.quote(answer["cursor"], safe="")

    def get_schedule(self, queue: str, name: str) -> Json:
        """Reads a schedule."""
        return self.call("GET", _path(queue, "schedules", name))

    def delete_schedule(self, queue: str, name: str) -> Json:
        """Removes a schedule and the task of its next run."""
        return self.call("DELETE", _path(queue, "schedules", name))

    def next_runs(self, queue: str, name: str, count: int = 10) -> List[Json]:
        """Returns the next runs, each with the id of its task, "at" and "due"."""
        path = _path(queue, "schedules", name, "next")
        return list(self.call("GET", f"{path}?n={count}")["next"])

    def run_schedule(self, queue: str, name: str) -> Json:
        """Makes an additional run of a schedule now. Returns its task."""
        return self.call("POST", _path(queue, "schedules", name, "run"), {}, repeat=False)

    def enable_schedule(self, queue: str, name: str, enabled: bool = True) -> Json:
        """Enables or disables a schedule."""
        return self.call("POST", _path(queue, "schedules", name,
                                       "enable" if enabled else "disable"), {})

    # Workers

    def reserve(self, queue: str, *, limit: int = 1, lease: float = 30.0,
                wait: float = 20.0) -> List[Task]:
        """Reserves up to limit tasks that are due. Waits for the first; may return none."""
        answer = self.call("POST", _path(queue, "reserve"), {
            "limit": limit, "lease": _duration(lease), "wait": _duration(wait)}, wait=wait)
        return [_reserved(queue, item) for item in answer["tasks"]]

    def _report(self, verb: str, one: Task, within: float = float("inf"), **more: Any) -> bool:
        item = _present({"id": one.id, "token": one.token, **more})
        try:
            self.call("POST", _path(one.queue, verb), {"tasks": [item]}, within=within)
        except Error as error:
            if error.status != 410:
                raise
            # If an earlier report had an unknown fate, it was applied, which made this one stale.
            return error.repeated and verb != "extend"
        return True

    def ack(self, one: Task) -> bool:
        """Reports success. Returns False if the lease had ended, so the task may run again."""
        return self._report("ack", one)

    def nack(self, one: Task, error: str = "", *, delay: Optional[float] = None,
             dead: bool = False) -> bool:
        """Reports failure. Without a delay, the retry settings of the task decide."""
        return self._report("nack", one, error=_printable(error), delay=_duration(delay),
                            dead=dead or None)

    def extend(self, one: Task, lease: float) -> bool:
        """Renews the lease from now on."""
        return self._report("extend", one, lease=_duration(lease))

    def release(self, one: Task, delay: Optional[float] = None) -> bool:
        """Gives a task back without using up an attempt."""
        return self._report("release", one, delay=_duration(delay))

    def _heartbeat(self, one: Task, lease: float, done: threading.Event) -> None:
        ends = time.monotonic() + lease
        while not done.wait(max(0.0, min(lease / 3, ends - time.monotonic()))):
            asked = time.monotonic()
            try:
                if asked >= ends or not self._report("extend", one, ends - asked,
                                                     lease=_duration(lease)):
                    one.lost.set()
                    return
                ends = asked + lease
            except Error:
                pass                    # the next one may still be in time

    def work(self, queue: str, handle: Callable[[Task], object], *, lease: float = 30.0,
             wait: float = 20.0, stop: Optional[threading.Event] = None) -> None:
        """Passes each task to handle() until stop is set, and extends its lease in the meantime. A
        task whose handler raises an exception is repeated, and Dead and Retry control how. An
        outage of twheeld does not end this."""
        stop = stop or threading.Event()
        while not stop.is_set():
            try:
                for one in self.reserve(queue, lease=lease, wait=wait):
                    self._handle(one, handle, lease)
            except Unavailable:
                stop.wait(_PAUSE)

    def _handle(self, one: Task, handle: Callable[[Task], object], lease: float) -> None:
        done = threading.Event()
        threading.Thread(target=self._heartbeat, args=(one, lease, done), daemon=True).start()
        failed: Optional[Exception] = None
        try:
            handle(one)
        except Exception as error:  # pylint: disable=broad-except
            failed = error
        except BaseException:
            done.set()
            self.release(one)
            raise
        done.set()
        if failed is None:
            self.ack(one)
        else:
            self.nack(one, str(failed) or type(failed).__name__, dead=isinstance(failed, Dead),
                      delay=failed.delay if isinstance(failed, Retry) else None)


def _printable(text: str) -> str:
    """Replaces the characters that JSON or twheeld would refuse: half a surrogate pair, and NUL."""
    return text.encode(errors="replace").decode().replace("\0", "?")


def _path(*words: str) -> str:
    return "".join("/" + urllib.parse.quote(word, safe="") for word in words)


def _again(result: Union[Put, Error], item: Json) -> bool:
    return isinstance(result, Error) and result.code in _PASSING and not (
        result.code == "fate_unknown" and item.get("if_exists") == "fail")


def _reserved(queue: str, item: Json) -> Task:
    payload = item.get("payload")
    if "payload_base64" in item:
        payload = base64.b64decode(item["payload_base64"])
    return Task(queue, payload=payload,
                **{name: item[name] for name in ("id", "token", "key", "version", "attempt",
                                                 "first_due")})
