#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""The demo of twheeld.

  demo.py send SOCKET URL SENT   schedules 1,000 callbacks within 5 s, and writes id and due
                                 time of each to SENT
  demo.py judge SENT LOG KILLED  prints what became of them. LOG is the sink's log, and KILLED
                                 the time in ms at which a daemon was killed
"""
import json
import random
import sys
import time

from client import Client

TASKS = 1000
BATCH = 250


def send(socket, url, sent):
    client = Client(socket)
    for _ in range(100):
        if client.raw("GET", "/readyz")[0] == 200:
            break
        time.sleep(0.05)
    status, answer = client.call("PUT", "/v1/queues/demo", {"mode": "push"})
    if status not in (200, 201):
        sys.exit(f"demo.py: {answer}")
    begin = int(time.time() * 1000) + 1000
    with open(sent, "w") as f:
        for first in range(0, TASKS, BATCH):
            tasks = [{"id": f"demo-{n}", "at": begin + random.randrange(5000),
                      "callback": {"url": url}, "payload": {"n": n}}
                     for n in range(first, first + BATCH)]
            status, answer = client.call("POST", "/v1/queues/demo/tasks", {"tasks": tasks})
            if status != 200:
                sys.exit(f"demo.py: {answer}")
            for task in answer["tasks"]:
                f.write(f"{task['id']} {task['due']}\n")


def read_log(path):
    with open(path) as f:
        return [json.loads(line) for line in f.read().split("\n")[:-1]]


def judge(sent_file, log, killed):
    due = {}
    with open(sent_file) as f:
        for line in f:
            task, at = line.split()
            due[task] = int(at)
    first, twice, unexplained, early, late = {}, 0, 0, 0, []
    for r in read_log(log):
        task = r["id"]
        if task not in due:
            continue
        if r["at"] < due[task]:
            early += 1
        if task in first:
            twice += 1
            if not (killed and first[task] <= killed <= r["at"]):
                unexplained += 1
                print(f"# {task}: at {first[task]:.1f} and {r['at']:.1f}, due {due[task]}")
            continue
        first[task] = r["at"]
        late.append(r["at"] - due[task])
    on_time = sorted(late)
    lost = len(due) - len(first)

    def part(p):
        return on_time[min(len(on_time) - 1, int(len(on_time) * p))] if on_time else 0

    behind = [x for x in late if x > 1000]
    print(f"sent        {len(due)}")
    print(f"received    {len(first)}")
    print(f"early       {early}")
    print(f"lost        {lost}")
    print(f"twice       {twice}: {twice - unexplained} because a daemon was killed before it could "
          f"report, {unexplained} for no known reason")
    print(f"lateness    p50 {part(.5):.2f} ms, p99 {part(.99):.2f} ms")
    if behind:
        print(f"            {len(behind)} tasks of the killed daemon waited for the end of "
              f"their leases: up to {max(behind) / 1000:.1f} s")
        rest = sorted(x for x in late if x <= 1000)
        print(f"            all others: p50 {rest[len(rest) // 2]:.2f} ms, "
              f"p99 {rest[int(len(rest) * .99)]:.2f} ms")
    return 1 if early or lost or unexplained else 0


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(*sys.argv[2:])
    else:
        sys.exit(judge(sys.argv[2], sys.argv[3], float(sys.argv[4])))
