// SPDX-License-Identifier: GPL-2.0
/*
 * twheelctl --completion: scripts for bash and zsh that complete its command line.
 *
 * Verbs and options come from the tables that next_option() reads. The lower-case words of
 * a synopsis are the actions of its verb. $command is how many arguments come before the
 * command that a verb runs.
 */
#include <ctype.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "completion.h"
#include "option.h"

#define PUNCTUATION	" |"

/* These options take one of a few words, or a file. */
static const struct {
	const char *option;
	const char *words;
} values[] = {
	{ "clock", "monotonic boottime realtime tai" },
	{ "if-exists", "replace keep fail" },
	{ "mode", "push pull" },
	{ "state", "scheduled leased done dead" },
	{ "device", NULL },
	{ "output", NULL },
	{ "token-file", NULL },
};

/* The part of the bash script that does not depend on the tables. */
static const char bash_function[] =
	"_twheelctl()\n"
	"{\n"
	"	local cur=${COMP_WORDS[COMP_CWORD]} verb='' option='' arguments=0 i word\n"
	"	local options valued words command\n"
	"\n"
	"	COMPREPLY=()\n"
	"	_twheelctl_verb\n"
	"	for ((i = 1; i < COMP_CWORD; i++)); do\n"
	"		word=${COMP_WORDS[i]}\n"
	"		if [[ $command && $arguments -gt 0 ]]; then\n"
	"			[[ $word = -- && $arguments = \"$command\" ]] || arguments=$((arguments + 1))\n"
	"		elif [[ $word = -?* && ${COMP_WORDS[i + 1]-} = = ]]; then\n"
	"			[ $((i + 2)) -lt \"$COMP_CWORD\" ] || option=$word\n"
	"			i=$((i + 2))\n"
	"		elif [[ \" $valued \" = *\" $word \"* ]]; then\n"
	"			i=$((i + 1))\n"
	"			[ $i -lt \"$COMP_CWORD\" ] || option=$word\n"
	"		elif [[ $word != -?* ]]; then\n"
	"			if [[ $verb ]]; then\n"
	"				arguments=$((arguments + 1))\n"
	"			else\n"
	"				verb=$word\n"
	"				_twheelctl_verb\n"
	"			fi\n"
	"		fi\n"
	"	done\n"
	"	if [[ $option ]]; then\n"
	"		[[ $cur != = ]] || cur=''\n"
	"		_twheelctl_value\n"
	"	elif [[ $command && $arguments -gt 0 ]]; then\n"
	"		if [ $arguments = \"$command\" ]; then\n"
	"			mapfile -t COMPREPLY < <(compgen -c -- \"$cur\")\n"
	"		else\n"
	"			mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
	"			compopt -o filenames 2>/dev/null\n"
	"		fi\n"
	"	elif [[ $cur = -* ]]; then\n"
	"		mapfile -t COMPREPLY < <(compgen -W \"$options\" -- \"$cur\")\n"
	"		[[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace 2>/dev/null\n"
	"	elif [[ $command = 0 ]]; then\n"
	"		mapfile -t COMPREPLY < <(compgen -c -- \"$cur\")\n"
	"	elif [ $arguments = 0 ]; then\n"
	"		mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
	"	fi\n"
	"	return 0\n"
	"}\n"
	"\n"
	"complete -F _twheelctl twheelctl\n";

/* The index of an option in @values, or -1. */
static int values_of(const struct option *o)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(values); i++)
		if (!strcmp(values[i].option, o->name))
			return i;
	return -1;
}

/* The letter of an option, or 0. */
static int letter_of(const struct option *o)
{
	return o->val < OPT_OF_VERB && isalpha((unsigned char)o->val) ? o->val : 0;
}

/* Prints the actions of a verb between @before and @after, or nothing if it has none. */
static void print_actions(const struct verb *verb, const char *before, const char *after)
{
	const char *word = verb->args + strspn(verb->args, PUNCTUATION);
	const char *separator = before;
	size_t len;

	for (; *word; word += len + strspn(word + len, PUNCTUATION)) {
		len = strcspn(word, PUNCTUATION);
		if (strspn(word, "abcdefghijklmnopqrstuvwxyz") != len)
			continue;
		printf("%s%.*s", separator, (int)len, word);
		separator = " ";
	}
	if (separator != before)
		printf("%s", after);
}

static void print_verbs(void)
{
	size_t i;

	for (i = 0; i < verb_count; i++)
		printf(" %s", verbs[i]->name);
	printf(" help");
}

static void bash_options(const struct option *options)
{
	const struct option *o;

	printf("\t\toptions='");
	for (o = options; o->name; o++) {
		if (letter_of(o))
			printf("-%c ", o->val);
		printf("--%s%s ", o->name, o->has_arg ? "=" : "");
	}
	printf("'\n\t\tvalued='");
	for (o = options; o->name; o++) {
		if (o->has_arg && letter_of(o))
			printf("-%c ", o->val);
		if (o->has_arg)
			printf("--%s ", o->name);
	}
	printf("'\n");
}

/* Prints one case for each option of a verb that takes known words. */
static void bash_values(const char *verb, const struct option *options)
{
	const struct option *o;

	for (o = options; o->name; o++) {
		int i = values_of(o);

		if (i < 0)
			continue;
		printf("\t%s:--%s", verb, o->name);
		if (letter_of(o))
			printf(" | %s:-%c", verb, o->val);
		if (values[i].words)
			printf(")\n\t\tmapfile -t COMPREPLY < <(compgen -W '%s' -- \"$cur\")\n",
			       values[i].words);
		else
			printf(")\n\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
			       "\t\tcompopt -o filenames 2>/dev/null\n");
		printf("\t\t;;\n");
	}
}

static void print_bash(void)
{
	struct option options[MAX_OPTIONS];
	size_t i;

	printf("# bash completion for twheelctl, from twheelctl --completion=bash\n\n"
	       "_twheelctl_verb()\n{\n\toptions='' valued='' words='' command=''\n\tcase $verb in\n\t'')\n");
	front_options(options);
	bash_options(options);
	printf("\t\twords='");
	print_verbs();
	printf("'\n\t\t;;\n\thelp)\n\t\twords='");
	print_verbs();
	printf("'\n\t\t;;\n");
	for (i = 0; i < verb_count; i++) {
		printf("\t%s)\n", verbs[i]->name);
		verb_options(verbs[i], options);
		bash_options(options);
		print_actions(verbs[i], "\t\twords='", "'\n");
		if (verbs[i]->command_follows)
			printf("\t\tcommand=%d\n", verbs[i]->runs_command ? 0 : 1);
		printf("\t\t;;\n");
	}
	printf("\tesac\n}\n\n_twheelctl_value()\n{\n\tcase $verb:$option in\n");
	front_options(options);
	bash_values("", options);
	for (i = 0; i < verb_count; i++) {
		verb_options(verbs[i], options);
		bash_values(verbs[i]->name, options);
	}
	printf("\tesac\n}\n\n%s", bash_function);
}

/* Prints the specifications for _arguments. */
static void zsh_options(const struct option *options)
{
	const struct option *o;

	for (o = options; o->name; o++) {
		int i = values_of(o);
		int forms;

		for (forms = letter_of(o) ? 2 : 1; forms; forms--) {
			if (forms == 2)
				printf(" \\\n\t\t'*-%c%s", o->val, o->has_arg ? "+" : "");
			else
				printf(" \\\n\t\t'*--%s%s", o->name, o->has_arg ? "=" : "");
			if (o->has_arg && i < 0)
				printf(":%s: ", o->name);
			else if (o->has_arg && !values[i].words)
				printf(":%s:_files", o->name);
			else if (o->has_arg)
				printf(":%s:(%s)", o->name, values[i].words);
			printf("'");
		}
	}
}

/* Prints a text for a description in single quotes. A colon would end the name. */
static void zsh_verb(const char *name, const char *text)
{
	printf("\t'%s:", name);
	for (; *text; text++) {
		if (*text == '\'')
			printf("'\\''");
		else
			putchar(*text);
	}
	printf("'\n");
}

static void print_zsh(void)
{
	struct option options[MAX_OPTIONS];
	size_t i;

	printf("#compdef twheelctl\n# from twheelctl --completion=zsh\n\n"
	       "local curcontext=$curcontext state line\n"
	       "typeset -A opt_args\nlocal -a verbs\n\nverbs=(\n");
	for (i = 0; i < verb_count; i++)
		zsh_verb(verbs[i]->name, verbs[i]->summary);
	zsh_verb("help", "Say more of a verb.");
	printf(")\n_arguments -C -A '-*'");
	front_options(options);
	zsh_options(options);
	printf(" \\\n\t\t'1: :->verb' '*:: :->rest'\n"
	       "case $state in\nverb)\n\t_describe -t verbs verb verbs\n\t;;\n"
	       "rest)\n\tcase $words[1] in\n"
	       "\thelp)\n\t\t_describe -t verbs verb verbs\n\t\t;;\n");
	for (i = 0; i < verb_count; i++) {
		printf("\t%s)\n\t\t_arguments", verbs[i]->name);
		verb_options(verbs[i], options);
		zsh_options(options);
		if (verbs[i]->runs_command) {
			printf(" \\\n\t\t'(-)*:::command:_normal'");
		} else if (verbs[i]->command_follows) {
			printf(" \\\n\t\t'1:first:()' '(-)*:::command:_normal'");
		} else {
			print_actions(verbs[i], " \\\n\t\t'1:action:(", ")'");
			printf(" \\\n\t\t'*:argument:()'");
		}
		printf("\n\t\t;;\n");
	}
	printf("\tesac\n\t;;\nesac\n");
}

/* Prints the script for a shell. Returns whether there is one. */
bool print_completion(const char *shell)
{
	if (!strcmp(shell, "bash"))
		print_bash();
	else if (!strcmp(shell, "zsh"))
		print_zsh();
	else
		return false;
	return true;
}
