#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""D8: cancel, move and replace race with the start of tasks in the last 500 ms before they are due.

  race_test.py PROGRAM [OPERATIONS [SEED]]

Three daemons hold tasks. Clients ask any of them to cancel, move or replace each task once, at
a random time in its last 500 ms. The answer that the client got and the requests that the
endpoint got must agree. No daemon dies here, so each run happens once. Prints TAP.
"""
import json
import os
import random
import socket
import sys
import time

OPERATIONS = int(sys.argv[2]) if len(sys.argv) > 2 else 2000
SEED = int(sys.argv[3]) if len(sys.argv) > 3 else int(time.time())
del sys.argv[2:]

from limits import HANG  # noqa: E402
from rig import Daemon, Redis, Sink, dir_, now_ms, wait_until  # noqa: E402

DAEMONS, CLIENTS, BATCH = 3, 4, 400
WINDOW = 500
QUEUE = "/v1/queues/race"
# This many operations must find a task held, or there was no race.
HELD = 10


class Link:
    """One connection. http.client would take longer than the daemon."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(HANG)
        self.socket.connect(path)
        self.rest = b""

    def read(self, until):
        while True:
            at = until(self.rest)
            if at is not None:
                got, self.rest = self.rest[:at], self.rest[at:]
                return got
            more = self.socket.recv(1 << 16)
            if not more:
                raise ConnectionError("the daemon closed the connection")
            self.rest += more

    def ask(self, method, path, body=None):
        text = b"" if body is None else json.dumps(body).encode()
        self.socket.sendall(
            f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(text)}\r\n\r\n".encode() + text)
        head = self.read(lambda b: b.find(b"\r\n\r\n") + 4 if b"\r\n\r\n" in b else None)
        length = next(int(line[15:]) for line in head.split(b"\r\n")
                      if line.lower().startswith(b"content-length:"))
        body = self.read(lambda b: length if len(b) >= length else None)
        return int(head[9:12]), json.loads(body)


def client(number, paths, url, operations, log):
    """Race until this many operations fell into the window."""
    rng = random.Random(f"{SEED}.{number}")
    links = [Link(p) for p in paths]
    done, made, cost = 0, 0, 2.0
    while done < operations:
        # Tasks fall due so far apart that this client keeps up.
        gap, first = cost * 1.2, now_ms() + WINDOW + 100
        tasks = [{"id": f"{number}-{made + n}", "at": int(first + n * gap), "payload": "old",
                  "callback": {"url": url}} for n in range(BATCH)]
        made += BATCH
        status, answer = rng.choice(links).ask("POST", f"{QUEUE}/tasks", {"tasks": tasks})
        assert status == 200, answer
        due = {t["id"]: t["due"] for t in answer["tasks"]}
        # Many operations come in the last milliseconds, when the attempt starts.
        plan = sorted((due[t] - rng.random() ** rng.choice((1, 4)) * WINDOW, t) for t in due)
        begun, busy = now_ms(), 0.0
        for at, task in plan:
            wait = at - now_ms()
            if wait > 0:
                time.sleep(wait / 1000)
            kind, link = rng.choice(("cancel", "move", "replace")), rng.choice(links)
            delay, sent = rng.randrange(600), now_ms()
            if kind == "cancel":
                status, answer = link.ask("DELETE", f"{QUEUE}/tasks/{task}")
            elif kind == "move":
                status, answer = link.ask("PATCH", f"{QUEUE}/tasks/{task}", {"in_ms": delay})
            else:
                status, answer = link.ask("PUT", f"{QUEUE}/tasks/{task}", {
                    "in_ms": delay, "payload": "new", "callback": {"url": url}})
            told = now_ms()
            busy += told - sent
            done += due[task] - WINDOW <= sent <= due[task]
            log.write(json.dumps({
                "id": task, "due": due[task], "kind": kind, "sent": sent, "told": told,
                "asked": sent + delay, "status": status, "new_due": answer.get("due"), "result": answer.get("result"),
                "was": answer.get("was"), "state": answer.get("state")}) + "\n")
        cost = max(0.5, busy / BATCH, (now_ms() - begun - WINDOW) / BATCH / 2)
    log.flush()


def judge(op, runs):
    """Return: what is wrong, or None."""
    old = [r for r in runs if r["body"] == '"old"']
    new = [r for r in runs if r["body"] == '"new"']
    kind, status = op["kind"], op["status"]
    if any(r["at"] < int(r["head"]["twheel-scheduled-at"]) for r in runs):
        return "early"
    if len(old) > 1 or len(new) > 1 or len(old) + len(new) != len(runs):
        return "ran twice"
    if kind == "cancel":
        if (status, op["state"]) == (200, "scheduled"):
            return runs and "ran after it was canceled"
        if status == 202:
            # Either the attempt had begun, or that was not known in time and it never began.
            return None
        return (status != 404 or len(old) != 1) and "gone without a run"
    if kind == "move":
        if len(old) != 1:
            return "moved, and did not run"
        if status == 200:
            return (old[0]["at"] < op["new_due"] or
                    int(old[0]["head"]["twheel-scheduled-at"]) != op["new_due"]) and \
                "ran at the time before"
        # If its holder did not answer, the task may have been moved or not.
        if old[0]["at"] < (min(op["due"], op["asked"]) if status == 202 else op["due"]):
            return "early"
        return status not in (202, 404, 409) and f"status {status}"
    if len(new) != 1:
        return "the new body did not run"
    if new[0]["at"] < op["new_due"]:
        return "early"
    if op["result"] == "created":
        return len(old) != 1 and "gone without a run"
    return op["result"] != "replaced" and "not replaced" or \
        not op["was"] and old and "the old body ran, and nobody was told"


def main():
    redis, sink = Redis(), Sink()
    daemons = [Daemon(redis, "--lease=30s") for _ in range(DAEMONS)]
    a = daemons[0].client()
    assert a.call("PUT", QUEUE, {"mode": "push", "lanes": 8})[0] == 201
    wait_until(lambda: all(d.client().raw("GET", QUEUE)[0] == 200 for d in daemons))
    wait_until(lambda: daemons[0].metric("members") == DAEMONS)
    begun = time.monotonic()
    children = {}
    for number in range(CLIENTS):
        path = os.path.join(dir_, f"race{number}.log")
        pid = os.fork()
        if not pid:
            status = 1
            try:
                with open(path, "w") as log:
                    client(number, [d.path for d in daemons], sink.url + "/",
                           -(-OPERATIONS // CLIENTS), log)
                status = 0
            except Exception as e:
                print(f"# client {number}: {e!r}", flush=True)
            finally:
                os._exit(status)
        children[pid] = path
    failed = sum(os.waitpid(pid, 0)[1] != 0 for pid in children)
    took = time.monotonic() - begun

    def idle():
        counts = a.call("GET", QUEUE)[1]
        return not counts["scheduled"] + counts["leased"]
    wait_until(idle, step=0.2)
    time.sleep(0.5)
    runs = {}
    for r in sink.received():
        runs.setdefault(r["id"], []).append(r)
    counts, wrong, inside, total = {}, {}, 0, 0
    for path in children.values():
        with open(path) as f:
            for line in f:
                op = json.loads(line)
                total += 1
                inside += op["due"] - WINDOW <= op["sent"] <= op["due"]
                key = f"{op['kind']} {op['status']}" + (" leased" if op["was"] else "")
                counts[key] = counts.get(key, 0) + 1
                why = judge(op, runs.get(op["id"], []))
                if why:
                    wrong.setdefault(why, []).append(
                        (op, [(r["at"], r["body"]) for r in runs.get(op["id"], [])]))
    recalled = 0
    for d in daemons:
        for line in d.client().raw("GET", "/metrics")[2].splitlines():
            if line.startswith("twheeld_recalls_total"):
                recalled += float(line.split()[-1])
    print(f"TAP version 13\n# seed {SEED}: {total} operations in {took:.0f} s, {inside} of them in "
          f"the last {WINDOW} ms, {recalled:.0f} recalls")
    print("# " + ", ".join(f"{k}: {n}" for k, n in sorted(counts.items())))
    rows = [("D8: what the clients were told is what the endpoint got", not wrong),
            (f"D8: {OPERATIONS} operations are in the window", inside >= OPERATIONS),
            ("D8: they meet tasks that daemons hold", recalled * HELD >= OPERATIONS),
            ("no client failed", not failed),
            ("the daemons end well", all([d.end() == 0 for d in daemons]))]
    for why, ops in wrong.items():
        print(f"# {why}: {len(ops)}")
        for op in ops[:3]:
            print(f"#   {op}")
    print(f"1..{len(rows)}")
    for n, (name, good) in enumerate(rows, 1):
        print(f"{'' if good else 'not '}ok {n} - {name}")
    sys.exit(0 if all(good for _, good in rows) else 1)


if __name__ == "__main__":
    main()
