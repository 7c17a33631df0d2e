# SPDX-License-Identifier: GPL-2.0
#
# Turns the log of a stage into one flat TAP stream. The log of a script that prints TAP is one
# document. The log of a machine contains a document for each command, between "run: " and
# "exit: ", and a verdict, which counts as a result (see vm/init.c). These cases add a failure:
#
#   a document without a plan, or with more or fewer results than it planned
#   a document whose results are all good but whose exit status is not 0
#   a command that did not exit, or a machine without a verdict
#   a target that was not reached: "# target NAME REACHED NEEDED"
#
# A skipped test stays a skipped test.

function result(good, what) {
	print (good ? "ok " : "not ok ") ++number " - " (command == "" ? "" : command ": ") what
	bad += !good
}

function end_document(status) {
	if (!have_plan || plan != results)
		result(0, results + 0 " results, planned " (have_plan ? plan : "none"))
	else if (!plan)
		result(1, "# SKIP it has no tests")
	else if (status != "0" && !bad)
		result(0, "exit " status)
	have_plan = results = bad = 0
	command = ""
}

{ sub(/\r$/, "") }

/^twheel-vm: run: / || /^# run: / {
	if (command != "" || results || have_plan)
		end_document("lost")
	command = substr($0, index($0, "run: ") + 5)
	commands++
	if (/^twheel/)
		machine = 1
	next
}
/^twheel-vm: exit: / || /^# exit: / { if (command != "") end_document($NF); next }
/^twheel-vm: verdict: / {
	if (command != "")
		end_document("lost")
	result($0 ~ /: PASS$/, substr($0, 12))
	machine = 0
	commands++
	next
}
/^1\.\.[0-9]+/ { plan = substr($1, 4) + 0; have_plan = 1; next }
/^(not )?ok( |$)/ {
	results++
	good = /^ok/ && !/# *(TODO|XFAIL|XPASS)/
	sub(/^(not )?ok *[0-9]* *(- )?/, "")
	result(good, $0)
	next
}
/^Bail out!/ { result(0, $0); next }
/^# target / && $4 + 0 < $5 + 0 { result(0, substr($0, 3)); next }
{ print /^#/ ? $0 : "# " $0 }

END {
	if (command != "")
		end_document("lost")
	else if (!commands || results || have_plan)
		end_document(0)
	if (machine)
		result(0, "no verdict")
	print "1.." number + 0
}
