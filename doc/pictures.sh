#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# doc/pictures.sh [--check]: draws the pictures of the documents that follow from other files here.
#
#   timeline.svg    one timeout of 30 s on a time axis, from the heartbeats in "beats"
#   syscalls.svg    heartbeats beside system calls, from the output of the demo in README.md
#   bench/cost.svg  what it costs to move a timer, from the better rows of bench/rows.tsv and rows2.tsv
#   bench/more.svg  other operations, from the same rows
#
# With --check, this writes nothing, and exits with status 1 if a picture is out of date.

# The loop at the end calls the functions by the names of the pictures.
# shellcheck disable=SC2317

set -euo pipefail
export LC_ALL=C

cd "$(dirname "$0")/.."

# The text follows the reader's light or dark theme, and is large enough for a width of 380.
style='text{font:13px sans-serif;fill:#24292f}.b{font-weight:bold}.m{text-anchor:middle}.e{text-anchor:end}
.g{fill:#6e7781}.r{fill:#d62728}.k{fill:#0969da}.rl{stroke:#d62728;fill:none}.kl{stroke:#0969da;fill:none}
.ax{stroke:#8c959f;fill:none}.box{fill:#d62728;fill-opacity:.12;stroke:#d62728}
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.g{fill:#8b949e}.r{fill:#ff7b72}.k{fill:#58a6ff}
.rl{stroke:#ff7b72}.kl{stroke:#58a6ff}.box{fill:#ff7b72;fill-opacity:.18;stroke:#ff7b72}}'

# When the server hears from its client, in seconds. The first time, it adds the timer.
beats='0 9 17 26'

timeline() {
	awk -v style="$style" -v beats="$beats" -v timeout=30 '
		function x(t) { return 12 + t * 376 / 60 }
		function text(at, y, class, s) {
			printf "<text x=\"%d\" y=\"%d\" class=\"%s\">%s</text>\n", at, y, class, s
		}
		function line(d, class, dashes) {
			printf "<path d=\"%s\" class=\"%s\"%s/>\n", d, class,
				dashes ? " stroke-dasharray=\"" dashes "\"" : ""
		}
		function dot(t, y, class) {
			printf "<circle cx=\"%d\" cy=\"%d\" r=\"5\" class=\"%s\"/>\n", x(t), y, class
		}
		BEGIN {
			n = split(beats, beat, " ")
			due = beat[n] + timeout
			print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 400 292\">"
			print "<title>A timeout of " timeout " s: heartbeats change a word in memory, and " \
				"the kernel looks at it only when the old deadline comes</title>"
			print "<style>" style "</style>"

			text(8, 16, "b", "your server")
			line("M12 36H388", "ax")
			for (i = 1; i <= n; i++) {
				dot(beat[i], 36, "r")
				line(sprintf("M%d 42V72", x(beat[i])), "rl", "2 3")
			}
			text(x(beat[1]) + 5, 58, "", "add")
			text(x(beat[n]) + 8, 58, "", (n - 1) " heartbeats: no system call")
			text(x(43), 28, "m g", "silence")

			for (i = 1; i <= n; i++) {
				until = i < n ? beat[i + 1] : due
				printf "<rect x=\"%d\" y=\"72\" width=\"%d\" height=\"24\" rx=\"3\" class=\"box\"/>\n",
					x(beat[i]), x(until) - x(beat[i]) - 2
				text(x((beat[i] + until) / 2), 89, "m", beat[i] + timeout " s")
			}
			text(8, 114, "b", "deadline")
			text(80, 114, "g", "a shared word")

			look = beat[1] + timeout
			line(sprintf("M%d 150V100", x(look)), "kl")
			line(sprintf("M%d 150V100", x(due)), "kl")
			line(sprintf("M%d 153Q%d 122 %d 153", x(look) + 5, x((look + due) / 2), x(due) - 5),
				"kl", "4 3")
			line("M12 156H388", "ax")
			dot(look, 156, "k")
			dot(due, 156, "k")
			text(8, 148, "b", "kernel")
			text(x(look), 178, "m", "looks once: moved to " due " s")
			text(x(due), 178, "m", "due")

			line(sprintf("M%d 184V212", x(due)), "kl")
			line("M12 218H388", "ax")
			dot(due, 218, "r")
			text(8, 210, "b", "reader")
			text(x(due) - 8, 240, "e", "an event, even if the server hangs")

			line("M12 254H388", "ax")
			for (i = 0; i <= 60; i += 10) {
				line(sprintf("M%d 254v5", x(i)), "ax")
				text(x(i), 274, i == 60 ? "e g" : "m g", i " s")
			}
			print "</svg>"
		}'
}

syscalls() {
	awk -v style="$style" '
		function commas(n) {
			return n >= 1000 ? int(n / 1000) "," sprintf("%03d", n % 1000) : n
		}
		/^server: [0-9]+ heartbeats/ { heartbeats = $2 }
		/^server: [0-9]+ system calls/ { calls = $2 }
		/^[0-9]+ connections,/ { connections = $1 }
		END {
			if (!heartbeats || !calls || !connections)
				exit 1
			print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 400 112\">"
			print "<title>System calls to set timers for " commas(heartbeats) " heartbeats of " \
				commas(connections) " connections: " commas(heartbeats) \
				" with a timerfd for each, " calls " with twheel</title>"
			print "<style>" style "</style>"
			print "<text x=\"8\" y=\"18\" class=\"b\">system calls to set timers, " commas(heartbeats) \
				" heartbeats</text>"
			print "<text x=\"60\" y=\"48\" class=\"e\">timerfd</text>"
			print "<rect x=\"68\" y=\"34\" width=\"270\" height=\"18\" rx=\"2\" fill=\"#8c959f\"/>"
			print "<text x=\"344\" y=\"48\">" commas(heartbeats) "</text>"
			print "<text x=\"60\" y=\"78\" class=\"e b\">twheel</text>"
			printf "<rect x=\"68\" y=\"64\" width=\"%.1f\" height=\"18\" class=\"r\"/>\n",
				270 * calls / heartbeats
			print "<text x=\"76\" y=\"78\" class=\"b\">" calls "</text>"
			print "<text x=\"8\" y=\"104\" class=\"g\">twheel counted in make demo; timerfd: one a heartbeat</text>"
			print "</svg>"
		}' README.md
}

cost() {
	bench/timers/better.awk doc/bench/rows.tsv doc/bench/rows2.tsv |
		bench/timers/plot.awk -v picture=cost -
}

more() {
	bench/timers/better.awk doc/bench/rows.tsv doc/bench/rows2.tsv |
		bench/timers/plot.awk -v picture=more -
}

status=0
for picture in timeline syscalls bench/cost bench/more; do
	if [ "${1-}" = --check ]; then
		"${picture##*/}" | cmp -s - "doc/$picture.svg" || {
			echo "doc/$picture.svg is out of date: run doc/pictures.sh"
			status=1
		}
	else
		"${picture##*/}" >"doc/$picture.svg"
	fi
done
exit $status
