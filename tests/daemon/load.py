# SPDX-License-Identifier: GPL-2.0
"""Puts tasks at a daemon while its Redis is tested, and judges what became of them."""
import os
import subprocess

from limits import HANG
from rig import PROGRAM, dir_, equal, wait_until


def secret_file(name, text):
    path = os.path.join(dir_, name)
    with open(path, "w") as f:
        f.write(text + "\n")
    return path


def check(*options):
    """Run --check. Return: status and output."""
    p = subprocess.run([PROGRAM, "-c", "/dev/null", *options, "--check"], capture_output=True,
                       text=True, timeout=HANG)
    return p.returncode, p.stdout + p.stderr


def run_tasks(c, count=20):
    """Run the tasks of a new queue from put to ack."""
    equal(c.call("PUT", "/v1/queues/s", {"mode": "pull"})[0], 201)
    big = "x" * 60000
    status, answer = c.call("POST", "/v1/queues/s/tasks", {"tasks": [
        {"id": f"t{n}", "in_ms": 100 + n, "payload": big} for n in range(count)]})
    equal([t.get("result") for t in answer["tasks"]], ["created"] * count)
    seen = set()
    while len(seen) < count:
        tasks = c.call("POST", "/v1/queues/s/reserve", {"wait": "3s", "limit": 100})[1]["tasks"]
        assert tasks, f"{len(seen)} of {count} came"
        seen |= {t["id"] for t in tasks if t["payload"] == big}
        equal(c.call("POST", "/v1/queues/s/ack", {"tasks": [
            {"id": t["id"], "token": t["token"]} for t in tasks]})[0], 200)


class Load:
    """Puts tasks one after the other, and records what became of them."""

    def __init__(self, client, queue, sink):
        self.client, self.queue, self.sink = client, queue, sink
        self.due, self.refused = {}, 0

    def put(self, task, delay):
        status, answer = self.client.call("PUT", f"/v1/queues/{self.queue}/tasks/{task}", {
            "in_ms": delay, "callback": {"url": self.sink.url + "/"}})
        if status in (200, 201):
            self.due[task] = answer["due"]
        else:
            print(f"# {task}: {status} {answer}")
            self.refused += 1

    def judge(self):
        """Check that all ran, and none early. Return: how many ran twice."""
        wait_until(lambda: set(self.due) <= {r["id"] for r in self.sink.received()})
        runs = {}
        for r in self.sink.received():
            runs.setdefault(r["id"], []).append(r["at"])
            if r["id"] in self.due:
                assert r["at"] >= self.due[r["id"]], r
        return sum(len(r) > 1 for r in runs.values())
