// SPDX-License-Identifier: GPL-2.0
//
// A number that may be the user's, and was found to be in bounds, is an index
// only through array_index_nospec(): the processor may run ahead of the check.

virtual report

@good@
expression index, size;
position p;
@@
array_index_nospec(index@p, size)

@checked exists@
local idexpression index;
expression bound, other, table;
position p != good.p;
@@
(
index >= bound
|
index > bound
)
... when != index = other
(
table[<+... index@p ...+>]
|
twheel_chunk_at(..., <+... index@p ...+>)
|
twheel_block_at(..., <+... index@p ...+>)
)

@script:python depends on report@
p << checked.p;
i << checked.index;
@@
coccilib.report.print_report(p[0], "%s was checked, and is an index without array_index_nospec()" % i)
