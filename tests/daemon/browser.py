# SPDX-License-Identifier: GPL-2.0
"""A headless Chromium, driven by Debian's Selenium package."""
import atexit
import os
import time

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from rig import dir_, wait_until

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--disable-dev-shm-usage", "--hide-scrollbars", "--lang=en-US")


class Browser:
    number = 0

    def __init__(self, *flags):
        Browser.number += 1
        data = os.path.join(dir_, f"browser{Browser.number}")
        options = webdriver.ChromeOptions()
        for flag in (*FLAGS, f"--user-data-dir={data}", *flags):
            options.add_argument(flag)
        options.unhandled_prompt_behavior = "ignore"
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(
            "/usr/bin/chromedriver", log_path=data + ".log", env={**os.environ, "HOME": dir_}))
        # Ends before the directory goes, because Chromium writes to it.
        atexit.register(self.end)
        self.open = self.driver.get
        self.run = self.driver.execute_script
        self.size = self.driver.set_window_size
        self.screenshot = self.driver.save_screenshot

    def drawn(self, width):
        """Wait until the window is this wide and was drawn. Its size changes some time after the
        driver has answered."""
        self.until(lambda: self.run("return innerWidth") == width)
        self.driver.execute_async_script(
            "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")

    def text(self, selector):
        """Return: the visible text of an element."""
        return self.run("const e = document.querySelector(arguments[0]); return e && e.innerText",
                        selector)

    def rows(self, body):
        """Return: the cells of a table, as text."""
        return self.run("return [...document.querySelector(arguments[0]).rows]"
                        ".map(r => [...r.cells].map(c => c.innerText))", body)

    def until(self, what):
        """Return: the result of what() once it is true. A row may be replaced while it is read."""
        def tried():
            try:
                return what()
            except WebDriverException:
                return None
        return wait_until(tried)

    def click(self, xpath):
        """Click like a mouse. A row may be replaced just before."""
        for left in reversed(range(20)):
            try:
                return self.driver.find_element(By.XPATH, xpath).click()
            except WebDriverException:
                if not left:
                    raise
                time.sleep(0.1)

    def type(self, selector, text):
        e = self.driver.find_element(By.CSS_SELECTOR, selector)
        e.clear()
        e.send_keys(text)

    def question(self, yes):
        """Answer a dialog. Return: its text."""
        alert = self.until(lambda: self.driver.switch_to.alert)
        words = alert.text
        alert.accept() if yes else alert.dismiss()
        return words

    def complaints(self):
        """Return: errors on the console since the last call."""
        return [x["message"] for x in self.driver.get_log("browser")
                if x["level"] in ("SEVERE", "WARNING")]

    def end(self):
        atexit.unregister(self.end)
        self.driver.quit()
