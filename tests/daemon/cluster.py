# SPDX-License-Identifier: GPL-2.0
"""A Redis cluster on loopback: masters with replicas, kills, and slots that move."""
import time

from rig import Redis, free_ports, wait_until

NODE_TIMEOUT = 1000


class Node(Redis):
    def __init__(self, *options, env=None):
        self.port, bus = free_ports(2)
        super().__init__("--port", str(self.port), "--bind", "127.0.0.1", "--cluster-enabled",
                         "yes", "--cluster-port", str(bus), "--cluster-node-timeout",
                         str(NODE_TIMEOUT), "--repl-diskless-sync-delay", "0",
                         "--repl-ping-replica-period", "1", *options, env=env)
        self.bus = bus
        self.id = self.run("CLUSTER", "MYID").decode()

    def info(self, section, name):
        """Return: a value from INFO, or an empty text."""
        for line in self.run("INFO", section).decode().splitlines():
            key, _, value = line.partition(":")
            if key == name:
                return value
        return ""

    def refused(self, error):
        """Return: how often the node answered with this error."""
        text = self.info("errorstats", f"errorstat_{error}")
        return int(text.partition("=")[2] or 0)


class Cluster:
    def __init__(self, masters=3, replicas=3, options=(), envs=None):
        count = masters + replicas
        envs = envs or [None] * count
        self.nodes = [Node(*options, env=envs[i]) for i in range(count)]
        first = self.nodes[0]
        for n in self.nodes[1:]:
            n.run("CLUSTER", "MEET", "127.0.0.1", first.port, first.bus)
        for i, n in enumerate(self.nodes[:masters]):
            n.run("CLUSTER", "ADDSLOTSRANGE", 16384 * i // masters,
                  16384 * (i + 1) // masters - 1)
        wait_until(lambda: all(len(n.run("CLUSTER", "NODES").splitlines()) == count
                               for n in self.nodes), 20)
        for i, n in enumerate(self.nodes[masters:]):
            # The replica must have heard of its master first.
            wait_until(lambda n=n, i=i: self.nodes[i].id in n.run("CLUSTER", "NODES").decode())
            n.run("CLUSTER", "REPLICATE", self.nodes[i].id)
        self.wait()

    def url(self, nodes=None):
        return "cluster://" + ",".join(f"127.0.0.1:{n.port}" for n in nodes or self.nodes)

    def wait(self):
        """Wait until all live nodes agree, and each master has a replica that is up to date."""
        def good():
            alive = [n for n in self.nodes if n.alive()]
            return (all(n.info("server", "redis_mode") == "cluster" and
                        b"cluster_state:ok" in n.run("CLUSTER", "INFO") for n in alive) and
                    all(n.info("replication", "master_link_status") == "up"
                        for n in alive if n.info("replication", "role") == "slave"))
        wait_until(good, step=0.05)

    def masters(self):
        return [n for n in self.nodes if n.alive() and n.info("replication", "role") == "master"]

    def owner(self, slot):
        for first, last, node, *_ in self.masters()[0].run("CLUSTER", "SLOTS"):
            if first <= slot <= last:
                return next(n for n in self.nodes if n.port == node[1])
        return None

    def migrate(self, slot, to, pause=0.2, step=0.0, then=None):
        """Move a slot, key by key. For `pause` seconds its commands get ASK and TRYAGAIN.
        then: called when all keys have moved, before the slot is assigned."""
        source = self.owner(slot)
        to.run("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.run("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id)
        time.sleep(pause)
        while True:
            keys = source.run("CLUSTER", "GETKEYSINSLOT", slot, 1)
            if not keys:
                break
            source.run("MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS", *keys)
            time.sleep(step)
        if then:
            then()
        for n in (to, source, *(n for n in self.masters() if n not in (to, source))):
            n.run("CLUSTER", "SETSLOT", slot, "NODE", to.id)

    def victims(self):
        """Return: masters that have slots and a replica."""
        return [n for n in self.masters() if n.info("replication", "connected_slaves") != "0"
                and any(s[2][1] == n.port for s in n.run("CLUSTER", "SLOTS"))]

    def replica(self, master):
        return next(n for n in self.nodes if n.alive() and
                    n.info("replication", "master_port") == str(master.port))

    def kill(self, victim):
        """Kill a master. Return: the master, once another node has its slots."""
        others = [n for n in self.nodes if n is not victim and n.alive()]
        if victim.alive():
            victim.kill()
        wait_until(lambda: all(b"cluster_state:ok" in n.run("CLUSTER", "INFO") and
                               all(s[2][1] != victim.port for s in n.run("CLUSTER", "SLOTS"))
                               for n in others), step=0.05)
        return victim

    def end(self):
        for n in self.nodes:
            if n.alive():
                n.kill()
