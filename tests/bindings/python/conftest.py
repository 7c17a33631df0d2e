# SPDX-License-Identifier: GPL-2.0
"""What the tests share: two sets of timers to compare, and TAP in place of pytest's output."""
import asyncio
import gc
import sys
import types

import pytest

from twheel.aio import Timeouts


class Tap:
    """Prints one line for each test: pytest -p no:terminal --tap."""

    def __init__(self):
        self.number = 0
        self.bad = False

    def result(self, line, text):
        """Print the text as comments, and then the line."""
        for comment in text.splitlines():
            print("# " + comment)
        self.number += 1
        print(line.format(self.number), flush=True)

    def pytest_collectreport(self, report):
        """Count a file that cannot be imported as a failure."""
        if report.failed:
            self.result(f"not ok {{}} {report.nodeid}", str(report.longrepr))

    def pytest_runtest_logreport(self, report):
        """Handle each phase of a test."""
        name = report.nodeid.split("/")[-1].replace("#", "").replace("{", "").replace("}", "")
        if report.failed:
            self.bad = True
            text = "\n".join([report.longreprtext, *(t for _, t in report.sections)])
            if report.when == "call":
                self.result(f"not ok {{}} {name}", text)
            else:
                self.result(f"not ok {{}} {name} ({report.when})", text)
        elif report.skipped:
            self.result(f"ok {{}} {name} # SKIP {report.longrepr[2]}", "")
        elif report.when == "call":
            self.result(f"ok {{}} {name}", "")

    def pytest_sessionfinish(self):
        """Print the plan at the end."""
        print(f"1..{self.number}", flush=True)


def pytest_addoption(parser):
    """Add the option --tap."""
    parser.addoption("--tap", action="store_true")


def pytest_configure(config):
    """Register the output."""
    if config.getoption("tap"):
        config.pluginmanager.register(Tap())


def asyncio_timers():
    """Return: asyncio's timers, under the names that Timeouts uses."""
    loop = asyncio.get_running_loop()
    return types.SimpleNamespace(call_later=loop.call_later, call_at=loop.call_at,
                                 timeout=asyncio.timeout, timeout_at=asyncio.timeout_at,
                                 close=lambda: None)


@pytest.fixture(params=["asyncio", "twheel"])
def run(request):
    """Return: run(TEST), which runs the coroutine TEST(timers) with timers of asyncio and of a
    wheel."""
    def runner(test, debug=False):
        async def main():
            timers = asyncio_timers() if request.param == "asyncio" else Timeouts()
            try:
                return await asyncio.wait_for(test(timers), 60)
            finally:
                timers.close()
        return asyncio.run(main(), debug=debug)
    return runner


@pytest.fixture(autouse=True)
def nothing_unraisable(monkeypatch):
    """Check that no test leaves an exception in a destructor."""
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: seen.append(repr(what)))
    yield
    gc.collect()
    assert not seen
