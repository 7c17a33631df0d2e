// SPDX-License-Identifier: GPL-2.0
/*
 * Fault injection: in each call, every point where an allocation or a copy may fail is made to
 * fail, one after the other, until the call has no more of them. First object allocations
 * fail, then page allocations, and all of that several times. Each time the call must either
 * fail with ENOMEM or EFAULT and leave everything as before, or report what it did. Repeated,
 * it must succeed.
 *
 * Needs a kernel with FAILSLAB, FAIL_PAGE_ALLOC, FAULT_INJECTION_USERCOPY and
 * FAULT_INJECTION_DEBUG_FS. Elsewhere it fails, because nothing would be tested.
 */
#include "machine.h"
#include "module.h"
#include "stress.h"

#include <dirent.h>
#include <setjmp.h>
#include <sys/epoll.h>

#define DEBUGFS		"/sys/kernel/debug/"
#define KMEMLEAK	DEBUGFS "kmemleak"
#define SLABS		"/sys/kernel/slab"

/* More failure points than any call has. If a call has more, that is a failure. */
#define MAX_SITES	400

/* The number of operations of a batch or list that the module processes at a time. */
#define GROUP		24
/* Operations in a batch, and timers of the full scene: three groups. */
#define MANY		56
#define UNREAD		90
#define LISTED		128

struct scene {
	int fd;
	int epoll;
	size_t bytes, marks;
	struct twheel_table *map;
	__u64 armed, idle, unread;
	__u64 many[MANY];
	char fdinfo[64];
	/* The arguments of the actions. */
	union {
		struct twheel_setup setup;
		struct twheel_info info;
		struct twheel_timer timer;
		struct twheel_stats stats;
		struct twheel_timer timers[LISTED];
		struct twheel_op ops[MANY];
		struct twheel_event events[2 * UNREAD];
		char text[4096];
	} buf;
};

/* Everything that can be observed about a wheel. */
struct snapshot {
	struct twheel_info info;
	struct twheel_stats stats;
	int nr;
	struct twheel_timer timers[LISTED];
	__u64 words[LISTED];
};

struct action {
	const char *name;
	/* The minimum number of failure points, for objects and for pages. */
	unsigned int least;
	void (*prepare)(struct __test_metadata *_metadata, struct scene *s);
	/* Makes the call. Returns its result, or a negative errno. */
	int (*act)(struct scene *s);
	/* Returns true if the changes match @ret. If it is NULL, there must be no change. */
	bool (*right)(struct scene *s, int ret, const struct snapshot *before,
		      const struct snapshot *after);
	/*
	 * The same for a result that could not be written after everything was done. A pointer
	 * that is simply bad is noticed earlier.
	 */
	bool (*lost)(struct scene *s, int ret, const struct snapshot *before,
		     const struct snapshot *after);
	/* How many of the failure points are results of operations: see answers_fail(). */
	unsigned int answers;
	/* How many more failure points user-mode Linux has. */
	unsigned int more;
};

static bool set_fault(const char *file, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), DEBUGFS "%s", file);
	return write_text(path, value);
}

/* What is refused: objects, pages, or both. Copies fail in any case. */
enum refused { OBJECTS, PAGES, NR_REFUSED, BOTH = NR_REFUSED };

/*
 * How often each point is made to fail. Now and then the kernel also allocates objects for its
 * accounting and pages for its slabs, which shifts the numbers of the points. The next sweep
 * covers these.
 */
#define SWEEPS		4
/* The maximum number of repetitions of all of that. */
#define TRIES		4U

/*
 * Lets all caches refuse objects on demand, except those of the kernel's own records about
 * objects, which would each be a point of their own.
 */
static bool mark_caches(void)
{
	DIR *dir = opendir(SLABS);
	struct dirent *entry;
	unsigned int marked = 0;
	char path[512];

	while (dir && (entry = readdir(dir))) {
		snprintf(path, sizeof(path), SLABS "/%s/failslab", entry->d_name);
		if (strncmp(entry->d_name, "kmemleak_", 9) &&
		    strncmp(entry->d_name, "debug_objects_", 14))
			marked += write_text(path, "1");
	}
	if (dir)
		closedir(dir);
	return marked;
}

/* Returns true if this kernel can make every allocation fail without logging it. */
static bool faults_are_there(void)
{
	return mark_caches() && set_fault("failslab/cache-filter", "Y") &&
	       set_fault("failslab/verbose", "0") &&
	       set_fault("fail_page_alloc/ignore-gfp-highmem", "N") &&
	       set_fault("fail_page_alloc/min-order", "0") &&
	       set_fault("fail_page_alloc/verbose", "0") &&
	       set_fault("fail_usercopy/verbose", "0") &&
	       !access("/proc/thread-self/fail-nth", W_OK);
}

static bool refuse(enum refused what)
{
	return set_fault("failslab/ignore-gfp-wait", what == PAGES ? "Y" : "N") &&
	       set_fault("fail_page_alloc/ignore-gfp-wait", what == OBJECTS ? "Y" : "N");
}

/* True if every allocation after the first failure fails too. */
static bool memory_ends;

/*
 * Makes the kernel refuse all memory to a process that asks for that. The process must not
 * fault then.
 */
static bool set_end(bool ends)
{
	static const char *const of[] = { "failslab", "fail_page_alloc" };
	unsigned int i;
	char path[64];

	memory_ends = ends;
	for (i = 0; i < ARRAY_SIZE(of); i++) {
		snprintf(path, sizeof(path), "%s/task-filter", of[i]);
		if (!set_fault(path, "Y"))
			return false;
		snprintf(path, sizeof(path), "%s/times", of[i]);
		if (!set_fault(path, "-1"))
			return false;
		snprintf(path, sizeof(path), "%s/probability", of[i]);
		if (!set_fault(path, ends ? "100" : "0"))
			return false;
	}
	return !ends || !mlockall(MCL_CURRENT);
}

#define NO_FAULTS	"NO FAULT INJECTION HERE: this kernel tests nothing of this"

/* Performs one action in which the @nth point fails. Returns its result. */
static int act_failing(struct scene *s, const struct action *d, unsigned int nth, bool *injected)
{
	int fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	int end = open("/proc/thread-self/make-it-fail", O_WRONLY | O_CLOEXEC);
	char text[16];
	ssize_t len;
	int ret;

	len = snprintf(text, sizeof(text), "%u", nth);
	/* While the failure is still to come, nothing else fails. */
	if (fd < 0 || (memory_ends && write(end, "1", 1) != 1) || write(fd, text, len) != len)
		exit(KSFT_FAIL);
	ret = d->act(s);
	/* Reading the rest copies too, and so may use up the last point. */
	len = pread(fd, text, sizeof(text) - 1, 0);
	text[len > 0 ? len : 0] = '\0';
	*injected = len > 0 && !strtoul(text, NULL, 10);
	while (pwrite(fd, "0", 1, 0) != 1 || (memory_ends && pwrite(end, "0", 1, 0) != 1))
		;
	close(end);
	close(fd);
	return ret;
}

/* Takes a snapshot without assertions, for use between an action and its end. */
static bool look(const struct scene *s, struct snapshot *snap)
{
	struct twheel_list l = { .timers = ptr_u64(snap->timers), .count = LISTED };
	int i;

	memset(snap, 0, sizeof(*snap));
	if (call(s->fd, TWHEEL_IOC_INFO, &snap->info) || !conserved(s->fd, &snap->stats))
		return false;
	snap->nr = call(s->fd, TWHEEL_IOC_LIST, &l);
	if (snap->nr < 0 || snap->stats.allocated != (__u64)snap->nr)
		return false;
	for (i = 0; s->map && i < snap->nr; i++) {
		char *slots = (char *)s->map + s->map->slots_offset;

		snap->words[i] = word((struct twheel_slot *)slots + (__u32)snap->timers[i].id);
	}
	return true;
}

static bool same(const struct snapshot *a, const struct snapshot *b)
{
	return same_counts(&a->stats, &b->stats) && a->nr == b->nr &&
	       !memcmp(&a->info, &b->info, sizeof(a->info)) &&
	       !memcmp(a->timers, b->timers, sizeof(a->timers)) &&
	       !memcmp(a->words, b->words, sizeof(a->words));
}

/* Scenes, in which an action takes place */

static void fresh(struct __test_metadata *_metadata, struct scene *s)
{
	memset(s, 0, sizeof(*s));
	s->fd = open_wheel(_metadata, O_NONBLOCK);
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	ASSERT_GE(s->epoll, 0);
	s->bytes = info(_metadata, s->fd).table_bytes;
	s->marks = marks_offset(info(_metadata, s->fd).max_timers);
	snprintf(s->fdinfo, sizeof(s->fdinfo), "/proc/thread-self/fdinfo/%d", s->fd);
}

/* As another user, who has no wheel yet. */
static void fresh_of_another(struct __test_metadata *_metadata, struct scene *s)
{
	ASSERT_EQ(0, seteuid(NOBODY));
	fresh(_metadata, s);
	ASSERT_EQ(0, seteuid(0));
}

static void fresh_map(struct __test_metadata *_metadata, struct scene *s)
{
	fresh(_metadata, s);
	s->map = map_at(s->fd, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
	ASSERT_TRUE(s->map != MAP_FAILED);
}

/* One timer in each state, many armed timers, and the table. */
static void full(struct __test_metadata *_metadata, struct scene *s)
{
	fresh_map(_metadata, s);
	s->armed = add(_metadata, s->fd, HOUR, TWHEEL_KEEP, 1);
	s->idle = reserve(_metadata, s->fd, 2);
	s->unread = add(_metadata, s->fd, 0, TWHEEL_KEEP, 3);
	add_many(_metadata, s->fd, MANY, 2 * HOUR, TWHEEL_KEEP, 10, s->many);
}

static void all_unread(struct __test_metadata *_metadata, struct scene *s)
{
	fresh(_metadata, s);
	add_many(_metadata, s->fd, UNREAD, 0, 0, 0, NULL);
}

static void end_scene(struct scene *s)
{
	if (s->map)
		munmap(s->map, s->bytes);
	close(s->epoll);
	close(s->fd);
}

/* Actions, which are the calls under test */

static int do_open(struct scene *s)
{
	int fd = open(TWHEEL_DEVICE, O_RDWR | O_CLOEXEC);

	(void)s;
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

static int do_setup(struct scene *s)
{
	s->buf.setup = (struct twheel_setup) {
		.tick_ns = 1 << 22, .slot_bits = 8, .max_timers = 77,
	};
	return call(s->fd, TWHEEL_IOC_SETUP, &s->buf.setup);
}

/* Refused in any case, and not for lack of memory. */
static int do_setup_used(struct scene *s)
{
	int ret = do_setup(s);

	if (ret == -EBUSY)
		return 0;
	return ret == -EFAULT ? ret : -EPROTO;
}

static bool setup_right(struct scene *s, int ret, const struct snapshot *before,
			const struct snapshot *after)
{
	struct twheel_timer t = { .deadline_ns = HOUR };

	return !ret && after->info.tick_ns == 1 << 22 && after->info.slot_bits == 8 &&
	       after->info.max_timers == 77 && same_counts(&before->stats, &after->stats) &&
	       !call(s->fd, TWHEEL_IOC_REGISTER, &t) && cancel(s->fd, t.id) == TWHEEL_ARMED;
}

static int do_info(struct scene *s)
{
	return call(s->fd, TWHEEL_IOC_INFO, &s->buf.info);
}

static int do_stats(struct scene *s)
{
	return call(s->fd, TWHEEL_IOC_STATS, &s->buf.stats);
}

static int do_register(struct scene *s)
{
	s->buf.timer = (struct twheel_timer) { .deadline_ns = HOUR, .user_data = 99 };
	return call(s->fd, TWHEEL_IOC_REGISTER, &s->buf.timer);
}

/*
 * Checks that @snap has one timer more than @before, which is @t, and that all others are the
 * same.
 */
static bool register_right(struct scene *s, int ret, const struct snapshot *before,
			   const struct snapshot *after)
{
	const struct twheel_timer *last = &after->timers[after->nr - 1];

	return !ret && after->nr == before->nr + 1 &&
	       !memcmp(before->timers, after->timers, before->nr * sizeof(*last)) &&
	       last->id == s->buf.timer.id && last->user_data == 99 &&
	       last->state == TWHEEL_ARMED;
}

/*
 * Nobody knows the ids of these timers, so they must be gone. Only the counters show that they
 * existed.
 */
static bool forgotten(struct scene *s, int ret, const struct snapshot *before,
		      const struct snapshot *after)
{
	__u64 made = after->stats.registered - before->stats.registered;

	(void)s;
	return !ret && made && after->nr == before->nr &&
	       !memcmp(before->timers, after->timers, sizeof(before->timers)) &&
	       !memcmp(before->words, after->words, sizeof(before->words)) &&
	       after->stats.cancelled - before->stats.cancelled == made;
}

static int do_rearm(struct scene *s)
{
	s->buf.timer = (struct twheel_timer) {
		.id = s->unread, .deadline_ns = 3 * HOUR, .flags = TWHEEL_KEEP,
	};
	return call(s->fd, TWHEEL_IOC_REARM, &s->buf.timer);
}

/* Returns the timer in @snap with this id, or NULL. */
static const struct twheel_timer *find(const struct snapshot *snap, __u64 id)
{
	int i;

	for (i = 0; i < snap->nr; i++)
		if (snap->timers[i].id == id)
			return &snap->timers[i];
	return NULL;
}

static bool rearm_right(struct scene *s, int ret, const struct snapshot *before,
			const struct snapshot *after)
{
	const struct twheel_timer *t = find(after, s->unread);

	return !ret && t && t->state == TWHEEL_ARMED && t->deadline_ns > 2 * HOUR &&
	       after->nr == before->nr && after->stats.withdrawn == 1 && !after->stats.unread;
}

static int do_cancel(struct scene *s)
{
	s->buf.timer = (struct twheel_timer) { .id = s->armed };
	return call(s->fd, TWHEEL_IOC_CANCEL, &s->buf.timer);
}

static bool cancel_right(struct scene *s, int ret, const struct snapshot *before,
			 const struct snapshot *after)
{
	return !ret && after->nr == before->nr - 1 && !find(after, s->armed);
}

static int do_get(struct scene *s)
{
	s->buf.timer = (struct twheel_timer) { .id = s->armed };
	return call(s->fd, TWHEEL_IOC_GET, &s->buf.timer);
}

static int do_batch(struct scene *s, __u32 opcode, __u64 deadline)
{
	struct twheel_batch b = { .ops = ptr_u64(s->buf.ops), .count = MANY };
	unsigned int i;

	fill_ops(s->buf.ops, MANY, opcode, deadline, TWHEEL_KEEP);
	for (i = 0; i < MANY; i++)
		s->buf.ops[i].timer.id = s->many[i];
	return call(s->fd, TWHEEL_IOC_BATCH, &b);
}

static int do_batch_register(struct scene *s)
{
	return do_batch(s, TWHEEL_OP_REGISTER, HOUR);
}

static int do_batch_rearm(struct scene *s)
{
	return do_batch(s, TWHEEL_OP_REARM, 3 * HOUR);
}

static int do_batch_cancel(struct scene *s)
{
	return do_batch(s, TWHEEL_OP_CANCEL, 0);
}

static int do_batch_get(struct scene *s)
{
	return do_batch(s, TWHEEL_OP_GET, 0);
}

/* Of the reported operations, those with result 0 were done, and no others. */
static bool batch_register_right(struct scene *s, int ret, const struct snapshot *before,
				 const struct snapshot *after)
{
	int i, made = 0;

	for (i = 0; i < ret; i++) {
		const struct twheel_op *op = &s->buf.ops[i];

		if (op->result && op->result != -ENOMEM)
			return false;
		if (op->result)
			continue;
		if (!find(after, op->timer.id))
			return false;
		made++;
	}
	return after->nr == before->nr + made;
}

/*
 * The same, but whatever a group has done remains, even if its results could not be written.
 * At most one group can be done that was not reported.
 */
static bool batch_rearm_right(struct scene *s, int ret, const struct snapshot *before,
			      const struct snapshot *after)
{
	int i, moved = 0;

	for (i = 0; i < ret; i++)
		if (s->buf.ops[i].result)
			return false;
	for (i = 0; i < MANY; i++) {
		const struct twheel_timer *now = find(after, s->many[i]);
		const struct twheel_timer *then = find(before, s->many[i]);

		if (!now || !then)
			return false;
		if (now->deadline_ns != then->deadline_ns)
			moved++;
		else if (i < ret)
			return false;
	}
	return after->stats.rearmed - before->stats.rearmed == (__u64)moved &&
	       moved >= ret && moved <= ret + GROUP;
}

static bool batch_cancel_right(struct scene *s, int ret, const struct snapshot *before,
			       const struct snapshot *after)
{
	int i, gone = before->nr - after->nr;

	for (i = 0; i < ret; i++)
		if (s->buf.ops[i].result)
			return false;
	for (i = 0; i < MANY; i++)
		if (!find(after, s->many[i]) ? i >= gone : i < gone)
			return false;
	return gone >= ret && gone <= ret + GROUP;
}

static bool batch_get_right(struct scene *s, int ret, const struct snapshot *before,
			    const struct snapshot *after)
{
	int i;

	for (i = 0; i < ret; i++)
		if (s->buf.ops[i].result || s->buf.ops[i].timer.state != TWHEEL_ARMED)
			return false;
	return same(before, after);
}

static int do_list(struct scene *s)
{
	__u32 cursor = 0;

	return list(s->fd, s->buf.timers, LISTED, &cursor);
}

/* As many timers as were reported, from the first on. */
static bool list_right(struct scene *s, int ret, const struct snapshot *before,
		       const struct snapshot *after)
{
	return ret > 0 && ret <= before->nr && same(before, after) &&
	       !memcmp(s->buf.timers, before->timers, ret * sizeof(*before->timers));
}

static int do_kick(struct scene *s)
{
	return turn_now(s->fd);
}

static bool kick_right(struct scene *s, int ret, const struct snapshot *before,
		       const struct snapshot *after)
{
	(void)s;
	return !ret && same(before, after);
}

static int do_mmap(struct scene *s)
{
	void *p = map_at(s->fd, s->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);

	if (p == MAP_FAILED)
		return -errno;
	while (munmap(p, s->bytes))
		;
	return 0;
}

static sigjmp_buf bus;

static void on_bus(int sig)
{
	(void)sig;
	siglongjmp(bus, 1);
}

/* Stores to a page of the table for the first time. */
static int touch(struct scene *s, size_t offset)
{
	if (sigsetjmp(bus, 1))
		return -EFAULT;
	*(volatile __u64 *)((char *)s->map + offset) = 0;
	return 0;
}

static int do_touch(struct scene *s)
{
	return touch(s, offsetof(struct twheel_table, clock_id));
}

static int do_touch_slots(struct scene *s)
{
	return touch(s, PAGE);
}

static int do_touch_marks(struct scene *s)
{
	return touch(s, s->marks);
}

static bool touch_right(struct scene *s, int ret, const struct snapshot *before,
			const struct snapshot *after)
{
	return !ret && s->map->magic == TWHEEL_TABLE_MAGIC && same(before, after);
}

static int do_read(struct scene *s)
{
	return read_now(s->fd, s->buf.events, 2 * UNREAD);
}

static int do_readv(struct scene *s)
{
	char *p = (char *)s->buf.events;
	/* Events cross the borders of all these vectors. */
	struct iovec v[] = {
		{ p, 60 }, { p + 60, 100 }, { p + 160, sizeof(s->buf.events) - 160 },
	};
	ssize_t ret = readv(s->fd, v, ARRAY_SIZE(v));

	return ret < 0 ? -errno : (int)(ret / sizeof(struct twheel_event));
}

/* The events that were read came in order, and the others can be read now. */
static bool read_right(struct scene *s, int ret, const struct snapshot *before,
		       const struct snapshot *after)
{
	int i, more = UNREAD - ret;

	if (ret < 1 || ret > UNREAD || after->stats.delivered != (__u64)ret)
		return false;
	if (more && read_now(s->fd, s->buf.events + ret, UNREAD) != more)
		return false;
	for (i = 0; i < UNREAD; i++)
		if (s->buf.events[i].user_data != (__u64)i)
			return false;
	return read_now(s->fd, s->buf.events, 1) == -EAGAIN &&
	       before->nr - after->nr == ret;
}

static int do_poll(struct scene *s)
{
	struct pollfd p = { .fd = s->fd, .events = POLLIN };
	int ret = poll(&p, 1, 0);

	return ret < 0 ? -errno : ret;
}

static bool poll_right(struct scene *s, int ret, const struct snapshot *before,
		       const struct snapshot *after)
{
	(void)s;
	return ret == 1 && same(before, after);
}

static int do_epoll(struct scene *s)
{
	struct epoll_event ev = { .events = EPOLLIN };

	return epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->fd, &ev) ? -errno : 0;
}

static bool epoll_right(struct scene *s, int ret, const struct snapshot *before,
			const struct snapshot *after)
{
	struct epoll_event ev;

	return !ret && epoll_wait(s->epoll, &ev, 1, 0) == 1 && same(before, after);
}

static int do_fdinfo(struct scene *s)
{
	int fd = open(s->fdinfo, O_RDONLY | O_CLOEXEC);
	ssize_t ret;

	if (fd < 0)
		return -errno;
	ret = read(fd, s->buf.text, sizeof(s->buf.text) - 1);
	if (ret < 0)
		ret = -errno;
	else
		s->buf.text[ret] = '\0';
	close(fd);
	return ret;
}

static bool fdinfo_right(struct scene *s, int ret, const struct snapshot *before,
			 const struct snapshot *after)
{
	return ret > 0 && strstr(s->buf.text, "twheel-next:") && same(before, after);
}

static bool action_right(const struct action *d, struct scene *s, int ret,
			 const struct snapshot *before, const struct snapshot *after)
{
	return d->right ? d->right(s, ret, before, after) : !ret && same(before, after);
}

/* The outcomes, by failure point, and the maximum number of points in a round. */
struct tally {
	unsigned int most, refused, survived, lost;
};

/*
 * Makes point @nth of an action fail, and checks the outcome. Returns true if there was such a
 * point.
 */
static bool fail_place(struct __test_metadata *_metadata, const struct action *d, unsigned int nth,
		       struct tally *tally)
{
	static struct snapshot before, after;
	static struct scene s;
	bool injected;
	int ret;

	d->prepare(_metadata, &s);
	/* This touches no page of a mapping that has no timer. */
	ASSERT_TRUE(look(&s, &before));
	ret = act_failing(&s, d, nth, &injected);
	ASSERT_TRUE(look(&s, &after));
	if (ret < 0) {
		ASSERT_TRUE(injected)
			TH_LOG("%s: %s, though nothing failed", d->name, strerror(-ret));
		ASSERT_TRUE(ret == -ENOMEM || ret == -EFAULT)
			TH_LOG("%s: place %u: %s", d->name, nth, strerror(-ret));
	}
	if (ret >= 0) {
		ASSERT_TRUE(action_right(d, &s, ret, &before, &after))
			TH_LOG("%s: place %u: %d is not what it did", d->name, nth, ret);
		tally->survived += injected;
	} else if (same(&before, &after)) {
		tally->refused++;
		ret = d->act(&s);
		ASSERT_GE(ret, 0)
			TH_LOG("%s: place %u: then %s", d->name, nth, strerror(-ret));
		ASSERT_TRUE(look(&s, &after));
		ASSERT_TRUE(action_right(d, &s, ret, &before, &after))
			TH_LOG("%s: place %u: then not done", d->name, nth);
	} else {
		tally->lost++;
		ASSERT_TRUE(d->lost && ret == -EFAULT && d->lost(&s, 0, &before, &after))
			TH_LOG("%s: place %u: %s, and half done", d->name, nth,
			       strerror(-ret));
	}
	end_scene(&s);
	return injected;
}

/* Makes one point after the other fail. */
static void sweep_once(struct __test_metadata *_metadata, const struct action *d,
		       enum refused what, struct tally *tally)
{
	static const char *const names[] = { "objects", "pages", "both" };
	unsigned int round, nth = 0;
	bool injected;

	ASSERT_TRUE(refuse(what));
	do {
		ASSERT_LT(++nth, MAX_SITES);
		injected = false;
		for (round = 0; round < (memory_ends ? 4 * SWEEPS : SWEEPS); round++)
			injected |= fail_place(_metadata, d, nth, tally);
	} while (injected);
	if (nth - 1 > tally->most)
		tally->most = nth - 1;
	TH_LOG("%s, %s: %u places: %u times refused, %u survived, %u the answer alone",
	       d->name, names[what], tally->most,
	       tally->refused, tally->survived, tally->lost);
}

/*
 * The module writes results of operations with unsafe_copy_to_user(). Only architectures that
 * do not implement that themselves let it fail on demand: of those tested here, user-mode
 * Linux.
 */
static bool answers_fail(void)
{
	FILE *f = fopen("/proc/cpuinfo", "re");
	char line[256];
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = !!strstr(line, "User Mode Linux");
	if (f)
		fclose(f);
	return found;
}

/* Repeats the sweep if caches that others have just filled hide known failure points. */
static void sweep(struct __test_metadata *_metadata, const struct action *d)
{
	struct tally of[NR_REFUSED] = { };
	unsigned int least = d->least -
			     (answers_fail() ? 0 : NR_REFUSED * d->answers + d->more);
	unsigned int tries = 0;
	enum refused what;

	ASSERT_TRUE(faults_are_there())
		TH_LOG(NO_FAULTS);
	signal(SIGBUS, on_bus);
	do {
		for (what = 0; what < NR_REFUSED; what++)
			sweep_once(_metadata, d, what, &of[what]);
	} while (of[OBJECTS].most + of[PAGES].most < least && ++tries < TRIES);
	EXPECT_GE(of[OBJECTS].most + of[PAGES].most, least);
	TARGET_OF(d->name, "places", of[OBJECTS].most + of[PAGES].most, least);
	/*
	 * The failure is not always in the result, because there are points before the action
	 * too.
	 */
	if (d->lost)
		EXPECT_GE(of[OBJECTS].refused, 1);
}

FIXTURE(fail_nth) {};

FIXTURE_VARIANT(fail_nth) {
	struct action action;
};

FIXTURE_SETUP(fail_nth)
{
	ASSERT_TRUE(is_root());
}

NO_TEARDOWN(fail_nth)

#define CALL(name, ...)	VARIANT(fail_nth, name, .action = { #name, __VA_ARGS__ })

CALL(open, 6, fresh_of_another, do_open);
CALL(setup, 6, fresh, do_setup, setup_right, setup_right, .more = 1);
CALL(setup_used, 2, full, do_setup_used);
CALL(info, 2, full, do_info);
CALL(stats, 2, full, do_stats);
CALL(register, 9, fresh, do_register, register_right, forgotten, .answers = 1);
CALL(register_more, 4, full, do_register, register_right, forgotten, .answers = 1);
CALL(rearm, 4, full, do_rearm, rearm_right, rearm_right, .answers = 1);
CALL(cancel, 4, full, do_cancel, cancel_right, cancel_right, .answers = 1);
CALL(get, 4, full, do_get, .answers = 1);
CALL(batch_register, 16, fresh, do_batch_register, batch_register_right, forgotten, .answers = 3);
CALL(batch_rearm, 14, full, do_batch_rearm, batch_rearm_right, batch_rearm_right, .answers = 3);
CALL(batch_cancel, 14, full, do_batch_cancel, batch_cancel_right, batch_cancel_right, .answers = 3);
CALL(batch_get, 14, full, do_batch_get, batch_get_right, .answers = 3);
CALL(list, 8, full, do_list, list_right);
CALL(kick, 6, full, do_kick, kick_right);
CALL(mmap, 3, fresh, do_mmap);
CALL(touch_marks, 2, fresh_map, do_touch_marks, touch_right);
CALL(touch_slots, 2, fresh_map, do_touch_slots, touch_right);
CALL(touch, 2, fresh_map, do_touch, touch_right);
CALL(read, 4, all_unread, do_read, read_right);
CALL(readv, 8, all_unread, do_readv, read_right);
CALL(poll, 2, full, do_poll, poll_right);
CALL(epoll, 5, full, do_epoll, epoll_right);
CALL(fdinfo, 8, full, do_fdinfo, fdinfo_right);

/* G10: Whichever point fails, the errno is right, nothing has changed, and then the call works. */
TEST_F_TIMEOUT(fail_nth, each_place, UNLIMITED)
{
	sweep(_metadata, &variant->action);
}

FIXTURE(memory_ends) {};

FIXTURE_VARIANT(memory_ends) {
	struct action action;
};

FIXTURE_SETUP(memory_ends)
{
	ASSERT_TRUE(is_root());
	ASSERT_TRUE(set_end(true));
}

FIXTURE_TEARDOWN(memory_ends)
{
	EXPECT_TRUE(set_end(false));
}

VARIANT(memory_ends, open, .action = { "open", 0, fresh_of_another, do_open });
VARIANT(memory_ends, setup, .action = { "setup", 0, fresh, do_setup, setup_right, setup_right });
VARIANT(memory_ends, register,
	.action = { "register", 0, fresh, do_register, register_right, forgotten });

/*
 * G10: The same if memory does not come back: allocations that the call could do without fail
 * too.
 */
TEST_F_TIMEOUT(memory_ends, at_each_place, UNLIMITED)
{
	struct tally tally = { };

	ASSERT_TRUE(faults_are_there())
		TH_LOG(NO_FAULTS);
	sweep_once(_metadata, &variant->action, BOTH, &tally);
	EXPECT_GE(tally.refused, 1);
}

static struct {
	char *at;
	size_t size;
} module;

/* Not from a file, because the kernel would log that it has no memory for it. */
static int do_load(struct scene *s)
{
	(void)s;
	return errno_of(syscall(SYS_init_module, module.at, module.size, ""));
}

static const struct action load = { .name = "load", .act = do_load };

FIXTURE(load) {};

FIXTURE_SETUP(load)
{
	int fd = open(MODULE, O_RDONLY | O_CLOEXEC);
	struct stat st;

	ASSERT_TRUE(is_root());
	ASSERT_EQ(0, fstat(fd, &st));
	module.size = st.st_size;
	module.at = malloc(module.size);
	ASSERT_TRUE(module.at);
	ASSERT_EQ(st.st_size, read(fd, module.at, module.size));
	close(fd);
}

FIXTURE_TEARDOWN(load)
{
	free(module.at);
}

/* The kernel's own failure points too: the module is loaded completely, or not at all. */
TEST_F_TIMEOUT(load, each_place, UNLIMITED)
{
	enum refused what;

	ASSERT_TRUE(faults_are_there())
		TH_LOG(NO_FAULTS);
	for (what = 0; what < NR_REFUSED; what++) {
		unsigned int nth, refused = 0;
		bool injected = true;

		ASSERT_TRUE(refuse(what));
		for (nth = 1; injected; nth++) {
			int ret;

			ASSERT_LT(nth, 10 * MAX_SITES);
			ASSERT_EQ(0, unload_module("twheel"));
			ret = act_failing(NULL, &load, nth, &injected);
			ASSERT_TRUE(!ret || (injected && (ret == -ENOMEM || ret == -EFAULT)))
				TH_LOG("place %u: %s", nth, strerror(-ret));
			ASSERT_EQ(!ret, !access("/sys/module/twheel", F_OK));
			ASSERT_EQ(!ret, !access("/sys/class/misc/twheel", F_OK));
			ASSERT_EQ(!ret, !access("/sys/devices/virtual/workqueue/twheel", F_OK));
			if (ret) {
				refused++;
				ASSERT_EQ(0, do_load(NULL));
			}
		}
		TH_LOG("load, %s: %u places: %u times refused",
		       what == PAGES ? "pages" : "objects", nth - 2, refused);
		/* If there are no pages, there are other points. */
		if (what == OBJECTS)
			EXPECT_GE(refused, 100);
	}
}

/* Registered last, so that it runs last. */
FIXTURE(afterwards) {};

FIXTURE_SETUP(afterwards)
{
	ASSERT_TRUE(is_root());
}

NO_TEARDOWN(afterwards)

/* None of the failures has leaked memory. */
TEST_F_TIMEOUT(afterwards, nothing_leaked, 300)
{
	char text[4096];
	ssize_t len;
	int fd, i;

	ASSERT_EQ(0, access(KMEMLEAK, R_OK))
		TH_LOG("no kmemleak in this kernel: a leak would not be seen");
	/*
	 * kmemleak does not report objects that are younger than 5 s, and the first scan only
	 * marks them.
	 */
	sleep_ms(6000);
	for (i = 0; i < 2; i++)
		ASSERT_TRUE(write_text(KMEMLEAK, "scan"));
	fd = open(KMEMLEAK, O_RDONLY | O_CLOEXEC);
	ASSERT_GE(fd, 0);
	len = read(fd, text, sizeof(text) - 1);
	ASSERT_GE(len, 0);
	text[len] = '\0';
	EXPECT_STREQ("", text);
	close(fd);
}

/*
 * Reads how many bytes of the kernel's pages PAID_BY is charged for, without those for
 * objects. The number may be below 0. Returns true if it is known.
 */
static bool pages_here(long long *pages)
{
	static const char *const others[] = {
		"kernel_stack", "pagetables", "sec_pagetables", "percpu", "vmalloc", "slab",
	};
	bool known = false;
	long long bytes;
	char name[64];
	unsigned int i;
	FILE *f;

	/* The kernel updates it every 2 s. */
	sleep_ms(5000);
	f = fopen(PAID_BY "/memory.stat", "re");
	while (f && fscanf(f, "%63s %lld", name, &bytes) == 2) {
		if (!strcmp(name, "kernel")) {
			*pages = bytes;
			known = true;
		}
		for (i = 0; i < ARRAY_SIZE(others); i++)
			if (!strcmp(name, others[i]))
				*pages -= bytes;
	}
	if (f)
		fclose(f);
	return known;
}

/* Makes each failure point that concerns pages fail, without checking the outcome. */
static void fail_all(struct __test_metadata *_metadata)
{
	static const struct action actions[] = {
		{ "register", .prepare = fresh, .act = do_register },
		{ "batch_register", .prepare = fresh, .act = do_batch_register },
		{ "touch_slots", .prepare = fresh_map, .act = do_touch_slots },
		{ "touch_marks", .prepare = fresh_map, .act = do_touch_marks },
		{ "touch", .prepare = fresh_map, .act = do_touch },
	};
	static struct scene s;
	enum refused what;
	unsigned int i, nth;
	bool injected;

	for (i = 0; i < NR_REFUSED * ARRAY_SIZE(actions); i++) {
		what = i % NR_REFUSED;
		ASSERT_TRUE(refuse(what));
		injected = true;
		for (nth = 1; injected; nth++) {
			const struct action *d = &actions[i / NR_REFUSED];

			ASSERT_LT(nth, MAX_SITES);
			d->prepare(_metadata, &s);
			act_failing(&s, d, nth, &injected);
			end_scene(&s);
		}
	}
}

/* Whole pages have not leaked either. kmemleak does not track them, but the cgroup counts them. */
TEST_F_TIMEOUT(afterwards, no_pages_leaked, 300)
{
	enum { ROUNDS = 12 };
	long long before, after;
	unsigned int round;

	ASSERT_TRUE(faults_are_there())
		TH_LOG(NO_FAULTS);
	signal(SIGBUS, on_bus);
	ASSERT_TRUE(make_group("max") && enter_group())
		TH_LOG(NO_CGROUP);
	/* One round for everything that is allocated only once. */
	fail_all(_metadata);
	ASSERT_TRUE(pages_here(&before))
		TH_LOG("no memory controller here");
	for (round = 0; round < ROUNDS; round++)
		fail_all(_metadata);
	ASSERT_TRUE(pages_here(&after));
	EXPECT_LT(after - before, ROUNDS * (long long)PAGE / 2)
		TH_LOG("%lld bytes more, after %d rounds", after - before, ROUNDS);
	ASSERT_TRUE(write_text(CGROUP "/cgroup.procs", "0"));
	rmdir(PAID_BY);
}

TEST_HARNESS_MAIN
