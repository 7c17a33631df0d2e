#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""twheeld from its users' view: all routes, their errors, and the laws D1 to D19.

  daemon_test.py PROGRAM [NAME... | --share DIRECTORY]

Each law has a test in one of the files *_test.py:

  D1   An accepted task leaves Redis only if it succeeds, is cancelled, or a setting says so.
  D2   No attempt begins before the task is due by the clock of Redis.
  D3   No poll decides when a task runs, so a short stall of Redis makes no task late.
  D4   A daemon that dies loses no task: others run its tasks when their leases end.
  D5   A restart of Redis loses only what Redis had not kept.
  D6   A failover loses nothing that a replica has confirmed.
  D7   A task runs twice only if a lease ended, or a report was lost or taken back.
  D8   After a task is cancelled, moved or replaced, no attempt of the former begins.
  D9   Retries back off exponentially, and obey Retry-After.
  D10  Dead tasks can be listed, read and replayed. Age and count limit them.
  D11  After max-lost leases without a report a task is dead.
  D12  An overdue task runs, unless its late policy skips or buries it.
  D13  The memory of a daemon does not depend on the number of tasks.
  D14  A slow endpoint delays no other.
  D15  Callbacks reach only public addresses, unless the configuration allows others.
  D16  The daemon refuses a Redis, or a request, rather than lose tasks.
  D17  On SIGTERM the daemon finishes or releases its tasks, and exits with 0.
  D18  The runs of a schedule are exactly those of its calendar.
  D19  What strangers send takes a limited amount of memory and work.
"""
import concurrent.futures
import http.client
import json
import os
import random
import re
import resource
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

import resp
from limits import HANG
from load import check
from model_test import CLOCK
from rig import (DAEMON, HERE, PROGRAM, Daemon, Redis, Sink, Slow, dir_, equal, free_ports, host,
                 in_time, kept_silent, now_ms, rounds, run_all, settle, shifted_clock, slow_dns,
                 spare, test, wait_in_time, wait_until)

redis = Redis()
sink = Sink()
one = Daemon(redis, "--lease=6s", "--max-lost=2")
two = Daemon(redis, "--lease=6s", "--max-lost=2")
a = one.client()
b = two.client()
numbers = iter(range(10 ** 6))


def queue(**settings):
    """Make a new queue. Return: its path."""
    path = f"/v1/queues/q{next(numbers)}"
    equal(a.call("PUT", path, settings)[0], 201, "a queue is made")
    # Wait until the other daemon has heard of it.
    wait_until(lambda: b.raw("GET", path)[0] == 200)
    return path


def push(**settings):
    return queue(mode="push", **settings)


def pull(**settings):
    return queue(mode="pull", **settings)


def alone(*options, env=None, **settings):
    """Return: another Redis, its only daemon and a client of that, with a queue "s"."""
    own = Redis()
    d = Daemon(own, *options, env=env)
    c = d.client()
    equal(c.call("PUT", "/v1/queues/s", settings)[0], 201)
    return own, d, c


def put(path, task, client=a, **fields):
    """Put a task that must be accepted. Return: the answer."""
    status, answer = client.call("PUT", f"{path}/tasks/{task}", fields)
    if status not in (200, 201):
        raise AssertionError(f"put: {status} {answer}")
    return answer


def state(path, task):
    status, answer = a.call("GET", f"{path}/tasks/{task}")
    return answer["state"] if status == 200 else None


def reserve(path, client=a, limit=1, wait="1min", lease="30s", seconds=3):
    """Reserve tasks, which must come within this time. What the host withholds does not count."""
    begin, withheld = time.monotonic(), host.withheld
    status, answer = client.call("POST", f"{path}/reserve",
                                 {"limit": limit, "wait": wait, "lease": lease})
    took = time.monotonic() - begin - (host.withheld - withheld) / 1000
    equal(status, 200, "reserve")
    assert took < seconds, f"reserve took {took:.1f} s"
    return answer["tasks"]


def report(path, verb, task, client=a, **more):
    body = {"tasks": [{"id": task["id"], "token": task["token"], **more}]}
    return client.call("POST", f"{path}/{verb}", body)


# ---- Routes ----

@test("an error has a status, a code, a message and the field")
def errors():
    p, q = push(), pull()
    url = sink.url + "/"
    rows = [
        ("GET", "/nothing", None, 404, "not_found", ""),
        ("GET", "/v1/queues/none", None, 404, "not_found", "queue"),
        ("POST", "/v1/queues/none/tasks", {}, 404, "not_found", "queue"),
        ("POST", "/v1/queues/a.b/tasks", {}, 400, "invalid", "queue"),
        ("PUT", p, {"mode": "other"}, 400, "invalid", "mode"),
        ("PUT", p, {"lanes": 7}, 400, "invalid", "lanes"),
        ("PUT", p, {"mode": "pull"}, 400, "invalid", "mode"),
        ("PUT", p, {"color": 1}, 400, "invalid", "color"),
        ("PATCH", p, {}, 405, "invalid", "method"),
        ("DELETE", "/metrics", None, 405, "invalid", "method"),
        ("OPTIONS", f"{p}/tasks", None, 405, "invalid", "method"),
        ("POST", f"{p}/pause", {"for": "1h"}, 400, "invalid", "body"),
        ("POST", f"{p}/pause", " {} x", 400, "invalid", "body"),
        ("DELETE", f"{p}/tasks/none", {"id": "x"}, 400, "invalid", "body"),
        ("GET", f"{p}?limit=1", None, 400, "invalid", "limit"),
        ("POST", f"{p}/tasks?id=x", {}, 400, "invalid", "id"),
        ("POST", f"{p}/tasks", {"payload": 1}, 400, "invalid", "callback"),
        ("POST", f"{p}/tasks", {"callback": {"url": "ftp://x/"}}, 400, "invalid", "callback.url"),
        ("POST", f"{p}/tasks", {"callback": {"url": url}, "color": 1}, 400, "invalid", "color"),
        ("POST", f"{p}/tasks", {"callback": {"url": url}, "in": "soon"}, 400, "invalid", "in"),
        ("POST", f"{p}/tasks", {"callback": {"url": url}, "at": "2400-01-01T00:00:00Z"}, 400,
         "invalid", "at"),
        ("POST", f"{p}/tasks", {"callback": {"url": url}, "every": "50ms"}, 400, "invalid", "every"),
        ("POST", f"{p}/tasks", {"callback": {"url": url, "headers": {"Host": "x"}}}, 400,
         "invalid", "callback.headers.Host"),
        ("POST", f"{p}/tasks", {"callback": {"url": url}, "id": "a b"}, 400, "invalid", "id"),
        ("POST", f"{p}/tasks", "{", 400, "invalid", ""),
        ("POST", f"{q}/tasks", {"callback": {"url": url}}, 400, "invalid", "callback"),
        ("GET", f"{p}/tasks/none", None, 404, "not_found", "id"),
        ("GET", f"{p}/tasks?state=odd", None, 400, "invalid", "state"),
        ("GET", f"{p}/tasks?limit=0", None, 400, "invalid", "limit"),
        ("GET", f"{p}/tasks?cursor=x", None, 400, "invalid", "cursor"),
        ("GET", f"{p}/tasks?cursor=0.1", None, 400, "invalid", "cursor"),
        ("GET", f"{p}/tasks?cursor=0.-1.x", None, 400, "invalid", "cursor"),
        ("GET", f"{p}/tasks?cursor=0.1x.x", None, 400, "invalid", "cursor"),
        ("GET", f"{p}/tasks?cursor=4.1.x", None, 400, "invalid", "cursor"),
        ("GET", f"{p}/tasks?cursor=4294967296.0.x", None, 400, "invalid", "cursor"),
        ("GET", f"{p}/tasks?cursor=0.18446744073709551616.x", None, 400, "invalid", "cursor"),
        ("GET", f"{p}/tasks?cursor=0.1.~0", None, 400, "invalid", "cursor"),
        ("GET", f"{p}/tasks?cursor=0.1.{'x' * 129}", None, 400, "invalid", "cursor"),
        ("GET", f"{p}/tasks?limit=1%00", None, 400, "invalid", "limit"),
        ("GET", f"{p}/tasks?state=dead%00", None, 400, "invalid", "state"),
        ("GET", f"{p}%00", None, 400, "invalid", "queue"),
        ("DELETE", f"{p}/tasks/none%00x", None, 400, "invalid", "id"),
        ("POST", f"{p}/pause%00", None, 404, "not_found", ""),
        ("PATCH", f"{p}/tasks/none", {"in_ms": 1}, 404, "not_found", "id"),
        ("PATCH", f"{p}/tasks/none", {}, 400, "invalid", None),
        ("DELETE", f"{p}/tasks/none", None, 404, "not_found", "id"),
        ("POST", f"{p}/tasks/none/run", None, 404, "not_found", "id"),
        ("POST", f"{p}/tasks/none/replay", None, 404, "not_found", "id"),
        ("POST", f"{p}/replay?limit=0", {}, 400, "invalid", "limit"),
        ("POST", f"{p}/replay?most=1", {}, 400, "invalid", "most"),
        ("POST", f"{p}/replay?limit=1&limit=2", {}, 400, "invalid", "limit"),
        ("POST", f"{p}/reserve", {}, 400, "invalid", "queue"),
        ("POST", f"{q}/reserve", {"limit": 101}, 400, "invalid", "limit"),
        ("POST", f"{q}/ack", {"tasks": []}, 400, "invalid", "tasks"),
        ("POST", f"{q}/ack", {"tasks": [{"id": "x", "token": "no"}]}, 400, "invalid",
         "tasks[0].token"),
        ("POST", f"{q}/ack", {"tasks": [{"id": "x", "token": "%016x-1" % 5}]}, 410, "stale",
         "token"),
    ]
    for method, path, body, status, code, field in rows:
        got, answer = a.call(method, path, body)
        row = f"{method} {path} {body}"
        equal(got, status, row + f" {answer}")
        equal(answer["error"]["code"], code, row)
        assert answer["error"]["message"], row
        if field is not None:
            equal(answer["error"].get("field", ""), field, row)


@test("a path answers 405 and Allow to methods that it lacks, whatever else is wrong")
def methods():
    p = pull()
    for method, path, allow in (("PATCH", p, "GET, HEAD, PUT, DELETE"), ("OPTIONS", f"{p}/tasks/x",
                                "PUT, GET, HEAD, PATCH, DELETE"),
                                ("POST", "/", "GET, HEAD"), ("PUT", "/healthz", "GET, HEAD")):
        status, headers, _ = a.raw(method, path)
        equal((status, headers["Allow"]), (405, allow), f"{method} {path}")
    # An empty object is accepted.
    equal(a.call("POST", f"{p}/pause", " { }\n")[0], 200)
    equal(a.raw("GET", "/healthz?x=1")[0], 200)


def described():
    """Return: the methods of each path in openapi.yaml."""
    paths, path = {}, None
    with open(os.path.join(DAEMON, "http/openapi.yaml")) as f:
        for line in f.read().split("\npaths:\n")[1].split("\ncomponents:\n")[0].split("\n"):
            if re.match(r"  /.*:$", line):
                path = line.strip()[:-1]
                paths[path] = set()
            elif re.match(r"    (get|put|post|patch|delete):$", line):
                paths[path].add(line.strip()[:-1].upper())
    return paths


def written():
    """Return: the same from routes.c, without the paths outside of /v1."""
    paths = {}
    with open(os.path.join(DAEMON, "http/routes.c")) as f:
        rows = re.findall(r"\{ (\d), METHOD_(\w+), (\S+), (\S+),", f.read())
    for words, method, second, fourth in rows:
        all_ = ["", "{queue}", second.strip('"'), "{id}", fourth.strip('"')][:int(words) + 1]
        paths.setdefault("/v1/queues" + "/".join(all_), set()).add(method)
    return paths


@test("openapi.yaml has exactly the paths and methods that the daemon has")
def openapi():
    there = described()
    with open(os.path.join(DAEMON, "http/openapi.yaml")) as f:
        answers = f.read().split("      responses:")[1:]
    # Any request may lack a token, or come from another site.
    for text in answers[:-4] + answers[-2:-1]:
        assert re.match(r" \*reported|.*\n        default:", text), text
    equal({p: m for p, m in there.items() if p.startswith("/v1/")}, written())
    for path, methods in there.items():
        url = path.replace("{queue}", "none").replace("{id}", "none")
        for method in ("GET", "PUT", "POST", "PATCH", "DELETE"):
            # The request does nothing, because its body is not JSON.
            status, _, text = a.raw(method, url, None if method == "GET" else "{")
            known = status != 405 and "no such path" not in text
            equal(known, method in methods, f"{method} {path}: {status}")
    with open(os.path.join(HERE, "../../doc/man/twheeld.8")) as f:
        page = f.read()
    for word in re.findall(r"/[a-z]+", " ".join(there)):
        assert word in page, f"twheeld.8 has no {word}"


@test("each law D1 to D19 has a test that names it")
def laws():
    named = set()
    for name in os.listdir(HERE):
        if name.endswith("_test.py"):
            with open(os.path.join(HERE, name)) as f:
                for sentence in re.findall(r'(?m)^@test\("(.*)"\)$', f.read()):
                    named.update(re.findall(r"\bD\d+\b", sentence))
    equal(named, {f"D{n}" for n in range(1, 20)})


@test("a request above 4 MiB is refused: 413")
def too_large():
    status, answer = one.client().call("POST", f"{push()}/tasks", "x" * (5 << 20))
    equal((status, answer["error"]["code"]), (413, "too_large"))


@test("a request that changes something needs Content-Type JSON, and our own Origin if it has one")
def safe_requests():
    path = f"{push()}/pause"
    equal(a.call("POST", path, "", {"Content-Type": None})[0], 400)
    for kind, want in (("text/plain", 400), ("application/jsonp", 400), ("Application/JSON", 200),
                       ("application/json; charset=utf-8", 200), ("application/json;x", 200)):
        equal(a.call("POST", path, "", {"Content-Type": kind})[0], want, kind)
    equal(a.call("POST", path, "", {"Origin": "http://evil.example"})[0], 403)
    equal(a.call("POST", path, "", {"Origin": "http://localhost"})[0], 200)


def over_tcp():
    """Return: a daemon, and a function that sends bytes to it and returns the answer."""
    port = free_ports()[0]
    d = Daemon(redis, listen=f"127.0.0.1:{port}")

    def send(data):
        with socket.create_connection(("127.0.0.1", port)) as s:
            s.settimeout(HANG)
            s.sendall(data.replace(b"\n", b"\r\n", data.split(b"\n\n")[0].count(b"\n") + 2))
            answer = http.client.HTTPResponse(s)
            answer.begin()
            return answer.status, answer.headers, answer.read().decode()
    return d, send


@test("HTTP: DELETE needs no Content-Type, URLs may be absolute, two body lengths are refused")
def http_odds():
    d, send = over_tcp()
    p = push()
    path = p.encode()
    put(p, "x", callback={"url": "http://127.0.0.1/"}, **{"in": "1h"})
    begin = b" HTTP/1.1\nHost: localhost\n"
    equal(send(b"DELETE " + path + b"/tasks/x" + begin + b"\n")[0], 200)
    equal(send(b"DELETE " + path + b"/tasks/x" + begin + b"Content-Type: text/plain\n\n")[0], 400)
    equal(send(b"DELETE " + path + b"/tasks/x" + begin + b"Content-Length: 2\n\n{}")[0], 400)
    equal(send(b"GET http://localhost" + path + begin + b"\n")[0], 200)
    equal(send(b"GET http://localhost" + begin + b"\n")[0], 404)
    post = b"POST " + path + b"/tasks" + begin + b"Content-Type: application/json\n"
    body = b'{"in":"1h","callback":{"url":"http://127.0.0.1/"}}'
    chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    equal(send(post + b"Transfer-Encoding: chunked\n\n" + chunk)[0], 201)
    before = a.call("GET", p)[1]["scheduled"]
    for more, text in ((b"Content-Length: 4\nTransfer-Encoding: chunked\n", chunk),
                       (b"Content-Length: %d\nContent-Length: 1\n" % len(body), body),
                       (b"Content-Length: %d\n" % len(body) * 2, body)):
        status, head, answer = send(post + more + b"\n" + text)
        equal((status, head["Connection"]), (400, "close"), str(more))
        assert "Content-Length" in answer, answer
    status, _, answer = send(post + b"Content-Encoding: gzip\nContent-Length: %d\n\n" % len(body) + body)
    equal((status, json.loads(answer)["error"]["field"]), (400, "Content-Encoding"))
    equal(a.call("GET", p)[1]["scheduled"], before)
    equal(d.end(), 0)


@test("an id may contain . @ = / + ~, escaped in a path or not, and is never a step of the path")
def ids():
    p, q = push(), pull()
    for name in ("order.17", "a@b.example", "a=b", "a/b/c", "1+1", "~x", "...", "/", "a%2Fb"):
        want = 400 if "%" in name else 200
        plain, escaped = name.replace("/", "%2F"), "".join(f"%{ord(c):02x}" for c in name)
        if want == 200:
            put(p, plain, callback={"url": sink.url + "/"}, **{"in": "1h"})
            for where in (plain, escaped):
                equal(a.call("GET", f"{p}/tasks/{where}")[1]["id"], name, where)
            equal(a.call("POST", f"{p}/tasks/{escaped}/run")[0], 200)
            sink.wait_for(name)
        equal(a.call("POST", f"{q}/tasks", {"id": name})[0], want + (want == 200))
    for name in (".", "..", "a b", "a\1b"):
        equal(a.call("POST", f"{q}/tasks", {"id": name})[0], 400, name)
    tasks = []
    while len(tasks) < 8:
        tasks += reserve(q, limit=10)
    equal(a.call("POST", f"{q}/ack", {"tasks": [
        {"id": t["id"], "token": t["token"]} for t in tasks]})[0], 200)
    for path in (f"{p}/tasks/a%01b", f"{p}/tasks/a//b", "/v1%2Fqueues", f"{p}%2Ftasks"):
        assert a.raw("GET", path)[0] in (400, 404), path


@test("a queue is made once, by one of several daemons, and keeps the lanes it was made with")
def made_once():
    for n in range(10):
        path, answers = f"/v1/queues/made-{n}", []

        def make(d, lanes):
            answers.append((d.client().call("PUT", path, {"lanes": lanes}), lanes))
        workers = [threading.Thread(target=make, args=x) for x in ((one, 3), (two, 5))]
        for w in workers:
            w.start()
        for w in workers:
            w.join()
        made = [(x, lanes) for (status, x), lanes in answers if status == 201]
        equal(len(made), 1, str(answers))
        for c in (a, b):
            equal(c.call("GET", path)[1]["lanes"], made[0][1])


@test("put answers created, replaced, kept, exists; a batch has one answer each, in order")
def put_results():
    q = pull()
    before = now_ms()
    answer = put(q, "x", **{"in": "1h"})
    equal((answer["result"], answer["state"]), ("created", "scheduled"))
    assert before - 1 <= answer["due"] - 3600000 <= now_ms() + 1, answer
    first = answer["version"]
    answer = put(q, "x", **{"in": "2h", "payload": {"new": True}})
    equal(answer["result"], "replaced")
    assert answer["version"] != first
    due = answer["due"]
    answer = put(q, "x", **{"in": "3h", "if_exists": "keep"})
    equal((answer["result"], answer["due"]), ("kept", due))
    status, answer = a.call("PUT", f"{q}/tasks/x", {"if_exists": "fail"})
    equal((status, answer["error"]["code"]), (409, "exists"))
    status, answer = a.call("GET", f"{q}/tasks/x")
    equal((status, answer["payload"], answer["due"]), (200, {"new": True}, due))
    status, answer = a.call("POST", f"{q}/tasks", {"tasks": [
        {"id": "b1", "in": "1h"}, {"id": "b!", "in": "1h"}, {"in": "1h"},
        {"id": "x", "if_exists": "fail"}]})
    equal(status, 200)
    one_, bad, made_up, exists = answer["tasks"]
    equal((one_["id"], one_["result"]), ("b1", "created"))
    equal((bad["error"]["code"], bad["error"]["field"]), ("invalid", "id"))
    equal(len(made_up["id"]), 32)
    equal(exists["error"]["code"], "exists")


@test("lists go page by page through all lanes, and show each task once")
def lists():
    q = pull(lanes=3)
    a.call("POST", f"{q}/tasks", {"tasks": [{"id": f"t{n}", "in": "1h"} for n in range(25)]})
    seen, cursor = [], ""
    for _ in range(20):
        status, answer = a.call("GET", f"{q}/tasks?limit=10" +
                                (f"&cursor={cursor}" if cursor else ""))
        equal(status, 200)
        seen += [t["id"] for t in answer["tasks"]]
        cursor = answer.get("cursor")
        if not cursor:
            break
    equal(sorted(seen), sorted(f"t{n}" for n in range(25)))
    counts = a.call("GET", q)[1]
    equal((counts["scheduled"], counts["forecast"]["60s"], counts["forecast"]["24h"]),
          (25, 0, 25))
    # Counts may be a second old, but pause and purge show their effect at once.
    for verb, body, want in (("pause", {}, (True, 25)), ("resume", {}, (False, 25)),
                             ("purge", {"state": "scheduled"}, (False, 0))):
        a.call("GET", "/v1/queues")
        equal(a.call("POST", f"{q}/{verb}", body)[0], 200)
        shown, = [x for x in a.call("GET", "/v1/queues")[1]["queues"]
                  if x["queue"] == q.split("/")[-1]]
        equal((shown["paused"], shown["scheduled"]), want, verb)


@test("a client that deletes while it lists, page by page, finds every task")
def list_and_delete():
    q = pull(lanes=2)
    for n in range(0, 600, 200):
        a.call("POST", f"{q}/tasks", {"tasks": [
            {"id": f"t{m}", "at": 4000000000000 + m // 150} for m in range(n, n + 200)]})
    seen, cursor = [], ""
    while True:
        answer = a.call("GET", f"{q}/tasks?limit=50" + (cursor and f"&cursor={cursor}"))[1]
        for task in answer["tasks"]:
            equal(a.call("DELETE", f"{q}/tasks/{task['id']}")[0], 200)
            seen.append(task["id"])
        cursor = answer.get("cursor")
        if not cursor:
            break
    equal((len(seen), len(set(seen)), a.call("GET", q)[1]["scheduled"]), (600, 600, 0))


@test("DELETE of a queue: 409 if it has tasks; otherwise all daemons drop it, and it stays away")
def remove_queue():
    own = Redis()
    d, e = Daemon(own), Daemon(own)
    c, f = d.client(), e.client()
    p = "/v1/queues/old"
    equal(c.call("PUT", p, {"mode": "pull", "lanes": 3, "ahead": "5s"})[0], 201)
    wait_until(lambda: f.raw("GET", p)[0] == 200)
    put(p, "x", c, **{"in": "1h"})
    status, answer = c.call("DELETE", p)
    equal((status, answer["error"]["code"], answer["error"]["field"]), (409, "not_empty", "queue"))
    put(p, "y", f, **{"in": "1h"})
    for task in "xy":
        equal(f.call("DELETE", f"{p}/tasks/{task}")[0], 200)
    workers = []
    worker = threading.Thread(target=lambda: workers.append(
        e.client().call("POST", p + "/reserve", {"wait": "20s"})))
    worker.start()
    settle(0.2)
    equal(c.call("DELETE", p + "?purge=maybe")[0], 400)
    equal(c.call("DELETE", p), (200, {"queue": "old", "removed": 0}))
    wait_until(lambda: f.raw("GET", p)[0] == 404, 1)
    worker.join()
    equal(workers, [(200, {"tasks": []})])
    for x in (c, f):
        for method, path, body in (("GET", p, None), ("PUT", p + "/tasks/z", {}), ("DELETE", p, None)):
            equal(x.call(method, path, body)[0], 404, path)
        equal(x.call("GET", "/v1/queues")[1]["queues"], [])
    # A daemon that has not heard of it does not restore it, and takes no tasks for it.
    e.process.send_signal(signal.SIGSTOP)
    equal(c.call("PUT", "/v1/queues/q2", {"mode": "pull"})[0], 201)
    equal(c.call("DELETE", "/v1/queues/q2")[0], 200)
    e.process.send_signal(signal.SIGCONT)
    settle(0.5)
    equal(f.raw("GET", "/v1/queues/q2")[0], 404)
    equal(own.ask("HLEN", "tw:queues"), "0")
    left = [k.decode() for k in own.run("KEYS", "tw:{*")]
    assert left and all(k.endswith(":ctl") for k in left), left
    # The queue can be made again with other lanes, and works.
    equal(c.call("PUT", p, {"mode": "pull", "lanes": 2})[0], 201)
    for n in range(20):
        put(p, f"n{n}", f if n % 2 else c)
    tasks = []
    while len(tasks) < 20:
        tasks += reserve(p, c, limit=20)
    equal(f.call("GET", p)[1]["lanes"], 2)
    equal((d.end(), e.end()), (0, 0), d.text())


@test("D13: queues that a client makes and removes in a loop leave no memory behind in a daemon")
def removed_memory():
    own = Redis()
    d, e = Daemon(own), Daemon(own)
    c = d.client()

    def loop(times):
        for n in range(times):
            equal(c.call("PUT", f"/v1/queues/r{n}", {"lanes": 64})[0], 201)
            equal(c.call("DELETE", f"/v1/queues/r{n}")[0], 200)

    def sizes():
        return [resident(x.process.pid) for x in (d, e)]
    loop(100)
    # Each heartbeat frees the queues that nothing uses any more.
    settle(3)
    before = sizes()
    loop(100)
    settle(3)
    loop(100)
    for was, now in zip(before, sizes()):
        # 100 such queues take some 10 MiB.
        assert now - was < 5, (before, now)
    equal((d.end(), e.end()), (0, 0))


@test("a queue that is removed and made again before a daemon has looked: that daemon serves the "
      "new one, with its lanes and its mode")
def remade_queue():
    own = Redis()
    d, e = Daemon(own), Daemon(own)
    c, f = d.client(), e.client()
    for n, settings in enumerate(({"mode": "pull", "lanes": 7}, {"mode": "push", "lanes": 3})):
        p = f"/v1/queues/again{n}"
        equal(c.call("PUT", p, {"mode": "pull", "lanes": 3})[0], 201)
        wait_until(lambda p=p: f.raw("GET", p)[0] == 200)
        e.process.send_signal(signal.SIGSTOP)
        equal(c.call("DELETE", p)[0], 200)
        equal(c.call("PUT", p, settings)[0], 201)
        e.process.send_signal(signal.SIGCONT)
        wait_until(lambda p=p, s=settings: s.items() <= f.call("GET", p)[1].items(), 5)
        more = {"callback": {"url": sink.url + "/"}} if settings["mode"] == "push" else {}
        for k in range(20):
            put(p, f"k{k}", f, **{"in": "1h"}, **more)
            equal(c.call("DELETE", f"{p}/tasks/k{k}")[0], 200)
    equal((d.end(), e.end()), (0, 0), d.text())


@test("a queue that is removed and then made again at a daemon that has not looked has nothing of "
      "the old one")
def remade():
    own = Redis()
    d, e = Daemon(own), Daemon(own)
    c, p, answers = d.client(), "/v1/queues/again", []

    def make():
        answers.append(e.client().call("PUT", p, {"mode": "push", "lanes": 2}))
    for _ in range(5):
        equal(c.call("PUT", p, {"mode": "pull", "lanes": 3, "rate": {"limit": 5}})[0], 201)
        wait_until(lambda: e.client().raw("GET", p)[0] == 200)
        e.process.send_signal(signal.SIGSTOP)
        equal(c.call("DELETE", p)[0], 200)
        thread = threading.Thread(target=make)
        thread.start()
        # The request is there when the daemon goes on.
        settle(0.1)
        e.process.send_signal(signal.SIGCONT)
        thread.join()
        status, answer = answers.pop()
        equal((status, answer.get("lanes"), answer.get("rate")), (201, 2, None), answer)
        wait_until(lambda: c.call("GET", p)[1].get("lanes") == 2)
        equal(c.call("DELETE", p)[0], 200)
        wait_until(lambda: e.client().raw("GET", p)[0] == 404)
    equal((d.end(), e.end()), (0, 0))


@test("DELETE with purge=true removes the tasks of a queue, even held and running ones; none "
      "begins")
def purge_queue():
    own, other = Redis(), Sink()
    d, e = Daemon(own, "--lease=6s"), Daemon(own, "--lease=6s")
    c, f = d.client(), e.client()
    p = "/v1/queues/p"
    url = {"url": other.url + "/"}

    def purge_held(n):
        equal(c.call("PUT", p, {"mode": "push", "ahead": "5s"})[0], 201)
        runs, *ended = names = [f"{n}-{x}" for x in ("runs", "dead", "done")]
        put(p, runs, c, callback={"url": other.url + "/hold"}, timeout="10min")
        other.wait_for(runs)
        put(p, ended[0], c, callback={"url": other.url + "/status/410"})
        put(p, ended[1], c, callback=url, keep="1h")
        wait_until(lambda: (x := c.call("GET", p)[1])["dead"] == x["done"] == 1)
        due = int(now_ms()) + min(1500 * (n + 1), 4500)
        c.call("POST", f"{p}/tasks", {"tasks": [
            {"id": f"h{n}-{m}", "at": due, "callback": url} for m in range(300)]})
        wait_until(lambda: now_ms() >= due or d.metric("held") + e.metric("held") > 300)
        status, answer = f.call("DELETE", p + "?purge=true")
        equal(status, 200, answer)
        late = now_ms() >= due
        wait_until(lambda: c.raw("GET", p)[0] == 404, 1)
        other.let(runs)
        if late:
            raise Slow("tasks were due before they were removed")
        equal(answer, {"queue": "p", "removed": 303})
        return n, due, names

    n, due, names = rounds(purge_held)
    equal(c.call("PUT", p, {"mode": "push"})[0], 201)
    time.sleep(max(0, due + 500 - now_ms()) / 1000)
    equal([r["id"] for r in other.received() if r["id"].startswith(f"h{n}-")], [])
    equal([len(other.received(x)) for x in names], [1, 1, 1])
    equal(c.call("GET", p)[1]["paused"], False)
    put(p, "again", f, callback={"url": other.url + "/"})
    other.wait_for("again")
    wait_until(lambda: d.metric("held") + e.metric("held") == 0)
    equal((d.end(), e.end()), (0, 0), d.text())


def leave(d, request, body=b""):
    """Send a request that ends before the daemon reads it. Return: the socket, to be closed once
    the request shows an effect."""
    d.process.send_signal(signal.SIGSTOP)
    s = socket.socket(socket.AF_UNIX)
    s.connect(d.path)
    s.sendall(f"{request} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
              f"\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    s.shutdown(socket.SHUT_WR)
    d.process.send_signal(signal.SIGCONT)
    return s


@test("what a client wants removed is removed no longer than the client waits, and can be again")
def purge_left():
    _, d, c = alone(mode="pull", lanes=1)
    p, number = "/v1/queues/s", 20000
    for first in range(0, number, 1000):
        c.call("POST", f"{p}/tasks", {"tasks": [
            {"id": f"t{n}", "in": "1h"} for n in range(first, first + 1000)]})
    for request in (f"DELETE {p}?purge=true", f"POST {p}/purge"):
        body = b'{"state":"scheduled"}' if request.startswith("POST") else b""
        with leave(d, request, body):
            wait_until(lambda number=number: c.call("GET", p)[1]["scheduled"] < number)
        settle(0.3)
        left = c.call("GET", p)[1]["scheduled"]
        # The daemon removes 128 at a time, and learns of the end of the connection meanwhile.
        assert number - left <= 4 * 128, (request, number, left)
        settle(0.3)
        equal(c.call("GET", p)[1]["scheduled"], left)
        number = left
    equal(c.call("DELETE", f"{p}?purge=true"), (200, {"queue": "s", "removed": number}))
    equal(d.end(), 0)


@test("purge removes dead, done or scheduled tasks, by age and by a prefix of their ids")
def purge():
    q = pull(lanes=2)
    for first in range(0, 1500, 500):
        a.call("POST", f"{q}/tasks", {"tasks": [
            {"id": f"{'ab'[n % 2]}.{n}", "at": 4000000000000 + n} for n in range(first, first + 500)]})

    def removed(**want):
        status, answer = a.call("POST", f"{q}/purge", want)
        equal(status, 200, str(answer))
        return answer["removed"]
    for want, field in (({}, "state"), ({"state": "leased"}, "state"), ({"state": "x"}, "state"),
                        ({"state": "dead", "before": "soon"}, "before"),
                        ({"state": "dead", "prefix": "a b"}, "prefix"),
                        ({"state": "dead", "all": True}, "all")):
        status, answer = a.call("POST", f"{q}/purge", want)
        equal((status, answer["error"]["field"]), (400, field))
    equal(removed(state="dead"), 0)
    equal(removed(state="scheduled", before=4000000000100, prefix="a."), 50)
    equal(removed(state="scheduled", before=4000000000100), 50)
    equal(removed(state="scheduled", prefix="b."), 700)
    equal(a.call("GET", q)[1]["scheduled"], 700)
    for n in range(4):
        put(q, f"k{n}", keep="1h")
    tasks = []
    while len(tasks) < 4:
        tasks += reserve(q, limit=4)
    for n, task in enumerate(tasks):
        equal(report(q, *(("ack", task) if n % 2 else ("nack", task)),
                     **({} if n % 2 else {"dead": True}))[0], 200)
    equal((removed(state="done", before=int(now_ms()) - 60000),
           removed(state="done", before=int(now_ms()) + 1000), removed(state="dead")), (0, 2, 2))
    equal(removed(state="scheduled"), 700)


@test("/healthz, /readyz, /metrics and the page are served")
def probes():
    for path, word in (("/healthz", "alive"), ("/readyz", "ready"),
                       ("/metrics", "twheeld_tasks{"), ("/", "<html")):
        status, head, text = a.raw("GET", path)
        equal(status, 200, path)
        assert word in text, path
    assert "Content-Security-Policy" in a.raw("GET", "/")[1]
    wait_until(lambda: one.metric("members") == 2, 3)


# ---- Push ----

@test("D1, D2, D3: each task runs once, and never before the due time that the client was told")
def on_time():
    path, begin = push(), int(now_ms()) + 300
    answers = a.call("POST", f"{path}/tasks", {"tasks": [
        {"id": f"on_time-{n}", "at": begin + random.randrange(2500),
         "callback": {"url": sink.url + "/"}} for n in range(500)]})[1]["tasks"]
    due = {t["id"]: t["due"] for t in answers}
    wait_until(lambda: len([r for r in sink.received() if r["id"] in due]) >= 500)
    settle(0.2)
    got = [r for r in sink.received() if r["id"] in due]
    equal(len(got), 500, "runs")
    equal(len({r["id"] for r in got}), 500, "tasks")
    late = sorted(r["at"] - due[r["id"]] for r in got)
    assert late[0] >= 0, f"early by {-late[0]} ms"
    print(f"# lateness p50 {late[250]:.2f} ms, p99 {late[495]:.2f} ms, last {late[-1]:.2f} ms")
    # Other jobs of the machine may delay the endpoint for a while.
    assert late[450] < 250 + spare(), f"p90 {late[450]} ms"
    wait_until(lambda: state(path, "on_time-0") is None)


@test("a callback has the task's headers and payload, and the daemon's headers")
def callback_headers():
    path = push()
    answer = put(path, "h1", callback={"url": sink.url + "/x", "method": "PUT",
                                       "headers": {"X-Mine": "7"}}, payload={"a": [1, 2]})
    r = sink.wait_for("h1")[0]
    equal((r["method"], r["path"], json.loads(r["body"])), ("PUT", "/x", {"a": [1, 2]}))
    head = r["head"]
    name = path.split("/")[-1]
    equal(head["idempotency-key"], f"{name}/h1/{answer['version']}/{answer['due']}")
    equal((head["x-mine"], head["twheel-queue"], head["twheel-attempt"]), ("7", name, "1"))
    equal(head["content-type"], "application/json")
    equal(int(head["twheel-scheduled-at"]), answer["due"])


@test("D9: retries back off, jitter only adds to the delay, and all attempts have one key")
def retries():
    path = push()
    put(path, "r1", callback={"url": sink.url + "/fail/2"},
        retry={"limit": 5, "base": "200ms", "cap": "1s", "jitter": 0.2})
    got = sink.wait_for("r1", 3)
    equal([r["attempt"] for r in got], [1, 2, 3])
    equal(len({r["head"]["idempotency-key"] for r in got}), 1, "keys")
    first, second = got[1]["at"] - got[0]["at"], got[2]["at"] - got[1]["at"]
    assert 200 <= first < 200 * 1.2 + 150 + spare(), first
    assert 400 <= second < 400 * 1.2 + 150 + spare(), second
    wait_until(lambda: state(path, "r1") is None)


@test("D9: a Retry-After that is longer than the backoff is obeyed")
def retry_after():
    path = push()
    put(path, "ra", callback={"url": sink.url + "/after/1"}, retry={"base": "100ms"})
    got = sink.wait_for("ra", 2)
    gap = got[1]["at"] - got[0]["at"]
    assert 1000 <= gap < 1400 + spare(), gap


@test("D10: 410 and exhausted attempts kill a task; dead tasks are listed with their error, replayed")
def dead_letters():
    path = push()
    put(path, "gone", callback={"url": sink.url + "/status/410"})
    put(path, "used", callback={"url": sink.url + "/status/500"},
        retry={"limit": 2, "base": "100ms"})
    wait_until(lambda: state(path, "gone") == "dead" and state(path, "used") == "dead")
    equal(len(sink.received("used")), 2)
    dead = a.call("GET", f"{path}/tasks?state=dead")[1]["tasks"]
    equal(sorted(t["id"] for t in dead), ["gone", "used"])
    assert all("410" in t["error"] or "500" in t["error"] for t in dead), dead
    equal(a.call("POST", f"{path}/tasks/gone/replay")[0], 200)
    sink.wait_for("gone", 2)
    keys = {r["head"]["idempotency-key"] for r in sink.received("gone")}
    equal(len(keys), 1, "a replay has the key of its run")
    wait_until(lambda: state(path, "gone") == "dead")
    equal(a.call("POST", f"{path}/replay?limit=10"), (200, {"replayed": 2}))
    sink.wait_for("used", 3)


@test("every: runs at multiples of the first due time; retries belong to one run")
def periodic():
    path = push()

    def run(n):
        task = f"p{n}"
        due = put(path, task, callback={"url": sink.url + "/"}, every="300ms",
                  **{"in": "200ms"})["due"]
        got = sink.wait_for(task, 4)
        assert a.call("DELETE", f"{path}/tasks/{task}")[0] in (200, 202)
        at = [int(r["head"]["twheel-scheduled-at"]) - due for r in got[:4]]
        assert all(r["at"] >= int(r["head"]["twheel-scheduled-at"]) for r in got), "early"
        equal([x % 300 for x in at], [0] * 4)
        equal(len({r["head"]["idempotency-key"] for r in got[:4]}), 4, "a key for each run")
        settle(0.4)
        count = len(sink.received(task))
        time.sleep(0.7)
        equal(len(sink.received(task)), count, "runs after the cancellation")
        # Runs that fall due before the report of another one are skipped.
        if at != [0, 300, 600, 900]:
            raise Slow(f"runs at {at}")
    rounds(run)


@test("update changes all but the due time and the phase; registering again after a deploy runs "
      "nothing")
def update():
    path = push()
    url = {"url": sink.url + "/"}
    first = put(path, "u", callback=url, every="1h", payload="old", **{"in": "10min"})
    for every in ("1h", "2h"):
        got = put(path, "u", callback=url, every=every, payload="new", if_exists="update", keep="1h")
        equal((got["result"], got["state"], got["due"]), ("updated", "scheduled", first["due"]))
    assert got["version"] > first["version"]
    task = a.call("GET", f"{path}/tasks/u")[1]
    equal((task["every"], task["payload"], task["keep"], task["due"], task["first_due"]),
          (7200000, "new", 3600000, first["due"], first["due"]))

    # A run that may have begun keeps its key, and its next attempt has the new body.
    def again(n):
        task = f"again{n}"
        put(path, task, callback={"url": sink.url + "/status/500"}, payload="old",
            retry={"limit": 9, "base": f"{1500 << n}ms", "jitter": 0})
        wait_until(lambda: a.call("GET", f"{path}/tasks/{task}")[1]["attempts"] >= 1)
        there = a.call("GET", f"{path}/tasks/{task}")[1]
        put(path, task, callback=url, payload="new", if_exists="update")
        in_time(there["due"], "the update")
        equal(there["attempts"], 1)
        got = sink.wait_for(task, 2)
        equal([json.loads(r["body"]) for r in got], ["old", "new"])
        equal(len({r["head"]["idempotency-key"] for r in got}), 1)
    rounds(again, 6)
    # A task that is done or dead is replaced, and one that does not exist is created.
    put(path, "done", callback=url, keep="1h")
    wait_until(lambda: state(path, "done") == "done")
    equal(put(path, "done", callback=url, if_exists="update", **{"in": "1h"})["result"], "replaced")
    equal(put(path, "none", callback=url, if_exists="update", **{"in": "1h"})["result"], "created")
    answer = a.call("POST", f"{path}/tasks", {"tasks": [
        {"id": "twice", "callback": url, "in": "1h"},
        {"id": "twice", "callback": url, "in": "2h", "if_exists": "update"}]})[1]["tasks"]
    equal(answer[0]["due"], answer[1]["due"])


@test("update reaches a task that a daemon holds, and leaves a running attempt alone")
def update_held():
    path = push(ahead="5s")
    url = {"url": sink.url + "/"}

    def change_held(n):
        tasks = [f"uph-{n}-{m}" for m in range(6)]
        due = {t: put(path, t, callback=url, payload="old", **{"in": "3s"})["due"] for t in tasks}
        first = min(due.values())
        wait_in_time(first, lambda: all(state(path, t) == "leased" for t in tasks))
        answers = [put(path, t, b if m % 2 else a, callback=url, payload="new", if_exists="update")
                   for m, t in enumerate(tasks)]
        in_time(first, "the updates")
        for t, answer in zip(tasks, answers):
            equal((answer["result"], answer.get("was"), answer["due"]), ("updated", None, due[t]))
            got = sink.wait_for(t)
            assert due[t] <= got[0]["at"] < due[t] + 1000 + spare(), got[0]["at"] - due[t]
            equal([json.loads(r["body"]) for r in got], ["new"])
    rounds(change_held)
    put(path, "upr", callback={"url": sink.url + "/hold"}, timeout="10min", payload="old",
        every="1s")
    sink.wait_for("upr")
    answer = put(path, "upr", callback=url, payload="new", every="1s", if_exists="update")
    equal((answer["result"], answer["was"]), ("updated", "leased"))
    sink.let("upr")
    got = sink.wait_for("upr", 2)
    equal([json.loads(r["body"]) for r in got[:2]], ["old", "new"])
    equal((int(got[1]["head"]["twheel-scheduled-at"]) -
           int(got[0]["head"]["twheel-scheduled-at"])) % 1000, 0)
    a.call("DELETE", f"{path}/tasks/upr")


@test("D12: an overdue task runs, is skipped or is buried, as its late policy says")
def late():
    path = push()
    past = int(now_ms()) - 60000
    url = {"url": sink.url + "/"}
    for then in ("run", "skip", "dead"):
        put(path, f"late-{then}", at=past, callback=url, keep="1h",
            late={"after": "5s", "then": then})
    sink.wait_for("late-run")
    wait_until(lambda: state(path, "late-dead") == "dead")
    wait_until(lambda: state(path, "late-skip") == "done")
    equal(a.call("GET", f"{path}/tasks/late-dead")[1]["error"], "missed")
    equal((sink.received("late-skip"), sink.received("late-dead")), ([], []))


@test("D12: tasks that fell due while no daemon ran run within the limits, earliest first")
def catch_up():
    def run(_):
        own, d, c = alone(mode="push", lanes=1)
        other = Sink()
        due = int(now_ms()) + 700
        c.call("POST", "/v1/queues/s/tasks", {"tasks": [
            {"id": f"cu-{n}", "at": due + n, "callback": {"url": other.url + "/slow/50"}}
            for n in range(60)]})
        equal(d.end(), 0)
        in_time(due, "the end of the daemon")
        time.sleep(max(0, due + 300 - now_ms()) / 1000)
        e = Daemon(own, "--callback-concurrency=4")
        wait_until(lambda: len(other.received()) == 60, 20)
        wait_until(lambda: e.client().call("GET", "/v1/queues/s")[1]["leased"] == 0)
        got = sorted(other.received(), key=lambda r: r["at"])
        equal({r["attempt"] for r in got}, {1})
        most = max(sum(1 for y in got if x["at"] <= y["at"] < x["at"] + 45) for x in got)
        assert most <= 4, f"{most} requests at once"
        order = [int(r["id"][3:]) for r in got]
        assert all(abs(place - n) <= 4 for place, n in enumerate(order)), order
        equal(e.end(), 0)
    rounds(run)


@test("late applies at each take without an attempt, even after a worker that died")
def late_after_death():
    q = pull()

    def run(n):
        name, after, lease = f"ld{n}", 500 << n, 1 << n
        due = put(q, name, keep="1h", late={"after": f"{after}ms", "then": "skip"})["due"]
        tasks = reserve(q, wait="5s", lease=f"{lease}s", seconds=6)
        if not tasks:
            in_time(due + after, "the worker")
        task, = tasks
        equal((task["id"], task["attempt"]), (name, 1))
        wait_until(lambda: state(q, name) != "leased")
        equal(reserve(q, wait="2s"), [])
        answer = a.call("GET", f"{q}/tasks/{name}")[1]
        equal((answer["state"], answer["attempts"], answer["lost"], answer["error"]),
              ("done", 0, 1, "missed"))
    rounds(run, 6)


@test("keep: a done task stays readable for this long, then it is removed")
def kept():
    path = push()

    def run(n):
        there = []

        def ended():
            there.append(a.call("GET", f"{path}/tasks/k{n}")[1])
            return there[-1].get("state") in ("done", None)
        put(path, f"k{n}", callback={"url": sink.url + "/"}, keep="1500ms")
        wait_until(ended)
        task = there[-1]
        if "state" not in task:
            raise Slow("the task was removed before anybody asked for it again")
        assert 0 <= task["ended"] - task["due"] < 1500 + spare(), task
        wait_until(lambda: state(path, f"k{n}") is None)
        assert now_ms() >= task["ended"] + 1500, task
    rounds(run)


@test("D14: a slow endpoint delays no other endpoint")
def slow_endpoint():
    path, other = push(), Sink()
    # 33 requests are more than one host may have at once.
    a.call("POST", f"{path}/tasks", {"tasks": [
        {"id": f"slow-{n}", "callback": {"url": other.url + "/slow/1500"}, "timeout": "10min"}
        for n in range(80)]})
    settle(0.3)
    due = {}
    for n in range(20):
        due[f"fast-{n}"] = put(path, f"fast-{n}", callback={"url": sink.url + "/"},
                               **{"in": "100ms"})["due"]
    for task, at in due.items():
        r = sink.wait_for(task)[0]
        assert r["at"] - at < 400 + spare(), f"{task}: {r['at'] - at} ms late"
    wait_until(lambda: len({r["id"] for r in other.received()}) == 80, 15)
    wait_until(lambda: a.call("GET", path)[1]["leased"] == 0, 15)
    got = other.received()
    equal(len(got), 80, "each once: a release is no attempt")
    equal({r["attempt"] for r in got}, {1})
    at_once = max(sum(1 for y in got if x["at"] <= y["at"] < x["at"] + 1400) for x in got)
    assert at_once <= 2 * 32, f"{at_once} requests at once by two daemons"


@test("the lease of a running request is renewed, however long the request takes")
def renewed():
    path = push()

    def run(n):
        name, withheld = f"long{n}", host.withheld
        put(path, name, callback={"url": sink.url + "/hold"}, timeout="10min")
        sink.wait_for(name)
        first = a.call("GET", f"{path}/tasks/{name}")[1]["lease_end"]
        # The first lease is over by then.
        time.sleep(max(0, first + 1000 - now_ms()) / 1000)
        asked = now_ms()
        task = a.call("GET", f"{path}/tasks/{name}")[1]
        sink.let(name)
        wait_until(lambda: state(path, name) is None)
        equal((task["state"], task["lost"]), ("leased", 0))
        equal(len(sink.received(name)), 1, "runs")
        left = task["lease_end"] - asked
        if left <= 2000 and spare(withheld) > 300:
            raise Slow(f"{left:.0f} ms of the lease were left")
        assert left > 2000, left
    rounds(run, 6)


@test("D15: a task for a private address is dead at once, and a redirect is not followed")
def safe_callbacks():
    _, d, c = alone("--callback-allow=192.0.2.0/24", mode="push")
    c.call("PUT", "/v1/queues/s/tasks/x", {"callback": {"url": sink.url + "/private"}})
    wait_until(lambda: c.call("GET", "/v1/queues/s/tasks/x")[1].get("state") == "dead")
    error = c.call("GET", "/v1/queues/s/tasks/x")[1]["error"]
    assert "loopback" in error or "refused" in error, error
    equal(sink.received("x"), [])
    equal(d.end(), 0)
    path = push()
    put(path, "redirected", callback={"url": sink.url + "/redirect"}, retry={"limit": 1})
    wait_until(lambda: state(path, "redirected") == "dead")
    equal([r["path"] for r in sink.received("redirected")], ["/redirect"])


# ---- Pull ----

@test("pull: reserve waits until the task is due; a second ack is stale")
def pull_basic():
    q = pull()
    due = put(q, "w1", payload={"n": 1}, **{"in": "400ms"})["due"]
    task, = reserve(q)
    assert 0 <= now_ms() - due < 200 + spare(), now_ms() - due
    equal((task["id"], task["attempt"], task["payload"], task["first_due"]),
          ("w1", 1, {"n": 1}, due))
    equal(state(q, "w1"), "leased")
    # Any daemon accepts any report.
    equal(report(q, "ack", task, b)[0], 200)
    equal(state(q, "w1"), None)
    status, answer = report(q, "ack", task)
    equal((status, answer["error"]["code"]), (410, "stale"))


@test("pull: reserve without tasks answers after wait, or at once without wait; and limit")
def pull_empty():
    q = pull()
    begin = time.monotonic()
    equal(reserve(q, wait="300ms"), [])
    assert 0.3 <= time.monotonic() - begin < 0.8 + spare() / 1000
    begin = time.monotonic()
    equal(reserve(q, wait="0"), [])
    assert time.monotonic() - begin < 0.3 + spare() / 1000
    for n in range(6):
        put(q, f"l{n}")
    got = []
    while len(got) < 6:
        tasks = reserve(q, limit=4, wait="0")
        assert 0 < len(tasks) <= 4, tasks
        got += tasks
    equal(len({t["id"] for t in got}), 6)
    equal(a.call("POST", f"{q}/ack", {"tasks": [
        {"id": t["id"], "token": t["token"]} for t in got]})[0], 200)


@test("pull: workers that do not wait get due tasks, even if they come at the same time")
def pull_together():
    q = pull(lanes=1)
    for n in range(8):
        put(q, f"o{n}")
    got = []
    workers = [threading.Thread(target=lambda: got.append(reserve(q, one.client(), wait="0")))
               for _ in range(8)]
    redis.stop()
    for w in workers:
        w.start()
    settle(0.3)
    redis.go_on()
    for w in workers:
        w.join()
    equal(sorted(t["id"] for tasks in got for t in tasks), [f"o{n}" for n in range(8)])


@test("pull: a put wakes a waiting worker, even one at another daemon")
def pull_wakes():
    q = pull()
    got = []

    def work():
        got.extend(reserve(q, two.client()))
        got.append(now_ms())
    t = threading.Thread(target=work)
    t.start()
    settle(0.3)
    due = put(q, "w2")["due"]
    t.join()
    equal(got[0]["id"], "w2")
    assert got[1] - due < 150 + spare(), f"{got[1] - due} ms"


@test("pull: nack delays or buries; release counts no attempt; extend keeps the lease")
def pull_reports():
    q = pull()
    put(q, "n1")
    task, = reserve(q)
    equal(report(q, "nack", task, delay="300ms", error="not now")[0], 200)
    answer = a.call("GET", f"{q}/tasks/n1")[1]
    equal((answer["state"], answer["attempts"], answer["error"]), ("scheduled", 1, "not now"))
    task, = reserve(q)
    equal(task["attempt"], 2)
    equal(report(q, "release", task)[0], 200)
    task, = reserve(q)
    equal(task["attempt"], 2)
    status, answer = report(q, "nack", task, dead=True, error="broken")
    equal(status, 200)
    equal(state(q, "n1"), "dead")

    def extend(n):
        put(q, f"e{n}")
        task, = reserve(q, lease=f"{1 << n}s")
        end = now_ms() + 1000 * (1 << n)
        status, answer = report(q, "extend", task, lease="30s")
        in_time(end - 100, f"the extension ({status})")
        equal(status, 200, answer)
        time.sleep((end + 600 - now_ms()) / 1000)
        equal(state(q, task["id"]), "leased")
        equal(report(q, "ack", task)[0], 200)
    rounds(extend, 6)


@test("pull: a report waits 5 ms for others to join it, even with several daemons")
def pull_company():
    q = pull(lanes=1)

    def median():
        took = []
        for n in range(40):
            put(q, f"c{n}")
            task, = reserve(q)
            withheld, begin = host.withheld, time.monotonic()
            equal(report(q, "ack", task)[0], 200)
            took.append((time.monotonic() - begin) * 1000 - spare(withheld))
        return sorted(took)[20]
    # Each worker gets its task after an ack, so an ack waits for nearly the whole 5 ms. On a
    # busy processor some take longer.
    took = [median() for _ in range(3)]
    assert min(took) < 7, took


@test("D9: a machine that has run out of descriptors uses up no attempts")
def descriptors():
    own, other = Redis(), Sink()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, hard))
    d = Daemon(own, "--host-concurrency=200")
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    c = d.client()
    equal(resource.prlimit(d.process.pid, resource.RLIMIT_NOFILE), (hard, hard), "as a shell's")
    c.call("PUT", "/v1/queues/s", {"mode": "push"})
    resource.prlimit(d.process.pid, resource.RLIMIT_NOFILE, (64, 64))
    c.call("POST", "/v1/queues/s/tasks", {"tasks": [
        {"id": f"fd-{n}", "callback": {"url": other.url + "/slow/300"}} for n in range(100)]})
    wait_until(lambda: any("connect" in t.get("error", "")
                           for t in c.call("GET", "/v1/queues/s/tasks")[1]["tasks"]))
    wait_until(lambda: len({r["id"] for r in other.received()}) == 100, 20)
    equal({r["attempt"] for r in other.received()}, {1}, "attempts")
    equal(d.end(), 0)


@test("D9: a nack without a delay backs off as the task's settings say")
def nack_backoff():
    q = pull()
    put(q, "nb", retry={"base": "200ms", "cap": "10s", "jitter": 0})
    gaps = []
    for _ in range(3):
        task, = reserve(q)
        before = now_ms()
        equal(report(q, "nack", task)[0], 200)
        after = now_ms()
        due = a.call("GET", f"{q}/tasks/nb")[1]["due"]
        gaps.append((due - after, due - before))
    # The daemon counts in whole milliseconds from a moment between the request and its answer.
    for (least, most), want in zip(gaps, (200, 400, 800)):
        assert least - 1 <= want <= most + 1, gaps


@test("pull: if a client disconnects during reserve, its tasks go to another worker")
def pull_disconnect():
    q = pull()
    s = socket.socket(socket.AF_UNIX)
    s.connect(one.path)
    body = b'{"wait":"20s"}'
    s.sendall(b"POST %s/reserve HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
              b"Content-Length: %d\r\n\r\n%s" % (q.encode(), len(body), body))
    settle(0.3)
    s.close()
    settle(0.1)
    put(q, "d1")
    begin = time.monotonic()
    task, = reserve(q, b)
    assert time.monotonic() - begin < 1 + spare() / 1000
    equal((task["id"], task["attempt"]), ("d1", 1))


@test("D11: after max-lost leases without a report a task is dead, with the reason lost")
def poison():
    q = pull()
    put(q, "poison")
    for _ in range(2):
        task, = reserve(q, lease="1s", seconds=8)
    wait_until(lambda: state(q, "poison") == "dead", 12)
    answer = a.call("GET", f"{q}/tasks/poison")[1]
    equal((answer["error"], answer["lost"]), ("lost", 2))
    equal(report(q, "ack", task)[0], 410)


# ---- Cancel, move, replace, pause ----

@test("D8: a canceled task does not run, whether it waits in Redis or any daemon holds it")
def cancel():
    path = push()
    url = {"url": sink.url + "/"}
    put(path, "c-far", callback=url, **{"in": "1h"})
    equal(a.call("DELETE", f"{path}/tasks/c-far"), (200, {"id": "c-far", "state": "scheduled"}))
    equal(a.call("DELETE", f"{path}/tasks/c-far")[0], 404)
    put(path, "c-far", callback=url, payload="again", **{"in": "300ms"})
    asked, recalled = 0, 0
    # Only answers before the due time count. A slow machine makes more rounds.
    for trial in range(20):
        begin = int(now_ms()) + 1200
        a.call("POST", f"{path}/tasks", {"tasks": [
            {"id": f"c-{trial}-{n}", "at": begin, "callback": url} for n in range(40)]})
        # From 500 ms before their due time, either daemon holds the tasks. Each daemon is asked.
        time.sleep(max(0, (begin - 400 - now_ms()) / 1000))
        canceled = []
        for n in range(40):
            withheld = host.withheld
            status, answer = (a if n % 2 else b).call("DELETE", f"{path}/tasks/c-{trial}-{n}")
            if (status, answer.get("state")) == (200, "scheduled"):
                canceled.append(f"c-{trial}-{n}")
            if now_ms() >= begin:
                break
            if status == 202 and kept_silent(withheld):
                continue
            asked += 1
            recalled += f"c-{trial}-{n}" in canceled
        time.sleep(max(0, (begin + 300 - now_ms()) / 1000))
        for task in canceled:
            equal(sink.received(task), [], f"{task} was canceled")
        if asked >= 40:
            break
    print(f"# {recalled} of {asked} were recalled in {trial + 1} rounds")
    assert asked >= 40 and recalled >= asked * 3 / 4, (recalled, asked)
    wait_until(lambda: a.call("GET", path)[1]["leased"] == 0)
    equal([json.loads(r["body"]) for r in sink.received("c-far")], ["again"])


@test("D8: cancel during an attempt answers 202, and this attempt is the last")
def cancel_running():
    path = push()
    for task, after in (("cr", 200), ("cf", 500)):
        put(path, task, callback={"url": f"{sink.url}/hold/{after}"}, retry={"base": "200ms"})
        sink.wait_for(task)
        equal(b.call("DELETE", f"{path}/tasks/{task}"), (202, {"id": task, "state": "leased"}))
        sink.let(task)
        wait_until(lambda: state(path, task) not in ("leased", "scheduled"))
    equal(state(path, "cr"), None)
    equal(len(sink.received("cf")), 1)

    # A task that waits for its second attempt is canceled at once.
    def cancel_waiting(n):
        task = f"cw{n}"
        put(path, task, callback={"url": sink.url + "/status/500"},
            retry={"base": f"{2 << n}s", "jitter": 0})
        wait_until(lambda: a.call("GET", f"{path}/tasks/{task}")[1]["attempts"] >= 1)
        due = a.call("GET", f"{path}/tasks/{task}")[1]["due"]
        answer = a.call("DELETE", f"{path}/tasks/{task}")
        in_time(due, "the request")
        equal(answer, (200, {"id": task, "state": "scheduled"}))
        time.sleep(max(0, due + 300 - now_ms()) / 1000)
        equal((len(sink.received("cf")), len(sink.received(task))), (1, 1))
    rounds(cancel_waiting, 6)


@test("D8: a task can be moved, even while it is held; one that has begun answers 409")
def move():
    # So long ahead that even a slow machine is done before the tasks are due.
    path = push(ahead="5s")
    url = {"url": sink.url + "/"}
    put(path, "m-far", callback=url, **{"in": "1h"})
    status, answer = b.call("PATCH", f"{path}/tasks/m-far", {"in": "300ms"})
    equal((status, answer["result"], answer["state"]), (200, "moved", "scheduled"))
    assert sink.wait_for("m-far")[0]["at"] >= answer["due"]

    def move_held(n):
        task = f"m-held{n}"
        due = put(path, task, callback=url, **{"in": "4s"})["due"]
        for client in (a, b):
            wait_in_time(due, lambda: state(path, task) == "leased")
            withheld = host.withheld
            status, answer = client.call("PATCH", f"{path}/tasks/{task}", {"in": "4500ms"})
            in_time(due, "the move")
            if status == 202 and kept_silent(withheld):
                raise Slow("the holder did not answer")
            equal((status, answer["result"], answer["state"]), (200, "moved", "scheduled"))
            due = answer["due"]
        return task, due
    moved, moved_due = rounds(move_held)
    put(path, "m-runs", callback={"url": sink.url + "/hold"}, timeout="10min")
    sink.wait_for("m-runs")
    status, answer_ = a.call("PATCH", f"{path}/tasks/m-runs", {"in": "1h"})
    equal((status, answer_["error"]["code"]), (409, "leased"))
    sink.let("m-runs")
    put(path, "m-now", callback=url, **{"in": "1h"})
    equal(a.call("POST", f"{path}/tasks/m-now/run")[0], 200)
    sink.wait_for("m-now")
    got, = sink.wait_for(moved)
    assert got["at"] >= moved_due, got["at"] - moved_due
    equal(int(got["head"]["twheel-scheduled-at"]), moved_due)

    def run_held(n):
        task = f"m-soon{n}"
        due = put(path, task, callback=url, **{"in": "4900ms"})["due"]
        wait_in_time(due, lambda: state(path, task) == "leased")
        withheld = host.withheld
        status = b.call("POST", f"{path}/tasks/{task}/run")[0]
        in_time(due - 1500, "the request")
        if status == 202 and kept_silent(withheld):
            raise Slow("the holder did not answer")
        equal(status, 200)
        early = due - sink.wait_for(task)[0]["at"]
        if early <= 1000 and spare(withheld) > 300:
            raise Slow(f"it ran only {early} ms before its former time")
        assert early > 1000, early
    rounds(run_held)


@test("D8: a put replaces a held task: it runs once, with the new body")
def replace():
    path = push(ahead="5s")
    url = {"url": sink.url + "/"}

    def replace_held(n):
        tasks = [f"rep-{n}-{m}" for m in range(10)]
        due = [put(path, t, callback=url, payload="old", **{"in": "4500ms"})["due"] for t in tasks]
        wait_in_time(due[0], lambda: all(state(path, t) == "leased" for t in tasks))
        withheld = host.withheld
        answers = [put(path, t, b if m % 2 else a, callback=url, payload="new", **{"in": "2s"})
                   for m, t in enumerate(tasks)]
        in_time(due[0], "the replacement")
        if any("was" in answer for answer in answers) and kept_silent(withheld):
            raise Slow("a holder did not answer")
        for t, answer in zip(tasks, answers):
            equal((answer["result"], answer.get("was")), ("replaced", None))
            sink.wait_for(t)
        # The replaced tasks would have run by then.
        time.sleep(max(0, due[-1] + 300 - now_ms()) / 1000)
        for t in tasks:
            equal([json.loads(r["body"]) for r in sink.received(t)], ["new"])
    rounds(replace_held)
    put(path, "rep-runs", callback={"url": sink.url + "/hold"}, timeout="10min", payload="old")
    sink.wait_for("rep-runs")
    answer = put(path, "rep-runs", callback=url, payload="new")
    equal((answer["result"], answer["was"]), ("replaced", "leased"))
    got = sink.wait_for("rep-runs", 2)
    equal([json.loads(r["body"]) for r in got], ["old", "new"])
    sink.let("rep-runs")


@test("D8: the holder does not answer: cancel answers 202, and no attempt begins when it continues")
def silent_holder():
    own, other = Redis(), Sink()
    d, e = (Daemon(own, "--lease=15s") for _ in "de")
    c, path = d.client(), "/v1/queues/s"
    c.call("PUT", path, {"mode": "push", "lanes": 32, "ahead": "5s"})
    wait_until(lambda: d.metric("members") == e.metric("members") == 2)

    def both_hold():
        return d.metric("held") + e.metric("held") == 100 and e.metric("held") > 8

    def silent_recalls():
        return d.metric('recalls_total{verdict="silent"}')

    def run(n):
        wait_until(lambda: d.metric("held") + e.metric("held") == 0)
        before = silent_recalls()
        tasks = [f"sh-{n}-{m}" for m in range(100)]
        due = int(now_ms()) + 4000
        equal(c.call("POST", f"{path}/tasks", {"tasks": [
            {"id": t, "at": due, "callback": {"url": other.url + "/"}} for t in tasks]})[0], 200)
        wait_in_time(due - 2000, both_hold)
        e.process.send_signal(signal.SIGSTOP)
        silent, wrong = [], []
        for t in tasks:
            begin = time.monotonic()
            answer = c.call("DELETE", f"{path}/tasks/{t}")
            if answer[0] == 202:
                silent.append(t)
                equal(answer[1], {"id": t, "state": "leased"})
                took = time.monotonic() - begin
                if not 0.24 <= took < 0.5 + spare() / 1000:
                    wrong.append(took)
            if len(silent) == 4 or wrong or now_ms() >= due:
                break
        e.process.send_signal(signal.SIGCONT)
        in_time(due, "the signal to go on")
        equal((len(silent), wrong), (4, []))
        wait_in_time(due, lambda: all(c.call("GET", f"{path}/tasks/{t}")[0] == 404 for t in silent))
        time.sleep(max(0, due + 300 - now_ms()) / 1000)
        equal({r["id"] for r in other.received()} & set(silent), set())
        equal(silent_recalls(), before + 4)
    # The tasks may be due before both daemons hold some.
    rounds(run)
    equal((d.end(), e.end()), (0, 0))


@test("a pause releases held tasks, and nothing begins until resume")
def pause():
    path = push(ahead="5s")
    # Daemons must hold the tasks and answer before these are due. A slow machine makes more rounds.
    for trial in range(20):
        due = int(now_ms()) + min(1500 * (trial + 1), 4500)
        tasks = [f"pa-{trial}-{n}" for n in range(20)]
        a.call("POST", f"{path}/tasks", {"tasks": [
            {"id": t, "at": due, "callback": {"url": sink.url + "/"}} for t in tasks]})
        wait_until(lambda due=due: now_ms() >= due or a.call("GET", path)[1]["leased"] == 20)
        withheld = host.withheld
        status, answer = b.call("POST", f"{path}/pause")
        if now_ms() < due and (answer["settled"] or not kept_silent(withheld)):
            break
        equal(a.call("POST", f"{path}/resume")[1]["paused"], False)
        wait_until(lambda: a.call("GET", path)[1]["leased"] == 0)
    else:
        raise AssertionError("no pause was answered before the tasks were due")
    equal((status, answer["paused"], answer["settled"]), (200, True, True))
    equal(a.call("GET", path)[1]["leased"], 0)
    time.sleep(max(0, (due + 400 - now_ms()) / 1000))
    equal([sink.received(t) for t in tasks], [[]] * 20)
    equal(a.call("GET", path)[1]["paused"], True)
    equal(a.call("POST", f"{path}/resume")[1]["paused"], False)
    for t in tasks:
        equal(sink.wait_for(t, seconds=3)[0]["attempt"], 1)


# ---- Outages ----

@test("D4: tasks that a daemon held when it was killed run by the end of their leases")
def killed_daemon():
    path = push(lanes=32, ahead="5s")
    link = resp.Redis(redis.path)
    runs = [f"tw:{{{path.rpartition('/')[2]}/{lane}}}:run" for lane in range(32)]

    def run(n):
        d = Daemon(redis, "--lease=6s")
        wait_until(lambda: one.metric("members") == 3)
        due = int(now_ms()) + 4000
        a.call("POST", f"{path}/tasks", {"tasks": [
            {"id": f"kd-{n}-{m}", "at": due, "callback": {"url": sink.url + "/"}}
            for m in range(200)]})
        wait_until(lambda: now_ms() >= due or (d.metric("held") > 0 and
                                               a.call("GET", path)[1]["leased"] == 200))
        d.end(signal.SIGKILL)
        late = now_ms() >= due
        ends = max([float(x) for key in runs
                    for x in link.ask("ZRANGE", key, 0, -1, "WITHSCORES")[1::2]], default=0)
        wait_until(lambda: len({r["id"] for r in sink.received()
                                if str(r["id"]).startswith(f"kd-{n}-")}) == 200)
        took = now_ms()
        if late:
            raise Slow("tasks were due before the daemon was killed")
        # The next daemon in rank looks 150 ms after the end of a lease.
        assert took < max(due, ends) + 250 + 800 + spare(), took - max(due, ends)
        equal(len([r for r in sink.received() if str(r["id"]).startswith(f"kd-{n}-")]), 200, "runs")
    rounds(run)
    link.close()


@test("D7: an attempt whose daemon is killed is repeated with its key, and does not count")
def killed_attempt():
    own, d, c = alone("--lease=6s", mode="push")
    other = Sink()
    c.call("PUT", "/v1/queues/s/tasks/x", {"callback": {"url": other.url + "/hold/500"},
                                           "retry": {"base": "100ms"}})
    other.wait_for("x")
    d.end(signal.SIGKILL)
    other.let("x")
    e = Daemon(own, "--lease=6s")
    wait_until(lambda: len(other.received("x")) >= 3, 12)
    got = other.received("x")
    equal([r["attempt"] for r in got[:3]], [1, 1, 2])
    equal(len({r["head"]["idempotency-key"] for r in got}), 1, "keys")
    equal(len({r["head"]["webhook-id"] for r in got}), 1, "ids")
    # The lost count is all that shows the first attempt, and the report of the next one has
    # reset it.
    equal(e.client().call("GET", "/v1/queues/s/tasks/x")[1]["lost"], 0)
    equal(e.metric("lost_total"), 1)
    equal(e.end(), 0)


@test("D4: a daemon that was stopped past its leases begins no task that others hold")
def stopped_daemon():
    own = Redis()
    d = Daemon(own, "--lease=6s")
    e = Daemon(own, "--lease=6s")
    c, other = d.client(), Sink()
    c.call("PUT", "/v1/queues/s", {"mode": "push", "lanes": 8, "ahead": "5s"})
    wait_until(lambda: d.metric("members") == e.metric("members") == 2)
    wait_until(lambda: e.client().raw("GET", "/v1/queues/s")[0] == 200)

    def received(n):
        return [r["id"] for r in other.received() if r["id"].startswith(f"sd-{n}-")]

    def run(n):
        due = int(now_ms()) + 4000
        c.call("POST", "/v1/queues/s/tasks", {"tasks": [
            {"id": f"sd-{n}-{m}", "at": due, "callback": {"url": other.url + "/"}}
            for m in range(100)]})
        wait_until(lambda: now_ms() >= due or e.metric("held") > 0)
        e.process.send_signal(signal.SIGSTOP)
        late = now_ms() >= due
        wait_until(lambda: len(set(received(n))) == 100)
        e.process.send_signal(signal.SIGCONT)
        settle(0.7)
        if late:
            wait_until(lambda: d.metric("held") + e.metric("held") == 0)
            raise Slow("tasks were due before the daemon was stopped")
        equal(len(received(n)), 100, "runs")
    rounds(run)
    equal((d.end(), e.end()), (0, 0))


@test("D2: Redis's clock counts, even if the daemon's is an hour ahead or behind")
def wrong_clock():
    if not shifted_clock(0):
        return "SKIP there is no compiler"
    for shift in (-3600, 3600):
        _, d, c = alone(env=shifted_clock(shift), mode="push")
        other = Sink()
        due = {t["id"]: t["due"] for t in c.call("POST", "/v1/queues/s/tasks", {"tasks": [
            {"id": f"wc-{n}", "in_ms": 300 + 7 * n, "callback": {"url": other.url + "/"}}
            for n in range(100)]})[1]["tasks"]}
        wait_until(lambda: len(other.received()) == 100)
        late = sorted(r["at"] - due[r["id"]] for r in other.received())
        assert 0 <= late[0] and late[98] < 500 + spare(), (late[0], late[-5:])
        skew = d.metric("clock_skew_seconds")
        assert abs(skew + shift) < 1 + spare() / 1000, skew
        equal(d.end(), 0)


@test("D3: a stall of Redis that is shorter than ahead minus 200 ms makes no task late")
def stalled_redis():
    own, d, c = alone(mode="push")
    other = Sink()
    begin = int(now_ms()) + 800
    due = {t["id"]: t["due"] for t in c.call("POST", "/v1/queues/s/tasks", {"tasks": [
        {"id": f"st-{n}", "at": begin + 3 * n, "callback": {"url": other.url + "/"}}
        for n in range(100)]})[1]["tasks"]}
    time.sleep(max(0, (begin - now_ms()) / 1000 - 0.05))
    withheld = host.withheld
    own.stop()
    time.sleep(0.3)
    own.go_on()
    wait_until(lambda: len(other.received()) == 100)
    late = sorted(r["at"] - due[r["id"]] for r in other.received())
    print(f"# lateness p50 {late[50]:.2f} ms, p99 {late[98]:.2f} ms")
    assert 0 <= late[0] and late[98] < 150 + spare(withheld), late[-5:]
    equal(d.end(), 0)


@test("D5: Redis is killed and returns: 503 meanwhile, nothing is lost, and the daemon recovers")
def killed_redis():
    own = Redis("--appendfsync", "always")
    d = Daemon(own)
    c, other = d.client(), Sink()
    c.call("PUT", "/v1/queues/s", {"mode": "push"})
    c.call("POST", "/v1/queues/s/tasks", {"tasks": [
        {"id": f"kr-{n}", "in_ms": 300 + 20 * n, "callback": {"url": other.url + "/"}}
        for n in range(100)]})
    time.sleep(0.7)
    own.kill()
    time.sleep(0.2)
    status, answer = c.call("PUT", "/v1/queues/s/tasks/x", {"callback": {"url": other.url}})
    equal((status, answer["error"]["code"]), (503, "store_down"))
    equal(c.raw("GET", "/readyz")[0], 503)
    equal(c.raw("GET", "/healthz")[0], 200)
    equal(c.raw("GET", "/metrics")[0], 200)
    time.sleep(0.5)
    own.start()
    wait_until(lambda: c.raw("GET", "/readyz")[0] == 200)
    wait_until(lambda: len({r["id"] for r in other.received()}) == 100, 20)
    wait_until(lambda: c.call("GET", "/v1/queues/s")[1]["leased"] == 0, 20)
    counts = {}
    for r in other.received():
        counts[r["id"]] = counts.get(r["id"], 0) + 1
    twice = sum(1 for n in counts.values() if n > 1)
    print(f"# {twice} of 100 ran twice: their reports were lost with the connection")
    equal(d.end(), 0)


@test("a Redis that comes and goes each second has its lines in the log once a minute")
def flapping():
    own, d, c = alone()
    link = resp.Redis(own.path)
    begin = time.monotonic()
    for _ in range(8):
        wait_until(lambda: link.ask("CLIENT", "KILL", "TYPE", "normal") > 0)
        time.sleep(0.25)
    wait_until(lambda: c.raw("GET", "/readyz")[0] == 200)
    minutes = 1 + (time.monotonic() - begin) // 60
    # How the connection broke makes a difference.
    lines = [x for x in d.text().splitlines() if "cannot use Redis: " in x or "Redis again" in x]
    assert all(lines.count(x) <= minutes for x in lines) and len(lines) > 1, lines
    link.close()
    equal(d.end(), 0)


@test("D7: a report that waited for Redis is applied before its lease, over by then, is recovered")
def late_report():
    own, other = Redis("--appendfsync", "always"), Sink()
    d, e = (Daemon(own, "--lease=6s") for _ in "de")
    c = d.client()
    c.call("PUT", "/v1/queues/s", {"mode": "push", "lanes": 32})
    wait_until(lambda: d.metric("members") == e.metric("members") == 2)

    def run(n):
        tasks = [f"lr-{n}-{m}" for m in range(20)]
        for t in tasks:
            c.call("PUT", f"/v1/queues/s/tasks/{t}", {
                "callback": {"url": other.url + "/hold"}, "timeout": "10min"})
        wait_until(lambda: all(other.received(t) for t in tasks))
        before = d.metric("lost_total") + e.metric("lost_total")
        own.kill()
        for t in tasks:
            other.let(t)
        for method, path, body in (
                ("GET", "/v1/queues", None), ("GET", "/v1/queues/s", None),
                ("PUT", "/v1/queues/s", {}), ("GET", "/v1/queues/s/tasks", None),
                ("POST", "/v1/queues/s/tasks", {"callback": {"url": other.url}}),
                ("GET", "/v1/queues/s/tasks/x", None), ("DELETE", "/v1/queues/s/tasks/x", None),
                ("PATCH", "/v1/queues/s/tasks/x", {"in_ms": 1}),
                ("POST", "/v1/queues/s/reserve", {}), ("POST", "/v1/queues/s/tasks/x/run", None),
                ("POST", "/v1/queues/s/pause", None), ("POST", "/v1/queues/s/replay", None),
                ("GET", "/v1/queues/other", None)):
            status, answer = c.call(method, path, body)
            equal((status, answer["error"]["code"]), (503, "store_down"), f"{method} {path}")
        time.sleep(7)
        # The other daemon reconnects first, and waits 2 s for the reports of this one.
        d.process.send_signal(signal.SIGSTOP)
        own.start()
        # The other daemon was not back yet at this moment.
        since, asked = now_ms(), now_ms()
        while not e.ready():
            time.sleep(0.02)
            since, asked = asked, now_ms()
        time.sleep(1)
        d.process.send_signal(signal.SIGCONT)
        wait_until(d.ready)
        wait_until(lambda: c.call("GET", "/v1/queues/s")[1]["leased"] == 0)
        reported = now_ms()
        settle(3)
        once = [len(other.received(t)) for t in tasks] == [1] * 20
        lost = d.metric("lost_total") + e.metric("lost_total") - before
        if (lost or not once) and reported > since + 2000:
            wait_until(lambda: c.call("GET", "/v1/queues/s")[1]["leased"] == 0)
            raise Slow("the reports may have come more than 2 s after the other daemon was back")
        equal((once, lost), (True, 0))
    rounds(run, 5)
    equal((d.end(), e.end()), (0, 0))


@test("Redis hangs: a request that was sent gets fate_unknown, and reads get 503")
def hanging_redis():
    own, d, _ = alone(mode="pull")
    own.stop()
    rows = [("PUT", "/v1/queues/s/tasks/x", {"if_exists": "keep"}, "fate_unknown"),
            ("PUT", "/v1/queues/s/tasks/y", {"payload": "x" * 60000}, "fate_unknown"),
            ("DELETE", "/v1/queues/s/tasks/z", None, "fate_unknown"),
            ("GET", "/v1/queues/s/tasks/x", None, "store_down"),
            ("GET", "/v1/queues", None, "store_down")]
    answers = {}
    workers = []
    for method, path, body, code in rows:
        def work(method=method, path=path, body=body, code=code):
            begin = time.monotonic()
            status, answer = d.client().call(method, path, body)
            answers[path, method] = (status, answer["error"]["code"], code,
                                     time.monotonic() - begin)
        workers.append(threading.Thread(target=work))
    for w in workers:
        w.start()
        # The first request is sent before the 60,000 bytes, because it would stay in the
        # daemon behind them.
        settle(0.2)
    for w in workers:
        w.join()
    for row, (status, code, want, took) in answers.items():
        equal((status, code), (503, want), row)
        assert took < 8 + spare() / 1000, (row, took)
    own.go_on()
    wait_until(d.ready)
    status, answer = d.client().call("PUT", "/v1/queues/s/tasks/x", {"if_exists": "keep"})
    equal((status, answer["result"]), (200, "kept"))
    equal(d.end(), 0)


class SlowAnswers:
    """Between daemons and a Redis. While slow, it passes on what Redis answers bit by bit."""

    def __init__(self, own):
        self.own, self.slow, self.path = own, False, own.path + ".slow"
        server = socket.socket(socket.AF_UNIX)
        server.bind(self.path)
        server.listen()
        threading.Thread(target=self.accept, args=(server,), daemon=True).start()

    def accept(self, server):
        while True:
            link, to = server.accept()[0], socket.socket(socket.AF_UNIX)
            to.connect(self.own.path)
            for ends in ((link, to, False), (to, link, True)):
                threading.Thread(target=self.pump, args=ends, daemon=True).start()

    def pump(self, from_, to, answers):
        try:
            while data := from_.recv(1 << 16):
                while answers and self.slow and data:
                    to.sendall(data[:20])
                    data = data[20:]
                    time.sleep(0.05)
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            pass


@test("a Redis that takes long for many commands, but answers one after the other, does not hang")
def slow_redis():
    own = Redis()
    between = SlowAnswers(own)
    d = Daemon(own, f"--redis=unix:{between.path}")
    c, p = d.client(), "/v1/queues/s"
    equal(c.call("PUT", p, {"mode": "pull", "lanes": 128})[0], 201)
    before, begin = len(d.text()), time.monotonic()
    between.slow = True
    status, answer = c.call("POST", f"{p}/pause")
    took = time.monotonic() - begin
    between.slow = False
    equal((status, answer.get("settled"), d.text()[before:]), (200, True, ""),
          f"after {took:.1f} s")
    # The daemon gives up a Redis that answers nothing for 5 s.
    assert took > 6, took
    equal(d.end(), 0)


@test("a task runs in time even if the message about it was lost")
def lost_message():
    path, got = pull(lanes=1), []
    lane = resp.Lane(path.rpartition("/")[2] + "/0", (
        ("prelude", "redis.call('PUBLISH', prefix .. 'wake', tag .. ' ' .. text(ms))", ""),))
    link = resp.Redis(redis.path)
    put(path, "body", payload=7, **{"in": "1h"})
    body = link.ask("HGET", lane.keys[3], "body")
    messages = resp.Redis(redis.path)
    messages.ask("SUBSCRIBE", "tw:wake")
    worker = threading.Thread(target=lambda: got.extend(reserve(path, one.client(), seconds=12)))
    worker.start()
    settle(0.3)
    begin = time.monotonic()
    lane.run(link, "put", 1000, *resp.put_words("mute", 0, 0, 0, 10, 0, 0, 0, 0, body))
    worker.join()
    equal([t["id"] for t in got], ["mute"])
    # For a lane with tasks, its home daemon sweeps every second, and the next in rank every 5 s.
    assert time.monotonic() - begin < 6 + spare() / 1000
    link.ask("PUBLISH", "tw:wake", "the end")
    heard = []
    while not heard or heard[-1] != b"the end":
        heard.append(messages.receive()[2])
    name = path.rpartition("/")[2]
    equal([x for x in heard if x.startswith(f"{name}/".encode())], [], "messages")
    messages.close()
    link.close()


@test("D16: the daemon refuses a Redis that evicts or is a replica, and logs the reason")
def unfit_redis():
    for options, word in ((("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"),
                           "may evict"),
                          (("--replicaof", "127.0.0.1", "1"), "replica")):
        own = Redis(*options)
        d = Daemon(own, wait=False)
        equal(d.process.wait(timeout=HANG), 1, word)
        assert word in d.text(), d.text()
        p = subprocess.run([PROGRAM, "-c", "/dev/null", f"--redis=unix:{own.path}", "--check"],
                           capture_output=True, text=True, timeout=HANG)
        equal(p.returncode, 1)
        assert word in p.stderr, p.stderr
        own.kill()
    own = Redis("--appendonly", "no")
    d = Daemon(own, "--strict=yes", wait=False)
    equal(d.process.wait(timeout=HANG), 1, "strict")
    d = Daemon(own)
    assert "append-only" in d.text(), d.text()
    equal(d.end(), 0)


@test("a Redis that lost its queues gets them back, and daemons that start later know them")
def lost_queue():
    own, other = Redis("--appendonly", "no"), Sink()
    d = Daemon(own)
    c = d.client()
    c.call("PUT", "/v1/queues/s", {"mode": "push", "lanes": 3})
    own.kill()
    own.start()
    wait_until(d.ready)
    equal(c.call("PUT", "/v1/queues/s/tasks/x", {
        "in": "1500ms", "callback": {"url": other.url + "/"}})[0], 201)
    wait_until(lambda: own.ask("HLEN", "tw:queues") == "1")
    equal(d.end(signal.SIGKILL), -9)
    e = Daemon(own)
    equal(e.client().call("GET", "/v1/queues/s")[1]["lanes"], 3)
    other.wait_for("x")
    assert "queue s is missing in Redis" in d.text(), d.text()
    assert "lost it" not in e.text(), e.text()
    equal(e.end(), 0)


@test("D16: the daemon refuses a Redis that is too old, and logs the reason")
def old_redis():
    path, said = os.path.join(dir_, "old"), b"# Server\r\nredis_version:6.2.14\r\n"

    def answer(link):
        text, words = link.makefile("rb"), []
        while line := text.readline():
            words = [text.read(int(text.readline()[1:]) + 2)[:-2] for _ in range(int(line[1:]))]
            if words[0] == b"SCRIPT":
                link.sendall(b"-ERR Error compiling script: unexpected symbol near '#'\r\n")
            elif words[0] == b"INFO":
                link.sendall(b"$%d\r\n%s\r\n" % (len(said), said))
            else:
                link.sendall(b"+OK\r\n")

    def serve(server):
        while True:
            try:
                answer(server.accept()[0])
            except OSError:
                if server.fileno() < 0:
                    return
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        p = subprocess.run([PROGRAM, "-c", "/dev/null", f"--redis=unix:{path}", "--check"],
                           capture_output=True, text=True, timeout=HANG)
    equal(p.returncode, 1)
    assert "Redis has the version 6.2.14, but twheeld needs 7.0" in p.stderr, p.stderr


@test("D16: a full queue answers 429; a full Redis answers 503, and its tasks still run")
def full():
    own, d, c = alone(mode="pull", lanes=1, lane_max=3)
    for n in range(3):
        equal(c.call("PUT", f"/v1/queues/s/tasks/f{n}", {})[0], 201)
    status, head, text = c.raw("PUT", "/v1/queues/s/tasks/f3", {})
    equal((status, json.loads(text)["error"]["code"]), (429, "queue_full"))
    assert int(head["Retry-After"]) >= 1
    own.ask("CONFIG", "SET", "maxmemory", "1mb")
    status, answer = c.call("PUT", "/v1/queues/s/tasks/f0", {"payload": "x"})
    equal((status, answer["error"]["code"]), (503, "store_full"))
    tasks = c.call("POST", "/v1/queues/s/reserve", {"limit": 10})[1]["tasks"]
    equal(len(tasks), 3)
    equal(c.call("POST", "/v1/queues/s/ack", {"tasks": [
        {"id": t["id"], "token": t["token"]} for t in tasks]})[0], 200)
    wait_until(lambda: c.call("GET", "/v1/queues/s")[1]["leased"] == 0)
    equal(d.end(), 0)


def unready(client):
    """Return: the reason from /readyz, or None if it answers 200."""
    try:
        status, answer = client.call("GET", "/readyz")
    except OSError:
        return ""
    return "" if status == 200 else answer["error"]["message"]


@test("/readyz is 503 with Redis's reason while Redis refuses writes, and 200 once it accepts them")
def refusing():
    own, d, c = alone(mode="pull", lanes=1)
    link = resp.Redis(own.path)
    slow = resp.Redis(own.path)
    link.ask("CONFIG", "SET", "busy-reply-threshold", "100")

    def broken(on):
        link.ask("CONFIG", "SET", "min-replicas-to-write", "1" if on else "0")

    def full(on):
        link.ask("CONFIG", "SET", "maxmemory", "1mb" if on else "0")

    def forbidden(on):
        link.ask("ACL", "SETUSER", "default", "-evalsha" if on else "+@all")

    def replica(on):
        link.ask("REPLICAOF", *(("127.0.0.1", "1") if on else ("NO", "ONE")))

    def busy(on):
        if on:
            slow.send("EVAL", "while true do end", "0")
        else:
            link.ask("SCRIPT", "KILL")
    for word, change in (("NOREPLICAS", broken), ("OOM", full), ("NOPERM", forbidden),
                         ("replica", replica), ("BUSY", busy)):
        change(True)
        said = wait_until(lambda: unready(c), 5)
        assert word in said, said
        equal(d.metric("ready"), 0)
        change(False)
        wait_until(d.ready, 8)
    assert "<3>Redis refuses writes: NOREPLICAS" in d.text(), d.text()
    assert "<5>Redis takes writes again" in d.text(), d.text()
    link.close()
    equal(d.end(), 0)


@test("/readyz is 503 while Redis cannot write to its disk: MISCONF")
def misconf():
    own = Redis("--appendonly", "no")
    d = Daemon(own)
    equal(d.client().call("PUT", "/v1/queues/s", {})[0], 201)
    # A directory of that name, because root may write everywhere else.
    os.mkdir(os.path.join(own.dir, "dump.rdb"))
    os.chmod(own.dir, 0o500)
    own.ask("CONFIG", "SET", "dbfilename", "dump.rdb")
    # Redis saves a second after its last save, because there have been changes.
    own.ask("CONFIG", "SET", "save", "1 1")
    said = wait_until(lambda: unready(d.client()), 20)
    assert "MISCONF" in said, said
    equal(d.client().call("PUT", "/v1/queues/s", {})[0], 503)
    equal(d.end(), 0)


@test("D16: if Redis refuses writes, 503 names the reason, nothing is accepted, and it recovers")
def refused():
    own, d, c = alone(mode="pull", lanes=1)
    put("/v1/queues/s", "there", c)
    own.ask("CONFIG", "SET", "min-replicas-to-write", "1")
    begin = time.monotonic()
    for method, path, body in (("PUT", "tasks/x", {}), ("PUT", "tasks/there", {}),
                               ("DELETE", "tasks/there", None), ("POST", "pause", None),
                               ("PATCH", "tasks/there", {"in": "1h"})):
        status, answer = c.call(method, f"/v1/queues/s/{path}", body)
        equal((status, answer["error"]["code"]), (503, "store_down"), f"{method} {path}")
        assert "refused" in answer["error"]["message"], answer
    for _ in range(30):
        equal(reserve("/v1/queues/s", c, wait="0"), [])
    minutes = 1 + (time.monotonic() - begin) // 60
    for script in ("put", "take"):
        count = d.text().count(f"Redis refused {script}: ")
        assert 1 <= count <= minutes, f"{count} equal lines within a minute"
    own.ask("CONFIG", "SET", "min-replicas-to-write", "0")
    equal(c.call("PUT", "/v1/queues/s/tasks/x", {"if_exists": "fail", "in": "1h"})[0], 201)
    equal([t["id"] for t in reserve("/v1/queues/s", c)], ["there"])
    equal(d.end(), 0)


@test("a Redis that refuses takes is asked by each lane about once a second, and tasks run once it "
      "accepts them again")
def refused_takes():
    own, d, c = alone(mode="push", lanes=100)
    equal(c.call("POST", "/v1/queues/s/tasks", {"tasks": [
        {"id": f"r{n}", "in": "1h", "callback": {"url": sink.url + "/"}} for n in range(1000)]})[0], 200)

    def failed():
        return d.metric('takes_total{result="failed"}')
    own.ask("CONFIG", "SET", "min-replicas-to-write", "1")
    wait_until(lambda: failed() > 700)
    begin, before = time.monotonic(), failed()
    # The sweep of a lane with tasks comes once a second, too.
    wait_until(lambda: failed() > before + 150, 3)
    time.sleep(max(0, begin + 3 - time.monotonic()))
    rate = (failed() - before) / (time.monotonic() - begin)
    assert rate < 400, rate
    own.ask("CONFIG", "SET", "min-replicas-to-write", "0")
    for n in range(20):
        equal(c.call("POST", f"/v1/queues/s/tasks/r{n}/run")[0], 200)
    for n in range(20):
        sink.wait_for(f"r{n}", seconds=5)
    equal(d.end(), 0)


@test("D10, D13: age and count limit done and dead tasks, however fast they come")
def bounded_past():
    _, d, c = alone("--dead-max=100", mode="pull", lanes=1)
    q = "/v1/queues/s"
    equal(c.call("POST", f"{q}/tasks", {"tasks": [{"keep": "1s"} for _ in range(1000)]})[0], 200)
    tasks = []
    while len(tasks) < 1000:
        got = c.call("POST", f"{q}/reserve", {
            "limit": 100, "wait": "2s", "lease": "1h"})[1]["tasks"]
        tasks += [{"id": t["id"], "token": t["token"]} for t in got]
    equal(c.call("POST", f"{q}/ack", {"tasks": tasks[:500]})[0], 200)
    equal(c.call("POST", f"{q}/nack", {"tasks": tasks[500:], "dead": True})[0], 200)

    def counts():
        answer = c.call("GET", q)[1]
        return answer["scheduled"], answer["leased"], answer["done"], answer["dead"]
    # Two sweeps, each up to 8 s after the one before.
    wait_until(lambda: counts() == (0, 0, 0, 100), 20)
    equal(d.end(), 0)


def bury(c, path, number):
    """Make dead tasks of a pull queue."""
    for first in range(0, number, 1000):
        equal(c.call("POST", f"{path}/tasks", {"tasks": [
            {"id": f"dead{n}"} for n in range(first, min(first + 1000, number))]})[0], 200)
    while number:
        tasks = [{"id": t["id"], "token": t["token"]} for t in reserve(path, c, limit=100)]
        equal(c.call("POST", f"{path}/nack", {"tasks": tasks, "dead": True})[0], 200)
        number -= len(tasks)


@test("a replay of a queue ends with its client, and can be repeated")
def replay_left():
    _, d, c = alone(mode="pull", lanes=1)
    p = "/v1/queues/s"
    bury(c, p, 4000)
    with leave(d, f"POST {p}/replay?limit=4000"):
        wait_until(lambda: c.call("GET", p)[1]["dead"] < 4000)
    # The daemon replays 1,000 at a time.
    settle(0.5)
    left = c.call("GET", p)[1]["dead"]
    assert left >= 1000, left
    equal(c.call("POST", f"{p}/replay?limit=4000"), (200, {"replayed": left}))
    equal(d.end(), 0)


@test("a replay of a queue finds the dead tasks behind those that a newer version stored")
def replay_newer():
    own, d, c = alone(mode="pull", lanes=1)
    bury(c, "/v1/queues/s", 1100)
    lane, link = resp.Lane("s/0"), resp.Redis(own.path)
    for task in link.ask("ZRANGE", lane.keys[resp.SETS.index("dead")], 0, 9):
        of_newer(link, lane, task.decode())
    equal(c.call("POST", "/v1/queues/s/replay?limit=2000"), (200, {"replayed": 1090}))
    link.close()
    equal(d.end(), 0)


@test("D10: a replay of a queue finds all dead tasks of a lane, however many")
def replay_many():
    q = pull(lanes=1)
    for n in (1000, 100):
        equal(a.call("POST", f"{q}/tasks", {"tasks": [{} for _ in range(n)]})[0], 200)
    for _ in range(30):
        tasks = [{"id": t["id"], "token": t["token"]} for t in reserve(q, limit=100, wait="0")]
        if not tasks:
            break
        equal(a.call("POST", f"{q}/nack", {"tasks": tasks, "dead": True})[0], 200)
    equal(a.call("GET", q)[1]["dead"], 1100)
    equal(a.call("POST", f"{q}/replay?limit=1050"), (200, {"replayed": 1050}))
    equal(a.call("POST", f"{q}/replay"), (200, {"replayed": 50}))


@test("the Python example goes on after a stale report, and retries what failed")
def example():
    port, = free_ports()
    own = Redis()
    d = Daemon(own, listen=f"127.0.0.1:{port}")
    program = os.path.join(HERE, "../../userspace/examples/tasks.py")
    work = ("import tasks\n"
            "def handle(task):\n"
            "    print(task['payload'], task['attempt'], flush=True)\n"
            "    if task['payload'] == 1:\n"
            "        tasks.call('PUT', '/ex/tasks/' + task['id'], {'payload': 2})\n"
            "    elif task['attempt'] == 1:\n"
            "        raise ValueError('again\\0\\udcff')\n"
            "tasks.work('ex', handle)\n")
    env = {**os.environ, "TWHEELD": f"http://127.0.0.1:{port}",
           "PYTHONPATH": os.path.dirname(program), "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run([sys.executable, program, "add", "ex", "0s", "1"], check=True,
                   stdout=subprocess.DEVNULL, env={**env, "TWHEELD": f"127.0.0.1:{port}"})
    for server, payload in ((f"127.0.0.1:{port}", "{"), ("127.0.0.1:1", "1")):
        p = subprocess.run([sys.executable, program, "add", "ex", "0s", payload], text=True,
                           capture_output=True, env={**env, "TWHEELD": server})
        equal((p.returncode, p.stderr.count("\n")), (1, 1), p.stderr)
    with subprocess.Popen([sys.executable, "-c", work], env=env, text=True,
                          stdout=subprocess.PIPE) as worker:
        equal([worker.stdout.readline().strip() for _ in range(3)], ["1 1", "2 1", "2 2"])
        wait_until(lambda: d.client().call("GET", "/v1/queues/ex")[1]["leased"] == 0)
        worker.kill()
    equal(d.end(), 0)


@test("the Python example renews the lease of a slow handler, which runs once; a key is of one run")
def example_extends():
    port, = free_ports()
    own = Redis()
    d = Daemon(own, listen=f"127.0.0.1:{port}")
    c = d.client()
    env = {**os.environ, "TWHEELD": f"127.0.0.1:{port}", "PYTHONDONTWRITEBYTECODE": "1",
           "PYTHONPATH": os.path.join(HERE, "../../userspace/examples")}

    def run(n):
        lease, queue_ = 1 << n, f"ex{n}"
        equal(c.call("PUT", f"/v1/queues/{queue_}", {"mode": "pull"})[0], 201)
        for name in "ab":
            put(f"/v1/queues/{queue_}", name, c, payload=name, retry={"base": "1ms"})
        lost = d.metric("lost_total")
        work = ("import tasks, time\n"
                "def handle(task):\n"
                "    print(task['id'], task['attempt'], task['key'], task['version'], flush=True)\n"
                f"    time.sleep({3 * lease})\n"
                "    if task['id'] == 'a' and task['attempt'] == 1:\n"
                "        raise ValueError('again')\n"
                f"tasks.work('{queue_}', handle, lease={lease})\n")
        with subprocess.Popen([sys.executable, "-c", work], env=env, text=True,
                              stdout=subprocess.PIPE) as worker:
            lines = [worker.stdout.readline().split() for _ in range(3)]
            wait_until(lambda: c.call("GET", f"/v1/queues/{queue_}")[1]["leased"] == 0)
            worker.kill()
            lines += [x.split() for x in worker.stdout.read().splitlines()]
        keys = {x[0]: set() for x in lines}
        for name, _, key, version in lines:
            keys[name].add(key)
            assert key.startswith(f"{queue_}/{name}/{version}/"), key
        equal([len(x) for x in keys.values()], [1, 1])
        # The worker renews each lease after a third of it. The host may delay that.
        if d.metric("lost_total") > lost:
            raise Slow(f"a lease of {lease} s ended before the worker renewed it")
        equal(sorted(x[:2] for x in lines), [["a", "1"], ["a", "2"], ["b", "1"]])
    rounds(run, 5)
    equal(d.end(), 0)


@test("D14: a name server that does not answer delays no other endpoint")
def silent_dns():
    env = slow_dns(5)
    if not env:
        return "SKIP no compiler"
    _, d, c = alone(env=env, mode="push")
    other = Sink()
    begin = int(now_ms()) + 200
    c.call("PUT", "/v1/queues/s/tasks/slow", {
        "timeout": "500ms", "callback": {"url": "http://a.slow/"}, "retry": {"limit": 1}})
    due = {t["id"]: t["due"] for t in c.call("POST", "/v1/queues/s/tasks", {"tasks": [
        {"id": f"sd-{n}", "at": begin + 20 * n, "callback": {"url": other.url + "/"}}
        for n in range(100)]})[1]["tasks"]}
    wait_until(lambda: len(other.received()) == 100)
    late = max(r["at"] - due[r["id"]] for r in other.received())
    assert late < 1000 + spare(), f"{late} ms"
    answer = c.call("GET", "/v1/queues/s/tasks/slow")[1]
    equal(answer["state"], "dead")
    equal(d.end(), 0)


@test("D17: on SIGTERM running requests finish, held tasks are released, and the exit status is 0")
def graceful():
    own, d, c = alone(mode="push")
    other = Sink()
    c.call("PUT", "/v1/queues/s/tasks/runs", {"callback": {"url": other.url + "/slow/700"}})
    c.call("PUT", "/v1/queues/s/tasks/held", {"in": "400ms", "callback": {"url": other.url}})
    other.wait_for("runs")
    begin = time.monotonic()
    equal(d.end(), 0)
    assert time.monotonic() - begin < 3 + spare() / 1000
    e = Daemon(own)
    c = e.client()
    equal(c.raw("GET", "/v1/queues/s/tasks/runs")[0], 404, "it was reported")
    other.wait_for("held", seconds=3)
    equal([r["attempt"] for r in other.received("held")], [1])
    equal(e.metric("lost_total"), 0, "it was given back")
    equal(e.end(), 0)


@test("D17: on SIGTERM tasks of a take that is still under way are given back too")
def graceful_take():
    def run(_):
        own, d, c = alone(mode="push", lanes=1, ahead="2s")
        due = int(now_ms()) + 2500
        c.call("PUT", "/v1/queues/s/tasks/x", {"at": due, "callback": {"url": sink.url + "/"}})
        time.sleep(max(0, due - 2200 - now_ms()) / 1000)
        own.stop()
        in_time(due - 2000, "the stop of Redis")
        # The take is sent 2 s before the task is due.
        settle(0.5)
        d.process.send_signal(signal.SIGTERM)
        in_time(due, "SIGTERM")
        settle(0.2)
        own.go_on()
        equal(d.process.wait(timeout=HANG), 0)
        time.sleep(0.1)
        equal((own.ask("ZCARD", "tw:{s/0}:run"), own.ask("ZCARD", "tw:{s/0}:due")), ("0", "1"))
    rounds(run)


@test("D17: a request that does not end is given back after stop-timeout, or at a second signal")
def impatient():
    own, d, c = alone("--stop-timeout=500ms", mode="push")
    other = Sink()
    c.call("PUT", "/v1/queues/s/tasks/x", {"callback": {"url": other.url + "/hold"},
                                           "timeout": "10min"})
    other.wait_for("x")
    begin = time.monotonic()
    equal(d.end(), 0)
    assert time.monotonic() - begin < 2 + spare() / 1000
    e = Daemon(own)
    other.wait_for("x", 2, seconds=3)
    equal(e.metric("lost_total"), 0, "it was given back")
    e.process.send_signal(signal.SIGTERM)
    wait_until(lambda: "stopping: 1 requests are running" in e.text())
    time.sleep(0.3)
    equal(e.process.poll(), None, "it waits for the request")
    begin = time.monotonic()
    equal(e.end(), 0)
    assert time.monotonic() - begin < 2 + spare() / 1000
    f = Daemon(own)
    other.wait_for("x", 3, seconds=3)
    equal(f.metric("lost_total"), 0, "it was given back")
    equal(f.end(signal.SIGKILL), -9)


@test("D17: stop-timeout is not extended for a Redis that is away, or for half a request")
def punctual():
    own, other = Redis(), Sink()
    d = Daemon(own, "--stop-timeout=1s")
    c = d.client()
    c.call("PUT", "/v1/queues/s", {"mode": "push"})
    c.call("PUT", "/v1/queues/s/tasks/x", {"callback": {"url": other.url + "/hold"},
                                           "timeout": "10min"})
    other.wait_for("x")
    own.kill()
    other.let("x")
    begin = time.monotonic()
    equal(d.end(), 0)
    assert 0.9 < time.monotonic() - begin < 1.7 + spare() / 1000, time.monotonic() - begin
    own.start()
    e = Daemon(own, "--stop-timeout=1s")
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(e.path)
        s.sendall(b"PUT /v1/queues/s HTTP/1.1\r\nHost: localhost\r\n"
                  b"Content-Type: application/json\r\nContent-Length: 20\r\n\r\n{")
        # The daemon reads it before, or together with, these.
        for _ in range(3):
            equal(e.client().raw("GET", "/healthz")[0], 200)
        begin = time.monotonic()
        equal(e.end(), 0)
        assert 0.9 < time.monotonic() - begin < 1.7 + spare() / 1000, time.monotonic() - begin


@test("D17: reports that arrive just before the end of stop-timeout do no harm")
def last_reports():
    own, d, _ = alone("--stop-timeout=100ms", mode="pull")
    body = b'{"tasks":[{"id":"x","token":"%016x-1"}]}' % 5
    ack = (b"POST /v1/queues/s/ack HTTP/1.1\r\nHost: localhost\r\n"
           b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    workers = []
    for _ in range(200):
        s = socket.socket(socket.AF_UNIX)
        s.connect(d.path)
        s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        s.recv(4096)
        workers.append(s)
    own.stop()
    workers.pop().sendall(ack)
    time.sleep(0.05)
    d.process.send_signal(signal.SIGTERM)
    time.sleep(1)
    try:
        for s in workers:
            s.sendall(ack)
            time.sleep(0.002)
    except OSError:
        pass
    equal(d.process.wait(timeout=HANG), 0, d.text())


@test("D17: on SIGTERM workers get 503; for stop-delay /readyz is 503 and other requests still work")
def stop_delay():
    q = pull()

    def run(n):
        port, delay = free_ports()[0], 2 << n
        d = Daemon(redis, f"--stop-delay={delay}s", listen=f"127.0.0.1:{port}")
        wait_until(lambda: d.client().raw("GET", q)[0] == 200)
        answers = []

        def worker():
            conn = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG)
            conn.request("POST", f"{q}/reserve", '{"wait":"1min"}',
                         {"Content-Type": "application/json"})
            answer = conn.getresponse()
            answers.append((answer.status, answer.headers["Connection"],
                            json.loads(answer.read())))
        workers = [threading.Thread(target=worker) for _ in range(4)]
        for w in workers:
            w.start()
        kept = d.client()
        equal(kept.raw("GET", "/readyz")[0], 200)
        settle(0.3)
        begin = time.monotonic()
        d.process.send_signal(signal.SIGTERM)
        for w in workers:
            w.join()
        assert time.monotonic() - begin < 1 + spare() / 1000
        equal({(s, c, x["error"]["code"]) for s, c, x in answers}, {(503, "close", "stopping")})
        try:
            # The worker's next request waits before it gets 503, so the worker does not spin.
            status, head, _ = kept.raw("POST", f"{q}/reserve", {"wait": "20s"})
            equal((status, head["Connection"], head["Retry-After"]), (503, "close", "1"))
            assert unready(d.client()) == "twheeld is stopping"
            equal(d.client().call("GET", "/readyz")[1]["error"]["code"], "stopping")
            equal(d.client().call("PUT", f"{q}/tasks/x{n}", {"in": "1h"})[0], 201)
            socket.create_connection(("127.0.0.1", port), HANG).close()
        except OSError as e:
            assert time.monotonic() - begin >= delay, e
            equal(d.process.wait(timeout=HANG), 0)
            raise Slow("stop-delay was over") from e
        equal(d.process.wait(timeout=HANG), 0)
        took = time.monotonic() - begin
        assert delay - 0.1 < took < delay + 1.5 + spare() / 1000, took
    rounds(run, 6)
    # A second signal ends stop-delay.
    d = Daemon(redis, "--stop-delay=5min")
    d.process.send_signal(signal.SIGTERM)
    wait_until(lambda: unready(d.client()) == "twheeld is stopping")
    begin = time.monotonic()
    equal(d.end(), 0)
    assert time.monotonic() - begin < 2 + spare() / 1000


@test("D6: with wait-replicas a put is accepted only when a replica has it")
def wait_replicas():
    own = Redis("--repl-diskless-sync-delay", "0")
    few = "Redis has fewer replicas than wait-replicas"
    status, said = check(f"--redis=unix:{own.path}", "--wait-replicas=1")
    assert status == 0 and few in said, said
    d = Daemon(own, "--wait-replicas=1", "--wait-timeout=200ms", wait=False)
    c = d.client()
    wait_until(lambda: "wait-replicas" in unready(c))
    c.call("PUT", "/v1/queues/s", {"mode": "pull"})
    status, answer = c.call("PUT", "/v1/queues/s/tasks/x", {})
    equal((status, answer["error"]["code"]), (503, "fate_unknown"))
    port = socket.create_server(("127.0.0.1", 0)).getsockname()[1]
    own.ask("CONFIG", "SET", "port", str(port))
    replica = Redis("--replicaof", "127.0.0.1", str(port))
    put = "/v1/queues/s/tasks/x", {"if_exists": "keep"}
    answer = wait_until(lambda: (a := c.call("PUT", *put))[0] == 200 and a[1])
    equal(answer["result"], "kept")
    wait_until(d.ready, 3)
    status, said = check(f"--redis=unix:{own.path}", "--wait-replicas=1")
    assert status == 0 and few not in said, said
    equal(d.end(), 0)
    replica.kill()


@test("redis://HOST:PORT/DB: the daemon selects the database")
def tcp_redis():
    own = Redis()
    with socket.create_server(("127.0.0.1", 0)) as s:
        port = s.getsockname()[1]
    own.ask("CONFIG", "SET", "port", str(port))
    d = Daemon(own, f"--redis=redis://localhost:{port}/3")
    c = d.client()
    equal(c.call("PUT", "/v1/queues/s", {"mode": "pull"})[0], 201)
    due = c.call("PUT", "/v1/queues/s/tasks/x", {"in": "200ms"})[1]["due"]
    task, = c.call("POST", "/v1/queues/s/reserve", {"wait": "1min"})[1]["tasks"]
    assert 0 <= now_ms() - due < 200 + spare()
    assert "db3" in own.ask("INFO", "keyspace") and "db0" not in own.ask("INFO", "keyspace")
    equal(d.end(), 0)


@test("the daemon sends its scripts again after SCRIPT FLUSH")
def script_flush():
    q = pull()
    redis.ask("SCRIPT", "FLUSH")
    put(q, "x")
    task, = reserve(q)
    equal(report(q, "ack", task)[0], 200)


def of_newer(link, lane, task, part="hdr"):
    """Turn a task into one that a newer version stored, in another format."""
    key = lane.keys[resp.SETS.index(part)]
    text = link.ask("HGET", key, task)
    link.ask("HSET", key, task, b"\2" + text[1:])


@test("a task that a newer version stored is left alone: no route changes it, and it is counted")
def newer_task():
    own, d, c = alone(mode="pull", lanes=1)
    lane, link = resp.Lane("s/0"), resp.Redis(own.path)
    for task in ("header", "body", "longer", "ours"):
        put("/v1/queues/s", task, c, payload={"money": task}, **{"in": "2s"})
    of_newer(link, lane, "header")
    of_newer(link, lane, "body", "body")
    link.ask("HSET", lane.keys[2], "longer", link.ask("HGET", lane.keys[2], "longer") + b"more")

    def stored():
        return [sorted(zip(x[::2], x[1::2])) for x in (link.ask("HGETALL", k) for k in lane.keys[2:4])]
    before = [[x for x in part if x[0] != b"ours"] for part in stored()]
    got = reserve("/v1/queues/s", c, limit=10, seconds=5)
    equal([t["id"] for t in got], ["ours"])
    equal(report("/v1/queues/s", "ack", got[0], c)[0], 200)
    for path in ("/v1/queues/s/tasks/header", "/v1/queues/s/tasks/body"):
        for method, where, body in (("GET", path, None), ("PUT", path, {}), ("DELETE", path, None),
                                    ("PUT", path, {"if_exists": "keep"}),
                                    ("PUT", path, {"if_exists": "update"}),
                                    ("PATCH", path, {"in": "1h"}), ("POST", path + "/run", None),
                                    ("POST", path + "/replay", None)):
            status, answer = c.call(method, where, body)
            equal((status, answer["error"]["code"], answer["error"]["field"]), (409, "newer", "id"),
                  f"{method} {where}")
    answer = c.call("POST", "/v1/queues/s/tasks", {"tasks": [
        {"id": "header"}, {"id": "body"}, {"id": "new"}]})[1]
    equal([t.get("error", {}).get("code") for t in answer["tasks"]], ["newer", "newer", None])
    equal([t["id"] for t in reserve("/v1/queues/s", c, limit=10)], ["new"])
    equal(c.call("GET", "/v1/queues/s/tasks?state=dead")[1], {"tasks": []})
    c.call("DELETE", "/v1/queues/s/tasks/new")
    equal(c.call("GET", "/v1/queues/s/tasks")[1], {"tasks": [], "newer": 3})
    equal(c.call("POST", "/v1/queues/s/purge", {"state": "scheduled"}), (200, {"removed": 0}))
    status, answer = c.call("DELETE", "/v1/queues/s?purge=true")
    equal((status, answer["error"]["code"]), (409, "not_empty"))
    assert "newer" in answer["error"]["message"], answer
    equal([[x for x in part if x[0] != b"new"] for part in stored()], before)
    assert d.metric("newer_total") > 2 and d.metric("orphans_total") == 0
    assert "a newer twheeld" in d.text(), d.text()
    link.close()
    equal(d.end(), 0)


@test("a queue whose settings only a newer version can read is left alone: 409, at once")
def newer_queue():
    own, d, c = alone(mode="pull")
    text = '{"mode":"push","lanes":512}'
    own.run("HSET", "tw:queues", "q", text)
    own.run("HSET", "tw:queues", "s", text)
    before = d.metric("newer_total")
    for method, path, body in (("PUT", "q", {"mode": "push"}), ("GET", "q", None),
                               ("PUT", "q/tasks/t", {}), ("POST", "q/reserve", {}),
                               ("PUT", "s", {"timeout": "1s"})):
        begin = time.monotonic()
        status, answer = c.call(method, f"/v1/queues/{path}", body)
        equal((status, answer["error"]["code"], answer["error"]["field"]), (409, "newer", "queue"),
              f"{method} {path}")
        assert time.monotonic() - begin < 1 + spare() / 1000
    equal([own.run("HGET", "tw:queues", q).decode() for q in "qs"], [text, text])
    assert d.metric("newer_total") >= before + 5
    assert "queue q: its settings cannot be read" in d.text(), d.text()
    # What may be ignored stays when something else is changed here.
    own.run("HSET", "tw:queues", "n", '{"mode":"pull-limited","concurrency":4,"color":"red"}')
    for change, want in (({"timeout": "7s"}, 4), ({"concurrency": None}, None)):
        status, answer = c.call("PUT", "/v1/queues/n", change)
        equal((status, answer.get("concurrency"), answer["timeout"]), (200, want, 7000))
        stored = json.loads(own.run("HGET", "tw:queues", "n"))
        equal((stored.get("concurrency"), stored["timeout"], stored["color"]), (want, 7000, "red"))
    # A list counts the queues that it lacks.
    other = Daemon(own)
    wait_until(lambda: other.client().call("GET", "/v1/queues")[1].get("newer") == 2, 10)
    equal(other.end(), 0)
    # A queue that the daemon already knew goes on as it was.
    put("/v1/queues/s", "x", c)
    equal([t["id"] for t in reserve("/v1/queues/s", c)], ["x"])
    begin = time.monotonic()
    equal(d.end(), 0)
    assert time.monotonic() - begin < 2 + spare() / 1000


@test("tasks of a newer version hold up no others, in any state, and return to a daemon that "
      "knows them")
def newer_flood():
    lane, link = resp.Lane("flood/0", (CLOCK,)), resp.Redis(redis.path)
    holder, now = "%016x" % 9, 1700000000000
    due, run, hdr, _, dead, done = lane.keys[:6]

    def at(ms, script, *argv):
        return lane.run(link, script, *argv, 0, (now + ms) // 1000)

    def many(first, count, offset, keep=0):
        words = []
        for n in range(first, first + count):
            words += resp.put_words(f"t{n:04}", 0, 0, now + offset, 1, 0, 0, 0, keep, "\1")
        at(0, "put", 10 ** 6, *words)
    for first in range(0, 1000, 100):
        many(first, 100, 1000)
    for n in range(1000):
        of_newer(link, lane, f"t{n:04}")
    many(1000, 3, 2000)
    # They stay for a minute, up to a limit, so that the other version may take them.
    took = at(2000, "take", 2, 60000, holder, 0)
    equal([t[0] for t in took[10:]], [b"t1000", b"t1001"])
    equal(link.ask("ZCOUNT", due, 0, now + 10000), 512 + 1)
    equal(at(2000, "take", 1, 60000, holder, 0)[10][0], b"t1002")
    equal(at(2000, "look", "counts")[1], 1000)
    equal(at(90000, "take", 128, 60000, holder, 0)[2], -1)
    equal(link.ask("ZCOUNT", due, 0, now + 10 ** 6), 0)
    # Leased, done and dead tasks, as if the other version were gone.
    for n in (1000, 1001, 1002):
        token = [t[1] for t in took[10:] if t[0] == b"t%d" % n]
        if n == 1000:
            at(3000, "ack", holder, f"t{n}", token[0], 2, 0, 0, "no")
        of_newer(link, lane, f"t{n}")
    link.ask("ZADD", done, now, "t0000")
    recovered = at(200000, "recover", 128, 5)
    equal((recovered[1:5], recovered[7]), ([0, 0, 0, -1], 2))
    swept = at(200000, "sweep", 128, 100, 1000)
    equal(swept[1:6], [0, 0, 0, 0, 0])
    equal((link.ask("HLEN", hdr), link.ask("ZCARD", dead), link.ask("ZCARD", done)), (1003, 1, 1))
    # A version that knows a single one finds it behind hundreds that it does not know.
    link.ask("HSET", hdr, "t0990", b"\1" + link.ask("HGET", hdr, "t0990")[1:])
    for n in range(200):
        if int(link.ask("ZSCORE", due, "t0990")) == now + 1000:
            break
        at(200000 + 1000 * n, "sweep", 128, 100, 10 ** 9)
    equal(link.ask("ZCOUNT", due, 0, now + 10 ** 6), 1)
    # The other version is back: all tasks return with their former scores.
    for n in range(1003):
        key = f"t{n:04}"
        link.ask("HSET", hdr, key, b"\1" + link.ask("HGET", hdr, key)[1:])
    link.ask("ZREM", done, "t0000")
    for n in range(200):
        at(200000 + 1000 * n, "sweep", 128, 100, 10 ** 9)
    equal(link.ask("ZCOUNT", due, now + 1000, now + 1000), 1000)
    equal((link.ask("ZCOUNT", run, 0, now + 10 ** 6), link.ask("ZSCORE", dead, "t1000")),
          (2, b"%d" % (now + 3000)))
    equal(len(at(200000, "take", 128, 60000, holder, 0)), 10 + 128)
    for key in lane.keys:
        link.ask("DEL", key)
    link.close()


# ---- Authentication, secrets ----

@test("daemons of two versions serve a lane, although their scripts have other arguments")
def other_version():
    path = pull(lanes=1)
    other = resp.Lane(path.rpartition("/")[2] + "/0", (
        ("put", "local FIELDS = 4", "local FIELDS = 5"),
        ("ack", "local FIELDS = 6", "local FIELDS = 7")))
    link = resp.Redis(redis.path)
    put(path, "x", payload="text", **{"in": "1h"})
    # The older version puts a task, takes it and gives it back.
    body = link.ask("HGET", other.keys[3], "x")
    other.run(link, "put", 1000, *resp.put_words("y", 0, 1, 0, 10, 0, 0, 0, 0, body), "new")
    holder = "%016x" % 7
    taken = other.run(link, "take", 10, 60000, holder, 7200000)[10:]
    equal({t[0] for t in taken}, {b"x", b"y"})
    words = [word for t in taken for word in (t[0], t[1], 3, 0, 0, "", "new")]
    equal(other.run(link, "ack", holder, *words)[1:], [0, 0])
    tasks = []
    while len(tasks) < 2:
        got = a.call("POST", f"{path}/reserve", {"limit": 2, "wait": "1min"})[1]["tasks"]
        assert got, tasks
        tasks += got
    equal(sorted((t["id"], t["payload"]) for t in tasks), [("x", "text"), ("y", "text")])
    status, answer = a.call("POST", f"{path}/ack", {
        "tasks": [{"id": t["id"], "token": t["token"]} for t in tasks]})
    equal(status, 200)
    assert "stale" not in str(answer), answer
    link.close()


@test("TCP requires a token; no secret reaches a log, the page or the metrics")
def secrets():
    token, secret = "t0ken" + "x" * 40, "whsec_" + "c2VjcmV0" * 6
    for name, text in (("token", token), ("secret", secret), ("password", "pa55word")):
        path = os.path.join(dir_, name)
        with open(path, "w") as f:
            f.write(text + "\n")
        os.chmod(path, 0o600)
    own = Redis("--requirepass", "pa55word")
    own_port = socket.create_server(("127.0.0.1", 0)).getsockname()[1]
    d = Daemon(own, f"--token-file={dir_}/token", f"--secret-file={dir_}/secret",
               f"--redis-password-file={dir_}/password", listen=f"127.0.0.1:{own_port}")
    c = d.client()
    c.call("PUT", "/v1/queues/s", {"mode": "push"})
    c.call("PUT", "/v1/queues/s/tasks/signed", {"callback": {"url": sink.url + "/"}})
    head = sink.wait_for("signed")[0]["head"]
    assert head["webhook-signature"].startswith("v1,"), head

    def tcp(path, headers):
        conn = http.client.HTTPConnection("127.0.0.1", own_port, timeout=HANG)
        conn.request("GET", path, None, headers)
        answer = conn.getresponse()
        return answer.status, answer.read().decode()
    equal(tcp("/v1/queues", {})[0], 401)
    equal(tcp("/v1/queues", {"Authorization": "Bearer wrong"})[0], 401)
    equal(tcp("/v1/queues", {"Authorization": f"Bearer {token}"})[0], 200)
    equal(tcp("/metrics", {})[0], 401)
    equal(tcp("/healthz", {})[0], 200)
    texts = [d.text(), c.raw("GET", "/metrics")[2], c.raw("GET", "/")[2],
             c.raw("GET", "/v1/queues")[2]]
    equal(d.end(), 0)
    texts.append(d.text())
    for text in texts:
        for word in (token, secret, secret[6:], "pa55word"):
            assert word not in text, "a secret is shown"


def resident(pid):
    """Return: the resident memory in MiB."""
    with open(f"/proc/{pid}/status") as f:
        return int(re.search(r"VmRSS:\s+(\d+)", f.read()).group(1)) >> 10


def send_parts(port, count, token=None, request="POST /v1/queues/s/tasks"):
    """Open connections that send a body of 4 MiB except its last byte, as far as they can."""
    head = f"Authorization: Bearer {token}\r\n" if token else ""
    size = 4 << 20
    conns = []
    for _ in range(count):
        s = socket.create_connection(("127.0.0.1", port))
        s.settimeout(HANG)
        s.sendall(f"{request} HTTP/1.1\r\nHost: localhost\r\n{head}"
                  f"Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n".encode())
        if not token and request.startswith("POST"):
            first = s.recv(4096)
            assert first.startswith(b"HTTP/1.1 401 "), first
        try:
            s.sendall(b"x" * (size - 1))
        except OSError:
            assert not token
        conns.append(s)
    return conns


@test("D11: max-lost counts consecutive leases: a report in between resets the count")
def lost_in_a_row():
    _, d, c = alone("--max-lost=2", mode="pull", lanes=1,
                    retry={"limit": 100, "base": "1ms", "cap": "1ms"})
    q = "/v1/queues/s"
    put(q, "t", c)
    for _ in range(2):
        reserve(q, c, lease="1s")
        task, = reserve(q, c, seconds=5)
        equal(c.call("GET", f"{q}/tasks/t")[1]["lost"], 1)
        equal(report(q, "nack", task, c)[0], 200)
        equal(c.call("GET", f"{q}/tasks/t")[1]["lost"], 0)
    for _ in range(2):
        equal(len(reserve(q, c, lease="1s", seconds=5)), 1)
    wait_until(lambda: c.call("GET", f"{q}/tasks/t")[1]["state"] == "dead", 5)
    equal(c.call("GET", f"{q}/tasks/t")[1]["error"], "lost")
    equal(d.end(), 0)


@test("D19: a request without a token is refused by its head, and all bodies share 64 MiB")
def bodies():
    token, port = "t0ken" + "y" * 40, free_ports()[0]
    path = os.path.join(dir_, "token-bodies")
    with open(path, "w") as f:
        f.write(token + "\n")
    d = Daemon(redis, f"--token-file={path}", listen=f"127.0.0.1:{port}")
    before = resident(d.process.pid)
    strangers = send_parts(port, 40)
    assert resident(d.process.pid) - before < 16, "bodies of strangers are kept"
    # These need no token, so they must not take the room of those who have one.
    for path in ("/healthz", "/readyz", "/"):
        strangers += send_parts(port, 10, request=f"GET {path}")
    assert resident(d.process.pid) - before < 16, "bodies of probes are kept"

    def share(_):
        begin, known, answers = time.monotonic(), send_parts(port, 40, token), []
        assert resident(d.process.pid) - before < 128, "there is no limit for bodies"
        for s in known:
            s.sendall(b"x")
            answers.append(s.recv(4096))
            s.close()
        # The daemon ends connections that are idle for 75 s.
        if time.monotonic() - begin > 70:
            raise Slow("the first bodies may have been dropped")
        busy = [x for x in answers if x.startswith(b"HTTP/1.1 503 ")]
        assert 20 < len(busy) < 30, len(busy)
        assert b'"busy"' in busy[0] and b"Retry-After" in busy[0], busy[0]
    rounds(share, 5)
    for s in strangers:
        s.close()
    wait_until(lambda: resident(d.process.pid) - before < 16, 5)
    equal(d.client().call("PUT", "/v1/queues/s", {})[0], 201)
    equal(d.end(), 0)


@test("without a token, a request for another host name of this machine is refused: 403")
def rebinding():
    port = socket.create_server(("127.0.0.1", 0)).getsockname()[1]
    d = Daemon(redis, listen=f"127.0.0.1:{port}")
    for host, want in (("evil.example", 403), (f"127.0.0.1:{port}", 200), ("localhost", 200)):
        conn = http.client.HTTPConnection("127.0.0.1", port, timeout=HANG)
        conn.request("GET", "/v1/queues", None, {"Host": host})
        equal(conn.getresponse().status, want, host)
    equal(d.end(), 0)


@test("exit status 2 for a wrong command line; --version; --check")
def command_line():
    def run(*words):
        return subprocess.run([PROGRAM, "-c", "/dev/null", *words], capture_output=True,
                              text=True, timeout=HANG)
    equal(run("--color=red").returncode, 2)
    equal(run("--lease=soon").returncode, 2)
    p = run("--version")
    equal((p.returncode, p.stdout.split()[0]), (0, "twheeld"))
    for option in ("--version", "--help"):
        with open("/dev/full", "w") as full:
            p = subprocess.run([PROGRAM, option], stdout=full, stderr=subprocess.PIPE, text=True)
        equal((p.returncode, p.stderr), (1, "twheeld: cannot write: No space left on device\n"))
    p = run(f"--redis=unix:{redis.path}", "--check")
    equal(p.returncode, 0)
    lines = p.stdout.splitlines()
    equal(lines[0], "the configuration and Redis are fine")
    with open(os.path.join(HERE, "../../doc/man/twheeld.8")) as f:
        page = f.read()
    for word, line in zip(("Workers:", "Containers:", "Upgrades:"), lines[1:], strict=True):
        assert line.startswith(word), line
        for section in re.findall(r"see ([A-Z]+) in twheeld\(8\)", line):
            assert f"\n.Sh {section}\n" in page, section
    p = run("--redis=unix:/nowhere", "--check")
    equal(p.returncode, 1)
    equal(p.stderr, "cannot use Redis: unix:/nowhere: No such file or directory\n")


@test("the log has a line for a task's first failure and for its death, with queue, id, host and "
      "status, or why there was none")
def failures_logged():
    _, d, c = alone("--max-lost=1", mode="push")
    host = sink.url.removeprefix("http://")
    for task, path in (("twice", "/status/500"), ("gone", "/status/410"), ("mute", "/close")):
        put("/v1/queues/s", task, c, callback={"url": sink.url + path},
            retry={"limit": 2, "base": "1ms"}, payload="payl0ad")
    put("/v1/queues/s", "local", c, callback={"url": "http://10.0.0.1/"})
    # libcurl has a text of its own if the connection was new.
    none = "the connection ended without an answer"
    wait_until(lambda: c.call("GET", "/v1/queues/s")[1]["dead"] == 4)
    lines = [re.sub(r"\w+://", "", x).replace("Empty reply from server", none)
             for x in d.text().splitlines() if "task " in x]
    first, dead = "failed for the first time", "is dead because all its attempts failed"
    equal(sorted(lines), sorted(f"<4>queue s: task {x}" for x in (
        f"twice {first}: {host}, status 500", f"twice {dead}: {host}, status 500",
        f"gone is dead: {host}, status 410",
        f"mute {first}: {host}, {none}", f"mute {dead}: {host}, {none}",
        "local is dead: 10.0.0.1:80, refused: 10.0.0.1 is a private address, which "
        "callback-allow does not include")))
    equal(c.call("PUT", "/v1/queues/w", {"mode": "pull"})[0], 201)
    put("/v1/queues/w", "bad", c)
    task, = reserve("/v1/queues/w", c)
    equal(report("/v1/queues/w", "nack", task, c, dead=True, error="payl0ad")[0], 200)
    put("/v1/queues/w", "lost", c)
    reserve("/v1/queues/w", c, lease="1s")
    wait_until(lambda: "queue w: tasks are dead because their leases ended" in d.text(), 5)
    assert "queue w: task bad is dead because a worker said so\n" in d.text(), d.text()
    assert "payl0ad" not in d.text(), d.text()
    equal(d.end(), 0)


@test("the journal gets log levels, other files do not")
def journal():
    for device, level in ((0, ""), (1, "<3>")):
        read, write = os.pipe()
        st = os.fstat(write)
        p = subprocess.Popen([PROGRAM, "-c", "/dev/null", "--redis=unix:/nowhere", "--check"],
                             stderr=write, env={
                                 **os.environ,
                                 "JOURNAL_STREAM": f"{st.st_dev * device}:{st.st_ino}"})
        os.close(write)
        equal(p.wait(timeout=HANG), 1)
        with os.fdopen(read) as f:
            said = f.read()
        assert said.startswith(f"{level}cannot use Redis"), said


@test("the daemon does not take the Unix socket of a live daemon, but one that was left behind")
def unix_socket():
    own = Redis()
    d = Daemon(own)
    second = Daemon(own, listen=f"unix:{d.path}", wait=False)
    equal(second.process.wait(timeout=HANG), 1)
    assert f"{d.path}: Address already in use" in second.text(), second.text()
    equal(d.client().raw("GET", "/readyz")[0], 200)
    equal(d.end(signal.SIGKILL), -9)
    assert os.path.exists(d.path)
    third = Daemon(own, listen=f"unix:{d.path}")
    equal(d.client().raw("GET", "/readyz")[0], 200)
    equal(third.end(), 0)
    assert not os.path.exists(d.path)


@test("systemd is told when the daemon is ready, that it is alive, and how long it may take to "
      "stop")
def notify():
    own, path = Redis(), os.path.join(dir_, "notify")
    own.kill()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(path)
        s.settimeout(HANG)
        d = Daemon(own, "--stop-timeout=90s", env={"NOTIFY_SOCKET": path}, wait=False)
        equal(s.recv(200), b"WATCHDOG=1", "without Redis it lives, and is not ready")
        own.start()
        wait_until(lambda: s.recv(200) == b"READY=1")
        wait_until(lambda: s.recv(200) == b"WATCHDOG=1")
        d.process.send_signal(signal.SIGTERM)
        text = wait_until(lambda: (t := s.recv(200).decode()).startswith("STOPPING=1\n") and t)
        assert int(text.split("EXTEND_TIMEOUT_USEC=")[1]) > 91e6, text
        equal(d.process.wait(timeout=HANG), 0)


@test("a daemon that starts before Redis waits for it")
def early_start():
    own = Redis()
    own.kill()
    d = Daemon(own, wait=False)
    wait_until(lambda: os.path.exists(d.path))
    time.sleep(0.2)
    equal(d.client().raw("GET", "/readyz")[0], 503)
    own.start()
    wait_until(lambda: d.client().raw("GET", "/readyz")[0] == 200)
    equal(d.client().call("PUT", "/v1/queues/s", {})[0], 201)
    equal(d.end(), 0, d.text())


@test("D14: a queue with a slow endpoint leaves room in a small hold-max for other queues")
def fair():
    own, other = Redis(), Sink()
    d = Daemon(own, "--hold-max=64")
    c = d.client()
    # The daemon asks the slow queue for its tasks first.
    for name in ("a-slow", "fast"):
        equal(c.call("PUT", f"/v1/queues/{name}", {"mode": "push"})[0], 201)
    c.call("POST", "/v1/queues/a-slow/tasks", {"tasks": [
        {"id": f"sl-{n}", "timeout": "10min", "callback": {"url": other.url + "/hold"}}
        for n in range(300)]})
    wait_until(lambda: len(other.received()) == 32)
    due = {}
    for n in range(60):
        due[f"fa-{n}"] = c.call("PUT", f"/v1/queues/fast/tasks/fa-{n}", {
            "in_ms": 600 + 50 * n, "callback": {"url": sink.url + "/"}})[1]["due"]
    late = sorted(sink.wait_for(task)[0]["at"] - at for task, at in due.items())
    print(f"# lateness p50 {late[30]:.1f} ms, worst {late[-1]:.1f} ms")
    equal(len(other.received()), 32, "the slow endpoint has no more than its share")
    equal(d.end(signal.SIGKILL), -9)


class Silent:
    """An endpoint on all addresses of this machine. Until it may answer 200, it ends each
    connection without an answer, or does not answer at all. It notes when each request came."""

    def __init__(self, ends=True):
        self.ends, self.answers, self.came, self.kept = ends, False, [], []
        self.socket = socket.create_server(("0.0.0.0", 0), backlog=1000)
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            link = self.socket.accept()[0]
            self.came.append(time.monotonic())
            if self.answers:
                link.recv(9999)
                link.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            if self.answers or self.ends:
                link.close()
            else:
                self.kept.append(link)


@test("D14: many hosts that do not answer leave callback slots to other queues")
def many_slow_hosts():
    silent = Silent(ends=False)
    _, d, c = alone("--callback-concurrency=40")
    equal(c.call("PUT", "/v1/queues/fast", {})[0], 201)
    c.call("POST", "/v1/queues/s/tasks", {"tasks": [
        {"id": f"ms-{n}", "timeout": "10min",
         "callback": {"url": f"http://127.1.0.{n + 1}:{silent.port}/"}} for n in range(120)]})
    wait_until(lambda: len(silent.came) == 30)
    for n in range(60):
        put("/v1/queues/fast", f"mf-{n}", c, **{"in_ms": 20 * n}, callback={"url": sink.url + "/"})
    for n in range(60):
        sink.wait_for(f"mf-{n}")
    equal(len(silent.came), 30, "three quarters of the slots")
    equal(d.end(signal.SIGKILL), -9)


@test("a host that does not answer backs off for 1 s, then 2 s, by name and by address, and then "
      "gets one request; its tasks use up no attempts")
def back_off():
    rounds(backs_off)


def backs_off(_):
    silent = Silent()
    _, d, c = alone()
    retry = {"limit": 20, "base": "10ms", "cap": "10ms", "jitter": 0}
    withheld = host.withheld

    def add(name, tasks):
        c.call("POST", "/v1/queues/s/tasks", {"tasks": [
            {"id": f"{name}-{n}", "retry": retry, "keep": "1h",
             "callback": {"url": f"http://{name}:{silent.port}/"}} for n in range(tasks)]})
    add("127.0.0.1", 10)
    wait_until(lambda: d.metric("hosts_backing_off") == 2)
    # Another name for this address, so nothing of it reaches the endpoint.
    add("localhost", 5)
    hosts = c.call("GET", "/v1/queues")[1]["hosts"]
    assert f"http://127.0.0.1:{silent.port}" in [h["host"] for h in hosts], hosts

    def probes():
        """How many requests had come before each one that came after a pause."""
        came = list(silent.came)
        return [n for n in range(1, len(came)) if came[n] - came[n - 1] > 0.5]
    wait_until(lambda: len(probes()) >= 2)
    begun, second = probes()[:2]
    good = begun <= 10 and second == begun + 1
    if not good and host.withheld - withheld > 300:
        d.end(signal.SIGKILL)
        raise Slow("the host made pauses as long as those of the daemon")
    assert good, (begun, silent.came)
    last, probe, again = silent.came[begun - 1:begun + 2]
    good = probe - last > 0.95 and again - probe > 1.95
    if not good and spare(withheld) > 300:
        d.end(signal.SIGKILL)
        raise Slow("a request was late, and the one after it was not")
    assert good, silent.came

    def delays():
        return [int(x) for x in re.findall(r" the next one in (\d+) ms", d.text())]
    # One of the two names has failed twice by then.
    wait_until(lambda: any(1500 < x <= 2000 for x in delays()))
    assert 500 < delays()[0] <= 1000, delays()
    text = c.raw("GET", "/metrics")[2]
    for reason in ("host", "address"):
        assert f'held_back_total{{reason="{reason}"}} 0\n' not in text, reason
    silent.answers = True
    wait_until(lambda: all(c.call("GET", f"/v1/queues/s/tasks/{name}-{n}")[1]["state"] == "done"
                           for name, tasks in (("127.0.0.1", 10), ("localhost", 5))
                           for n in range(tasks)))
    wait_until(lambda: c.call("GET", "/v1/queues")[1]["hosts"] == [])
    # One more request for each task, and the two probes.
    assert len(silent.came) <= begun + 2 + 15 + 1, (begun, len(silent.came))
    equal(d.end(), 0)


@test("D14: an answer is no failure of its host, whatever its status: other tasks of the host begin")
def answers():
    _, d, c = alone()
    for n, path in enumerate(("/status/500", "/status/502", "/retry/503/60", "/retry/429/60",
                              "/redirect", "/status/404")):
        put("/v1/queues/s", f"an-{n}", c, callback={"url": sink.url + path}, retry={"base": "1h"})
        wait_until(lambda n=n: c.call("GET", f"/v1/queues/s/tasks/an-{n}")[1]["attempts"] == 1)
        equal((d.metric("hosts_backing_off"), c.call("GET", "/v1/queues")[1]["hosts"]), (0, []), path)
        put("/v1/queues/s", f"an-{n}-next", c, callback={"url": sink.url + "/"})
        sink.wait_for(f"an-{n}-next")
    equal(d.metric('held_back_total{reason="host"}'), 0)
    equal(d.end(), 0)


@test("D14: a timeout below a second is no failure of the host: other tasks of the host begin")
def short_timeout():
    _, d, c = alone()
    for n in range(5):
        put("/v1/queues/s", f"hu-{n}", c, callback={"url": sink.url + "/slow/3000"}, timeout="50ms",
            retry={"base": "1h"})
        wait_until(lambda n=n: c.call("GET", f"/v1/queues/s/tasks/hu-{n}")[1]["attempts"] == 1)
        equal((d.metric("hosts_backing_off"), c.call("GET", "/v1/queues")[1]["hosts"]), (0, []))
        put("/v1/queues/s", f"hu-{n}-next", c, callback={"url": sink.url + "/"})
        sink.wait_for(f"hu-{n}-next")
    put("/v1/queues/s", "hu-1s", c, callback={"url": sink.url + "/slow/3000"}, timeout="1s",
        retry={"base": "1h"})
    wait_until(lambda: d.metric("hosts_backing_off") > 0, 5)
    equal(d.end(), 0)


@test("a flood in one queue delays another by no more than its share: a weight is how many tasks "
      "begin for each one of a queue of weight 1")
def weights():
    rounds(weighted)


def weighted(turn):
    other = Sink()
    _, d, c = alone("--callback-concurrency=1", "--ahead=5s")
    equal(c.call("PUT", "/v1/queues/heavy", {"weight": 3})[1]["weight"], 3)
    for weight in (0, 101, 1.5):
        status, answer = c.call("PUT", "/v1/queues/heavy", {"weight": weight})
        equal((status, answer["error"]["field"]), (400, "weight"))
    # This task has the only slot until all others are due.
    put("/v1/queues/s", "first", c, callback={"url": other.url + "/hold"}, timeout="10min")
    other.wait_for("first")
    at = int(now_ms()) + min(1000 * (turn + 1), 4500)
    for queue_, number in (("s", 120), ("heavy", 12)):
        equal(c.call("POST", f"/v1/queues/{queue_}/tasks", {"tasks": [
            {"id": f"{queue_}-{n}", "at": at, "callback": {"url": other.url + "/"}}
            for n in range(number)]})[0], 200)
    # Of tasks that are due, the daemon takes no more than it has slots.
    wait_until(lambda: now_ms() >= at or d.metric("held") == 133)
    if d.metric("held") != 133:
        d.end(signal.SIGKILL)
        in_time(at, "the last task")
    time.sleep(max(0, at + 200 - now_ms()) / 1000)
    other.let("first")
    wait_until(lambda: len(other.received()) == 133)
    order = [r["id"].split("-")[0] for r in other.received()][1:]
    last = max(n for n, name in enumerate(order) if name == "heavy")
    # Three for each one of the flood, which begins.
    assert last <= 12 + 4, (last, order)
    equal(d.end(), 0)


def leases(ran, name):
    """Return: when the leases of a queue's tasks end, and the maximum number of them at once.
    All leases have the same length, so their ends are as far apart as their takes, by the
    scripts' clock."""
    held, ends, most = set(), [], 0
    for _, _, words in ran:
        if len(words) < 2 or not re.fullmatch(r"tw:\{" + name + r"/\d+\}:run", words[1]):
            continue
        if words[0] == "ZADD":
            ends += [float(end) / 1000 for end, task in zip(words[2::2], words[3::2])
                     if task not in held]
            held |= set(words[3::2])
        elif words[0] == "ZREM":
            held -= set(words[2:])
        most = max(most, len(held))
    return ends, most


def within(begun, rate, burst):
    """Check that no window has more than the burst and what the rate allows."""
    for i, first in enumerate(begun):
        for j in range(i + burst, len(begun)):
            # The ends are whole milliseconds.
            allowed = burst + rate * (begun[j] - first + 0.001) + 0.01
            assert j - i + 1 <= allowed, (i, j, begun[j] - first)


class Workers:
    """Workers of a pull queue at two daemons, until they have had this many tasks."""

    def __init__(self, path, number, *daemons):
        self.got, self.number, self.path = [], number, path
        self.threads = [threading.Thread(target=self.work, args=(d.client(),)) for d in daemons * 2]

    def work(self, client):
        while len(self.got) < self.number:
            for task in reserve(self.path, client, limit=3, wait="300ms"):
                time.sleep(0.02)
                equal(report(self.path, "ack", task, client)[0], 200)
                self.got.append(task["id"])

    def run(self):
        for t in self.threads:
            t.start()
        for t in self.threads:
            t.join()
        equal(len(set(self.got)), self.number)
        equal(len(self.got), self.number)


@test("limits of a queue: bad values get 400 with the field, and null removes a limit")
def limit_values():
    p = push()
    for body, field in (
            ({"rate": 5}, "rate"), ({"rate": {}}, "rate.limit"), ({"rate": {"limit": 0}}, "rate.limit"),
            ({"rate": {"limit": 1, "per": 1000}}, "rate.per"),
            ({"rate": {"limit": 1, "per": "0s"}}, "rate.per"),
            ({"rate": {"limit": 1, "per": "25h"}}, "rate.per"),
            ({"rate": {"limit": 1, "burst": 0}}, "rate.burst"),
            ({"rate": {"limit": 1, "more": 0}}, "rate.more"),
            ({"rate": {"limit": 1000001}}, "rate.limit"),
            ({"rate": {"limit": 1, "burst": 1000001}}, "rate.burst"),
            ({"concurrency": 0}, "concurrency"), ({"concurrency": "1"}, "concurrency"),
            ({"concurrency": 1000001}, "concurrency"), ({"weight": 0}, "weight"),
            ({"weight": 101}, "weight"), ({"weight": None}, "weight")):
        status, answer = a.call("PUT", p, {"timeout": "3s", **body})
        equal((status, answer["error"]["code"], answer["error"]["field"]), (400, "invalid", field))
    assert not {"rate", "concurrency", "weight"} & set(answer := a.call("GET", p)[1]), answer
    equal(answer["timeout"], 10000)
    answer = a.call("PUT", p, {"rate": {"limit": 7}, "concurrency": 3})[1]
    equal((answer["rate"], answer["concurrency"], answer["mode"]),
          ({"limit": 7, "per": 1000, "burst": 7}, 3, "push"))
    wait_until(lambda: b.call("GET", p)[1].get("rate"), 5)
    answer = a.call("PUT", p, {"rate": None, "concurrency": None})[1]
    assert "rate" not in answer and "concurrency" not in answer, answer


@test("a limit that is removed holds back no more tasks: those that waited an hour for it run")
def limit_removed():
    def held_back():
        return sum(d.metric('held_back_total{reason="rate"}') for d in (one, two))
    p, before = push(lanes=1, rate={"limit": 1, "per": "1h"}), held_back()
    for n in range(4):
        put(p, f"freed-{n}", a, callback={"url": sink.url + "/"})
    wait_until(lambda: held_back() > before)
    wait_until(lambda: any(r["id"].startswith("freed-") for r in sink.received()))
    equal(sum(r["id"].startswith("freed-") for r in sink.received()), 1)
    equal(a.call("PUT", p, {"rate": None})[0], 200)
    for n in range(4):
        sink.wait_for(f"freed-{n}")


@test("rate: over all daemons and lanes, no window has more than the burst and what the rate "
      "allows; the rest is late, not lost, and counted")
def rate_limit():
    limit = {"limit": 50, "per": "1s", "burst": 10}
    p, q = push(rate=limit), pull(rate=limit)

    def run():
        for path, fields in ((p, {"callback": {"url": sink.url + "/"}}), (q, {})):
            equal(a.call("POST", f"{path}/tasks", {"tasks": [
                {"id": f"rate-{path[-4:].strip('/')}-{n}", **fields} for n in range(120)]})[0], 200)
        Workers(q, 120, one, two).run()
        wait_until(lambda: len({r["id"] for r in sink.received()
                                if r["id"].startswith("rate-")}) == 120)
    ran = monitored(redis, run)
    for path in (p, q):
        begun, _ = leases(ran, path.rpartition("/")[2])
        assert len(begun) >= 120, len(begun)
        within(begun, 50, 10)
    held = [float(re.search(r'held_back_total{reason="rate"} (\d+)', d.client().raw(
        "GET", "/metrics")[2])[1]) for d in (one, two)]
    assert sum(held) > 0, held


@test("concurrency: there are never more leases at once, over all daemons and lanes, even when a "
      "daemon is killed; all tasks run in the end")
def concurrency_limit():
    own, other = Redis(), Sink()
    d, e = (Daemon(own, "--lease=6s") for _ in range(2))
    c = d.client()
    left = [d, e]
    equal(c.call("PUT", "/v1/queues/s", {"concurrency": 4})[0], 201)
    equal(c.call("PUT", "/v1/queues/w", {"mode": "pull", "concurrency": 4})[0], 201)
    wait_until(lambda: e.client().raw("GET", "/v1/queues/w")[0] == 200)

    def run():
        equal(c.call("POST", "/v1/queues/w/tasks", {"tasks": [
            {"id": f"w-{n}"} for n in range(60)]})[0], 200)
        Workers("/v1/queues/w", 60, d, e).run()
        equal(c.call("POST", "/v1/queues/s/tasks", {"tasks": [
            {"id": f"c-{n}", "callback": {"url": other.url + "/slow/200"}}
            for n in range(60)]})[0], 200)
        # This daemon is killed while it has leases, which count until they end.
        wait_until(lambda: len(other.received()) >= 8)
        victim = next(x for x in (d, e) * 99 if x.metric("held"))
        victim.end(signal.SIGKILL)
        left.remove(victim)
        wait_until(lambda: len({r["id"] for r in other.received()}) == 60)
        wait_until(lambda: own.ask("HLEN", "tw:{s/0}:hdr") == "0", 20)
    ran = monitored(own, run)
    for name in ("s", "w"):
        begun, most = leases(ran, name)
        assert len(begun) >= 60, len(begun)
        equal(most, 4, name)
    equal(left[0].end(), 0)


@test("D13: a daemon takes no more than hold-max tasks")
def bounded():
    _, d, c = alone("--hold-max=50", "--ahead=5s", mode="push")
    c.call("POST", "/v1/queues/s/tasks", {"tasks": [
        {"id": f"b{n}", "in": "4s", "callback": {"url": sink.url + "/"}} for n in range(500)]})
    wait_until(lambda: d.metric("held") > 0)
    most = 0
    for _ in range(10):
        most = max(most, d.metric("held"))
        time.sleep(0.05)
    assert most <= 50, most
    equal(d.end(), 0)


@test("D13: a daemon takes no more bodies than hold-bytes, except for those of a last take")
def bounded_bytes():
    own, d, c = alone("--hold-bytes=1M", "--ahead=5s", mode="push", lanes=1)
    lane, link = resp.Lane("s/0"), resp.Redis(own.path)
    put("/v1/queues/s", "first", c, payload="x" * 60000, callback={"url": sink.url + "/"},
        **{"in": "1h"})
    body = link.ask("HGET", lane.keys[3], "first")

    def run(n):
        # Only tasks that have not begun count. A daemon would take longer to store this many.
        due, most = int(now_ms()) + 4500, 0
        lane.run(link, "put", 1000, *(word for m in range(120) for word in resp.put_words(
            f"b{n}-{m}", 0, 0, due, 10, 0, 0, 0, 0, body)))
        until = now_ms() + 1000
        while most < 17 or now_ms() < until:
            held = d.metric("held")
            if now_ms() >= due:
                break
            assert held <= 35, held
            most = max(most, held)
        if most < 17:
            wait_until(lambda: own.ask("HLEN", "tw:{s/0}:hdr") == "1")
            raise Slow(f"only {most} tasks were held before they were due")
    rounds(run)
    link.close()
    equal(d.end(), 0)


@test("there are at most 1,000 clients, or as many as there are descriptors; the next one waits")
def many_clients():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    own = Redis()
    d = Daemon(own)
    # Redis, epoll and others use some of these 64 descriptors.
    for most, some in ((1000, 1000), (64, 80)):
        if most == 64:
            resource.prlimit(d.process.pid, resource.RLIMIT_NOFILE, (most, most))
        clients = []
        for _ in range(some):
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(HANG)
            s.connect(d.path)
            clients.append(s)
        clients[0].sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert clients[0].recv(99).startswith(b"HTTP/1.1 200")
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(0.3)
            s.connect(d.path)
            s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            try:
                raise AssertionError(s.recv(99))
            except TimeoutError:
                pass
            s.settimeout(HANG)
            for old in clients[:1 if most == 1000 else some]:
                old.close()
            assert s.recv(99).startswith(b"HTTP/1.1 200")
        for old in clients:
            old.close()
    equal(d.end(), 0)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def scripts(own):
    """Return: the number of scripts that Redis has run."""
    stats = own.run("INFO", "commandstats").decode()
    return sum(int(line.split("calls=")[1].split(",")[0]) for line in stats.splitlines()
               if line.startswith("cmdstat_eval"))


def script_rate(own, seconds):
    """Return: the number of scripts in a second, for some time."""
    begin, before = time.monotonic(), scripts(own)
    time.sleep(seconds)
    return (scripts(own) - before) / (time.monotonic() - begin)


def idle_queues(own, c):
    """Check that idle queues cost at most 50 scripts a second. A task in one of them runs, is
    kept and then removed."""
    # At first the daemon looks at each lane.
    wait_until(lambda: script_rate(own, 2) <= 50)
    rate = script_rate(own, 4)
    assert rate <= 50, rate
    withheld = host.withheld
    task = put("/v1/queues/q5", "now", c, keep="3s", callback={"url": sink.url + "/"})
    assert sink.wait_for("now")[0]["at"] - task["due"] < 1000 + spare(withheld)
    path = "/v1/queues/q5/tasks/now"
    # It is done, or even gone if the host was slow.
    wait_until(lambda: c.call("GET", path)[1].get("state") in ("done", None))
    # The task's retention ends, and the lane is empty again.
    wait_until(lambda: all(own.ask("HLEN", f"tw:{{q5/{n}}}:hdr") == "0" for n in range(4)), 15)
    rate = script_rate(own, 2)
    assert rate <= 50, rate


def monitored(own, what):
    """Return: the commands that Redis runs during what(): time, client ("lua" is a script),
    words."""
    link, lines = resp.Redis(own.path), []
    link.ask("MONITOR")
    link.socket.settimeout(None)

    def read():
        while not lines or b"end of the test" not in lines[-1]:
            lines.append(link.receive())
    thread = threading.Thread(target=read)
    thread.start()
    try:
        what()
    finally:
        own.ask("ECHO", "end of the test")
        thread.join()
        link.close()
    found = [re.match(r'\+?([0-9.]+) \[\d+ ([^]]*)\] (.*)', line.decode()) for line in lines]
    return [(float(m[1]), m[2], re.findall(r'"((?:[^"\\]|\\.)*)"', m[3])) for m in found if m]


def scripts_of(ran):
    """Return: the scripts among these commands: time, script, words."""
    names = {sha: script for script, sha in resp.Lane("x").sha.items()}
    return [(at, names[words[1]], words) for at, _, words in ran if words[0] == "EVALSHA"]


def shared_census(own, d, c, lanes, turn):
    """Check that all who ask share one census a second, and that a take waits for a part of it
    only.

    The daemon asks for at most 16 lanes in 2 ms, so how many parts come before the take depends
    on the host's speed: 1 to 4 of 250 are usual.
    """
    end, tasks, put_at = threading.Event(), [f"between-{turn}-{n}" for n in range(20)], {}

    def scrape(path):
        client = d.client()
        while not end.is_set():
            equal(client.raw("GET", path)[0], 200)

    def run():
        threads = [threading.Thread(target=scrape, args=(path,))
                   for path in ("/metrics", "/v1/queues") * 3]
        for t in threads:
            t.start()
        for task in tasks:
            put_at[task] = time.time()
            put("/v1/queues/q5", task, c, callback={"url": sink.url + "/"})
            sink.wait_for(task)
            time.sleep(0.1)
        end.set()
        for t in threads:
            t.join()
    withheld = host.withheld
    ran = scripts_of(monitored(own, run))
    withheld = host.withheld - withheld
    looks = [at for at, script, _ in ran if script == "look"]
    seconds = ran[-1][0] - ran[0][0]
    assert lanes <= len(looks) <= lanes * (seconds + 1), (len(looks), seconds)
    # The daemon waits after each part.
    gaps = [then - at for at, then in zip(looks[:lanes], looks[1:lanes])]
    pause = max(statistics.median(gaps[first::16]) for first in range(16))
    slow, usual = None, statistics.median(gaps)
    if pause < 3 * usual:
        assert withheld > 100, f"a census in one part: {pause} s, {usual} s"
        slow = Slow("the parts of the census had no pauses")
    for task in tasks:
        at = next(n for n, (_, script, words) in enumerate(ran)
                  if script == "put" and task in words)
        lane = ran[at][2][3]
        then = next(n for n in range(at, len(ran)) if ran[n][1] == "take" and lane in ran[n][2])
        between = sum(script == "look" for _, script, _ in ran[at:then])
        # Both clocks are those of this machine.
        most = 16 * ((ran[then][0] - put_at[task]) / 0.002 + 4)
        assert between <= most, (task, between, most)
        if between > lanes // 4:
            slow = Slow(f"{between} lanes came before the take of {task}")
    if slow:
        raise slow


@test("there are at most 1,000 queues: 429. Idle ones cost few scripts, and scrapes share a census")
def many_queues():
    own = Redis()
    d, e = Daemon(own), Daemon(own)
    c = d.client()
    for n in range(990):
        equal(c.call("PUT", f"/v1/queues/q{n}", {})[0], 201)
    # Of those that are put at the same time, at two daemons, none is stored in vain.
    with concurrent.futures.ThreadPoolExecutor(30) as pool:
        answers = list(pool.map(lambda n: (d, e)[n % 2].client().call(
            "PUT", f"/v1/queues/r{n}", {})[0], range(30)))
    equal(sorted(answers), [201] * 10 + [429] * 20)
    equal(own.ask("HLEN", "tw:queues"), "1000")
    equal(e.end(), 0)
    idle_queues(own, c)
    rounds(lambda turn: shared_census(own, d, c, 4000, turn), 5)
    status, answer = c.call("PUT", "/v1/queues/more", {})
    equal((status, answer["error"]["code"], answer["error"]["field"]),
          (429, "queue_full", "queue"))
    equal(c.call("PUT", "/v1/queues/q7", {"timeout": "1s"})[0], 200)
    equal(own.ask("HLEN", "tw:queues"), "1000")
    equal(d.end(), 0)


@test("no daemon logged an error that it could not explain")
def clean_logs():
    for d in (one, two):
        for line in d.text().splitlines():
            assert not line.startswith("<3>"), line
        equal(d.process.poll(), None, "the daemon lives")
        equal(d.end(), 0)


if __name__ == "__main__":
    run_all()
