#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Compares calendars of twheeld with those of croniter (D18).

calendar_test.py PROGRAM [NUMBER]: chooses NUMBER random calendars (100000) and moments, and
compares the next three runs in UTC. PROGRAM is built from unit/cron_lines.c. Prints TAP.

Where the two differ, the test goes through the days one by one, because croniter 1.3.8 skips
the 1st of March for "*/6", for example. Local time is not compared, because croniter and
twheeld treat times that do not exist, or exist twice, differently. unit/cron_test.c covers
these.
"""

import datetime
import random
import subprocess
import sys

from croniter import croniter

MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
WEEKDAYS = "sun mon tue wed thu fri sat".split()
FIELDS = [(0, 59, None), (0, 23, None), (1, 28, None), (1, 12, MONTHS), (0, 6, WEEKDAYS)]


def value(draw, number, names):
    if names and draw.random() < 0.3:
        name = names[number - (names is MONTHS)]
        return name.upper() if draw.random() < 0.3 else name
    return str(number)


def element(draw, first, last, names):
    kind = draw.randrange(6)
    if kind < 2:
        return value(draw, draw.randint(first, last), names)
    if kind == 2:
        return "*/%d" % draw.randint(1, last)
    low, high = sorted((draw.randint(first, last), draw.randint(first, last)))
    text = value(draw, low, names) + "-" + value(draw, high, names)
    return text if kind == 3 else "%s/%d" % (text, draw.randint(1, max(1, high - low)))


def field(draw, first, last, names):
    if draw.random() < 0.35:
        return "*"
    count = draw.choice((1, 1, 1, 2, 3))
    return ",".join(element(draw, first, last, names) for _ in range(count))


def by_days(text, moment):
    """Return: the next three runs, day by day, from croniter's reading of each field."""
    minutes, hours, days, months, weekdays = croniter.expand(text)[0]
    day = datetime.datetime.fromtimestamp(moment, datetime.timezone.utc)
    day = day.replace(hour=0, minute=0, second=0)
    runs = []
    while len(runs) < 3:
        of_month = days == ["*"] or day.day in days
        of_week = weekdays == ["*"] or day.isoweekday() % 7 in weekdays
        fits = of_month or of_week if days != ["*"] != weekdays else of_month and of_week
        if fits and (months == ["*"] or day.month in months):
            runs += [time for hour in (range(24) if hours == ["*"] else hours)
                     for minute in (range(60) if minutes == ["*"] else minutes)
                     if (time := int(day.timestamp()) + hour * 3600 + minute * 60) > moment]
        day += datetime.timedelta(days=1)
    return " ".join("%d" % run for run in sorted(runs)[:3])


def main():
    number = int(sys.argv[2]) if len(sys.argv) > 2 else 100000
    draw = random.Random(20261128)
    cases = []
    for _ in range(number):
        text = " ".join(field(draw, *f) for f in FIELDS)
        cases.append((draw.randrange(0, 4102444800), text))
    ran = subprocess.run([sys.argv[1]], check=True, text=True, stdout=subprocess.PIPE,
                         input="".join("%d %s\n" % c for c in cases))
    wrong = 0
    for (moment, text), got in zip(cases, ran.stdout.splitlines(), strict=True):
        start = datetime.datetime.fromtimestamp(moment, datetime.timezone.utc)
        other = croniter(text, start)
        want = " ".join("%d" % other.get_next() for _ in range(3))
        if got != want and got != by_days(text, moment):
            wrong += 1
            if wrong <= 10:
                print('# "%s" after %d: %s, croniter %s' % (text, moment, got, want))
    print("%s 1 - D18: the next three runs of %d calendars are those of croniter"
          % ("not ok" if wrong else "ok", number))
    print("1..1")
    return 1 if wrong else 0


sys.exit(main())
