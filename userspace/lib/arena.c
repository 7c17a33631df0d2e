// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * Arrays that grow in place: address space that is reserved without access, and made
 * usable as it is needed. So it costs what is used, also where memory is not overcommitted
 * or is locked, and a pointer into it stays good.
 */
#include "internal.h"

#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE	0x100000
#endif

/* The first part; each further one doubles what there is. */
#define FIRST		(64UL << 10)
/* So much is reserved at a time where little may be locked. */
#define PIECE		(1UL << 20)
/* What lies beyond this is in large pages, where the machine has them for the asking. */
#define LARGE_PAGE	(2UL << 20)

static size_t round_up(size_t bytes, size_t page)
{
	return (bytes + page - 1) & ~(page - 1);
}

/* Reserves @bytes, at @at if that is not NULL. After mlockall() they would count as locked. */
static void *reserve(void *at, size_t bytes)
{
	void *p = mmap(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE |
		       (at ? MAP_FIXED_NOREPLACE : 0), -1, 0);

	if (p == MAP_FAILED)
		return NULL;
	munlock(p, bytes);
	/* Before Linux 4.17 the address is a hint. */
	if (at && p != at) {
		munmap(p, bytes);
		return NULL;
	}
	return p;
}

int twheel__arena_init(struct arena *arena, size_t bytes)
{
	size_t piece;

	arena->reserved = round_up(bytes, sysconf(_SC_PAGESIZE));
	arena->usable = 0;
	arena->base = reserve(NULL, arena->reserved);
	if (arena->base || errno != EAGAIN)
		return arena->base ? 0 : -ENOMEM;
	/*
	 * For a moment it would be more than may be locked. So it is reserved in pieces, each
	 * below the one before, where the kernel puts mappings as well.
	 */
	bytes = arena->reserved;
	piece = bytes < PIECE ? bytes : PIECE;
	arena->base = reserve(NULL, piece);
	for (arena->reserved = piece; arena->base && arena->reserved < bytes;
	     arena->reserved += piece) {
		char *below;

		piece = bytes - arena->reserved < PIECE ? bytes - arena->reserved : PIECE;
		below = reserve(arena->base - piece, piece);
		if (!below)
			twheel__arena_free(arena);
		else
			arena->base = below;
	}
	return arena->base ? 0 : -ENOMEM;
}

/*
 * Makes the first @bytes usable. After mlockall(MCL_FUTURE) what is mapped anew is locked,
 * and what only changes its protection is not.
 *
 * Where memory is not overcommitted, the kernel may refuse what can be written to. A kernel
 * before 6.12 has unmapped what was there by then, and another thread may map something in
 * the hole. So this maps anew without access, which promises no memory.
 *
 * Return: whether that could be done. If not, the rest is as it was.
 */
static bool use(struct arena *arena, size_t bytes)
{
	char *from = arena->base + arena->usable;
	size_t more = bytes - arena->usable;

	if (mmap(from, more, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
		 0) == MAP_FAILED)
		return false;
	if (!mprotect(from, more, PROT_READ | PROT_WRITE))
		return true;
	munlock(from, more);
	return false;
}

/* Makes the first @bytes usable, and perhaps more. Return: 0 or -ENOMEM. */
int twheel__arena_grow(struct arena *arena, size_t bytes)
{
	size_t usable = arena->usable ? arena->usable : FIRST;

	if (bytes <= arena->usable)
		return 0;
	while (usable < bytes)
		usable *= 2;
	if (usable > arena->reserved)
		usable = arena->reserved;
	if (!use(arena, usable)) {
		usable = round_up(bytes, sysconf(_SC_PAGESIZE));
		if (!use(arena, usable))
			return -ENOMEM;
	}
	if (usable > 2 * LARGE_PAGE)
		madvise(arena->base + LARGE_PAGE, usable - LARGE_PAGE, MADV_HUGEPAGE);
	arena->usable = usable;
	return 0;
}

void twheel__arena_free(struct arena *arena)
{
	if (arena->base)
		munmap(arena->base, arena->reserved);
	arena->base = NULL;
}
