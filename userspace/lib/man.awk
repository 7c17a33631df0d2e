# SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
# awk -v dir=DIR -v date=DATE -f man.awk HEADER...: writes a manual page (mdoc) DIR/NAME.3
# for each function and struct with a kernel-doc comment. The kernel's scripts/kernel-doc can
# read these comments as well, but its pages belong to section 9, and it is part of the kernel's
# source, which make install does not need.

/^\/\*\*$/ { in_doc = 1; where = result = ""; next }
in_doc && /^ \*\/$/ { in_doc = 0; in_decl = 1; next }
in_doc { sub(/^ \* ?/, ""); comment($0) }
in_decl { decl = decl $0 "\n" }
in_decl && (is_struct ? /^};/ : /;$/) { in_decl = 0; page(dir "/" name ".3") }

function comment(line) {
	if (where == "") {
		last = name
		name = summary = line
		sub(/(\(\))? - .*/, "", name)
		sub(/.* - /, "", summary)
		is_struct = sub(/^struct /, "", name)
		where = "args"
		# A function that has the name of the struct before it shares its page.
		if (name != last)
			args = body = decl = ""
		return
	}
	if (line == "")
		where = "\n"
	else if (sub(/^Return: /, "", line))
		where = "result"
	if (where == "result")
		result = result " " line
	else if (where == "args")
		args = args (line ~ /^@/ ? "\n" : " ") line
	else if (line != "") {
		body = body where line
		where = " "
	}
}

function page(out,   part, n, i) {
	match(FILENAME, /[^\/]*$/)
	printf ".\\\" SPDX-License-Identifier: LGPL-2.1-or-later OR MIT\n.Dd %s\n.Dt %s 3\n.Os\n" \
		".Sh NAME\n.Nm %s\n.Nd %s\n.Sh LIBRARY\nlibtwheel (\\-ltwheel)\n" \
		".Sh SYNOPSIS\n.In %s\n.Bd -literal\n%s.Ed\n", date, toupper(name), name,
		summary, substr(FILENAME, RSTART), decl >out
	if (args body != "")
		print ".Sh DESCRIPTION" >out
	list(args, "\n@", "Fa ", out)
	n = split(body, part, "\n")
	for (i = 2; i <= n; i++)
		printf ".Pp\n%s", prose(part[i]) >out
	if (sub(/^ /, "", result))
		print ".Sh RETURN VALUES" >out
	if (sub(/; /, "&", result) && sub(/\.$/, "", result))
		list("; " result, "; ", "", out)
	else
		printf "%s", prose(toupper(substr(result, 1, 1)) substr(result, 2)) >out
	print ".Sh SEE ALSO\n.Xr libtwheel 3" >out
	close(out)
}

# Prints a list of the parts after each @separator. A part is "TAG: TEXT", or only a tag.
function list(s, separator, macro, out,   part, n, i, at) {
	n = split(s, part, separator)
	for (i = 2; i <= n; i++) {
		at = index(part[i] ": ", ": ")
		printf "%s.It %s%s\n%s", i == 2 ? ".Bl -tag -width clock_id -compact\n" : "", macro,
			plain(substr(part[i], 1, at - 1)), prose(substr(part[i], at + 2)) >out
	}
	if (n)
		print ".El" >out
}

# Returns @s with one sentence per line, and with macros for the markup of kernel-doc.
function prose(s,   word, n, i, core, tail, text) {
	n = split(s, word, " ")
	for (i = 1; i <= n; i++) {
		match(word[i], /[.,;:]*$/)
		core = substr(word[i], 1, RSTART - 1)
		tail = (RLENGTH > 0 ? " " : "") substr(word[i], RSTART) "\n"
		if (core ~ /^[%@]/)
			core = (core ~ /^%/ ? "\n.Dv " : "\n.Fa ") substr(core, 2) tail
		else if (core ~ /^twheel_[a-z_]*\(\)$/ && core != name "()")
			core = "\n.Xr " substr(core, 1, length(core) - 2) " 3" tail
		else
			core = " " plain(word[i]) (tail ~ /\.\n$/ ? "\n" : "")
		text = text core
	}
	gsub(/\n+ */, "\n", text)
	sub(/^[\n ]+/, "", text)
	return text (text ~ /[^\n]$/ ? "\n" : "")
}

function plain(s) {
	gsub(/&/, "", s)
	gsub(/~/, "\\(ti", s)
	gsub(/\^/, "\\(ha", s)
	gsub(/-E/, "\\-E", s)
	return s
}
