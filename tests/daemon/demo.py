#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""demo.py SOCKET URL SENT: schedules 1,000 callbacks within 5 s, and writes their due times."""
import random
import sys
import time

from client import Client

TASKS = 1000
BATCH = 250


def main():
    socket, url, sent = sys.argv[1:]
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


if __name__ == "__main__":
    main()
