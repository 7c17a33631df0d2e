// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * Arrays that grow in place, so that pointers into them stay valid. An arena reserves address
 * space that cannot be accessed, and makes more of it usable on demand. Only the usable part costs
 * memory, even if memory is locked or must not be overcommitted.
 */
#include "internal.h"

#include <sys/mman.h>
#include <unistd.h>

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE	0x100000
#endif

/* Size of the first usable part, which doubles whenever the arena grows. */
#define FIRST		(64UL << 10)
/* The arena asks for large pages beyond this size. */
#define LARGE_PAGE	(2UL << 20)

static size_t round_up(size_t bytes, size_t page)
{
	return (bytes + page - 1) & ~(page - 1);
}

/*
 * Reserves @bytes, at @at unless that is NULL. After mlockall() they count as locked, so unlock
 * them.
 */
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
	 * Until it is unlocked, the whole range exceeds the limit of locked memory. So reserve it
	 * in smaller pieces, each below the one before, because the kernel places mappings
	 * downward as well.
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
 * Makes the first @bytes usable. The new part is mapped again, because after
 * mlockall(MCL_FUTURE) the kernel locks a new mapping, but not one whose protection changes.
 *
 * It is mapped without access, and then made writable. If memory must not be overcommitted, the
 * kernel may refuse to map writable memory, and before 6.12 it has removed the old mapping by
 * then, so that another thread could map something else in the hole.
 *
 * Return: false if there is no memory, in which case the arena is as before.
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

/* Makes at least the first @bytes usable. Return: 0 or -ENOMEM. */
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
