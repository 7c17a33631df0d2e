# SPDX-License-Identifier: GPL-2.0
"""Types, the benchmark, a missing device, and the example."""
import os
import re
import socket
import subprocess
import sys
import time

import twheel

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
USER = '''
import asyncio
import twheel
from twheel.aio import Timeouts

async def main() -> None:
    with Timeouts() as timeouts:
        handle = timeouts.call_later(1, print, "x")
        handle.restart()
        when: float = handle.when()
        async with timeouts.timeout(when) as cm:
            reveal_type(cm)
        handle.restart("soon")

with twheel.Wheel() as wheel:
    reveal_type(wheel.read())
'''


def test_types(tmp_path):
    user = tmp_path / "user.py"
    user.write_text(USER)
    done = subprocess.run(
        ["/usr/bin/mypy", "--strict", "--cache-dir=/dev/null", "--no-error-summary",
         "--config-file", "pyproject.toml", "twheel", "twheeld", "examples",
         os.path.join(TOP, "bench/timers/python.py"), str(user)],
        cwd=os.path.join(TOP, "userspace/bindings/python"),
        text=True, check=False, stdout=subprocess.PIPE)
    found = done.stdout.splitlines()
    assert len(found) == 3, done.stdout
    assert 'Argument 1 to "restart" of "TimerHandle" has incompatible type "str"' in done.stdout
    assert 'Revealed type is "twheel.aio.Timeout"' in done.stdout
    assert re.search(r'Revealed type is "builtins.list\[.*twheel.Event', done.stdout)


def test_py_typed():
    assert os.path.exists(os.path.join(os.path.dirname(twheel.__file__), "py.typed"))


def test_bench():
    done = subprocess.run([sys.executable, os.path.join(TOP, "bench/timers/python.py"), "2000", "1"],
                          text=True, check=True, timeout=60, stdout=subprocess.PIPE)
    assert re.search(r"^ratio +\d", done.stdout, flags=re.MULTILINE)


def test_an_absent_device_is_named(monkeypatch):
    monkeypatch.delenv("TWHEEL_BACKEND", raising=False)
    try:
        twheel.Wheel("kernel").close()
    except OSError as err:
        assert err.filename == "/dev/twheel"
        assert "'/dev/twheel'" in str(err)


def ended(client):
    """Wait until the server has closed a connection."""
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def test_heartbeat_server():
    path = os.path.join(TOP, "userspace/bindings/python/examples/heartbeat_server.py")
    with open(path, encoding="ascii") as source:
        assert len(source.readlines()) <= 30
    silence = 2
    with subprocess.Popen([sys.executable, path, "0", str(silence)], text=True,
                          stdout=subprocess.PIPE) as server:
        try:
            port = int(server.stdout.readline())
            begin = time.monotonic()
            lively, silent, leaver = (socket.create_connection(("127.0.0.1", port), timeout=20)
                                      for _ in range(3))
            leaver.close()
            while time.monotonic() - begin < 1.5 * silence:
                last = time.monotonic()
                lively.sendall(b"alive\n")
                assert lively.recv(6) == b"alive\n"
                time.sleep(silence / 20)
            for client, since in ((silent, begin), (lively, last)):
                with client:
                    assert ended(client)
                assert time.monotonic() - since >= silence
        finally:
            server.kill()
