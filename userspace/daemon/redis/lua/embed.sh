#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Writes the scripts as C to stdout.
#
#   embed.sh >scripts.h
#   embed.sh NAME		the text of one script, as Redis gets it
#
# The order is that of enum store_script. Lines that are only comments are left out.
set -eu
cd "$(dirname "$0")"
names="put take ack renew recover change sweep look pause remove plant clear schedule"

text() {
	# Only what stores more may be refused for lack of memory.
	case $1 in
	put | plant | schedule) echo '#!lua' ;;
	*) echo '#!lua flags=allow-oom' ;;
	esac
	case $1 in
	schedule) cat schedule.lua ;;
	*) cat prelude.lua "$1.lua" ;;
	esac | sed -e '/^[[:space:]]*--/d' -e '/^[[:space:]]*$/d'
}

if [ $# -gt 0 ]; then
	text "$1"
	exit
fi
echo '/* Made by embed.sh. */'
echo '#include <stddef.h>'
for name in $names; do
	echo
	echo "static const char script_text_${name}[] ="
	text "$name" | sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/	"/' -e 's/$/\\n"/'
	echo '	;'
done
echo
echo 'static inline const char *script_source(unsigned int script)'
echo '{'
echo '	static const char *const texts[] = {'
for name in $names; do
	echo "		script_text_$name,"
done
echo '	};'
echo
echo '	return texts[script];'
echo '}'
echo
echo 'static inline size_t script_length(unsigned int script)'
echo '{'
echo '	static const size_t lengths[] = {'
for name in $names; do
	echo "		sizeof(script_text_$name) - 1,"
done
echo '	};'
echo
echo '	return lengths[script];'
echo '}'
