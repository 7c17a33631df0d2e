#!/usr/bin/awk -f
# SPDX-License-Identifier: GPL-2.0
#
# plot.awk -v picture=cost|more ROWS.tsv: draws rows of the bench as a picture, in SVG.
#
#   cost   moving one of 100,000 timers by one thread, and one of 10,000 by two
#   more   a request that ends at once, a heartbeat, an expiration, of 100,000 timers
#
# Each panel is a dot plot, with the cheapest backend first and twheel in red. All panels of a
# picture stand above each other on one logarithmic axis. A panel without rows is left out. The
# picture is 400 wide, which can be read on a phone. The background is transparent, and the text
# follows the reader's light or dark theme.

BEGIN {
	FS = "\t"
	row_height = 20
	left = 106		# where the axis begins
	axis_width = 236	# the rest is for the value beside the last dot
	nr_backends = split("libtwheel=twheel wheel=private_wheel lazy=lazy_wheel libev=libev " \
		"libevent=libevent libuv=libuv timerfd=timerfd tokio=Tokio go=Go", pairs, " ")
	for (i = 1; i <= nr_backends; i++) {
		split(pairs[i], part, "=")
		gsub(/_/, " ", part[2])
		backends[i] = part[1]
		called[part[1]] = part[2]
	}
	if (picture == "cost") {
		heading = "ns to move a timer later"
		panel("one of 100,000, by one thread", "move", 100000, 1, "random")
		panel("one of 10,000, by two threads at once", "rate_move", 10000, 2, "random")
		note("two threads: wall time, and a mutex around all but")
		note("twheel and timerfd")
	} else if (picture == "more") {
		heading = "ns of CPU time, with 100,000 timers"
		panel("arm and disarm at once", "pair", 100000, 1, "hot")
		panel("heartbeat of a connection", "heartbeat", 100000, 1, "paced")
		panel("expire, all of them within 1 s", "expire_own", 100000, 1, "random")
	} else {
		print "usage: plot.awk -v picture=cost|more ROWS.tsv" >"/dev/stderr"
		failed = 1
		exit 2
	}
}

function panel(title, op, n, threads, pattern) {
	titles[++panels] = title
	panel_of[op, n, threads, pattern] = panels
}

function note(line) {
	notes[++nr_notes] = line
}

# The rows that are drawn are of one machine, which the first comment names.
/^# .* processors?, / && !machine { machine = substr($0, 3) }

($1 == "native" || $1 == "here") && $11 != "no" && $7 > 0 {
	sub(/\/.*/, "", $6)
	p = panel_of[$2, $4, $5, $6]
	# There are as many timerfds as the process may have descriptors, so their number differs.
	if (!p && $3 ~ /^(timerfd|none)$/ && $2 ~ /^(heartbeat|expire_own)$/ && $5 == 1) {
		p = panel_of[$2, 100000, $5, $6]
		if (p && $3 == "timerfd")
			fewer = $4
	}
	if (!p)
		next
	ns = $8 == "us" ? $7 * 1000 : $7
	# A rate counts the operations of all threads, in millions a second.
	if ($8 == "Mop/s")
		ns = $5 * 1000 / $7
	backend = $3
	behind = sub(/\+mutex$/, "", backend)
	# With several threads, the rows of backends that need a mutex are those with one.
	if ($3 == "none")
		none[p, $4] = ns
	else if (backend in called && behind == ($5 > 1 && backend !~ /^(libtwheel|timerfd)$/)) {
		value[p, backend] = ns
		number[p, backend] = $4
	}
}

function commas(n) {
	return n >= 1000 ? int(n / 1000) "," sprintf("%03d", n % 1000) : n
}

# Three digits, or all of a larger number.
function shown(ns) {
	return ns < 10 ? sprintf("%.1f", ns) : commas(int(ns + .5))
}

function log10(number) {
	return log(number) / log(10)
}

function place(ns) {
	return left + (log10(ns) - low) / (high - low) * axis_width
}

function text(x, y, class, s) {
	gsub(/&/, "\\&amp;", s)
	printf "<text x=\"%d\" y=\"%d\"%s>%s</text>\n", x, y, class ? " class=\"" class "\"" : "", s
}

# The panels with their rows in order, and the decades that the axis must cover.
function arrange(   p, i, k, b) {
	low = 0
	high = 3
	for (p = 1; p <= panels; p++) {
		count[p] = 0
		for (k = 1; k <= nr_backends; k++) {
			b = backends[k]
			if (!((p, b) in value))
				continue
			# The generator of the heartbeats is not part of their cost.
			value[p, b] -= none[p, number[p, b]]
			# Insertion sort: there are nine of them at most.
			for (i = ++count[p]; i > 1 && value[p, order[p, i - 1]] > value[p, b]; i--)
				order[p, i] = order[p, i - 1]
			order[p, i] = b
			while (log10(value[p, b]) < low)
				low--
			if (log10(value[p, b]) > high)
				high = log10(value[p, b])
		}
		if (count[p])
			drawn++
		rows += count[p]
	}
}

# draw_row P I Y: one backend: its name, a dot on the axis, and the value beside it.
function draw_row(p, i, y,   b, ours, at) {
	b = order[p, i]
	ours = b == "libtwheel"
	at = place(value[p, b])
	text(left - 10, y, ours ? "e u" : "e", called[b])
	printf "<path d=\"M%d %dH%d\" class=\"row\"/>\n", left, y - 4, at
	printf "<circle cx=\"%d\" cy=\"%d\" r=\"5\" class=\"%s\"/>\n", at, y - 4, ours ? "u" : "d"
	text(at + 9, y, ours ? "u" : "", shown(value[p, b]))
}

# Prints the values as the title of the picture, which screen readers read.
function draw_title(   p, i) {
	printf "<title>%s", heading
	for (p = 1; p <= panels; p++)
		for (i = 1; i <= count[p]; i++)
			printf "%s %s %s", i == 1 ? "; " titles[p] ":" : ",", called[order[p, i]],
				shown(value[p, order[p, i]])
	print "</title>"
}

END {
	if (failed)
		exit 2
	arrange()
	if (!drawn)
		exit 1
	if (fewer)
		note("heartbeats and expirations of timerfd: " commas(fewer) " timers")
	note(machine)

	bottom = 30 + drawn * 30 + rows * row_height
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 400 %d\">\n",
		bottom + 30 + nr_notes * 16
	draw_title()
	print "<style>text{font:13px sans-serif;fill:#24292f}.b,.u{font-weight:bold}.m{text-anchor:middle}"
	print ".e{text-anchor:end}.g{fill:#6e7781;font-size:12px}.u{fill:#d62728}.d{fill:#8c959f}"
	print ".row,.tick{stroke:#8c959f;stroke-opacity:.4;fill:none}.row{stroke-dasharray:1 3}"
	print "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.g{fill:#8b949e}.u{fill:#ff7b72}}</style>"
	text(8, 18, "b", heading)
	y = 30
	for (p = 1; p <= panels; p++) {
		if (!count[p])
			continue
		y += 18
		text(8, y, "b", titles[p])
		for (k = low; k <= high; k++)
			printf "<path d=\"M%d %dv%d\" class=\"tick\"/>\n", place(10 ^ k), y + 6,
				count[p] * row_height + 6
		for (i = 1; i <= count[p]; i++)
			draw_row(p, i, y += row_height)
		y += 12
	}
	text(left - 20, bottom + 16, "e g", "ns")
	for (k = low; k <= high; k++)
		text(place(10 ^ k), bottom + 16, "m g", commas(10 ^ k))
	for (i = 1; i <= nr_notes; i++)
		text(8, bottom + 20 + i * 16, "g", notes[i])
	print "</svg>"
}
