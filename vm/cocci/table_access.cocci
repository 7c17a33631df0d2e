// SPDX-License-Identifier: GPL-2.0
//
// The words of the deadline table belong to user space: each access is one
// READ_ONCE(), WRITE_ONCE(), xchg() or cmpxchg64(), and no more. Both at a time are none
// of these. The header of the table is theirs as well, but the module writes it and
// never reads it.

virtual report

@good@
struct twheel_slot *slot;
identifier word =~ "^(deadline_ns|wake_ns)$";
position p;
@@
(
READ_ONCE(\(slot->word@p\|twheel_slots_word(...)->word@p\))
|
WRITE_ONCE(\(slot->word@p\|twheel_slots_word(...)->word@p\), ...)
|
xchg(&\(slot->word@p\|twheel_slots_word(...)->word@p\), ...)
|
cmpxchg64(&\(slot->word@p\|twheel_slots_word(...)->word@p\), ...)
)

@bad@
struct twheel_slot *slot;
struct twheel_slot entry;
identifier word =~ "^(deadline_ns|wake_ns)$";
position p != good.p;
@@
(
slot->word@p
|
twheel_slots_word(...)->word@p
|
entry.word@p
)

@whole@
struct twheel_slot *slot;
position p;
@@
  *slot@p

@script:python depends on report@
p << bad.p;
@@
coccilib.report.print_report(p[0], "plain access to a word of the table")

@script:python depends on report@
p << whole.p;
@@
coccilib.report.print_report(p[0], "plain access to both words of the table")
