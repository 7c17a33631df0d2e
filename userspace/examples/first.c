// SPDX-License-Identifier: GPL-2.0
/* What does a first program look like? It is the one in README.md. */
#include <stdio.h>
#include <libtwheel.h>

#define DELAY	250000000ULL	/* ns */

int main(void)
{
	struct twheel_event event = { 0 };
	struct twheel *w;
	uint64_t id;

	if (twheel_open(&w, NULL))	/* the kernel's wheel, or one in this process */
		return 1;
	if (twheel_add(w, twheel_after(w, DELAY), 42, &id))
		return 1;
	for (int i = 0; i < 100000; i++)	/* heartbeats: no system call */
		twheel_set(w, id, twheel_after(w, DELAY));
	while (!twheel_read(w, &event, 1))	/* until it expires */
		twheel_wait(w, -1);
	printf("timeout %d of the %s wheel\n", (int)event.user_data, twheel_backend(w));
	twheel_del(w, id);
	twheel_close(w);
}
