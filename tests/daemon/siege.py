# SPDX-License-Identifier: GPL-2.0
"""Clients of daemons that are under attack, and a judge of what became of their tasks.

Clients put, move, replace and cancel tasks, while an attack kills and stops daemons and Redis
servers. Afterwards all tasks must end. The judge knows only what the clients were told:

  lost           an accepted task never ran
  early          it ran before its due time
  wrong body     it ran with a body that had been replaced before it began
  canceled       it ran after its cancel was answered with 200
  unexplained    it ran twice, and nothing happened to the daemon or the report of the first run
  run lost       a time in a schedule's calendar had no run
  run made twice a time had two tasks, a run matches no time, or it began too early

A client whose connection breaks does not know what became of its request. So it sends the same
put, cancel or move to another daemon until it gets an answer. A client of a stopped daemon
waits for it, and its task with it, while others go on. An operation that never gets an answer
is unknown, and its task is judged only for "early" and "unexplained". If more than
MAX_UNKNOWN_RATIO of the operations are unknown, too little was judged.

Each daemon signs with its own secret, so the signature of a run identifies its daemon.
Siege.cause() lists the permitted causes of a duplicate.
"""
import base64
import hashlib
import hmac
import http.client
import json
import os
import random
import signal
import sys
import threading
import time

from rig import Sink, dir_, now_ms, wait_until

CLIENTS = 10
MAX_UNKNOWN_RATIO = 0.02
# How long a client repeats a request, and waits for one answer. Both outlast a stopped daemon.
RETRY_SECONDS = 30
# A client that waits this long for a stopped daemon starts another task meanwhile.
STALL = 0.5
# Some attempts take this long, in ms, so that an outage overlaps them more often.
SLOW = 300
# The default of "ahead", in ms.
AHEAD = 500
# The maximum delay, in ms, until the sink logs a run or a daemon reports it on a busy machine.
SLACK = 300
# The maximum delay, in ms, from the start of its outage until a daemon stops.
STOP = 20
# How long after its return, in ms, Redis has received the reports that waited for it.
RETURN = 2000
LAWS = ("lost", "early", "wrong body", "canceled", "unexplained", "run lost", "run made twice")
INFINITE = float("inf")
# Periods of schedules, in ms.
PERIODS = (1000, 1000, 1500, 2000, 3000, 7000)
# Schedules end this long before the end of the siege, in ms.
REST = 1500


class NoAnswer(Exception):
    """The request was sent, but its answer is lost."""


class Outage:
    """A time in which a daemon does not work, or a Redis server if daemon is None.

    loses: the lanes whose last writes it may undo.
    """

    def __init__(self, daemon=None, loses=()):
        self.daemon, self.loses = daemon, loses
        self.begin, self.end = now_ms(), INFINITE

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end = now_ms()

    def overlaps(self, begin, end):
        return self.begin <= end and self.end >= begin


class Operation:
    """A request that is repeated until its fate is known, or RETRY_SECONDS are over.

    repeated is true if it may have been done more than once. answer is (status, JSON), or None
    if its fate is unknown.
    """

    def __init__(self, siege, method, path, body=None, again=None):
        self.begun, self.repeated, self.answer = now_ms(), False, None
        end = time.monotonic() + RETRY_SECONDS
        while time.monotonic() < end:
            try:
                status, text = siege.ask(method, path, body)
                if status != 503:
                    self.answer, self.end = (status, text), now_ms()
                    return
                lost = text["error"]["code"] == "fate_unknown"
            except NoAnswer:
                lost = True
            if lost:
                siege.unanswered.append(method)
                self.repeated = True
                body = again or body
            time.sleep(0.05)

    def earliest(self, delay):
        """Return: the earliest due time of a task. Redis counts from the start of its
        millisecond."""
        return int(self.begun) + delay


class Task:
    """What a client knows of its task. Only its own thread writes to it."""

    def __init__(self, siege, name):
        self.siege, self.name, self.path = siege, name, f"/v1/queues/c/tasks/{name}"
        self.operations, self.unknown = 0, 0
        # For each accepted body: (since, until, due) tuples of when the task may have been due
        # at which time.
        self.due = {}
        # For a body that was replaced before it began: when the client was told so.
        self.replaced = {}
        self.last = self.canceled = None
        # True if the task need not run: a cancel may have been carried out, or may have
        # allowed only a running attempt to finish.
        self.excused = False
        siege.tasks[name] = self

    def __str__(self):
        return f"{self.name} {self.due}, canceled {self.canceled}"

    def operate(self, *words):
        op = Operation(self.siege, *words)
        self.operations += 1
        self.unknown += op.answer is None
        return op

    def put(self, body, delay):
        first = not self.due
        path = f"/slow/{SLOW}" if body % 3 == 0 else "/"
        spec = {"in_ms": delay, "payload": body, "callback": {"url": self.siege.sink.url + path},
                "retry": {"limit": 1000, "base": "100ms", "cap": "1s"}}
        op = self.operate("PUT", self.path, spec, {**spec, "if_exists": "keep"} if first else None)
        if op.answer is None:
            return
        status, answer = op.answer
        assert status in (200, 201), op.answer
        if not op.repeated and answer["result"] == "replaced" and "was" not in answer:
            self.replaced[self.last] = op.end
        # If an earlier try was carried out too, the task was due earlier.
        due = min(answer["due"], op.earliest(delay)) if op.repeated else answer["due"]
        self.due[body] = [[op.begun, INFINITE, due]]
        self.last = body

    def cancel(self):
        op = self.operate("DELETE", self.path)
        if op.answer is None:
            return
        status, _ = op.answer
        assert status in (200, 202, 404), op.answer
        if status == 200:
            self.canceled = op.end
        # 404 after an answer that was lost: the task had been canceled by then, or had run.
        self.excused |= status == 202 or op.repeated

    def move(self, delay):
        op = self.operate("PATCH", self.path, {"in_ms": delay})
        if op.answer is None:
            return
        status, answer = op.answer
        assert status in (200, 202, 404, 409), op.answer
        dues = self.due[self.last]
        if status == 200 and not op.repeated:
            dues[0][1] = op.end
            dues.append([op.begun, INFINITE, answer["due"]])
        elif status == 202 or op.repeated:
            # Either it was moved or it was not.
            dues.append([op.begun, INFINITE, op.earliest(delay)])

    def live(self, rnd):
        self.put(rnd.randrange(1 << 30), rnd.choice((0, 100, 400, 1000, 3000)))
        if self.unknown:
            return
        what = rnd.random()
        if what < 0.15:
            time.sleep(rnd.random() * 0.4)
            self.cancel()
        elif what < 0.25:
            time.sleep(rnd.random() * 0.3)
            self.put(rnd.randrange(1 << 30), rnd.choice((100, 600, 1500)))
        elif what < 0.35:
            time.sleep(rnd.random() * 0.3)
            self.move(700)

    # ---- The judge ----

    def is_early(self, run):
        """Return: whether a run is of a body that was not due yet, whatever the client was not
        told."""
        if run["at"] < int(run["head"]["twheel-scheduled-at"]):
            return True
        dues = [due for since, until, due in self.due.get(int(run["body"]), [])
                if since <= run["at"] <= until]
        return not self.unknown and dues and run["at"] < min(dues)

    def broken_laws(self, runs):
        if any(self.is_early(r) for r in runs):
            yield "early"
        if self.unknown:
            return
        if self.canceled and any(r["at"] > self.canceled for r in runs):
            yield "canceled"
        if any(int(r["body"]) not in self.due or
               r["at"] > self.replaced.get(int(r["body"]), INFINITE) for r in runs):
            yield "wrong body"
        if self.canceled is None and not self.excused:
            if not runs:
                yield "lost"
            elif not any(int(r["body"]) == self.last for r in runs):
                yield "wrong body"


class Schedule:
    """A schedule that clients define again and again. Its calendar alone determines its runs:
    each multiple of its period from its start to its end."""

    def __init__(self, siege, name, period, start, end):
        self.siege, self.name = siege, name
        self.calendar = set(range(start, end + 1, period))
        self.spec = {"every_ms": period, "start": start, "end": end, "missed": "all",
                     "missed_limit": 1000, "task": {
                         "callback": {"url": siege.sink.url + "/"}, "payload": 1,
                         "retry": {"limit": 1000, "base": "100ms", "cap": "1s"}}}

    def define(self):
        op = Operation(self.siege, "PUT", f"/v1/queues/c/schedules/{self.name}", self.spec)
        assert op.answer is None or op.answer[0] in (200, 201), op.answer

    def keep_defining(self):
        while not self.siege.stop.wait(0.3):
            self.define()

    def broken_laws(self, runs):
        """Yield each broken law and what broke it. runs: the runs of all tasks, by their ids."""
        times = {int(i.split(":")[1]): got for i, got in runs.items()
                 if i.startswith(self.name + ":")}
        for at in sorted(self.calendar - set(times)):
            yield "run lost", at
        for at, got in times.items():
            # All attempts of one task have the same key.
            keys = {r["head"]["idempotency-key"] for r in got}
            if at not in self.calendar or len(keys) > 1 or any(r["at"] < at for r in got):
                yield "run made twice", (at, sorted(keys), [r["at"] for r in got])


def fnv32(text):
    """The hash in task.c that chooses the lane of a task."""
    value = 2166136261
    for c in text.encode():
        value = (value ^ c) * 16777619 & 0xffffffff
    return value


def took(run):
    return SLOW if run["path"] != "/" else 0


def duplicates(runs):
    """Yield pairs of runs of the same task. A move or a put after a run starts a new run, with
    another key."""
    same = {}
    for r in runs:
        same.setdefault((r["head"]["idempotency-key"], r["body"]), []).append(r)
    for group in same.values():
        yield from zip(group, group[1:])


class Siege:
    """start: makes a daemon with the given options. lease: the lease of a task, in seconds."""

    def __init__(self, seed, lease, start, daemons=4, lanes=None, schedules=False):
        self.seed, self.lease, self.start = seed, lease, start
        self.has_schedules, self.schedules = schedules, []
        self.chance = random.Random(seed)
        self.lanes = lanes
        self.sink = Sink()
        # (daemon, its secret), including dead daemons.
        self.secrets = []
        self.daemons = [self.new_daemon() for _ in range(daemons)]
        self.tasks, self.outages, self.unanswered = {}, [], []
        self.stop = threading.Event()
        self.broken = None

    # ---- The attack's actions ----

    def new_daemon(self):
        path = os.path.join(dir_, f"secret{len(self.secrets)}")
        secret = os.urandom(32)
        with open(path, "w") as f:
            f.write(f"whsec_{base64.b64encode(secret).decode()}\n")
        d = self.start(f"--secret-file={path}")
        self.secrets.append((d, secret))
        return d

    def outage(self, daemon=None, loses=()):
        w = Outage(daemon, loses)
        self.outages.append(w)
        return w

    def kill_daemon(self, n):
        with self.outage(self.daemons[n]):
            self.daemons[n].process.kill()
            self.daemons[n].process.wait()
        self.daemons[n] = self.new_daemon()

    def stop_daemon(self, n):
        """Return: the outage, for go_on()."""
        w = self.outage(self.daemons[n])
        w.daemon.process.send_signal(signal.SIGSTOP)
        return w

    def go_on(self, outage):
        with outage:
            outage.daemon.process.send_signal(signal.SIGCONT)

    # ---- Clients ----

    def ask(self, method, path, body=None):
        """Send one request to any daemon that listens. Return: status and answer."""
        end = time.monotonic() + RETRY_SECONDS
        while True:
            conn = random.choice(self.daemons).client(timeout=RETRY_SECONDS).conn
            try:
                conn.connect()
                break
            except OSError:
                # Nothing was sent.
                if time.monotonic() > end:
                    raise NoAnswer from None
                time.sleep(0.02)
        try:
            conn.request(method, path, None if body is None else json.dumps(body),
                         {"Content-Type": "application/json"})
            answer = conn.getresponse()
            return answer.status, json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError):
            raise NoAnswer from None
        finally:
            conn.close()

    def work(self, part):
        rnd = random.Random(self.seed * 100 + part)
        lives = []
        while not self.stop.is_set():
            task = Task(self, f"t{part}-{len(lives) + 1}")
            lives.append(threading.Thread(target=self.guard,
                                          args=(task.live, random.Random(rnd.random()))))
            lives[-1].start()
            lives[-1].join(STALL)
            time.sleep(0.01)
        for t in lives:
            t.join()

    # ---- The judge ----

    def runner(self, run):
        """Return: the daemon that signed the run."""
        head = run["head"]
        text = f"{head['webhook-id']}.{head['webhook-timestamp']}.{run['body']}".encode()
        signature = head["webhook-signature"].removeprefix("v1,")
        return next(d for d, secret in self.secrets if signature == base64.b64encode(
            hmac.digest(secret, text, hashlib.sha256)).decode())

    def lane(self, run):
        return fnv32(run["id"]) % (self.lanes or 1)

    def report_time(self, run):
        """Return: until when Redis has received a run's report, if nothing happens to its
        daemon."""
        end = run["at"] + took(run) + SLACK
        for w in self.outages:
            if not w.daemon and w.overlaps(run["at"], end):
                end = max(end, w.end + RETURN)
        return end

    def cause(self, first, second):
        """Return: why a task ran a second time, or None."""
        end = self.report_time(first)
        lane = self.lane(first)
        who, again = self.runner(first), self.runner(second)
        due = int(second["head"]["twheel-scheduled-at"])
        for w in self.outages:
            if w.daemon is who and w.overlaps(first["at"] - SLACK, end):
                return "its daemon was killed or stopped"
            # The kill has undone the lease or the report.
            if lane in w.loses and w.overlaps(first["at"] - AHEAD - SLACK, end):
                return "its master was killed"
            # The daemon was stopped after it checked the lease and before it sent the request.
            if w.daemon is again and due <= w.begin + STOP and \
                    w.end - SLACK <= second["at"] <= w.end + SLACK and \
                    w.end - w.begin > 1000 * self.lease:
                return "the second one had begun before its daemon was stopped"
        if end > first["at"] + 1000 * self.lease:
            return "Redis was away until the lease had ended"
        return None

    def story(self, first, second):
        """Describe what happened around two runs. Times are in ms after the first."""
        text = (f"attempts {first['attempt']} and {second['attempt']}, "
                f"{second['at'] - first['at']:.0f} ms apart, lane {self.lane(first)}, by "
                f"{os.path.basename(self.runner(first).path)} and "
                f"{os.path.basename(self.runner(second).path)}")
        for w in self.outages:
            if w.overlaps(first["at"] - 1000 * self.lease, second["at"]):
                who = (os.path.basename(w.daemon.path) if w.daemon else
                       f"Redis with lanes {[*w.loses]}")
                text += (f"; {w.begin - first['at']:.0f} to {w.end - first['at']:.0f} "
                         f"{who}")
        return text

    def judge(self):
        runs = {}
        received = self.sink.received()
        for r in received:
            runs.setdefault(r["id"], []).append(r)
        count, causes = dict.fromkeys(LAWS, 0), {}

        def found(law, task, text):
            count[law] += 1
            print(f"# {law}: {task}, {text}")

        for name, task in self.tasks.items():
            got = runs.get(name, [])
            for law in task.broken_laws(got):
                found(law, task, f"runs {[(r['at'], r['body']) for r in got]}")
            for first, second in duplicates(got):
                cause = self.cause(first, second)
                if cause:
                    causes[cause] = causes.get(cause, 0) + 1
                else:
                    found("unexplained", task, self.story(first, second))
        for schedule in self.schedules:
            for law, text in schedule.broken_laws(runs):
                found(law, schedule.name, text)
            for name in runs:
                if name.startswith(schedule.name + ":"):
                    for first, second in duplicates(runs[name]):
                        if not self.cause(first, second):
                            found("unexplained", name, self.story(first, second))
        operations = sum(t.operations for t in self.tasks.values())
        unknown = sum(t.unknown for t in self.tasks.values())
        print(f"seed {self.seed}: {len(self.tasks)} tasks, {operations} operations, "
              f"{len(self.unanswered)} answers lost, {unknown} unknown "
              f"({unknown / operations:.1%}), {len(received)} runs, {len(self.outages)} outages")
        if self.schedules:
            print(f"{len(self.schedules)} schedules with "
                  f"{sum(len(s.calendar) for s in self.schedules)} moments")
        for cause, n in causes.items():
            print(f"{n} ran twice: {cause}")
        print(", ".join(f"{law} {n}" for law, n in count.items()), flush=True)
        return not any(count.values()) and unknown <= MAX_UNKNOWN_RATIO * operations

    # ---- The whole siege ----

    def guard(self, what, *words):
        try:
            what(*words)
        except BaseException as e:
            self.broken = e
            self.stop.set()
            raise

    def is_idle(self):
        try:
            status, got = self.ask("GET", "/v1/queues/c")
        except NoAnswer:
            return False
        return status == 200 and not got["scheduled"] + got["leased"]

    def run(self, seconds, attack):
        """attack: called with this object; it acts until stop is set. Return: whether all is
        well."""
        settings = {"mode": "push", **({"lanes": self.lanes} if self.lanes else {})}
        wait_until(lambda: self.ask("PUT", "/v1/queues/c", settings)[0] in (200, 201))
        if self.has_schedules:
            start = int(now_ms()) + 1000
            self.schedules = [Schedule(self, f"s{n}", period, start + 100 * n,
                                       start + int(1000 * seconds) - REST)
                              for n, period in enumerate(PERIODS)]
        threads = [threading.Thread(target=self.work, args=(n,)) for n in range(CLIENTS)]
        for s in self.schedules:
            s.define()
            threads.append(threading.Thread(target=self.guard, args=(s.keep_defining,)))
        threads.append(threading.Thread(target=self.guard, args=(attack, self)))
        for t in threads:
            t.start()
        self.stop.wait(seconds)
        self.stop.set()
        for t in threads:
            t.join()
        try:
            wait_until(self.is_idle, step=0.2)
        except AssertionError:
            print("# tasks are left:", self.ask("GET", "/v1/queues/c"))
            self.broken = True
        time.sleep(1)
        good = self.judge() and not self.broken
        for d in self.daemons:
            if d.end() != 0:
                print("# a daemon did not end well:", d.text()[-1000:])
                good = False
        return good


def arguments(seconds=30):
    """Parse PROGRAM [SECONDS [SEED]]. Return: seconds, seed. The rig has already read PROGRAM."""
    return (float(sys.argv[2]) if len(sys.argv) > 2 else seconds,
            int(sys.argv[3]) if len(sys.argv) > 3 else 1)
