#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""The daemon's page in a headless Chromium: its contents, its buttons, and its security.

  browser_test.py PROGRAM [NAME...]

With PICTURES=DIR it leaves screenshots there.
"""
import os
import socket
import time

from browser import Browser
from rig import Daemon, Redis, Sink, dir_, equal, run_all, test, wait_until

PICTURES = os.environ.get("PICTURES")
EVIL = ('<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'
        '<b onclick="window.hacked=1">"\'&lt;')


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


redis = Redis()
sink = Sink()
port = free_port()
URL = f"http://127.0.0.1:{port}/"
daemon = Daemon(redis, listen=f"127.0.0.1:{port}")
c = daemon.client()
page = Browser()
page.size(1200, 900)
# Each test has its own queue, which it selects by name.
names = iter(f"page-{n}" for n in range(100))


def queue(mode="pull"):
    name = next(names)
    equal(c.call("PUT", f"/v1/queues/{name}", {"mode": mode})[0], 201)
    return name


def path(name, *more):
    return "/".join((f"/v1/queues/{name}", *more))


def guarded(tokens):
    """A daemon with these tokens, whose page waits for one."""
    file, own = os.path.join(dir_, "page-tokens"), free_port()
    with open(file, "w") as f:
        f.write(tokens)
    os.chmod(file, 0o600)
    d = Daemon(redis, f"--token-file={file}", listen=f"127.0.0.1:{own}")
    page.open(f"http://127.0.0.1:{own}/")
    page.until(lambda: not page.run("return document.getElementById('token-label').hidden"))
    return d


def bury(name, *tasks, error="out of stock"):
    """Put tasks that workers have refused."""
    for task in tasks:
        equal(c.call("PUT", path(name, "tasks", task), {})[0], 201)
    left = len(tasks)
    while left > 0:
        got = c.call("POST", path(name, "reserve"), {"limit": 100, "wait": "3s"})[1]["tasks"]
        assert got, "nothing to bury"
        equal(c.call("POST", path(name, "nack"), {"tasks": [
            {"id": t["id"], "token": t["token"], "dead": True, "error": error}
            for t in got]})[0], 200)
        left -= len(got)


def state(name, task):
    status, answer = c.call("GET", path(name, "tasks", task))
    return answer["state"] if status == 200 else None


def look_at(name):
    """Open the page again, at the dead letters of a queue."""
    page.open(URL)
    page.until(lambda: name in queues())
    page.run("const s = document.getElementById('dead-queue'); s.value = arguments[0];"
             "s.dispatchEvent(new Event('change'))", name)


def queues():
    """Return: the rows of the queues by name."""
    return {r[0]: r for r in page.rows("#queues")}


def dead():
    return {r[0]: r for r in page.rows("#dead")}


def button(row, text):
    return f"//tr[td[1][normalize-space()='{row}']]//button[.='{text}']"


def picture(name):
    if PICTURES:
        page.screenshot(os.path.join(PICTURES, f"page-{name}.png"))


@test("the page of a daemon without queues says so, and how to create one")
def empty():
    page.open(URL)
    for body in ("#queues", "#forecast", "#dead"):
        page.until(lambda: [r[0][:4] for r in page.rows(body)] == ["none"])
    picture("empty")
    assert "PUT /v1/queues/NAME" in page.text("#queues")
    equal(page.complaints(), [])


@test("the page shows the queues: mode, scheduled, leased, dead, oldest due, paused")
def shows_queues():
    name, other = queue(), queue("push")
    bury(name, "d1", "d2")
    c.call("POST", path(name, "tasks"), {"tasks": [{"id": f"s{n}", "in": "2h"} for n in range(7)]})
    c.call("PUT", path(name, "tasks", "leased"), {})
    equal(len(c.call("POST", path(name, "reserve"), {"wait": "3s"})[1]["tasks"]), 1)
    c.call("PUT", path(other, "tasks", "x"), {"in": "90s", "callback": {"url": sink.url}})
    c.call("POST", path(other, "pause"))
    look_at(name)
    row = page.until(lambda: queues()[name][2] == "7" and queues()[name])
    equal(row[:5] + row[6:], [name, "pull", "7", "1", "2", "", "Pause"])
    assert row[5].startswith(("in 1 h 59", "in 2 h")), row
    row = queues()[other]
    equal(row[:5] + row[6:], [other, "push", "1", "0", "0", "paused", "Resume"])
    assert row[5].startswith("in 1 min") or row[5].endswith(" s"), row


@test("the page shows what falls due in 60 s, 60 min and 24 h, as bars with one scale each")
def shows_forecast():
    name, other = queue(), queue()
    for q, times in ((name, (50, 3000, 3000, 80000)), (other, (3000, 3000, 3000, 3000))):
        for n, s in enumerate(times):
            c.call("PUT", path(q, "tasks", f"f{n}"), {"in": f"{s}s"})
    look_at(name)
    bars = page.until(lambda: page.run("""
        const all = [...document.querySelectorAll("#forecast .bar")].map(b =>
            [b.dataset.queue, b.dataset.range, Number(b.ariaValueNow), Number(b.ariaValueMax),
             Math.round(100 * b.firstChild.clientWidth / b.clientWidth)]);
        return all.some(b => b[0] === arguments[0]) && all""", other))
    mine = {b[1]: b[2] for b in bars if b[0] == name}
    equal(mine, {"60s": 1, "60m": 3, "24h": 4})
    equal({b[1]: b[2] for b in bars if b[0] == other}, {"60s": 0, "60m": 4, "24h": 4})
    for key in ("60s", "60m", "24h"):
        most = max(b[2] for b in bars if b[1] == key)
        equal({b[3] for b in bars if b[1] == key}, {most}, f"the scale of {key}")
        for b in bars:
            if b[1] == key:
                assert abs(b[4] - 100 * b[2] / most) <= 1, b


@test("the page lists dead letters with their last error, and more of them on demand")
def shows_dead():
    name = queue()
    bury(name, *(f"d{n:02}" for n in range(60)))
    look_at(name)
    page.until(lambda: len(dead()) == 50)
    row = next(iter(dead().values()))
    equal((row[1], row[3]), ("1", "out of stock"))
    assert row[2] == "now" or row[2].endswith(" ago"), row
    # The page looks again before it has the answer.
    page.run("document.getElementById('more').click(); lookDead()")
    page.until(lambda: len(dead()) == 60)
    page.until(lambda: page.run("return document.getElementById('more').hidden"))
    time.sleep(2.5)
    equal(len(dead()), 60, "after another look")


@test("text from tasks is shown as text, and creates no elements or scripts")
def hostile():
    name = queue()
    for task in ("__proto__", "constructor", "a:b"):
        bury(name, task, error=EVIL)
    equal(c.call("PUT", path(name, "tasks", "<b>"), {})[0], 400)
    equal(c.call("POST", path(name, "tasks"), {"id": EVIL})[0], 400)
    equal(c.call("PUT", "/v1/queues/<b>", {})[0], 400)
    # An endpoint's answer becomes the last error too.
    pushed = queue("push")
    c.call("PUT", path(pushed, "tasks", "html"), {
        "callback": {"url": sink.url + "/html"}, "payload": EVIL, "retry": {"limit": 1}})
    wait_until(lambda: state(pushed, "html") == "dead")
    for q, task in ((name, "a:b"), (pushed, "html")):
        look_at(q)
        row = page.until(lambda: dead().get(task))
        assert EVIL in row[3] or row[3].startswith("HTTP 500: <script>"), row
        picture("hostile")
        equal(page.run("return document.querySelectorAll('#dead td:not(:last-child) *').length"), 0)
        equal(page.run("return document.querySelectorAll('img, iframe, object').length"), 0)
        equal(page.run("return document.scripts.length"), 1)
        page.click(f"//tr[td[1]='{task}']/td[4]")
        equal(page.run("return window.hacked === undefined"), True)
    look_at(name)
    page.until(lambda: len(dead()) == 3)
    page.click(button("__proto__", "Replay"))
    wait_until(lambda: state(name, "__proto__") == "scheduled")
    equal(page.complaints(), [])


@test("the content security policy forbids everything that the page does not need")
def policy():
    look_at(queue())
    page.run("""
        window.refused = [];
        document.addEventListener("securitypolicyviolation",
                                  e => window.refused.push(e.effectiveDirective));
        const add = (tag, props) =>
            document.body.append(Object.assign(document.createElement(tag), props));
        add("script", { text: "window.hacked = 1" });
        add("script", { src: "/metrics" });
        add("style", { textContent: "body { display: none }" });
        add("img", { src: "/metrics" });
        add("iframe", { src: "/metrics" });
        add("object", { data: "/metrics" });
        add("b", { id: "handler" });
        document.getElementById("handler").setAttribute("onclick", "window.hacked = 1");
        document.getElementById("handler").click();
        add("form", { action: "/metrics" });
        document.forms[0].submit();
        fetch("http://127.0.0.1:1/").catch(() => {});
        setTimeout("window.hacked = 1");""")
    want = {"script-src-elem", "style-src-elem", "img-src", "frame-src", "object-src",
            "script-src-attr", "form-action", "connect-src", "script-src"}
    page.until(lambda: want <= set(page.run("return window.refused")))
    equal(page.run("return window.hacked === undefined"), True)
    assert page.run("return getComputedStyle(document.body).display") != "none"
    page.complaints()
    # No other page can put it into a frame.
    page.open("data:text/html,<iframe src='" + URL + "'></iframe>")
    page.driver.switch_to.frame(0)
    page.until(lambda: page.run("return location.href").startswith("chrome-error:"))
    equal(page.run("return document.getElementById('queues')"), None)


@test("the page names the hosts that do not answer, until they do")
def hosts():
    name, port = queue("push"), free_port()
    c.call("PUT", path(name, "tasks", "x"), {"callback": {"url": f"http://127.0.0.1:{port}/"}})
    look_at(name)
    page.until(lambda: f"No answer from: http://127.0.0.1:{port} (next request in "
               in page.text("#hosts"))
    with socket.create_server(("127.0.0.1", port)) as s:
        conn = s.accept()[0]
        conn.recv(10000)
        conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        conn.close()
    page.until(lambda: page.run("return document.getElementById('hosts').hidden"))


@test("Pause and Resume work")
def pause():
    name = queue()
    look_at(name)
    page.click(button(name, "Pause"))
    wait_until(lambda: c.call("GET", path(name))[1]["paused"])
    page.until(lambda: queues()[name][6] == "paused")
    page.click(button(name, "Resume"))
    wait_until(lambda: not c.call("GET", path(name))[1]["paused"])
    page.until(lambda: queues()[name][6] == "")


@test("Replay: the task is scheduled again and leaves the list; Cancel asks, then removes it")
def replay_and_cancel():
    name = queue()
    bury(name, "one", "two", "three")
    look_at(name)
    page.until(lambda: len(dead()) == 3)
    page.click(button("one", "Replay"))
    page.until(lambda: set(dead()) == {"two", "three"})
    equal(state(name, "one"), "scheduled")
    page.click(button("two", "Cancel"))
    assert "two" in page.question(False)
    time.sleep(0.3)
    equal(state(name, "two"), "dead")
    page.click(button("two", "Cancel"))
    page.question(True)
    page.until(lambda: set(dead()) == {"three"})
    equal(state(name, "two"), None)
    equal(state(name, "three"), "dead")
    equal(page.complaints(), [])


@test("Replay all asks, then empties the list")
def replay_all():
    name = queue()
    bury(name, *(f"r{n}" for n in range(5)))
    look_at(name)
    page.until(lambda: len(dead()) == 5)
    page.click("//button[.='Replay all']")
    assert name in page.question(False)
    equal(c.call("GET", path(name))[1]["dead"], 5)
    page.click("//button[.='Replay all']")
    page.question(True)
    wait_until(lambda: c.call("GET", path(name))[1]["dead"] == 0)
    page.until(lambda: list(dead()) == ["none"])
    page.until(lambda: page.run(
        "return [...document.querySelectorAll('button')].find(b => b.innerText === 'Replay all')"
        ".disabled"))
    # A single request replays 1000 of them.
    bury(name, *(f"s{n}" for n in range(1050)))
    page.until(lambda: len(dead()) == 50)
    page.click("//button[.='Replay all']")
    page.question(True)
    wait_until(lambda: c.call("GET", path(name))[1]["dead"] == 0)


def pressed(text):
    page.click(f"//button[.='{text}']")


def found():
    """Return: the fields of the task that is shown."""
    return {r[0]: r[1] for r in page.rows("#found-fields")}


def find(task):
    page.type("#find-id", task + "\n")


@test("a task is found by its id, shown as text, run, moved and canceled")
def finds():
    name = queue()
    task = "a/b.c@d=e+f~g"
    c.call("POST", path(name, "tasks"), {"id": task, "in": "1h", "payload": {"html": EVIL}})
    c.call("POST", path(name, "tasks"), {"id": "r", "in": "1h"})
    look_at(name)
    find(task)
    shown = page.until(lambda: found().get("id") == task and found())
    equal((shown["state"], shown["queue"]), ("scheduled", name))
    assert EVIL.replace('"', '\\"') in shown["payload"], shown
    equal(page.run("return document.querySelectorAll('#found-fields td *').length"), 0)
    page.type("#move-in", "5")
    pressed("Move")
    page.until(lambda: "a duration needs a unit" in page.text("#problem"))
    page.type("#move-in", "2h")
    pressed("Move")
    page.until(lambda: found()["due"].startswith(("in 2 h", "in 1 h 59")))
    pressed("Cancel")
    assert task in page.question(False)
    equal(c.call("GET", path(name))[1]["scheduled"], 2)
    pressed("Cancel")
    page.question(True)
    page.until(lambda: page.run("return document.getElementById('found').hidden"))
    equal(c.call("GET", path(name))[1]["scheduled"], 1)
    equal(page.run("return document.getElementById('problem').hidden"), True)
    find("r")
    page.until(lambda: found().get("id") == "r")
    pressed("Run now")
    page.until(lambda: found()["due"] == "now" or found()["due"].endswith(" ago"))
    find("none such")
    page.until(lambda: not page.run("return document.getElementById('problem').hidden"))
    equal(page.run("return window.hacked === undefined"), True)


@test("a task can be added; an existing one is not replaced")
def adds():
    name, pushed = queue(), queue("push")
    look_at(name)
    page.until(lambda: page.run("return document.getElementById('add-url-label').hidden"))
    page.type("#add-id", "one")
    page.type("#add-in", "90min")
    page.type("#add-payload", '{"n": 1')
    pressed("Add")
    page.until(lambda: page.text("#problem").startswith("payload: "))
    equal(state(name, "one"), None)
    page.type("#add-payload", '{"n": 1}')
    pressed("Add")
    page.until(lambda: found().get("id") == "one")
    equal(c.call("GET", path(name, "tasks", "one"))[1]["payload"], {"n": 1})
    pressed("Add")
    page.until(lambda: "a task with this id exists" in page.text("#problem"))
    look_at(pushed)
    page.until(lambda: not page.run("return document.getElementById('add-url-label').hidden"))
    pressed("Add")
    page.until(lambda: page.text("#problem").startswith("callback"))
    page.type("#add-url", sink.url + "/")
    page.type("#add-in", "1h")
    pressed("Add")
    page.until(lambda: len(found().get("id", "")) == 32)


@test("the tasks of one state can be removed, either all or those whose ids have a prefix")
def purges():
    name = queue()
    bury(name, "a1", "a2", "b1")
    c.call("POST", path(name, "tasks"), {"id": "later", "in": "1h"})
    look_at(name)
    page.until(lambda: len(dead()) == 3)
    page.type("#purge-prefix", "a")
    page.click("//span[@id='purge']/button")
    words = page.question(False)
    assert "dead tasks that begin with a" in words and name in words, words
    page.click("//span[@id='purge']/button")
    page.question(True)
    page.until(lambda: set(dead()) == {"b1"})
    equal(page.text("#purge-result"), "2 removed")
    page.type("#purge-prefix", "")
    page.click("//span[@id='purge']/button")
    assert "all dead tasks" in page.question(True)
    page.until(lambda: set(dead()) == {"none"})
    equal(state(name, "later"), "scheduled")


@test("schedules: their calendars and next runs; Run, Disable and Enable")
def schedules():
    name = queue()
    for schedule, definition in (
            ("report", {"cron": "30 2 * * mon-fri", "tz": "Europe/Berlin", "task": {}}),
            ("tick", {"every": "1h", "task": {"payload": EVIL}})):
        equal(c.call("PUT", path(name, "schedules", schedule), definition)[0], 201)

    def rows():
        return {r[0]: r for r in page.rows("#schedules")}

    page.complaints()
    look_at(name)
    page.until(lambda: set(rows()) == {"report", "tick"})
    equal(rows()["report"][1], "30 2 * * mon-fri, Europe/Berlin")
    equal(rows()["tick"][1], "every 1h")
    assert rows()["tick"][2].startswith("in "), rows()
    page.click(button("tick", "Next runs"))
    page.until(lambda: len(rows()["tick"][2].split("\n")) == 5)
    page.click(button("tick", "Less"))
    page.until(lambda: rows()["tick"][2].startswith("in "))
    page.click(button("tick", "Disable"))
    page.until(lambda: rows()["tick"][2] == "disabled")
    equal(c.call("GET", path(name, "schedules", "tick"))[1]["enabled"], False)
    page.click(button("tick", "Enable"))
    page.until(lambda: rows()["tick"][2].startswith("in "))
    page.click(button("report", "Run"))
    wait_until(lambda: c.call("GET", path(name))[1]["scheduled"] == 3)
    redis.run("HSET", "tw:schedules", name + "/later", "10 ")
    page.until(lambda: "and 1 that a newer twheeld stored" in rows())
    redis.run("HDEL", "tw:schedules", name + "/later")
    equal(page.complaints(), [])


@test("if the daemon refuses an action, the page shows its reason, and the button works again")
def refused():
    name = queue()
    d = guarded("board board-token-0123456789 read *\n")
    page.type("#token", "board-token-0123456789\n")
    page.until(lambda: name in queues())
    # The page hides them from a token that may only read, so a script presses them.
    page.run("""
        const s = document.getElementById("dead-queue"); s.value = arguments[0];
        s.dispatchEvent(new Event("change"));
        window.actor = text => [...document.querySelectorAll("button")].find(b =>
            b.textContent === text && [arguments[0], undefined].includes(
                b.closest("#queues tr")?.cells[0].textContent));""", name)
    for text, verb in (("Pause", "admin"), ("Add", "put")) * 2:
        page.run("actor(arguments[0]).click()", text)
        page.until(lambda verb=verb: page.text("#problem") ==
                   f"verb: the token board lacks the verb {verb}")
        page.run("document.getElementById('problem').hidden = true")
        page.until(lambda text=text: page.run("return !actor(arguments[0]).disabled", text))
    equal((queues()[name][6], c.call("GET", path(name))[1]["scheduled"]), ("", 0))
    equal(d.end(), 0)
    page.until(lambda: "does not answer" in page.text("#problem"))
    page.complaints()


@test("a dead letter that another client removed: the page shows the daemon's error")
def tells_errors():
    name = queue()
    bury(name, "gone", "other")
    look_at(name)
    page.until(lambda: len(dead()) == 2)
    # All in one go, or the page might notice first.
    page.run("""
        const x = new XMLHttpRequest();
        x.open("DELETE", arguments[0], false);
        x.setRequestHeader("Content-Type", "application/json");
        x.send();
        [...document.querySelectorAll("#dead tr")].find(r => r.cells[0].innerText === "gone")
            .querySelector("button").click();""", path(name, "tasks", "gone"))
    page.until(lambda: "no such task" in page.text("#problem"))
    page.until(lambda: set(dead()) == {"other"})
    time.sleep(4)
    assert "no such task" in page.text("#problem"), "it stays until it can be read"


@test("the list of dead letters follows new deaths, and replays by other clients")
def follows():
    name = queue()
    bury(name, "first")
    look_at(name)
    page.until(lambda: set(dead()) == {"first"})
    bury(name, "second")
    page.until(lambda: set(dead()) == {"first", "second"})
    c.call("POST", path(name, "tasks", "first", "replay"))
    page.until(lambda: set(dead()) == {"second"})
    was = dead()["second"][2]
    page.until(lambda: dead()["second"][2] != was)


@test("the page asks for a token if one is needed, and keeps it to itself")
def asks_for_token():
    d = guarded("t0ken" + "x" * 40 + "\n")
    picture("token")
    page.type("#token", "wrong\n")
    page.until(lambda: "token" in page.text("#problem"))
    equal(page.run("return document.getElementById('main').hidden"), True)
    page.type("#token", "t0ken" + "x" * 40 + "\n")
    page.until(lambda: page.text("#status").startswith("as of"))
    assert queues(), "no queues"
    equal(page.run("return [localStorage.length, sessionStorage.length, document.cookie]"),
          [0, 0, ""])
    assert "t0ken" not in page.run("return document.documentElement.outerHTML + location.href")
    equal(d.end(), 0)
    page.until(lambda: "does not answer" in page.text("#problem"))
    page.complaints()


@test("a read-only token sees everything and changes nothing; other tokens see what they may do")
def read_only():
    name = queue()
    bury(name, "dead-one")
    d = guarded("board board-token-0123456789 read *\nshop shop-token-0123456789 read,put *\n"
                "ops ops-token-0123456789 read,put,admin *\n")

    def visible():
        return set(page.run("""return [...document.querySelectorAll("button")]
            .filter(b => b.offsetParent !== null).map(b => b.textContent)"""))
    admin, put = {"Pause", "Remove", "Replay all"}, {"Add", "Replay", "Cancel"}
    for owner, want in (("board", {"Find"}), ("shop", {"Find"} | put),
                        ("ops", {"Find"} | put | admin)):
        page.run("document.getElementById('token').value = ''")
        page.type("#token", f"{owner}-token-0123456789\n")
        page.until(lambda: name in queues())
        page.run("""const s = document.getElementById("dead-queue"); s.value = arguments[0];
            s.dispatchEvent(new Event("change"));""", name)
        page.until(lambda: "dead-one" in dead())
        page.until(lambda want=want: visible() - {"Resume"} == want)
        if owner == "board":
            # If a button is found all the same, the daemon refuses the request.
            page.run("""[...document.querySelectorAll("#dead button")]
                .find(b => b.textContent === "Replay").click();""")
            page.until(lambda: "the token board lacks the verb put" in page.text("#problem"))
    equal(state(name, "dead-one"), "dead")
    equal(d.end(), 0)
    page.until(lambda: "does not answer" in page.text("#problem"))
    page.complaints()


@test("the page works on a small screen and in dark mode")
def screens():
    name = queue("push")
    other = queue("pull")
    for n, seconds in enumerate((5, 20, 40, 50, 600, 1800, 3000, 40000)):
        c.call("PUT", path(name, "tasks", f"mail-{n}"),
               {"in": f"{seconds}s", "callback": {"url": sink.url + "/"}})
    bury(other, "order-4711", "invoice:2024-11-30:customer-00000000000000000000000000000000042",
         error="HTTP 500: the warehouse does not answer; " * 4)
    for schedule, definition in (
            ("nightly-report", {"cron": "30 2 * * mon-fri", "tz": "Europe/Berlin", "task": {}}),
            ("stock-check", {"every": "15min", "task": {}})):
        c.call("PUT", path(other, "schedules", schedule), definition)
    c.call("POST", path(other, "tasks"), {"id": "order-4712", "in": "2h", "payload": {"n": 4712}})
    look_at(other)
    page.until(lambda: len(dead()) == 2)
    find("order-4712")
    page.until(lambda: found().get("id") == "order-4712")
    page.until(lambda: len(page.rows("#schedules")) == 2)
    page.size(1200, 2400)
    page.drawn(1200)
    picture("wide")
    # A Chromium window cannot be as narrow as a phone.
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": 380, "height": 3200, "deviceScaleFactor": 1, "mobile": True})
    page.drawn(380)
    picture("narrow")
    equal(page.run("return document.documentElement.scrollWidth <= innerWidth"), True,
          "nothing is cut at the side")
    equal(page.run("return [...document.querySelectorAll('button, input, select, textarea')]"
                   ".filter(b => b.getBoundingClientRect().right > innerWidth)"
                   ".map(b => b.innerText)"), [], "buttons are seen")
    page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    page.size(1200, 900)
    page.drawn(1200)
    dark = Browser("--force-dark-mode")
    dark.open(URL)
    dark.until(lambda: dark.text("#status").startswith("as of"))
    # The page learns of the dark mode some time after it was opened.
    dark.until(lambda: dark.run("return getComputedStyle(document.body).color") ==
               "rgb(255, 255, 255)")
    if PICTURES:
        dark.screenshot(os.path.join(PICTURES, "page-dark.png"))
    dark.end()


@test("screenshot for the documentation")
def documented():
    own, at = Redis(), free_port()
    d = Daemon(own, listen=f"127.0.0.1:{at}")
    to = d.client()
    for name, mode in (("invoices", "pull"), ("mail", "push"), ("webhooks", "push")):
        to.call("PUT", path(name), {"mode": mode})
    for name, count, step in (("mail", 60, 7), ("webhooks", 25, 90), ("invoices", 12, 1500)):
        target = {} if name == "invoices" else {"callback": {"url": sink.url + "/"}}
        to.call("POST", path(name, "tasks"), {"tasks": [
            {"id": f"{name}-{n}", "in": f"{20 + n * step}s", **target} for n in range(count)]})
    for schedule, definition in (
            ("daily-digest", {"cron": "30 7 * * mon-fri", "tz": "Europe/Berlin"}),
            ("stock-check", {"every": "15min"})):
        to.call("PUT", path("invoices", "schedules", schedule), {**definition, "task": {}})
    to.call("POST", path("invoices", "tasks"), {"id": "order-4711"})
    got = to.call("POST", path("invoices", "reserve"), {"wait": "3s"})[1]["tasks"]
    to.call("POST", path("invoices", "nack"), {"tasks": [
        {"id": t["id"], "token": t["token"], "dead": True, "error": "out of stock"} for t in got]})
    page.open(f"http://127.0.0.1:{at}/")
    page.until(lambda: "order-4711" in dead())
    page.until(lambda: len(page.rows("#schedules")) == 2)
    page.size(900, 1240)
    page.drawn(900)
    picture("doc")
    d.end()
    page.complaints()


if __name__ == "__main__":
    run_all()
