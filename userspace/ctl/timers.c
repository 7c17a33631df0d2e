// SPDX-License-Identifier: GPL-2.0
/*
 * Timers as the user describes them, and the roster of the timers made from that.
 *
 *   5s                          once, in five seconds
 *   50ms,periodic               every 50 ms
 *   1s,period=10s               first in one second, then every ten seconds
 *   30s,slack=1s,label=client   may be a second late, and is called "client"
 *   @1700000000                 at that second of the wheel's clock
 *   idle                        made but not armed
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../shared/duration.h"
#include "device.h"
#include "error.h"
#include "option.h"
#include "show.h"
#include "timers.h"

/* A description cannot make more timers than this, because no wheel can hold more. */
#define MAX_COUNT	(1U << 24)

static const char *parse_count(const char *text, size_t len, unsigned int *count)
{
	unsigned long value = 0;
	size_t i;

	for (i = 0; i < len && isdigit((unsigned char)text[i]) && value <= MAX_COUNT; i++)
		value = value * 10 + (text[i] - '0');
	if (i < len || !value || value > MAX_COUNT)
		return "count must be from 1 to 16777216";
	*count = value;
	return NULL;
}

/*
 * A name begins with a letter, so it cannot be mistaken for an id. Timers without a label are
 * called t1, t2 and so on.
 */
static const char *parse_name(const char *text, size_t len, char name[NAME_LEN])
{
	size_t digits = len ? strspn(text + 1, "0123456789") : 0;
	size_t i;

	if (!len || len >= NAME_LEN)
		return "a label must have 1 to 23 characters";
	if (!isalpha((unsigned char)*text))
		return "a label must begin with a letter";
	for (i = 0; i < len; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("._-", text[i]))
			return "a label may contain only letters, digits, '.', '_' and '-'";
	if (*text == 't' && digits && digits == len - 1)
		return "names such as t1 are for timers without a label";
	memcpy(name, text, len);
	name[len] = '\0';
	return NULL;
}

static bool is_word(const char *text, size_t len, const char *word)
{
	return strlen(word) == len && !memcmp(text, word, len);
}

static bool is_key(const char **text, size_t *len, const char *key)
{
	size_t n = strlen(key);

	if (*len < n || memcmp(*text, key, n))
		return false;
	*text += n;
	*len -= n;
	return true;
}

static const char *parse_part(const char *text, size_t len, struct spec *s)
{
	if (is_word(text, len, "keep")) {
		s->flags |= TWHEEL_KEEP;
		return NULL;
	}
	if (is_word(text, len, "periodic")) {
		if (s->flags & (TWHEEL_ABSTIME | TWHEEL_DISARMED) || !s->deadline)
			return "\"periodic\" needs a delay to repeat: use period=DURATION";
		s->period = s->deadline;
		s->says_period = true;
		return NULL;
	}
	if (is_key(&text, &len, "period=")) {
		s->says_period = true;
		return parse_duration(text, len, &s->period);
	}
	if (is_key(&text, &len, "slack=")) {
		s->says_slack = true;
		return parse_duration(text, len, &s->slack);
	}
	if (is_key(&text, &len, "label="))
		return parse_name(text, len, s->name);
	if (is_key(&text, &len, "count="))
		return parse_count(text, len, &s->count);
	return "a comma may be followed by periodic, period=, slack=, keep, label= or count=";
}

/**
 * parse_spec() - read the description of a timer
 * @text: the description
 * @s: the result
 *
 * Return: NULL, or what is wrong with it.
 */
const char *parse_spec(const char *text, struct spec *s)
{
	size_t len = strcspn(text, ",");
	const char *why = NULL;

	*s = (struct spec){ .count = 1 };
	if (is_word(text, len, "idle")) {
		s->flags = TWHEEL_DISARMED;
	} else if (*text == '@') {
		s->flags = TWHEEL_ABSTIME;
		why = parse_seconds(text + 1, len - 1, &s->deadline);
	} else {
		why = parse_duration(text, len, &s->deadline);
	}
	while (!why && text[len]) {
		text += len + 1;
		len = strcspn(text, ",");
		why = parse_part(text, len, s);
	}
	return why;
}

/* Explains why the device may have refused a timer. */
void hint_spec(const struct wheel *w, const struct spec *s, int err)
{
	char tick[DURATION_LEN];

	if (err == -EINVAL && s->period && s->period < w->info.tick_ns)
		hint("a period is at least one tick (%s)",
		     duration_text(tick, w->info.tick_ns));
}

/*
 * Returns the text for an error of roster_add(). If the wheel has room left, the cause is another
 * limit.
 */
const char *add_error_text(const struct wheel *w, int err)
{
	struct twheel_stats stats;

	if (err == -ENOSPC && !twheel_stats(w->twheel, &stats) &&
	    stats.allocated + 1 < w->info.max_timers)
		return "this user has reached max_bytes_per_user of the module";
	return error_text(-err);
}

/* Finds the timer to which this name was given last. */
struct entry *roster_find(const struct roster *r, const char *name)
{
	size_t i = r->count;

	while (i--)
		if (!strcmp(r->entry[i].name, name))
			return &r->entry[i];
	return NULL;
}

/* Finds the timer of an event or of an element of a list, or returns NULL. */
static const struct entry *roster_entry(const struct roster *r, __u64 user_data)
{
	return user_data && user_data <= r->count ? &r->entry[user_data - 1] : NULL;
}

const char *roster_name(const struct roster *r, __u64 user_data)
{
	const struct entry *e = roster_entry(r, user_data);

	return e ? e->name : "?";
}

/* True if the timer was already due when it was armed, so that its event cannot be late. */
bool was_due(const struct roster *r, const struct twheel_event *event)
{
	const struct entry *e = roster_entry(r, event->user_data);

	return e && event->deadline_ns <= e->armed_at;
}

/*
 * Remembers when a timer was armed, which determines its bucket, and whether it was already due.
 * @before is a time of the wheel's clock before the arming.
 */
void note_arming(struct entry *e, __u64 before, const struct spec *s,
		 const struct twheel_timer *t)
{
	e->first_deadline = t->deadline_ns;
	if (s->flags & TWHEEL_ABSTIME || t->deadline_ns == ~0ULL)
		e->armed_at = before;
	else
		e->armed_at = t->deadline_ns - s->deadline;
}

/**
 * roster_add() - make one timer and enter it
 * @r: the roster
 * @w: the wheel
 * @s: its description. The count is ignored
 * @t: the timer that was made
 *
 * A name belongs to its timer until that ends.
 *
 * Return: 0, or a negative errno; EEXIST if the name is taken.
 */
int roster_add(struct roster *r, struct wheel *w, const struct spec *s,
	       struct twheel_timer *t)
{
	struct entry *e;
	__u64 before;
	int ret;

	if (s->name[0] && !s->unique) {
		e = roster_find(r, s->name);
		if (e) {
			struct twheel_timer old = { .id = e->id };

			if (!wheel_do(w, TWHEEL_OP_GET, &old))
				return -EEXIST;
		}
	}
	*t = (struct twheel_timer){
		.user_data = r->count + 1,
		.deadline_ns = s->deadline,
		.period_ns = s->period,
		.slack_ns = s->slack,
		/* A timer that is idle from the start must be kept. */
		.flags = s->flags | (s->flags & TWHEEL_DISARMED ? TWHEEL_KEEP : 0),
	};
	r->entry = grow_array(r->entry, r->count, &r->room, sizeof(*r->entry));
	before = twheel_now(w->twheel);
	ret = wheel_do(w, TWHEEL_OP_REGISTER, t);
	if (ret)
		return ret;
	e = &r->entry[r->count++];
	e->id = t->id;
	note_arming(e, before, s, t);
	if (s->name[0])
		snprintf(e->name, sizeof(e->name), "%s", s->name);
	else
		snprintf(e->name, sizeof(e->name), "t%u", ++r->serial);
	return 0;
}

/* True if load_arm() made @name from @s. */
static bool makes_name(const struct spec *s, const char *name)
{
	char last[16];
	size_t len = strlen(s->name);
	size_t digits;

	if (s->count == 1)
		return !strcmp(s->name, name);
	if (strncmp(s->name, name, len) || name[len] != '-')
		return false;
	name += len + 1;
	digits = strspn(name, "0123456789");
	if (!digits || name[digits] || *name == '0')
		return false;
	snprintf(last, sizeof(last), "%u", s->count);
	return digits < strlen(last) ||
	       (digits == strlen(last) && strcmp(name, last) <= 0);
}

static bool share_name(const struct spec *a, const struct spec *b)
{
	if (!a->name[0] || !b->name[0])
		return false;
	/*
	 * If both make several timers, they collide only if their labels are equal, because a
	 * number contains no '-'.
	 */
	if (a->count > 1 && b->count > 1)
		return !strcmp(a->name, b->name);
	return makes_name(a, b->name) || makes_name(b, a->name);
}

/* Reads one --add, or exits. */
void load_add(struct load *l, const struct verb *verb, const char *text)
{
	struct spec *s;
	const char *why;
	size_t i;

	l->spec = grow_array(l->spec, l->count, &l->room, sizeof(*l->spec));
	s = &l->spec[l->count];
	why = parse_spec(text, s);
	if (!why && s->name[0] && s->count > 1 &&
	    snprintf(NULL, 0, "%s-%u", s->name, s->count) >= NAME_LEN)
		why = "the label is too long for count=, which appends a number";
	for (i = 0; !why && i < l->count; i++)
		if (share_name(&l->spec[i], s))
			why = "the label is taken";
	if (why)
		usage_error(verb, "\"%s\": %s", text, why);
	s->unique = true;
	l->count++;
}

/**
 * load_arm() - make all timers of a load, or exit
 * @l: the load
 * @w: the wheel
 * @r: where to enter them
 *
 * The timers of one description with a label and a count are called label-1,
 * label-2 and so on.
 *
 * Return: how many timers were made.
 */
unsigned int load_arm(const struct load *l, struct wheel *w, struct roster *r)
{
	unsigned int made = 0;
	size_t i;

	for (i = 0; i < l->count; i++) {
		const struct spec *s = &l->spec[i];
		size_t label = strlen(s->name);
		unsigned int n;

		for (n = 1; n <= s->count; n++) {
			struct spec one = *s;
			struct twheel_timer t;
			int ret;

			if (s->name[0] && s->count > 1)
				snprintf(one.name + label, sizeof(one.name) - label, "-%u", n);
			ret = roster_add(r, w, &one, &t);
			if (ret) {
				complain("cannot arm timer %u: %s", made + 1,
					 add_error_text(w, ret));
				hint_spec(w, &one, ret);
				exit(error_status(-ret));
			}
			made++;
		}
	}
	return made;
}
