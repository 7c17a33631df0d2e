#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# Prints the scripts as C code.
#
#   embed.sh >scripts.h
#   embed.sh NAME		prints one script as it is sent to Redis
#
# The scripts are in the order of enum store_script. Lines with only a comment are left out.
set -eu
cd "$(dirname "$0")"
names="put take ack renew recover change sweep look pause remove plant clear schedule settings"

text() {
	# Redis may only refuse scripts that store more data if it is out of memory.
	case $1 in
	put | plant | schedule | settings) echo '#!lua' ;;
	*) echo '#!lua flags=allow-oom' ;;
	esac
	case $1 in
	schedule | settings) cat "$1.lua" ;;
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
