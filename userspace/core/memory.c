// SPDX-License-Identifier: GPL-2.0
/* The kernel's memory, which is counted and can run out. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <linux/slab.h>

unsigned long memory_used;
unsigned long memory_left = ~0UL;

static bool take(void)
{
	if (!memory_left)
		return false;
	if (memory_left != ~0UL)
		memory_left--;
	memory_used++;
	return true;
}

void *kcalloc(size_t nr, size_t size, int gfp)
{
	(void)gfp;
	return take() ? calloc(nr, size) : NULL;
}

void kfree(void *mem)
{
	memory_used -= !!mem;
	free(mem);
}

unsigned long get_zeroed_page(int gfp)
{
	void *page;

	(void)gfp;
	if (!take())
		return 0;
	page = aligned_alloc(PAGE_SIZE, PAGE_SIZE);
	if (page)
		memset(page, 0, PAGE_SIZE);
	return (unsigned long)page;
}

/* The next page shall not be the same one, so one is kept back. */
void free_page(unsigned long page)
{
	static void *last;

	if (!page)
		return;
	memory_used--;
	free(last);
	last = (void *)page;
}
