#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# tests/tool/completion_test.sh: checks that bash and zsh complete the command line that
# twheelctl's help describes, and that an option letter has the same meaning in all verbs.
# Needs no module. Prints TAP.

# check() calls all of these functions.
# shellcheck disable=SC2317

. "$(dirname "$0")/../../vm/lib.sh"
# shellcheck source=../lib/tap.sh
. "$top/tests/lib/tap.sh"

need gcc make uthash-dev libjansson-dev zsh
# Any warning is an error in these builds.
export WERROR=1
# A directory of its own, because other stages may be building twheelctl.
out=$build/completion
quietly make -s -C "$top/userspace" O="$out" ctl
ctl=$out/twheelctl
scripts=$top/userspace/ctl/completion
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
ln -s "$ctl" "$dir/twheelctl"
PATH=$dir:$PATH

verbs=$("$ctl" help | sed -n 's/^  \([a-z]*\) .*/\1/p' | sort)

# Prints the options in the help of a verb, one per line.
help_options() {
	"$ctl" help "$@" | sed -n 's/^  \(-., \| *\)\(--[a-z-]*\).*/\1\n\2/p' |
		grep -o -- '--*[A-Za-z-]*' | sort
}

# Prints what bash offers for the last of these words, which contain no character of
# COMP_WORDBREAKS.
bash_offers() (
	# shellcheck disable=SC1091
	. "$scripts/twheelctl.bash"
	COMP_WORDS=(twheelctl "$@")
	COMP_CWORD=$#
	COMP_LINE="twheelctl $*"
	COMP_POINT=${#COMP_LINE}
	_twheelctl
	printf '%s\n' "${COMPREPLY[@]}" | sort
)

# Prints the arguments that zsh passes to _arguments for this verb, one per line.
zsh_arguments() {
	zsh -f -s "$scripts/_twheelctl" "$1" <<-'END'
		_arguments() { given=("$@"); state=rest }
		_describe() { given=($verbs) }
		words=($2)
		. $1
		print -rl -- $given
	END
}

# Prints what a shell makes of each command line when a tab is typed in a terminal.
makes() {
	(cd "$dir" && timeout 120 zsh -f -s "$scripts" "$@") <<-'END'
		zmodload zsh/zpty
		if [[ $2 = zsh ]]; then
			zpty shell TERM=dumb zsh -f -i
			zpty -w shell "unset zle_bracketed_paste; fpath=($1 \$fpath)"
			zpty -w shell "autoload -U compinit; compinit -D -u; echo REA''DY"
		else
			zpty shell TERM=dumb INPUTRC=/dev/null bash --norc --noprofile -i
			zpty -w shell "bind 'set enable-bracketed-paste off'; . $1/twheelctl.bash"
			zpty -w shell "echo REA''DY"
		fi
		zpty -r -m shell line '*READY*'
		shift 2
		for typed; do
			zpty -n -w shell "$typed"$'\t'" '; echo EN''D"$'\C-a'"echo 'IS "$'\C-e\n'
			zpty -r -m shell line '*IS *END*'
			print -r -- "${${line##*IS }%%[$'\r\n']*}"
		done
	END
}

bash_knows_all() {
	local verb

	bash -n "$scripts/twheelctl.bash" || return
	diff <(bash_offers '') <(echo "$verbs") && diff <(bash_offers help '') <(echo "$verbs") ||
		return
	for verb in $verbs; do
		[ "$verb" != help ] || continue
		diff <(bash_offers "$verb" - | tr -d = | sort) <(help_options "$verb") || return
	done
}

zsh_knows_all() {
	local verb

	zsh -n "$scripts/_twheelctl" || return
	[ "$(head -n 1 "$scripts/_twheelctl")" = '#compdef twheelctl' ] || return
	diff <(zsh_arguments help | sed 's/:.*//' | sort) <(echo "$verbs") || return
	for verb in $verbs; do
		[ "$verb" != help ] || continue
		diff <(zsh_arguments "$verb" | sed -n 's/^\*\(--*[A-Za-z-]*\).*/\1/p' | sort) \
			<(help_options "$verb") || return
	done
}

# An option that takes an argument takes it in both shells.
arguments_agree() {
	local verb

	for verb in $verbs; do
		[ "$verb" != help ] || continue
		diff <(zsh_arguments "$verb" | sed -n 's/^\*\(--[a-z-]*=\):.*/\1/p' | sort) \
			<(bash_offers "$verb" - | grep -- '--.*=') &&
			diff <(zsh_arguments "$verb" | sed -n 's/^\*\(--[a-z-]*=\):.*/\1/p' | sort) \
				<("$ctl" help "$verb" | grep -o -- '^  .*--[a-z-]*=' |
					grep -o -- '--.*' | sort) || return
	done
}

# Words that an option accepts are the same as in its help.
words_are_of_help() {
	local verb option words

	for option in info:clock task:if-exists task:state queue:mode queue:state; do
		verb=${option%:*} option=${option#*:}
		words=$(bash_offers "$verb" "--$option" '') && [ -n "$words" ] || return
		diff <(echo "$words") <("$ctl" help "$verb" |
			sed -n "s/.*--$option=[A-Z]* *//p" | sed 's/(default)//; s/;.*//; s/, \| or /\n/g' |
			tr -d ' ' | sort) || return
		zsh_arguments "$verb" | sed -n "s/.*--$option=:[a-z]*:(\(.*\))/\1/p" | tr ' ' '\n' |
			sort | diff <(echo "$words") - || return
	done
}

offers() {
	local is

	is=$(bash_offers "${@:2}" | xargs)
	[ "$is" = "$1" ] || { echo "${*:2}: $is, not $1"; false; }
}

bash_offers_by_position() {
	offers monitor m && offers boottime --clock bo && offers --format= monitor -a 1s --fo &&
		offers 'add cancel get list move replay run' task '' && offers '' stat 1s '' &&
		offers replace task --if-exists r && offers 'pull push' queue --mode p &&
		offers '' task --method p && offers '' after 1s echo --js &&
		offers --json after --js && bash_offers after 1s ech | grep -x echo &&
		bash_offers worker queue -- ech | grep -x echo && offers '' watch -- --js
}

# lines SHELL: pairs of a typed line and its completion.
lines() {
	local typed=() wanted=() line

	while IFS='|' read -r line; do
		typed+=("${line%%>*}")
		wanted+=("${line#*>}")
	done
	diff <(makes "$1" "${typed[@]}" | sed 's/[ =]*$//') <(printf '%s\n' "${wanted[@]}")
}

bash_completes() {
	: >"$dir/echidna"
	lines bash <<-END
		twheelctl mon>twheelctl monitor
		twheelctl --clock=b>twheelctl --clock=boottime
		twheelctl info --clock b>twheelctl info --clock boottime
		twheelctl info --clock=tai --js>twheelctl info --clock=tai --json
		twheelctl info --device=echi>twheelctl info --device=echidna
		twheelctl list --pid=12:3 --al>twheelctl list --pid=12:3 --all
		twheelctl list -p 12:3 --al>twheelctl list -p 12:3 --all
		twheelctl --server=http://127.0.0.1:7733 queu>twheelctl --server=http://127.0.0.1:7733 queue
		twheelctl --server http://[::1]:7733 queu>twheelctl --server http://[::1]:7733 queue
		twheelctl queue --server=[::1]:7733 li>twheelctl queue --server=[::1]:7733 list
		twheelctl after 5s,slack=1s base6>twheelctl after 5s,slack=1s base64
		twheelctl after @5s base6>twheelctl after @5s base64
		twheelctl watch --timeout=5s -- base6>twheelctl watch --timeout=5s -- base64
		twheelctl monitor --add 5s,label=x --clock=mon>twheelctl monitor --add 5s,label=x --clock=monotonic
		twheelctl after 1s echo echi>twheelctl after 1s echo echidna
	END
}

zsh_completes() {
	lines zsh <<-END
		twheelctl mon>twheelctl monitor
		twheelctl --clock=b>twheelctl --clock=boottime
		twheelctl info --clock b>twheelctl info --clock boottime
		twheelctl monitor --form>twheelctl monitor --format
		twheelctl task ca>twheelctl task cancel
		twheelctl queue --mode pul>twheelctl queue --mode pull
		twheelctl help wor>twheelctl help worker
		twheelctl after 1s dpkg-buildfl>twheelctl after 1s dpkg-buildflags
		twheelctl after 1s -- zsh --js>twheelctl after 1s -- zsh --js
		twheelctl after --js>twheelctl after --json
		twheelctl list --pid=12:3 --al>twheelctl list --pid=12:3 --all
		twheelctl --server=http://127.0.0.1:7733 queu>twheelctl --server=http://127.0.0.1:7733 queue
		twheelctl after @5s base6>twheelctl after @5s base64
	END
}

# A letter stands for one long option. -n is the number of things after which a verb ends,
# whatever it counts.
one_meaning() {
	local verb

	for verb in $verbs; do
		"$ctl" help "$verb" | sed -n 's/^  -\(.\), --\([a-z-]*\).*/\1 \2/p'
	done | sed 's/num-.*/num/' | sort -u | awk '{ if (seen[$1]++) { print; bad = 1 } }
		END { exit bad || NR < 10 }'
}

check "bash completes the verbs and options of the help" bash_knows_all
check "zsh completes the verbs and options of the help" zsh_knows_all
check "bash, zsh and the help agree which options have an argument" arguments_agree
check "both shells offer the option values that the help lists" words_are_of_help
check "bash offers the words that fit the position" bash_offers_by_position
check "bash completes command lines, even after : = and @" bash_completes
check "zsh completes command lines, even after : = and @" zsh_completes
check "an option letter has one meaning in all verbs" one_meaning
done_testing
