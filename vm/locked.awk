# SPDX-License-Identifier: GPL-2.0
#
# What twheel_file.lock protects is touched with it held: behind file_begin() or
# spin_lock_bh() and before the unlock, or in a function that asserts it. So are the calls
# into twheel_timers.c, which asserts it, too, where there is lockdep. Nothing that may sleep
# is called with it: neither the growth of the store, nor what waits for the hrtimer or the
# worker, which take the lock.
#
# In the files below these each function asserts the lock or the mutex of the pages; or it
# takes them; or it is static and says __must_hold(), and is called by such alone; or it is
# listed below, with why.
#
#   awk -f locked.awk FILE... twheel_turn.c twheel_chrdev.c
#
# The files are in the order in which they know each other. Prints what is not so. It
# reads lines, in the kernel's style, and not paths.

BEGIN {
	# Of struct twheel_file, and the verbs on what is in there.
	members = "w->(timers|mem|programmed|clock_id|offset|dying|pages\\.store)[^a-z_]"
	verbs = "[^a-z_](file_now|file_set_clock|comes|note_next|start_timer|program|restart" \
		"|timers_(turn|next|publish_next|apply|kick|drain|list|stats|peek|consume|map|info)" \
		"|wheel_(next|due|horizon|init|add|del))\\("
	sleeps = "[^a-z_](pages_(grow|header)|hrtimer_cancel|cancel_work_sync" \
		"|flush_work(queue)?|drain_workqueue)\\("

	# Nobody else has the wheel yet, or any more.
	alone["twheel_open"] = alone["twheel_release"] = alone["file_init_turns"] = 1
	# Verbs above, so who calls them has the lock.
	alone["comes"] = alone["start_timer"] = alone["restart"] = alone["file_set_clock"] = 1

	free_of("a store that nobody else has yet, or any more",
		"pages_init pages_free free_chunk timers_init")
	free_of("only an address, for who has the lock or the mutex",
		"find_chunk words_chunk store_timer store_word store_marks store_summary" \
		" word_of summary_bits")
	free_of("what SETUP alone changes, or nobody",
		"first_marks store_marks_offset store_bytes timers_tick_ns timers_check_setup")
	free_of("one timer, of who has the lock",
		"timer_id timer_successor is_settled report")
	free_of("numbers, or a word that is user space's as well",
		"wanted_deadline publish word_step")
}

function free_of(why, names,	list, n)
{
	n = split(names, list, " ")
	while (n)
		lockless[list[n--]] = why
}

# Whether a function is called on this line that needs what is not had.
function lacks(lock, mutex,	rest, f)
{
	rest = $0
	while (match(rest, /[a-z_0-9]+\(/)) {
		f = substr(rest, RSTART, RLENGTH - 1)
		rest = substr(rest, RSTART + RLENGTH)
		if (f in needs && !(needs[f] == "lock" ? lock : mutex))
			return f
	}
	return ""
}

function report(why)
{
	print FILENAME ":" FNR ": " name "(): " why
}

FNR == 1 {
	device = FILENAME ~ /(twheel_(chrdev|turn)|wrong)\.c$/
	core = FILENAME !~ /twheel_(chrdev|turn)\.c$/
	files[FILENAME] = 0
}

# The end of a function that is not of the device.
function know(	i, f, lock, mutex)
{
	seen[name] = 1
	if (!sure && private)
		sure = promised
	if (sure)
		needs[name] = sure
	else if (!takes && !(name in lockless))
		print FILENAME ":" named ": " name "(): asserts no lock"
	lock = sure == "lock"
	mutex = sure == "mutex"
	for (i = 1; i <= lines; i++) {
		$0 = body[i]
		if (/[^a-z_]spin_lock_bh\(s->lock\)/)
			lock = 1
		if (/[^a-z_]mutex_lock\(&p->mutex\)/)
			mutex = 1
		f = lacks(lock, mutex)
		if (f)
			print FILENAME ":" at[i] ": " name "(): without the " needs[f] " of " f "()"
		if (takes && !lock && /s->(used|fresh|room|gen|free)[^a-z_]/)
			print FILENAME ":" at[i] ": " name "(): without the lock"
		if (/[^a-z_]spin_unlock_bh\(s->lock\)/)
			lock = 0
		if (/[^a-z_]mutex_unlock\(&p->mutex\)/)
			mutex = 0
	}
	if (takes && (lock || mutex))
		print FILENAME ":" FNR ": " name "(): ends with a lock"
	lines = 0
	sure = ""
	takes = 0
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
	held = entered || name == "file_finish"
	asserted = entered = 0
}
/^\t__(releases|must_hold)\(&w->lock\)/ { entered = 1 }
/^\t__must_hold\(.*lock\)/ { promised = "lock" }
!inside || /^[\t ]*(\/\*|\*( |\/|$))/ { next }

# At its outermost level: it is asserted each time.
/^\t((timers|store)_assert_held\(|lockdep_assert.*->lock\))/ { sure = "lock" }
/^\tlockdep_assert_held\(&p->mutex\)/ { sure = "mutex" }
/^\tmutex_lock\(&p->mutex\)/ { takes = 1 }
core && !/assert/ { body[++lines] = $0; at[lines] = FNR }
core && /^\}/ { know() }
/^\}/ && !device {
	inside = 0
	files[FILENAME]++
}
!device { next }

/lockdep_assert_held\(&w->lock\)/ { asserted = 1 }
/[^a-z_](file_begin\(|spin_lock_bh\(&w->lock\))/ {
	if (held)
		report("takes the lock twice")
	held = 1
	next
}
/[^a-z_](file_finish\(|spin_unlock_bh\(&w->lock\))/ {
	if (!held && !asserted)
		report("drops a lock that it has not")
	held = 0
	next
}

(held || asserted) && $0 ~ sleeps { report("may sleep, with the lock") }

# Whether anything is ready may be asked at any time.
{ gsub(/hlist_empty\(&w->timers\.ready\)/, "") }
!held && !(name in alone) && ($0 ~ members || $0 ~ verbs) {
	bare[++found] = FILENAME ":" FNR ": " name "(): without the lock"
}

/^\}/ {
	for (i = 1; i <= found; i++)
		if (!asserted)
			print bare[i]
	if (held && name != "file_begin")
		report("ends with the lock")
	found = inside = 0
	files[FILENAME]++
}
END {
	# As it would if the style had changed.
	for (file in files)
		if (files[file] < (file ~ /\.h$/ ? 2 : 8))
			print file ": found " files[file] " functions"
	if ("timers_turn" in seen)
		for (name in lockless)
			if (!(name in seen))
				print "locked.awk: there is no " name "()"
}
