#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""Four daemons are killed and stopped while clients and schedules work.

  daemon_chaos.py PROGRAM [SECONDS [SEED]]

Every 0.7 s a daemon is killed and restarted, and every 9 s one is stopped past its leases.
Every 8 s Redis is killed, whose AOF is synced always or every second, at random. siege.py has
the clients and the judge. SECONDS is 30 by default.
"""
import sys
import time

from rig import Daemon, Redis
from siege import Siege, arguments

LEASE = 6
LANES = 12
OPTIONS = (f"--lease={LEASE}s", "--max-lost=100")


def written(redis):
    """Return: whether the AOF contains all that was answered. With everysec, Redis answers
    before it writes while an fsync takes long, and the fsync thread may wait for a busy
    processor."""
    info = redis.run("INFO", "persistence").decode()
    return "aof_pending_bio_fsync:0" in info and "aof_buffer_length:0" in info


def kill_redis(siege, redis):
    # Nothing is lost, because a killed process keeps what it has written, synced or not.
    with siege.outage():
        end = time.monotonic() + 5
        while not written(redis) and time.monotonic() < end:
            pass
        redis.kill()
        time.sleep(0.2)
        redis.start()
        redis.run("CONFIG", "SET", "appendfsync", siege.chance.choice(("always", "everysec")))


def attack(redis):
    def go(siege):
        last_redis = last_stop = time.monotonic()
        stopped, until = None, 0
        while not siege.stop.wait(0.7):
            now = time.monotonic()
            if stopped and now > until:
                siege.go_on(stopped)
                stopped = None
            n = siege.chance.randrange(len(siege.daemons))
            if stopped and siege.daemons[n] is stopped.daemon:
                continue
            if now - last_stop > 9 and not stopped:
                last_stop, until = now, now + LEASE + 1
                stopped = siege.stop_daemon(n)
            elif now - last_redis > 8:
                last_redis = now
                kill_redis(siege, redis)
            else:
                siege.kill_daemon(n)
        if stopped:
            siege.go_on(stopped)
    return go


def main():
    redis = Redis("--appendfsync", "always")
    siege = Siege(seed=arguments()[1], lease=LEASE,
                  start=lambda *more: Daemon(redis, *OPTIONS, *more, wait=False), lanes=LANES,
                  schedules=True)
    sys.exit(0 if siege.run(arguments()[0], attack(redis)) else 1)


if __name__ == "__main__":
    main()
