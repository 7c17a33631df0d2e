// SPDX-License-Identifier: GPL-2.0
/* Lanes, home daemons, back-off and leases of tasks. */
#include <stdio.h>

#include "tap.h"
#include "work/task.h"

static void lanes(void)
{
	unsigned int count[4] = { 0 };
	char id[16];

	/* FNV-1a of "a" is 0xe40c292c, of "foobar" 0xbf9cf968. */
	is_number(task_lane("a", 256), 0x2c, "FNV-1a of a");
	is_number(task_lane("foobar", 256), 0x68, "FNV-1a of foobar");
	is_number(task_lane("foobar", 1), 0, "a single lane has all tasks");
	for (unsigned int i = 0; i < 10000; i++) {
		snprintf(id, sizeof(id), "task-%u", i);
		count[task_lane(id, 4)]++;
	}
	for (unsigned int i = 0; i < 4; i++)
		ok(count[i] > 2000 && count[i] < 3000, "lane %u has %u of 10,000", i, count[i]);
}

static void homes(void)
{
	const char *const name[] = { "00aa", "00bb", "00cc", "00dd" };
	unsigned int home[4] = { 0 }, moved = 0, wrong = 0;

	for (unsigned int lane = 0; lane < 256; lane++) {
		unsigned int seen = 0, first = 9, without = 9;

		for (unsigned int i = 0; i < 4; i++) {
			const char *others[3];
			unsigned int n = 0, rank;

			for (unsigned int j = 0; j < 4; j++)
				if (j != i)
					others[n++] = name[j];
			rank = task_rank(name[i], others, 3, "q", lane);
			seen |= 1 << rank;
			if (!rank)
				first = i;
			/* The other daemons, without the last one. */
			if (i < 3) {
				const char *two[2] = { name[(i + 1) % 3], name[(i + 2) % 3] };

				if (!task_rank(name[i], two, 2, "q", lane))
					without = i;
			}
		}
		wrong += seen != 15;
		home[first]++;
		moved += first != 3 && first != without;
	}
	is_number(wrong, 0, "four members have the ranks 0 to 3 in each lane");
	for (unsigned int i = 0; i < 4; i++)
		ok(home[i] > 40 && home[i] < 90, "member %u is the home of %u of 256", i, home[i]);
	is_number(moved, 0, "if a member goes, only its own lanes move");
	is_number(task_rank("00aa", NULL, 0, "q", 1), 0, "a lonely daemon is at home everywhere");
}

static void delays(void)
{
	static const struct {
		unsigned int attempt;
		uint64_t least, most;
	} rows[] = {
		{ 1, 1000, 1200 }, { 2, 2000, 2400 }, { 3, 4000, 4800 }, { 4, 8000, 9600 },
		{ 5, 10000, 12000 }, { 64, 10000, 12000 }, { 1000, 10000, 12000 },
	};
	const struct retry r = { .limit = 10, .base_ms = 1000, .cap_ms = 10000, .jitter = 200 };
	const struct retry big = { .base_ms = UINT32_MAX, .cap_ms = UINT32_MAX, .jitter = 1000 };

	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++) {
		is_number(task_backoff_ms(&r, rows[i].attempt, 0), rows[i].least,
			  "attempt %u: at least", rows[i].attempt);
		ok(task_backoff_ms(&r, rows[i].attempt, UINT32_MAX) <= rows[i].most &&
		   task_backoff_ms(&r, rows[i].attempt, UINT32_MAX) > rows[i].most - 5,
		   "attempt %u: at most", rows[i].attempt);
	}
	ok(task_backoff_ms(&big, 9, UINT32_MAX) >= 2ULL * UINT32_MAX - 100000,
	   "the longest delay does not wrap");
	is_number(task_delay_ms(1000, 500), 1000, "a shorter Retry-After does not count");
	is_number(task_delay_ms(1000, 5000), 5000, "a longer Retry-After counts");
}

static void leases(void)
{
	ok(task_may_begin(10500, 10000, 0), "500 ms are enough");
	ok(!task_may_begin(10499, 10000, 0), "499 ms are not");
	ok(!task_may_begin(10500, 10000, 1), "the clock's bound counts");
	ok(!task_may_begin(9000, 10000, 0), "a lease that is over");
}

static void rhythm(void)
{
	is_number(task_rank_delay_ms(0), 0, "the home does not wait");
	is_number(task_rank_delay_ms(1), 150, "a daemon of rank 1 waits 150 ms");
	is_number(task_rank_delay_ms(2), 1000, "a daemon of rank 2 waits 1 s");
	is_number(task_rank_delay_ms(99), 1000, "a daemon of rank 99 waits 1 s");
	is_number(task_sweep_ms(0), 1000, "the home sweeps each second");
	is_number(task_sweep_ms(1), 5000, "rank 1 sweeps every 5 s");
	is_number(task_sweep_ms(7), 30000, "all other ranks sweep every 30 s");
	is_number(task_idle_sweep_ms(4), 30000, "an empty lane is swept every 30 s");
	is_number(task_idle_sweep_ms(4000), 400000,
		  "of many empty lanes, ten are swept in a second");
	is_number(task_next_limit(0, 128), 32, "the first take after a pause asks for 32 tasks");
	is_number(task_next_limit(32, 128), 64, "the next take asks for twice as many tasks");
	is_number(task_next_limit(128, 128), 128, "up to the batch");
	is_number(task_next_limit(0, 8), 8, "a small batch");
}

int main(void)
{
	lanes();
	homes();
	delays();
	leases();
	rhythm();
	return tap_end();
}
