#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Checks /metrics, the alerts and the dashboard with Prometheus' own tools.

  PROMTOOL=... prometheus_test.py PROGRAM [NAME...]
"""
import json
import os
import re
import subprocess

from limits import HANG
from rig import HERE, Daemon, Redis, Sink, dir_, equal, run_all, test, wait_until

PROMTOOL = os.environ.get("PROMTOOL", "promtool")
PACKAGING = os.path.join(HERE, "../../packaging")
RULES = os.path.join(PACKAGING, "twheeld.rules.yml")


def promtool(*words, text=None):
    """Return: promtool's output, if it succeeds."""
    p = subprocess.run([PROMTOOL, *words], input=text, capture_output=True, text=True,
                       timeout=HANG)
    assert p.returncode == 0 and not p.stderr, p.stdout + p.stderr
    return p.stdout


def check(text):
    """Check /metrics with promtool, and that each series appears once, which promtool does not
    check."""
    promtool("check", "metrics", text=text)
    series = [line.rsplit(" ", 1)[0] for line in text.splitlines() if line[0] != "#"]
    equal(sorted({s for s in series if series.count(s) > 1}), [], "twice")
    return series


def names(series):
    return {s.split("{")[0] for s in series}


@test("promtool accepts /metrics before the first task, after many, and without Redis")
def metrics():
    redis, sink = Redis(), Sink()
    d = Daemon(redis)
    c = d.client()
    check(c.raw("GET", "/metrics")[2])
    c.call("PUT", "/v1/queues/m", {"mode": "push"})
    url = {"url": sink.url + "/"}
    c.call("POST", "/v1/queues/m/tasks", {"tasks": [
        {"id": "ok", "callback": url}, {"id": "later", "in": "1h", "callback": url},
        {"id": "dead", "callback": {"url": sink.url + "/status/410"}}]})
    wait_until(lambda: c.call("GET", "/v1/queues/m/tasks/dead")[1].get("state") == "dead")
    series = check(c.raw("GET", "/metrics")[2])
    for s in ('twheeld_tasks{queue="m",state="dead"}',
              'twheeld_due_forecast{queue="m",within="60m"}',
              'twheeld_callback_seconds_bucket{code="4xx",le="+Inf"}',
              'twheeld_attempts_total{queue="m",verdict="dead"}',
              'twheeld_dead_total{reason="verdict"}', "twheeld_lateness_seconds_count"):
        assert s in series, s
    redis.kill()
    wait_until(lambda: c.raw("GET", "/readyz")[0] == 503)
    check(c.raw("GET", "/metrics")[2])
    equal(d.end(), 0)


@test("more than 100 queues are summed as other, even if one has that name")
def many_queues():
    redis = Redis()
    d = Daemon(redis)
    c = d.client()
    for name in ["other"] + [f"q{n}" for n in range(104)]:
        equal(c.call("PUT", f"/v1/queues/{name}", {"mode": "pull", "lanes": 1})[0], 201)
        equal(c.call("PUT", f"/v1/queues/{name}/tasks/x", {"in": "1h"})[0], 201)
    text = c.raw("GET", "/metrics")[2]
    series = check(text)
    shown = [s for s in series if s.startswith("twheeld_tasks{") and "scheduled" in s]
    assert 'twheeld_tasks{queue="other",state="scheduled"}' in shown, shown[-1]
    assert len(shown) <= 101, len(shown)
    total = sum(int(line.split()[-1]) for line in text.splitlines()
                if line.rsplit(" ", 1)[0] in shown)
    equal(total, 105, "tasks")
    equal(d.end(), 0)


@test("promtool accepts the alerts, and they fire when they must and no sooner")
def alerts():
    assert "11 rules found" in promtool("check", "rules", RULES)
    promtool("test", "rules", os.path.join(HERE, "alerts.yml"))


@test("the alerts and the dashboard use only metrics that the daemon exports")
def known_names():
    redis = Redis()
    d = Daemon(redis)
    c = d.client()
    c.call("PUT", "/v1/queues/m", {"mode": "pull"})
    have = names(check(c.raw("GET", "/metrics")[2]))
    for name in ("twheeld.rules.yml", "twheeld.grafana.json"):
        with open(os.path.join(PACKAGING, name)) as f:
            text = f.read()
        if name.endswith(".json"):
            json.loads(text)
        used = set(re.findall(r"\btwheeld_[a-z_]+", text))
        assert used, name
        equal(sorted(used - have), [], name)
    equal(d.end(), 0)


@test("promtool can parse each expression of the dashboard")
def dashboard():
    with open(os.path.join(PACKAGING, "twheeld.grafana.json")) as f:
        board = json.load(f)
    found = []

    def collect(x):
        if isinstance(x, dict):
            found.extend(v for k, v in x.items() if k == "expr")
            x = list(x.values())
        if isinstance(x, list):
            for y in x:
                collect(y)
    collect(board)
    assert len(found) > 10, found
    # Grafana replaces this with a duration.
    lines = [json.dumps(re.sub(r"\$__\w+", "5m", e)) for e in found]
    path = os.path.join(dir_, "dashboard.yml")
    with open(path, "w") as f:
        f.write("groups:\n- name: dashboard\n  rules:\n" + "".join(
            f"  - {{record: 'dashboard:{n}', expr: {e}}}\n" for n, e in enumerate(lines)))
    assert f"{len(found)} rules found" in promtool("check", "rules", path)


if __name__ == "__main__":
    run_all()
