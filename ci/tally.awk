# SPDX-License-Identifier: GPL-2.0
#
# Counts the results in the log of a stage: TAP, or KTAP with subtests at any
# depth, of which the leaves count. The log of a machine holds a document for
# each command that was run there, and a verdict, which counts as a result. Neither prove
# nor kunit.py reads such a log: prove does not count the leaves, kunit.py takes one
# document, and neither knows the exit status of each command or the verdict.
#
#   awk -v status=EXIT -v tap=0|1 -v counts=FILE [-v targets=N] -f tally.awk LOG
#
# "# target NAME REACHED NEEDED" says what the stage had to do, and has done. That it did
# less is a fault, and so are fewer than N of these where something was needed.
#
# Prints what went wrong, with the lines that led to it, and writes "passed
# failed skipped" to counts. Without tap the whole is one test. A document
# without a plan has failed; so have results that its plan promised in vain,
# and a command that left with a bad status in spite of good results.

function fault(why,    i, from)
{
	failed++
	failed_here++
	from = kept > 60 ? kept - 60 : 0
	for (i = from; i < kept; i++)
		print "    " keep[i]
	print "    " why
	kept = 0
}

# Forgets the levels deeper than indent. A plan there must have been met.
function close_deeper(indent,    i)
{
	for (i in results) {
		if (i + 0 <= indent)
			continue
		if ((i in plan) && plan[i] != results[i])
			fault("not ok: " results[i] " of " plan[i] " results")
		delete results[i]
		delete bad[i]
	}
	for (i in plan)
		if (i + 0 > indent)
			delete plan[i]
}

function begin_document(what)
{
	command = what
	failed_here = 0
	kept = 0
	delete results
	delete bad
	delete plan
	open = 1
}

function end_document(exit_status,    n)
{
	open = 0
	close_deeper(0)
	n = results[0] + 0
	if (!(0 in plan))
		fault("not ok: no plan: " command)
	else if (plan[0] != n)
		fault("not ok: " n " of " plan[0] " results: " command)
	if (exit_status != "0" && !failed_here)
		fault("not ok: exit " exit_status ": " command)
}

function result(indent, good, line,    i, parent, blamed)
{
	for (i in results)
		if (i + 0 > indent && results[i])
			parent = 1
	for (i in bad)
		if (i + 0 > indent && bad[i])
			blamed = 1
	close_deeper(indent)
	results[indent]++
	if (!good)
		bad[indent]++
	if (parent) {
		if (!good && !blamed)
			fault(line)
	} else if (!good || line ~ /# *(XFAIL|XPASS|TODO)/) {
		fault(line)
	} else if (line ~ /# *[Ss][Kk][Ii][Pp]/) {
		skipped++
		print "    " line
	} else {
		passed++
	}
	kept = 0
}

BEGIN {
	passed = failed = skipped = told = 0
	begin_document("it")
	machine = 0
}

{ sub(/\r$/, "") }

!tap { keep[kept++] = $0; next }

/^twheel-vm: run: / {
	if (open && machine)
		end_document("lost")
	machine = 1
	begin_document(substr($0, 17))
	next
}
/^twheel-vm: exit: / {
	if (open)
		end_document(substr($0, 18))
	next
}
/^twheel-vm: verdict: / {
	machine = 1
	verdict = substr($0, 21)
	next
}

/^ *(not )?ok( |$)/ {
	match($0, /^ */)
	result(RLENGTH, $1 == "ok", $0)
	next
}
/^ *1\.\.[0-9]+/ {
	match($0, /^ */)
	indent = RLENGTH
	number = $1
	sub(/^1\.\./, "", number)
	plan[indent] = number + 0
	if (!plan[indent]) {
		skipped++
		print "    " $0
	}
	next
}
/^Bail out!/ { fault($0); next }
/^# target / {
	told += $5 > 0
	if ($4 + 0 < $5 + 0)
		fault("not ok:" substr($0, 2))
	next
}
{ keep[kept++] = $0 }

END {
	if (told < targets)
		fault("not ok: " told " of " targets " targets")
	if (!tap) {
		if (status != "0")
			fault("not ok: exit " status)
		else
			passed++
	} else if (!machine) {
		end_document(status)
	} else {
		# The machine died under the last command.
		if (open)
			end_document("lost")
		kept = 0
		if (verdict == "PASS" && status == "0")
			passed++
		else
			fault("not ok: verdict: " verdict ", exit " status)
	}
	print passed, failed, skipped > counts
}
