#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""An endpoint for callbacks, and the judge of what it received.

  sink.py serve PORTFILE LOG    listens on a free port of 127.0.0.1, writes its number to
                                PORTFILE, and a line for each request to LOG
  sink.py judge SENT LOG KILLED prints what became of the tasks. SENT has a line for each
                                task: id and due time. KILLED is a time in ms, or 0

A path may ask for a behavior:

  /status/N     answers N
  /fail/N       answers 500 to the first N attempts of a task, then 200
  /after/N      answers 503 with Retry-After: N to the first attempt, then 200
  /slow/MS      answers after MS milliseconds
  /hold[/N]     answers N or 200 after a request for /let/TASK, which is not in the log
  /html         answers 500 with HTML that would run a script
  /drip         sends a byte each second, without end
  /redirect     answers 302
"""
import asyncio
import json
import sys
import time

REASONS = {200: "OK", 302: "Found", 410: "Gone", 500: "Error", 503: "Unavailable"}


def now_ms():
    return time.time_ns() / 1e6


class Sink:
    def __init__(self, log):
        self.log = open(log, "w", buffering=1)
        self.let = {}

    async def behave(self, path, task, attempt, writer):
        """Return: status, extra headers, and a body if it is not the usual one."""
        word = path.strip("/").split("/")
        number = int(word[1]) if len(word) > 1 and word[1].isdigit() else 0
        if word[0] == "status":
            return number, ""
        if word[0] == "fail":
            return (500 if attempt <= number else 200), ""
        if word[0] == "after":
            return (503, f"Retry-After: {number}\r\n") if attempt == 1 else (200, "")
        if word[0] == "redirect":
            return 302, "Location: /elsewhere\r\n"
        if word[0] == "slow":
            await asyncio.sleep(number / 1000)
        if word[0] == "html":
            return 500, "", "<script>window.hacked=1</script><img src=x onerror=alert(1)>"
        if word[0] == "hold":
            await self.let.setdefault(task, asyncio.Event()).wait()
            return number or 200, ""
        if word[0] == "drip":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
            while True:
                writer.write(b".")
                await writer.drain()
                await asyncio.sleep(1)
        return 200, ""

    async def serve(self, reader, writer):
        try:
            while True:
                line = await reader.readline()
                if not line:
                    break
                at = now_ms()
                method, path, _ = line.decode().split()
                head = {}
                while True:
                    line = (await reader.readline()).decode().strip()
                    if not line:
                        break
                    name, value = line.split(":", 1)
                    head[name.lower()] = value.strip()
                body = await reader.readexactly(int(head.get("content-length", 0)))
                task, attempt = head.get("twheel-task"), int(head.get("twheel-attempt", 0))
                if path.startswith("/let/"):
                    self.let.setdefault(path[5:], asyncio.Event()).set()
                else:
                    self.log.write(json.dumps({
                        "at": at, "method": method, "path": path, "head": head, "id": task,
                        "attempt": attempt, "body": body.decode(errors="replace")}) + "\n")
                status, extra, *text = await self.behave(path, task, attempt, writer)
                text = text[0] if text else "ok"
                writer.write(f"HTTP/1.1 {status} {REASONS.get(status, 'X')}\r\n{extra}"
                             f"Content-Length: {len(text)}\r\n\r\n{text}".encode())
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, ValueError):
            pass
        finally:
            writer.close()


async def serve(port_file, log):
    sink = Sink(log)
    server = await asyncio.start_server(sink.serve, "127.0.0.1", 0, backlog=1024)
    with open(port_file + ".new", "w") as f:
        f.write(str(server.sockets[0].getsockname()[1]))
    import os
    os.rename(port_file + ".new", port_file)
    async with server:
        await server.serve_forever()


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
    print(f"twice       {twice}, of them a daemon was killed before its report: "
          f"{twice - unexplained}, without a cause: {unexplained}")
    print(f"lateness    p50 {part(.5):.2f} ms, p99 {part(.99):.2f} ms")
    if behind:
        print(f"            {len(behind)} tasks of the killed daemon waited for the end of "
              f"their leases: up to {max(behind) / 1000:.1f} s")
        rest = sorted(x for x in late if x <= 1000)
        print(f"            all others: p50 {rest[len(rest) // 2]:.2f} ms, "
              f"p99 {rest[int(len(rest) * .99)]:.2f} ms")
    return 1 if early or lost or unexplained else 0


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        try:
            asyncio.run(serve(sys.argv[2], sys.argv[3]))
        except KeyboardInterrupt:
            pass
    elif sys.argv[1] == "judge":
        sys.exit(judge(sys.argv[2], sys.argv[3], float(sys.argv[4])))
    else:
        sys.exit(__doc__)
