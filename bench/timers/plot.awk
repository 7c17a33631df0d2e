#!/usr/bin/awk -f
# SPDX-License-Identifier: GPL-2.0
#
# plot.awk -v picture=cost|more ROWS.tsv: rows of the bench as a picture, SVG.
#
#   cost   to move a timer later: one thread, and two threads
#   more   a request that ends at once, a heartbeat, an expiration
#
# Each panel is a dot plot on a logarithmic scale: names and values stand beside the dots,
# the best first. Ours are red. A panel without rows is left out. The background is
# transparent, and the text follows the reader's light or dark theme.

BEGIN {
	FS = "\t"
	row_height = 22
	panel_width = 400
	left = 140		# of the scale, within its panel
	scale_width = 190
	split("libtwheel=twheel table=twheel,_by_word wheel=own_wheel lazy=own_lazy_wheel " \
		"heap=binary_heap libev=libev libevent=libevent libuv=libuv timerfd=timerfd " \
		"tokio=Tokio go=Go", pairs, " ")
	for (i = 1; i in pairs; i++) {
		split(pairs[i], part, "=")
		gsub(/_/, " ", part[2])
		called[part[1]] = part[2]
	}
	if (picture == "cost") {
		panel("move one of 100,000 timers, ns", "move", 100000, 1, "random")
		panel("the same by two threads, of 10,000, ns", "rate_move", 10000, 2, "random")
	} else if (picture == "more") {
		panel("arm and disarm, beside 1,000,000, ns", "pair", 1000000, 1, "hot")
		panel("heartbeat, 100,000 connections, ns", "heartbeat", 100000, 1, "paced")
		panel("expire one of 100,000 in 1 s, ns", "expire_own", 100000, 1, "random")
	} else {
		print "plot.awk: -v picture=cost|more" >"/dev/stderr"
		failed = 1
		exit 2
	}
}

function panel(title, op, n, threads, pattern) {
	titles[++panels] = title
	of[op, n, threads, pattern] = panels
}

# All of these rows are of one machine, which the first comment names.
/^# .* processors?, / && !machine { machine = substr($0, 3) }

($1 == "native" || $1 == "here") && $11 != "no" && $7 > 0 {
	sub(/\/.*/, "", $6)
	p = of[$2, $4, $5, $6]
	# Of timerfds there are as many as the process may have.
	if (!p && $3 ~ /^(timerfd|none)$/ && $2 ~ /^(heartbeat|expire_own)$/ && $5 == 1)
		p = of[$2, 100000, $5, $6]
	if (!p)
		next
	ns = $8 == "us" ? $7 * 1000 : $7
	# A rate is of all threads, in millions a second.
	if ($8 == "Mop/s")
		ns = $5 * 1000 / $7
	backend = $3
	behind = sub(/\+mutex$/, "", backend)
	# With threads, what needs a mutex is shown with it; ours is shown without.
	if ($3 == "none")
		none[p, $4] = ns
	else if (backend in called && behind == ($5 > 1 && backend !~ /^(libtwheel|table|timerfd)$/)) {
		value[p, backend] = ns
		number[p, backend] = $4
		mutex[p, backend] = behind
	}
}

# Three digits, and a comma from 1,000 on.
function shown(ns,   s) {
	s = ns < 10 ? sprintf("%.1f", ns) : sprintf("%.0f", ns)
	return length(s) > 3 && s !~ /\./ ? substr(s, 1, length(s) - 3) "," substr(s, length(s) - 2) : s
}

function text(x, y, class, s) {
	gsub(/&/, "\\&amp;", s)
	printf "<text x=\"%d\" y=\"%d\" class=\"%s\">%s</text>\n", x, y, class, s
}

END {
	if (failed)
		exit 2
	for (p = 1; p <= panels; p++) {
		count[p] = 0
		for (b in called) {
			if (!((p, b) in value))
				continue
			# Less what the generator of the heartbeats takes.
			value[p, b] -= none[p, number[p, b]]
			# By insertion: there are nine at most.
			for (i = ++count[p]; i > 1 && value[p, order[p, i - 1]] > value[p, b]; i--)
				order[p, i] = order[p, i - 1]
			order[p, i] = b
		}
		if (count[p])
			drawn++
		if (count[p] > rows)
			rows = count[p]
	}
	if (!drawn)
		exit 1
	height = 60 + rows * row_height
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\">\n", drawn * panel_width, height
	print "<style>text{font:13px sans-serif;fill:#24292f}.e{text-anchor:end}.u{font-weight:bold;fill:#d62728}"
	print ".t{font-weight:bold}.s{font-size:10px;fill:#777}.e.u{text-anchor:end}"
	print "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.u{fill:#ff6b6b}.s{fill:#999}}</style>"
	x = 0
	for (p = 1; p <= panels; p++) {
		if (!count[p])
			continue
		low = log(value[p, order[p, 1]])
		high = log(value[p, order[p, count[p]]])
		text(x + 8, 20, "t", titles[p])
		for (i = 1; i <= count[p]; i++) {
			b = order[p, i]
			us = b ~ /^(libtwheel|table)$/
			y = 26 + i * row_height
			at = x + left + (high > low ? (log(value[p, b]) - low) / (high - low) * scale_width : 0)
			text(x + left - 10, y, us ? "e u" : "e", called[b] (mutex[p, b] ? " + mutex" : ""))
			printf "<path d=\"M%d %dh%d\" stroke=\"#888\" stroke-opacity=\".3\"/>\n", x + left, y - 4, at - x - left
			printf "<circle cx=\"%d\" cy=\"%d\" r=\"5\" fill=\"%s\"/>\n", at, y - 4, us ? "#d62728" : "#7f7f7f"
			text(at + 10, y, us ? "u" : "v", shown(value[p, b]))
		}
		x += panel_width
	}
	text(8, height - 8, "s", "logarithmic scale; " machine)
	print "</svg>"
}
