#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""twheeld and Redis: a user with minimal permissions, TLS, Sentinel.

  redis_test.py PROGRAM [NAME...]
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import resp
from cluster import Cluster
from load import Load, check, run_tasks, secret_file
from pair import Pair, Sentinels, Server
from rig import (Daemon, Redis, Sink, Slow, dir_, equal, free_ports, host, in_time, kept_silent,
                 rounds, run_all, slow_dns, spare, test, wait_in_time, wait_until)

CERTS = os.path.join(dir_, "certs")


def openssl(*words):
    subprocess.run(["openssl", *words], cwd=CERTS, check=True, capture_output=True)


def certificates():
    """Create two CAs, and by the first one certificates for a server on localhost and for a
    client."""
    if os.path.isdir(CERTS):
        return
    os.mkdir(CERTS)
    ec = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    for ca in ("ca", "other"):
        openssl("req", "-x509", *ec, "-subj", f"/CN={ca}", "-keyout", f"{ca}.key",
                "-out", f"{ca}.crt")
    for name, alt in (("server", "DNS:localhost,DNS:redis.example"), ("client", "DNS:client")):
        openssl("req", *ec[:-2], "-subj", f"/CN={name}", "-keyout", f"{name}.key",
                "-out", f"{name}.csr")
        with open(os.path.join(CERTS, "ext"), "w") as f:
            f.write(f"subjectAltName={alt}\n")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
                "-CAcreateserial", "-days", "2", "-extfile", "ext", "-out", f"{name}.crt")


def cert(name):
    return os.path.join(CERTS, name)


def tls_options(port, clients="yes"):
    certificates()
    return ("--tls-port", str(port), "--tls-cert-file", cert("server.crt"),
            "--tls-key-file", cert("server.key"), "--tls-ca-cert-file", cert("ca.crt"),
            "--tls-auth-clients", clients)


CLIENT = [f"--redis-tls-{what}-file={cert(file)}" for what, file in
          (("ca", "ca.crt"), ("cert", "client.crt"), ("key", "client.key"))]


# ---- Permissions ----

MAN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../doc/man/twheeld.conf.5")


def rights_of(user):
    """Return: the permissions that the manual page names, without a password."""
    with open(MAN) as f:
        text = f.read()
    begin = text.index(f"user {user} on >secret ")
    return text[begin:text.index(".Ed", begin)].split()[4:]


def user_of(user, nodes, rights):
    """Create a user. Return: the options of a daemon."""
    for n in nodes:
        n.run("ACL", "SETUSER", user, "reset", "on", ">pa55word", *rights)
        n.run("CONFIG", "RESETSTAT")
        n.run("ACL", "LOG", "RESET")
    return [f"--redis-user={user}", f"--redis-password-file={secret_file(user, 'pa55word')}"]


def do_all(nodes, c, e, sink):
    """Use every function of twheeld."""
    for n in nodes:
        n.run("SCRIPT", "FLUSH")
    q = "/v1/queues/all"
    target = {"callback": {"url": sink.url + "/"}}
    for lanes in (4, 4):
        answer = c.call("PUT", q, {"mode": "push", "lanes": lanes, "ahead": "2s",
                                   "timeout": "2s"})
        assert answer[0] in (200, 201), answer
    wait_until(lambda: e.raw("GET", q)[0] == 200)
    for task, fields in (("a", {"keep": "300ms"}), ("b", {"in": "1h"}), ("c", {"in": "1h"}),
                         ("d", {"in": "1h"})):
        equal(c.call("PUT", f"{q}/tasks/{task}", {**target, **fields})[0], 201)
    equal(c.call("PUT", f"{q}/tasks/g", {"callback": {"url": sink.url + "/status/410"}})[0], 201)
    equal(c.call("GET", f"{q}/tasks/b")[0], 200)
    equal(c.call("DELETE", f"{q}/tasks/b")[0], 200)
    equal(c.call("PATCH", f"{q}/tasks/c", {"in": "100ms"})[0], 200)
    equal(c.call("POST", f"{q}/tasks/d/run")[0], 200)

    def cancel_held(turn):
        task = f"e{turn}"
        due = c.call("PUT", f"{q}/tasks/{task}", {**target, "in": "1900ms"})[1]["due"]
        wait_in_time(due, lambda: c.call("GET", f"{q}/tasks/{task}")[1].get("state") == "leased")
        withheld = host.withheld
        status = e.call("DELETE", f"{q}/tasks/{task}")[0]
        in_time(due, "the cancel")
        if status == 202 and kept_silent(withheld):
            raise Slow("the holder did not answer")
        equal(status, 200)
    rounds(cancel_held)
    # Counts and limits look further if there are tasks.
    equal(c.call("PUT", f"{q}/tasks/h", {**target, "in": "1h"})[0], 201)
    equal(c.call("PUT", "/v1/queues/limited", {"rate": {"limit": 9}, "concurrency": 9})[0], 201)
    equal(c.call("PUT", "/v1/queues/limited/tasks/f", target)[0], 201)
    for task in "acdf":
        sink.wait_for(task)
    wait_until(lambda: c.call("GET", q)[1]["dead"] == 1)
    for what in ("state=dead", "state=scheduled", "state=leased", "state=done"):
        equal(c.call("GET", f"{q}/tasks?{what}")[0], 200)
    for what in ("pause", "resume", "replay"):
        equal(c.call("POST", f"{q}/{what}", {})[0], 200)
    equal(c.call("POST", f"{q}/purge", {"state": "dead"})[0], 200)
    equal(c.raw("GET", "/metrics")[0], 200)
    for _ in range(2):
        assert c.call("PUT", "/v1/queues/short", {})[0] == 201
        equal(c.call("DELETE", "/v1/queues/short?purge=true")[0], 200)


def judge_rights(nodes, rights):
    """Check that all permissions are used, and that no other one was needed."""
    used, denied = set(), []
    for n in nodes:
        used |= {line.split(":")[0][8:] for line in
                 n.run("INFO", "commandstats").decode().splitlines() if line[:8] == "cmdstat_"}
        denied += n.run("ACL", "LOG")
    equal(denied, [])
    equal({r for r in rights if r[0] == "+"} - {"+" + u for u in used}, set(), "not used")


@test("the permissions that the manual page names are sufficient and necessary")
def acl():
    server, sink = Server(), Sink()
    replica = Server("--replicaof", "127.0.0.1", str(server.port))
    wait_until(lambda: server.replicas() == 1, 20)
    rights = [*rights_of("twheeld"), "+wait", "+select"]
    # A replica confirms for the first time up to 1 s after its synchronization.
    options = [*user_of("twheeld", [server], rights), "--lease=6s", "--wait-replicas=1",
               "--wait-timeout=2s", f"--redis=redis://127.0.0.1:{server.port}/3"]
    d, e = Daemon(None, *options), Daemon(None, *options)
    do_all([server], d.client(), e.client(), sink)
    # A daemon that dies leaves a lease to recover.
    equal(d.client().call("PUT", "/v1/queues/all/tasks/slow", {
        "callback": {"url": sink.url + "/slow/9000"}, "timeout": "15s"})[0], 201)
    sink.wait_for("slow")
    time.sleep(4.2)
    equal([r["id"] for r in sink.received() if r["id"][0] == "e"], [], "canceled")
    judge_rights([server], rights)
    for daemon in (d, e):
        assert "NOPERM" not in daemon.text(), daemon.text()
        equal(daemon.end(signal.SIGKILL), -9)
    server.kill()
    replica.kill()


@test("the permissions that the manual page names are sufficient in a cluster")
def acl_cluster():
    cl, sink = Cluster(2, 2), Sink()
    rights = [*rights_of("twheeld"), "+wait", "+cluster|slots", "+asking"]
    options = [*user_of("twheeld", cl.nodes, rights), "--wait-replicas=1", "--wait-timeout=2s",
               f"--redis={cl.url()}"]
    d, e = Daemon(None, *options), Daemon(None, *options)
    do_all(cl.nodes, d.client(), e.client(), sink)
    slot = cl.nodes[0].run("CLUSTER", "KEYSLOT", "tw:queues")
    source = cl.owner(slot)
    cl.migrate(slot, next(n for n in cl.masters() if n is not source), then=lambda: equal(
        d.client().call("PUT", "/v1/queues/asked", {"mode": "pull"})[0], 201))
    time.sleep(4.2)
    equal([r["id"] for r in sink.received() if r["id"][0] == "e"], [], "canceled")
    judge_rights(cl.nodes, rights)
    for daemon in (d, e):
        equal(daemon.end(), 0)
        assert "NOPERM" not in daemon.text(), daemon.text()
    cl.end()


@test("D6: wait-replicas applies to a move of a held task, to queues and to a pause")
def confirmed():
    server, sink = Server(), Sink()
    replica = Server("--replicaof", "127.0.0.1", str(server.port))
    wait_until(lambda: server.replicas() == 1)
    d = Daemon(None, f"--redis=redis://127.0.0.1:{server.port}", "--wait-replicas=1",
               "--wait-timeout=2s")
    c, q = d.client(), "/v1/queues/confirmed"
    equal(c.call("PUT", q, {"mode": "push", "ahead": "5s"})[0], 201)
    equal(c.call("PUT", f"{q}/tasks/a", {
        "in": "4s", "callback": {"url": sink.url + "/"}})[0], 201)
    wait_until(lambda: c.call("GET", q)[1]["leased"] == 1)
    server.run("CONFIG", "RESETSTAT")
    equal(c.call("PATCH", f"{q}/tasks/a", {"in": "10m"})[0], 200)
    # One for the request, and one for the holder's report.
    assert b"cmdstat_wait:calls=2," in server.run("INFO", "commandstats")
    equal(c.call("PUT", f"{q}/tasks/b", {
        "in": "9s", "callback": {"url": sink.url + "/"}})[0], 201)
    wait_until(lambda: c.call("GET", q)[1]["leased"] == 1)
    replica.stop()
    status, answer = c.call("PUT", "/v1/queues/other", {"mode": "push"})
    equal((status, answer["error"]["code"]), (503, "fate_unknown"))
    assert "replicas did not confirm" in answer["error"]["message"], answer
    link = resp.Redis(("127.0.0.1", server.port), 3)
    link.ask("SUBSCRIBE", "tw:changed")
    status, answer = c.call("POST", f"{q}/pause")
    equal((status, answer["error"]["code"]), (503, "fate_unknown"))
    # It applies here, so all daemons are told.
    wait_until(lambda: link.receive()[2] == b"pause confirmed")
    wait_until(lambda: c.call("GET", q)[1]["leased"] == 0)
    link.close()
    replica.go_on()
    wait_until(lambda: c.call("PUT", "/v1/queues/other", {"mode": "push"})[0] == 200)
    equal(d.end(), 0)
    server.kill()
    replica.kill()


@test("the reason names a permission that is missing")
def acl_missing():
    server = Server()
    rights = rights_of("twheeld")
    for without, reason in (("+info", "'info'"), ("+script|load", "'script|load'"),
                            ("+client|setname", None), ("&tw:*", "no messages from Redis: NOPERM"),
                            ("~tw:*", "NOPERM")):
        left = [r for r in rights if r != without]
        d = Daemon(None, *user_of("less", [server], left),
                   f"--redis=redis://127.0.0.1:{server.port}", wait=False)
        if reason:
            wait_until(lambda: reason in d.text())
        else:
            wait_until(d.ready)
        equal(d.end(), 0)
    server.kill()


# ---- TLS ----

@test("rediss://: TLS with a client certificate, and to a server that is addressed by name")
def tls():
    port, = free_ports()
    own = Redis(*tls_options(port))
    d = Daemon(own, f"--redis=rediss://localhost:{port}", *CLIENT)
    run_tasks(d.client())
    own.kill()
    wait_until(lambda: not d.ready())
    own.start()
    wait_until(d.ready)
    equal(d.end(), 0)
    # The certificate does not contain the address, so the setting names the server.
    d = Daemon(own, f"--redis=redis://127.0.0.1:{port}", "--redis-tls=yes",
               "--redis-tls-name=redis.example", *CLIENT)
    equal(d.end(), 0)
    own.kill()


@test("rediss://: a wrong CA, a wrong name and a missing certificate are refused with a plain "
      "reason")
def tls_refused():
    port, plain = free_ports(2)
    own = Redis(*tls_options(port))
    own.ask("CONFIG", "SET", "port", str(plain))
    url = f"--redis=rediss://localhost:{port}"
    rows = (
        ([url, f"--redis-tls-ca-file={cert('other.crt')}"], "self-signed certificate in certificate chain"),
        ([url], "self-signed certificate in certificate chain"),
        ([f"--redis=rediss://127.0.0.1:{port}", *CLIENT], "IP address mismatch"),
        ([url, "--redis-tls-name=evil.example", *CLIENT], "hostname mismatch"),
        # "certificate required", or a reset that arrived first.
        ([url, CLIENT[0]], "certificate"),
        ([f"--redis=rediss://localhost:{plain}", *CLIENT], "the handshake of TLS takes too long"),
    )
    # Each takes 3 s.
    with ThreadPoolExecutor() as pool:
        answers = list(pool.map(lambda row: check(*row[0]), rows))
    for (options, reason), (status, said) in zip(rows, answers):
        equal(status, 1, said)
        assert reason in said, (options, said)
    for options, reason in (
            ([url, "--redis-tls-ca-file=/nowhere"], "redis-tls-ca-file: /nowhere"),
            ([url, CLIENT[0], f"--redis-tls-cert-file={cert('client.crt')}",
              f"--redis-tls-key-file={cert('server.key')}"], "redis-tls-key-file")):
        status, said = check(*options)
        equal(status, 2, said)
        assert reason in said, said
    conf = secret_file("tls.conf", f"redis = rediss://localhost:{port}\n"
                       "redis-tls-ca-file = /nowhere")
    status, said = check("-c", conf)
    equal((status, said), (2, f"twheeld: {conf}:2: redis-tls-ca-file: /nowhere: "
                           "No such file or directory\n"))
    own.kill()


@test("rediss://: SIGHUP reads the TLS files again, and new connections use them")
def tls_reload():
    port, = free_ports()
    own = Redis(*tls_options(port))
    shutil.copy(cert("ca.crt"), cert("now.crt"))
    conf = secret_file("tls-reload.conf", f"redis-tls-ca-file = {cert('now.crt')}\n")
    d = Daemon(own, f"--redis=rediss://localhost:{port}", *CLIENT[1:], "-c", conf)

    def reload(ca, want):
        before = len(d.text())
        shutil.copy(ca, cert("now.crt"))
        d.process.send_signal(signal.SIGHUP)
        wait_until(lambda: want in d.text()[before:], 5)

    def connect_again():
        own.ask("CLIENT", "KILL", "TYPE", "normal")
    reload(cert("other.key"), f"the configuration stays as it was: {conf}:1: "
           f"redis-tls-ca-file: {cert('now.crt')}: ")
    connect_again()
    wait_until(lambda: d.text().count("connected to Redis again") == 1, 10)
    reload(cert("other.crt"), "the configuration was read again")
    equal(d.client().call("PUT", "/v1/queues/tls", {})[0], 201, "what is open goes on")
    connect_again()
    wait_until(lambda: "self-signed certificate in certificate chain" in
               d.client().raw("GET", "/readyz")[2], 10)
    reload(cert("ca.crt"), "the configuration was read again")
    wait_until(d.ready)
    equal(d.end(), 0)
    own.kill()


def answers_until(c, done):
    """Check that the daemon keeps answering until done() is true."""
    longest = 0
    while not done():
        begin = time.monotonic()
        equal(c.raw("GET", "/healthz")[0], 200)
        longest = max(longest, time.monotonic() - begin)
        time.sleep(0.01)
    print(f"# the longest answer took {1000 * longest:.1f} ms")
    assert longest < 0.5 + spare() / 1000, longest


@test("rediss://: a handshake that never ends blocks nothing else, and times out")
def tls_silent():
    certificates()
    server = socket.create_server(("127.0.0.1", 0))
    clients = []

    def accept():
        try:
            while True:
                client, _ = server.accept()
                clients.append(client)
                # Only the start of a record.
                client.sendall(b"\x16\x03\x03\x40")
        except OSError:
            pass
    threading.Thread(target=accept, daemon=True).start()
    d = Daemon(None, f"--redis=rediss://localhost:{server.getsockname()[1]}", *CLIENT, wait=False)
    wait_until(lambda: clients and os.path.exists(d.path))
    end = time.monotonic() + 3
    answers_until(d.client(), lambda: time.monotonic() > end)
    assert "the handshake of TLS takes too long" in d.text(), d.text()
    server.close()
    for client in clients:
        client.close()
    equal(d.end(), 0)


@test("redis-tls=yes: Sentinels and clusters use TLS too, and nothing else")
def tls_everywhere():
    port, bus = free_ports(2)
    common = tls_options(port)
    name = ["--redis-tls=yes", "--redis-tls-name=redis.example", *CLIENT]
    own = Redis(*common)
    own.port = port
    lines = "".join(f"{common[i][2:]} {common[i + 1]}\n" for i in range(2, len(common), 2))
    sentinels = Sentinels(own, lines=f"port 0\n{lines}tls-replication yes\n",
                          port_key="tls-port")
    d = Daemon(None, f"--redis={sentinels.url()}", *name)
    run_tasks(d.client())
    equal(d.end(), 0)
    own.kill()
    node = Redis(*common, "--cluster-enabled", "yes", "--cluster-port", str(bus),
                 "--tls-cluster", "yes")
    node.ask("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
    d = Daemon(None, f"--redis=cluster://127.0.0.1:{port}", *name)
    run_tasks(d.client())
    assert f'redis_up{{node="127.0.0.1:{port}"}} 1' in d.client().raw("GET", "/metrics")[2]
    equal(d.end(), 0)
    node.kill()


# ---- Names ----

@test("a name server that does not answer for a Sentinel blocks nothing else: the next one is "
      "asked")
def silent_dns():
    env = slow_dns(30)
    if not env:
        return "SKIP no compiler"
    own = Redis()
    port, = free_ports()
    own.ask("CONFIG", "SET", "port", str(port))
    fake = FakeSentinel(port)
    d = Daemon(None, f"--redis=sentinel://a.slow:1,localhost:{fake.port}/main", wait=False, env=env)
    wait_until(lambda: os.path.exists(d.path))
    answers_until(d.client(), d.ready)
    assert "a.slow:1: the name server does not answer" in d.text(), d.text()
    # The thread that is still resolving the name does not delay the exit.
    begin = time.monotonic()
    equal(d.end(), 0)
    assert time.monotonic() - begin < 5 + spare() / 1000
    own.kill()


@test("the reason names a host name that cannot be resolved")
def unknown_name():
    status, said = check("--redis=redis://nobody.invalid:1")
    equal(status, 1, said)
    assert re.search("nobody.invalid:1: .*(name|Name|address)", said), said


# ---- Sentinel ----

@test("D6: Sentinel names another master: no confirmed task is lost, and the daemon recovers")
def failover():
    pair, sink = Pair(), Sink()
    d = Daemon(None, f"--redis={pair.url()}", "--wait-replicas=1", "--wait-timeout=1s")
    c = d.client()
    equal(c.call("PUT", "/v1/queues/s", {"mode": "push"})[0], 201)
    load = Load(c, "s", sink)
    for n in range(60):
        load.put(f"s{n}", 100 + 50 * n)
    equal(load.refused, 0)
    time.sleep(0.5)
    begin = time.monotonic()
    victim = pair.kill_master()
    wait_until(lambda: c.raw("GET", "/readyz")[0] == 200, 20)
    print(f"# failover took {time.monotonic() - begin:.1f} s")
    load.judge()
    # The old master returns as a master, until Sentinel makes it a replica.
    victim.start()
    time.sleep(1.2)
    equal(victim.role(), "master")
    assert b"name=twheeld" not in victim.run("CLIENT", "LIST")
    pair.restore(victim)
    equal(c.call("PUT", "/v1/queues/s/tasks/x", {"callback": {"url": sink.url + "/"}})[0], 201)
    sink.wait_for("x")
    equal(d.end(), 0)
    pair.end()


@test("Sentinels require a user and a password; a wrong one gets a plain reason")
def sentinel_auth():
    words = " ".join(rights_of("watcher"))
    pair = Pair(lines=f"user default off\nuser watcher on >pass123 {words}\n"
                "user admin on >pass456 allchannels allkeys allcommands\n",
                secret=("admin", "pass456"))
    good = secret_file("watcher", "pass123")
    # NOAUTH, or NOPERM of a default user that is disabled.
    for options, reason in (((), "NO"), (
            ("--sentinel-user=watcher", f"--sentinel-password-file={secret_file('bad', 'x')}"),
            "WRONGPASS")):
        status, said = check(f"--redis={pair.url()}", *options)
        equal(status, 1, said)
        assert any("Sentinel 127.0.0.1" in line and reason in line
                   for line in said.splitlines()), said
    d = Daemon(None, f"--redis={pair.url()}", "--sentinel-user=watcher",
               f"--sentinel-password-file={good}")
    wait_until(lambda: b"user=watcher" in pair.sentinels.run("CLIENT", "LIST", "TYPE", "pubsub"))
    pair.kill_master()
    wait_until(d.ready)
    equal(d.end(), 0)
    pair.end()


class FakeSentinel:
    """Names one master, and later another one, which it publishes only in a message."""

    def __init__(self, first):
        self.master = first
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.listeners, self.asked, self.silent = [], 0, False
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.server.accept()
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            self.answer(client)
        except OSError:
            pass

    def answer(self, client):
        lines = client.makefile("r", newline="\r\n")
        for line in lines:
            words = [lines.readline() and lines.readline().strip()
                     for _ in range(int(line[1:]))]
            if words[0] == "SUBSCRIBE":
                client.sendall(b"*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n")
                self.listeners.append(client)
            elif words[0] == "SENTINEL" and not self.silent:
                self.asked += 1
                port = str(self.master)
                client.sendall(f"*2\r\n$9\r\n127.0.0.1\r\n${len(port)}\r\n{port}\r\n".encode())

    def switch(self, port):
        text = f"main 127.0.0.1 {self.master} 127.0.0.1 {port}"
        self.master = port
        for client in self.listeners:
            client.sendall(f"*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n${len(text)}\r\n"
                           f"{text}\r\n".encode())


@test("+switch-master takes effect at once; a server that is a replica is not used")
def sentinel_switch():
    a, b, replica = Redis(), Redis(), Redis()
    ports = free_ports(3)
    for server, port in zip((a, b, replica), ports):
        server.ask("CONFIG", "SET", "port", str(port))
    replica.ask("REPLICAOF", "127.0.0.1", str(ports[0]))
    fake = FakeSentinel(ports[0])
    d = Daemon(None, f"--redis=sentinel://127.0.0.1:{fake.port}/main")
    wait_until(lambda: fake.listeners)
    # Right after a query, so that the next one would come only a second later.
    asked = fake.asked
    wait_until(lambda: fake.asked > asked, step=0.001)
    fake.silent = True
    withheld, begin = host.withheld, time.monotonic()
    fake.switch(ports[1])
    wait_until(lambda: f"the master is 127.0.0.1:{ports[1]}" in d.text(), step=0.005)
    wait_until(d.ready)
    print(f"# followed after {1000 * (time.monotonic() - begin):.0f} ms")
    assert time.monotonic() - begin < 0.6 + spare(withheld) / 1000
    fake.silent = False
    connected = d.text().count("connected to Redis")
    fake.switch(ports[2])
    wait_until(lambda: not d.ready())
    time.sleep(1)
    equal(d.client().raw("GET", "/readyz")[0], 503)
    equal(d.text().count("connected to Redis"), connected)
    asked = fake.asked
    wait_until(lambda: fake.asked > asked + 1, 5)
    fake.switch(ports[0])
    wait_until(d.ready)
    equal(d.end(), 0)
    # A Sentinel that knows only an old master is not asked forever.
    stale = FakeSentinel(ports[2])
    d = Daemon(None, f"--redis=sentinel://127.0.0.1:{stale.port},127.0.0.1:{fake.port}/main")
    equal(d.end(), 0)
    for server in (a, b, replica):
        server.kill()


if __name__ == "__main__":
    run_all()
