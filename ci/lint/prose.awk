# SPDX-License-Identifier: GPL-2.0
#
# awk -f ci/lint/prose.awk [-v means=1] FILE...: judges the sentences of Markdown files and
# of manual pages (mdoc). Prints a line for each sentence that
#   has more than 35 words,
#   begins with "Of ", "Who " or "What is ",
#   or has a word that the glossary replaces,
# and for each file whose sentences have more than 16 words on average.
# With means=1 it prints the mean length of the sentences of each file instead.
#
# A sentence ends at a period, question mark or colon before a space, and where its paragraph,
# list item or table cell ends. Code counts as one word. Headings, code blocks and the SYNOPSIS
# are skipped. The mean leaves out fragments: what does not end in a mark, and table cells.

BEGIN {
	# Not yet held to these rules. A file leaves this list when it is rewritten.
	split("doc/man/twheelctl.1", later)
	for (i in later)
		exempt[later[i]] = 1

	limit = 35
	most = 16
	forbidden["announce[sd]?"] = "kick"
	forbidden["mend(s|ed|ing)?"] = "fix"
	forbidden["doors?"] = "API"
	forbidden["watch(es)? (itself|themselves)"] = "debug kernel"
	forbidden["flush(es|ed|ing)?"] = "nothing: there is no flush"
	forbidden["licences?"] = "license"
	forbidden["(neighbour|colour|flavour)s?"] = "American spelling"
}

FNR == 1 {
	paragraph_ends()
	file = FILENAME
	sub(/^\.\//, "", file)
	names[++files] = file
	man = file ~ /\.[1-8]$/
	code = literal = skipped = 0
}

file in exempt { next }

man {
	manual_line($0)
	next
}

/^ *```/ {
	paragraph_ends()
	code = !code
	next
}
code { next }
/^#/ || /^ *$/ || /^!\[/ {
	paragraph_ends()
	next
}
/^ *\|/ {
	paragraph_ends()
	if ($0 !~ /^ *\|[-| :]*$/)
		cells($0)
	next
}
/^ *([-*]|[0-9]+\.) / {
	paragraph_ends()
	sub(/^ *([-*]|[0-9]+\.) /, "")
}
{ add($0) }

END {
	paragraph_ends()
	for (i = 1; i <= files; i++) {
		if (!sentences[names[i]])
			continue
		mean = words[names[i]] / sentences[names[i]]
		if (means)
			printf "%s: %.1f words a sentence, %d sentences\n", names[i], mean,
				sentences[names[i]]
		else if (mean > most)
			printf "%s: %.1f words a sentence on average\n", names[i], mean
	}
}

function add(line) {
	if (text == "")
		first = FNR
	text = text " " line
}

function cells(row,   cell, n, i) {
	gsub(/`[^`]*`/, "code", row)
	n = split(row, cell, "|")
	for (i = 2; i < n; i++) {
		add(cell[i])
		in_table = 1
		paragraph_ends()
	}
	in_table = 0
}

# The lines of mdoc: text, and macros whose arguments are words of a sentence.
function manual_line(line,   macro, rest) {
	if (line ~ /^\.\\"/)
		return
	if (line !~ /^\./) {
		if (!literal && !skipped)
			add(line)
		return
	}
	macro = line
	sub(/^\./, "", macro)
	rest = macro
	sub(/ .*/, "", macro)
	sub(/^[^ ]* ?/, "", rest)
	if (macro == "Bd")
		literal = 1
	else if (macro == "Ed")
		literal = 0
	if (macro == "Sh")
		skipped = rest == "SYNOPSIS" || rest == "NAME" || rest == "SEE ALSO"
	# These end a paragraph; what stands in their line is no sentence.
	if (macro ~ /^(Dd|Dt|Os|Sh|Ss|Pp|Bl|El|It|Bd|Ed|D1|Dl|Rs|Re)$/) {
		paragraph_ends()
		return
	}
	if (literal || skipped)
		return
	# A macro is one word, and so is each of its arguments; a mark at the end is not.
	if (macro == "Nm" && rest !~ /^[a-z]/)
		rest = "name " rest
	gsub(/ (Ns|No|Ar|Cm|Fl|Fa|Dv|Er|Ev|Fn|Xr|Pa|Vt|Va|Li|Ql) /, " ", rest)
	gsub(/(^| )\\&/, " ", rest)
	if (macro == "Xr")
		sub(/ [0-9]/, "", rest)
	if (macro == "Fn")
		gsub(/".*"/, "", rest)
	while (match(rest, / [.,:;?)]+$/))
		rest = substr(rest, 1, RSTART - 1) substr(rest, RSTART + 1)
	add(rest)
}

function paragraph_ends(   part, n, i) {
	if (text == "")
		return
	gsub(/`[^`]*`/, "code", text)
	gsub(/!?\[/, "", text)
	gsub(/\]\([^)]*\)/, "", text)
	gsub(/\*/, "", text)
	gsub(/ +/, " ", text)
	sub(/^ /, "", text)
	sub(/ $/, "", text)
	n = split(ended(text), part, "\n")
	for (i = 1; i <= n; i++)
		judge(part[i])
	text = ""
}

# Puts a line end in the place of the space between two sentences.
function ended(s,   out) {
	gsub(/ (e\.g|i\.e|cf|vs)\. /, " eg ", s)
	out = ""
	while (match(s, /[.?!:][")]* /)) {
		out = out substr(s, 1, RSTART + RLENGTH - 2) "\n"
		s = substr(s, RSTART + RLENGTH)
	}
	return out s
}

function judge(sentence,   n, word, lower, bad) {
	n = split(sentence, word, " ")
	if (!n)
		return
	if (!in_table && sentence ~ /[.?!:][")]*$/) {
		sentences[file]++
		words[file] += n
	}
	if (means)
		return
	if (n > limit)
		found(n " words", sentence)
	if (sentence ~ /^(Of|Who|What is) /)
		found("begins badly", sentence)
	lower = " " tolower(sentence) " "
	gsub(/[^a-z-]+/, " ", lower)
	for (bad in forbidden)
		if (lower ~ " " bad " ")
			found("say " forbidden[bad], sentence)
}

function found(what, sentence) {
	if (length(sentence) > 60)
		sentence = substr(sentence, 1, 60) " ..."
	printf "%s:%d: %s: %s\n", file, first, what, sentence
}
