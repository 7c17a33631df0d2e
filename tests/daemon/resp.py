# SPDX-License-Identifier: GPL-2.0
"""A small Redis client with pipelining, and the daemon's scripts."""
import hashlib
import os
import socket
import subprocess

from limits import HANG

HERE = os.path.dirname(os.path.abspath(__file__))
LUA = os.path.join(HERE, "../../userspace/daemon/redis/lua")
SCRIPTS = ("put", "take", "ack", "renew", "recover", "change", "sweep", "look", "pause", "remove",
           "plant", "clear")
SETS = ("due", "run", "hdr", "body", "dead", "done", "note", "ctl")


class Error(Exception):
    """Redis answered with an error."""


class Redis:
    """One connection. Socket errors are OSErrors."""

    def __init__(self, path, timeout=HANG):
        """path: a Unix socket, or a host and a port."""
        self.socket = socket.socket(socket.AF_UNIX if isinstance(path, str) else socket.AF_INET)
        self.socket.settimeout(timeout)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def close(self):
        self.file.close()
        self.socket.close()

    @staticmethod
    def command(*words):
        out = [b"*%d\r\n" % len(words)]
        for word in words:
            word = word if isinstance(word, bytes) else str(word).encode()
            out.append(b"$%d\r\n%s\r\n" % (len(word), word))
        return b"".join(out)

    def send(self, *words):
        self.socket.sendall(self.command(*words))

    def receive(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("Redis closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.receive() for _ in range(int(rest))]
        if kind == b":":
            return int(rest)
        return Error(rest.decode()) if kind == b"-" else rest

    def ask(self, *words):
        self.send(*words)
        answer = self.receive()
        if isinstance(answer, Error):
            raise answer
        return answer


def plant(text, old, new):
    """Replace a part of a script, which must contain it."""
    if old not in text:
        raise SystemExit(f"Bail out! the plant finds no {old!r}")
    return text.replace(old, new)


def put_words(name, exists, relative, at, limit, period, late_after, late, keep, body):
    """Return: the ARGV of one task for put."""
    return [name, at, f"{exists} {relative} {limit} {period} {late_after} {late} {keep}", body]


class Lane:
    """Runs the scripts on the keys of one lane. plants: (script or "prelude", old, new)."""

    def __init__(self, name, plants=()):
        self.keys = [f"tw:{{{name}}}:{part}" for part in SETS]
        self.text, self.sha = {}, {}
        for script in SCRIPTS:
            text = subprocess.run([os.path.join(LUA, "embed.sh"), script], check=True,
                                  stdout=subprocess.PIPE).stdout.decode()
            for where, old, new in plants:
                if where in (script, "prelude"):
                    text = plant(text, old, new)
            self.text[script] = text
            self.sha[script] = hashlib.sha1(text.encode()).hexdigest()

    def load(self, redis):
        for text in self.text.values():
            redis.ask("SCRIPT", "LOAD", text)

    def command(self, script, *argv):
        return Redis.command("EVALSHA", self.sha[script], 8, *self.keys, *argv)

    def run(self, redis, script, *argv):
        try:
            return redis.ask("EVALSHA", self.sha[script], 8, *self.keys, *argv)
        except Error as e:
            if not str(e).startswith("NOSCRIPT"):
                raise
            return redis.ask("EVAL", self.text[script], 8, *self.keys, *argv)
