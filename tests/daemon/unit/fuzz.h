/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What each fuzzer begins with.
 */
#ifndef TWHEELD_FUZZ_H
#define TWHEELD_FUZZ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Not assert(): it must hold with NDEBUG, too. */
static inline void must(bool holds)
{
	if (!holds)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* TWHEELD_FUZZ_H */
