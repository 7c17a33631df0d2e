#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Compares recurrence rules of twheeld with those of dateutil (D18).

rule_test.py PROGRAM [NUMBER]: chooses NUMBER random rules (4000), starts and moments in three
time zones, and compares the next three runs. PROGRAM is built from unit/rule_lines.c. Prints
TAP.

dateutil counts in wall times. This test computes with zoneinfo what a wall time means when the
clocks change: a time that does not exist is the first moment after the gap, and of a time that
exists twice the first counts.
"""

import datetime
import random
import subprocess
import sys
import warnings
import zoneinfo

from dateutil import rrule

DAYS = "MO TU WE TH FR SA SU".split()
ZONES = {name: zoneinfo.ZoneInfo(name) for name in ("UTC", "Europe/Berlin", "America/New_York")}
# Runs that come later than this are not compared.
HORIZON = 40 * 365 * 86400


def some(draw, values, most):
    return ",".join(str(v) for v in draw.sample(values, draw.randint(1, most)))


def drawn_year(draw):
    """Return: what a random rule says about the days or weeks of a year."""
    by_day = "BYDAY=" + some(draw, DAYS, 3)
    places = "BYSETPOS=" + some(draw, (1, 2, 10, -1, -10), 2)
    days = "BYMONTHDAY=" + some(draw, [*range(1, 29), *range(-28, 0)], 3)
    # Without BYDAY, RFC 5545 means the weekday of the start, and dateutil means all days. If the
    # first week of a year begins in December, dateutil does not know its number below 0 there.
    return draw.choice((
        ["BYWEEKNO=" + some(draw, [*range(1, 54), *range(-51, 0)], 3), by_day],
        ["BYYEARDAY=" + some(draw, [*range(1, 367), *range(-366, 0)], 4)],
        ["BYYEARDAY=" + some(draw, [*range(1, 367), *range(-366, 0)], 9), by_day],
        ["BYYEARDAY=" + some(draw, [*range(60, 300), *range(-300, -60)], 9),
         "BYMONTH=" + some(draw, range(1, 13), 6)],
        ["BYDAY=" + some(draw, [f"{n}{d}" for n in (1, 2, 20, 53, -1, -20) for d in DAYS], 3)],
        [by_day, places], [days, places]))


def drawn_rule(draw):
    """Return: a random rule."""
    freq = draw.choice(("DAILY", "WEEKLY", "MONTHLY", "YEARLY"))
    parts = [f"FREQ={freq}"]

    def maybe(chance, text):
        if draw.random() < chance:
            parts.append(text())
    maybe(0.4, lambda: f"INTERVAL={draw.randint(2, 9)}")
    # twheeld refuses BYSETPOS with several times of day, which libical does not count.
    by_place = freq != "DAILY" and draw.random() < 0.25
    of_year = drawn_year(draw) if freq == "YEARLY" and draw.random() < 0.5 else []
    by_place |= any("BYSETPOS" in part for part in of_year)
    maybe(0.6, lambda: "BYHOUR=" + some(draw, range(24), 1 if by_place else 3))
    maybe(0.5, lambda: "BYMINUTE=" + some(draw, range(60), 1 if by_place else 3))
    if freq == "WEEKLY":
        maybe(0.7, lambda: "BYDAY=" + some(draw, DAYS, 4))
        maybe(0.2, lambda: "WKST=" + draw.choice(DAYS))
        maybe(0.2, lambda: "BYMONTH=" + some(draw, range(1, 13), 4))
        if by_place:
            parts.append("BYSETPOS=" + some(draw, (1, 2, -1, -2), 2))
    elif freq == "DAILY":
        maybe(0.3, lambda: "BYDAY=" + some(draw, DAYS, 5))
        maybe(0.3, lambda: "BYMONTH=" + some(draw, range(1, 13), 4))
        maybe(0.2, lambda: "BYMONTHDAY=" + some(draw, [*range(1, 32), *range(-31, 0)], 5))
    elif of_year:
        parts += of_year
    else:
        if freq == "YEARLY" and (by_place or draw.random() < 0.7):
            parts.append("BYMONTH=" + some(draw, range(1, 13), 3))
        elif freq == "MONTHLY":
            maybe(0.2, lambda: "BYMONTH=" + some(draw, range(1, 13), 4))
        if by_place:
            parts.append("BYDAY=" + some(draw, DAYS, 4))
            parts.append("BYSETPOS=" + some(draw, (1, 2, -1), 2))
        elif draw.random() < 0.5:
            days = [*range(1, 29), *range(-28, 0)] if freq == "YEARLY" else \
                [*range(1, 32), *range(-31, 0)]
            parts.append("BYMONTHDAY=" + some(draw, days, 3))
            maybe(0.2, lambda: "BYDAY=" + some(draw, DAYS, 4))
        elif draw.random() < 0.2:
            pass
        elif draw.random() < 0.5:
            parts.append("BYDAY=" + some(
                draw, [f"{n}{d}" for n in (1, 2, 3, 4, -1, -2) for d in DAYS], 2))
        else:
            parts.append("BYDAY=" + some(draw, DAYS, 4))
    # dateutil counts the places of the first week from its start.
    maybe(0.1 * (not by_place or freq != "WEEKLY"), lambda: f"COUNT={draw.randint(1, 300)}")
    return ";".join(parts)


def moment_of(wall, zone):
    """Return: the Unix time at which the zone's clocks first show this time, or a later one."""
    time = int(wall.replace(tzinfo=zone, fold=0).timestamp())
    if datetime.datetime.fromtimestamp(time, zone).replace(tzinfo=None) == wall:
        return time
    low, high = time - 86400, time + 86400
    while high - low > 1:
        middle = (low + high) // 2
        if datetime.datetime.fromtimestamp(middle, zone).replace(tzinfo=None) < wall:
            low = middle
        else:
            high = middle
    return high


def expected(name, start, after, text):
    zone = ZONES[name]
    first = datetime.datetime.fromtimestamp(start, zone).replace(tzinfo=None)
    runs = []
    rule = rrule.rrulestr(text, dtstart=first)
    # Otherwise dateutil would look for a run that never comes until the year 9999.
    rule = rule.replace(until=datetime.datetime.fromtimestamp(after, zone).replace(tzinfo=None)
                        + datetime.timedelta(seconds=HORIZON + 86400))
    # Start a day earlier, because a clock change may have moved that day's run.
    begin = datetime.datetime.fromtimestamp(after, zone).replace(tzinfo=None) - \
        datetime.timedelta(days=1)
    for wall in rule.xafter(begin, inc=True):
        time = moment_of(wall, zone)
        if after < time <= after + HORIZON and time not in runs:
            runs.append(time)
        if len(runs) == 3:
            break
    return runs


def main():
    # Rules with COUNT get an UNTIL as well.
    warnings.simplefilter("ignore", DeprecationWarning)
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 4000
    draw = random.Random(20261128)
    cases = []
    for _ in range(number):
        start = draw.randrange(1262304000, 1830000000)
        # Half of the moments are near a clock change: 2027-03-14, 2027-03-28, 2027-10-31,
        # 2027-11-07.
        after = start + draw.randrange(0, 200000000) if draw.random() < 0.5 else max(
            start, draw.choice((1804921200, 1806195600, 1824944400, 1825563600))
            + draw.randrange(-90000, 90000))
        rule = drawn_rule(draw)
        if "WEEKLY" in rule and "BYSETPOS" in rule:
            after = max(after, start + 8 * 86400)
        cases.append((draw.choice([*ZONES]), start, after, rule))
    ran = subprocess.run([sys.argv[1]], check=True, text=True, stdout=subprocess.PIPE,
                         input="".join("%s %d %d %s\n" % c for c in cases))
    wrong = 0
    for case, got in zip(cases, ran.stdout.splitlines(), strict=True):
        want = expected(*case)
        if [int(t) for t in got.split() if t.isdigit() and int(t) <= case[2] + HORIZON] != want:
            wrong += 1
            if wrong <= 10:
                print("# %s from %d after %d: %s\n#   twheeld %s, dateutil %s"
                      % (*case[:3], case[3], got.strip(), want))
    print("%s 1 - D18: the next three runs of %d rules are those of dateutil"
          % ("not ok" if wrong else "ok", number), "# %d are not" % wrong if wrong else "")
    print("1..1")
    return 1 if wrong else 0


sys.exit(main())
