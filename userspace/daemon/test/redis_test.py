#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""twheeld with each kind of Redis: TLS.

  redis_test.py PROGRAM [NAME...]
"""
import os
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from rig import (PROGRAM, Daemon, Redis, dir_, equal, free_ports, run_all, test, wait_until)

CERTS = os.path.join(dir_, "certs")


def openssl(*words):
    subprocess.run(["openssl", *words], cwd=CERTS, check=True, capture_output=True)


def certificates():
    """Two CAs, a server for localhost by the first one, and a client."""
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


def check(*options):
    """--check. Return: status and what it said."""
    p = subprocess.run([PROGRAM, "-c", "/dev/null", *options, "--check"], capture_output=True,
                       text=True, timeout=20)
    return p.returncode, p.stdout + p.stderr


def run_tasks(c, count=20):
    """Tasks of a new queue go all the way."""
    equal(c.call("PUT", "/v1/queues/s", {"mode": "pull"})[0], 201)
    big = "x" * 60000
    status, answer = c.call("POST", "/v1/queues/s/tasks", {"tasks": [
        {"id": f"t{n}", "in": 100 + n, "payload": big} for n in range(count)]})
    equal([t.get("result") for t in answer["tasks"]], ["created"] * count)
    seen = set()
    while len(seen) < count:
        tasks = c.call("POST", "/v1/queues/s/reserve", {"wait": "3s", "limit": 100})[1]["tasks"]
        assert tasks, f"{len(seen)} of {count} came"
        seen |= {t["id"] for t in tasks if t["payload"] == big}
        equal(c.call("POST", "/v1/queues/s/ack", {"tasks": [
            {"id": t["id"], "token": t["token"]} for t in tasks]})[0], 200)


# ---- TLS ----

@test("rediss://: tasks go over TLS, with a certificate of ours, and by a name of the server")
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
    # The address has no name in the certificate, so the setting names it.
    d = Daemon(own, f"--redis=redis://127.0.0.1:{port}", "--redis-tls=yes",
               "--redis-tls-name=redis.example", *CLIENT)
    equal(d.end(), 0)
    own.kill()


@test("rediss://: a wrong CA, a wrong name and no certificate are refused, and the reason is plain")
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
        ([url, CLIENT[0]], "certificate required"),
        ([f"--redis=rediss://localhost:{plain}", *CLIENT], "the handshake of TLS takes too long"),
    )
    # Each takes its three seconds.
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
    own.kill()


@test("rediss://: a handshake that never ends stops nothing else, and is given up")
def tls_silent():
    certificates()
    server = socket.create_server(("127.0.0.1", 0))
    clients = []

    def accept():
        try:
            while True:
                client, _ = server.accept()
                clients.append(client)
                # The beginning of a record, and no more.
                client.sendall(b"\x16\x03\x03\x40")
        except OSError:
            pass
    threading.Thread(target=accept, daemon=True).start()
    d = Daemon(None, f"--redis=rediss://localhost:{server.getsockname()[1]}", *CLIENT, wait=False)
    wait_until(lambda: clients and os.path.exists(d.path))
    c, longest = d.client(), 0
    end = time.monotonic() + 3
    while time.monotonic() < end:
        begin = time.monotonic()
        equal(c.raw("GET", "/healthz")[0], 200)
        longest = max(longest, time.monotonic() - begin)
        time.sleep(0.01)
    print(f"# the longest answer took {1000 * longest:.1f} ms")
    assert longest < 0.5, longest
    assert "the handshake of TLS takes too long" in d.text(), d.text()
    server.close()
    for client in clients:
        client.close()
    equal(d.end(), 0)


if __name__ == "__main__":
    run_all()
