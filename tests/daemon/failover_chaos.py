#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Redis masters are killed again and again while clients work.

  failover_chaos.py PROGRAM c3|c4 [SECONDS [SEED]]

c3 A master, a replica and three Sentinels.
c4 A cluster of three masters with a replica each. Between two kills, the slots of two lanes
move.

A master is killed, and comes back as a replica. Every other time its replica is stopped before
that, so that it misses writes and then takes over. A put is accepted only if a replica has it.
Every 2 s a daemon is killed too. siege.py has the clients and the judge. SECONDS is 20 by
default.
"""
import sys
import threading
import time

CASE = sys.argv.pop(2) if len(sys.argv) > 2 else ""

from cluster import Cluster  # noqa: E402
from pair import Pair  # noqa: E402
from rig import Daemon  # noqa: E402
from siege import Siege, arguments  # noqa: E402

LEASE = 6
LANES = 12
OPTIONS = (f"--lease={LEASE}s", "--max-lost=100", "--wait-replicas=1", "--wait-timeout=300ms")
# How long the replica misses writes before its master is killed, in seconds.
REPLICA_LAG = 0.4
RECOVERY_PAUSE = 1.0


def cut_off(master, replica):
    """Kill a master whose replica misses the last writes."""
    replica.stop()
    # Otherwise the socket would buffer what the replica misses.
    master.run("CLIENT", "KILL", "TYPE", "replica")
    time.sleep(REPLICA_LAG)
    master.kill()
    replica.go_on()


class SentinelCase:
    def __init__(self):
        self.pair = Pair(sentinels=3)
        self.url = self.pair.url()
        self.kills = 0

    def strike(self, siege):
        self.kills += 1
        victim = self.pair.master()
        with siege.outage(loses=range(LANES)):
            if self.kills % 2 == 0:
                cut_off(victim, self.pair.replica())
            self.pair.kill(victim)
        siege.stop.wait(RECOVERY_PAUSE)
        self.pair.restore(victim)
        siege.stop.wait(RECOVERY_PAUSE)

    def report(self):
        return f"{self.kills} failovers"


class ClusterCase:
    def __init__(self):
        self.cluster = Cluster(options=("--cluster-replica-validity-factor", "0"))
        self.url = self.cluster.url()
        self.kills = self.moves = 0

    def slot(self, lane):
        return self.cluster.masters()[0].run("CLUSTER", "KEYSLOT", f"tw:{{c/{lane}}}:due")

    def strike(self, siege):
        self.kills += 1
        victim = siege.chance.choice(self.cluster.victims())
        lanes = [n for n in range(LANES) if self.cluster.owner(self.slot(n)) is victim]
        with siege.outage(loses=lanes):
            if self.kills % 2 == 0:
                cut_off(victim, self.cluster.replica(victim))
            self.cluster.kill(victim)
        siege.stop.wait(RECOVERY_PAUSE / 2)
        victim.start()
        self.cluster.wait()
        for _ in range(2):
            if siege.stop.is_set():
                break
            slot = self.slot(siege.chance.randrange(LANES))
            source = self.cluster.owner(slot)
            others = [n for n in self.cluster.masters() if n is not source]
            self.cluster.migrate(slot, siege.chance.choice(others), 0.05, 0.005)
            self.moves += 1
            siege.stop.wait(0.2)

    def report(self):
        met = {e: sum(n.refused(e) for n in self.cluster.nodes if n.alive())
               for e in ("MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN")}
        return f"{self.kills} failovers, {self.moves} slots moved, {met}"


def attack(case):
    def go(siege):
        def daemons():
            while not siege.stop.wait(2):
                siege.kill_daemon(siege.chance.randrange(len(siege.daemons)))
        killer = threading.Thread(target=daemons)
        killer.start()
        try:
            while not siege.stop.wait(RECOVERY_PAUSE):
                case.strike(siege)
        finally:
            killer.join()
    return go


def main():
    if CASE not in ("c3", "c4"):
        sys.exit(__doc__)
    seconds, seed = arguments(20)
    case = SentinelCase() if CASE == "c3" else ClusterCase()
    siege = Siege(seed, LEASE, lambda *more: Daemon(None, f"--redis={case.url}", *OPTIONS, *more,
                                                    wait=False), lanes=LANES)
    good = siege.run(seconds, attack(case))
    print(f"{CASE}: {case.report()}", flush=True)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
