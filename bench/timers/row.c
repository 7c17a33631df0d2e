// SPDX-License-Identifier: GPL-2.0
/* Prints the results: a header, and lines whose columns are separated by tabs. */
#include <stdarg.h>
#include <stdlib.h>

#include "bench.h"

const char *bench_where = "native";

void bench_row_header(void)
{
	puts("where\top\tbackend\tn\tthreads\tpattern\tvalue\tunit\tspread\treps\tchecked\tvalues");
}

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return left < right ? -1 : left > right;
}

/* Prints a row with the median of the values, their range in percent of it, and all values. */
void bench_row(const struct bench_row *row, double *values, unsigned int reps)
{
	double median, spread;
	unsigned int i;

	qsort(values, reps, sizeof(*values), compare);
	median = reps % 2 ? values[reps / 2] : (values[reps / 2 - 1] + values[reps / 2]) / 2;
	spread = median ? 100 * (values[reps - 1] - values[0]) / median : 0;
	printf("%s\t%s\t%s\t%u\t%u\t%s\t%.4g\t%s\t%.0f\t%u\t%s", bench_where, row->op,
	       row->backend, row->n, row->threads, row->pattern, median, row->unit, spread,
	       reps, row->checked);
	for (i = 0; i < reps; i++)
		printf("%c%.4g", i ? ' ' : '\t', values[i]);
	putchar('\n');
	fflush(stdout);
}

/* Prints a comment. */
void bench_note(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fputs("# ", stdout);
	vprintf(format, args);
	putchar('\n');
	va_end(args);
	fflush(stdout);
}
