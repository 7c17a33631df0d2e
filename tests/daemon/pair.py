# SPDX-License-Identifier: GPL-2.0
"""A master, a replica and Sentinels on loopback."""
import os
import subprocess

import resp
from rig import Redis, dir_, free_ports, started, wait_until

DOWN_AFTER = 500


class Server(Redis):
    """A Redis with a port, to which Sentinel may assign replicas."""

    def __init__(self, *options):
        self.port, = free_ports()
        super().__init__("--port", str(self.port), "--bind", "127.0.0.1",
                         "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1",
                         "--replica-announce-port", str(self.port), *options)

    def follow(self, port):
        self.run("REPLICAOF", "127.0.0.1", port)

    def role(self):
        return self.run("ROLE")[0].decode()

    def replicas(self):
        """Return: the number of replicas that are up to date."""
        return (self.ask("INFO", "replication") or "").count("state=online")


class Sentinels:
    """lines: added to their configuration. secret: user and password. port_key: port or
    tls-port."""

    def __init__(self, master, count=1, lines="", secret=None, port_key="port"):
        self.secret = secret
        self.ports = free_ports(count)
        self.name = f"main{master.port}"
        for port in self.ports:
            conf = os.path.join(dir_, f"sentinel{port}.conf")
            with open(conf, "w") as f:
                f.write(f"{port_key} {port}\nbind 127.0.0.1\ndir {dir_}\n"
                        f"sentinel monitor {self.name} 127.0.0.1 {master.port} {count // 2 + 1}\n"
                        f"sentinel down-after-milliseconds {self.name} {DOWN_AFTER}\n"
                        f"sentinel failover-timeout {self.name} 3000\n{lines}")
            self.start(conf)

    def start(self, conf):
        p = subprocess.Popen(["redis-server", conf, "--sentinel"], stdout=subprocess.DEVNULL)
        started.append(p)

    def run(self, *words, at=0):
        link = resp.Redis(("127.0.0.1", self.ports[at]))
        try:
            if self.secret:
                link.ask("AUTH", *self.secret)
            return link.ask(*words)
        finally:
            link.close()

    def wait_for_replica(self):
        """Wait until each Sentinel knows a live replica."""
        def known(at):
            try:
                fields = [dict(zip(r[::2], r[1::2]))
                          for r in self.run("SENTINEL", "REPLICAS", self.name, at=at)]
            except (OSError, resp.Error):
                return False
            return any(f[b"flags"] == b"slave" and f[b"master-link-status"] == b"ok"
                       for f in fields)
        for at in range(len(self.ports)):
            wait_until(lambda at=at: known(at))

    def url(self):
        return ("sentinel://127.0.0.1:1," + ",".join(f"127.0.0.1:{p}" for p in self.ports) +
                f"/{self.name}")


class Pair:
    def __init__(self, *options, sentinels=1, lines="", secret=None):
        self.servers = [Server(*options) for _ in range(2)]
        self.servers[1].follow(self.servers[0].port)
        wait_until(lambda: self.servers[0].replicas() == 1, 20)
        self.sentinels = Sentinels(self.servers[0], sentinels, lines, secret)
        self.sentinels.wait_for_replica()

    def url(self):
        return self.sentinels.url()

    def master(self):
        """Return: the master that Sentinel names."""
        _, port = self.sentinels.run("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.sentinels.name)
        return next(s for s in self.servers if s.port == int(port))

    def replica(self):
        return next(s for s in self.servers if s is not self.master())

    def kill_master(self):
        """Return: the dead master, once another server is the master."""
        return self.kill(self.master())

    def kill(self, victim):
        if victim.alive():
            victim.kill()
        wait_until(lambda: self.master() is not victim and self.master().role() == "master")
        return victim

    def restore(self, victim):
        """Restart the dead server as a replica at once. Sentinel would do that only after 8 s."""
        if not victim.alive():
            victim.start()
        victim.follow(self.master().port)
        wait_until(lambda: self.master().replicas() == 1)
        self.sentinels.wait_for_replica()

    def end(self):
        for s in self.servers:
            if s.alive():
                s.kill()
