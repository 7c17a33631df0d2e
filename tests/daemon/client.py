# SPDX-License-Identifier: GPL-2.0
"""A client of twheeld on a Unix socket, for the demo and the tests."""
import http.client
import json
import socket

from limits import HANG


class Connection(http.client.HTTPConnection):
    def __init__(self, path, timeout=HANG):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Client:
    def __init__(self, path, timeout=HANG):
        self.conn = Connection(path, timeout)

    def raw(self, method, path, body=None, headers=None):
        """Return: status, headers, text."""
        head = {"Content-Type": "application/json"}
        head.update(headers or {})
        head = {k: v for k, v in head.items() if v is not None}
        if body is not None and not isinstance(body, (str, bytes)):
            body = json.dumps(body)
        try:
            self.conn.request(method, path, body, head)
            answer = self.conn.getresponse()
        except (ConnectionError, http.client.HTTPException):
            self.conn.close()
            self.conn.request(method, path, body, head)
            answer = self.conn.getresponse()
        return answer.status, answer.headers, answer.read().decode()

    def call(self, method, path, body=None, headers=None):
        """Return: status, JSON."""
        status, _, text = self.raw(method, path, body, headers)
        return status, json.loads(text)

    def close(self):
        self.conn.close()
