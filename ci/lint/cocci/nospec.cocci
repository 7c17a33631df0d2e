// SPDX-License-Identifier: GPL-2.0
//
// A number that may come from the user must pass through array_index_nospec() between the check
// of its bounds and its use as an index, because the processor may speculate past the check. The
// same applies to numbers computed from it. Counters of loops belong to the kernel, and 0 is not
// the bound of a table.

virtual report

@good@
expression index, size;
position p;
@@
array_index_nospec(index@p, size)

@counted@
expression index, bound;
position q;
statement S;
@@
(
for (...; <+... \(index@q < bound\|index@q <= bound\) ...+>; ...) S
|
while (<+... \(index@q < bound\|index@q <= bound\) ...+>) S
)

@sign@
expression index;
position q;
@@
(
index@q < 0
|
index@q <= 0
|
index@q > 0
|
index@q >= 0
)

@checked exists@
local idexpression index;
expression bound, other, table;
position p != good.p;
position q != { counted.q, sign.q };
@@
(
index@q >= bound
|
index@q > bound
|
index@q < bound
|
index@q <= bound
)
... when != index = other
(
table[<+... index@p ...+>]
|
store_timer(..., <+... index@p ...+>)
|
store_word(..., <+... index@p ...+>)
|
store_marks(..., <+... index@p ...+>)
|
find_block(..., <+... index@p ...+>)
)

@script:python depends on report@
p << checked.p;
i << checked.index;
@@
coccilib.report.print_report(p[0], "%s was checked, and is an index without array_index_nospec()" % i)

@derived exists@
local idexpression index;
identifier made;
type T;
expression bound, other, table;
position p != good.p;
position q != { counted.q, sign.q };
@@
(
index@q >= bound
|
index@q > bound
|
index@q < bound
|
index@q <= bound
)
... when != index = other
(
made = <+... index@p ...+>;
|
T made = <+... index@p ...+>;
)
... when != made = other
(
table[<+... made ...+>]
|
store_timer(..., <+... made ...+>)
|
store_word(..., <+... made ...+>)
|
store_marks(..., <+... made ...+>)
|
find_block(..., <+... made ...+>)
)

@script:python depends on report@
p << derived.p;
i << derived.index;
m << derived.made;
@@
coccilib.report.print_report(p[0], "%s was checked, and %s is an index made of it without array_index_nospec()" % (i, m))
