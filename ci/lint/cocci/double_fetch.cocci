// SPDX-License-Identifier: GPL-2.0
//
// The kernel must not read the same user memory twice, because the user may change it after the
// first read was checked. Reading memory back after writing to it is the same mistake.

virtual report

@fetch@
expression from, to, size;
identifier member;
position first, second != first;
@@
(
copy_from_user@first(to, from, size)
|
get_user@first(to, from)
|
__get_user@first(to, from)
)
... when != from = ...
    when != from++
    when != from += ...
(
copy_from_user@second(..., from, ...)
|
get_user@second(..., from)
|
__get_user@second(..., from)
|
copy_from_user@second(..., &from->member, ...)
|
get_user@second(..., &from->member)
)

@script:python depends on report@
first << fetch.first;
second << fetch.second;
@@
coccilib.report.print_report(second[0], "fetched from user space again, after line " + first[0].line)
