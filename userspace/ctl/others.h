/* SPDX-License-Identifier: GPL-2.0 */
/* Wheels of other processes. */
#ifndef TWHEELCTL_OTHERS_H
#define TWHEELCTL_OTHERS_H

#include "device.h"

#define COMM_LEN	64

/**
 * struct holder - a descriptor of a wheel
 * @pid: of the process
 * @fd: its number there
 * @comm: the name of the process
 */
struct holder {
	int pid;
	int fd;
	char comm[COMM_LEN];
};

/**
 * struct seen - a wheel, as fdinfo describes it
 * @has_id: the module numbers its wheels
 * @id: the number of this wheel
 * @opener: the process that opened it, if it has no descriptor
 * @uid: the user of @opener
 * @bytes: the memory that it takes, if it has no descriptor
 * @holder: its descriptors, in the order in which they were found
 * @holders: number of descriptors
 * @room: number of descriptors for which @holder has room
 * @clock_id: the clock of its times
 * @tick_ns: its resolution
 * @max_timers: maximum number of timers
 * @next: when it turns next; ~0: never
 * @now: the time on its clock when fdinfo was read; 0: the module is too old to report it
 * @known: which statistics the module reports, by SAMPLE_ of <metrics.h>
 * @stats: these statistics
 */
struct seen {
	bool has_id;
	__u64 id;
	int opener;
	unsigned int uid;
	__u64 bytes;
	struct holder *holder;
	size_t holders;
	size_t room;
	unsigned int clock_id;
	__u64 tick_ns;
	unsigned int max_timers;
	__u64 next;
	__u64 now;
	unsigned int known;
	struct twheel_stats stats;
};

/**
 * struct others - the wheels of a machine, or of a process
 * @seen: the wheels
 * @count: number of wheels
 * @room: number of wheels for which @seen has room
 * @denied: number of processes that we may not look at
 */
struct others {
	struct seen *seen;
	size_t count;
	size_t room;
	unsigned int denied;
};

/* The value of --pid. @pid is 0 without the option, and @fd is -1 without FD. */
struct target {
	int pid;
	int fd;
};

void parse_target(const struct verb *verb, const char *text, struct target *target);
void find_others(struct others *others, const struct target *target);
void find_hidden(struct others *others);
void free_others(struct others *others);
void hint_missing(const struct others *others);
void refuse_target(const struct others *others, const struct target *target)
	__attribute__((noreturn));
__u64 seen_next_in(const struct seen *s);
void open_other(struct wheel *w, const struct verb *verb, const struct conf *conf,
		const struct target *target);

#endif /* TWHEELCTL_OTHERS_H */
