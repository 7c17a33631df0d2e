# SPDX-License-Identifier: GPL-2.0
"""Types, the bench, and the example."""
import os
import re
import socket
import subprocess
import sys
import time

import twheel

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
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


def mypy(*args):
    """What it finds."""
    return subprocess.run(["/usr/bin/mypy", "--strict", "--cache-dir=/dev/null", "--no-error-summary",
                           "--config-file", "pyproject.toml", *args], cwd=HERE, text=True,
                          check=False, stdout=subprocess.PIPE).stdout


def test_types():
    assert mypy("twheel", "bench.py", "examples") == ""


def test_types_of_a_user(tmp_path):
    user = tmp_path / "user.py"
    user.write_text(USER)
    found = mypy(str(user))
    assert 'Revealed type is "twheel.aio.Timeout"' in found
    assert 'Revealed type is "builtins.list[' in found and "twheel.Event" in found
    assert len(re.findall("error:", found)) == 1 and '"restart"' in found


def test_py_typed():
    assert os.path.exists(os.path.join(os.path.dirname(twheel.__file__), "py.typed"))


def test_bench():
    done = subprocess.run([sys.executable, os.path.join(HERE, "bench.py"), "2000", "1"],
                          text=True, check=True, timeout=60, stdout=subprocess.PIPE)
    assert re.search(r"^ratio +\d", done.stdout, flags=re.MULTILINE)


def test_heartbeat_server():
    path = os.path.join(HERE, "examples/heartbeat_server.py")
    with open(path, encoding="ascii") as source:
        assert len(source.readlines()) <= 30
    silence = 0.5
    with subprocess.Popen([sys.executable, path, "0", str(silence)], text=True,
                          stdout=subprocess.PIPE) as server:
        try:
            port = int(server.stdout.readline())
            begin = time.monotonic()
            lively, silent, leaver = (socket.create_connection(("127.0.0.1", port), timeout=20)
                                      for _ in range(3))
            leaver.close()
            for _ in range(8):
                lively.sendall(b"alive\n")
                assert lively.recv(6) == b"alive\n"
                time.sleep(silence / 5)
            # It was ended, after the time and not before.
            try:
                assert silent.recv(1) == b""
            except ConnectionResetError:
                pass
            assert time.monotonic() - begin >= silence
            lively.sendall(b"alive\n")
            assert lively.recv(6) == b"alive\n"
            last = time.monotonic()
            try:
                assert lively.recv(1) == b""
            except ConnectionResetError:
                pass
            assert time.monotonic() - last >= silence - 0.1
        finally:
            server.kill()
