/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What all fuzzers share.
 */
#ifndef TWHEELD_FUZZ_H
#define TWHEELD_FUZZ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Unlike assert(), this also checks with NDEBUG. */
static inline void must(bool holds)
{
	if (!holds)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* TWHEELD_FUZZ_H */
