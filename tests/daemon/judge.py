# SPDX-License-Identifier: GPL-2.0
"""The judge of chaos: joins the logs of clients and workers, and names what must not be.

Logs are lines of JSON, in any number of files. Times "t" are microseconds of the clock that
Redis has. The judge knows due times only as clients were told them, never from a header.

A client logs each operation before it is sent, and again when it was answered:
  op    number, unique in all logs
  kind  put, move, run, replay, cancel
  id    of the task; only one client uses an id, one operation at a time
  due   the due time that is asked for, ms; of a relative time the earliest it can be
  body  of a put, unique
and
  op, answer    "none": it may have been done. "refused": it was not. Else the result:
  put     result ("created", "replaced", "kept", "exists", "full"), due, version, token
  others  state ("none", "scheduled", "leased", "done", "dead"), due, token
token is that of the lease that was found, or absent.

A worker logs
  run      a name, unique; with id, version, token, body, lease_end (ms): an attempt begins
  run, verdict   what it is about to report: ok, retry, release, dead
  run, reported  the answer: applied, stale, dead; absent without one
At the end: final, with id and version of each dead task; left: tasks that are neither done
nor dead.
"""
import json

LAWS = (("lost", "no accepted task is lost"),
        ("early", "no attempt begins before its due time"),
        ("body", "each attempt has the body of its version"),
        ("canceled", "no attempt begins after its task was canceled or replaced"),
        ("lease", "no attempt begins after its lease"),
        ("twice", "each duplicate has a cause"))
UNKNOWN_MOST = .02


class Verdict:
    def __init__(self):
        self.found = {law: [] for law, _ in LAWS}
        self.runs = self.operations = self.unknown = self.duplicates = self.tasks = 0
        self.stale = 0

    def add(self, law, text):
        self.found[law].append(text)

    def bad(self):
        return [law for law, texts in self.found.items() if texts]


def read(paths):
    """Return: operations by id, runs by id, (id, version) of dead tasks, tasks left."""
    operations, runs, dead, left = {}, {}, set(), None
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for line in file:
                try:
                    r = json.loads(line)
                except ValueError:
                    # The writer was killed in the middle of it.
                    continue
                if "op" in r:
                    op = operations.setdefault(r["op"], {"end": None, "answer": "none"})
                    op["end" if "answer" in r else "start"] = r.pop("t")
                    op.update({("told_" + k if k in ("due",) and "answer" in r else k): v
                               for k, v in r.items()})
                elif "run" in r:
                    run = runs.setdefault(r["run"], {"reported": None, "verdict": None})
                    at = r.pop("t")
                    if "id" in r:
                        run["t"] = at
                    run.update(r)
                elif "final" in r:
                    dead.add((r["final"], r["version"]))
                elif "left" in r:
                    left = r["left"]
    return by_id(operations, "start"), by_id(runs, "t"), dead, left


def by_id(records, key):
    found = {}
    for r in sorted((r for r in records.values() if "id" in r), key=lambda r: r[key]):
        found.setdefault(r["id"], []).append(r)
    return found


def is_made(op):
    return op["kind"] == "put" and op.get("result") in ("created", "replaced")


def ends_it(op):
    """Whether an answered operation ended the task before it."""
    if op["kind"] == "put":
        return op.get("result") == "replaced"
    return op["kind"] == "cancel" and op.get("state") not in (None, "none")


def earliest(put, later, t):
    """The earliest due time that may have held at t, in us."""
    dues = {put.get("told_due", put["due"])}
    for op in later:
        if op["kind"] not in ("move", "run", "replay") or op["start"] > t or \
                op["answer"] == "refused":
            continue
        if op["answer"] == "none":
            dues.add(op["due"])
        elif op["state"] in ("leased", "none") or (op["kind"] == "replay" and op["state"] != "dead"):
            continue
        elif op["end"] < t:
            dues = {op["told_due"]}
        else:
            dues.add(op["told_due"])
    return min(dues) * 1000


def judge_run(v, run, put, later):
    name = f"{run['id']} version {run['version']}"
    if put.get("version", run["version"]) != run["version"]:
        v.add("body", f"{name}: body {run['body']} is of version {put['version']}")
    due = earliest(put, later, run["t"])
    if run["t"] < due:
        v.add("early", f"{name}: {(due - run['t']) / 1000:.1f} ms early")
    if run["t"] >= run["lease_end"] * 1000:
        v.add("lease", f"{name}: {run['t'] / 1000 - run['lease_end']:.1f} ms after its lease")
    for op in later:
        if op["answer"] == "ok" and ends_it(op) and run["t"] > op["end"] and \
                op.get("token") != run["token"]:
            v.add("canceled", f"{name}: {(run['t'] - op['end']) / 1000:.1f} ms after "
                              f"{op['kind']} had the answer {op.get('state', 'replaced')}")


def is_explained(before, run, later):
    if before["verdict"] in ("retry", "release") and before["reported"] != "stale":
        return True
    if any(op["kind"] in ("move", "run", "replay") and op["start"] < run["t"] and
           (op["end"] is None or op["end"] > before["t"]) and
           (op["answer"] == "none" or op.get("state") in ("done", "dead")) for op in later):
        return True
    return before["reported"] in (None, "stale") and run["t"] >= before["lease_end"] * 1000


def is_lost(put, later, runs, dead):
    if any(r["verdict"] in ("ok", "dead") for r in runs):
        return False
    if (put["id"], put["version"]) in dead:
        return False
    return not any(op["kind"] in ("put", "cancel") and
                   (op["answer"] == "none" or ends_it(op)) for op in later)


def judge_task(v, put, later, runs, dead):
    for run in runs:
        judge_run(v, run, put, later)
    for before, run in zip(runs, runs[1:]):
        v.duplicates += before["verdict"] not in ("retry", "release")
        if not is_explained(before, run, later):
            v.add("twice", f"{run['id']} version {run['version']}: a run of verdict "
                           f"{before['verdict']}, {before['reported']}, and another "
                           f"{(run['t'] - before['t']) / 1000:.1f} ms later")
    if is_made(put) and is_lost(put, later, runs, dead):
        v.add("lost", f"{put['id']} version {put['version']}, due {put['told_due']}, "
                      f"{len(runs)} runs without an end")


def judge(paths):
    v = Verdict()
    operations, runs, dead, left = read(paths)
    if left is None or left:
        v.add("lost", f"{left} tasks are left at the end")
    for name, ops in operations.items():
        mine = runs.get(name, [])
        v.operations += sum(op["answer"] != "refused" for op in ops)
        v.unknown += sum(op["answer"] == "none" for op in ops)
        puts = {op["body"]: n for n, op in enumerate(ops) if op["kind"] == "put"}
        for body, n in puts.items():
            if ops[n]["answer"] == "ok" and not is_made(ops[n]):
                continue
            v.tasks += is_made(ops[n])
            # Those after the next put change another task.
            last = next((m for m in range(n + 1, len(ops)) if is_made(ops[m])), len(ops) - 1)
            judge_task(v, ops[n], ops[n + 1:last + 1], [r for r in mine if r["body"] == body],
                       dead)
        known = {body for body, n in puts.items()
                 if ops[n]["answer"] == "none" or is_made(ops[n])}
        for run in mine:
            if run["body"] not in known:
                v.add("body", f"{name}: nobody put the body {run['body']}")
    v.runs = sum(len(r) for r in runs.values())
    v.stale = sum(r["reported"] == "stale" for rs in runs.values() for r in rs)
    return v


def report(v, case, number=0):
    """Prints TAP, without a plan. Return: whether all is well."""
    good = True
    share = v.unknown / max(1, v.operations)
    print(f"# {case}: {v.operations} operations, {v.unknown} unknown ({share:.2%}), {v.tasks} tasks, "
          f"{v.runs} runs, {v.duplicates} duplicates, {v.stale} stale reports")
    lines = [(f"{case}: {text}", v.found[law]) for law, text in LAWS]
    lines.append((f"{case}: at most 2 % of the operations are unknown",
                  [] if share <= UNKNOWN_MOST else [f"{share:.2%}"]))
    for text, culprits in lines:
        number += 1
        print(f"{'not ' if culprits else ''}ok {number} - {text}")
        for c in culprits[:5]:
            print(f"#   {c}")
        if len(culprits) > 5:
            print(f"#   and {len(culprits) - 5} more")
        good = good and not culprits
    return good
