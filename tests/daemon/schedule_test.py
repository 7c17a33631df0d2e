#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Schedules (D18): their routes, and that their runs are exactly those of their calendars.

  schedule_test.py PROGRAM [NAME...]

If PROGRAM was built without libical, TWHEELD_LIBICAL names one that was built with it.
"""
import calendar
import os
import signal
import statistics
import threading
import time

import resp
from rig import (Daemon, Redis, Sink, Slow, equal, now_ms, rounds, run_all, shifted_clock, spare,
                 test, wait_until)

OPTIONS = "--lease=6s",
SECOND = 1000

redis = Redis()
sink = Sink()
daemon = Daemon(redis, *OPTIONS)
client = daemon.client()
TASK = {"callback": {"url": sink.url + "/"}}


def put(name, queue="push", to=None, **fields):
    return (to or client).call("PUT", f"/v1/queues/{queue}/schedules/{name}", {"task": TASK, **fields})


def call(method, name, body=None, queue="push", to=None):
    return (to or client).call(method, f"/v1/queues/{queue}/schedules/{name}", body)


def next_of(name, n=3, queue="push", to=None):
    status, answer = call("GET", f"{name}/next?n={n}", queue=queue, to=to)
    equal(status, 200, answer)
    return [r["at"] for r in answer["next"]]


def runs_of(name, of=None):
    """Return: the times of the calendar that ran, and how often each did."""
    times = {}
    for r in (of or sink).received():
        if r["id"].startswith(name + ":"):
            ms = int(r["id"].split(":")[1])
            assert r["at"] >= ms, f"{r['id']} was early"
            times[ms] = times.get(ms, 0) + 1
    return times


def tasks_of(name, queue="push"):
    tasks = client.call("GET", f"/v1/queues/{queue}/tasks?limit=1000")[1]["tasks"]
    return [t["id"] for t in tasks if t["id"].startswith(name + ":")]


def utc(text):
    return calendar.timegm(time.strptime(text, "%Y-%m-%d %H:%M:%S")) * SECOND


@test("a schedule can be created, shown, listed, changed and removed; its next run is the task "
      "NAME:MS")
def routes():
    equal(client.call("PUT", "/v1/queues/push", {"mode": "push"})[0], 201)
    status, answer = put("day", cron="30 4 * * mon-fri", tz="Europe/Berlin")
    equal(status, 201, answer)
    equal((answer["enabled"], answer["runs"], answer["cron"]), (True, 0, "30 4 * * mon-fri"))
    first = answer["next"]
    wait_until(lambda: tasks_of("day") == [f"day:{first}"])
    equal(client.call("GET", f"/v1/queues/push/tasks/day:{first}")[1]["due"], first)
    # The same definition again changes nothing.
    equal(put("day", cron="30 4 * * mon-fri", tz="Europe/Berlin")[0], 200)
    at = next_of("day", 5)
    equal((len(at), at[0]), (5, first))
    assert all(time.gmtime(t / SECOND).tm_wday < 5 for t in at)
    equal(put("other", every="1h")[0], 201)
    assert put("other", every="1h")[1]["next"] % 3600000 == 0
    listed = client.call("GET", "/v1/queues/push/schedules")[1]
    equal([s["schedule"] for s in listed["schedules"]], ["day", "other"])
    page = client.call("GET", "/v1/queues/push/schedules?limit=1")[1]
    equal([s["schedule"] for s in page["schedules"]], ["day"])
    page = client.call("GET", f"/v1/queues/push/schedules?cursor={page['cursor']}")[1]
    equal([s["schedule"] for s in page["schedules"]], ["other"])
    # Another calendar: the run of the former one is gone.
    status, answer = call("PATCH", "day", {"cron": "45 4 * * mon-fri"})
    equal((status, answer["tz"]), (200, "Europe/Berlin"))
    second = answer["next"]
    assert second != first
    wait_until(lambda: tasks_of("day") == [f"day:{second}"])
    equal(call("POST", "day/disable")[1]["enabled"], False)
    wait_until(lambda: not tasks_of("day"))
    equal(next_of("day"), [])
    equal(call("GET", "day")[1]["enabled"], False)
    equal(call("POST", "day/enable")[1]["next"], second)
    wait_until(lambda: tasks_of("day") == [f"day:{second}"])
    for name in ("day", "other"):
        equal(call("DELETE", name)[0], 200)
        wait_until(lambda name=name: not tasks_of(name))
        equal(call("DELETE", name)[0], 404)
        equal(call("GET", name)[0], 404)
    wait_until(lambda: redis.run("HLEN", "tw:schedules") == 0)
    equal(client.call("GET", "/v1/queues/push/schedules")[1], {"schedules": []})


@test("bad input answers 400 with the field, and changes nothing")
def refused():
    for fields, culprit in (
            ({}, "cron"), ({"cron": "61 * * * *"}, "cron"), ({"cron": "* * * *"}, "cron"),
            ({"cron": "0 0 31 2 *"}, "cron"), ({"cron": "@reboot"}, "cron"), ({"cron": 5}, "cron"),
            ({"cron": "* * * * *", "tz": "Europe/Atlantis"}, "tz"),
            ({"cron": "* * * * *", "tz": "../etc/passwd"}, "tz"),
            ({"cron": "* * * * *", "every": "1m"}, "every"), ({"every": "10ms"}, "every"),
            ({"every": "1m", "tz": "UTC"}, "tz"), ({"every": "1m", "max": 0}, "max"),
            ({"every": "1m", "start": 1790000000000, "end": 1780000000000}, "end"),
            ({"every": "1m", "start": 5}, "start"), ({"every": "1m", "missed": "no"}, "missed"),
            ({"every": "1m", "overlap": 1}, "overlap"), ({"every": "1m", "what": 1}, "what"),
            ({"every": "1m", "jitter": "2d"}, "jitter"), ({"every": "1m", "enabled": 1}, "enabled"),
            ({"every": "1m", "task": {}}, "task.callback"), ({"every": "1m", "task": 1}, "task"),
            ({"every": "1m", "task": {**TASK, "at": 1790000000000}}, "task.at"),
            ({"every": "1m", "task": {**TASK, "id": "x"}}, "task.id"),
            ({"every": "1m", "task": {"callback": {"url": "ftp://a/"}}}, "task.callback.url")):
        status, answer = put("bad", **fields)
        equal((status, answer["error"].get("field")), (400, culprit), (fields, answer))
    equal(call("GET", "bad")[0], 404)
    equal(put("a:b", every="1m")[1]["error"]["field"], "schedule")
    equal(put("x", queue="nowhere", every="1m")[0], 404)
    equal(call("PATCH", "bad", {"every": "1m"})[0], 404)
    equal(put("good", every="1h")[0], 201)
    before = call("GET", "good")[1]
    for patch, culprit in (({"every": "x"}, "every"), ({"enabled": None}, "enabled"),
                           ({"cron": "* * * * *"}, "every"), ({"task": None}, "task.callback")):
        status, answer = call("PATCH", "good", patch)
        equal((status, answer["error"].get("field")), (400, culprit), answer)
    equal(call("GET", "good")[1], before)
    # A definition that is no object, as only another program stores it.
    text = redis.run("HGET", "tw:schedules", "push/good")
    redis.run("HSET", "tw:schedules", "push/good", text.partition(b"\n")[0] + b"\n[]")
    for method, path in (("PATCH", "good"), ("POST", "good/disable"), ("POST", "good/run")):
        status, answer = call(method, path, {"every": "2h"} if method == "PATCH" else None)
        equal((status, answer["error"]["code"]), (409, "newer"), path)
    # A record of a later format, which begins like one of this format.
    redis.run("HSET", "tw:schedules", "push/good", b"10 1 1900000000000 0 0 0 -\n{}")
    for path in ("good", "good/next"):
        status, answer = call("GET", path)
        equal((status, answer["error"]["code"]), (409, "newer"), path)
    equal(client.call("GET", "/v1/queues/push/schedules")[1], {"schedules": [], "newer": 1})
    redis.run("HSET", "tw:schedules", "push/good", text)
    equal(call("GET", "good/next?n=0")[1]["error"]["field"], "n")
    equal(call("GET", "good/next?m=1")[1]["error"]["field"], "m")
    equal(call("DELETE", "good")[0], 200)


@test("rrule: a rule of RFC 5545; an invalid rule, or one that never runs, answers 400 with a "
      "reason")
def rules():
    status, answer = put("rule", rrule="FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;BYHOUR=2;BYMINUTE=30",
                         tz="Europe/Berlin", start="2027-03-16T00:00:00Z")
    if status == 400 and "built without libical" in answer["error"]["message"]:
        return "SKIP there is no libical"
    equal(status, 201, answer)
    # On 2027-03-28 the clocks go from 02:00 to 03:00.
    equal(next_of("rule", 4), [utc(t) for t in (
        "2027-03-16 01:30:00", "2027-03-21 01:30:00", "2027-03-30 00:30:00",
        "2027-04-04 00:30:00")])
    status, answer = call("PATCH", "rule", {"rrule": "FREQ=DAILY;BYHOUR=2;BYMINUTE=30;COUNT=2",
                                            "start": "2027-03-27T12:00:00Z"})
    equal(status, 200, answer)
    equal(next_of("rule", 9), [utc("2027-03-28 01:00:00"), utc("2027-03-29 00:30:00")])
    # UNTIL can be a whole day, a wall time, or a time of UTC.
    for until, last in (("20400302", 2040), ("20400302T120000", 2040),
                        ("20400302T110000Z", 2040), ("20400302T105959Z", 2039)):
        rule = f"FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=2;BYHOUR=12;BYMINUTE=0;UNTIL={until}"
        equal(call("PATCH", "rule", {"rrule": rule, "tz": "Europe/Berlin"})[0], 200)
        equal(next_of("rule", 100)[-1], utc(f"{last}-03-02 11:00:00"), until)
    # A rule that has nearly ended costs no more than others: meanwhile, no task could begin.
    equal(call("PATCH", "rule", {"rrule": "FREQ=DAILY;COUNT=10000", "start": "2000-01-01T12:00:00Z",
                                 "tz": "Europe/Berlin"})[0], 200)
    begin = time.monotonic()
    equal(next_of("rule", 1000)[-1] - next_of("rule", 1)[0] > 0, True)
    took = time.monotonic() - begin
    assert took < 1 + spare() / 1000, took
    for rule in ("MO", "FREQ=HOURLY", "FREQ=DAILY;BYHOUR=25", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30",
                 "FREQ=DAILY;COUNT=3", "FREQ=DAILY;UNTIL=19700101T000000Z", "RSCALE=HEBREW",
                 "FREQ=DAILY;UNTIL=20270229",
                 "FREQ=MONTHLY;BYDAY=MO;BYSETPOS=1;BYHOUR=1,2", "FREQ=DAILY;INTERVAL=0",
                 "FREQ=DAILY;BYDAY=2MO", "FREQ=WEEKLY;BYDAY=-1MO", "FREQ=WEEKLY;BYMONTHDAY=1",
                 "FREQ=MONTHLY;BYYEARDAY=1", "FREQ=DAILY;BYWEEKNO=1", "FREQ=WEEKLY;BYSETPOS=2",
                 "FREQ=YEARLY;BYWEEKNO=1;BYDAY=1MO"):
        status, answer = put("bad", rrule=rule)
        equal((status, answer["error"].get("field")), (400, "rrule"), (rule, answer))
    # A search for a day that is decades away, or does not exist, takes a moment.
    begin = time.monotonic()
    for rule in ("BYDAY=5MO;BYMONTHDAY=1", "BYDAY=MO;BYSETPOS=6", "BYDAY=-5FR;BYMONTHDAY=29",
                 "BYDAY=5SU;BYMONTH=2;BYMONTHDAY=28", "BYMONTHDAY=1,-1;BYSETPOS=-3"):
        status, answer = put("bad", rrule="FREQ=MONTHLY;" + rule)
        equal((status, answer["error"].get("field")), (400, "rrule"), (rule, answer))
    leap = "BYMONTH=2;BYMONTHDAY=29;BYDAY=SU"
    for freq in ("DAILY", "MONTHLY", "YEARLY"):
        equal(put("rare", rrule=f"FREQ={freq};{leap}")[0] in (200, 201), True)
        equal(next_of("rare", 1000)[:2], [utc("2032-02-29 00:00:00"), utc("2060-02-29 00:00:00")])
    equal(put("rare", rrule=f"FREQ=DAILY;{leap};COUNT=10", start="2026-01-01T00:00:00Z")[0], 200)
    equal(len(next_of("rare", 1000)), 10)
    took = time.monotonic() - begin
    assert took < 1 + spare() / 1000, took
    for rule in ("BYDAY=5MO;BYMONTHDAY=29", "BYDAY=MO;BYSETPOS=5", "BYDAY=-5FR;BYMONTHDAY=1",
                 "BYDAY=5SU;BYMONTH=2;BYMONTHDAY=29", "BYMONTHDAY=1,-1;BYSETPOS=-2"):
        equal(put("rare", rrule="FREQ=MONTHLY;" + rule)[0] in (200, 201), True, rule)
    equal(call("DELETE", "rare")[0], 200)
    equal(put("bad", rrule="FREQ=DAILY", cron="@daily")[1]["error"]["field"], "rrule")
    equal(call("DELETE", "rule")[0], 200)


def no_rules():
    equal(client.call("PUT", "/v1/queues/push", {"mode": "push"})[0], 201)
    status, answer = put("rule", rrule="FREQ=DAILY")
    equal((status, answer["error"]["code"], answer["error"]["field"]), (400, "invalid", "rrule"))
    assert "built without libical" in answer["error"]["message"], answer
    equal(put("cron", cron="@daily")[0], 201)
    other = Daemon(redis, *OPTIONS, program=os.environ["TWHEELD_LIBICAL"])
    to = other.client()
    rule = "FREQ=DAILY;" + ";".join(f"{unit}={','.join(map(str, range(n)))}" for unit, n in (
        ("BYHOUR", 24), ("BYMINUTE", 60), ("BYSECOND", 60)))
    # Each daemon comes first for some of these schedules.
    first = {}
    for name in (f"each{n}" for n in range(8)):
        status, answer = put(name, to=to, rrule=rule)
        equal(status, 201, answer)
        first[name] = answer["next"]
    for name, start in first.items():
        sink.wait_for(f"{name}:{start + 3 * SECOND}")
        equal(sorted(runs_of(name))[:4], [start + n * SECOND for n in range(4)])
        equal(set(runs_of(name).values()), {1})
    equal(call("GET", "each0")[1]["rrule"], rule)
    for method, path, body in (("GET", "each0/next", None), ("PATCH", "each0", {"enabled": False}),
                               ("POST", "each0/disable", None), ("POST", "each0/run", None)):
        status, answer = call(method, path, body)
        equal((status, answer["error"]["code"], answer["error"]["field"]), (409, "newer", "schedule"))
        assert "built without libical" in answer["error"]["message"], answer
    equal(call("PATCH", "each0", {"rrule": None, "every": "1h"})[0], 200)
    for name in (*first, "cron"):
        equal(call("DELETE", name)[0], 200)
    equal(other.end(), 0)


if "TWHEELD_LIBICAL" in os.environ:
    test("without libical a rule is a 400 with the field; one that is stored is left alone, and a "
         "daemon with libical misses no run of it")(no_rules)


@test("the next runs of a rule that rarely names a day are found in turns, and hold up no other "
      "request")
def next_in_turns():
    status, answer = put("rare", rrule="FREQ=YEARLY;BYMONTHDAY=1,2,3,4,5;BYDAY=MO,TU;BYSETPOS=3,-3")
    if status == 400 and "built without libical" in answer["error"]["message"]:
        return "SKIP there is no libical"
    equal(status, 201, answer)
    end, took = threading.Event(), []

    def ask():
        to = daemon.client()
        while not end.is_set():
            begin = time.monotonic()
            equal(call("GET", "rare/next?n=1000", to=to)[0], 200)
            took.append(time.monotonic() - begin)
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for t in threads:
        t.start()
    others = []
    while len(took) < 16:
        begin = time.monotonic()
        equal(client.raw("GET", "/healthz")[0], 200)
        others.append(time.monotonic() - begin)
        time.sleep(0.01)
    end.set()
    for t in threads:
        t.join()
    # Each of the eight waits for the others.
    alone, other = statistics.median(took) / 8, statistics.median(others)
    assert other < alone / 2, (alone, other)
    equal(call("DELETE", "rare")[0], 200)
    return None


@test("start, end and max limit the runs, jitter only adds to the delay, and run adds one")
def bounds():
    now = int(now_ms())
    start = now - now % SECOND + 2 * SECOND
    equal(put("three", every="1s", start=start, max=3)[0], 201)
    equal(next_of("three", 9), [start, start + SECOND, start + 2 * SECOND])
    equal(put("ends", every="1s", start=start, end=start + SECOND)[0], 201)
    equal(put("spread", every="1s", start=start, max=3, jitter="900ms")[0], 201)
    status, answer = call("POST", "three/run")
    equal(status, 201, answer)
    extra = answer["due"]
    sink.wait_for(f"three:{start + 2 * SECOND}")
    sink.wait_for(f"spread:{start + 2 * SECOND}")
    time.sleep(1.5)
    equal(sorted(runs_of("three")), sorted([extra, start, start + SECOND, start + 2 * SECOND]))
    equal(sorted(runs_of("ends")), [start, start + SECOND])
    assert any(r["at"] > int(r["id"].split(":")[1]) + 50 for r in sink.received()
               if r["id"].startswith("spread:"))
    for verb in ("", "disable", "enable"):
        equal(call("POST", f"three/{verb}")[0] if verb else 200, 200)
        answer = call("GET", "three")[1]
        equal((answer.get("next"), answer["runs"]), (None, 3), f"{verb}: max is reached")
    equal(next_of("three", 9), [])
    # A run that is cleared before its time does not count.
    equal(put("two", every="1h", max=2)[0], 201)
    ahead = next_of("two", 9)
    equal(len(ahead), 2)
    for _ in range(3):
        wait_until(lambda: tasks_of("two") == [f"two:{ahead[0]}"])
        for verb in ("disable", "enable"):
            equal(call("POST", f"two/{verb}")[0], 200)
    equal((next_of("two", 9), call("GET", "two")[1]["runs"]), (ahead, 0))
    for name in ("three", "two", "ends", "spread"):
        equal(call("DELETE", name)[0], 200)


@test("overlap: skip drops runs while one lasts, queue lets them wait, allow does neither")
def overlap():
    now = int(now_ms())
    start = now - now % SECOND + 2 * SECOND
    hold = {"callback": {"url": sink.url + "/hold"}}
    for kind in ("allow", "skip", "queue"):
        equal(put(kind, every="1s", start=start, overlap=kind, max=4, task=hold)[0], 201)
    sink.wait_for(f"allow:{start + 3 * SECOND}")
    equal(len(runs_of("skip")) + len(runs_of("queue")), 2)
    sink.let(f"skip:{start}")
    sink.let(f"queue:{start}")
    sink.wait_for(f"queue:{start + SECOND}")
    wait_until(lambda: len(runs_of("skip")) == 2)
    second = sorted(runs_of("skip"))[1]
    assert second > start + 3 * SECOND, second - start
    for kind in ("allow", "skip", "queue"):
        equal(call("DELETE", kind)[0], 200)
        for ms in runs_of(kind):
            sink.let(f"{kind}:{ms}")


@test("missed: of the runs that no daemon was there for, once runs one, all runs all, skip none")
def missed():
    global daemon, client
    now = int(now_ms())
    start = now - now % SECOND + 2 * SECOND
    names = ("once", "all", "few", "skip")
    for kind in ("once", "all"):
        equal(put(kind, every="1s", start=start, missed=kind)[0], 201)
    equal(put("skip", every="1s", start=start, missed="skip",
              task={**TASK, "late": {"after": "900ms", "then": "skip"}})[0], 201)
    equal(put("few", every="1s", start=start, missed="all", missed_limit=2)[0], 201)
    for name in names:
        sink.wait_for(f"{name}:{start}")
    daemon.end(signal.SIGKILL)
    down = max(max(runs_of(n)) for n in names)
    time.sleep(7)
    daemon = Daemon(redis, *OPTIONS, shared=True)
    client = daemon.client()
    back = int(now_ms())
    wait_until(lambda: all(max(runs_of(n)) > back + SECOND for n in names), 20)
    for name in names:
        equal(call("DELETE", name)[0], 200)
    gap = {n: [t for t in runs_of(n) if down < t <= back - 2 * SECOND] for n in names}
    equal(gap["skip"], [])
    equal(sorted(gap["all"]), list(range(down + SECOND, back - 2 * SECOND + 1, SECOND)), back)
    equal(sorted(gap["once"]), [down + SECOND])
    equal(sorted(gap["few"]), [down + n * SECOND for n in (1, 2, 3)])


@test("a queue that has schedules is not removed")
def queue_removed():
    equal(client.call("PUT", "/v1/queues/mine", {"mode": "push"})[0], 201)
    equal(put("one", "mine", every="1h", enabled=False)[0], 201)
    for path in ("/v1/queues/mine", "/v1/queues/mine?purge=true"):
        status, answer = client.call("DELETE", path)
        equal((status, answer["error"]["code"]), (409, "not_empty"))
    equal(call("DELETE", "one", queue="mine")[0], 200)
    wait_until(lambda: client.call("DELETE", "/v1/queues/mine")[0] == 200)


@test("D18: a repeated step creates nothing twice, and a former definition creates nothing")
def steps():
    lane, link = resp.Lane("steps/0"), resp.Redis(redis.path)
    holder, now = "1" * 16, int(now_ms())

    def plant(generation, run, most=10):
        return lane.run(link, "plant", generation, "x", run, most, run, 3, 0, 0, 0, "\1")[1:]

    def clear(generation, run):
        return lane.run(link, "clear", generation, "x", run)[1:]

    def tasks():
        return link.ask("HLEN", lane.keys[2])

    equal(plant(100, now - 10, 0), [3])
    equal((plant(100, now - 10), plant(100, now - 10), tasks()), ([0], [1], 1))
    taken = lane.run(link, "take", 10, 6000, holder, 0)[10:]
    equal([t[0] for t in taken], [b"x:%d" % (now - 10)])
    equal(lane.run(link, "ack", holder, taken[0][0].decode(), taken[0][1], 0, 0, 0, "")[1], 0)
    # The run has ended and is gone, so it is not created again.
    equal((plant(100, now - 10), tasks()), ([1], 0))
    ahead = now + 3600000
    equal((plant(100, ahead), tasks()), ([0], 1))
    equal((clear(101, ahead), tasks()), ([1], 0))
    equal(plant(100, ahead), [2, 101])
    equal((plant(101, ahead), tasks()), ([0], 1))
    # A late clear removes no run of its own definition.
    equal((clear(101, ahead), tasks()), ([0], 1))
    # A run that has begun is left alone, and the holder of a held one is told to drop it.
    soon = int(now_ms()) + 30000
    equal(plant(102, soon), [0])
    lane.run(link, "take", 10, 6000, holder, 60000)
    equal(clear(103, soon)[:3], [2, soon, holder.encode()])
    equal((plant(103, soon), tasks()), ([0], 2))
    equal(lane.run(link, "take", 10, 6000, holder, 60000)[10][0], b"x:%d" % soon)
    link.close()


@test("D18: two daemons, one killed each second: the runs are those of the calendar, each once")
def killed():
    queue = "killed"
    equal(client.call("PUT", f"/v1/queues/{queue}", {"mode": "pull"})[0], 201)
    pair = [Daemon(redis, *OPTIONS), Daemon(redis, *OPTIONS)]
    daemon.end()
    names = [f"k{n}" for n in range(8)]
    first = {}
    for name in names:
        to = pair[0].client()
        status, answer = put(name, queue, to, every="1s", missed="all", missed_limit=1000, task={})
        equal(status, 201, answer)
        first[name] = answer["next"]
    end = time.monotonic() + 12
    turn = 0
    while time.monotonic() < end:
        time.sleep(0.35 + 0.13 * (turn % 5))
        # Every fourth time both daemons are killed.
        for n in (0, 1) if turn % 4 == 3 else (turn % 2,):
            pair[n].end(signal.SIGKILL)
        if turn % 4 == 3:
            time.sleep(1.5)
        for n in (0, 1):
            if pair[n].process.poll() is not None:
                pair[n] = Daemon(redis, *OPTIONS, wait=False)
        turn += 1
    wait_until(lambda: all(d.ready() for d in pair))
    time.sleep(3)
    stop = int(now_ms())
    to = pair[0].client()
    for name in names:
        equal(call("POST", f"{name}/disable", queue=queue, to=to)[0], 200)
    time.sleep(1)
    got = {name: [] for name in names}
    while True:
        tasks = to.call("POST", f"/v1/queues/{queue}/reserve",
                        {"limit": 100, "lease": "30s", "wait": "1s"})[1]["tasks"]
        if not tasks:
            break
        for t in tasks:
            name, ms = t["id"].split(":")
            got[name].append(int(ms))
        to.call("POST", f"/v1/queues/{queue}/ack",
                {"tasks": [{"id": t["id"], "token": t["token"]} for t in tasks]})
    for name in names:
        times = sorted(got[name])
        # A run at the very moment of the change may have happened or not.
        equal([t for t in times if t <= stop - 500],
              list(range(first[name], stop - 500 + 1, SECOND)), name)
        equal(len(times), len(set(times)), name)
        assert max(times) <= stop + 500, name
    for p in pair:
        p.end()


def clock(moment, cron, tz, want):
    """Start a Redis and a daemon 3 s before a run, and check its time and that of the next one."""
    begin = time.monotonic()
    env = shifted_clock(round((utc(moment) - now_ms()) / SECOND))
    there = Redis(env=env)
    d = Daemon(there, *OPTIONS, env=env)
    to = d.client()
    equal(to.call("PUT", "/v1/queues/push", {"mode": "pull"})[0], 201)
    equal(put("dst", "push", to, cron=cron, tz=tz, task={})[0], 201)
    at = next_of("dst", 2, to=to)
    if time.monotonic() - begin > 2:
        d.end(signal.SIGKILL)
        there.kill()
        raise Slow("the schedule was created after its run")
    equal(at, [utc(w) for w in want if w] if want[0] else [utc(want[1]), at[1]], moment)
    tasks = to.call("POST", "/v1/queues/push/reserve",
                    {"limit": 10, "lease": "30s", "wait": "20s" if want[0] else "6s"})[1]["tasks"]
    equal([t["id"] for t in tasks], [f"dst:{utc(want[0])}"] if want[0] else [], moment)
    if tasks:
        to.call("POST", "/v1/queues/push/ack",
                {"tasks": [{"id": t["id"], "token": t["token"]} for t in tasks]})
    equal(next_of("dst", 1, to=to), [utc(want[1])], moment)
    d.end()
    there.kill()


@test("D18: with clocks set across DST changes, each day has exactly one run")
def clocks():
    for moment, cron, tz, want in (
            # 02:30 does not exist: the first moment after the gap.
            ("2026-03-29 00:59:57", "30 2 * * *", "Europe/Berlin",
             ("2026-03-29 01:00:00", "2026-03-30 00:30:00")),
            # 02:30 exists twice: the first of them.
            ("2026-10-25 00:29:57", "30 2 * * *", "Europe/Berlin",
             ("2026-10-25 00:30:00", "2026-10-26 01:30:00")),
            ("2026-10-25 01:29:57", "30 2 * * *", "Europe/Berlin", ("", "2026-10-26 01:30:00")),
            ("2026-03-08 06:59:57", "30 2 * * *", "America/New_York",
             ("2026-03-08 07:00:00", "2026-03-09 06:30:00")),
            ("2026-11-01 05:29:57", "30 1 * * *", "America/New_York",
             ("2026-11-01 05:30:00", "2026-11-02 06:30:00"))):
        if not shifted_clock(0):
            return "SKIP no compiler"
        rounds(lambda _, row=(moment, cron, tz, want): clock(*row))


run_all()
