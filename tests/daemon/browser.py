# SPDX-License-Identifier: GPL-2.0
"""A headless Chromium, by the WebDriver protocol of chromedriver."""
import atexit
import base64
import http.client
import json
import os
import re
import signal
import subprocess
import time

from rig import dir_, wait_until

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", "--hide-scrollbars", "--lang=en-US")
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class WebError(Exception):
    pass


class Browser:
    number = 0

    def __init__(self, *flags):
        Browser.number += 1
        data = os.path.join(dir_, f"browser{Browser.number}")
        log = open(data + ".log", "w")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE,
                                       stderr=log, text=True, start_new_session=True,
                                       env={**os.environ, "HOME": dir_})
        # Before the directory goes, which it writes to.
        atexit.register(self.end)
        self.port = None
        for line in self.driver.stdout:
            found = re.search(r"successfully on port (\d+)", line)
            if found:
                self.port = int(found.group(1))
                break
        self.path = ""
        self.path = "/session/" + self.ask("POST", "/session", {"capabilities": {"alwaysMatch": {
            "unhandledPromptBehavior": "ignore", "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"args": [*FLAGS, f"--user-data-dir={data}", *flags]}}}}
        )["sessionId"]

    def ask(self, method, path, body=None):
        conn = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        conn.request(method, self.path + path, json.dumps(body or {}) if method == "POST" else None)
        answer = json.loads(conn.getresponse().read())["value"]
        conn.close()
        if isinstance(answer, dict) and "error" in answer:
            raise WebError(f"{answer['error']}: {answer['message']}")
        return answer

    def open(self, url):
        self.ask("POST", "/url", {"url": url})

    def run(self, script, *args):
        """The body of a function. Return: what it returns."""
        return self.ask("POST", "/execute/sync", {"script": script, "args": args})

    def text(self, selector):
        """What is seen of an element."""
        return self.run("const e = document.querySelector(arguments[0]); return e && e.innerText",
                        selector)

    def rows(self, body):
        """The cells of a table, as text."""
        return self.run("return [...document.querySelector(arguments[0]).rows]"
                        ".map(r => [...r.cells].map(c => c.innerText))", body)

    def until(self, what, seconds=10):
        """What becomes true. A row may be replaced while it is looked at."""
        def tried():
            try:
                return what()
            except WebError:
                return None
        return wait_until(tried, seconds)

    def click(self, xpath):
        """As a mouse does it. A row may be replaced just before."""
        for left in reversed(range(20)):
            try:
                e = self.ask("POST", "/element", {"using": "xpath", "value": xpath})[ELEMENT]
                self.ask("POST", f"/element/{e}/click")
                return
            except WebError:
                if not left:
                    raise
                time.sleep(0.1)

    def type(self, selector, text):
        e = self.ask("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]
        self.ask("POST", f"/element/{e}/clear")
        self.ask("POST", f"/element/{e}/value", {"text": text})

    def question(self, yes):
        """Answers a dialog. Return: its words."""
        words = self.until(lambda: self.ask("GET", "/alert/text"))
        self.ask("POST", f"/alert/{'accept' if yes else 'dismiss'}")
        return words

    def complaints(self):
        """What the console has of errors, since it was asked last."""
        return [x["message"] for x in self.ask("POST", "/se/log", {"type": "browser"})
                if x["level"] in ("SEVERE", "WARNING")]

    def size(self, width, height):
        self.ask("POST", "/window/rect", {"width": width, "height": height})

    def screenshot(self, path):
        with open(path, "wb") as f:
            f.write(base64.b64decode(self.ask("GET", "/screenshot")))

    def end(self):
        atexit.unregister(self.end)
        try:
            self.ask("DELETE", "")
        except (OSError, ValueError, WebError):
            pass
        # If it hangs: the browser with all that it started.
        os.killpg(self.driver.pid, signal.SIGKILL)
        self.driver.wait()
