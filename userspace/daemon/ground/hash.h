/* SPDX-License-Identifier: GPL-2.0 */
/* Hashes for purposes that need no secrecy. This file does no I/O. */
#ifndef TWHEELD_GROUND_HASH_H
#define TWHEELD_GROUND_HASH_H

#include <stdint.h>

#define FNV64_START	14695981039346656037ULL

/**
 * fnv32() - FNV-1a of a text, 32 bits
 */
uint32_t fnv32(const char *text);

/**
 * fnv64() - FNV-1a, 64 bits, continued by a text
 * @hash: FNV64_START, or the hash of what stands before the text
 */
uint64_t fnv64(uint64_t hash, const char *text);

/**
 * mix64() - spread the bits of a number over all 64, as splitmix64 does
 *
 * The high bits of FNV follow its low ones too closely to be compared.
 */
uint64_t mix64(uint64_t x);

#endif /* TWHEELD_GROUND_HASH_H */
