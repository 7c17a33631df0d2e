# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
# bash completion for twheelctl.

# Sets what may follow $verb: its options, where "=" marks those with an argument, and the words
# that may be its first argument. $command is the number of arguments before a command that the
# verb runs, if it runs one.
_twheelctl_verb()
{
	local all='-h --help -j --json'
	local wheel="$all --device= --clock= --tick= --levels= --slot-bits= --max-timers="
	local daemon="$all --server= --token-file= --cacert="
	local verbs='info doctor after monitor shell stat watch wheel ps top hist list task queue
		schedule worker help'

	options='' words='' command=''
	case $verb in
	'') options="-V --version $wheel --server= --token-file= --cacert=" words=$verbs ;;
	help) words=$verbs ;;
	info | doctor) options=$wheel ;;
	after) options=$wheel command=1 ;;
	monitor) options="$wheel -a= --add= -n= --num-events= --idle-timeout= -F= --format=
		-b --banner -q --quiet" ;;
	shell) options="$wheel -e --errexit -F= --format=" ;;
	stat) options="$wheel -a= --add= -p= --pid=" ;;
	watch) options="$wheel --timeout= --pretimeout= --start= --grace=" command=0 ;;
	wheel) options="$wheel -a= --add= -r= --random= --once -i= --interval= -p= --pid=" ;;
	ps) options="$all -p= --pid= --openmetrics -o= --output=" ;;
	top) options="$all -p= --pid= -i= --interval= -n= --num-screens=" ;;
	hist) options="$all -p= --pid=" ;;
	list) options="$all -p= --pid= --all" ;;
	task)
		options="$daemon --id= --at= --in= --every= --url= --method= --header= --payload=
			--timeout= --keep= --if-exists= --state= --limit="
		words='add list get move cancel run replay'
		;;
	queue)
		options="$daemon --mode= --lanes= --ahead= --timeout= --lane-max= --rate= --burst=
			--concurrency= --weight= --limit= --state= --before= --prefix= --purge"
		words='list forecast show make pause resume replay purge remove'
		;;
	schedule)
		options="$daemon --cron= --rrule= --every= --tz= --start= --end= --max= --jitter=
			--missed= --missed-limit= --overlap= --disabled --url= --method= --header=
			--payload= --timeout= --keep= --limit="
		words='add list show next run enable disable remove'
		;;
	worker) options="$daemon --lease= --wait= -n= --num-tasks=" command=1 ;;
	esac
	options=" ${options//[[:space:]]/ } "
}

# Completes the value $2 of the option $1.
_twheelctl_value()
{
	local words=''

	case $1 in
	--clock) _twheelctl_words 'monotonic boottime realtime tai' "$2" ;;
	--if-exists) _twheelctl_words 'replace update keep fail' "$2" ;;
	--missed) _twheelctl_words 'once skip all' "$2" ;;
	--mode) _twheelctl_words 'push pull' "$2" ;;
	--overlap) _twheelctl_words 'allow skip queue' "$2" ;;
	--state)
		[ "$verb" = queue ] || words=' leased'
		_twheelctl_words "scheduled done dead$words" "$2"
		;;
	--device | --output | --token-file | --cacert | -o)
		mapfile -t COMPREPLY < <(compgen -f -- "$2")
		compopt -o filenames 2>/dev/null
		;;
	esac
}

_twheelctl_words()
{
	mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2")
}

_twheelctl_command()
{
	if [ "$1" = 0 ]; then
		mapfile -t COMPREPLY < <(compgen -c -- "$2")
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$2")
		compopt -o filenames 2>/dev/null
	fi
}

_twheelctl()
{
	local rest=${COMP_LINE:0:COMP_POINT} line=() word gap i cur before prefix=''
	local verb='' option='' arguments=0 ended='' options words command

	COMPREPLY=()
	# bash has split the line at COMP_WORDBREAKS, which has ":", "=" and "@": what no blank
	# separates is one word again. The last one ends at the cursor.
	for ((i = 0; i <= COMP_CWORD; i++)); do
		gap=${rest%%[![:blank:]]*}
		rest=${rest:${#gap}}
		word=${COMP_WORDS[i]}
		[ $i -lt "$COMP_CWORD" ] || word=$rest
		rest=${rest#"$word"}
		if [[ $gap || $i = 0 ]]; then
			line+=("$word")
		else
			line[-1]+=$word
		fi
	done
	cur=${line[-1]}
	unset 'line[-1]'
	# bash replaces only its own last word, and nothing of a separator.
	before=${cur%"$word"}
	[[ $word = *[!:=@]* ]] || before=$cur

	_twheelctl_verb
	for word in "${line[@]:1}"; do
		if [[ $option ]]; then
			option=''
		elif [[ $command && ($ended || $arguments -gt 0) ]]; then
			[[ $word = -- && $arguments = "$command" ]] || arguments=$((arguments + 1))
		elif [[ $word = -- ]]; then
			ended=yes
		elif [[ $options = *" $word= "* ]]; then
			option=$word
		elif [[ $word != -?* && $verb ]]; then
			arguments=$((arguments + 1))
		elif [[ $word != -?* ]]; then
			verb=$word
			_twheelctl_verb
		fi
	done

	if [[ $option ]]; then
		_twheelctl_value "$option" "$cur"
	elif [[ $command && ($ended || $arguments -gt 0) ]]; then
		_twheelctl_command $((arguments - command)) "$cur"
	elif [[ $cur = --*=* && ! $ended ]]; then
		prefix=${cur%%=*}=
		_twheelctl_value "${prefix%=}" "${cur#*=}"
	elif [[ $cur = -* && ! $ended ]]; then
		words=''
		for word in $options; do
			# The argument of a letter is a word of its own.
			[[ $word != -?= ]] || word=${word%=}
			words+=" $word"
		done
		_twheelctl_words "$words" "$cur"
		[[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null
	elif [ "$command" = 0 ]; then
		_twheelctl_command 0 "$cur"
	elif [ $arguments = 0 ]; then
		_twheelctl_words "$words" "$cur"
	fi
	COMPREPLY=("${COMPREPLY[@]/#/$prefix}")
	COMPREPLY=("${COMPREPLY[@]#"$before"}")
}

complete -F _twheelctl twheelctl
