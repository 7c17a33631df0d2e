#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The Python and Go clients of twheeld, with a daemon, and with proxies that lose answers.

  client_test.py PROGRAM [TEST...]

GO_CLIENT_TEST names a program with the Go client's tests. Each of them is a test here.
"""
import datetime
import http.server
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

from limits import HANG
from rig import (DAEMON, Daemon, Redis, Slow, dir_, equal, free_ports, now_ms, rounds, run_all,
                 spare, test, wait_until)

BINDINGS = os.path.abspath(os.path.join(DAEMON, "../bindings"))
sys.path.insert(0, os.path.join(BINDINGS, "python"))
import twheeld  # noqa: E402  # pylint: disable=wrong-import-position,import-error

redis = Redis()
port, = free_ports()
daemon = Daemon(redis, listen=f"127.0.0.1:{port}")
URL = f"http://127.0.0.1:{port}"
client = twheeld.Client(URL)
local = twheeld.Client("unix:" + daemon.path)
names = iter(f"jobs-{n}" for n in range(100))


def queue(mode="pull"):
    name = next(names)
    client.make_queue(name, mode=mode)
    return name


class Lossy:
    """A proxy that loses the answer to the first request of every other connection, starting
    with the first: twheeld has done something that the client does not know of."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.lost = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        lose = True
        while True:
            conn = self.listener.accept()[0]
            threading.Thread(target=self.serve, args=(conn, lose), daemon=True).start()
            lose = not lose

    def serve(self, conn, lose):
        with conn, socket.create_connection(("127.0.0.1", port)) as to:
            threading.Thread(target=self.pump, args=(conn, to), daemon=True).start()
            if not lose:
                return self.pump(to, conn)
            to.recv(1 << 16)
            self.lost += 1
            # The other thread keeps the connection open unless it is shut down.
            conn.shutdown(socket.SHUT_RDWR)

    @staticmethod
    def pump(from_, to):
        try:
            while data := from_.recv(1 << 16):
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)
        except OSError:
            pass


class Stub:
    """A server that gives these answers one after the other: status, headers, body."""

    def __init__(self, *answers, context=None):
        stub, self.times, left = self, [], list(answers)

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                stub.times.append(time.monotonic())
                status, headers, body = left.pop(0)
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            do_POST = do_GET

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        self.url = "http%s://localhost:%d" % ("s" if context else "", server.server_port)
        threading.Thread(target=server.serve_forever, daemon=True).start()


def refusal(status, code, **headers):
    return (status, {k.replace("_", "-"): v for k, v in headers.items()},
            '{"error":{"code":"%s","message":"because"}}' % code)


def fails(what, *arguments, **keywords):
    """Return: the Error that was raised."""
    try:
        what(*arguments, **keywords)
    except twheeld.Error as error:
        return error
    raise AssertionError("it did not fail")


def in_thread(what, *arguments, **keywords):
    thread = threading.Thread(target=what, args=arguments, kwargs=keywords, daemon=True)
    thread.start()
    return thread


@test("put, get, move and cancel, over a URL and a Unix socket; refused requests raise an error")
def tasks():
    name = queue()
    for c in (client, local):
        put = c.put(name, id="a/b.c@d=e+f~g", delay=3600, payload={"n": 1}, keep=60)
        equal((put["id"], put["state"]), ("a/b.c@d=e+f~g", "scheduled"))
        assert abs(put["due"] - now_ms() - 3600000) < 60000, put
        equal(c.get(name, put["id"])["payload"], {"n": 1})
        error = fails(c.put, name, id=put["id"], if_exists="fail")
        equal((error.status, error.code), (409, "exists"))
        when = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=2)
        # A fraction of a millisecond makes it no earlier.
        when = when.replace(microsecond=1500)
        equal(c.move(name, put["id"], at=when)["due"], int(when.timestamp()) * 1000 + 2)
        equal(c.cancel(name, put["id"]), "scheduled")
        error = fails(c.cancel, name, put["id"])
        equal((error.status, error.code), (404, "not_found"))
    error = fails(client.put, name, timeout=1e9)
    equal((error.code, error.field), ("invalid", "timeout"))
    assert str(error).startswith("timeout: "), error
    equal(fails(client.get, name, "..").status, 400)


@test("a batch of more than 1,000 tasks is put in parts, and each task gets its own answer")
def batch():
    name = queue()
    put = client.put_all(name, [twheeld.task(id=f"t{n}", delay=3600) for n in range(1500)]
                         + [twheeld.task(delay=3600), twheeld.task(id="<", delay=3600)])
    equal([p["id"] for p in put[:1500]], [f"t{n}" for n in range(1500)])
    equal((put[1500]["result"], len(put[1500]["id"])), ("created", 32))
    assert isinstance(put[1501], twheeld.Error) and put[1501].field, put[1501]
    equal(client.call("GET", "/" + name)["scheduled"], 1501)


@test("schedules: put, get, list, next, patch, run, disable, enable, delete")
def schedules():
    name = queue()
    definition = {"cron": "30 2 * * mon-fri", "tz": "Europe/Berlin",
                  "task": twheeld.task(payload="report")}
    first = client.put_schedule(name, "report", definition)
    equal(client.put_schedule(name, "report", definition)["next"], first["next"])
    equal([r["at"] for r in client.next_runs(name, "report", 3)][0], first["next"])
    equal(client.patch_schedule(name, "report", {"cron": "@daily", "tz": None})["cron"], "@daily")
    client.put_schedule(name, "other", {"every": "1h", "task": {}})
    equal([s["schedule"] for s in client.schedules(name)], ["other", "report"])
    equal(client.enable_schedule(name, "other", False)["enabled"], False)
    equal(client.enable_schedule(name, "other")["enabled"], True)
    run = client.run_schedule(name, "report")
    [task] = client.reserve(name, wait=10)
    equal((task.id, task.payload), (run["id"], "report"))
    equal(client.ack(task), True)
    client.delete_schedule(name, "report")
    equal(fails(client.get_schedule, name, "report").status, 404)


@test("reserve, extend, ack, nack, release: a stale report returns False; bytes stay bytes")
def reports():
    name = queue()
    put = client.put(name, id="x", payload=b"\0\xff", retry={"limit": 9, "base": "1ms"})
    [task] = client.reserve(name, wait=10)
    equal((task.payload, task.attempt, task.version), (b"\0\xff", 1, put["version"]))
    equal(task.key, f"{name}/x/{task.version}/{task.first_due}")
    equal((client.extend(task, 10), client.release(task), client.ack(task)), (True, True, False))
    [task] = client.reserve(name, wait=10)
    equal((task.attempt, client.nack(task, "broken", delay=0.001)), (1, True))
    [task] = client.reserve(name, wait=10)
    equal((task.attempt, client.nack(task, "beyond repair", dead=True)), (2, True))
    equal(client.get(name, "x")["error"], "beyond repair")
    equal(client.replay(name, "x")["result"], "replayed")
    equal(client.cancel(name, "x"), "scheduled")
    equal(client.reserve(name, wait=0), [])


@test("a worker extends the lease while its handler runs, so that no other worker gets the task")
def heartbeat():
    def run(n):
        name, lease = queue(), 1 << n
        stop, done = threading.Event(), []
        lost = daemon.metric("lost_total")

        def handle(task):
            time.sleep(3.5 * lease)
            done.append((task.id, task.attempt, task.lost.is_set()))

        workers = [in_thread(client.work, name, handle, lease=lease, wait=1, stop=stop)
                   for _ in "ab"]
        client.put(name, id="long")
        wait_until(lambda: done)
        stop.set()
        for w in workers:
            w.join(HANG)
            assert not w.is_alive()
        # The host may delay the renewal of a lease.
        if daemon.metric("lost_total") > lost:
            raise Slow(f"a lease of {lease} s ended before the worker renewed it")
        equal(done, [("long", 1, False)])
        equal(fails(client.get, name, "long").status, 404)
    rounds(run, 5)


@test("a task is repeated if its handler raises; Retry and Dead determine how")
def handlers():
    name = queue()
    stop, seen = threading.Event(), []

    def handle(task):
        seen.append((task.attempt, time.monotonic()))
        if task.attempt == 1:
            raise ValueError("broken")
        if task.attempt == 2:
            raise twheeld.Retry(1.5)
        raise twheeld.Dead("beyond\0\udcffrepair")

    worker = in_thread(client.work, name, handle, wait=1, stop=stop)
    client.put(name, id="x", retry={"limit": 9, "base": "1ms", "jitter": 0})
    wait_until(lambda: len(seen) == 3)
    wait_until(lambda: client.get(name, "x")["state"] == "dead")
    stop.set()
    worker.join(HANG)
    equal([attempt for attempt, _ in seen], [1, 2, 3])
    assert seen[2][1] - seen[1][1] >= 1.5, seen
    # A text that twheeld would refuse does not end the worker.
    equal(client.get(name, "x")["error"], "beyond??repair")


@test("a handler learns that its lease is lost")
def lost():
    name = queue()
    stop, learned = threading.Event(), []
    worker = in_thread(client.work, name, lambda task: learned.append(task.lost.wait(HANG)),
                       lease=1, wait=1, stop=stop)
    client.put(name, id="x", delay=0)
    wait_until(lambda: client.get(name, "x")["state"] == "leased")
    client.put(name, id="x", delay=3600)
    wait_until(lambda: learned == [True])
    stop.set()
    worker.join(HANG)
    equal(client.get(name, "x")["state"], "scheduled")


@test("a handler learns that its lease has ended while twheeld was away")
def lost_in_silence():
    name, (own,) = queue(), free_ports()
    other = Daemon(redis, listen=f"127.0.0.1:{own}")
    stop, began, learned = threading.Event(), threading.Event(), []

    def handle(task):
        began.set()
        learned.append(task.lost.wait(HANG))

    worker = in_thread(twheeld.Client(f"127.0.0.1:{own}", deadline=60, timeout=60).work, name,
                       handle, lease=2, wait=1, stop=stop)
    client.put(name, id="x")
    assert began.wait(HANG)
    other.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: learned)
    other.process.send_signal(signal.SIGCONT)
    stop.set()
    worker.join(HANG)
    equal(learned, [True])
    other.end()


@test("a request whose answer is lost is repeated, and takes effect once")
def lossy():
    name = queue()
    proxy = Lossy()

    def fresh():
        return twheeld.Client(proxy.url)

    put = fresh().put(name, delay=3600)
    equal((put["result"], proxy.lost), ("kept", 1))
    equal(client.call("GET", "/" + name)["scheduled"], 1)
    error = fails(fresh().put, name, id="once", delay=3600, if_exists="fail")
    equal((error.code, proxy.lost), ("fate_unknown", 2))
    fresh().get(name, "once")           # the connection that is good
    client.put_schedule(name, "s", {"every": "1h", "task": {}})
    equal(fails(fresh().run_schedule, name, "s").code, "fate_unknown")
    fresh().get(name, "once")
    [task] = client.reserve(name, wait=10)
    equal(fresh().ack(task), True)      # applied before its answer was lost
    equal(fails(client.get, name, task.id).status, 404)
    equal(proxy.lost, 4)
    equal(client.reserve(name, wait=0), [])


@test("a request is repeated while twheeld is away, until the deadline and no longer")
def away():
    own, = free_ports()
    c = twheeld.Client(f"127.0.0.1:{own}", deadline=1)
    begin = time.monotonic()
    error = fails(c.put, "x")
    equal((type(error), error.code), (twheeld.Unavailable, "unreachable"))
    assert time.monotonic() - begin < 5 + spare() / 1000
    name = queue()
    done = []
    in_thread(lambda: done.append(twheeld.Client(f"127.0.0.1:{own}").put(name, id="late")))
    time.sleep(1)
    other = Daemon(redis, listen=f"127.0.0.1:{own}")
    wait_until(lambda: done)
    equal(done[0]["result"], "created")
    other.end()
    stopped = twheeld.Client("unix:" + os.path.join(dir_, "nothing"), deadline=0.1)
    equal(fails(stopped.get, name, "late").code, "unreachable")


@test("503 and 429 are repeated after Retry-After; other refusals are not")
def server_words():
    stub = Stub(refusal(503, "store_down"), refusal(429, "queue_full", Retry_After="2"),
                (200, {}, '{"id":"x"}'), refusal(403, "forbidden"), (200, {}, "hello"))
    c = twheeld.Client(stub.url)
    equal(c.get("q", "x"), {"id": "x"})
    equal(len(stub.times), 3)
    assert stub.times[2] - stub.times[1] >= 2, stub.times
    error = fails(c.get, "q", "x")
    equal((error.status, error.code, error.message, len(stub.times)),
          (403, "forbidden", "because", 4))
    equal(fails(c.get, "q", "x").message, "HTTP 200, and not by twheeld")
    proxy = Stub((502, {}, "<h1>Bad Gateway</h1>"), (504, {}, ""), (200, {}, '{"id":"x"}'),
                 (502, {}, ""))
    c = twheeld.Client(proxy.url)
    equal(c.get("q", "x"), {"id": "x"})
    error = fails(c.run_schedule, "q", "x")
    equal((type(error), error.code, len(proxy.times)), (twheeld.Unavailable, "fate_unknown", 4))
    hurried = Stub(refusal(503, "stopping", Retry_After="60"))
    begin = time.monotonic()
    equal(fails(twheeld.Client(hurried.url).get, "q", "x").code, "stopping")
    assert time.monotonic() - begin < 10 + spare() / 1000, \
        "it does not wait for what comes behind the deadline"


@test("https: the client verifies the certificate")
def tls():
    pem = os.path.join(dir_, "tls.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:P-256", "-nodes", "-keyout", pem, "-out", pem + ".crt",
                    "-days", "2", "-subj", "/CN=localhost", "-addext",
                    "subjectAltName=DNS:localhost"], check=True, stderr=subprocess.DEVNULL)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem + ".crt", pem)
    stub = Stub((200, {}, '{"id":"x"}'), context=context)
    error = fails(twheeld.Client(stub.url, deadline=0.1).get, "q", "x")
    assert "CERTIFICATE_VERIFY_FAILED" in str(error), error
    trust = ssl.create_default_context(cafile=pem + ".crt")
    equal(twheeld.Client(stub.url, context=trust).get("q", "x"), {"id": "x"})


@test("the client sends its token; an invalid token is refused")
def tokens():
    path = os.path.join(dir_, "client-token")
    with open(path, "w") as f:
        f.write("s3cret" + "x" * 40 + "\n")
    os.chmod(path, 0o600)
    own, = free_ports()
    other = Daemon(redis, f"--token-file={path}", listen=f"127.0.0.1:{own}", wait=False)
    equal(fails(twheeld.Client(f"127.0.0.1:{own}").get, "q", "x").status, 401)
    with_token = twheeld.Client(f"127.0.0.1:{own}", "s3cret" + "x" * 40)
    equal(with_token.make_queue("tokens", mode="pull")["mode"], "pull")
    other.end()
    for server in ("ftp://x", "http://", "https:///v1"):
        try:
            twheeld.Client(server)
        except ValueError:
            continue
        raise AssertionError(server)


@test("the example: a task longer than its lease runs once, and SIGTERM ends the worker")
def example():
    env = {**os.environ, "TWHEELD": "unix:" + daemon.path,
           "PYTHONPATH": os.path.join(BINDINGS, "python")}
    worker(["/usr/bin/python3", os.path.join(BINDINGS, "python/examples/task_worker.py")], env)


def worker(command, env):
    client.make_queue("jobs", mode="pull")
    put = client.put("jobs", id="long", payload={"seconds": 4})
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        equal(process.stdout.readline(),
              f"jobs/long/{put['version']}/{put['due']} attempt 1\n")
        wait_until(lambda: client.call("GET", "/jobs")["leased"] == 0)
        process.send_signal(signal.SIGTERM)
        equal((process.wait(HANG), process.stdout.read()), (0, ""))


go = os.environ.get("GO_CLIENT_TEST")
if go:
    GO_ENV = {**os.environ, "TWHEELD": URL, "TWHEELD_TEST_SOCKET": daemon.path}

    def go_test(name):
        def run():
            done = subprocess.run([go, "-test.v", "-test.run", f"^{name}$"], text=True, check=False,
                                  env={**GO_ENV, "TWHEELD_TEST_LOSSY": Lossy().url},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            assert f"--- PASS: {name} " in done.stdout, done.stdout
        run.__name__ = name
        return run

    for listed in subprocess.run([go, "-test.list", "."], text=True, check=True,
                                 stdout=subprocess.PIPE).stdout.split():
        test("the client in Go")(go_test(listed))

    @test("the example in Go: a task longer than its lease runs once, and SIGTERM ends the worker")
    def go_example():
        worker([os.environ["GO_CLIENT_EXAMPLE"]], GO_ENV)


if __name__ == "__main__":
    run_all()
