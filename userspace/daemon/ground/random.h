/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Random numbers.
 */
#ifndef TWHEELD_GROUND_RANDOM_H
#define TWHEELD_GROUND_RANDOM_H

#include <stdint.h>

/**
 * random_u64() - a random number, but not for secrets
 */
uint64_t random_u64(void);

/**
 * random_id() - a random number that no other daemon draws; never 0
 */
uint64_t random_id(void);

#endif /* TWHEELD_GROUND_RANDOM_H */
