#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""twheeld with a Redis cluster: lanes on all masters, slots that move, masters that die.

  cluster_test.py PROGRAM [NAME...]
"""
import threading
import time

from cluster import Cluster, Node
from load import Load, check
from limits import HANG
from rig import (Daemon, Redis, Sink, Slow, equal, free_ports, host, in_time, kept_silent, now_ms,
                 rounds, run_all, settle, shifted_clock, spare, test, wait_until)
from siege import fnv32

LANES = 16
made = {}


def cluster():
    """Return: the cluster that all tests share. Each test leaves it intact."""
    if not made:
        made["cluster"] = Cluster()
    return made["cluster"]


def keyslot(node, queue, lane):
    return node.run("CLUSTER", "KEYSLOT", f"tw:{{{queue}/{lane}}}:due")


@test("cluster://: lanes are on all masters; two daemons wake each other and recall tasks")
def cluster_lanes():
    cl, sink = cluster(), Sink()
    # One node as a seed is enough, even a replica.
    d = Daemon(None, f"--redis={cl.url(cl.nodes[:1])}")
    e = Daemon(None, f"--redis={cl.url(cl.nodes[5:])}")
    c = d.client()
    equal(c.call("PUT", "/v1/queues/lanes", {"mode": "push", "lanes": LANES})[0], 201)
    wait_until(lambda: e.client().raw("GET", "/v1/queues/lanes")[0] == 200)
    load = Load(c, "lanes", sink)
    for n in range(200):
        load.put(f"l{n}", 300 + 5 * n)
    equal(load.judge(), 0, "ran twice")
    equal(load.refused, 0)
    late = sorted(r["at"] - load.due[r["id"]] for r in sink.received())
    print(f"# lateness p50 {late[100]:.2f} ms, p99 {late[197]:.2f} ms")
    assert all(int(n.info("keyspace", "db0").partition("keys=")[2].split(",")[0]) > 0
               for n in cl.masters())
    text = c.raw("GET", "/metrics")[2]
    for n in cl.masters():
        assert f'twheeld_redis_up{{node="127.0.0.1:{n.port}"}} 1' in text, text
    # A replica that only named the masters does not count as a node.
    text = e.client().raw("GET", "/metrics")[2]
    equal(text.count("\ntwheeld_redis_up{"), 3, text)

    # One daemon cancels tasks that the other holds.
    def cancel(turn):
        due = int(now_ms()) + 1000
        equal(c.call("POST", "/v1/queues/lanes/tasks", {"tasks": [
            {"id": f"c{turn}-{n}", "at": due, "callback": {"url": sink.url + "/"}}
            for n in range(20)]})[0], 200)
        time.sleep(max(0, due - 400 - now_ms()) / 1000)
        withheld = host.withheld
        answers = [(e if n % 2 else d).client().call(
            "DELETE", f"/v1/queues/lanes/tasks/c{turn}-{n}") for n in range(20)]
        in_time(due, "the last request")
        if any(status == 202 for status, _ in answers) and kept_silent(withheld):
            raise Slow("a holder did not answer within 250 ms")
        equal({status for status, _ in answers}, {200}, str(answers))
        time.sleep((due + 200 - now_ms()) / 1000)
        assert not any(r["id"].startswith(f"c{turn}-") for r in sink.received())
    rounds(cancel)
    # A put at one daemon wakes a worker of the other.
    equal(c.call("PUT", "/v1/queues/pulled", {"mode": "pull", "lanes": 4})[0], 201)
    wait_until(lambda: e.client().raw("GET", "/v1/queues/pulled")[0] == 200)
    got = []
    worker = threading.Thread(target=lambda: got.append(e.client().call(
        "POST", "/v1/queues/pulled/reserve", {"wait": "1min"})))
    worker.start()
    settle(0.2)
    withheld, begin = host.withheld, time.monotonic()
    equal(c.call("PUT", "/v1/queues/pulled/tasks/x", {})[0], 201)
    worker.join()
    equal([t["id"] for t in got[0][1]["tasks"]], ["x"])
    assert time.monotonic() - begin < 0.5 + spare(withheld) / 1000
    for daemon in (d, e):
        equal(daemon.end(), 0)
        assert "<3>" not in daemon.text(), daemon.text()


@test("limits of a queue: in a cluster each lane has a part of them, of at least one")
def cluster_limits():
    cl, sink = cluster(), Sink()
    d, e = (Daemon(None, f"--redis={cl.url()}") for _ in range(2))
    c, path = d.client(), "/v1/queues/limited"
    rate = {"limit": 40, "burst": 10}
    for body, field in (({"concurrency": 3}, "concurrency"),
                        ({"rate": {**rate, "burst": 3}}, "rate.burst")):
        status, answer = c.call("PUT", path, body)
        equal((status, answer["error"]["field"]), (400, field))
    equal(c.call("PUT", path, {"rate": rate, "concurrency": 6})[0], 201)
    wait_until(lambda: e.client().raw("GET", path)[0] == 200)
    equal(c.call("POST", f"{path}/tasks", {"tasks": [
        {"id": f"part-{n}", "callback": {"url": sink.url + "/slow/20"}}
        for n in range(80)]})[0], 200)
    wait_until(lambda: len(sink.received()) == 80)
    equal(len({r["id"] for r in sink.received()}), 80)
    at = sorted(r["at"] for r in sink.received())
    # 70 tasks beyond the burst, at 40 a second.
    assert at[-1] - at[0] > 70 / 40 * 1000 - 50, at[-1] - at[0]
    # No more than 6 at once: the seventh begins when one of those before it has ended.
    equal(c.call("PUT", path, {"rate": None})[0], 200)
    equal(c.call("POST", f"{path}/tasks", {"tasks": [
        {"id": f"slow-{n}", "callback": {"url": sink.url + "/slow/300"}}
        for n in range(30)]})[0], 200)
    wait_until(lambda: len(sink.received()) == 110)
    at = sorted(r["at"] for r in sink.received() if r["id"].startswith("slow-"))
    gaps = [then - first for first, then in zip(at, at[6:])]
    assert min(gaps) > 295, gaps
    equal((d.end(), e.end()), (0, 0))


@test("cluster://: schedules and their runs are on different masters, and each run is created once")
def schedules():
    cl, sink = cluster(), Sink()
    pair = [Daemon(None, f"--redis={cl.url(cl.nodes[:1])}") for _ in range(2)]
    c = pair[0].client()
    equal(c.call("PUT", "/v1/queues/timed", {"mode": "push", "lanes": LANES})[0], 201)
    first = {}
    for n in range(4):
        status, answer = c.call("PUT", f"/v1/queues/timed/schedules/s{n}", {
            "every": "1s", "max": 6, "task": {"callback": {"url": sink.url + "/"}}})
        equal(status, 201, answer)
        first[n] = answer["next"]
    for n, ms in first.items():
        sink.wait_for(f"s{n}:{ms + 5000}")
    time.sleep(1.5)
    for n, ms in first.items():
        equal(sorted(r["id"] for r in sink.received() if r["id"].startswith(f"s{n}:")),
              [f"s{n}:{ms + 1000 * i}" for i in range(6)])
    for d in pair:
        d.end()


@test("cluster://: slots move while tasks run: the daemons handle MOVED, ASK and TRYAGAIN, and "
      "lose nothing")
def cluster_slots_move():
    cl, sink = cluster(), Sink()
    d = Daemon(None, f"--redis={cl.url()}", "--wait-replicas=1", "--wait-timeout=2s")
    c = d.client()
    equal(c.call("PUT", "/v1/queues/move", {"mode": "push", "lanes": LANES})[0], 201)
    load = Load(c, "move", sink)
    stop = threading.Event()

    def put():
        n = 0
        while not stop.is_set():
            load.put(f"m{n}", (0, 200, 900)[n % 3])
            n += 1
            time.sleep(0.004)
    thread = threading.Thread(target=put)
    thread.start()
    time.sleep(0.5)
    for lane in range(0, LANES, 3):
        slot = keyslot(cl.nodes[0], "move", lane)
        source = cl.owner(slot)
        cl.migrate(slot, next(n for n in cl.masters() if n is not source), 0.1, 0.01)
    stop.set()
    thread.join()

    # A single key can be used while its slot moves, but the new node requires ASKING.
    def make():
        begin = time.monotonic()
        equal(c.call("PUT", "/v1/queues/asked", {"mode": "pull"})[0], 201)
        assert time.monotonic() - begin < 2 + spare() / 1000, "it waited for the slot"
    slot = cl.nodes[0].run("CLUSTER", "KEYSLOT", "tw:queues")
    source = cl.owner(slot)
    cl.migrate(slot, next(n for n in cl.masters() if n is not source), then=make)
    twice = load.judge()
    met = {e: sum(n.refused(e) for n in cl.nodes) for e in ("MOVED", "ASK", "TRYAGAIN")}
    print(f"# {len(load.due)} tasks, {load.refused} refused, {twice} ran twice, {met}")
    assert all(met.values()), met
    equal((load.refused, twice), (0, 0))
    equal(d.end(), 0)
    assert "<3>" not in d.text(), d.text()


@test("cluster://: a slot moves during a take: the holder of its tasks reports them")
def cluster_holder():
    cl, sink = cluster(), Sink()
    d = Daemon(None, f"--redis={cl.url()}")
    c, q = d.client(), "/v1/queues/holder"
    equal(c.call("PUT", q, {"mode": "push", "lanes": LANES, "ahead": "2s"})[0], 201)
    owners = {lane: cl.owner(keyslot(cl.nodes[0], "holder", lane)) for lane in range(LANES)}
    slow, other = owners[0], next(lane for lane in owners if owners[lane] is not owners[0])
    source, slot = owners[other], keyslot(cl.nodes[0], "holder", other)
    to = next(n for n in cl.masters() if n not in (slow, source))
    taken, moved = (next(f"t{n}" for n in range(1000) if fnv32(f"t{n}") % LANES == lane)
                    for lane in (0, other))
    target = {"callback": {"url": sink.url + "/"}}
    equal(c.call("PUT", f"{q}/tasks/{taken}", {**target, "in": "2600ms"})[0], 201)
    # The task is taken in 600 ms, from a node that does not answer yet.
    time.sleep(0.4)
    slow.stop()
    time.sleep(0.3)
    to.run("CLUSTER", "SETSLOT", slot, "NODE", to.id)
    source.run("CLUSTER", "SETSLOT", slot, "NODE", to.id)
    equal(c.call("PUT", f"{q}/tasks/{moved}", {**target, "in": "1h"})[0], 201)
    slow.go_on()
    # Each move of a slot gives the daemon another number, and the one of the take counts.
    sink.wait_for(taken)
    wait_until(lambda: c.call("GET", f"{q}/tasks/{taken}")[0] == 404, 3)
    equal(len(sink.received()), 1)
    cl.wait()
    equal(d.end(), 0)


@test("cluster://: a master is killed: its replica takes over, and no confirmed task is lost")
def cluster_failover():
    cl, sink = cluster(), Sink()
    d = Daemon(None, f"--redis={cl.url()}", "--wait-replicas=1", "--wait-timeout=2s")
    c = d.client()
    equal(c.call("PUT", "/v1/queues/fail", {"mode": "push", "lanes": LANES})[0], 201)
    load = Load(c, "fail", sink)
    for n in range(150):
        load.put(f"f{n}", 200 + 30 * n)
    equal(load.refused, 0)
    time.sleep(0.5)
    begin = time.monotonic()
    victim = cl.kill(cl.victims()[0])
    print(f"# failover took {time.monotonic() - begin:.1f} s")
    name = f'twheeld_redis_up{{node="127.0.0.1:{victim.port}"}} 1'
    assert name not in c.raw("GET", "/metrics")[2]
    wait_until(lambda: c.raw("GET", "/readyz")[0] == 200)
    # A put to the new master waits for a replica, of which there is none.
    victim.start()
    cl.wait()
    wait_until(lambda: all("state=online" in n.info("replication", "slave0")
                           for n in cl.masters()))
    # The daemon requests the map every second.
    wait_until(lambda: all(c.call("PUT", f"/v1/queues/fail/tasks/p{n}", {
        "in": "1h", "callback": {"url": sink.url + "/"}})[0] in (200, 201) for n in range(30)))
    for n in range(50):
        load.put(f"g{n}", 100)
    equal(load.refused, 0)
    print(f"# {load.judge()} ran twice")
    wait_until(lambda: c.call("GET", "/v1/queues/fail")[1]["leased"] == 0, 20)
    equal(d.end(), 0)


@test("cluster://: a master hangs: its replica takes over, and no request waits for the master")
def cluster_hangs():
    cl, sink = cluster(), Sink()
    d = Daemon(None, f"--redis={cl.url()}", "--lease=6s")
    c = d.client()
    equal(c.call("PUT", "/v1/queues/hang", {"mode": "push", "lanes": LANES})[0], 201)
    load = Load(c, "hang", sink)
    for n in range(100):
        load.put(f"h{n}", 200 + 60 * n)
    equal(load.refused, 0)
    victim = cl.victims()[0]
    begin = time.monotonic()
    victim.stop()
    others = [n for n in cl.nodes if n is not victim]
    wait_until(lambda: all(s[2][1] != victim.port for n in others
                           for s in n.run("CLUSTER", "SLOTS")), step=0.05)
    took = time.monotonic() - begin
    wait_until(lambda: all(c.call("PUT", f"/v1/queues/hang/tasks/p{n}", {
        "callback": {"url": sink.url + "/"}})[0] in (200, 201) for n in range(30)))
    print(f"# failover took {took:.1f} s, puts after {time.monotonic() - begin:.1f} s")
    assert time.monotonic() - begin < took + 5 + spare() / 1000
    victim.go_on()
    print(f"# {load.judge()} ran twice")
    cl.wait()
    equal(d.end(), 0)


@test("cluster://: CLUSTERDOWN: a put waits some seconds, then answers 503, and works again "
      "afterwards")
def cluster_down():
    cl = cluster()
    d = Daemon(None, f"--redis={cl.url()}")
    c = d.client()
    equal(c.call("PUT", "/v1/queues/down", {"mode": "pull", "lanes": 1})[0], 201)
    # A slot without an owner stops the whole cluster.
    slot = (keyslot(cl.nodes[0], "down", 0) + 1) % 16384
    owner = cl.owner(slot)
    equal(c.call("PUT", "/v1/queues/down/tasks/before", {"in": "1h"})[0], 201)

    def put(task, result):
        begin = time.monotonic()
        status, answer = d.client().call("PUT", f"/v1/queues/down/tasks/{task}", {})
        result.append((status, answer, time.monotonic() - begin))

    def orphan():
        for n in cl.masters():
            n.run("CLUSTER", "DELSLOTS", slot)
        wait_until(lambda: all(b"cluster_state:fail" in n.run("CLUSTER", "INFO")
                               for n in cl.masters()))
    orphan()
    got = []
    put("x", got)
    equal((got[0][0], got[0][1]["error"]["code"]), (503, "store_down"))
    assert 4 < got[0][2] < 8 + spare() / 1000, got
    late = threading.Thread(target=put, args=("y", got))
    late.start()
    time.sleep(1)
    owner.run("CLUSTER", "ADDSLOTS", slot)
    late.join()
    equal(got[1][0], 201, str(got))
    assert 0.9 < got[1][2] < 4 + spare() / 1000, got
    cl.wait()
    task, = c.call("POST", "/v1/queues/down/reserve", {"wait": "3s"})[1]["tasks"]
    equal(task["id"], "y")
    equal(d.end(), 0)


@test("D2: each node of a cluster has its own clock, which the tasks of its lanes follow")
def cluster_clocks():
    if not shifted_clock(0):
        return "SKIP there is no compiler"
    own = Cluster(2, 0, envs=[None, shifted_clock(3600)])
    d, e = (Daemon(None, f"--redis={own.url()}") for _ in range(2))
    c, sink = d.client(), Sink()
    equal(c.call("PUT", "/v1/queues/s", {"mode": "push", "lanes": LANES})[0], 201)
    begin = now_ms()
    shifted = 0
    for n in range(100):
        status, answer = c.call("PUT", f"/v1/queues/s/tasks/k{n}", {
            "in_ms": 800, "callback": {"url": sink.url + "/"}})
        equal(status, 201)
        shifted += answer["due"] > begin + 3000000
    assert 0 < shifted < 100, shifted
    wait_until(lambda: len(sink.received()) == 100)
    ran = sorted(r["at"] - begin for r in sink.received())
    assert 800 <= ran[0] and ran[-1] < 3000 + spare(), (ran[0], ran[-1])
    time.sleep(1)
    equal([daemon.metric("members") for daemon in (d, e)], [2, 2])
    for daemon in (d, e):
        equal(daemon.end(), 0)
        assert "clock was set" not in daemon.text(), daemon.text()
    own.end()


@test("/readyz is 503 while a lane's node is down, and names the node; the other lanes are served")
def cluster_ready():
    own = Cluster(2, 0, ("--cluster-require-full-coverage", "no"))
    d = Daemon(None, f"--redis={own.url()}")
    c = d.client()
    equal(c.call("PUT", "/v1/queues/ready", {"mode": "pull", "lanes": LANES})[0], 201)
    # The settings of the queues are on the other node.
    settings = own.owner(own.nodes[0].run("CLUSTER", "KEYSLOT", "tw:queues"))
    victim = next(n for n in own.nodes if n is not settings)
    gone, there = (next(lane for lane in range(LANES)
                        if own.owner(keyslot(own.nodes[0], "ready", lane)) is n)
                   for n in (victim, settings))
    task = next(f"t{n}" for n in range(1000) if fnv32(f"t{n}") % LANES == there)
    whole = next(f"w{n}" for n in range(100)
                 if own.owner(keyslot(own.nodes[0], f"w{n}", 0)) is not victim)
    equal(c.call("PUT", f"/v1/queues/{whole}", {"mode": "pull", "lanes": 1})[0], 201)
    other = next(f"t{n}" for n in range(1000) if fnv32(f"t{n}") % LANES == gone)
    tokens = []
    for t in (task, other):
        equal(c.call("PUT", f"/v1/queues/ready/tasks/{t}", {})[0], 201)
        tokens += c.call("POST", "/v1/queues/ready/reserve", {"wait": "5s"})[1]["tasks"]
    tokens = [{"id": t["id"], "token": t["token"]} for t in tokens]
    lost = sum(own.owner(keyslot(settings, "ready", lane)) is victim for lane in range(LANES))
    victim.kill()
    wait_until(lambda: c.raw("GET", "/readyz")[0] == 503)
    assert f"127.0.0.1:{victim.port}" in c.raw("GET", "/readyz")[2]
    text = c.raw("GET", "/metrics")[2]
    for n in own.nodes:
        line = f'twheeld_redis_up{{node="127.0.0.1:{n.port}"}} {int(n is not victim)}\n'
        assert line in text, (line, text)
    assert f'twheeld_tasks{{queue="{whole}",state="dead"}} 0\n' in text, text
    assert 'twheeld_tasks{queue="ready"' not in text, text
    status, answer = c.call("GET", "/v1/queues")
    equal((status, {q["queue"]: q.get("missing_lanes") for q in answer["queues"]}),
          (200, {"ready": lost, whole: None}))
    status, answer = c.call("GET", "/v1/queues/ready")
    equal((status, answer["leased"], answer["missing_lanes"]), (200, 1, lost))
    # A request that was carried out in part does not answer "not accepted".
    for path, body, code in (
            ("ack", {"tasks": tokens[1:]}, "store_down"),
            ("ack", {"tasks": tokens}, "fate_unknown"),
            ("pause", {}, "fate_unknown"), ("resume", {}, "fate_unknown")):
        status, answer = c.call("POST", f"/v1/queues/ready/{path}", body)
        equal((status, answer["error"]["code"]), (503, code), f"{path} {body}")
    status, answer = c.call("PUT", "/v1/queues/ready", {"timeout": "5s"})
    equal((status, answer["error"]["code"]), (503, "fate_unknown"), "a queue is changed")
    equal(c.call("PUT", f"/v1/queues/ready/tasks/{task}", {"in": "1h"})[0], 201)
    victim.start()
    wait_until(d.ready)
    equal(d.end(), 0)
    own.end()


@test("a node that reuses the number of a former node inherits none of its state, such as its "
      "clock")
def cluster_number():
    if not shifted_clock(0):
        return "SKIP there is no compiler"
    # Otherwise a master that gives away its last slot would become a replica.
    stay = ("--cluster-allow-replica-migration", "no")
    own = Cluster(1, 0, stay)
    first, = own.nodes
    d = Daemon(None, f"--redis={own.url()}")
    c = d.client()
    equal(c.call("PUT", "/v1/queues/number", {"mode": "pull", "lanes": 1})[0], 201)
    slot = keyslot(first, "number", 0)

    def join(env=None):
        node = Node(*stay, env=env)
        node.run("CLUSTER", "MEET", "127.0.0.1", first.port, first.bus)
        own.nodes.append(node)
        own.wait()
        # The nodes tell each other about a new one.
        wait_until(lambda: all(node.id in n.run("CLUSTER", "NODES").decode() for n in own.nodes))
        own.migrate(slot, node, 0)
        equal(c.call("PUT", "/v1/queues/number/tasks/x", {"in": "1h"})[0] // 100, 2)
        wait_until(lambda: f":{node.port}\"}} 1" in c.raw("GET", "/metrics")[2])
        return node
    old = join(shifted_clock(3600))
    wait_until(lambda: d.metric("clock_skew_seconds") > 3000)
    own.migrate(slot, first, 0)
    # The daemon drops a node that had no slots for 10 s.
    wait_until(lambda: b"name=twheeld" not in old.run("CLIENT", "LIST"), 20)
    join()
    time.sleep(1.5)
    assert "clock was set" not in d.text(), d.text()
    assert abs(d.metric("clock_skew_seconds")) < 1 + spare() / 1000
    equal(d.end(), 0)
    own.end()


@test("D16: a cluster in which one node evicts is refused, and the reason names the policy")
def cluster_evicts():
    cl = cluster()
    bad = cl.masters()[-1]
    bad.run("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    d = Daemon(None, f"--redis={cl.url()}", wait=False)
    equal(d.process.wait(timeout=HANG), 1)
    assert "allkeys-lru" in d.text(), d.text()
    bad.run("CONFIG", "SET", "maxmemory-policy", "noeviction")
    equal(check(f"--redis={cl.url()}")[0], 0)


@test("cluster:// for a single server, or redis:// for a cluster, is refused with a plain reason")
def cluster_or_not():
    cl = cluster()
    own = Redis()
    port, = free_ports()
    own.ask("CONFIG", "SET", "port", str(port))
    for url, reason in ((f"cluster://127.0.0.1:{port}", "not a node of a cluster"),
                        (f"redis://127.0.0.1:{cl.nodes[0].port}", "use cluster:// in the URL")):
        status, said = check(f"--redis={url}")
        equal(status, 1, said)
        assert reason in said, said
    equal(check(f"--redis={cl.url()}")[0], 0)
    own.kill()


if __name__ == "__main__":
    run_all()
