# SPDX-License-Identifier: GPL-2.0
#
# What twheel_file.lock protects is touched with it held: behind twheel_lock() or
# spin_lock_bh() and before the unlock, or in a function that asserts it. So are
# the calls into twheel_timers.c, which asserts it, too, where there is lockdep. What may
# allocate for the slots is called with twheel_file.mutex held.
#
#   awk -f locked.awk twheel_chrdev.c
#
# Prints what is not. It reads lines, in the kernel's style, and not paths.

BEGIN {
	# Of struct twheel_file, and the verbs on what is in there.
	members = "w->(timers|mem|programmed|clock_id|offset|dying)[^a-z_]"
	verbs = "[^a-z_]twheel_(now|program|run|apply|kick|drain|list|stats|claim|settle|due" \
		"|readable" \
		"|next|horizon|tick_ns|init|slots_bytes|slots_adopt)\\("

	# Nobody else has the wheel yet, or any more.
	alone["twheel_open"] = alone["twheel_release"] = 1
	# The table is mapped, so the shape is fixed; the mutex has its pages.
	alone["twheel_fault"] = 1
}

function report(why)
{
	print FILENAME ":" FNR ": " name "(): " why
}

# A function: its name is on the last line that is not indented.
/^[a-z].*\(/ {
	name = $0
	sub(/\(.*/, "", name)
	sub(/.*[ *]/, "", name)
}
/^\{/ {
	inside = 1
	held = entered
	asserted = entered = mutex = 0
}
/^\t__(releases|must_hold)\(&w->lock\)/ { entered = 1 }
!inside || /^[\t ]*\/?\*/ { next }

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

# Whether anything is ready may be asked at any time. Growth takes the lock itself.
{
	gsub(/hlist_empty\(&w->timers\.ready\)/, "")
	gsub(/twheel_slots_grow\(&w->timers\.slots, &w->lock\)/, "")
}
!held && !(name in alone) && ($0 ~ members || $0 ~ verbs) {
	bare[++found] = FILENAME ":" FNR ": " name "(): without the lock"
}

/^\}/ {
	for (i = 1; i <= found; i++)
		if (!asserted)
			print bare[i]
	if (held && name != "twheel_lock")
		report("ends with the lock")
	found = inside = 0
	functions++
}
END {
	# As it would if the style had changed.
	if (functions < 20)
		print FILENAME ": found " functions + 0 " functions"
}
