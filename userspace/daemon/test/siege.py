# SPDX-License-Identifier: GPL-2.0
"""Clients of daemons that are under attack, and the judge of what became of their tasks.

Clients put, move, replace and cancel tasks. An attack kills and stops daemons and servers of
Redis meanwhile. Afterwards all tasks must end. The judge knows only what the clients were told:

  lost           an accepted task never ran
  early          it ran before its due time
  wrong body     it ran with a body that had been replaced before it began
  canceled       it ran after "canceled", that is 200
  unexplained    it ran twice, and nobody was killed or stopped around the first run

A put that has no answer, or a 503, is repeated. Any other operation without an answer is
unknown, and its task is judged for "early" only. If more than UNKNOWN_MOST of the operations
are unknown, too little was judged.
"""
import json
import random
import sys
import threading
import time

from rig import Sink, now_ms, wait_until

CLIENTS = 10
TRIES = 40
UNKNOWN_MOST = 0.05


class Siege:
    """start: makes a daemon. lease: of a task, seconds."""

    def __init__(self, seed, lease, start, daemons=4, lanes=None):
        self.seed, self.lease, self.start = seed, lease, start
        self.chance = random.Random(seed)
        self.lanes = lanes
        self.sink = Sink()
        self.daemons = [start() for _ in range(daemons)]
        self.tasks, self.wounds = {}, []
        self.operations = 0
        self.stop = threading.Event()
        self.broken = None

    def wound(self):
        self.wounds.append(now_ms())

    def kill_daemon(self, n):
        self.wound()
        self.daemons[n].process.kill()
        self.daemons[n].process.wait()
        self.daemons[n] = self.start()

    # ---- Clients ----

    def ask(self, method, path, body=None):
        """One request of any daemon. Return: status and answer, or None if it is unknown."""
        d = self.chance.choice(self.daemons)
        self.operations += 1
        try:
            client = d.client(timeout=8)
            client.conn.request(method, path, None if body is None else json.dumps(body),
                                {"Content-Type": "application/json"})
            answer = client.conn.getresponse()
            text = answer.read().decode()
            client.close()
            return answer.status, json.loads(text)
        except Exception:
            return None

    def put(self, task, record, delay, body):
        """Return: whether it was accepted."""
        begun = now_ms()
        for tries in range(TRIES):
            got = self.ask("PUT", f"/v1/queues/c/tasks/{task}", {
                "in": delay, "payload": body, "callback": {"url": self.sink.url + "/"},
                "retry": {"limit": 1000, "base": "100ms", "cap": "1s"}})
            if got and got[0] in (200, 201):
                record["accepted"] = True
                # Of several tries any may have been done.
                record["bodies"].append((begun, now_ms(), body,
                                         0 if tries else got[1]["due"]))
                record["repeated"] |= tries > 0
                return True
            if self.stop.is_set() and tries > 3:
                break
            time.sleep(0.1)
        record["unknown"] = True
        return False

    def change(self, task, record, rnd):
        what = rnd.random()
        if what < 0.15:
            time.sleep(rnd.random() * 0.4)
            got = self.ask("DELETE", f"/v1/queues/c/tasks/{task}")
            if got is None or got[0] in (202, 503):
                # 202: this attempt is the last; a daemon that dies meanwhile takes it along.
                record["unknown"] = True
            elif got[0] == 200:
                record["canceled"] = now_ms()
        elif what < 0.25:
            time.sleep(rnd.random() * 0.3)
            self.put(task, record, rnd.choice((100, 600, 1500)), rnd.randrange(1 << 30))
        elif what < 0.35:
            time.sleep(rnd.random() * 0.3)
            got = self.ask("PATCH", f"/v1/queues/c/tasks/{task}", {"in": 700})
            if got is None or got[0] in (202, 503):
                record["unknown"] = True
            elif got[0] == 200:
                record["moved"] = True

    def work(self, part):
        rnd = random.Random(self.seed * 100 + part)
        n = 0
        while not self.stop.is_set():
            n += 1
            task = f"t{part}-{n}"
            record = {"bodies": [], "canceled": None, "unknown": False, "accepted": False,
                      "repeated": False, "moved": False}
            self.tasks[task] = record
            if self.put(task, record, rnd.choice((0, 100, 400, 1000, 3000)),
                        rnd.randrange(1 << 30)):
                self.change(task, record, rnd)
            time.sleep(0.01)

    # ---- The judge ----

    def judge_task(self, task, t, got, count):
        for r in got:
            told = [due for _, _, b, due in t["bodies"] if b == int(r["body"])]
            if r["at"] < int(r["head"]["twheel-scheduled-at"]) or \
                    (told and not t["moved"] and not t["unknown"] and r["at"] < told[0]):
                count["early"] += 1
                print(f"# early: {task} {t} {r['at']}")
        if t["unknown"] or not t["accepted"]:
            return
        if t["canceled"] is None and not got:
            count["lost"] += 1
            print(f"# lost: {task} {t}")
        if t["canceled"] and any(r["at"] > t["canceled"] for r in got):
            count["canceled"] += 1
            print(f"# ran after canceled: {task} {t} {[r['at'] for r in got]}")
        last = t["bodies"][-1][2]
        if any(int(r["body"]) not in {b for _, _, b, _ in t["bodies"]} for r in got):
            count["wrong body"] += 1
            print(f"# unknown body: {task}")
        if t["canceled"] is None and got and not any(int(r["body"]) == last for r in got):
            count["wrong body"] += 1
            print(f"# the new body never ran: {task} {t} {[(r['at'], r['body']) for r in got]}")

    def duplicates(self, t, got, count):
        """Return: how often it ran again."""
        twice = 0
        if t["unknown"] or not t["accepted"]:
            return 0
        last = t["bodies"][-1][2]
        same = [r for r in got if int(r["body"]) == last]
        for first, second in zip(same, same[1:]):
            # A move or a put after a run makes another one.
            if first["head"]["idempotency-key"] != second["head"]["idempotency-key"]:
                continue
            twice += 1
            if not any(first["at"] - 1000 * self.lease <= w <= second["at"]
                       for w in self.wounds):
                count["unexplained"] += 1
                print(f"# unexplained: {first['id']} {[r['at'] for r in same]}")
        return twice

    def judge(self):
        runs = {}
        received = self.sink.received()
        for r in received:
            runs.setdefault(r["id"], []).append(r)
        count = dict.fromkeys(("lost", "early", "wrong body", "canceled", "unexplained"), 0)
        twice = 0
        for task, t in self.tasks.items():
            self.judge_task(task, t, runs.get(task, []), count)
            twice += self.duplicates(t, runs.get(task, []), count)
        unknown = sum(t["unknown"] for t in self.tasks.values())
        print(f"seed {self.seed}: {sum(t['accepted'] for t in self.tasks.values())} tasks "
              f"accepted, {len(received)} runs, {len(self.wounds)} wounds, {unknown} unknown of "
              f"{self.operations} operations, {twice} ran twice")
        print(", ".join(f"{name} {n}" for name, n in count.items()), flush=True)
        return not any(count.values()) and unknown <= UNKNOWN_MOST * self.operations

    # ---- All of it ----

    def guard(self, attack):
        try:
            attack(self)
        except BaseException as e:
            self.broken = e
            self.stop.set()
            raise

    def run(self, seconds, attack):
        """attack: called with this, until stop is set. Return: whether all is well."""
        settings = {"mode": "push", **({"lanes": self.lanes} if self.lanes else {})}
        wait_until(lambda: (self.ask("PUT", "/v1/queues/c", settings) or (0,))[0] in (200, 201))
        threads = [threading.Thread(target=self.work, args=(n,)) for n in range(CLIENTS)]
        threads.append(threading.Thread(target=self.guard, args=(attack,)))
        for t in threads:
            t.start()
        self.stop.wait(seconds)
        self.stop.set()
        for t in threads:
            t.join()

        def idle():
            got = self.ask("GET", "/v1/queues/c")
            return got and got[0] == 200 and not got[1]["scheduled"] + got[1]["leased"]
        try:
            wait_until(idle, 40, 0.2)
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
    """PROGRAM [SECONDS [SEED]]. Return: seconds, seed. The rig has read the program."""
    return (float(sys.argv[2]) if len(sys.argv) > 2 else seconds,
            int(sys.argv[3]) if len(sys.argv) > 3 else 1)
