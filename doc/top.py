#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Draws doc/top.svg: the server of the demo, and "twheelctl top" in another terminal.

A frame shows what both have printed up to a second of a real run in the VM. To draw it anew:

    make userspace
    vm/run.sh --name top --exact --bin build/user/idle_server --bin build/user/twheelctl -- \\
        sh -c 'twheelctl top -n 12 | cat & idle_server --demo; wait' | doc/top.py >doc/top.svg
"""
import re
import sys

LINES = 4                       # of the server that fit its terminal
LINE, LEFT = 17, 12
PROMPT, TABLE = 24, 44 + LINES * LINE
HEIGHT = TABLE + 3 * LINE + 2
# Of the table: the others name the wheel, or tell a lateness, which an emulator makes up.
COLUMNS = ("COMMAND", "ARMED", "UNREAD", "EXPIRED/S", "MOVED/S")

# A terminal is dark in both themes.
STYLE = """text{font:12px monospace;fill:#e6edf3;white-space:pre}.b{font-weight:bold}.g{fill:#8b949e}
.c{fill:#ff7b72}rect{fill:#0d1117;stroke:#8c959f}"""


def read(lines):
    """Returns the frames, each the server's lines so far and a row of top, and the columns."""
    server, frames, columns = [], [], []
    for line in lines:
        line = line.rstrip()
        if re.match(r" *\d+ s  open ", line):
            server.append(line)
        elif line.split()[:1] == ["WHEEL"]:
            columns = line.split()
        elif columns and "idle_server" in line.split() and server:
            frames.append((server[-LINES:], dict(zip(columns, line.split()))))
    return frames


def row(values):
    return "{:<12}{:>6}{:>8}{:>11}{:>9}".format(*values)


def text(y, what, kind=""):
    shown = what.replace("&", "&amp;").replace("<", "&lt;")
    cls = f' class="{kind}"' if kind else ""
    return f'<text x="{LEFT}" y="{y}"{cls} xml:space="preserve">{shown}</text>'


def main():
    frames = read(sys.stdin)
    if len(frames) < 3:
        sys.exit("top.py: the input needs at least three tables of twheelctl top that list idle_server")
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 400 {HEIGHT + 6}">')
    print("<title>A server counts heartbeats and kicks silent connections; beside it, twheelctl top shows how many "
          "timers of its wheel are armed, expire and are moved in each second</title>")
    print(f"<style>{STYLE}</style>")
    print(f'<rect x="4" y="4" width="392" height="{TABLE - 26}" rx="6"/>')
    print(f'<rect x="4" y="{TABLE - 16}" width="392" height="{HEIGHT - TABLE + 18}" rx="6"/>')
    print(text(PROMPT, "$ idle_server --demo", "g"))
    print(text(TABLE, "$ twheelctl top", "g"))
    print(text(TABLE + LINE, row(COLUMNS), "b"))
    print(f'<svg width="400" height="{HEIGHT}" overflow="hidden"><g>')
    values = ";".join(f"0 {-i * HEIGHT}" for i in range(len(frames)))
    print(f'<animateTransform attributeName="transform" type="translate" calcMode="discrete" '
          f'dur="{len(frames)}s" repeatCount="indefinite" values="{values}"/>')
    for i, (server, top) in enumerate(frames):
        at = i * HEIGHT
        for n, line in enumerate(server, 1):
            print(text(at + PROMPT + n * LINE, line))
        print(text(at + TABLE + 2 * LINE, row([top[c] for c in COLUMNS]), "c"))
    print("</g></svg>\n</svg>")


main()
