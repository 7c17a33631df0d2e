# SPDX-License-Identifier: GPL-2.0
#
# What twheel_file.lock protects is touched with it held: behind twheel_lock() or
# spin_lock_bh() and before the unlock, or in a function that asserts it. So are
# the calls into twheel_timers.c, which asserts it, too, where there is lockdep. What may
# allocate for the slots is called with twheel_file.mutex held; what waits for the hrtimer or
# the worker, which take the lock, without it.
#
# In the other files each function asserts the lock or the mutex; or it is static and
# says __must_hold(), and is called by such alone; or it is listed below, with why.
#
#   awk -f locked.awk FILE... twheel_chrdev.c
#
# The files are in the order in which they know each other. Prints what is not so. It
# reads lines, in the kernel's style, and not paths.

BEGIN {
	# Of struct twheel_file, and the verbs on what is in there.
	members = "w->(timers|mem|programmed|clock_id|offset|dying)[^a-z_]"
	verbs = "[^a-z_]twheel_(now|comes|program|restart|run|apply|kick|drain|list|stats" \
		"|claim|settle|due|readable" \
		"|next|horizon|tick_ns|init|slots_bytes|slots_adopt)\\("

	# Nobody else has the wheel yet, or any more.
	alone["twheel_open"] = alone["twheel_release"] = 1
	# The table is mapped, so the shape is fixed; the mutex has its pages.
	alone["twheel_fault"] = 1

	free_of("slots nobody else has yet, or any more",
		"twheel_slots_init twheel_slots_adopt twheel_slots_free twheel_ready_init")
	free_of("what is out of use already", "twheel_slots_dispose discard salvage")
	free_of("only an address, for who has the lock or, of a block, the mutex",
		"twheel_block_at twheel_page_at twheel_chunk_at users_at twheel_slots_prefetch")
	free_of("what SETUP alone changes, under both",
		"nr_blocks twheel_slots_bytes twheel_tick_ns")
	free_of("one timer, of who has the lock",
		"twheel_entry_id twheel_successor twheel_unread twheel_settled" \
		" twheel_report_state twheel_report twheel_put_event")
	free_of("numbers, or a word that is user space's as well",
		"twheel_after twheel_wanted twheel_leave twheel_look_step")
}

function free_of(why, names,	list, n)
{
	n = split(names, list, " ")
	while (n)
		lockless[list[n--]] = why
}

# Whether a function is called on this line that needs other than @has.
function lacks(has,	rest, f)
{
	rest = $0
	while (match(rest, /[a-z_0-9]+\(/)) {
		f = substr(rest, RSTART, RLENGTH - 1)
		rest = substr(rest, RSTART + RLENGTH)
		if (f in needs && needs[f] != has)
			return f
	}
	return ""
}

function report(why)
{
	print FILENAME ":" FNR ": " name "(): " why
}

FNR == 1 {
	device = FILENAME ~ /(twheel_chrdev|wrong)\.c$/
	core = FILENAME !~ /twheel_chrdev\.c$/
	files[FILENAME] = 0
}

# The end of a function that is not of the device.
function know(	i, f)
{
	seen[name] = 1
	if (!sure && private)
		sure = promised
	if (sure)
		needs[name] = sure
	else if (!(name in lockless))
		print FILENAME ":" named ": " name "(): asserts no lock"
	for (i = 1; i <= lines; i++) {
		$0 = body[i]
		f = lacks(sure)
		if (f)
			print FILENAME ":" at[i] ": " name "(): without the " needs[f] " of " f "()"
	}
	lines = 0
	sure = ""
	$0 = "}"
}

# A function: its name is on the last line that is not indented.
/^[a-z].*\(/ {
	name = $0
	named = FNR
	private = /^static /
	promised = ""
	sub(/\(.*/, "", name)
	sub(/.*[ *]/, "", name)
}
/^\{/ {
	inside = 1
	held = entered
	asserted = entered = mutex = 0
}
/^\t__(releases|must_hold)\(&w->lock\)/ { entered = 1 }
/^\t__must_hold\(.*lock\)/ { promised = "lock" }
!inside || /^[\t ]*(\/\*|\*( |\/|$))/ { next }

# At its outermost level: it is asserted each time.
/^\t(twheel_(slots_)?assert_held\(|lockdep_assert.*->lock\))/ { sure = "lock" }
/^\t(assert_mutex\(|lockdep_assert.*->mutex\))/ { sure = "mutex" }
core && !/assert/ { body[++lines] = $0; at[lines] = FNR }
core && /^\}/ { know() }
/^\}/ && !device {
	inside = 0
	files[FILENAME]++
}
!device { next }

/lockdep_assert_held\(&w->lock\)/ { asserted = 1 }
/[^a-z_](twheel_lock\(|spin_lock_bh\(&w->lock\))/ {
	if (held)
		report("takes the lock twice")
	held = 1
	next
}
/[^a-z_](twheel_unlock\(|spin_unlock_bh\(&w->lock\))/ {
	if (!held && !asserted)
		report("drops a lock that it has not")
	held = 0
	next
}

/[^a-z_]mutex_lock\(&w->mutex\)/ { mutex = 1 }
/[^a-z_]mutex_unlock\(&w->mutex\)/ { mutex = 0 }
/[^a-z_]twheel_slots_(grow|page)\(/ && !mutex { report("without the mutex") }

(held || asserted) && /[^a-z_](hrtimer_cancel|cancel_work_sync|flush_work(queue)?|drain_workqueue)\(/ {
	report("waits with the lock for who takes it")
}

# Whether anything is ready may be asked at any time. Growth takes the lock itself.
{
	gsub(/hlist_empty\(&w->timers\.ready\)/, "")
	gsub(/twheel_slots_grow\(&w->timers\.slots, &w->lock\)/, "")
	sub(/twheel_slots_page\(/, "")
}
!held && !(name in alone) && ($0 ~ members || $0 ~ verbs || lacks("mutex")) {
	bare[++found] = FILENAME ":" FNR ": " name "(): without the lock"
}

/^\}/ {
	for (i = 1; i <= found; i++)
		if (!asserted)
			print bare[i]
	if (held && name != "twheel_lock")
		report("ends with the lock")
	found = inside = 0
	files[FILENAME]++
}
END {
	# As it would if the style had changed.
	for (file in files)
		if (files[file] < (file ~ /\.h$/ ? 3 : 15))
			print file ": found " files[file] " functions"
	if ("twheel_run" in seen)
		for (name in lockless)
			if (!(name in seen))
				print "locked.awk: there is no " name "()"
}
