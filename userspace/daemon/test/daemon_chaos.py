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

An operation without an answer is unknown. Its task is judged for "early" only.
"""
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
OPTIONS = (f"--lease={LEASE}s", "--max-lost=100")
chance = random.Random(SEED)
redis = Redis("--appendfsync", "always")
sink = Sink()
daemons = [Daemon(redis, *OPTIONS) for _ in range(4)]
wounds = []
stop = threading.Event()
lock = threading.Lock()
tasks = {}


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


def ask(method, path, body=None):
    """One request of any daemon. Return: status and answer, or None if it is unknown."""
    d = daemons[chance.randrange(4)]
    try:
        client = d.client(timeout=3)
        client.conn.request(method, path, None if body is None else json.dumps(body),
                            {"Content-Type": "application/json"})
        answer = client.conn.getresponse()
        text = answer.read().decode()
        client.close()
        return answer.status, json.loads(text)
    except (OSError, ValueError, Exception):
        return None


def work(part):
    rnd = random.Random(SEED * 100 + part)
    n = 0
    while not stop.is_set():
        n += 1
        task = f"t{part}-{n}"
        record = {"due": None, "bodies": [], "canceled": None, "unknown": False, "at": now_ms(),
                  "accepted": False}
        tasks[task] = record

        def put(delay):
            body = rnd.randrange(1 << 30)
            begun = now_ms()
            got = ask("PUT", f"/v1/queues/c/tasks/{task}", {
                "in": delay, "payload": body, "callback": {"url": sink.url + "/"},
                "retry": {"limit": 1000, "base": "100ms", "cap": "1s"}})
            if got is None or got[0] == 503:
                record["unknown"] |= got is None or got[1]["error"]["code"] == "fate_unknown"
                return False
            record["accepted"] = True
            record["due"] = got[1]["due"]
            record["bodies"].append((begun, now_ms(), body))
            return True
        if not put(rnd.choice((0, 100, 400, 1000, 3000))):
            continue
        what = rnd.random()
        if what < 0.15:
            time.sleep(rnd.random() * 0.4)
            got = ask("DELETE", f"/v1/queues/c/tasks/{task}")
            if got is None or got[0] == 503:
                record["unknown"] = True
            elif got[0] == 200:
                record["canceled"] = now_ms()
            elif got[0] == 202:
                # This attempt is the last; a daemon that dies meanwhile takes it along.
                record["unknown"] = True
        elif what < 0.25:
            time.sleep(rnd.random() * 0.3)
            put(rnd.choice((100, 600, 1500)))
        elif what < 0.35:
            time.sleep(rnd.random() * 0.3)
            got = ask("PATCH", f"/v1/queues/c/tasks/{task}", {"in": 700})
            if got is None or got[0] in (202, 503):
                record["unknown"] = True
            elif got[0] == 200:
                record["moved"] = now_ms()
                record["due"] = got[1]["due"]
        time.sleep(0.01)


def judge():
    runs = {}
    for r in sink.received():
        runs.setdefault(r["id"], []).append(r)
    count = dict.fromkeys(("lost", "early", "wrong body", "canceled", "unexplained"), 0)
    twice = unknown = 0
    for task, t in tasks.items():
        got = runs.get(task, [])
        for r in got:
            if r["at"] < int(r["head"]["twheel-scheduled-at"]):
                count["early"] += 1
        if t["unknown"]:
            unknown += 1
            continue
        if not t["accepted"]:
            continue
        if t["canceled"] is None and not got:
            count["lost"] += 1
            print(f"# lost: {task} {t}")
        if t["canceled"] and any(r["at"] > t["canceled"] for r in got):
            count["canceled"] += 1
            print(f"# ran after canceled: {task} {t} {[r['at'] for r in got]}")
        last = t["bodies"][-1]
        for r in got:
            bodies = {b for _, end, b in t["bodies"]}
            if int(r["body"]) not in bodies:
                count["wrong body"] += 1
                print(f"# unknown body: {task}")
        if t["canceled"] is None and got and not any(int(r["body"]) == last[2] for r in got):
            count["wrong body"] += 1
            print(f"# the new body never ran: {task} {t} {[(r['at'], r['body']) for r in got]}")
        same = [r for r in got if int(r["body"]) == last[2]]
        for first, second in zip(same, same[1:]):
            # A move or a run after a run makes another one.
            if first["head"]["idempotency-key"] != second["head"]["idempotency-key"]:
                continue
            twice += 1
            if not any(first["at"] - 1000 * LEASE <= w <= second["at"] for w in wounds):
                count["unexplained"] += 1
    accepted = sum(1 for t in tasks.values() if t["accepted"])
    print(f"seed {SEED}: {accepted} tasks accepted, {len(sink.received())} runs, "
          f"{len(wounds)} wounds, {unknown} unknown, {twice} ran twice")
    print(", ".join(f"{name} {n}" for name, n in count.items()))
    return not any(count.values())


def main():
    wait_until(lambda: (ask("PUT", "/v1/queues/c", {"mode": "push"}) or (0,))[0] in (200, 201))
    threads = [threading.Thread(target=work, args=(n,)) for n in range(10)]
    threads.append(threading.Thread(target=killer))
    for t in threads:
        t.start()
    time.sleep(SECONDS)
    stop.set()
    for t in threads:
        t.join()

    def idle():
        got = ask("GET", "/v1/queues/c")
        return got and got[0] == 200 and not got[1]["scheduled"] + got[1]["leased"]
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
