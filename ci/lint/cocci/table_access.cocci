// SPDX-License-Identifier: GPL-2.0
//
// The words of the deadline table belong to user space. Each access must be a single READ_ONCE(),
// WRITE_ONCE(), xchg() or cmpxchg64(), so an access to both words of a slot at once is wrong. User
// space can also write the header of the table, so the kernel writes each member with WRITE_ONCE()
// and never reads it.

virtual report

@good@
struct twheel_slot *slot;
identifier word =~ "^(deadline_ns|wake_ns)$";
position p;
@@
(
READ_ONCE(\(slot->word@p\|store_word(...)->word@p\))
|
WRITE_ONCE(\(slot->word@p\|store_word(...)->word@p\), ...)
|
xchg(&\(slot->word@p\|store_word(...)->word@p\), ...)
|
cmpxchg64(&\(slot->word@p\|store_word(...)->word@p\), ...)
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
store_word(...)->word@p
|
entry.word@p
)

@whole@
struct twheel_slot *slot;
position p;
@@
  *slot@p

@moved@
struct twheel_slot *slot;
position p;
@@
  \(memcpy\|memmove\|memset\|memcmp\)(..., \(slot@p\|store_word@p(...)\), ...)

@good_header@
struct twheel_table *header;
identifier member;
position p;
@@
WRITE_ONCE(header->member@p, ...)

@bad_header@
struct twheel_table *header;
struct twheel_table copy;
identifier member;
position p != good_header.p;
@@
(
header->member@p
|
copy.member@p
)

@whole_header@
struct twheel_table *header;
position p;
@@
  *header@p

@moved_header@
struct twheel_table *header;
position p;
@@
  \(memcpy\|memmove\|memset\|memcmp\)(..., header@p, ...)

@script:python depends on report@
p << bad.p;
@@
coccilib.report.print_report(p[0], "plain access to a word of the table")

@script:python depends on report@
p << whole.p;
@@
coccilib.report.print_report(p[0], "plain access to both words of the table")

@script:python depends on report@
p << moved.p;
@@
coccilib.report.print_report(p[0], "plain access to both words of the table")

@script:python depends on report@
p << bad_header.p;
@@
coccilib.report.print_report(p[0], "not a WRITE_ONCE() of a member of the table's header")

@script:python depends on report@
p << whole_header.p;
@@
coccilib.report.print_report(p[0], "plain access to the table's header")

@script:python depends on report@
p << moved_header.p;
@@
coccilib.report.print_report(p[0], "plain access to the table's header")
