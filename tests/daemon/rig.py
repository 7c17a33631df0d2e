# SPDX-License-Identifier: GPL-2.0
"""The test rig: a Redis, daemons, an endpoint, and TAP.

Everything uses Unix sockets and 127.0.0.1, lives in one temporary directory, and ends with the
test.
"""
import atexit
import glob
import http.client
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

import limits
import resp
from client import Client
from limits import HANG

HERE = os.path.dirname(os.path.abspath(__file__))
DAEMON = os.path.join(HERE, "../../userspace/daemon")
PROGRAM = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else ""
dir_ = tempfile.mkdtemp(prefix="twheeld-test-")
started, daemons = [], []


def kill(processes):
    for p in processes:
        if p.poll() is None:
            try:
                p.send_signal(signal.SIGCONT)
                p.kill()
            except ProcessLookupError:
                pass
        p.wait()


def finish():
    kill(started)
    shutil.rmtree(dir_, ignore_errors=True)


atexit.register(finish)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))


class Slow(Exception):
    """The host was too slow for this round to prove anything."""


def rounds(one, number=20):
    """Call one(n) until it does not raise Slow, which only a host that withheld a processor may
    cause. Return: what it returns."""
    for n in range(number):
        withheld = host.withheld
        try:
            return one(n)
        except Slow as e:
            why = e
            assert host.withheld > withheld + 5, f"{why}, although the host withheld nothing"
            print(f"# round {n} proves nothing: {e}")
    raise AssertionError(f"the host was too slow in {number} rounds, at last: {why}")


def in_time(due, what=""):
    """End the round if this moment has passed, in ms."""
    if now_ms() >= due:
        raise Slow(f"{what} came {now_ms() - due:.0f} ms late")


def wait_in_time(due, what, step=0.02):
    """Wait until what() is true, which must be before this moment, in ms."""
    while not (value := what()):
        in_time(due, "a condition")
        time.sleep(step)
    in_time(due, "a condition")
    return value


def wait_until(what, seconds=HANG, step=0.02):
    """Wait until what() is true, for this time at most, or for up to ten times as long if the host
    withholds processors."""
    begin, withheld = time.monotonic(), host.withheld
    while not (value := what()):
        took = time.monotonic() - begin
        if took > seconds and took - min(spare(withheld) / 1000, 0.9 * took) > seconds:
            raise AssertionError(f"did not come true within {seconds} s")
        time.sleep(step)
    return value


def now_ms():
    return time.time_ns() / 1e6


class Host:
    """Measures how long a request may have waited because the host withheld processors."""
    STEP = 5
    # How long a thread waits for a processor that is idle, in ms, with room to spare.
    USUAL = 0.1

    def __init__(self):
        # In ms since begin(): how late the watching thread was, and how long the others waited.
        self.late = self.waited = 0
        # Of each thread of ours: for how long, in ms, and how often it has waited so far.
        self.threads, self.lock = {}, threading.Lock()
        watcher = threading.Thread(target=self.watch, daemon=True)
        watcher.start()
        self.watcher = f"/{watcher.native_id}/"

    def watch(self):
        """Measure how late a thread wakes up that only sleeps."""
        for n in itertools.count():
            begin = time.monotonic()
            time.sleep(self.STEP / 1000)
            late = (time.monotonic() - begin) * 1000 - self.STEP
            # The interpreter's other threads delay it by less than this.
            self.late += late if late > 6 else 0
            if n % 20 == 19:
                self.look()

    def look(self):
        """Add up how long each thread of ours was runnable and did not run (see
        Documentation/scheduler/sched-stats.rst)."""
        with self.lock:
            for pid in [os.getpid(), *(p.pid for p in started if p.returncode is None)]:
                for path in glob.glob(f"/proc/{pid}/task/*/schedstat"):
                    if self.watcher not in path:
                        self.add(path)

    def add(self, path):
        try:
            with open(path) as f:
                _, ns, times = map(int, f.read().split())
        except (OSError, ValueError):
            return
        before_ms, before = self.threads.get(path, (0, 0))
        self.threads[path] = ns / 1e6, times
        self.waited += max(0, ns / 1e6 - before_ms - self.USUAL * (times - before))

    @property
    def withheld(self):
        """The sum over all threads since begin(), in ms. What the watching thread measures counts
        three times, because a host may stop one processor after another, and that thread is only
        on one of them."""
        self.look()
        return 3 * self.late + self.waited

    def begin(self):
        self.look()
        self.late = self.waited = 0


host = Host()


def spare(since=0):
    """Return: how much a time limit must be extended, in ms, if host.withheld was `since` when the
    time began. By default it began with the test."""
    return host.withheld - since


def kept_silent(since):
    """Return: the host may have kept a daemon from answering another one within 250 ms, or from
    releasing its tasks within 200 ms. since: what the host had withheld before."""
    return spare(since) > 150


def settle(seconds):
    """Sleep, and longer if the host withholds processors meanwhile, so that others can follow."""
    withheld = host.withheld
    time.sleep(seconds)
    time.sleep(spare(withheld) / 1000)


def free_ports(count=1):
    """Return: unused ports of 127.0.0.1."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def preloaded(name, variable, value):
    """Return: the environment to preload one of our libraries, or None without a compiler."""
    shim = os.path.join(dir_, name + ".so")
    if not os.path.exists(shim) and subprocess.run(
            ["cc", "-shared", "-fPIC", "-o", shim, os.path.join(HERE, name + ".c")]).returncode:
        return None
    return {"LD_PRELOAD": shim, variable: str(value), "ASAN_OPTIONS": "verify_asan_link_order=0"}


def shifted_clock(seconds):
    """Return: an environment in which the wall clock is wrong."""
    return preloaded("shift_clock", "SHIFT_CLOCK", seconds)


def slow_dns(seconds):
    """Return: an environment in which the name server does not answer."""
    return preloaded("slow_dns", "SLOW_DNS", seconds)


class Redis:
    number = 0

    def __init__(self, *options, env=None):
        Redis.number += 1
        self.env = {**os.environ, **(env or {})}
        self.dir = os.path.join(dir_, f"redis{Redis.number}")
        os.mkdir(self.dir)
        self.path = os.path.join(self.dir, "s")
        self.options = options
        self.start()

    def start(self):
        # Only the process is killed, not the machine, so nothing needs to reach the disk, and
        # Redis never waits for a busy one.
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.path, "--dir", self.dir,
             "--save", "", "--appendonly", "yes", "--appendfsync", "no", *self.options],
            env=self.env,
            stdout=open(os.path.join(self.dir, "log"), "a"), stderr=subprocess.STDOUT)
        started.append(self.process)
        wait_until(lambda: os.path.exists(self.path) and 
                   (self.ask("PING") or "").startswith(("PONG", "NOAUTH")))

    def ask(self, *words):
        """Send one command. Return: the answer as text, or None if Redis cannot be reached."""
        try:
            with socket.socket(socket.AF_UNIX) as s:
                s.settimeout(HANG)
                s.connect(self.path)
                data = f"*{len(words)}\r\n"
                for w in words:
                    data += f"${len(str(w).encode())}\r\n{w}\r\n"
                s.sendall(data.encode())
                answer = s.recv(1 << 20).decode(errors="replace")
        except OSError:
            return None
        if answer[0] in "+:-":
            return answer[1:].strip()
        return answer

    def run(self, *words):
        """Send one command. Return: the structured answer."""
        link = resp.Redis(self.path)
        try:
            return link.ask(*words)
        finally:
            link.close()

    def alive(self):
        return self.process.poll() is None

    def kill(self):
        self.process.kill()
        self.process.wait()
        if os.path.exists(self.path):
            os.unlink(self.path)

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)


class Daemon:
    number = 0

    def __init__(self, redis, *options, wait=True, env=None, listen=None, program=PROGRAM,
                 shared=False):
        """shared: other tests use it too, so it goes on if this one fails."""
        Daemon.number += 1
        self.path = os.path.join(dir_, f"d{Daemon.number}")
        self.log = self.path + ".log"
        log = open(self.log, "w")
        st = os.fstat(log.fileno())
        self.process = subprocess.Popen(
            [program, "-c", "/dev/null",
             *(() if any(o.startswith("--redis=") for o in options) else
               (f"--redis=unix:{redis.path}",)),
             f"--listen=unix:{self.path}", *([f"--listen={listen}"] if listen else []),
             *(() if any("callback-allow" in o for o in options) else
               ("--callback-allow=127.0.0.0/8",)), *options],
            # Like the journal, because tests look for log levels.
            stderr=log, env={**os.environ, "JOURNAL_STREAM": f"{st.st_dev}:{st.st_ino}",
                             **(env or {})})
        started.append(self.process)
        if not shared:
            daemons.append(self.process)
        if wait:
            wait_until(self.ready)

    def ready(self):
        try:
            return self.client().raw("GET", "/readyz")[0] == 200
        except OSError:
            return False

    def client(self, timeout=HANG):
        return Client(self.path, timeout)

    def metric(self, name):
        text = self.client().raw("GET", "/metrics")[2]
        for line in text.splitlines():
            if line.startswith(f"twheeld_{name} "):
                return float(line.split()[-1])
        raise AssertionError(f"no metric {name}")

    def text(self):
        with open(self.log) as f:
            return f.read()

    def end(self, sig=signal.SIGTERM):
        self.process.send_signal(sig)
        if self.process.returncode is None:
            # Until somebody waits for it, the kernel tells how long it did not run.
            wait_until(lambda: os.waitid(os.P_PID, self.process.pid,
                                         os.WEXITED | os.WNOWAIT | os.WNOHANG), step=0.005)
            host.look()
        return self.process.wait()


class Sink:
    number = 0

    def __init__(self):
        Sink.number += 1
        base = os.path.join(dir_, f"sink{Sink.number}")
        self.log = base + ".log"
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "../lib/sink.py"), "--files", base, self.log])
        started.append(self.process)
        wait_until(lambda: os.path.exists(base))
        with open(base) as f:
            self.url = f"http://127.0.0.1:{f.read()}"

    def received(self, task=None):
        if not os.path.exists(self.log):
            return []
        with open(self.log) as f:
            # Read the file at once: after a partial line, reading by lines would return the
            # rest as a line.
            all_ = [json.loads(line) for line in f.read().split("\n")[:-1]]
        return [r for r in all_ if task is None or r["id"] == task]

    def wait_for(self, task, count=1, seconds=HANG):
        wait_until(lambda: len(self.received(task)) >= count, seconds)
        return self.received(task)

    def let(self, task):
        """Have the sink answer a request of this task to /hold."""
        conn = http.client.HTTPConnection(self.url.split("/")[2], timeout=HANG)
        conn.request("GET", f"/let/{task}")
        conn.getresponse().read()
        conn.close()


# ---- TAP ----

tests = []


def test(sentence):
    """Register a test, with the law or the sentence that it proves."""
    def add(fn):
        tests.append((sentence, fn))
        return fn
    return add


def equal(got, want, what=""):
    if got != want:
        raise AssertionError(f"{what}: got {got!r}, want {want!r}")


def too_long(*_):
    raise AssertionError(f"it takes more than {limits.TEST} s")


signal.signal(signal.SIGALRM, too_long)


def chosen_tests(only):
    """Yield all tests, or those with these names. With "--share DIRECTORY", yield each test
    that no other process has begun, and the last one, which ends all daemons."""
    if only[:1] == ["--share"]:
        yield from filter(lambda t: first_to_begin(only[1], t[1].__name__), tests[:-1])
        yield tests[-1]
    else:
        yield from ((s, f) for s, f in tests if not only or f.__name__ in only)


def first_to_begin(directory, name):
    try:
        open(os.path.join(directory, name), "x").close()
        return True
    except FileExistsError:
        return False


def run_all():
    failed = n = 0
    print("TAP version 13")
    for n, (sentence, fn) in enumerate(chosen_tests(sys.argv[2:]), 1):
        begin, before = time.monotonic(), len(started)
        try:
            signal.alarm(limits.TEST)
            host.begin()
            skip = fn()
            signal.alarm(0)
            print(f"ok {n} - {fn.__name__}: {sentence}", end=f" # {skip}" if skip else "")
        except Exception as e:
            failed += 1
            print(f"not ok {n} - {fn.__name__}: {sentence}")
            for line in traceback.format_exc().splitlines():
                print("#  ", line)
            print(f"#   the host withheld {host.withheld:.0f} ms")
            # What it started must not take the tasks of the next test.
            kill(p for p in started[before:] if p in daemons)
        took = time.monotonic() - begin
        print(f" # {took:.1f} s" if took > 1 else "", flush=True)
    print(f"1..{n}")
    sys.exit(1 if failed else 0)
