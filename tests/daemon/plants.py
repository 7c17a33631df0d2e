# SPDX-License-Identifier: GPL-2.0
"""C5: bugs to plant. Tests that do not notice them prove nothing.

SCRIPTS: name of the bug -> (file, old text, new text) of the scripts.
WORKER: names of bugs in the workers of chaos.py.
"""
SCRIPTS = {
    "no-run": (("take", "redis.call('ZADD', RUN, unpack(ends))", ""),),
    "take-early": (("take", "DUE, '-inf', now + ahead,", "DUE, '-inf', now + ahead + 3,"),),
    "put-seconds": (("put", "set_due[n] = due, id", "set_due[n] = ms - ms % 1000, id"),
                    ("put", "version, ms, ms)", "version, ms - ms % 1000, ms - ms % 1000)")),
    "no-token": (("ack", " or h.token ~= token or h.holder ~= holder", ""),),
    "cancel-keeps-due": (("change", "\t\tremove(id, h)\n",
                          "\t\tif state ~= SCHEDULED then remove(id, h) end\n"),),
    "old-body": (("put", "set_bodies[n] = id, body",
                  "set_bodies[n] = id, redis.call('HGET', BODY, id) or body"),),
    "recover-forgets": (("recover", "schedule(id, h, h.due)", "leave(id, h) set(id, h)"),),
    "late-ignored": (("take", "elseif is_late(h) then", "elseif false then"),),
    "broken-header-stops": (("prelude", "#s ~= HEADER_SIZE or string.byte(s, 1) ~= 1 or "
                             "string.byte(s, 2) > BURIED", "false"),),
}
WORKER = ("no-lease-check",)
