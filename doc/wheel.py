#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0
"""Draws doc/wheel.svg, a wheel whose timers fall down the levels until they expire.

The frames are what "twheelctl wheel --json" prints. To draw it anew:

    TWHEEL_BACKEND=inprocess build/user/twheelctl wheel --json --interval=100ms \\
        $(seq -f '--add=%gms' 150 97 6000) --add=5s,slack=500ms,count=20 | doc/wheel.py >doc/wheel.svg
"""
import json
import sys

LEVELS = 3                      # the others hold what is due in minutes
CELL, ROW, LEFT, TOP = 4.7, 46, 88, 34
HEIGHT = LEVELS * ROW
COUNTED = 8                     # timers that fill a cell

STYLE = """text{font:12px sans-serif;fill:#24292f}.b{font-weight:bold}.g{fill:#6e7781}
.c{fill:#d62728}.n{stroke:#0969da;stroke-width:1.5}.ax{stroke:#8c959f;fill:none}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.g{fill:#8b949e}.c{fill:#ff7b72}.n{stroke:#58a6ff}}"""


def duration(ns):
    for unit, size in (("s", 1e9), ("ms", 1e6)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns / 1e3:.3g} us"


def frame(record, at):
    """The cells of a record, the buckets that the wheel has reached, and what is armed."""
    out = []
    for n, level in enumerate(record["levels"][:LEVELS]):
        base = at + n * ROW + 34
        cells = "".join(
            f"M{LEFT + c['bucket'] * CELL:.1f} {base}h3.7v-{4 + 22 * min(c['timers'], COUNTED) / COUNTED:.0f}h-3.7z"
            for c in level["occupied"])
        if cells:
            out.append(f'<path class="c" d="{cells}"/>')
        x = LEFT + level["cursor"] * CELL + 1.8
        out.append(f'<path class="n" d="M{x:.1f} {base + 2}v5"/>')
    out.append(f'<text x="388" y="{at + 8}" text-anchor="end">{record["armed"]} armed</text>')
    return "".join(out)


def main():
    records = [json.loads(line) for line in sys.stdin]
    records = [r for r in records if r["type"] == "wheel"]
    step = (records[-1]["now_ns"] - records[0]["now_ns"]) / (len(records) - 1) / 1e9
    shift = HEIGHT + 20
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 400 {TOP + HEIGHT + 8}">')
    print("<title>A timing wheel: timers fall from a coarse level to a finer one, and expire at the finest</title>")
    print(f"<style>{STYLE}</style>")
    print('<text x="8" y="18" class="b">a wheel with timers of up to 6 s</text>')
    for n, level in enumerate(records[0]["levels"][:LEVELS]):
        y = TOP + n * ROW
        print(f'<text x="8" y="{y + 22}">level {n}</text>')
        print(f'<text x="8" y="{y + 37}" class="g">{duration(int(level["bucket_ns"]))} each</text>')
        print(f'<path class="ax" d="M{LEFT} {y + 35}H{LEFT + 64 * CELL:.0f}"/>')
    print(f'<svg y="{TOP}" width="400" height="{HEIGHT}" overflow="hidden"><g>')
    values = ";".join(f"0 {-i * shift}" for i in range(len(records)))
    print(f'<animateTransform attributeName="transform" type="translate" calcMode="discrete" '
          f'dur="{step * len(records):.1f}s" repeatCount="indefinite" values="{values}"/>')
    for i, record in enumerate(records):
        print(frame(record, i * shift))
    print("</g></svg>\n</svg>")


main()
