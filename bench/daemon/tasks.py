#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Measures the targets B1 to B13 of twheeld, beside BullMQ, minute slices and a bare timerfd.

  tasks.py PROGRAM LOAD NODE_MODULES [--rounds N] [--tasks N] [--many N] [--only B1,B2,...]

All use the same Redis, and each round measures all cases. At the end, this prints a table of
medians, and exits with status 1 if a target is missed. Minute slices are the design of slices.c.

The lateness is the time from the due time, which the client chose,

  pull       until the worker comes to the task in the answer that it has read
  callbacks  until the endpoint has read the first byte of the request
  BullMQ     until the first line of the handler
  timerfd    until read() has returned and the program comes to the task

The first two are later than the moment when the daemon begins the attempt, because they
include HTTP between the daemon and the other process.
"""
import argparse
import statistics
import sys

from cases import LEASE_MS, Bench, Wrong

ROUNDS = 5
TASKS = 10000
MANY = 1000000
# The number of tasks per second that another process puts.
RATE = 4000
# The rate of callbacks is measured with this many times more tasks.
CALLBACKS = 3


def options():
    p = argparse.ArgumentParser()
    for name in ("program", "load", "modules"):
        p.add_argument(name)
    p.add_argument("--rounds", type=int, default=ROUNDS)
    p.add_argument("--tasks", type=int, default=TASKS)
    p.add_argument("--many", type=int, default=MANY)
    p.add_argument("--only", type=lambda s: s.split(","), default=[])
    return p.parse_args()


# ---- The measurements, which return values by name ----

def lateness(name, run):
    late = run["late"]
    values = {f"{name} p50": late.p(.5), f"{name} p99": late.p(.99), f"{name} last": late.last(),
              f"{name} cpu": run.get("cpu")}
    if run.get("timerfd"):
        values[f"{name} timerfd p50"] = run["timerfd"].p(.5)
        values[f"{name} timerfd p99"] = run["timerfd"].p(.99)
    return values


def ours(name, run, may_run_twice=False):
    run["late"].ours(may_run_twice)
    return lateness(name, run)


def spread(b, n):
    return ours("spread", b.run(b.spread, n))


def instant(b, n):
    return {**ours("instant 0", b.run(b.instant, n, ahead=0, beside=False)),
            **ours("instant 500", b.run(b.instant, n))}


def bullmq_spread(b, n):
    return lateness("bullmq spread", b.bullmq(b.spread, n))


def bullmq_instant(b, n):
    return lateness("bullmq instant", b.bullmq(b.instant, n))


def enqueue(b, n):
    return b.enqueue(n)


def memory(b, n):
    return b.memory(n)


def scripts(b, n):
    return {"scripts": b.scripts(n)}


def three(b, n):
    return ours("three", b.run(b.spread, n, daemons=3, beside=False))


def callbacks(b, n):
    run = b.run(b.instant, CALLBACKS * n, push=True, beside=False)
    at = run["late"].ours().at.values()
    return {"callbacks": CALLBACKS * n / (max(at) - min(at)) * 1000}


def slices(b, n):
    run = b.slices(n)
    late = run["late"]
    return {"slices early": late.early / n * 100, "slices earliest": -min(late.late),
            "slices rate": run["rate"]}


def stalls(b, n):
    return ours("stalls", b.run(b.spread, n, push=True, beside=False, during=b.stalls(n)))


def killed(b, n):
    """Measures the tasks that the killed daemon had taken, and all others."""
    run = b.run(b.spread, n, push=True, daemons=3, beside=False, during=b.kill(n))
    run["late"].ours(may_run_twice=True)
    due, at, held = run["due"], run["late"].at, run["kind"]
    if not held:
        raise Wrong("the killed daemon had no tasks")
    late = {True: [], False: []}
    for task, ms in enumerate(due):
        late[task in held].append(at[task] - ms)
    return {"killed others": sorted(late[False])[int(len(late[False]) * .99)],
            "killed held": max(late[True]), "killed tasks": len(held)}


def put_at_once(b, n):
    run = b.put_at_once(n, RATE)
    return {**ours("at once", run), "at once rate": run["rate"]}


def with_callbacks(b, n):
    return {**ours("push spread", b.run(b.spread, n, push=True)),
            **ours("push instant", b.run(b.instant, n, push=True)),
            **lateness("bullmq push", b.bullmq(b.instant, n, callbacks=True))}


CASES = [
    (spread, "B1 B3 B7"), (three, "B7"), (bullmq_spread, "B1 B3 B11"), (instant, "B2 B3"),
    (bullmq_instant, "B2 B3 B13"), (enqueue, "B4 B9"), (scripts, "B6"), (callbacks, "B8"), (slices, "B9"), (stalls, "B10"), (killed, "B11"), (put_at_once, "B12"),
    (with_callbacks, "B10 B13"),
]


# ---- The targets ----

class Table:
    """The rows of the result. A row needs all its values, or it is left out."""

    def __init__(self, values):
        self.values, self.rows, self.missed = values, [], 0

    def value(self, name):
        found = [v for v in self.values.get(name, []) if v is not None]
        return statistics.median(found) if found else None

    def row(self, number, what, name, rivals, ratio, bound, most=None, least=None):
        """Adds a row. Rivals are pairs of a label and a value's name.

        most and least are functions of value() that return the bound. If even a bare timerfd misses
        it, the machine was too busy, and the row says so.
        """
        try:
            mine = self.value(name)
            limit = (most or least)(self.value) if most or least else None
            shown = [(label, self.value(rival)) for label, rival in rivals]
            if mine is None or any(v is None for _, v in shown):
                return
        except TypeError:
            return
        ok = limit is None or (mine <= limit if most else mine >= limit)
        bare = max((v for label, v in shown if label == "timerfd"), default=0)
        self.missed += not ok
        by = self.value(ratio) if ratio else None
        self.rows.append((number, what, digits(mine),
                          ", ".join(f"{label} {digits(v)}" for label, v in shown),
                          digits(mine / by) if by else "",
                          f"{bound} = {digits(limit)}" if limit is not None and rivals else bound,
                          "" if limit is None else "reached" if ok else
                          "MISSED, even by timerfd" if most and bare > limit else "MISSED"))

    def print(self):
        head = ("", "number", "twheeld", "rivals", "ratio", "bound", "")
        width = [max(len(r[i]) for r in [head, *self.rows]) for i in range(len(head))]
        for r in [head, *self.rows]:
            print("  ".join(c.ljust(w) for c, w in zip(r, width)).rstrip())


def digits(x):
    return f"{x:.0f}" if abs(x) >= 1000 else f"{x:.1f}" if abs(x) >= 100 else \
        f"{x:.2f}" if abs(x) >= 1 else f"{x:.3f}"


def judge(t):
    def rivals(name, q):
        return [("timerfd", f"{name} timerfd {q}"), ("BullMQ", f"bullmq {name} {q}")]

    t.row("B1", "spread: p50, ms", "spread p50", rivals("spread", "p50"), "bullmq spread p50",
          "timerfd + 0.5", most=lambda v: v("spread timerfd p50") + .5)
    t.row("B1", "spread: p99, ms", "spread p99", rivals("spread", "p99"), "bullmq spread p99",
          "BullMQ / 20", most=lambda v: v("bullmq spread p99") / 20)
    for ahead, by in ((0, 5), (500, 50)):
        t.row("B2", f"instant, ahead {ahead} ms: p99, ms", f"instant {ahead} p99",
              [("BullMQ", "bullmq instant p99")], "bullmq instant p99", f"BullMQ / {by}",
              most=lambda v, by=by: v("bullmq instant p99") / by)
    for name, mine, by in (("spread", "spread", .9), ("instant", "instant 500", .25)):
        t.row("B3", f"Redis CPU, {name}, s", f"{mine} cpu", [("BullMQ", f"bullmq {name} cpu")],
              f"bullmq {name} cpu", f"BullMQ x {by}",
              most=lambda v, name=name, by=by: v(f"bullmq {name} cpu") * by)
    for name, what, by in (("one", "one a call", 1.3), ("batch", "in batches", 2)):
        t.row("B4", f"enqueue {what}, a second", name, [("BullMQ", f"bullmq {name}")],
              f"bullmq {name}", f"BullMQ x {by}",
              least=lambda v, name=name, by=by: v(f"bullmq {name}") * by)
    t.row("B5", "Redis memory, stored body of 200, bytes", "task", [], None, "600", most=lambda v: 600)
    t.row("B5", "RSS of a daemon, MiB", "rss", [], None, "48", most=lambda v: 48)
    t.row("B6", "put + take + ack, us of Redis", "scripts", [], None, "40", most=lambda v: 40)
    t.row("B7", "Redis CPU, 3 daemons, s", "three cpu", [("1 daemon", "spread cpu")], "spread cpu",
          "1 daemon x 1.15", most=lambda v: v("spread cpu") * 1.15)
    t.row("B8", "callbacks a second", "callbacks", [], None, "8000", least=lambda v: 8000)
    t.row("B9", "early tasks, %", "early", [("slices", "slices early")], None, "0",
          most=lambda v: 0)
    t.row("B9", "earliest by, ms", "early", [("slices", "slices earliest")], None, "0",
          most=lambda v: 0)
    t.row("B9", "enqueue in batches, a second", "batch", [("slices", "slices rate")], "slices rate",
          "slices x 0.5", least=lambda v: v("slices rate") * .5)
    t.row("B10", "callbacks, Redis stalls: p99, ms", "stalls p99",
          [("without", "push spread p99")], None, "without + 10",
          most=lambda v: v("push spread p99") + 10)
    t.row("B11", "daemon killed, others: p99, ms", "killed others",
          [("BullMQ in B1", "bullmq spread p99")], "bullmq spread p99", "B1's bound",
          most=lambda v: v("bullmq spread p99") / 20)
    t.row("B11", "daemon killed, its tasks: last, ms", "killed held", [], None,
          f"lease + 250 = {LEASE_MS + 250}", most=lambda v: LEASE_MS + 250)
    for q, by in (("p50", 2), ("p99", 5)):
        t.row("B12", f"put at once: {q}, ms", f"at once {q}",
              [("timerfd", f"at once timerfd {q}")], None, f"timerfd + {by}",
              most=lambda v, q=q, by=by: v(f"at once timerfd {q}") + by)
    t.row("B12", "put at once: tasks a second", "at once rate", [], None, "")
    for q, by in (("p50", 1), ("p99", 8)):
        t.row("B13", f"callbacks, spread: {q}, ms", f"push spread {q}",
              [("timerfd", f"push spread timerfd {q}")], None, f"timerfd + {by}",
              most=lambda v, q=q, by=by: v(f"push spread timerfd {q}") + by)
    t.row("B13", "callbacks, instant: p50, ms", "push instant p50",
          [("BullMQ", "bullmq push p50")], "bullmq push p50", "")
    t.row("B13", "callbacks, instant: last, ms", "push instant last",
          [("BullMQ", "bullmq push last")], "bullmq push last", "BullMQ x 0.6",
          most=lambda v: v("bullmq push last") * .6)
    t.row("B13", "the same, BullMQ without a call", "push instant last",
          [("BullMQ", "bullmq instant last")], "bullmq instant last", "")


def main():
    o = options()
    bench = Bench(o.load, o.modules)
    # Lateness.ours() raises if a task of twheeld was early.
    values = {"early": [0]}

    def measure(fn, tasks):
        print(f"# {fn.__name__} ...", file=sys.stderr, flush=True)
        got = fn(bench, tasks)
        for name, value in got.items():
            values.setdefault(name, []).append(value)
            if value is not None:
                print(f"#     {name} {digits(value)}", file=sys.stderr, flush=True)

    try:
        if not o.only or "B5" in o.only:
            measure(memory, o.many)
        for n in range(o.rounds):
            print(f"# round {n + 1} of {o.rounds}", file=sys.stderr)
            for fn, numbers in CASES:
                if not o.only or set(o.only) & set(numbers.split()):
                    measure(fn, o.tasks)
    except Wrong as e:
        sys.exit(f"tasks.py: {e}")
    table = Table(values)
    judge(table)
    table.print()
    sys.exit(1 if table.missed else 0)


if __name__ == "__main__":
    main()
