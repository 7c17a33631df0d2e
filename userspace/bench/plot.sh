#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# plot.sh ROWS... DIR: the rows as pictures, DIR/*.svg.
#
#   move.svg, cancel.svg   what it costs, by the number of timers
#   pair.svg               a request deadline: armed and disarmed at once
#   threads.svg            two threads on one wheel, or behind one mutex
#   expire.svg             expirations at random instants within a second
#   heartbeat.svg          connections that send heartbeats, all CPU time
#   core.svg               the wheel in the kernel, beside timer_list and hrtimer
#
# A picture that there are no rows for is not drawn.

set -euo pipefail
export LC_ALL=C

[ $# -ge 2 ] || {
	echo 'usage: plot.sh ROWS... DIR' >&2
	exit 2
}
out=${!#}
set -- "${@:1:$#-1}"
mkdir -p "$out"
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# rows WHERE OP THREADS PATTERN: backend, n, value and half of the spread of each.
rows() {
	awk -F'\t' -v where="$1" -v op="$2" -v threads="$3" -v pattern="$4" '
		index("," where ",", "," $1 ",") && $2 == op && $5 == threads &&
		$6 == pattern && $11 != "no" && $7 > 0 {
			print $3, $4, $7, $7 * $9 / 200
		}' "${files[@]}"
}

files=("$@")

# The machine, and what was measured on it, which a picture does not say by itself.
label=$(awk '
	/^# .* processors?, / && !machine { machine = substr($0, 3) }
	/^# [a-z]+: [-0-9]+, twheel / && !seen[$5]++ { commits = commits " " $5 }
	END { print machine (commits ? "; twheel" commits : "") }' "${files[@]}")
label=${label//[\"\\\`\$]/}

style='
	set terminal svg size 800,500 noenhanced font "sans,12" background "white"
	set grid ytics lc rgb "#dddddd"
	set border 3
	set tics nomirror
	set key outside right top
'"	set label 99 \"$label\" at screen 0.99, screen 0.98 right font ',9' tc rgb '#777777'
"

# Who is to be seen first: ours, then the others.
order='exchange table libtwheel libtwheel-timeout twheel core timers timer_list hrtimer lazy wheel
	lazy+mutex wheel+mutex heap heap+mutex libev libev+mutex libevent libevent+mutex libuv
	libuv+mutex timerfd posix io_uring'

# A colour each; what is ours is drawn thick.
colours=('#777777' '#d01c1c' '#1f77b4' '#17becf' '#2ca02c' '#9467bd' '#8c564b' '#e377c2'
	'#bcbd22' '#ff7f0e' '#111111' '#98df8a')
ours='libtwheel twheel core'

is_ours() {
	case " $ours " in
	*" $1 "*) return 0 ;;
	esac
	return 1
}

# curves NAME TITLE WHERE OP PATTERN BACKEND...: cost by the number of timers.
curves() {
	local name=$1 title=$2 backend width colour nr=0 plots=()

	rows "$3" "$4" 1 "$5" >"$tmp/$name"
	for backend in "${@:6}"; do
		colour=${colours[nr++ % ${#colours[@]}]}
		awk -v b="$backend" '$1 == b' "$tmp/$name" | sort -n -k2,2 >"$tmp/$name-$backend"
		[ -s "$tmp/$name-$backend" ] || continue
		width=1.5
		if is_ours "$backend"; then width=4; fi
		plots+=("'$tmp/$name-$backend' using 2:3 with linespoints lw $width \
			lc rgb '$colour' pt 7 ps 0.6 title '$backend'")
	done
	[ ${#plots[@]} -gt 0 ] || return 0
	gnuplot <<-EOF
		$style
		set output '$out/$name.svg'
		set title '$title'
		set logscale xy
		set xlabel 'timers'
		set ylabel 'ns of CPU'
		set format x '%.0f'
		set xtics (1000, 10000, 100000, 1000000, 10000000)
		set xrange [700:14000000]
		plot $(
			IFS=,
			echo "${plots[*]}"
		)
	EOF
}

# bars NAME TITLE YLABEL WHERE OP THREADS PATTERN N: the backends side by side.
bars() {
	local name=$1 backend

	rows "$4" "$5" "$6" "$7" | awk -v n="$8" '$2 == n' >"$tmp/all"
	for backend in $order; do
		awk -v b="$backend" -v ours="$(is_ours "$backend" && echo 1 || echo 0)" \
			'$1 == b { print $0, ours }' "$tmp/all" | tail -n 1
	done >"$tmp/$name"
	draw_bars "$1" "$2" "$3"
}

# beats NAME TITLE YLABEL: all heartbeats, less what the generator alone takes.
beats() {
	awk -F'\t' '$2 == "heartbeat" && $11 != "no" && ($1 == "native" || $1 == "here") {
		key = $3 " " $4 " " $5 " " $1
		value[key] = $7
		if (!(key in seen) && $3 != "none")
			order[++nr] = key
		seen[key] = 1
	}
	END {
		for (i = 1; i <= nr; i++) {
			split(order[i], part, " ")
			if (!(("none " part[2] " " part[3] " " part[4]) in seen))
				continue
			none = value["none " part[2] " " part[3] " " part[4]]
			many = ""
			if (part[3] > 1)
				many = ", " part[3] " threads"
			if (part[4] == "here")
				many = many ", here"
			printf("\"%s, %d%s\" %s %.4g 0 %d\n", part[1], part[2], many, part[2],
				value[order[i]] - none, part[1] == "libtwheel")
		}
	}' "${files[@]}" | sort -s -t, -k2,2n >"$tmp/$1"
	draw_bars "$1" "$2" "$3"
}

# draw_bars NAME TITLE YLABEL: of $tmp/NAME: backend, n, value, half of spread, ours
draw_bars() {
	local name=$1

	[ -s "$tmp/$name" ] || return 0
	gnuplot <<-EOF
		$style
		set output '$out/$name.svg'
		set title '$2'
		set ylabel '$3'
		set logscale y
		set style fill solid 0.7 border -1
		set boxwidth 0.6
		set xtics rotate by -40
		set xrange [-0.6:*]
		set offsets 0, 0.6, 0, 0
		set bmargin 11
		set rmargin 18
		unset key
		colour(ours) = ours > 0 ? 0xd01c1c : 0x1f77b4
		plot '$tmp/$name' using 0:3:(\$3 - \$4):(\$3 + \$4):(0.6):(colour(\$5)):xtic(1) \
				with boxerrorbars lc rgb variable title '', \
			'' using 0:(\$3 * 1.4):(sprintf(\$3 < 1000 ? '%.3g' : '%.0f', \$3)) with labels title ''
	EOF
}

users='here,native'
all=(exchange libtwheel libtwheel-timeout wheel lazy heap libev libevent libuv timerfd posix io_uring)
curves move 'a deadline is moved later, timers at random' $users move random "${all[@]}"
curves cancel 'a deadline is disarmed, timers at random' $users cancel random "${all[@]}"
curves core 'in the kernel: timers are moved at random' uml move random \
	core core+lock timers timer_list hrtimer
bars pair 'a request deadline, armed and disarmed, beside 100,000 others' 'ns of CPU' \
	$users pair 1 hot 100000
bars threads 'two threads move deadlines of their own among 10,000' 'million a second' \
	$users rate_move 2 random 10000
bars expire '10,000 expirations at random instants within a second' 'us of CPU each' \
	$users expire_own 1 random 10000
beats heartbeat 'a heartbeat of one of so many connections: all CPU time for timers' 'ns of CPU'
