#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""An endpoint for callbacks, on a free port of 127.0.0.1.

  sink.py [--files PORTFILE LOG] [SECRET...]

Prints its port and then a line of JSON for each request, until stdin ends. With --files it
writes them to the two files instead, until it is killed. With secrets, a request is "signed"
if each of them has signed it, in this order, as Standard Webhooks describes. If SINK_TLS names
a file with a key and its certificate, it speaks TLS.

The path of a request selects the response:

  /status/N            status N
  /retry/N/VALUE       status N with Retry-After: VALUE
  /date/N/SECONDS      status N with Retry-After: a date SECONDS from now
  /fail/N              500 to the first N attempts of a task, then 200
  /after/N             503 with Retry-After: N to the first attempt, then 200
  /redirect            302 to /status/200
  /slow/MS             200 after MS milliseconds
  /hold[/N]            N or 200 after a request for /let/TASK, which is not logged
  /html                500 with HTML that would run a script
  /large/N             200 and N bytes
  /binary              500 and bytes of all values
  /drip                200, then a byte every 0.2 s without end
  /endless             200, then as many bytes as the client reads
  /headers             200 and headers without end
  /silent              no response for a minute
  /close               the connection is closed
  /garbage             bytes that are not HTTP
"""
import asyncio
import base64
import email.utils
import hashlib
import hmac
import json
import os
import ssl
import sys
import time

HTML = b"<script>window.hacked=1</script><img src=x onerror=alert(1)>"
OK = b"HTTP/1.1 200 OK\r\n"
# The first bytes, the bytes that follow again and again, and the pause in seconds.
UNBOUNDED = {"drip": (OK + b"\r\n", b"x", .2), "endless": (OK + b"\r\n", b"x" * 65536, 0),
             "headers": (OK, b"X-A: %s\r\n" % (b"b" * 1000), 0)}


class Sink:
    def __init__(self, log, secrets):
        self.log, self.let = log, {}
        self.secrets = [base64.b64decode(s.removeprefix("whsec_")) for s in secrets]

    def signed(self, head, body):
        text = f"{head.get('webhook-id')}.{head.get('webhook-timestamp')}.".encode() + body
        macs = [hmac.new(secret, text, hashlib.sha256).digest() for secret in self.secrets]
        return head.get("webhook-signature", "") == " ".join(
            "v1," + base64.b64encode(mac).decode() for mac in macs)

    async def answer(self, verb, args, task, attempt):
        """Return: status, body and another header. Without a status the connection ends."""
        first = args[0] if args else None
        if verb == "status":
            return first, b"the answer\n"
        if verb == "retry":
            return first, b"", f"Retry-After: {args[1]}\r\n"
        if verb == "date":
            date = email.utils.formatdate(time.time() + int(args[1]), usegmt=True)
            return first, b"", f"Retry-After: {date}\r\n"
        if verb == "fail":
            return (500 if attempt <= int(first) else 200), b"ok"
        if verb == "after" and attempt == 1:
            return 503, b"ok", f"Retry-After: {first}\r\n"
        if verb == "redirect":
            return 302, b"", "Location: /status/200\r\n"
        if verb == "slow":
            await asyncio.sleep(int(first) / 1000)
        if verb == "hold":
            await self.let.setdefault(task, asyncio.Event()).wait()
            return first or 200, b"ok"
        if verb == "html":
            return 500, HTML
        if verb == "large":
            return 200, b"x" * int(first)
        if verb == "binary":
            return 500, bytes(range(256))
        if verb == "silent":
            await asyncio.sleep(60)
        return (None if verb in ("silent", "close") else 200), b"ok"

    async def serve_one(self, reader, writer, nth):
        """Return: whether the connection lives."""
        line = await reader.readline()
        at = time.time_ns() / 1e6
        if not line:
            return False
        method, path, _ = line.decode("latin-1").split()
        head = {}
        while line := (await reader.readline()).decode("latin-1").strip():
            name, _, value = line.partition(":")
            head[name.lower()] = value.strip()
        body = await reader.readexactly(int(head.get("content-length", 0)))
        task, attempt = head.get("twheel-task"), int(head.get("twheel-attempt", 0))
        verb, *args = path.strip("/").split("/")
        if verb == "let":
            self.let.setdefault(args[0], asyncio.Event()).set()
        else:
            print(json.dumps({
                "at": at, "method": method, "path": path, "head": head, "id": task, "nth": nth,
                "attempt": attempt, "body": body.decode(errors="replace"),
                "signed": self.signed(head, body)}), file=self.log, flush=True)
        if verb == "garbage":
            writer.write(b"\x00\x01\x02\r\n\r\n")
            return False
        if verb in UNBOUNDED:
            begin, more, pause = UNBOUNDED[verb]
            writer.write(begin)
            while True:
                writer.write(more)
                await writer.drain()
                await asyncio.sleep(pause)
        status, text, *header = await self.answer(verb, args, task, attempt)
        if not status:
            return False
        writer.write(f"HTTP/1.1 {status} X\r\n{''.join(header)}Content-Length: {len(text)}\r\n\r\n"
                     .encode() + text)
        await writer.drain()
        return True

    async def serve(self, reader, writer):
        nth = 1
        try:
            while await self.serve_one(reader, writer, nth):
                nth += 1
        except (ConnectionError, asyncio.IncompleteReadError, ValueError):
            pass
        finally:
            writer.close()


async def main(words):
    port_file, log = None, sys.stdout
    if words[:1] == ["--files"]:
        port_file, log = words[1], open(words[2], "w")
        words = words[3:]
    context = None
    if "SINK_TLS" in os.environ:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.environ["SINK_TLS"])
    server = await asyncio.start_server(Sink(log, words).serve, "127.0.0.1", 0, backlog=1024,
                                        ssl=context)
    port = server.sockets[0].getsockname()[1]
    if port_file:
        with open(port_file + ".new", "w") as f:
            f.write(str(port))
        os.rename(port_file + ".new", port_file)
        await server.serve_forever()
    print(port, flush=True)
    await asyncio.to_thread(sys.stdin.read)
    # Connections may be in the middle of an answer.
    os._exit(0)


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1:]))
    except KeyboardInterrupt:
        pass
