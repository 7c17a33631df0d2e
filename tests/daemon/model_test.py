#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""model_test.py [--operations N] [--seed N]: compares the scripts with a model.

Random operations run on 25 ids of one lane. After each, the answer and the whole state in
Redis must equal those of a Python model, and at the end the number of messages. The test
supplies the time: it replaces the line of the prelude that reads TIME. Then it plants bugs in
the scripts, each of which the model must notice (C5). Prints TAP.

The model knows all answers, so operations are sent ahead of them, and the received bytes are
compared with the model's. They are parsed only where they differ.
"""
import argparse
import collections
import io
import random
import struct
import sys
import time

import rig
from resp import SETS, Error, Lane, Redis, put_words

SCHEDULED, LEASED, DONE, DEAD = range(4)
LAST, ASKED = 1, 2
NOBODY = "0" * 16
HEADER = struct.Struct(">BBBBHHHIHIHIHIHIQHIHIHI")
FIELDS = ("state", "flags", "late", "attempts", "lost", "limit", "missed", "version", "due",
          "first", "token", "holder", "period", "late_after", "keep")
# Fields of six bytes.
LONG = {"version", "due", "first", "token", "period", "late_after", "keep"}
IDS = [f"task-{n}" for n in range(25)]
ORPHANS = [f"orphan-{n}" for n in range(5)]
ALL = IDS + ORPHANS
CTL = ("seq", "next", "paused", "tat", "orphan", "lost", "missed", "dead")
SCORED, HASHES = ("due", "run", "dead", "done"), ("hdr", "body", "note", "ctl")
# This many operations are sent at once, while those before them are compared.
BATCH = 256
# More bytes than an answer may lack.
PAD = 65536
CLOCK = ("prelude", "redis.call('TIME')", "{ table.remove(ARGV), table.remove(ARGV) }")


class Model:
    """A lane. A task is a dict of the header's fields, and of body, note and score."""

    def __init__(self):
        self.tasks = {}
        self.orphans = {}
        # The damaged headers of some orphans.
        self.broken = {}
        self.seq = 0
        self.next = None
        self.paused = None
        self.tat = None
        self.count = {"orphan": 0, "lost": 0, "missed": 0, "dead": 0}
        self.us = self.now = 0
        self.wakes = 0
        # By id: the last state of a task, and its header, body and note as Redis returns them.
        self.told = {}

    # ---- What the scripts share ----

    def of(self, state):
        """Return: ids in the order of their set, including orphans."""
        found = [(t["score"], i.encode()) for i, t in self.tasks.items() if t["state"] == state]
        found += [(s, i.encode()) for i, (at, s) in self.orphans.items() if at == state]
        return [i.decode() for _, i in sorted(found)]

    def score(self, name, state):
        return self.tasks[name]["score"] if name in self.tasks else self.orphans[name][1]

    def head(self, state):
        ids = self.of(state)
        return self.score(ids[0], state) if ids else -1

    def announce(self, ms):
        if self.next is None or ms < self.next:
            self.next = ms
            self.wakes += 1

    def enter(self, t, state, at):
        t["state"], t["score"] = state, at
        if state != LEASED:
            t["token"], t["holder"] = 0, NOBODY

    def schedule(self, t, due):
        t["due"] = due
        self.enter(t, SCHEDULED, due)
        self.announce(due)

    def bury(self, t, note):
        self.enter(t, DEAD, self.now)
        self.count["dead"] += 1
        t["note"] = note or t["note"]

    def period(self, t, ran):
        steps = 1
        while t["first"] + steps * t["period"] < self.now:
            steps += 1
        t["missed"] = steps - 1 if ran else t["missed"] + steps
        t.update(first=t["first"] + steps * t["period"], attempts=0, lost=0, flags=0)
        self.schedule(t, t["first"])

    def finish(self, name):
        t = self.tasks[name]
        if t["keep"]:
            self.enter(t, DONE, self.now + t["keep"])
        else:
            del self.tasks[name]

    def move(self, t, due):
        if not t["attempts"] and not t["lost"]:
            t["first"] = due
        self.schedule(t, due)

    def drop_orphan(self, name):
        if name in self.orphans:
            del self.orphans[name]
            self.broken.pop(name, None)
            self.count["orphan"] += 1
            return True
        return False

    def drop_bodiless(self, name):
        if self.tasks[name]["body"] is None:
            del self.tasks[name]
            self.count["orphan"] += 1
            return True
        return False

    def leased(self, name, holder, token):
        t = self.tasks.get(name)
        return t if t and t["state"] == LEASED and (t["holder"], t["token"]) == (holder, token) \
            else None

    # ---- The scripts: each takes ARGV and returns the answer without the time ----

    def put(self, most, *argv):
        answers, created, made = [], [], set()
        for i in range(0, len(argv), 10):
            name, exists, relative, at, limit, period, after, late, keep, body = argv[i:i + 10]
            due = at + (self.now if relative else 0)
            old = self.tasks.get(name)
            if not old and len(self.tasks) + len(self.broken) >= most:
                answers.append([4, 0, 0, 0, 0, b"", 0, 0])
                continue
            ends = old and old["state"] == LEASED and old["flags"] & LAST
            if exists == 3:
                if name in made:
                    due = old["due"]
                elif old and not ends and old["state"] in (SCHEDULED, LEASED):
                    answers.append(self.update(old, limit, period, after, late, keep, body))
                    continue
            elif old and exists and not ends:
                answers.append([1 + exists, old["due"], old["version"], old["state"], 0, b"", 0, 0])
                continue
            self.seq += 1
            self.tasks[name] = t = dict(
                state=SCHEDULED, flags=0, late=late, attempts=0, lost=0, limit=limit, missed=0,
                version=self.seq, due=due, first=due, token=0, holder=NOBODY, period=period,
                late_after=after, keep=keep, body=body, note="", score=due)
            # A put replaces what was left of another task, because Redis has one score for an id.
            if name in self.orphans and self.orphans[name][0] == SCHEDULED:
                del self.orphans[name]
            created.append(due)
            made.add(name)
            if not old:
                answers.append(t["version"])
                continue
            answer = [1, due, t["version"], SCHEDULED, 0, b"", 0, old["due"]]
            if old["state"] == LEASED:
                answer[4:7] = [1, old["holder"].encode(), old["token"]]
            answers.append(answer)
        # One message for all of them.
        if created:
            self.announce(min(created))
        return answers

    def update(self, t, limit, period, after, late, keep, body):
        if t["state"] == SCHEDULED and not t["attempts"] and not t["lost"]:
            self.seq += 1
            t["version"] = self.seq
        t.update(limit=limit, period=period, late_after=after, late=late, keep=keep, body=body)
        answer = [6, t["due"], t["version"], t["state"], 0, b"", 0, t["due"]]
        if t["state"] == LEASED:
            answer[4:7] = [1, t["holder"].encode(), t["token"]]
        return answer

    def is_late(self, t):
        return t["late"] and t["late_after"] and not t["attempts"] and \
            not t["flags"] & ASKED and self.now > t["first"] + t["late_after"]

    def take(self, limit, lease, holder, ahead, rate=0, per=0, burst=0, concurrency=0, _lanes=0):
        if self.paused:
            return [1, self.head(SCHEDULED), self.head(LEASED), 0, 0, 0, 0, 0, 0]
        missed = dead = orphans = held = wait = 0
        if rate:
            step = per // rate
            tat = min(max(self.tat or 0, self.us), self.us + burst * step)
            tokens = (self.us + burst * step - tat) // step
            limit, held = (tokens, 1) if tokens < limit else (limit, held)
        if concurrency and concurrency - len(self.of(LEASED)) < limit:
            limit, held = max(0, concurrency - len(self.of(LEASED))), 2
        taken = []
        ids = [i for i in self.of(SCHEDULED) if self.score(i, SCHEDULED) <= self.now + ahead]
        for name in ids[:limit]:
            if self.drop_orphan(name) or self.drop_bodiless(name):
                orphans += 1
                continue
            t = self.tasks[name]
            if not self.is_late(t):
                taken.append(name)
            elif t["period"]:
                t["note"] = "missed"
                self.period(t, False)
                missed += 1
            elif t["late"] == 2:
                self.bury(t, "missed")
                dead += 1
            else:
                t["note"] = "missed"
                self.finish(name)
                missed += 1
        answer = []
        for name in taken:
            t = self.tasks[name]
            self.seq += 1
            t.update(token=self.seq, holder=holder)
            self.enter(t, LEASED, max(self.now, t["due"]) + lease)
            answer.append([name.encode(), t["token"], t["attempts"] + 1, t["due"], t["first"],
                           t["version"], t["missed"], t["body"].encode()])
        if rate and taken:
            self.tat = tat = tat + len(taken) * step
        if rate:
            some = min(burst, max(1, 50000 // step))
            wait = max(1, -((self.us + (burst - some) * step - tat) // 1000))
        head = self.head(SCHEDULED)
        if len(taken) != limit or not 0 <= head <= self.now + ahead:
            held = 0
        self.next = None if head < 0 else head
        self.count["missed"] += missed
        return [0, head, self.head(LEASED), missed, dead, orphans, 0, held,
                wait if held == 1 else 0] + answer

    def ack(self, holder, *argv):
        answer = []
        for i in range(0, len(argv), 6):
            name, token, verdict, delay, at, note = argv[i:i + 6]
            t = self.leased(name, holder, token)
            if not t:
                answer.append(1)
                continue
            answer.append(0)
            if verdict == 0 and t["period"] and not t["flags"] & LAST:
                self.period(t, True)
            elif verdict == 0:
                self.finish(name)
            elif t["flags"] & LAST:
                del self.tasks[name]
            else:
                t["note"] = note or t["note"]
                if verdict == 3:
                    if at:
                        self.move(t, at)
                    else:
                        self.schedule(t, t["due"] if delay < 0 else self.now + delay)
                    continue
                t["attempts"] += 1
                t["lost"] = t["lost"] if verdict == 2 else 0
                if verdict == 1 and t["attempts"] < t["limit"]:
                    self.schedule(t, self.now + delay)
                elif verdict == 1 and t["period"]:
                    self.period(t, True)
                else:
                    self.bury(t, note)
                    answer[-1] = 2
        return answer

    def renew(self, holder, lease, *argv):
        answer = []
        for i in range(0, len(argv), 2):
            t = self.leased(argv[i], holder, argv[i + 1])
            if t:
                t["score"] = max(self.now, t["due"]) + lease
            answer.append(1 if not t else 2 if t["flags"] & LAST else 0)
        return answer

    def recover(self, limit, most):
        returned = dead = orphans = canceled = 0
        for name in [i for i in self.of(LEASED) if self.score(i, LEASED) <= self.now][:limit]:
            if self.drop_orphan(name):
                orphans += 1
                continue
            t = self.tasks[name]
            t["lost"] += 1
            if t["flags"] & LAST:
                del self.tasks[name]
                canceled += 1
            elif t["lost"] >= most:
                self.bury(t, "lost")
                dead += 1
            else:
                self.schedule(t, t["due"])
                returned += 1
        self.count["lost"] += returned + dead + canceled
        return [returned, dead, orphans, self.head(LEASED), self.head(SCHEDULED), canceled, 0]

    def change(self, name, verb, relative, at):
        t = self.tasks.get(name)
        if not t:
            return [-1]
        state, due, version = t["state"], t["due"], t["version"]
        holder, token = t["holder"].encode(), t["token"]
        ahead = int(state == LEASED and due > self.now)
        at = self.now if verb > 1 else at + (self.now if relative else 0)
        asks = verb in (1, 2) or (verb == 3 and state == DEAD)
        if verb == 0 and state == LEASED:
            t["flags"] |= LAST
        elif verb == 0:
            del self.tasks[name]
        elif state == LEASED:
            ahead = 0 if t["flags"] & LAST else ahead
        elif verb == 1 and state == SCHEDULED:
            self.move(t, at)
        elif asks:
            if state != SCHEDULED:
                t["attempts"] = t["lost"] = 0
            t["flags"] = ASKED
            self.schedule(t, at)
        return [state, at if asks else due, holder, token, ahead, version]

    def sweep(self, limit, most, keep):
        orphans, removed = 0, []
        for state, end in ((DONE, self.now), (DEAD, self.now - keep), (DEAD, None)):
            ids = self.of(state)
            if end is None:
                ids = ids[:min(max(0, len(ids) - most), limit)]
            else:
                ids = [i for i in ids if self.score(i, state) <= end][:limit]
            removed.append(0)
            for name in ids:
                if self.drop_orphan(name):
                    orphans += 1
                else:
                    del self.tasks[name]
                    removed[-1] += 1
        ends = [e for e in (self.head(DONE), self.head(DEAD) + keep) if e >= 0] \
            if self.of(DEAD) else [self.head(DONE)]
        return [sum(removed), *removed, orphans, 0, min(ends, default=-1)]

    def view(self, name):
        t = self.tasks[name]
        begun = int(t["state"] == LEASED and t["due"] <= self.now)
        return [name.encode(), t["state"], t["due"], t["first"], t["version"], t["attempts"],
                t["lost"], t["limit"], begun, t["score"] if t["state"] else 0, t["period"],
                t["late_after"], t["late"], t["keep"], t["note"].encode(),
                (t["body"] or "").encode()]

    def look(self, what, *argv):
        if what == "counts":
            due = self.of(SCHEDULED)
            return [len(due), len(self.of(LEASED)), len(self.of(DONE)), len(self.of(DEAD)),
                    self.head(SCHEDULED), int(bool(self.paused))] + [
                        sum(self.score(i, SCHEDULED) <= self.now + ms for i in due)
                        for ms in (60000, 3600000, 86400000)]
        if what == "get":
            return [self.view(argv[0])] if argv[0] in self.tasks else []
        state = ("due", "run", "done", "dead").index(argv[0])
        ids = self.of(state)
        if argv[2:]:
            ids = [i for i in ids if (self.score(i, state), i.encode()) >
                   (argv[2], argv[3].encode())]
        ids = ids[:argv[1]]
        place = [b"%d" % self.score(ids[-1], state), ids[-1].encode()] if ids else []
        return [[len(ids), *place]] + [self.view(i) for i in ids if i in self.tasks]

    def pause(self, on):
        self.paused = on
        self.wakes += 0 if on else 1
        leased = self.of(LEASED)
        held = sum(i in self.tasks and self.tasks[i]["due"] > self.now for i in leased)
        return [len(leased) - held, held]

    # ---- The state, as Redis tells it ----

    def tell(self, name, t):
        values = tuple(t.values())
        known = self.told.get(name)
        if known and known[0] == values:
            return known
        flat = [1]
        for field in FIELDS:
            if field in LONG:
                flat += (t[field] >> 32, t[field] & 0xffffffff)
            else:
                flat.append(int(t[field], 16) if field == "holder" else t[field])
        known = self.told[name] = (values, reply(HEADER.pack(*flat)),
                                   reply(t["body"] and t["body"].encode()),
                                   reply(t["note"].encode() or None))
        return known

    def dump(self):
        """Return: what Redis answers to dump_commands()."""
        sets = [[] for _ in range(4)]
        headers, bodies, notes = [], [], []
        for name in ALL:
            t = self.tasks.get(name)
            if t:
                sets[t["state"]].append((t["score"], name))
                _, header, body, note = self.tell(name, t)
            else:
                header, body, note = reply(self.broken.get(name)), NONE, NONE
            headers.append(header)
            bodies.append(body)
            notes.append(note)
        for name, (state, at) in self.orphans.items():
            sets[state].append((at, name))
        out = []
        for state in (SCHEDULED, LEASED, DEAD, DONE):
            out.append("*%d\r\n" % (2 * len(sets[state])))
            for at, name in sorted(sets[state]):
                out.append(f"${len(name)}\r\n{name}\r\n${len(str(at))}\r\n{at}\r\n")
        ctl = [self.seq or None, self.next, self.paused, self.tat, *(n or None for n in self.count.values())]
        out = ["".join(out).encode()]
        for values in headers, bodies, notes, [reply(n if n is None else b"%d" % n) for n in ctl]:
            out.append(b":%d\r\n*%d\r\n" % (len(values) - values.count(NONE), len(values)))
            out += values
        return b"".join(out)


NONE = b"$-1\r\n"


def reply(value):
    """Return: the bytes of an answer of Redis."""
    if value is None:
        return NONE
    if isinstance(value, bytes):
        return b"$%d\r\n%s\r\n" % (len(value), value)
    if isinstance(value, int):
        return b":%d\r\n" % value
    return b"*%d\r\n%s" % (len(value), b"".join(map(reply, value)))


def dump_commands(keys):
    commands = [("ZRANGE", keys[name], 0, -1, "WITHSCORES") for name in SCORED]
    for name in HASHES:
        commands += [("HLEN", keys[name]),
                     ("HMGET", keys[name], *(CTL if name == "ctl" else ALL))]
    return b"".join(Redis.command(*c) for c in commands)


def unpack(header):
    """Return: the fields, or the header itself if it is damaged."""
    if not isinstance(header, bytes) or len(header) != HEADER.size or header[0] != 1:
        return header
    values = list(HEADER.unpack(header))[:0:-1]
    h = {f: (values.pop() << 32) + values.pop() if f in LONG else values.pop() for f in FIELDS}
    return {**h, "holder": "%016x" % h["holder"]}


class Walk:
    """Chooses random operations."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.model = Model()
        self.us = 1700000000000000
        self.ids = IDS
        self.holders = ["%016x" % self.rng.getrandbits(64) for _ in range(2)]
        self.leases = []
        self.bodies = 0

    def time(self):
        r = self.rng
        return r.choice((0, r.randrange(-50, 400), r.randrange(0, 3000), r.randrange(0, 100000)))

    def put(self):
        r, argv = self.rng, []
        for _ in range(r.choice((1, 1, 2, 5))):
            self.bodies += 1
            relative = r.randrange(2)
            at = abs(self.time()) if relative else self.model.now + self.time()
            argv += [r.choice(self.ids), r.choice((0, 0, 1, 2, 3)), relative, at, r.randrange(1, 4),
                     r.choice((0, 0, 100, 1000)), r.choice((0, 200, 5000)), r.randrange(3),
                     r.choice((0, 0, 2000)), f"\1body {self.bodies}"]
        return [r.choice((20, 25, 100)), *argv]

    def take(self):
        r = self.rng
        words = [r.choice((1, 3, 128)), r.choice((50, 500, 2000)), r.choice(self.holders),
                 r.choice((0, 0, 500))]
        if r.random() < .6:
            return words
        return [*words, *r.choice(((0, 0, 0), (2, 1000000, 3), (5, 100000, 1))),
                r.choice((0, 1, 4)), 0]

    def lease(self):
        """Return: a task and a token, which are usually right."""
        r = self.rng
        if self.leases and r.random() < .9:
            return r.choice(self.leases[-8:])
        return (r.choice(self.ids), r.randrange(self.model.seq + 2), r.choice(self.holders))

    def batch(self):
        """Return: leases, usually all of the first one's holder."""
        some = [self.lease() for _ in range(self.rng.choice((1, 1, 3)))]
        holder = some[0][2] if self.rng.random() < .95 else self.rng.choice(self.holders)
        return holder, [s[:2] for s in some]

    def ack(self):
        r = self.rng
        holder, some = self.batch()
        argv = [holder]
        for name, token in some:
            verdict = r.randrange(4)
            at = self.model.now + abs(self.time()) if verdict == 3 and r.random() < .3 else 0
            delay = -1 if verdict == 3 and r.random() < .4 else abs(self.time())
            argv += [name, token, verdict, delay, at, r.choice(("", "error", "other"))]
        return argv

    def renew(self):
        holder, some = self.batch()
        return [holder, self.rng.choice((50, 2000)), *[x for s in some for x in s]]

    def recover(self):
        return [self.rng.choice((1, 128)), self.rng.choice((2, 5))]

    def change(self):
        r = self.rng
        relative = r.randrange(2)
        return [r.choice(self.ids), r.randrange(4), relative,
                abs(self.time()) if relative else self.model.now + self.time()]

    def sweep(self):
        r = self.rng
        return [r.choice((1, 128)), r.choice((2, 100)), r.choice((1000, 100000))]

    def look(self):
        r = self.rng
        return r.choice((["counts"], ["get", r.choice(self.ids)],
                         self.list()))

    def list(self):
        """Half of the lists start after a place, usually that of a task."""
        r = self.rng
        words = ["list", r.choice(("due", "run", "done", "dead")), r.choice((1, 3, 100))]
        if r.random() < .5:
            return words
        t = self.model.tasks.get(name := r.choice(self.ids))
        at = t["score"] if t and r.random() < .8 else self.model.now + r.randrange(-1000, 1000)
        return [*words, at, name]

    def pause(self):
        return [self.rng.choice((0, 0, 1))]

    def step(self):
        """Return: the name of a script, and its ARGV."""
        r = self.rng
        self.us += r.choice((0, 300, 5000, 100000, r.randrange(0, 1000000)))
        if r.random() < .1:
            # To the time of the first task, or just before it.
            self.us = max(self.us, (self.model.head(SCHEDULED) - r.randrange(4)) * 1000)
        self.model.us, self.model.now = self.us, self.us // 1000
        weights = {"put": 20, "take": 25, "ack": 20, "renew": 6, "recover": 8, "change": 14,
                   "sweep": 2, "look": 3, "pause": 1 if not self.model.paused else 20}
        script = r.choices(list(weights), weights.values())[0]
        return script, getattr(self, script)()

    def damage(self):
        """Damage the lane in a way that no script does. Return: the commands."""
        if self.rng.random() < .5:
            return self.orphan()
        if not self.model.tasks:
            return []
        name = self.rng.choice(sorted(self.model.tasks))
        self.model.tasks[name]["body"] = None
        return [("HDEL", "body", name)]

    def orphan(self):
        """Leave an id in a set without a header, or with a damaged one."""
        r, m = self.rng, self.model
        name, state = r.choice(ORPHANS), r.randrange(4)
        if name in m.orphans:
            return []
        m.orphans[name] = (state, m.now + r.randrange(-50, 2000))
        commands = [("ZADD", ("due", "run", "done", "dead")[state], m.orphans[name][1], name)]
        # No header, an empty one, one that is too short, one of no known format, one in no
        # known state.
        header = r.choice((None, b"", b"\1\0\0", bytes(64), b"\1\4" + bytes(62)))
        if header is not None:
            m.broken[name] = header
            commands.append(("HSET", "hdr", name, header))
        return commands


def differ(what, expected, got):
    print(f"#   {what}")
    if isinstance(expected, dict) and isinstance(got, dict):
        for key in sorted({*expected, *got}, key=repr):
            if expected.get(key) != got.get(key):
                print(f"#     {key}: model {expected.get(key)}")
                print(f"#     {key}: Redis {got.get(key)}")
        return
    print(f"#     model {expected}")
    print(f"#     Redis {got}")


def receive_parts(redis):
    """Return: an answer, and the parts of a dump by name."""
    parts = {"answer": redis.receive()}
    for name in SCORED:
        got = redis.receive()
        parts[name] = dict(zip(got[::2], got[1::2]))
    for name in HASHES:
        parts[name] = {"fields": redis.receive()}
        values = redis.receive()
        parts[name].update(zip(CTL if name == "ctl" else ALL, map(unpack, values)))
    return parts


def words(script, argv):
    """Return: ARGV as the script expects it. The model of put has its settings separate."""
    if script != "put":
        return argv
    most, *tasks = argv
    return [most] + [word for i in range(0, len(tasks), 10) for word in put_words(*tasks[i:i + 10])]


class Replies(Redis):
    """Parses bytes that came from Redis, or that should have come."""

    def __init__(self, text):
        self.file = io.BytesIO(text)


class Run:
    """Operations that were sent, and what is expected of each."""

    def __init__(self, redis, lane, walk):
        self.redis, self.lane, self.walk = redis, lane, walk
        self.keys = dict(zip(SETS, lane.keys))
        self.dump = dump_commands(self.keys)
        self.sent = collections.deque()

    def prepare(self, n):
        """Return: an operation for Redis, and the commands that dump the state after it."""
        walk = self.walk
        damage = [(verb, self.keys[key], *rest) for verb, key, *rest in
                  (walk.damage() if n % 50 == 49 else [])]
        script, argv = walk.step()
        # The last argument is the one that the clock removes first.
        call = self.lane.command(script, *words(script, argv), walk.us % 1000000,
                                 walk.us // 1000000)
        answer = [walk.us] + getattr(walk.model, script)(*argv)
        if script == "take":
            walk.leases += [(t[0].decode(), t[1], argv[2]) for t in answer[10:]]
            del walk.leases[:-16]
        self.sent.append((len(damage), script, argv, walk.model.now,
                          reply(answer) + walk.model.dump()))
        return b"".join([Redis.command(*d) for d in damage]) + call + self.dump

    def agrees(self):
        """Return: whether the oldest operation that was sent did what it should."""
        damage, script, argv, now, want = self.sent.popleft()
        for _ in range(damage):
            self.redis.receive()
        got = self.redis.file.read(len(want))
        if got == want:
            return True
        want = receive_parts(Replies(want))
        # The answer may be longer. At least a PAD follows it.
        got = receive_parts(Replies(got + self.redis.file.read(PAD // 2)))
        for part, value in want.items():
            if value != got[part]:
                differ(part, value, got[part])
        print(f"#   after {script} {argv} at {now}")
        return False


def run(redis, lane, walk, operations):
    """Return: how many operations agreed."""
    r = Run(redis, lane, walk)
    agreed = 0
    for first in range(0, operations, BATCH):
        redis.socket.sendall(b"".join([r.prepare(n) for n in
                                       range(first, min(first + BATCH, operations))]))
        while len(r.sent) > BATCH:
            if not r.agrees():
                return agreed
            agreed += 1
    redis.send("ECHO", "x" * PAD)
    while r.sent and r.agrees():
        agreed += 1
    return agreed


# C5: bugs of the scripts, by name: (script or "prelude", old text, new text).
PLANTS = {
    "no run": [("take", "redis.call('ZADD', RUN, unpack(ends))", "")],
    "tasks taken 3 ms early": [("take", "DUE, '-inf', now + ahead,",
                                "DUE, '-inf', now + ahead + 3,")],
    "put cuts the time to seconds": [
        ("put", "set_due[n] = due, id", "set_due[n] = ms - ms % 1000, id"),
        ("put", "version, ms, ms)", "version, ms - ms % 1000, ms - ms % 1000)")],
    "no token check": [("ack", " or h.token ~= token or h.holder ~= holder", "")],
    "cancel keeps due": [("change", "\t\tremove(id, h)\n",
                          "\t\tif state ~= SCHEDULED then remove(id, h) end\n")],
    "the old body stays": [("put", "set_bodies[n] = id, body",
                            "set_bodies[n] = id, redis.call('HGET', BODY, id) or body")],
    "recover forgets": [("recover", "schedule(id, h, h.due)", "leave(id, h) set(id, h)")],
    "a bucket that never empties": [("take", "tat = math.ceil(tat + n * interval)", "")],
    "leases do not count": [("take", "concurrency - leases()", "concurrency")],
    "late is ignored": [("take", "elseif is_late(h) then", "elseif false then")],
    "a broken header stops": [("prelude", "#s ~= HEADER_SIZE or string.byte(s, 1) ~= 1 or "
                               "string.byte(s, 2) > BURIED", "false")],
}


def notices(redis, plant, seed, operations=5000):
    """Return: after how many operations the model noticed the bug, or None."""
    redis.ask("FLUSHALL")
    lane = Lane("model/0", (CLOCK, *PLANTS[plant]))
    lane.load(redis)
    agreed = run(redis, lane, Walk(seed), operations)
    return agreed if agreed < operations else None


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--operations", type=int, default=100000)
    options.add_argument("--seed", type=int, default=int(time.time()))
    options = options.parse_args()
    print(f"TAP version 13\n# seed {options.seed}", flush=True)
    server = rig.Redis("--appendonly", "no")
    redis, other = Redis(server.path, 60), Redis(server.path, 60)
    lane = Lane("model/0", (CLOCK,))
    lane.load(redis)
    other.ask("SUBSCRIBE", "tw:wake")
    walk = Walk(options.seed)
    agreed = run(redis, lane, walk, options.operations)
    print(f"1..{2 + len(PLANTS)}")
    print(f"{'ok' if agreed == options.operations else 'not ok'} 1 - M2: {agreed} operations "
          f"agree with the model")
    if agreed < options.operations:
        print("Bail out! the scripts and the model differ")
        sys.exit(1)
    wakes = 0
    other.socket.settimeout(.5)
    try:
        while wakes < walk.model.wakes + 1:
            other.receive()
            wakes += 1
    except TimeoutError:
        pass
    good = wakes == walk.model.wakes
    print(f"{'ok' if good else 'not ok'} 2 - {wakes} wakes were published, "
          f"the model has {walk.model.wakes}")
    for number, plant in enumerate(PLANTS, 3):
        link = Redis(server.path, 60)
        after = notices(link, plant, options.seed)
        good = good and after is not None
        print(f"{'not ok' if after is None else 'ok'} {number} - C5: the model notices: "
              f"{plant}" + ("" if after is None else f", after {after} operations"))
    sys.exit(not good)


if __name__ == "__main__":
    main()
