#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""chaos.py [--case c1|c2] [--aof everysec|always] [--seconds N] [--seed N] [--plant NAME]

Chaos for the scripts alone. Four workers take, run and report the tasks of one lane; three
clients put, move, replace and cancel them. In C1 a worker is killed each 0.7 s, and kills or
stops itself by lottery at each step. A stopped one goes on after its lease, and reports late.
In C2 Redis is killed each 2 s, too. Then all comes to rest, and judge.py reads the logs. Prints
TAP. With a plant it must fail: exit 0 if the judge noticed it.
"""
import argparse
import atexit
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time

import judge
import plants
from resp import Error, Lane, Redis, Server, put_words

WORKERS, CLIENTS = 4, 3
LEASE, MARGIN = 1200, 400
LOTTERY = .006
# One task of so many runs for so long, or its worker stops. Then the lease ends, another worker
# runs the task, and the late report comes in the middle of that.
SLOW_EACH, SLOW = 40, .3
KILL_EACH, REDIS_EACH = .7, 2
# If so long nothing changes at the end, what is left is lost: two leases and a half.
PATIENCE = 3
STATES = ("scheduled", "leased", "done", "dead")
RESULTS = ("created", "replaced", "kept", "exists", "full")


def now_us():
    return time.time_ns() // 1000


class Log:
    """Lines in a file. They outlive the process: each is one write()."""

    def __init__(self, directory, name):
        self.fd = os.open(os.path.join(directory, f"{name}.log"),
                          os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, **record):
        record.setdefault("t", now_us())
        os.write(self.fd, json.dumps(record).encode() + b"\n")


class Link:
    """A connection that comes back after Redis does."""

    def __init__(self, path, lane):
        self.path, self.lane, self.redis = path, lane, None

    def connect(self):
        while not self.redis:
            try:
                self.redis = Redis(self.path, 5)
                self.redis.ask("PING")
            except (OSError, Error):
                self.redis = None
                time.sleep(.02)

    def run(self, script, *argv):
        """Return: the answer, or None if it was lost."""
        self.connect()
        try:
            return self.lane.run(self.redis, script, *argv)
        except OSError:
            self.redis.close()
            self.redis = None
        except Error as e:
            # A server that still loads its data did nothing.
            if not str(e).startswith("LOADING"):
                raise
            time.sleep(.02)
        return None


class Worker:
    def __init__(self, link, log, seed, name, plant, end):
        self.link, self.log, self.name, self.plant, self.end = link, log, name, plant, end
        self.rng = random.Random(seed)
        self.holder = "%016x" % self.rng.getrandbits(64)
        self.number = 0

    def lottery(self):
        if self.rng.random() < LOTTERY and time.monotonic() < self.end:
            os.kill(os.getpid(), self.rng.choice((signal.SIGKILL, signal.SIGSTOP)))

    def report(self, name, task_id, token, verdict, delay):
        self.log.write(run=name, verdict=verdict)
        self.lottery()
        repeated = False
        while True:
            code = ("ok", "retry", "dead", "release").index(verdict)
            answer = self.link.run("ack", self.holder, task_id, token, code, delay, 0, "")
            if answer:
                break
            repeated = True
        self.lottery()
        said = ("applied", "stale", "dead")[answer[1]]
        if not (repeated and said == "stale"):
            self.log.write(run=name, reported=said)

    def handle(self, task, lease_end):
        task_id, token, _, due, _, version, _, body = task
        rng, task_id = self.rng, task_id.decode()
        lease_end = max(lease_end, due + LEASE)
        self.lottery()
        # Without ahead the script alone decides: that is what is tested.
        time.sleep(max(0, due * 1000 - now_us()) / 1e6 if self.ahead else 0)
        if self.plant != "no-lease-check" and now_us() > (lease_end - MARGIN) * 1000:
            return
        self.number += 1
        name = f"{self.name}.{self.number}"
        self.log.write(run=name, id=task_id, token=token, version=version,
                       body=body.decode(), lease_end=lease_end)
        self.lottery()
        if int(task_id.split("-")[1]) % SLOW_EACH == 0:
            if rng.random() < .4 and time.monotonic() < self.end:
                os.kill(os.getpid(), signal.SIGSTOP)
            else:
                time.sleep(SLOW)
        time.sleep(rng.choice((0, 0, 0, .002, .01)))
        if rng.random() < .02:
            self.link.run("renew", self.holder, LEASE, task_id, token)
        verdict = rng.choices(("ok", "retry", "release", "dead"), (80, 10, 6, 4))[0]
        self.report(name, task_id, token, verdict, rng.choice((0, 50, 300)))

    def loop(self):
        recovered = 0
        while True:
            self.lottery()
            self.ahead = self.rng.choice((0, 0, 100))
            if time.monotonic() > recovered + .1:
                self.link.run("recover", 128, 1000)
                recovered = time.monotonic()
            answer = self.link.run("take", self.rng.choice((1, 4, 8)), LEASE, self.holder,
                                   self.ahead)
            if not answer:
                continue
            for task in answer[7:]:
                self.handle(task, answer[0] // 1000 + LEASE)
            if not answer[7:]:
                wait = answer[2] - now_us() / 1000 if answer[2] >= 0 else 20
                time.sleep(min(max(wait - self.rng.choice((0, 0, 2)), 1), 20) / 1000)


class Client:
    def __init__(self, link, log, seed, number, end):
        self.link, self.log, self.number, self.end = link, log, number, end
        self.rng = random.Random(seed)
        self.ids, self.made, self.operations = [], 0, 0

    def ask(self, kind, task_id, script, argv, **asked):
        self.link.connect()
        self.operations += 1
        op = f"{self.number}.{self.operations}"
        self.log.write(op=op, kind=kind, id=task_id, **asked)
        lane, redis = self.link.lane, self.link.redis
        try:
            return op, lane.run(redis, script, *argv)
        except OSError:
            redis.close()
            self.link.redis = None
        except Error as e:
            if not str(e).startswith("LOADING"):
                raise
            self.log.write(op=op, answer="refused")
        return op, None

    def put(self, task_id, exists):
        rng = self.rng
        delay = rng.choice((0, rng.randrange(1500), rng.randrange(1500)))
        relative = rng.randrange(2)
        due = now_us() // 1000 + delay
        body = f"{task_id}#{self.operations}"
        argv = [10 ** 6, *put_words(task_id, exists, relative, delay if relative else due, 5, 0, 0,
                                    0, 0, body)]
        op, answer = self.ask("put", task_id, "put", argv, due=due, body=body)
        if answer:
            if isinstance(answer[1], int):
                told = answer[0] // 1000 + delay if relative else due
                answer[1] = [0, told, answer[1], 0, 0, b"", 0, 0]
            result, due, version, _, leased, _, token, _ = answer[1]
            self.log.write(op=op, answer="ok", result=RESULTS[result], due=due, version=version,
                           **({"token": token} if leased else {}))

    def change(self, task_id, kind):
        at = now_us() // 1000 + (self.rng.randrange(1000) if kind == "move" else 0)
        code = ("cancel", "move", "run", "replay").index(kind)
        op, answer = self.ask(kind, task_id, "change", [task_id, code, 0, at], due=at)
        if not answer:
            return
        if answer[1] < 0:
            self.log.write(op=op, answer="ok", state="none")
            return
        self.log.write(op=op, answer="ok", state=STATES[answer[1]], due=answer[2],
                       **({"token": answer[4]} if STATES[answer[1]] == "leased" else {}))

    def loop(self):
        rng = self.rng
        while time.monotonic() < self.end:
            kind = rng.choices(("new", "put", "move", "run", "replay", "cancel"),
                               (60, 14, 8, 3, 3, 12))[0]
            if kind == "new" or not self.ids:
                self.made += 1
                self.ids.append(f"{self.number}-{self.made}")
                self.put(self.ids[-1], 0)
            elif kind == "put":
                self.put(rng.choice(self.ids[-40:]), rng.choice((0, 0, 0, 1, 2)))
            else:
                self.change(rng.choice(self.ids[-40:]), kind)
            time.sleep(rng.random() * .02)


def fork(what, *args):
    pid = os.fork()
    if pid:
        return pid
    try:
        what(*args)
    except BaseException as e:
        print(f"# a process failed: {e!r}", flush=True)
        os._exit(1)
    os._exit(0)


class Chaos:
    def __init__(self, options, directory, server):
        self.options, self.directory, self.server = options, directory, server
        self.rng = random.Random(options.seed)
        self.lane = Lane("chaos/0", plants.SCRIPTS.get(options.plant, ()))
        self.workers, self.stopped, self.clients = {}, {}, set()
        self.started = self.kills = self.stops = self.failed = self.redis_kills = 0

    def start_worker(self):
        self.started += 1
        name = f"worker{self.started}"
        link, log = Link(self.server.path, self.lane), Log(self.directory, name)
        worker = Worker(link, log, self.rng.random(), name, self.options.plant, self.until)
        self.workers[fork(worker.loop)] = name

    def start_client(self, number, end):
        link, log = Link(self.server.path, self.lane), Log(self.directory, f"client{number}")
        self.clients.add(fork(Client(link, log, self.rng.random(), number, end).loop))

    def look_after(self):
        """Notices who died or stopped; wakes those whose lease is surely over."""
        for pid in list(self.workers):
            done, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
            if not done:
                continue
            if os.WIFSTOPPED(status):
                self.stopped[pid] = time.monotonic() + LEASE / 1000 + self.rng.random() * .4
                self.stops += 1
                continue
            self.failed += os.WIFEXITED(status)
            self.kills += 1
            del self.workers[pid]
            self.stopped.pop(pid, None)
            self.start_worker()
        for pid, end in list(self.stopped.items()):
            if time.monotonic() > end:
                os.kill(pid, signal.SIGCONT)
                del self.stopped[pid]
        for pid in list(self.clients):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                self.failed += status != 0
                self.clients.remove(pid)

    def strike(self, end):
        next_kill = time.monotonic() + KILL_EACH
        next_redis = time.monotonic() + REDIS_EACH
        while time.monotonic() < end or self.clients:
            time.sleep(.01)
            self.look_after()
            if time.monotonic() > next_kill:
                awake = [p for p in self.workers if p not in self.stopped]
                if awake:
                    os.kill(self.rng.choice(awake), signal.SIGKILL)
                next_kill = time.monotonic() + KILL_EACH
            if self.options.case == "c2" and REDIS_EACH and time.monotonic() > next_redis:
                self.server.kill_written()
                time.sleep(self.rng.random() * .2)
                self.server.start()
                self.redis_kills += 1
                next_redis = time.monotonic() + REDIS_EACH

    def rest(self):
        """Until nothing is left, or nothing happens."""
        redis, log = Redis(self.server.path), Log(self.directory, "final")
        seen, end = None, 0
        while True:
            self.look_after()
            counts = self.lane.run(redis, "look", "counts")[1:5]
            headers = redis.ask("HLEN", self.lane.keys[2])
            if (counts, headers) != seen:
                seen, end = (counts, headers), time.monotonic() + PATIENCE
            if headers == counts[3] or time.monotonic() > end:
                break
            time.sleep(.1)
        log.write(left=headers - counts[3])
        for first in range(0, counts[3], 1000):
            for task in self.lane.run(redis, "look", "list", "dead", first, 1000)[1:]:
                log.write(final=task[0].decode(), version=task[4])
        orphans = redis.ask("HGET", self.lane.keys[7], "orphan")
        return int(orphans or 0)

    def end(self):
        for pid in (*self.workers, *self.clients):
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
        self.workers, self.clients = {}, set()

    def run(self):
        self.until = end = time.monotonic() + self.options.seconds
        for number in range(CLIENTS):
            self.start_client(number, end)
        for _ in range(WORKERS):
            self.start_worker()
        self.strike(end)
        return self.rest()


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--case", choices=("c1", "c2"), default="c1")
    options.add_argument("--aof", choices=("everysec", "always"), default="everysec")
    options.add_argument("--seconds", type=float, default=20)
    options.add_argument("--seed", type=int, default=int(time.time()))
    options.add_argument("--plant", choices=sorted((*plants.SCRIPTS, *plants.WORKER)))
    options.add_argument("--keep", action="store_true", help="keep the logs")
    options = options.parse_args()
    print(f"TAP version 13\n# {options.case}, {options.aof}, {options.seconds:g} s, "
          f"seed {options.seed}", flush=True)
    directory = tempfile.mkdtemp(prefix="twheeld-chaos-")
    parent = os.getpid()
    server = Server(directory, "--appendonly", "yes", "--appendfsync", options.aof)
    chaos = Chaos(options, directory, server)

    def clean():
        if os.getpid() != parent:
            return
        chaos.end()
        server.kill()
        if options.keep:
            print(f"# logs: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)

    atexit.register(clean)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    orphans = chaos.run()
    chaos.end()
    verdict = judge.judge([os.path.join(directory, f) for f in os.listdir(directory)
                           if f.endswith(".log") and f != "redis.log"])
    print(f"# {chaos.kills} kills and {chaos.stops} stops of workers, {chaos.redis_kills} kills "
          f"of Redis")
    if options.plant:
        noticed = verdict.bad()
        print(f"# {options.plant}: {', '.join(noticed) or 'not noticed'}\n1..1")
        print(f"{'ok' if noticed else 'not ok'} 1 - C5: chaos notices {options.plant}")
        sys.exit(not noticed)
    print("1..9")
    good = judge.report(verdict, options.case.upper())
    for number, text, bad in ((8, "no orphan", orphans),
                              (9, "no worker or client failed by itself", chaos.failed)):
        print(f"{'not ' if bad else ''}ok {number} - {options.case.upper()}: {text}")
        good = good and not bad
    sys.exit(not good)


if __name__ == "__main__":
    main()
