#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""twheeld's configuration while it runs: SIGHUP, and permissions of tokens.

  config_test.py PROGRAM [NAME...]
"""
import base64
import hmac
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time

from limits import HANG
from rig import (DAEMON, HERE, PROGRAM, Daemon, Redis, Sink, dir_, equal, free_ports, run_all,
                 spare, test, wait_until)

redis = Redis()
sink = Sink()
USED, KEPT = "the configuration was read again", "the configuration stays as it was: "
FULL = "full-access-" + "f" * 20


def write(name, text):
    path = os.path.join(dir_, name)
    with open(path, "w") as f:
        f.write(text)
    return path


class Configured:
    """A daemon with a configuration file and a port."""
    number = 0

    def __init__(self, text, *options, env=None):
        Configured.number += 1
        self.port = free_ports()[0]
        # This name tells the rig that it need not allow callbacks.
        self.file = f"callback-allow-{Configured.number}"
        self.path = write(self.file, text)
        self.d = Daemon(redis, "-c", self.path, *options, env=env,
                        listen=f"127.0.0.1:{self.port}")
        self.c = self.d.client()

    def reload(self, text=None):
        """Return: the log lines of the reload, without their levels."""
        if text is not None:
            write(self.file, text)
        before = len(self.d.text())
        self.d.process.send_signal(signal.SIGHUP)

        def said():
            lines = [x[3:] for x in self.d.text()[before:].splitlines()]
            return [x for x in lines if x.startswith((USED, KEPT))]
        # Each reload ends with one line, and the log of one turn of the loop is written as a
        # whole.
        wait_until(lambda: said() and self.c.raw("GET", "/healthz")[0] == 200, 10)
        return said()

    def tcp(self, token, method, path, body=None):
        """Return: status, JSON or text."""
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG)
        head = {"Content-Type": "application/json"}
        if token:
            head["Authorization"] = f"Bearer {token}"
        conn.request(method, path, None if body is None else json.dumps(body), head)
        answer = conn.getresponse()
        text = answer.read().decode()
        conn.close()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text

    def end(self):
        equal(self.d.end(), 0)


# ---- SIGHUP ----

@test("SIGHUP reads tokens again: new tokens are accepted, old ones are not")
def reload_tokens():
    file = write("tokens-a", "first-token-0123456789\n")
    x = Configured(f"token-file = {file}\n")
    equal(x.tcp("first-token-0123456789", "GET", "/v1/queues")[0], 200)
    write("tokens-a", "second-token-0123456789\n")
    equal(x.tcp("second-token-0123456789", "GET", "/v1/queues")[0], 401)
    equal(x.reload(), [USED])
    equal(x.tcp("first-token-0123456789", "GET", "/v1/queues")[0], 401)
    equal(x.tcp("second-token-0123456789", "GET", "/v1/queues")[0], 200)
    x.end()


@test("SIGHUP reads secrets and networks again: the next callback uses them")
def reload_secrets():
    one, two = ("whsec_" + part * 4 + "\n" for part in ("MDEyMzQ1", "YWJjZGVm"))
    file = write("secret-a", one)
    x = Configured(f"secret-file = {file}\n")
    q = "/v1/queues/signed"
    equal(x.c.call("PUT", q, {"mode": "push"})[0], 201)

    def call(task):
        equal(x.c.call("PUT", f"{q}/tasks/{task}", {"callback": {"url": sink.url + "/"}})[0], 201)
    call("unreachable")
    wait_until(lambda: x.c.call("GET", f"{q}/tasks/unreachable")[1]["state"] == "dead", 5)
    for task, secrets in (("one", one), ("both", one + two), ("two", two)):
        write("secret-a", secrets)
        equal(x.reload(f"secret-file = {file}\ncallback-allow = 127.0.0.0/8\n"), [USED])
        call(task)
        sink.wait_for(task)
    signed = {t: sink.wait_for(t)[0]["head"] for t in ("one", "both", "two")}
    keys = b"012345" * 4, b"abcdef" * 4
    for task, secrets in (("one", keys[:1]), ("both", keys), ("two", keys[1:])):
        head = signed[task]
        text = f"{head['webhook-id']}.{head['webhook-timestamp']}.".encode()
        equal(head["webhook-signature"].split(), [
            "v1," + base64.b64encode(hmac.digest(key, text, "sha256")).decode()
            for key in secrets], task)
    x.end()


@test("SIGHUP while a task is held does not delay it")
def reload_held():
    # The task is held for seconds, so that a slow machine finds it too.
    text = "callback-allow = 127.0.0.0/8\nahead = 5s\n"
    x = Configured(text)
    equal(x.c.call("PUT", "/v1/queues/held", {"mode": "push"})[0], 201)
    due = x.c.call("PUT", "/v1/queues/held/tasks/reloaded", {
        "in": "3s", "callback": {"url": sink.url + "/"}})[1]["due"]
    wait_until(lambda: x.d.metric("held") == 1)
    equal(x.reload(text + "hold-max = 100\n"), [USED])
    late = sink.wait_for("reloaded")[0]["at"] - due
    assert -1 < late < 300 + spare(), late
    x.end()


@test("SIGHUP reads limits again: hold-max and lane-max")
def reload_limits():
    x = Configured("hold-max = 5\nlane-max = 6\nahead = 5s\n")
    equal(x.c.call("PUT", "/v1/queues/limits", {"mode": "push", "lanes": 1})[0], 201)

    def put(first, count):
        tasks = [{"id": f"l{n}", "in": "4900ms", "callback": {"url": sink.url + "/"}}
                 for n in range(first, first + count)]
        answer = x.c.call("POST", "/v1/queues/limits/tasks", {"tasks": tasks})[1]
        return sum("error" in one for one in answer["tasks"])
    equal(put(0, 8), 2, "lane-max")
    wait_until(lambda: x.d.metric("held") == 5)
    equal(x.reload("hold-max = 50\nlane-max = 20\nahead = 5s\n"), [USED])
    equal(put(8, 8), 0, "lane-max")
    wait_until(lambda: x.d.metric("held") == 14, 5)
    x.end()


@test("SIGHUP changes the lease: leases of attempts that run are renewed in time, so each runs once")
def reload_lease():
    text = "callback-allow = 127.0.0.0/8\nlease = "
    x = Configured(text + "60s\n")
    equal(x.c.call("PUT", "/v1/queues/lease", {"mode": "push", "lanes": 1})[0], 201)

    def begin(task):
        equal(x.c.call("PUT", f"/v1/queues/lease/tasks/{task}", {
            "callback": {"url": sink.url + "/hold"}, "timeout": "1min"})[0], 201)
        sink.wait_for(task)
    begin("lease-60")
    equal(x.reload(text + "6s\n"), [USED])
    begin("lease-6")
    time.sleep(8)
    equal(x.reload(text + "60s\n"), [USED])
    time.sleep(8)
    for task in ("lease-60", "lease-6"):
        equal([r["attempt"] for r in sink.received(task)], [1], task)
        sink.let(task)
    wait_until(lambda: x.d.metric("held") == 0, 5)
    equal((x.d.metric("lost_total"), x.d.metric("stale_total")), (0, 0))
    x.end()


@test("SIGHUP reads log-level again")
def reload_level():
    x = Configured("log-level = err\n")
    assert "connected" not in x.d.text(), x.d.text()
    x.d.process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    equal(x.d.text(), "", "a notice is below err")
    equal(x.reload("log-level = info\n"), [USED])
    x.end()


@test("SIGHUP names each changed setting that needs a restart, with its line, and changes "
      "nothing else")
def reload_fixed():
    file = write("tokens-b", "first-token-0123456789\n")
    text = f"token-file = {file}\nlane-max = 5\n"
    x = Configured(text)
    write("tokens-b", "second-token-0123456789\n")
    changed = f"token-file = {file}\nlane-max = 7\n\nprefix = other:\nwait-replicas = 1\n"
    why = "only a restart can change this"
    equal(sorted(x.reload(changed + "tick = 1ms\n")), [
        f"{KEPT}{x.path}:4: prefix: {why}", f"{KEPT}{x.path}:5: wait-replicas: {why}",
        f"{KEPT}{x.path}:6: tick: {why}"])
    equal(x.tcp("first-token-0123456789", "GET", "/v1/queues")[0], 200)
    equal(x.tcp("second-token-0123456789", "GET", "/v1/queues")[0], 401)
    equal(x.c.call("PUT", "/v1/queues/fixed", {"mode": "pull", "lanes": 1})[0], 201)
    answer = x.c.call("POST", "/v1/queues/fixed/tasks", {"tasks": [
        {"in": "1h"} for _ in range(7)]})[1]
    equal(sum("error" in one for one in answer["tasks"]), 2, "lane-max is 5")
    equal(x.reload(text), [USED])
    equal(x.tcp("second-token-0123456789", "GET", "/v1/queues")[0], 200)
    x.end()


@test("a wrong file leaves the old configuration as a whole, and the log has the reason")
def reload_wrong():
    file = write("tokens-c", "first-token-0123456789\n")
    x = Configured(f"token-file = {file}\n")
    secret = write("secret-c", "whsec_short\n")
    for text, reason in (
            (f"token-file = {file}\nlease = 3s\n", f"{x.path}:2: lease: \"3s\": must be at least 6s"),
            (f"token-file = {file}\nleese = 9s\n", f"{x.path}:2: unknown key \"leese\": "
             "see twheeld.conf(5)"),
            (f"token-file = {file}\nsecret-file = {secret}\n",
             f"{x.path}:2: secret-file: {secret}:1: base64 needs its padding"),
            ("token-file = /nowhere\n",
             f"{x.path}:1: token-file: /nowhere: No such file or directory")):
        equal(x.reload(text), [KEPT + reason])
        equal(x.tcp("first-token-0123456789", "GET", "/v1/queues")[0], 200)
    write("tokens-c", "first-token-0123456789\nshort\n")
    equal(x.reload(f"token-file = {file}\n"), [
        f"{KEPT}{x.path}:1: token-file: {file}:2: a token must have at least 16 characters"])
    os.unlink(x.path)
    equal(x.reload(), [f"{KEPT}{x.path}: No such file or directory"])
    equal(x.tcp("first-token-0123456789", "GET", "/v1/queues")[0], 200)
    x.end()


@test("a file with a secret that every user may read or change is a warning: at the start, at a "
      "reload and with --check, which all go on")
def exposed():
    files = {"redis-password-file": write("password-d", "pa55word\n"),
             "token-file": write("tokens-d", FULL + "\n"),
             "secret-file": write("secret-d", "whsec_" + "MDEyMzQ1" * 4 + "\n")}
    # Where Redis wants no password, it takes any with the name of the user.
    text = "".join(f"{key} = {file}\n" for key, file in files.items()) + "redis-user = default\n"

    def warnings(x, modes):
        """Of these files by their modes, as the log has them."""
        for file, mode in zip(files.values(), modes, strict=True):
            os.chmod(file, mode)
        return [f"{x.path}:{line}: {key}: {file}: every user of this machine may {verb} it, because "
                f"its mode is {mode:04o}"
                for line, ((key, file), mode) in enumerate(zip(files.items(), modes), 1)
                if (verb := "change" if mode & 2 else "read" if mode & 4 else None)]

    def said(x):
        return [line[3:] for line in x.d.text().splitlines() if line.startswith("<4>") and
                "every user" in line]
    for file in files.values():
        os.chmod(file, 0o644)
    x = Configured(text)
    told = warnings(x, (0o644, 0o644, 0o644))
    equal(said(x), told)
    for modes in ((0o640, 0o600, 0o604), (0o400, 0o660, 0o440), (0o666, 0o602, 0o641)):
        told += (more := warnings(x, modes))
        equal(x.reload(), [USED])
        equal(said(x), told)
        p = subprocess.run([PROGRAM, "-c", x.path, f"--redis=unix:{redis.path}", "--check"],
                           capture_output=True, text=True, timeout=HANG, check=False)
        equal((p.returncode, p.stderr.splitlines()), (0, [*more, "connected to Redis"]), p.stdout)
    equal(len(told), 3 + 1 + 2)
    equal(x.tcp(FULL, "GET", "/v1/queues")[0], 200)
    x.end()


@test("systemd is notified of a reload, of its end, and of why it changed nothing")
def reload_notify():
    path = os.path.join(dir_, "notify-reload")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.bind(path)
        s.settimeout(HANG)
        x = Configured("", env={"NOTIFY_SOCKET": path})
        said = []

        def next_but_watchdog():
            while True:
                text = s.recv(4096).decode()
                if text != "WATCHDOG=1":
                    return text
        equal(next_but_watchdog(), "READY=1")
        for text, want in (("", USED), ("lease = 1s\n", f"{KEPT}{x.path}:1: lease: \"1s\": "
                                        "must be at least 6s")):
            before = time.monotonic_ns() // 1000
            x.reload(text)
            said = next_but_watchdog()
            match = re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=(\d+)", said)
            assert match and before <= int(match[1]) <= time.monotonic_ns() // 1000, said
            equal(next_but_watchdog(), f"READY=1\nSTATUS={want}")
        x.end()
    with open(os.path.join(HERE, "../../packaging/twheeld.service")) as f:
        assert "\nExecReload=/bin/kill -HUP $MAINPID\n" in f.read()


# ---- Permissions ----

TOKENS = """# of the test
   # and another comment
full-access-ffffffffffffffffffff

reader   read-token-0123456789   read         *
  putter put-token-0123456789    put          mail-*,jobs\t
worker   work-token-0123456789   work         jobs
boss     admin-token-0123456789  admin        *
team     team-token-0123456789   read,put,work,admin  mail-?
both     both-token-0123456789   read,work    jobs,mail-*
both     both-token-9876543210   read,work    jobs,mail-*
"""
VERBS = ("read", "put", "work", "admin")


def of(verb):
    return {"read": "read-token-0123456789", "put": "put-token-0123456789",
            "work": "work-token-0123456789", "admin": "admin-token-0123456789"}[verb]


def guarded():
    x = Configured(f"token-file = {write('tokens-of-verbs', TOKENS)}\n")
    for queue in ("jobs", "mail-1", "mail-10", "secret"):
        equal(x.tcp(of("admin"), "PUT", f"/v1/queues/{queue}", {"mode": "pull"})[0] // 100, 2)
    return x


def verbs_described():
    """Return: path, method and verb of each route in openapi.yaml."""
    path = method = None
    with open(os.path.join(DAEMON, "http/openapi.yaml")) as f:
        for line in f:
            if re.match(r"  /.*:$", line):
                path = line.strip()[:-1]
            elif re.match(r"    (get|put|post|patch|delete):$", line):
                method = line.strip()[:-1].upper()
                yield [path, method, None]
            elif (match := re.match(r"      x-verb: (\w+)$", line)):
                yield [path, method, match[1]]


@test("each route requires the verb that openapi.yaml names, and accepts no other")
def verbs():
    x = guarded()
    wanted = {(path, method): verb for path, method, verb in verbs_described()}
    equal({p for (p, _), verb in wanted.items() if not verb}, {"/", "/healthz", "/readyz"})
    for (path, method), verb in wanted.items():
        url = path.replace("{queue}", "jobs").replace("{id}", "none")
        url = url.replace("{schedule}", "none")
        for other in VERBS:
            status, answer = x.tcp(of(other), method, url, "no object" if method != "GET" else None)
            if verb in (None, other):
                assert status not in (401, 403), f"{method} {path} {other}: {status} {answer}"
                continue
            equal((status, answer["error"]["code"], answer["error"]["field"]),
                  (403, "forbidden", "verb"), f"{method} {path} {other}")
            name = {"read": "reader", "put": "putter", "work": "worker", "admin": "boss"}[other]
            equal(answer["error"]["message"], f"the token {name} lacks the verb {verb}")
    with open(os.path.join(HERE, "../../doc/man/twheeld.8")) as f:
        page = f.read()
    for verb in VERBS:
        routes = re.search(rf"\n\.It Cm {verb}\n(.*?)\n\.(?:It|El)", page, re.S)
        assert routes, f"twheeld.8 has no verb {verb}"
    x.end()


@test("a token is valid for its queues: others answer 403, and lists do not show them")
def queues():
    x = guarded()
    team, both = "team-token-0123456789", "both-token-9876543210"
    for token, queue, want in ((team, "mail-1", 201), (team, "mail-10", 403), (team, "jobs", 403),
                               (of("put"), "mail-10", 201), (of("put"), "jobs", 201),
                               (of("put"), "secret", 403), (of("put"), "none", 403)):
        status, answer = x.tcp(token, "POST", f"/v1/queues/{queue}/tasks", {"in": "1h"})
        equal(status, want, queue)
        if status == 403:
            equal((answer["error"]["code"], answer["error"]["field"]), ("forbidden", "queue"))
    for token, names, may in ((team, ["mail-1"], list(VERBS)),
                              (both, ["jobs", "mail-1", "mail-10"], ["read", "work"]),
                              (FULL, ["jobs", "mail-1", "mail-10", "secret"], list(VERBS))):
        status, answer = x.tcp(token, "GET", "/v1/queues")
        there = sorted(q["queue"] for q in answer["queues"])
        equal([n for n in there if n in ("jobs", "mail-1", "mail-10", "secret")], names)
        equal(answer["verbs"], may)
        assert token == FULL or there == names, there
    equal(x.tcp(of("put"), "GET", "/v1/queues")[0], 403)
    # /metrics has the name of each queue.
    status, answer = x.tcp(team, "GET", "/metrics")
    equal((status, answer["error"]["field"]), (403, "queue"))
    equal(x.tcp(of("read"), "GET", "/metrics")[0], 200)
    equal(x.tcp(team, "DELETE", "/v1/queues/mail-1?purge=true")[0], 200)
    x.end()


@test("401 for a missing or unknown token; a Unix socket needs none")
def unknown():
    x = guarded()
    for token in (None, "", "read-token-012345678", "read-token-01234567890", "reader", "#",
                  "x" * 255, "x" * 256, "y" * 3000):
        status, answer = x.tcp(token, "GET", "/v1/queues")
        equal((status, answer["error"]["code"]), (401, "unauthorized"), token)
    equal(x.c.call("GET", "/v1/queues")[1]["verbs"], list(VERBS))
    x.end()


@test("the log has the name of a token that was refused, but never the token")
def named():
    x = guarded()
    for _ in range(3):
        equal(x.tcp(of("read"), "POST", "/v1/queues/jobs/pause", {})[0], 403)
    equal(x.tcp(of("work"), "POST", "/v1/queues/secret/reserve", {})[0], 403)
    x.tcp("nobodys-token-0123456789", "GET", "/v1/queues")
    equal([line for line in x.d.text().splitlines() if "refused" in line], [
        "<5>a request was refused: the token reader lacks the verb admin",
        "<5>a request was refused: the token worker is not for queue secret"])
    assert "token-0123456789" not in x.d.text(), x.d.text()
    x.end()


if __name__ == "__main__":
    run_all()
