#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""chaos.py PROGRAM [--case c1|c2] [--seconds N] [--seed N]: what crashes may do to tasks.

Four daemons serve one queue, clients put, move, replace and cancel tasks, and an endpoint
receives them. In C1 a daemon is killed each 0.7 s, or stopped for longer than its leases. In
C2 the Redis server is killed each 2 s as well. The judge joins the logs of clients and
endpoint. It knows due times only as clients were told them. Prints TAP.
"""
import argparse
import json
import os
import random
import signal
import sys
import threading
import time

options = argparse.ArgumentParser()
options.add_argument("program")
options.add_argument("--case", choices=("c1", "c2"), default="c1")
options.add_argument("--seconds", type=float, default=20)
options.add_argument("--seed", type=int, default=int(time.time()))
options = options.parse_args()
sys.argv[1:] = [options.program]

import rig  # noqa: E402
from client import Connection  # noqa: E402
from rig import Daemon, Redis, Sink, now_ms, wait_until  # noqa: E402

DAEMONS = 4
CLIENTS = 3
LEASE_MS = 6000
# A report comes within this time of the request, if nothing is killed.
REPORT_MS = 300
# After the chaos: leases end, and the tasks of killed daemons run.
SETTLE = LEASE_MS / 1000 + 8

chance = random.Random(options.seed)
# What may explain a duplicate: (from, to) in ms.
blows = []
over = threading.Event()


class Task:
    """What clients were told about one id."""

    def __init__(self):
        # Each that may stand: (due, body).
        self.versions = []
        self.told = False
        self.unknown = False
        self.excused = False
        self.cancelled_at = None


tasks = {}
counts = {"ops": 0, "unknown": 0, "refused": 0, "cancelled": 0}
lock = threading.Lock()


def call(path, method, url, body=None):
    """One request, never repeated. Return: status and JSON; None if there is no answer."""
    conn = Connection(path, timeout=15)
    try:
        conn.request(method, url, json.dumps(body) if body is not None else None,
                     {"Content-Type": "application/json"})
        answer = conn.getresponse()
        return answer.status, json.loads(answer.read().decode())
    except ConnectionRefusedError:
        return 503, {}
    except FileNotFoundError:
        return 503, {}
    except Exception:
        return None, {}
    finally:
        conn.close()


def client(number, daemons, url):
    rng = random.Random(options.seed * 10 + number)
    serial = 0
    mine = []
    base = "/v1/queues/chaos/tasks"
    while not over.is_set():
        path = rng.choice(daemons).path
        kind = rng.random()
        counts["ops"] += 1
        if not mine:
            kind = 0
        if kind < .7:
            name = f"{number}-{serial}"
            serial += 1
            task = Task()
        else:
            name = rng.choice(mine[-40:])
            task = tasks[name]
        if kind < .8 or task.cancelled_at:
            body = f"{name}/{rng.random()}"
            began = now_ms()
            due = int(began) + rng.randrange(0, 2500)
            task.versions.append((due, body))
            with lock:
                tasks[name] = task
            task.cancelled_at = None
            status, answer = call(path, "PUT", f"{base}/{name}", {
                "at": due, "callback": {"url": url}, "payload": body,
                "retry": {"limit": 10, "base": "100ms"}})
            if status in (200, 201):
                task.versions.append((answer["due"], body))
                task.told = True
                task.excused = task.unknown
                if name not in mine:
                    mine.append(name)
            elif status is None or answer.get("error", {}).get("code") == "fate_unknown":
                task.unknown = True
            else:
                counts["refused"] += 1
        elif kind < .9:
            at = int(now_ms()) + rng.randrange(0, 2000)
            body = task.versions[-1][1]
            task.versions.append((at, body))
            status, answer = call(path, "PATCH", f"{base}/{name}", {"at": at})
            if status is None:
                task.unknown = True
        else:
            # From here on it may be gone without having run.
            task.excused = True
            status, answer = call(path, "DELETE", f"{base}/{name}")
            if status == 200 and answer.get("state") in ("scheduled", "leased"):
                task.cancelled_at = now_ms()
                counts["cancelled"] += 1
            elif status is None:
                task.unknown = True
        if status is None:
            counts["unknown"] += 1
        time.sleep(rng.random() * .02)


def start(redis):
    return Daemon(redis, f"--lease={LEASE_MS}ms", "--max-lost=100", wait=False)


def restart(daemon, redis):
    """At the same socket: clients go on with it."""
    path = daemon.path
    if os.path.exists(path):
        os.unlink(path)
    new = Daemon(redis, f"--lease={LEASE_MS}ms", "--max-lost=100", wait=False)
    daemon.process = new.process
    daemon.path = new.path


def strike(daemons, redis):
    """One blow: a daemon dies, or stands still for longer than its leases."""
    victim = chance.choice([d for d in daemons if d.process.poll() is None])
    if chance.random() < .25 and not any(getattr(d, "stopped", None) for d in daemons):
        victim.process.send_signal(signal.SIGSTOP)
        victim.stopped = now_ms()
        blows.append([victim.stopped - REPORT_MS, victim.stopped + LEASE_MS + 4000])
        return
    if getattr(victim, "stopped", None):
        return
    victim.process.kill()
    victim.process.wait()
    at = now_ms()
    blows.append([at - REPORT_MS, at + 5])
    restart(victim, redis)


def chaos(daemons, redis):
    end = time.monotonic() + options.seconds
    next_redis = time.monotonic() + 2
    while time.monotonic() < end:
        time.sleep(.7)
        for d in daemons:
            if getattr(d, "stopped", None) and now_ms() > d.stopped + LEASE_MS + 1500:
                d.process.send_signal(signal.SIGCONT)
                d.stopped = None
        strike(daemons, redis)
        if options.case == "c2" and time.monotonic() > next_redis:
            at = now_ms()
            redis.kill()
            time.sleep(chance.random() * .3)
            redis.start()
            # A report that was lost is repeated, or its lease ends.
            blows.append([at - REPORT_MS, now_ms() + 2500])
            next_redis = time.monotonic() + 2
    for d in daemons:
        if getattr(d, "stopped", None):
            d.process.send_signal(signal.SIGCONT)
            d.stopped = None


def judge(received):
    """Return: a list of (sentence, culprits)."""
    runs = {}
    early, body, after, strange, lost = [], [], [], [], []
    for r in received:
        runs.setdefault(r["id"], []).append(r)
    for name, task in tasks.items():
        seen = runs.pop(name, [])
        if task.told and not seen and not task.excused:
            lost.append(f"{name}: due {task.versions}")
        by_key = {}
        for r in seen:
            text = json.loads(r["body"])
            dues = [due for due, b in task.versions if b == text]
            if not dues:
                body.append(f"{name}: {text}")
            elif r["at"] < min(dues):
                early.append(f"{name}: {min(dues) - r['at']:.1f} ms")
            by_key.setdefault(r["head"]["idempotency-key"], []).append(r["at"])
            if task.cancelled_at and r["at"] > task.cancelled_at and r["attempt"] > 0:
                after.append(f"{name}: {r['at'] - task.cancelled_at:.1f} ms after")
        for key, times in by_key.items():
            for first in times[:-1]:
                if not any(begin <= first <= end for begin, end in blows):
                    strange.append(f"{key}: at {times}")
    return [("D1: no accepted task is lost", lost),
            ("D2: no attempt begins before its due time", early),
            ("the body is one that was put", body),
            ("D8: no attempt begins after \"cancelled\"", after),
            ("D7: each duplicate has a cause", strange),
            ("what ran had been put", list(runs))]


def main():
    print(f"TAP version 13\n# {options.case}, {options.seconds:g} s, seed {options.seed}")
    redis = Redis("--appendfsync", "everysec")
    sink = Sink()
    daemons = [start(redis) for _ in range(DAEMONS)]
    wait_until(lambda: os.path.exists(daemons[0].path))
    wait_until(lambda: call(daemons[0].path, "PUT", "/v1/queues/chaos",
                            {"mode": "push", "lanes": 3})[0] in (200, 201))
    threads = [threading.Thread(target=client, args=(n, daemons, sink.url), daemon=True)
               for n in range(CLIENTS)]
    for t in threads:
        t.start()
    chaos(daemons, redis)
    over.set()
    for t in threads:
        t.join(20)
    end = time.monotonic() + SETTLE
    while time.monotonic() < end:
        status, counts_ = call(daemons[0].path, "GET", "/v1/queues/chaos")
        if status == 200 and not counts_["scheduled"] and not counts_["leased"]:
            break
        time.sleep(.2)
    received = sink.received()
    print(f"# {len(tasks)} tasks, {counts['ops']} operations, {len(blows)} blows, "
          f"{len(received)} executions")
    print(f"# unknown {counts['unknown']}, refused {counts['refused']}, "
          f"cancelled {counts['cancelled']}")
    verdicts = judge(received)
    verdicts.append(("at most 2 of 100 operations have no answer",
                     [] if counts["unknown"] <= counts["ops"] * .02 else [str(counts)]))
    verdicts.append(("there was work", [] if len(received) > 10 * options.seconds else ["none"]))
    print(f"1..{len(verdicts)}")
    failed = 0
    for n, (sentence, culprits) in enumerate(verdicts, 1):
        failed |= bool(culprits)
        print(f"{'not ' if culprits else ''}ok {n} - {options.case}: {sentence}")
        for c in culprits[:5]:
            print(f"#   {c}")
    rig.finish()
    sys.exit(failed)


if __name__ == "__main__":
    main()
