# SPDX-License-Identifier: GPL-2.0
"""The cases of make bench-tasks. Each runs one of the compared programs once and returns its values.

All use the same Redis in turn, on its Unix socket. It is emptied in between.
"""
import os
import random
import signal
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../tests/daemon"))

import resp  # noqa: E402
from rig import Daemon, Redis, dir_, started, wait_until  # noqa: E402

QUEUE = "bench"
BODY = '"' + "x" * 198 + '"'
# The minimum lease of a push queue.
LEASE_MS = 6000
SPREAD_MS = 50
CONNECTIONS = 128
CALLS = 4
BATCH = 100
# Batches enqueue this many times more tasks, so that they take long enough to be measured.
MORE = 5


class Wrong(Exception):
    """A program failed, or lost a task, or ran one early, so its numbers do not count."""


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))]


class Lateness:
    """The lateness of each task in ms, in the order of the schedule."""

    def __init__(self, due, path, tasks=None):
        first, self.twice = {}, 0
        with open(path) as f:
            for line in f:
                task, at = map(int, line.split())
                if task in first:
                    self.twice += 1
                else:
                    first[task] = at / 1e6
        wanted = range(len(due)) if tasks is None else tasks
        self.lost = sum(t not in first for t in wanted)
        self.late = [first[t] - due[t] for t in wanted if t in first]
        self.at = first
        self.early = sum(x < 0 for x in self.late)

    def p(self, q):
        return quantile(self.late, q)

    def last(self):
        return max(self.late)

    def ours(self, may_run_twice=False):
        """Checks that twheeld lost no task, ran none early, and ran each only once."""
        if self.lost or self.early or (self.twice and not may_run_twice):
            raise Wrong(f"twheeld: lost {self.lost}, early {self.early}, twice {self.twice}")
        return self


class Bench:
    def __init__(self, load, modules):
        self.load, self.modules = load, modules
        # A rewrite of the append-only file during one measurement would be unfair.
        self.redis = Redis("--appendfsync", "everysec", "--auto-aof-rewrite-percentage", "0")
        self.number = 0

    # ---- Redis ----

    def info(self, section):
        text = self.redis.ask("INFO", section)
        pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
        return {k: v.strip() for k, v in pairs}

    def cpu(self):
        """Returns the CPU seconds that Redis's main thread has used."""
        info = self.info("cpu")
        return float(info["used_cpu_user_main_thread"]) + float(info["used_cpu_sys_main_thread"])

    def flush(self):
        self.redis.ask("FLUSHALL")

    # ---- Processes ----

    def file(self, kind):
        self.number += 1
        return os.path.join(dir_, f"{kind}{self.number}")

    def spawn(self, *words, **options):
        p = subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, text=True, **options)
        started.append(p)
        return p

    def program(self, *words):
        return self.spawn(self.load, *words)

    def node(self, *words):
        return self.spawn("node", os.path.join(HERE, "bullmq.mjs"), words[0], self.redis.path,
                          *words[1:], env={**os.environ, "NODE_MODULES": self.modules})

    def end_of(self, process, seconds, what):
        """Waits for the end of a program and returns its output."""
        try:
            out = process.communicate(timeout=seconds)[0]
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM)
            process.communicate()
            raise Wrong(f"{what} did not end within {seconds:.0f} s") from None
        if process.returncode:
            raise Wrong(f"{what} failed")
        return out

    def daemons(self, count, mode, *options, **settings):
        all_ = [Daemon(self.redis, f"--lease={LEASE_MS}ms", *options) for _ in range(count)]
        status, answer = all_[0].client().call("PUT", f"/v1/queues/{QUEUE}",
                                               {"mode": mode, **settings})
        if status not in (200, 201):
            raise Wrong(f"queue: {answer}")
        for d in all_:
            wait_until(lambda d=d: d.client().raw("GET", f"/v1/queues/{QUEUE}")[0] == 200)
        # Wait until all daemons know of each other.
        wait_until(lambda: all(d.metric("members") == count for d in all_))
        return all_

    def end_all(self, daemons):
        for d in daemons:
            if d.process.poll() is None:
                d.end()
        self.flush()

    # ---- Schedules ----

    def schedule(self, due):
        path = self.file("schedule")
        with open(path, "w") as f:
            f.write("".join(f"{ms}\n" for ms in due))
        return path

    @staticmethod
    def spread(tasks, wait):
        """Returns random due times, 1,000 per second, that begin in @wait seconds."""
        begin = int((time.time() + wait) * 1000)
        return [begin + random.randrange(tasks) for _ in range(tasks)]

    @staticmethod
    def instant(tasks, wait):
        return [int((time.time() + wait) * 1000)] * tasks

    @staticmethod
    def before(due, seconds):
        """Sleeps until this many seconds before the first task."""
        left = min(due) / 1000 - seconds - time.time()
        if left < 0:
            raise Wrong(f"enqueueing took {-left:.1f} s too long")
        time.sleep(left)

    # ---- The compared programs ----

    def put(self, daemon, schedule, batch=BATCH, connections=CALLS, rate=0, url=None,
            queue=QUEUE, payload=200):
        """Returns how many seconds it took, and with a rate the due times."""
        p = self.program("put", daemon.path, queue, schedule, connections, batch, rate,
                         *([url, payload] if url else []))
        return self.end_of(p, 600, "put").split()

    def sink(self, tasks):
        port, out = self.file("port"), self.file("sink")
        p = self.program("sink", port, tasks, out)
        wait_until(lambda: os.path.exists(port) and os.path.getsize(port))
        with open(port) as f:
            return p, out, f"http://127.0.0.1:{f.read().strip()}/"

    def worker(self, daemons, tasks):
        out = self.file("worker")
        return self.program("worker", QUEUE, tasks, out, CONNECTIONS,
                            *(d.path for d in daemons)), out

    def run(self, make_due, tasks, push=False, daemons=1, ahead=500, beside=True, during=None):
        """Runs twheeld and returns a dict. Its "kind" is what during(daemons, due) returned."""
        all_ = self.daemons(daemons, "push" if push else "pull", ahead=f"{ahead}ms")
        url = None
        if push:
            receiver, out, url = self.sink(tasks)
        else:
            receiver, out = self.worker(all_, tasks)
        due = make_due(tasks, 2 + tasks / 5000)
        schedule = self.schedule(due)
        self.put(all_[0], schedule, url=url)
        self.before(due, 1)
        cpu = self.cpu()
        bare_out = self.file("timerfd")
        bare = self.program("timerfd", schedule, bare_out) if beside else None
        kind = during(all_, due) if during else None
        try:
            self.end_of(receiver, max(due) / 1000 - time.time() + 30, "twheeld")
            if bare:
                self.end_of(bare, 10, "timerfd")
            # Reports are sent in batches, so wait for the last ones.
            time.sleep(0.1)
            return {"late": Lateness(due, out), "cpu": self.cpu() - cpu, "due": due, "kind": kind,
                    "out": out, "timerfd": Lateness(due, bare_out) if bare else None}
        finally:
            self.end_all(all_)

    def bullmq(self, make_due, tasks, callbacks=False):
        out, url = self.file("bullmq"), None
        if callbacks:
            receiver, out, url = self.sink(tasks)
        worker = self.node("work", tasks, self.file("bullmq") if callbacks else out,
                           *([url] if url else []))
        worker.stdout.readline()
        due = make_due(tasks, 4 + tasks / 2000)
        self.end_of(self.node("add", self.schedule(due), BATCH, CALLS), 600, "BullMQ's add")
        self.before(due, 1)
        cpu = self.cpu()
        seconds = max(due) / 1000 - time.time() + 60
        if callbacks:
            self.end_of(receiver, seconds, "BullMQ")
        self.end_of(worker, seconds, "BullMQ")
        cpu = self.cpu() - cpu
        self.flush()
        return {"late": Lateness(due, out), "cpu": cpu}

    def slices(self, tasks):
        rate = self.slices_put(self.spread(MORE * tasks, 3600))
        self.flush()
        due = self.spread(tasks, 4)
        out = self.file("slices")
        worker = self.program("slices-work", self.redis.path, tasks, out)
        self.slices_put(due)
        self.end_of(worker, max(due) / 1000 - time.time() + 30, "slices-work")
        self.flush()
        return {"late": Lateness(due, out), "rate": rate}

    def slices_put(self, due):
        """Returns tasks per second."""
        p = self.program("slices-put", self.redis.path, self.schedule(due), BATCH, CALLS)
        return len(due) / float(self.end_of(p, 60, "slices-put"))

    # ---- Enqueueing ----

    def enqueue(self, tasks):
        """Returns tasks per second of twheeld and BullMQ, with single calls and in batches."""
        rates = {}
        for name, batch, calls in (("one", 1, CONNECTIONS), ("batch", BATCH, CALLS)):
            tasks *= 1 if batch == 1 else MORE
            far = self.schedule([int(time.time() * 1000) + 3600000 + n for n in range(tasks)])
            all_ = self.daemons(1, "pull")
            rates[name] = tasks / float(self.put(all_[0], far, batch, calls)[0])
            self.end_all(all_)
            out = self.end_of(self.node("add", far, batch, calls), 600, "BullMQ's add")
            rates["bullmq " + name] = tasks / float(out)
            self.flush()
        return rates

    def put_at_once(self, tasks, rate):
        """Measures tasks that are due at once or soon, which another process puts."""
        all_ = self.daemons(1, "pull", ahead="500ms")
        worker, out = self.worker(all_, tasks)
        # Relative to the call, in ms.
        schedule = self.schedule([random.randrange(SPREAD_MS + 1) for _ in range(tasks)])
        bare_out = self.file("timerfd")
        bare_due = [int(time.time() * 1000) + 50 + int(n * 1000 / rate) for n in range(tasks)]
        bare = self.program("timerfd", self.schedule(bare_due), bare_out)
        took, *due = self.put(all_[0], schedule, 1, 16, rate)
        try:
            self.end_of(worker, 30, "twheeld")
            self.end_of(bare, 30, "timerfd")
            return {"late": Lateness([int(ms) for ms in due], out),
                    "timerfd": Lateness(bare_due, bare_out), "rate": tasks / float(took)}
        finally:
            self.end_all(all_)

    # ---- What goes wrong during a run ----

    def stalls(self, span_ms):
        """Returns a function that stops Redis four times for 300 ms."""
        def during(_, due):
            for n in range(4):
                at = (min(due) + span_ms * (n + .5) / 4) / 1000
                time.sleep(max(0, at - time.time()))
                self.redis.stop()
                time.sleep(0.3)
                self.redis.go_on()
        return during

    def held_by(self, member):
        """Returns the tasks that a daemon has taken."""
        redis, held = resp.Redis(self.redis.path), set()
        for lane in range(4):
            headers = redis.ask("HGETALL", f"tw:{{{QUEUE}/{lane}}}:hdr")
            for id_, header in zip(headers[::2], headers[1::2]):
                if header[1] == 1 and header[38:46] == struct.pack(">Q", int(member, 16)):
                    held.add(int(id_, 16))
        redis.close()
        return held

    def kill(self, span_ms):
        """Returns a function that kills the second daemon halfway and returns its tasks."""
        def during(daemons, due):
            time.sleep(max(0, (min(due) + span_ms / 2) / 1000 - time.time()))
            member = daemons[1].text().split("member ")[1].split()[0]
            daemons[1].process.kill()
            daemons[1].process.wait()
            return self.held_by(member)
        return during

    # ---- Memory ----

    def memory(self, tasks):
        """Returns the bytes of a task in Redis, and the resident MiB of a daemon that holds its maximum."""
        all_ = self.daemons(1, "push", ahead="5s")
        empty = int(self.info("memory")["used_memory"])
        far = int(time.time() * 1000) + 86400000
        url = "http://127.0.0.1:9/"
        # A stored body consists of 24 bytes, the URL with its NUL, and the payload.
        payload = 200 - 24 - len(url) - 1
        self.put(all_[0], self.schedule([far + n for n in range(tasks)]), url=url,
                 payload=payload)
        used = int(self.info("memory")["used_memory"]) - empty
        # Give the daemon so many tasks that are due soon that it holds its maximum.
        # They are in the same queue, because one of several queues may not take all places.
        self.put(all_[0], self.schedule(self.instant(20000, 8)), url=url, payload=payload)
        wait_until(lambda: all_[0].metric("held") >= 16384, 10)
        with open(f"/proc/{all_[0].process.pid}/status") as f:
            rss = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
        all_[0].process.kill()
        self.end_all(all_)
        return {"task": used / tasks, "rss": rss / 1024}

    # ---- Scripts ----

    def scripts(self, tasks):
        """Returns the µs that Redis spends on put, take and ack of a task, in batches of 128."""
        lane, redis = resp.Lane(QUEUE + "/0"), resp.Redis(self.redis.path)
        holder = "%016x" % 7
        lane.load(redis)
        self.redis.ask("CONFIG", "RESETSTAT")
        for first in range(0, tasks, 128):
            argv = []
            for n in range(first, min(tasks, first + 128)):
                argv += resp.put_words("%016x" % n, 0, 1, 0, 10, 0, 0, 0, 0, BODY)
            lane.run(redis, "put", 10 ** 6, *argv)
        while True:
            taken = lane.run(redis, "take", 128, 30000, holder, 0)[10:]
            if not taken:
                break
            argv = []
            for t in taken:
                argv += [t[0], t[1], 0, 0, 0, ""]
            lane.run(redis, "ack", holder, *argv)
        stats = self.redis.ask("INFO", "commandstats")
        line = next(x for x in stats.splitlines() if x.startswith("cmdstat_evalsha:"))
        us = int(line.split("usec=")[1].split(",")[0])
        redis.close()
        self.flush()
        return us / tasks
