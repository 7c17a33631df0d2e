#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Checks that no C files depend on each other in a circle. A file depends on another if it
# includes it or calls a function that the other defines. A source and its header are one
# file, named by their path without the ending.
#
#   circles.sh [--rooms] SOURCES OBJECTS
#
# SOURCES is a folder of .c and .h files, OBJECTS the folder of their .o files, with the same
# paths. With --rooms, it checks the folders in SOURCES instead of the files. Prints the number
# of arrows and layers. Exit status 1 if there is a circle, whose members are on stderr.
set -euo pipefail
shopt -s globstar nullglob

rooms=
[ "$1" != --rooms ] || { rooms=1; shift; }
sources=$(CDPATH='' cd "$1" && pwd) objects=$(CDPATH='' cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

includes() {
	local file name
	for file in **/*.[ch]; do
		sed -n 's/^#[[:space:]]*include "\(.*\)".*/\1/p' "$file" | while read -r name; do
			for name in "$(dirname "$file")/$name" "$name"; do
				[ -f "$name" ] || continue
				name=$(realpath -s --relative-to=. "${name%.[ch]}")
				[ "${name#../}" != "$name" ] || echo "${file%.[ch]} $name"
				break
			done
		done
	done
}

# Ignore a symbol that several objects define, such as main().
calls() {
	local file
	for file in **/*.o; do
		[ ! -f "$sources/${file%.o}.c" ] || nm -g "$file" | sed "s|^|${file%.o} |"
	done | awk '
		NF == 4 && $4 in by && by[$4] != $1 { by[$4] = ""; next }
		NF == 4 { by[$4] = $1 }
		NF == 3 && $2 == "U" { user[++n] = $1; used[n] = $3 }
		END { for (i = 1; i <= n; i++) if (by[used[i]] != "") print user[i], by[used[i]] }'
}

{ (cd "$sources" && includes); (cd "$objects" && calls); } | awk -v rooms="$rooms" '
	function room(path) { return sub("/[^/]*$", "", path) ? path : "." }
	rooms { $1 = room($1); $2 = room($2) }
	$1 != $2 && !seen[$1, $2]++ { print $1, $2 }' >"$work/arrows"
if ! tsort "$work/arrows" >"$work/order"; then
	wc -l <"$work/arrows" | sed 's/$/ arrows, and a circle/'
	exit 1
fi
tac "$work/order" | awk -v arrows="$work/arrows" '
	BEGIN { while ((getline line < arrows) > 0) { split(line, a); to[a[1], ++n[a[1]]] = a[2]; all++ } }
	{
		layer[$1] = 1
		for (i = 1; i <= n[$1]; i++)
			if (layer[to[$1, i]] >= layer[$1])
				layer[$1] = layer[to[$1, i]] + 1
		top = layer[$1] > top ? layer[$1] : top
	}
	END { print NR " parts, " all + 0 " arrows, " top + 0 " layers" }'
