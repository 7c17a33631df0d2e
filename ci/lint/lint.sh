#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# ci/lint/lint.sh [CHECK...]: checks sources and documents without running the programs. Runs the
# checks with these names, such as "checkpatch" or "prose", or all of them. Prints a TAP line for
# each, which passes if the check found nothing.

# check() calls these functions by their names.
# shellcheck disable=SC2317

. "$(dirname "$0")/../../vm/lib.sh"
# shellcheck source=../../tests/lib/tap.sh
. "$top/tests/lib/tap.sh"

only=("$@")

cd "$top"
need clang-14 coccinelle mandoc pahole python3 uthash-dev libjansson-dev libev-dev libevent-dev \
	libuv1-dev liburing-dev
source=$(vm/source.sh)
# The directory with the kernel's semantic patches.
coccinelle=$cache/coccinelle/${source##*/}
uapi=include/uapi
header=$uapi/linux/twheel.h

# Only check the project's files, not others that lie in the checkout.
if [ "$(git rev-parse --show-toplevel 2>/dev/null)" -ef "$top" ]; then
	mapfile -t own < <(git ls-files)
else
	own=(twheel*.[ch] Kbuild Makefile *.md .ci include kunit packaging userspace tests bench vm
		ci doc)
fi

# files TEST...: prints the files for which these tests of find(1) are true. git may list files
# that have been removed.
files() {
	find "${own[@]}" -type f "$@" -print 2>/dev/null | sort
}

mapfile -t c_files < <(files -name '*.[ch]' ! -name '*.mod.c' | sed 's|^|../|')
mapfile -t scripts < <(files -exec grep -qm1 -E '^#! ?/bin/(ba)?sh|shellcheck shell=' {} \;)
mapfile -t texts < <(files ! -name '*.ko' ! -name '*.o' ! -name '.*.cmd' ! -name COPYING \
	! -path '*LICENSES/*')
mapfile -t prose < <(files \( -name '*.md' -o -path 'doc/man/*' \))

# run_checkpatch TYPES-TO-IGNORE FILE...: runs checkpatch in build/, because it leaves a file
# where it runs. The cache contains the checksum of each file that has passed and the ignored
# types, and such a file is not checked again.
run_checkpatch() {
	export ignored=$1 passed=$cache/checkpatch-${source##*/} source top

	touch "$passed"
	# shellcheck disable=SC2016
	(cd build && sha256sum "${@:2}" | sed "s/\$/ $1/" | { grep -vxFf "$passed" || true; } |
		xargs -r -d '\n' -n 8 -P "$(nproc)" sh -c '
			perl "$source/scripts/checkpatch.pl" --no-tree --root "$top" --no-summary \
				--strict --terse --show-types --ignore "$ignored" \
				-f $(printf "%s\n" "$@" | cut -d " " -f 3) &&
				printf "%s\n" "$@" >>"$passed"' sh)
}

# Runs checkpatch. These types of messages are ignored:
#   everywhere, that a string contains the name of its function, that a string is not broken at
#   column 100, and that BIT() is not used, which the ABI does not have
#   in compat.h, that the code depends on the kernel's version, which is its purpose
#   in twheel_trace.h, the style in which TRACE_EVENT() is written everywhere
#   in programs and tests, that a macro would be better which only the kernel has, rules for macros
#   which a test harness cannot keep, and JSON on several lines
#   in libtwheel.h, which programs in any dialect of C include, the spelling of inline
checkpatch() {
	local all=EMBEDDED_FUNCTION_NAME,LONG_LINE_STRING,BIT_MACRO
	local programs=ARRAY_SIZE,CAMELCASE,PREFER_DEFINED_ATTRIBUTE_MACRO,STRCPY
	local file kernel=() user=() status=0

	programs+=,STATIC_CONST_CHAR_ARRAY,VOLATILE,ENOSYS
	programs+=,PREFER_KERNEL_TYPES,ARCH_DEFINES
	programs+=,MACRO_ARG_REUSE,MACRO_ARG_UNUSED,MACRO_ARG_PRECEDENCE
	programs+=,MACRO_WITH_FLOW_CONTROL,SPLIT_STRING
	for file in "${c_files[@]}"; do
		case $file in
		../include/compat.h | ../include/twheel_trace.h | ../userspace/lib/libtwheel.h) ;;
		../userspace/* | ../tests/* | ../bench/* | ../kunit/* | ../vm/*.[ch]) user+=("$file") ;;
		*) kernel+=("$file") ;;
		esac
	done
	run_checkpatch "$all",LINUX_VERSION_CODE,CONSTANT_COMPARISON \
		../include/compat.h || status=1
	run_checkpatch "$all",OPEN_ENDED_LINE,PARENTHESIS_ALIGNMENT ../include/twheel_trace.h ||
		status=1
	run_checkpatch "$all" "${kernel[@]}" || status=1
	run_checkpatch "$all,$programs" "${user[@]}" || status=1
	run_checkpatch "$all,$programs",INLINE,COMPLEX_MACRO \
		../userspace/lib/libtwheel.h || status=1
	return "$status"
}

# Shows the warnings of the compiler with W=1, and of sparse, for one kernel.
module() {
	quietly vm/kernel.sh "$1" || return
	rm -rf "$build/modules/$1-lint"
	vm/module.sh "$1" lint W=1 C=2 2>&1 >/dev/null | sed '/^Skipping BTF/d'
}

# Checks that the structs of the ABI have no holes, whose size could differ on another architecture.
padding() {
	local bits

	for bits in 64 32; do
		gcc "-m$bits" -idirafter /usr/include/x86_64-linux-gnu -std=c99 -pedantic \
			-Wall -Wextra -Wpadded -I"$uapi" -fsyntax-only \
			-include "$header" -x c /dev/null
	done
}

# Checks that every struct of the ABI has the same layout on four architectures, with 32 and with 64
# bits, little-endian and big-endian.
layout() {
	local arch dir

	dir=$(mktemp -d)
	{
		echo '#include <linux/twheel.h>'
		sed -n 's/^\(struct \(twheel_[a-z]*\)\) {$/\1 \2;/p' "$header"
	} >"$dir/abi.c"
	for arch in x86_64 i386 aarch64 s390x; do
		clang-14 --target="$arch-linux-gnu" -idirafter /usr/include/x86_64-linux-gnu \
			-I"$uapi" -g -c -o "$dir/$arch.o" "$dir/abi.c" &&
			pahole --sort "$dir/$arch.o" >"$dir/$arch" || return
		grep -q '^struct twheel_setup {' "$dir/$arch" || echo "$arch: no structs"
		diff -u --label x86_64 --label "$arch" "$dir/x86_64" "$dir/$arch" || true
	done
	rm -r "$dir"
}

# rules FILE...: prints what semantic patches find in the module, or in $looked_at. The messages of
# spatch itself are only shown if it fails.
rules() {
	export looked_at=${looked_at:-twheel*.c include/twheel*.h}
	# shellcheck disable=SC2016
	printf '%s\0' "$@" | xargs -0 -n 1 -P "$(nproc)" sh -c '
		found=$(spatch -D report --no-show-diff --very-quiet --local-includes \
			-I include -I include/uapi --cocci-file "$1" \
			$looked_at 2>"$0.$$") || { cat "$0.$$"; echo "$1: failed"; }
		rm "$0.$$"
		[ -z "$found" ] || echo "$found"' "$logs/spatch"
}

# Runs the kernel's semantic patches, except for those that need an OCaml compiler or concern other
# kinds of devices.
kernel_rules() {
	local dir=$coccinelle base=linux-source-6.12 all sum found

	if ! [ -d "$dir" ]; then
		rm -rf "$dir.tmp"
		mkdir -p "$dir.tmp"
		if ! tar -xJf "/usr/src/$base.tar.xz" -C "$dir.tmp" --strip-components=3 \
			"$base/scripts/coccinelle"; then
			echo "the kernel's rules cannot be unpacked"
			return
		fi
		mv "$dir.tmp" "$dir"
	fi
	mapfile -t all < <(grep -rL 'ocaml' "$dir" --include='*.cocci' |
		grep -vE '/(bq27|clk|device|devm|iounmap|irq|newline|of_|pci|platform|pm_|put_dev)' | sort)
	[ ${#all[@]} -ge 50 ] || echo "only ${#all[@]} rules"
	# Skip them if neither the module nor the patches have changed since they passed.
	sum=$(cat twheel*.[ch] include/*.h "$uapi"/linux/*.h "${all[@]}" "$0" | sha256sum)
	[ "$(cat "$dir.passed" 2>/dev/null)" != "$sum" ] || return 0
	found=$(rules "${all[@]}")
	echo "$found"
	[ -n "$found" ] || echo "$sum" >"$dir.passed"
}

# finds_planted RULE: checks that the rule's output on stdin has a message for each line of
# ci/lint/cocci/wrong.c that names the rule, and that there is such a line.
finds_planted() {
	local lines

	lines=$(sed -n "\|/\* $1 \*/|=" ci/lint/cocci/wrong.c)
	[ -n "$lines" ] || echo "$1: nothing is planted"
	awk -F : -v rule="$1" -v lines="$lines" '
		{ found[$2] = 1 }
		END {
			split(lines, line, "\n")
			for (i in line)
				if (!found[line[i]])
					print rule " does not find line " line[i]
		}'
}

# Checks that our own rules find planted faults, because a rule with a typo would find nothing.
planted() {
	local rule name

	for rule in ci/lint/cocci/*.cocci; do
		name=${rule##*/}
		finds_planted "${name%.cocci}" <<<"$(looked_at=ci/lint/cocci/wrong.c rules "$rule")"
	done
}

# circles [--rooms] SOURCES OBJECTS: checks that no files, or directories, depend on each other in a
# circle.
circles() {
	local out=$build/circles

	quietly make -s -C userspace O="$out" ctl || return
	quietly make -s -C userspace/daemon O="$out" || return
	quietly make -s -C bench/timers O="$out" || return
	quietly ci/lint/circles.sh "${@:1:$# - 1}" "$out/${!#}"
}

shell() {
	shellcheck -x -P SCRIPTDIR "${scripts[@]}"
}

manual() {
	local name

	mandoc -T lint -W warning doc/man/*
	for name in $(grep -hoE '^[a-z].*\btwheel_[a-z_]+\(' userspace/lib/libtwheel*.h |
		grep -oE 'twheel_[a-z_]+\(' | tr -d '(' | sort -u); do
		grep -q "^\.Xr $name 3" doc/man/libtwheel.3 ||
			echo "doc/man/libtwheel.3 does not list $name(3)"
	done
}

prose() {
	local file

	for file in "${prose[@]}"; do
		case $file in
		*.md) cat "$file" ;;
		*) mandoc -T markdown "$file" ;;
		esac | awk -v "file=$file" -f ci/lint/prose.awk
	done
}

# Checks that each "make NAME" in a document is a target or a stage. A line of a code block has no
# period, as a line of prose that begins with "make" has.
targets() {
	local known

	known=$(sed -n '/^\.PHONY/,/[^\\]$/p' Makefile | tr -s '\\\t ' '\n'
		sed -n 's/^\([a-z][^ ]*\) .*/\1/p' ci/stages)
	# shellcheck disable=SC2016
	files -name '*.md' | xargs grep -ohE '`(sudo )?make [a-z][^`]*|^(sudo )?make [a-z][^.]*$' |
		sed 's/[&#].*//' | grep -oE '(^| )[a-z][^ ]*' | tr -d ' ' | sort -u |
		grep -vxF -e sudo -e make -e "$known" || true
}

# Checks that the generated parts of documents and the pictures are up to date.
tables() {
	doc/tables.sh --check
	doc/pictures.sh --check
}

# sizes <LIST: checks the sizes of documents in bytes.
sizes() {
	local most file

	while read -r most file; do
		[ "$(wc -c <"$file")" -le "$most" ] ||
			echo "$file: more than $most bytes"
	done
}

document_sizes() {
	sizes <<-'END'
		9216 README.md
		9216 SECURITY.md
		6144 CONTRIBUTING.md
		6144 CHANGELOG.md
		6144 doc/install.md
		1024 doc/hardware.md
		6144 doc/troubleshooting.md
		17408 doc/design.md
		13312 doc/testing.md
		15360 doc/twheeld.md
		5120 doc/porting.md
		3072 doc/upstream.md
		9216 doc/bench/README.md
		2048 userspace/examples/README.md
		2048 userspace/bindings/go/README.md
		2304 userspace/bindings/java/README.md
		2048 userspace/bindings/php/README.md
		2304 userspace/bindings/python/README.md
		2048 userspace/loops/README.md
	END
}

# Checks for American spelling, in comments as well. Some names are allowed: a field of struct
# twheel_stats (cancelled), keywords of manual pages and of modinfo (Nd, parm), and verbs of the
# tests.
spelling() {
	codespell --builtin clear,rare,en-GB_to_en-US -L nd,fro,parm,inout,te,tyes,cancelled,cancelling,queu \
		"${texts[@]}"
}

# Checks that modinfo shows these properties of the module.
metadata() {
	local ko wanted

	ko=$(vm/module.sh 6.12)/twheel.ko
	while read -r wanted; do
		modinfo "$ko" | tr -s ' ' | grep -q "^$wanted\$" || echo "no $wanted"
	done <<-'END'
		alias: devname:twheel
		alias: char-major-10-250
		license: GPL
		author: twheel contributors
		version: [0-9][0-9.]*
		description: ..*
		parm: max_bytes_per_user:..* (ulong)
		parm: max_timers:..* (uint)
		parm: max_timers_limit:..* (uint)
		parm: max_wheels_per_user:..* (uint)
		parm: min_tick_ns:..* (uint)
	END
}

# Passes if no merge has left its markers in a file.
conflicts() {
	! grep -nE '^(<<<<<<<|>>>>>>>) ' "${texts[@]}"
}

# check NAME COMMAND...: passes if the command succeeds and prints nothing.
check() {
	local found status=0

	[[ ${#only[@]} = 0 || " ${only[*]} " = *" $1 "* ]] || return 0
	found=$("${@:2}" 2>&1) || status=$?
	if [ -n "$found" ] || [ $status -ne 0 ]; then
		printf '%s\n' "$found" "exit $status" | sed 's/^/# /'
		status=1
	fi
	verdict $status "$1"
}

check checkpatch checkpatch
check "W=1 and sparse, 6.12" module 6.12
check "W=1 and sparse, 6.1" module 6.1
check "padding of the ABI" padding
check "the ABI on four architectures" layout
check "rules of our own" rules ci/lint/cocci/*.cocci
check "rules of the kernel" kernel_rules
check "rules of our own find what is planted" planted
check "no files of the library in a circle" circles userspace/lib lib
check "no files of twheelctl in a circle" circles userspace/ctl ctl
check "no files of twheeld in a circle" circles userspace/daemon daemon
check "no rooms of twheeld in a circle" circles --rooms userspace/daemon daemon
check "no files of the bench in a circle" circles bench/timers bench-o
check "no files of the device bench in a circle" circles bench/device bench-o
check shellcheck shell
check codespell spelling
check "markers of merge conflicts" conflicts
check "manual pages" manual
check "prose" prose
check "targets of make in documents" targets
check "generated parts of documents, and pictures" tables
check "sizes of documents" document_sizes
check "metadata of the module" metadata
done_testing
