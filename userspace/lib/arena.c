// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * Arrays that grow in place: address space that is reserved without access, and made
 * usable as it is needed. So it costs what is used, also where memory is not overcommitted
 * or is locked, and a pointer into it stays good.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "internal.h"

/* The first part; each further one doubles what there is. */
#define FIRST		(64UL << 10)
/* What lies beyond this is in large pages, where the machine has them for the asking. */
#define LARGE_PAGE	(2UL << 20)

static size_t round_up(size_t bytes, size_t page)
{
	return (bytes + page - 1) & ~(page - 1);
}

int twheel__arena_init(struct arena *arena, size_t bytes)
{
	arena->reserved = round_up(bytes, sysconf(_SC_PAGESIZE));
	arena->usable = 0;
	arena->base = mmap(NULL, arena->reserved, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (arena->base == MAP_FAILED) {
		arena->base = NULL;
		return -ENOMEM;
	}
	/* After mlockall() it would count as locked. */
	munlock(arena->base, arena->reserved);
	return 0;
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
	if (mprotect(arena->base, usable, PROT_READ | PROT_WRITE)) {
		usable = round_up(bytes, sysconf(_SC_PAGESIZE));
		if (mprotect(arena->base, usable, PROT_READ | PROT_WRITE))
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
