#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""C1 and C2 with daemons: four of them are killed and stopped while clients work.

  daemon_chaos.py PROGRAM [SECONDS [SEED]]

Clients put, move, replace and cancel tasks for SECONDS (30). Each 0.7 s a daemon is killed
and started anew, each 9 s one is stopped past its leases, and each 8 s Redis is killed.
Afterwards all tasks must end. The judge knows only what the clients were told:

  lost           an accepted task never ran
  early          it ran before its due time
  wrong body     it ran with a body that had been replaced before it began
  canceled       it ran after "canceled", that is 200
  unexplained    it ran twice, and no daemon was killed or stopped around the first run

A client whose connection breaks does not know what became of its request. So it asks
another daemon for the same, until it is told: a put with the same id and body, a cancel, a
move. A client of a stopped daemon waits for it, and its task with it, while others go on.
An operation that is still without an answer is unknown, and its task is judged for "early"
only. At most 2 % of the operations may be.
"""
import http.client
import json
import random
import signal
import sys
import threading
import time

SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 30
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else 1
del sys.argv[2:]

from rig import Daemon, Redis, Sink, now_ms, wait_until  # noqa: E402

LEASE = 6
# How long a client asks, and waits for one answer. Both outlive a stopped daemon.
PATIENCE = 30
# A client that waits so long for a stopped daemon begins another task meanwhile.
STALL = 0.5
UNKNOWN_MOST = 0.02
OPTIONS = (f"--lease={LEASE}s", "--max-lost=100")
chance = random.Random(SEED)
redis = Redis("--appendfsync", "always")
sink = Sink()
daemons = [Daemon(redis, *OPTIONS) for _ in range(4)]
wounds = []
stop = threading.Event()
tasks = {}
broken = []


def wound():
    wounds.append(now_ms())


def killer():
    last_redis = last_stop = time.monotonic()
    stopped = []
    while not stop.wait(0.7):
        now = time.monotonic()
        for d, at in list(stopped):
            if now > at:
                d.process.send_signal(signal.SIGCONT)
                stopped.remove((d, at))
                wound()
        n = chance.randrange(4)
        if daemons[n] in [d for d, _ in stopped]:
            continue
        wound()
        if now - last_stop > 9 and not stopped:
            last_stop = now
            daemons[n].process.send_signal(signal.SIGSTOP)
            stopped.append((daemons[n], now + LEASE + 1))
        elif now - last_redis > 8:
            last_redis = now
            redis.kill()
            time.sleep(0.2)
            redis.start()
        else:
            daemons[n].process.kill()
            daemons[n].process.wait()
            daemons[n] = Daemon(redis, *OPTIONS, wait=False)
    for d, _ in stopped:
        d.process.send_signal(signal.SIGCONT)


class Silence(Exception):
    """The request was sent, and its answer is lost."""


def ask(method, path, body=None):
    """One request of any daemon that listens. Return: status and answer."""
    end = time.monotonic() + PATIENCE
    while True:
        conn = daemons[random.randrange(4)].client(timeout=PATIENCE).conn
        try:
            conn.connect()
            break
        except OSError:
            # Nothing was sent.
            if time.monotonic() > end:
                raise Silence from None
            time.sleep(0.02)
    try:
        conn.request(method, path, None if body is None else json.dumps(body),
                     {"Content-Type": "application/json"})
        answer = conn.getresponse()
        return answer.status, json.loads(answer.read())
    except (OSError, http.client.HTTPException, ValueError):
        raise Silence from None
    finally:
        conn.close()


class Operation:
    """A request that is repeated until its fate is known, or PATIENCE ends.

    repeated is true if it may have been done more than once. answer is None if its fate is
    unknown, or else status and JSON.
    """

    def __init__(self, method, path, body=None, again=None):
        self.begun, self.repeated, self.answer = now_ms(), False, None
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                status, text = ask(method, path, body)
                if status != 503:
                    self.answer, self.end = (status, text), now_ms()
                    return
                lost = text["error"]["code"] == "fate_unknown"
            except Silence:
                lost = True
            if lost:
                broken.append(method)
                self.repeated = True
                body = again or body
            time.sleep(0.05)


class Task:
    """What a client knows of its task. Only its own thread writes to it."""

    def __init__(self, name):
        self.name, self.path = name, f"/v1/queues/c/tasks/{name}"
        self.operations, self.unknown = 0, 0
        # Of each body that was accepted: since when, until when, it may have been due when.
        self.due = {}
        # Of one that was replaced before it began: when the client was told so.
        self.replaced = {}
        self.last = self.canceled = None
        # It need not run: a cancel may have been done, or let only a running attempt go on.
        self.excused = False
        tasks[name] = self

    def __str__(self):
        return f"{self.name} {self.due}, canceled {self.canceled}"

    def operate(self, *words):
        op = Operation(*words)
        self.operations += 1
        self.unknown += op.answer is None
        return op

    def put(self, body, delay):
        first = not self.due
        spec = {"in": delay, "payload": body, "callback": {"url": sink.url + "/"},
                "retry": {"limit": 1000, "base": "100ms", "cap": "1s"}}
        op = self.operate("PUT", self.path, spec, {**spec, "if_exists": "keep"} if first else None)
        if op.answer is None:
            return
        status, answer = op.answer
        assert status in (200, 201), op.answer
        if not op.repeated and answer["result"] == "replaced" and "was" not in answer:
            self.replaced[self.last] = op.end
        # If an earlier try was done as well, it was due earlier.
        due = min(answer["due"], op.begun + delay) if op.repeated else answer["due"]
        self.due[body] = [[op.begun, float("inf"), due]]
        self.last = body

    def cancel(self):
        op = self.operate("DELETE", self.path)
        if op.answer is None:
            return
        status, _ = op.answer
        assert status in (200, 202, 404), op.answer
        if status == 200:
            self.canceled = op.end
        # 404 after an answer that was lost: it had been canceled by then, or had run.
        self.excused |= status == 202 or op.repeated

    def move(self, delay):
        op = self.operate("PATCH", self.path, {"in": delay})
        if op.answer is None:
            return
        status, answer = op.answer
        assert status in (200, 202, 404, 409), op.answer
        dues = self.due[self.last]
        if status == 200 and not op.repeated:
            dues[0][1] = op.end
            dues.append([op.begun, float("inf"), answer["due"]])
        elif status == 202 or op.repeated:
            # It was moved, or it was not.
            dues.append([op.begun, float("inf"), op.begun + delay])

    def is_early(self, run):
        """Whether it is of a body that was not due, whatever the client was not told."""
        dues = [due for since, until, due in self.due.get(int(run["body"]), [])
                if since <= run["at"] <= until]
        return dues and run["at"] < min(dues)


def live(task, rnd):
    task.put(rnd.randrange(1 << 30), rnd.choice((0, 100, 400, 1000, 3000)))
    if task.unknown:
        return
    what = rnd.random()
    if what < 0.15:
        time.sleep(rnd.random() * 0.4)
        task.cancel()
    elif what < 0.25:
        time.sleep(rnd.random() * 0.3)
        task.put(rnd.randrange(1 << 30), rnd.choice((100, 600, 1500)))
    elif what < 0.35:
        time.sleep(rnd.random() * 0.3)
        task.move(700)


def work(part):
    rnd = random.Random(SEED * 100 + part)
    lives = []
    n = 0
    while not stop.is_set():
        n += 1
        lives.append(threading.Thread(target=live, args=(Task(f"t{part}-{n}"),
                                                         random.Random(rnd.random()))))
        lives[-1].start()
        lives[-1].join(STALL)
        time.sleep(0.01)
    for t in lives:
        t.join()


def judge():
    runs = {}
    for r in sink.received():
        runs.setdefault(r["id"], []).append(r)
    count = dict.fromkeys(("lost", "early", "wrong body", "canceled", "unexplained"), 0)
    twice = 0

    def found(law, task, got):
        count[law] += 1
        print(f"# {law}: {task}, runs {[(r['at'], r['body']) for r in got]}")

    for name, task in tasks.items():
        got = runs.get(name, [])
        if any(r["at"] < int(r["head"]["twheel-scheduled-at"]) for r in got):
            found("early", task, got)
        if task.unknown:
            continue
        if any(task.is_early(r) for r in got):
            found("early", task, got)
        if task.canceled and any(r["at"] > task.canceled for r in got):
            found("canceled", task, got)
        if any(int(r["body"]) not in task.due or
               r["at"] > task.replaced.get(int(r["body"]), float("inf")) for r in got):
            found("wrong body", task, got)
        if task.canceled is None and not task.excused:
            if not got:
                found("lost", task, got)
            elif not any(int(r["body"]) == task.last for r in got):
                found("wrong body", task, got)
        same = [r for r in got if int(r["body"]) == task.last]
        for first, second in zip(same, same[1:]):
            # A move or a run after a run makes another one.
            if first["head"]["idempotency-key"] != second["head"]["idempotency-key"]:
                continue
            twice += 1
            if not any(first["at"] - 1000 * LEASE <= w <= second["at"] for w in wounds):
                found("unexplained", task, got)
    operations = sum(t.operations for t in tasks.values())
    unknown = sum(t.unknown for t in tasks.values())
    print(f"seed {SEED}: {len(tasks)} tasks, {operations} operations, {len(broken)} answers lost, "
          f"{unknown} unknown ({unknown / operations:.1%}), {len(sink.received())} runs, "
          f"{len(wounds)} wounds, {twice} ran twice")
    print(", ".join(f"{law} {n}" for law, n in count.items()))
    return not any(count.values()) and unknown <= UNKNOWN_MOST * operations


def main():
    wait_until(lambda: ask("PUT", "/v1/queues/c", {"mode": "push"})[0] in (200, 201))
    threads = [threading.Thread(target=work, args=(n,)) for n in range(10)]
    threads.append(threading.Thread(target=killer))
    for t in threads:
        t.start()
    time.sleep(SECONDS)
    stop.set()
    for t in threads:
        t.join()

    def idle():
        status, got = ask("GET", "/v1/queues/c")
        return status == 200 and not got["scheduled"] + got["leased"]
    wait_until(idle, 40, 0.2)
    time.sleep(1)
    good = judge()
    for d in daemons:
        if d.end() != 0:
            print("# a daemon did not end well:", d.text()[-1000:])
            good = False
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
