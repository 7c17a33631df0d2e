/* SPDX-License-Identifier: GPL-2.0 */
#ifndef _TWHEEL_ROWS_H
#define _TWHEEL_ROWS_H

#include <kunit/test.h>

/* Defines NAME_gen_params() for a case that runs once for each of @rows, under the row's name. */
#define ROWS(NAME, rows)						\
	static void NAME##_describe(typeof(&(rows)[0]) row, char *desc)	\
	{								\
		snprintf(desc, KUNIT_PARAM_DESC_SIZE, "%s", row->name);	\
	}								\
	KUNIT_ARRAY_PARAM(NAME, rows, NAME##_describe)

#endif /* _TWHEEL_ROWS_H */
