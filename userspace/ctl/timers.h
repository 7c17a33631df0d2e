/* SPDX-License-Identifier: GPL-2.0 */
/* Timers as --add describes them, and the roster of the timers that were made. */
#ifndef TWHEELCTL_TIMERS_H
#define TWHEELCTL_TIMERS_H

#include "device.h"

#define NAME_LEN	24

/*
 * A timer as --add and the shell describe it. A member that was not given is zero; @says_period and
 * @says_slack distinguish this from a zero that was given. @unique means that no other timer has
 * the name, so that roster_add() need not search for it.
 */
struct spec {
	__u64 deadline;
	__u64 period;
	__u64 slack;
	unsigned int flags;
	unsigned int count;
	bool says_period;
	bool says_slack;
	bool unique;
	char name[NAME_LEN];
};

/* A timer that was made. Its user_data is its index in the roster, plus 1. */
struct entry {
	__u64 id;
	__u64 armed_at;
	__u64 first_deadline;
	char name[NAME_LEN];
};

struct roster {
	struct entry *entry;
	size_t count;
	size_t room;
	unsigned int serial;
};

/* The --add options of a command line. */
struct load {
	struct spec *spec;
	size_t count;
	size_t room;
};

const char *parse_spec(const char *text, struct spec *spec);
void hint_spec(const struct wheel *w, const struct spec *spec, int err);
const char *add_error_text(const struct wheel *w, int err);
struct entry *roster_find(const struct roster *r, const char *name);
const char *roster_name(const struct roster *r, __u64 user_data);
int roster_add(struct roster *r, struct wheel *w, const struct spec *spec,
	       struct twheel_timer *t);
bool was_due(const struct roster *r, const struct twheel_event *event);
void note_arming(struct entry *e, __u64 before, const struct spec *spec,
		 const struct twheel_timer *t);
void load_add(struct load *l, const struct verb *verb, const char *text);
unsigned int load_arm(const struct load *l, struct wheel *w, struct roster *r);

#endif /* TWHEELCTL_TIMERS_H */
