# SPDX-License-Identifier: GPL-2.0
#
# awk -v file=NAME -f ci/lint/prose.awk: prints each sentence of the Markdown on stdin that has
# more than 35 words, or a word that the glossary replaces. mandoc makes Markdown of manual
# pages. Code counts as one word; headings and code blocks are skipped.

BEGIN {
	limit = 35
	replaced["announce[sd]?"] = "kick"
	replaced["mend(s|ed|ing)?"] = "fix"
	replaced["doors?"] = "API"
	replaced["watch(es)? (itself|themselves)"] = "debug kernel"
	replaced["flush(es|ed|ing)?"] = "nothing: there is no flush"
}

/^ *```/ {
	paragraph_ends()
	code = !code
	next
}
code || /^(    |\t|#|!\[)/ || /^ *$/ {
	paragraph_ends()
	next
}
/^ *\|/ {
	gsub(/`[^`]*`/, "code")
	gsub(/\|/, ". ")
}
/^ *([-*|]|[0-9]+\.|>) / {
	paragraph_ends()
	sub(/^ *([-*|]|[0-9]+\.|>) /, "")
}
{ text = text " " $0 }
END { paragraph_ends() }

function paragraph_ends(   sentence, n, i) {
	gsub(/`[^`]*`/, "code", text)
	gsub(/\]\([^)]*\)|!?\[|\*|<[^>]*>/, "", text)
	gsub(/ (e\.g|i\.e|cf|vs)\. /, " eg ", text)
	gsub(/[.?!:][")]* /, "&\n", text)
	n = split(text, sentence, "\n")
	for (i = 1; i <= n; i++)
		judge(sentence[i])
	text = ""
}

function judge(sentence,   n, word, lower, bad) {
	n = split(sentence, word, " ")
	if (n > limit)
		found(n " words", sentence)
	lower = " " tolower(sentence) " "
	gsub(/[^a-z-]+/, " ", lower)
	for (bad in replaced)
		if (lower ~ " " bad " ")
			found("say " replaced[bad], sentence)
}

function found(what, sentence) {
	printf "%s: %s: %.60s\n", file, what, sentence
}
