#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""An endpoint that misbehaves on demand, for callback_test.

It prints its port, then one JSON line for each request that it has read. The
path of a request says how it is answered:

  /status/N            status N
  /retry/N/VALUE       status N with Retry-After: VALUE
  /date/N/SECONDS      status N with Retry-After: a date SECONDS from now
  /redirect            302 to /status/200
  /drip                200, then a byte each 0.2 s without end
  /endless             200, then as many bytes as one takes
  /large/N             200 and N bytes
  /headers             200 and headers without end
  /silent              no answer
  /slow/SECONDS        200 after so long
  /close               the connection is closed
  /garbage             bytes that are not HTTP
  /binary              500 and bytes of all values

If SINK_TLS names a file with a key and its certificate, it speaks TLS.

With SECRET arguments it checks the signature of each request, as Standard
Webhooks describes it.
"""
import base64
import email.utils
import hashlib
import hmac
import json
import os
import socketserver
import ssl
import sys
import threading
import time

SECRETS = [base64.b64decode(s.removeprefix("whsec_")) for s in sys.argv[1:]]
LOCK = threading.Lock()


def signatures_match(headers, body):
    """True if each secret has signed, in its order."""
    head = "%s.%s." % (headers.get("webhook-id"), headers.get("webhook-timestamp"))
    want = []
    for secret in SECRETS:
        mac = hmac.new(secret, head.encode() + body, hashlib.sha256).digest()
        want.append("v1," + base64.b64encode(mac).decode())
    return headers.get("webhook-signature", "") == " ".join(want)


class Handler(socketserver.StreamRequestHandler):
    """One connection; requests follow each other on it."""

    requests = 0

    def read_request(self):
        """Returns method, path, headers and body, or None at the end."""
        line = self.rfile.readline().decode("latin-1").split()
        if len(line) != 3:
            return None
        headers = {}
        for text in iter(self.rfile.readline, b"\r\n"):
            if not text:
                return None
            name, _, value = text.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        body = self.rfile.read(int(headers.get("content-length", 0)))
        return line[0], line[1], headers, body

    def handle(self):
        while True:
            request = self.read_request()
            if not request:
                return
            self.requests += 1
            method, path, headers, body = request
            entry = {"method": method, "path": path, "headers": headers,
                     "body": body.decode("latin-1"), "nth": self.requests,
                     "signed": signatures_match(headers, body)}
            with LOCK:
                print(json.dumps(entry), flush=True)
            try:
                if not self.answer(path.split("/")[1:]):
                    return
            except (BrokenPipeError, ConnectionResetError):
                return

    def status(self, code, body=b"", headers=""):
        """Sends a whole answer. Returns True: the connection lives."""
        head = "HTTP/1.1 %s X\r\nContent-Length: %d\r\n%s\r\n" % (code, len(body), headers)
        self.wfile.write(head.encode() + body)
        return True

    def unbounded(self, head, chunk, pause):
        """Sends without end, until the other side closes."""
        self.wfile.write(head)
        while True:
            self.wfile.write(chunk)
            self.wfile.flush()
            time.sleep(pause)

    def answer(self, path):
        """Answers as the path says. Returns whether the connection lives."""
        verb, args = path[0], path[1:]
        head = b"HTTP/1.1 200 OK\r\n\r\n"
        if verb == "status":
            return self.status(args[0], b"the answer\n")
        if verb == "retry":
            return self.status(args[0], headers="Retry-After: %s\r\n" % args[1])
        if verb == "date":
            date = email.utils.formatdate(time.time() + int(args[1]), usegmt=True)
            return self.status(args[0], headers="Retry-After: %s\r\n" % date)
        if verb == "redirect":
            return self.status(302, headers="Location: /status/200\r\n")
        if verb == "drip":
            return self.unbounded(head, b"x", 0.2)
        if verb == "endless":
            return self.unbounded(head, b"x" * 65536, 0)
        if verb == "large":
            return self.status(200, b"x" * int(args[0]))
        if verb == "headers":
            return self.unbounded(b"HTTP/1.1 200 OK\r\n", b"X-A: %s\r\n" % (b"b" * 1000), 0)
        if verb == "silent":
            time.sleep(60)
            return False
        if verb == "slow":
            time.sleep(float(args[0]))
            return self.status(200)
        if verb == "garbage":
            self.wfile.write(b"\x00\x01\x02\r\n\r\n")
            return False
        if verb == "binary":
            return self.status(500, bytes(range(256)))
        return False


class Server(socketserver.ThreadingTCPServer):
    """A thread for each connection."""

    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 1024


def main():
    """Serves on a free port of 127.0.0.1 until stdin ends."""
    with Server(("127.0.0.1", 0), Handler) as server:
        if "SINK_TLS" in os.environ:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(os.environ["SINK_TLS"])
            server.socket = context.wrap_socket(server.socket, server_side=True)
        print(server.server_address[1], flush=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        sys.stdin.read()


if __name__ == "__main__":
    main()
