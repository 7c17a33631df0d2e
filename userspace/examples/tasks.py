#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Schedule tasks and work on them, with nothing but the standard library.

  tasks.py add QUEUE DELAY PAYLOAD    for example: add work 5s '{"n": 1}'
  tasks.py work QUEUE                 print tasks as they fall due

TWHEELD names the daemon (127.0.0.1:7733), TWHEELD_TOKEN its token.
"""
import json
import os
import sys
import threading
import urllib.error
import urllib.request

SERVER = "http://" + os.environ.get("TWHEELD", "127.0.0.1:7733").removeprefix("http://")
TOKEN = os.environ.get("TWHEELD_TOKEN")


def call(method, path, body=None):
    """Sends a request. Returns the answer; raises HTTPError for an error."""
    request = urllib.request.Request(SERVER + "/v1/queues" + path, method=method,
                                     data=json.dumps(body or {}).encode(),
                                     headers={"Content-Type": "application/json"})
    if TOKEN:
        request.add_header("Authorization", "Bearer " + TOKEN)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def add(queue, delay, payload):
    """Makes the queue if need be, then a task for a worker."""
    call("PUT", "/" + queue, {"mode": "pull"})
    return call("POST", "/%s/tasks" % queue, {"in": delay, "payload": json.loads(payload)})


def report(queue, verb, task, **more):
    """Reports a task. One that is stale is another worker's by now."""
    item = dict(more, id=task["id"], token=task["token"])
    try:
        call("POST", "/%s/%s" % (queue, verb), {"tasks": [item]})
    except urllib.error.HTTPError as error:
        if error.code != 410:
            raise


def extend(queue, task, lease, done):
    """Renews the lease each third of it until done, so that nobody else gets the task."""
    while not done.wait(lease / 3):
        try:
            report(queue, "extend", task, lease="%ds" % lease)
        except (OSError, ValueError):
            pass  # The next call may still be in time.


def work(queue, handle, lease=30):
    """Hands each task to handle(). A task whose handler raises is repeated.

    task["key"] is equal for all attempts of a run. A handler that stores it with its effects
    recognizes a repetition. One task at a time is reserved, so that none waits with a lease.
    """
    while True:
        reserved = call("POST", "/%s/reserve" % queue,
                        {"limit": 1, "lease": "%ds" % lease, "wait": "20s"})
        for task in reserved["tasks"]:
            done = threading.Event()
            heart = threading.Thread(target=extend, args=(queue, task, lease, done))
            heart.start()
            try:
                handle(task)
            except Exception as error:  # pylint: disable=broad-except
                verb, more = "nack", {"error": repr(error)}
            else:
                verb, more = "ack", {}
            done.set()
            heart.join()
            report(queue, verb, task, **more)


def main():
    """Reads the command line."""
    try:
        if len(sys.argv) == 5 and sys.argv[1] == "add":
            print(json.dumps(add(*sys.argv[2:])))
        elif len(sys.argv) == 3 and sys.argv[1] == "work":
            work(sys.argv[2], lambda task: print(json.dumps(task), flush=True))
        else:
            sys.exit(__doc__)
    except urllib.error.HTTPError as error:
        sys.exit(error.read().decode())
    except (OSError, ValueError) as error:
        sys.exit("tasks.py: %s" % error)


if __name__ == "__main__":
    main()
