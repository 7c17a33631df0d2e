// SPDX-License-Identifier: GPL-2.0
/* Hashes for purposes that need no secrecy. See hash.h. */
#include "ground/hash.h"

uint32_t fnv32(const char *text)
{
	uint32_t hash = 2166136261U;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 16777619U;
	return hash;
}

uint64_t fnv64(uint64_t hash, const char *text)
{
	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * 1099511628211ULL;
	return hash;
}

uint64_t mix64(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;
	x = (x ^ x >> 27) * 0x94d049bb133111ebULL;
	return x ^ x >> 31;
}
