#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Daemons of this version and of the previous release, side by side on one Redis.

  upgrade_test.py PROGRAM BEFORE
"""
import os
import signal
import sys

from rig import (Daemon, Redis, Sink, Slow, equal, host, in_time, kept_silent, now_ms, rounds,
                 run_all, settle, spare, test, wait_in_time, wait_until)

BEFORE = os.path.abspath(sys.argv.pop(2))
OPTIONS = "--lease=6s",

redis = Redis()
sink = Sink()


def start(old):
    return Daemon(redis, *OPTIONS, **({"program": BEFORE} if old else {}))


def put(daemon, name, **fields):
    status, answer = daemon.client().call("PUT", f"/v1/queues/push/tasks/{name}", {
        "callback": {"url": sink.url + "/"}, **fields})
    assert status in (200, 201), answer
    return answer["due"]


def on_time(due):
    """Check that each task ran once, and not before its time."""
    for name, ms in due.items():
        at = [r["at"] for r in sink.wait_for(name)]
        equal(len(at), 1, name)
        assert ms <= at[0] < ms + 1500 + spare(), (name, at[0] - ms)


@test("rolling upgrade and rollback: daemons of both versions serve each other's tasks")
def both():
    old, new = start(True), start(False)
    a, b = old.client(), new.client()
    equal(a.call("PUT", "/v1/queues/push", {"mode": "push"})[0], 201)
    equal(a.call("PUT", "/v1/queues/ahead", {"mode": "push", "ahead": "5s"})[0], 201)
    equal(a.call("PUT", "/v1/queues/pull", {"mode": "pull"})[0], 201)
    wait_until(lambda: b.raw("GET", "/v1/queues/pull")[0] == 200)
    due = {}
    for n in range(100):
        due[f"old{n}"] = put(old, f"old{n}", **{"in": f"{500 + 20 * n}ms"})
        due[f"new{n}"] = put(new, f"new{n}", **{"in": f"{500 + 20 * n}ms"})
    on_time(due)

    # Each daemon moves and cancels what the other one stored, even tasks that the other one holds.
    def cancel_held(mine, other, name, theirs):
        path = f"/v1/queues/ahead/tasks/{name}"
        equal(mine.call("PUT", path, {"in": "1h", "callback": {"url": sink.url + "/"}})[0], 201)
        equal(other.call("GET", path)[1]["state"], "scheduled")
        status, answer = other.call("PATCH", path, {"in": "4s"})
        equal(status, 200)
        wait_in_time(answer["due"], lambda: mine.call("GET", path)[1].get("state") == "leased")
        is_theirs = theirs.metric("held") == 1
        withheld = host.withheld
        status = mine.call("DELETE", path)[0]
        in_time(answer["due"], "the cancel")
        if status == 202 and kept_silent(withheld):
            raise Slow("the holder did not answer")
        equal(status, 200)
        canceled[name] = answer["due"]
        return is_theirs
    canceled = {}
    for mine, other, name, theirs in ((a, b, "x", new), (b, a, "y", old)):
        for n in range(50):
            if rounds(lambda turn: cancel_held(mine, other, f"{name}{n}-{turn}", theirs)):
                break
        else:
            raise AssertionError("the other daemon held none of 50 tasks")
    # A worker reports to the daemon that did not give it the task.
    for mine, other, name in ((a, b, "p"), (b, a, "q")):
        mine.call("PUT", f"/v1/queues/pull/tasks/{name}", {})
        task, = mine.call("POST", "/v1/queues/pull/reserve", {"wait": "5s"})[1]["tasks"]
        equal(other.call("POST", "/v1/queues/pull/ack", {
            "tasks": [{"id": task["id"], "token": task["token"]}]})[0], 200)
    settle(max(0, max(canceled.values()) + 300 - now_ms()) / 1000)
    equal(old.end(), 0)
    equal(new.end(), 0)
    equal([r for r in sink.received() if r["id"] in canceled], [])


@test("tasks that a daemon of one version held when it was killed run at the other version")
def killed():
    for first, then in ((True, False), (False, True)):
        one, name = start(first), "killed-" + ("old" if first else "new")
        put(one, name, callback={"url": sink.url + "/hold"})
        sink.wait_for(name)
        one.end(signal.SIGKILL)
        two = start(then)
        sink.let(name)
        sink.wait_for(name, 2)
        wait_until(lambda: two.client().raw("GET", f"/v1/queues/push/tasks/{name}")[0] == 404, 5)
        equal(len({r["head"]["idempotency-key"] for r in sink.received(name)}), 1)
        equal(two.end(), 0)


@test("a daemon that does not know limits leaves a queue with limits alone, and the limits stay")
def limits():
    new = start(False)
    client, path = new.client(), "/v1/queues/limited"
    rate = {"limit": 5, "per": 1000, "burst": 2}
    equal(client.call("PUT", path, {"rate": {**rate, "per": "1s"}, "weight": 7})[0], 201)
    queues = redis.ask("HLEN", "tw:queues")
    old = start(True)
    # To the old daemon, a newer version wrote these settings. (Its PUT of such a queue never
    # ends.)
    equal(old.client().raw("GET", path)[0], 404)
    equal(client.call("PUT", f"{path}/tasks/soon", {"callback": {"url": sink.url + "/"}})[0], 201)
    sink.wait_for("soon")
    equal((client.call("GET", path)[1]["rate"], redis.ask("HLEN", "tw:queues")), (rate, queues))
    equal(client.call("PUT", path, {"rate": None})[0], 200)
    wait_until(lambda: old.client().raw("GET", path)[0] == 200)
    equal(client.call("PUT", path, {"rate": {**rate, "per": "1s"}})[1]["weight"], 7)
    equal((old.end(), new.end()), (0, 0))


if __name__ == "__main__":
    run_all()
