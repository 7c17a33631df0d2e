// SPDX-License-Identifier: GPL-2.0
/*
 * A fuzzer of the device. Two processes run programs of calls on wheels that they share and on
 * wheels of their own, while a third scribbles over the tables, including the marks. Now and
 * then all of them pause, and everything must add up: on the fuzzed wheels, and on a neighbor
 * that nobody has touched.
 *
 * With KCOV in the kernel and in the module, programs that reach new code are kept and
 * mutated, using the values that the kernel compared theirs with. Without KCOV, the programs
 * of corpus/ are mutated blindly.
 *
 *   --seconds N   stop after N seconds (60)
 *   --calls N     stop after N calls, or exchanges in the table (0: never)
 *   --seed N      the seed of all random choices (1)
 *   --single 1    one process, no scribbler: with --blind, the same programs each time
 *   --blind 1     do not use KCOV
 *   --guided 1    fail if there is no KCOV
 *   --print 1     print a corpus that reaches all that was reached, except by long programs
 *   --trace 1     print each program before it runs
 */
#include "stress.h"

#include <ctype.h>
#include <limits.h>
#include <linux/kcov.h>
#include <setjmp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

static unsigned long long seconds = 60;
static unsigned long long calls_wanted;
static unsigned long long seed = 1;
static unsigned long long single;
static unsigned long long blind;
static unsigned long long insist;
static unsigned long long print;
static unsigned long long trace;

/* Programs */

enum op {
	OP_OPEN, OP_CLOSE, OP_SETUP, OP_INFO, OP_REGISTER, OP_REARM, OP_CANCEL, OP_GET,
	OP_BATCH, OP_LIST, OP_KICK, OP_STATS, OP_IOCTL, OP_READ, OP_READV,
	OP_POLL, OP_EPOLL, OP_MMAP, OP_MUNMAP, OP_MREMAP, OP_MPROTECT, OP_MADVISE,
	OP_EXCHANGE, OP_MARK, OP_LOAD, OP_FDINFO, OP_SLEEP, OP_FORK,
	NR_OPS
};

/* How often each is chosen, relative to the others. */
static const struct {
	const char *name;
	unsigned int weight;
} ops[NR_OPS] = {
	[OP_OPEN] = { "open", 3 },
	[OP_CLOSE] = { "close", 2 },
	[OP_SETUP] = { "setup", 3 },
	[OP_INFO] = { "info", 1 },
	[OP_REGISTER] = { "register", 14 },
	[OP_REARM] = { "rearm", 10 },
	[OP_CANCEL] = { "cancel", 6 },
	[OP_GET] = { "get", 2 },
	[OP_BATCH] = { "batch", 8 },
	[OP_LIST] = { "list", 2 },
	[OP_KICK] = { "kick", 8 },
	[OP_STATS] = { "stats", 1 },
	[OP_IOCTL] = { "ioctl", 1 },
	[OP_READ] = { "read", 10 },
	[OP_READV] = { "readv", 2 },
	[OP_POLL] = { "poll", 2 },
	[OP_EPOLL] = { "epoll", 3 },
	[OP_MMAP] = { "mmap", 3 },
	[OP_MUNMAP] = { "munmap", 1 },
	[OP_MREMAP] = { "mremap", 1 },
	[OP_MPROTECT] = { "mprotect", 1 },
	[OP_MADVISE] = { "madvise", 1 },
	[OP_EXCHANGE] = { "exchange", 14 },
	[OP_MARK] = { "mark", 6 },
	[OP_LOAD] = { "load", 1 },
	[OP_FDINFO] = { "fdinfo", 1 },
	[OP_SLEEP] = { "sleep", 2 },
	[OP_FORK] = { "fork", 1 },
};

#define WHEELS		4U
#define OWN		4U
#define IDS		32U
#define STEPS		16U
#define VALUES		4U

/* Bits of step.how. */
#define HOW_POINTER	7U	/* where the argument is: enum place */
#define HOW_FROM_NOW	8U	/* times count from now */
#define HOW_RAW		16U	/* values are taken as they are, also for ids */

enum place {
	GOOD, GOOD_TOO, STILL_GOOD, NOWHERE, KERNEL, ACROSS_BORDER, READ_ONLY, IN_TABLE,
};

/**
 * struct step - a call
 * @op: enum op
 * @fd: the wheel, or its table: below WHEELS a shared one, else one of the process' own
 * @which: selects an id, an own wheel, or a mapping
 * @how: HOW_ bits
 * @n: flags, counts and the like
 * @v: times, and other values
 */
struct step {
	__u8 op;
	__u8 fd;
	__u8 which;
	__u8 how;
	__u32 n;
	__u64 v[VALUES];
};

struct program {
	unsigned int nr;
	struct step step[STEPS];
};

/* Checks a program, whatever may have been written over it. */
static bool is_program(const struct program *p)
{
	unsigned int i;

	if (!p->nr || p->nr > STEPS)
		return false;
	for (i = 0; i < p->nr; i++)
		if (p->step[i].op >= NR_OPS || p->step[i].fd >= WHEELS + OWN)
			return false;
	return true;
}

static void print_program(const struct program *p)
{
	unsigned int i, j;

	if (!is_program(p)) {
		printf("# not a program\n");
		return;
	}
	for (i = 0; i < p->nr; i++) {
		const struct step *s = &p->step[i];

		printf("%s %u %u %#x %#x", ops[s->op].name, s->fd, s->which, s->how, s->n);
		for (j = 0; j < VALUES; j++)
			printf(" %#llx", s->v[j]);
		putchar('\n');
	}
	putchar('\n');
	fflush(stdout);
}

/* Parses a line as it is printed. Returns true if it is a step. */
static bool parse_step(const char *line, size_t len, struct step *s)
{
	unsigned int i, nr = 0, op;
	__u64 number[4 + VALUES];
	char text[256], *word, *end, *save;

	if (len >= sizeof(text))
		return false;
	memcpy(text, line, len);
	text[len] = '\0';
	word = strtok_r(text, " ", &save);
	for (op = 0; word && op < NR_OPS; op++)
		if (!strcmp(word, ops[op].name))
			break;
	if (!word || op == NR_OPS)
		return false;
	while ((word = strtok_r(NULL, " ", &save))) {
		if (nr == ARRAY_SIZE(number))
			return false;
		number[nr++] = strtoull(word, &end, 0);
		if (*end)
			return false;
	}
	if (nr != ARRAY_SIZE(number))
		return false;
	*s = (struct step) {
		.op = op, .fd = number[0], .which = number[1], .how = number[2], .n = number[3],
	};
	for (i = 0; i < VALUES; i++)
		s->v[i] = number[4 + i];
	return true;
}

/* The concatenated files of corpus/. */
static const char corpus_text[] =
#include "corpus.inc"
;

/* What the processes share */

#define CORPUS		4096U
#define COVERAGE	65536U
#define OPERANDS	1024U
#define WORKERS		2U
/* The workers and the scribbler. */
#define PROCESSES	(WORKERS + 1)

static struct shared {
	/* The wheels, and the events read from each. */
	int wheel[WHEELS];
	unsigned long read[WHEELS];
	/* How many wheels each place has had, and all places together. */
	unsigned int replaced[WHEELS];
	unsigned int generation;
	/* While @stop is not 0, all processes pause, for the pause with this number. */
	unsigned int pause, stop;
	/* The last pause that each process has reached. */
	unsigned int standing[PROCESSES];
	unsigned long calls[PROCESSES], programs[PROCESSES];
	__u64 hash;
	/* The program that each worker is running, in case it does not come back. */
	struct program now[WORKERS];

	/* Programs, complete below @ready; the first @given come from the files. */
	unsigned int nr, ready, given;
	struct program corpus[CORPUS];
	__u8 edges[COVERAGE];
	__u8 blocks[COVERAGE];
	unsigned int nr_blocks;

	/*
	 * Constants that the kernel has compared something with, where, and what it compared.
	 * Also how many programs were tried for each.
	 */
	unsigned int nr_operands;
	struct operand {
		__u64 was, wanted;
		unsigned long place;
		unsigned int tried;
	} operand[OPERANDS];
} *shared;

/* Running a program */

/* The state of one process. */
static struct {
	unsigned int nr;
	__u64 seed;
	int own[OWN];
	int epoll;
	__u64 ids[WHEELS + OWN][IDS];
	unsigned int nr_ids[WHEELS + OWN];
	/* The shared wheels' mappings, then those that programs make. */
	struct {
		char *at;
		size_t len;
		/* Where the marks start. */
		size_t marks;
	} map[WHEELS + OWN];
	unsigned int replaced[WHEELS];
	char *buffer, *border, *fixed;
	sigjmp_buf fault;
	volatile sig_atomic_t may_fault;
	unsigned long *kcov;
	int kcov_fd;
	/*
	 * The last program's calls, where in @kcov each of them starts, and where the cleanup
	 * does.
	 */
	unsigned int nr_steps;
	unsigned long begins[STEPS + 1];
	unsigned long op[STEPS + 1];
} me;

#define PAGES_OF_BUFFER	1024U
#define BUFFER		(PAGES_OF_BUFFER * PAGE)

/*
 * In a step, the fault is in what the step had mapped. Otherwise it is a fault of the fuzzer,
 * which must not go on.
 */
static void on_fault(int sig)
{
	if (!me.may_fault) {
		signal(sig, SIG_DFL);
		return;
	}
	siglongjmp(me.fault, 1);
}

/* Returns the wheel of a step, or a shared one if the program has no wheel of this number. */
static unsigned int wheel_of(const struct step *s)
{
	return s->fd < WHEELS || me.own[s->fd - WHEELS] >= 0 ? s->fd : s->fd % WHEELS;
}

static int wheel(const struct step *s)
{
	unsigned int w = wheel_of(s);

	return w < WHEELS ? shared->wheel[w] : me.own[w - WHEELS];
}

/* Returns a mapping of any wheel, or that of a shared one. */
static unsigned int map_of(const struct step *s)
{
	return me.map[s->fd].len ? s->fd : s->fd % WHEELS;
}

static bool has_slots(unsigned int map)
{
	return me.map[map].len >= PAGE + sizeof(struct twheel_slot);
}

static __u64 random_below(__u64 n)
{
	return next_random(&me.seed) % n;
}

/* Returns the address of an argument that is @data, or should have been. */
static void *argument(const struct step *s, const void *data, size_t size)
{
	unsigned int m = map_of(s);

	switch (s->how & HOW_POINTER) {
	case NOWHERE:
		return NULL;
	case KERNEL:
		return (void *)(-(uintptr_t)1 << (8 * sizeof(uintptr_t) - 24));
	case ACROSS_BORDER:
		/* Its last part is missing. */
		size = s->which % size;
		if (data)
			memcpy(me.border - size, data, size);
		return me.border - size;
	case READ_ONLY:
		return me.fixed;
	case IN_TABLE:
		if (me.map[m].len >= size) {
			char *p = me.map[m].at + (s->v[3] % (me.map[m].len - size + 1) & ~7UL);

			if (data)
				memcpy(p, data, size);
			return p;
		}
	}
	if (data)
		memmove(me.buffer, data, size);
	return me.buffer;
}

static __u64 moment(const struct step *s, __u64 v)
{
	return s->how & HOW_FROM_NOW ? now(CLOCK_MONOTONIC) + (__s32)v : v;
}

/*
 * No event of this wheel is ever withdrawn, because it gets no REARM, CANCEL or KICK, the only
 * calls that may do that. So each event must be read in the end.
 */
static bool is_final(unsigned int w)
{
	return w == 2;
}

static __u64 some_id(const struct step *s)
{
	unsigned int w = wheel_of(s);

	if (s->how & HOW_RAW || !me.nr_ids[w])
		return s->v[0];
	return me.ids[w][s->which % IDS];
}

static void note_id(unsigned int w, __u64 id)
{
	me.ids[w][me.nr_ids[w]++ % IDS] = id;
}

static struct twheel_timer some_timer(const struct step *s)
{
	return (struct twheel_timer) {
		.id = some_id(s),
		.user_data = s->v[3],
		.deadline_ns = moment(s, s->v[1]),
		.period_ns = s->v[2],
		/* Only raw steps set a slack, so it is rare. */
		.slack_ns = s->how & HOW_RAW ? s->v[3] : 0,
		.flags = s->n,
	};
}

static void run_verb(const struct step *s, unsigned int cmd)
{
	struct twheel_timer t = some_timer(s), *arg = argument(s, &t, sizeof(t));

	if (is_final(wheel_of(s)) && cmd != TWHEEL_IOC_REGISTER)
		cmd = TWHEEL_IOC_GET;
	if (!call(wheel(s), cmd, arg) && cmd == TWHEEL_IOC_REGISTER)
		note_id(wheel_of(s), arg->id);
}

/*
 * Returns true so rarely that a step which takes a thousand times as long as others takes no
 * more time in total.
 */
static bool seldom(void)
{
	return !random_below(100);
}

/*
 * Returns how many a call processes: usually fewer than @few, otherwise up to @most, which is
 * a mask.
 */
static unsigned int count_of(const struct step *s, unsigned int few, unsigned int most)
{
	if (s->n >> 24 != 0xff)
		return s->n % few;
	return s->n & (seldom() ? most : 0x1ff);
}

/* The digits of v[0] are the opcodes. */
static void run_batch(const struct step *s)
{
	unsigned int count = count_of(s, 20, 0x1ffff), i;
	struct twheel_op *op = (struct twheel_op *)(me.buffer + PAGE);
	unsigned int good = count < TWHEEL_BATCH_MAX ? count : TWHEEL_BATCH_MAX;
	struct twheel_batch b = { .ops = ptr_u64(op), .count = count, .flags = s->n >> 30 == 2 };
	struct twheel_timer t = some_timer(s);
	bool final = is_final(wheel_of(s));
	int ret;

	for (i = 0; i < good; i++) {
		op[i] = (struct twheel_op) { .timer = t, .opcode = s->v[0] >> i % 16 * 4 & 7 };
		if (final && op[i].opcode > TWHEEL_OP_REGISTER)
			op[i].opcode |= TWHEEL_OP_GET;
		op[i].timer.deadline_ns += i * s->v[2];
		op[i].timer.period_ns = s->how & HOW_RAW ? s->v[2] : 0;
		op[i].timer.id = me.ids[wheel_of(s)][(s->which + i) % IDS];
		op[i].timer.flags = s->n & 7;
	}
	/* The operations, or the head, are where the pointer says. */
	if (s->which & 1 && count && !final)
		b.ops = ptr_u64(argument(s, op, good * sizeof(*op)));
	ret = call(wheel(s), TWHEEL_IOC_BATCH,
		   s->which & 1 || final ? &b : argument(s, &b, sizeof(b)));
	for (i = 0; ret > 0 && b.ops == ptr_u64(op) && i < good; i++)
		if (op[i].opcode == TWHEEL_OP_REGISTER && !op[i].result)
			note_id(wheel_of(s), op[i].timer.id);
}

/* KICKs, mostly as a program should. */
static void run_kick(const struct step *s)
{
	if (!is_final(wheel_of(s)))
		call(wheel(s), TWHEEL_IOC_KICK, s->which % 8 ? NULL : argument(s, NULL, 1));
}

static void run_list(const struct step *s)
{
	struct twheel_list l = {
		.timers = ptr_u64(me.buffer + PAGE),
		.count = s->n % 1000,
		.cursor = s->v[0],
	};

	if (s->which & 1 && l.count)
		l.timers = ptr_u64(argument(s, NULL, l.count * sizeof(struct twheel_timer)));
	call(wheel(s), TWHEEL_IOC_LIST, s->which & 1 ? &l : argument(s, &l, sizeof(l)));
}

static void run_setup(const struct step *s)
{
	struct twheel_setup t = {
		.tick_ns = s->v[0],
		.clock_id = s->v[1],
		/* Few timers, so that a program does not use up all memory. */
		.max_timers = s->v[2] > 100000 && s->v[2] <= 1 << 24 ? 100000 : s->v[2],
		.levels = s->v[3],
		.slot_bits = s->v[3] >> 32,
		.flags = s->n & 3,
		.reserved = { s->n >> 8 == 0xabcdef },
	};

	call(wheel(s), TWHEEL_IOC_SETUP, argument(s, &t, sizeof(t)));
}

/* Reads, and counts the delivered events. */
static void run_read(const struct step *s, bool vector)
{
	size_t size = s->n % 4000, some = s->v[0] % (size + 1);
	char *p = argument(s, NULL, size + 1);
	struct iovec v[] = { { p, some }, { p + some, size - some } };
	ssize_t ret;

	ret = vector ? readv(wheel(s), v, ARRAY_SIZE(v)) : read(wheel(s), p, size);
	/* In other memory another process may have changed them. */
	if (ret > 0 && p == me.buffer)
		check_events((void *)p, ret / sizeof(struct twheel_event));
	if (ret > 0 && wheel_of(s) < WHEELS)
		__atomic_fetch_add(&shared->read[wheel_of(s)],
				   ret / sizeof(struct twheel_event), __ATOMIC_RELAXED);
}

static void run_epoll(const struct step *s)
{
	struct epoll_event ev = {
		.events = (s->v[0] & (EPOLLIN | EPOLLOUT | EPOLLPRI)) |
			  (s->n & 1 ? EPOLLET : 0) | (s->n & 2 ? EPOLLONESHOT : 0) |
			  (s->n & 4 ? EPOLLEXCLUSIVE : 0),
	}, out[4];

	if (s->which % 4)
		epoll_ctl(me.epoll, s->which % 4, wheel(s), &ev);
	else
		epoll_wait(me.epoll, out, ARRAY_SIZE(out), 0);
}

static void unmap(unsigned int m)
{
	if (me.map[m].len)
		munmap(me.map[m].at, me.map[m].len);
	me.map[m].len = 0;
}

static void run_mmap(const struct step *s)
{
	unsigned int m = WHEELS + s->which % OWN;
	struct twheel_info i;
	size_t len = s->v[0];
	void *p;

	if (call(wheel(s), TWHEEL_IOC_INFO, &i))
		return;
	if (!(s->how & HOW_RAW))
		len = i.table_bytes;
	p = mmap(NULL, len, s->n ? s->n & 7 : PROT_READ | PROT_WRITE,
		 s->how & HOW_FROM_NOW ? MAP_PRIVATE : MAP_SHARED, wheel(s),
		 s->how & HOW_RAW ? s->v[1] & ~(PAGE - 1) : 0);
	if (p == MAP_FAILED)
		return;
	unmap(m);
	me.map[m].at = p;
	me.map[m].len = len;
	me.map[m].marks = marks_offset(i.max_timers);
}

/* Changes a mapping, in part or as a whole. */
static void run_mapping(const struct step *s)
{
	static const int advice[] = {
		MADV_DONTNEED, MADV_WILLNEED, MADV_DONTFORK, MADV_DOFORK, MADV_REMOVE,
		MADV_FREE, MADV_HUGEPAGE, MADV_MERGEABLE, MADV_DODUMP, MADV_COLD,
		MADV_PAGEOUT, MADV_POPULATE_READ, MADV_POPULATE_WRITE,
	};
	unsigned int m = WHEELS + s->which % OWN;
	size_t len = me.map[m].len, from, part;
	void *p;

	if (!len)
		return;
	from = s->v[0] % len & ~(PAGE - 1);
	/* The first pages contain the words. */
	part = s->v[1] % (len - from < 16 * PAGE ? len - from : 16 * PAGE) + 1;
	switch (s->op) {
	case OP_MUNMAP:
		/* The rest can no longer be found by us. */
		munmap(me.map[m].at + from, part);
		if (from)
			me.map[m].len = from;
		else
			unmap(m);
		break;
	case OP_MREMAP:
		p = mremap(me.map[m].at, s->n & 1 ? 0 : len, s->n & 2 ? len + part : len,
			   MREMAP_MAYMOVE);
		if (p == MAP_FAILED)
			break;
		if (s->n & 1)
			munmap(p, len);
		else
			me.map[m].at = p;
		break;
	case OP_MPROTECT:
		mprotect(me.map[m].at + from, part, s->n & 7);
		break;
	case OP_MADVISE:
		madvise(me.map[m].at + from, part, advice[s->n % ARRAY_SIZE(advice)]);
		break;
	}
}

static void set_bit_of(__u64 *bits, __u32 nr)
{
	__u64 bit = 1ULL << nr % 64;

	if (!(__atomic_load_n(&bits[nr / 64], __ATOMIC_RELAXED) & bit))
		__atomic_fetch_or(&bits[nr / 64], bit, __ATOMIC_SEQ_CST);
}

static void mark_slot(unsigned int map, __u32 slot)
{
	char *at = me.map[map].at;

	if (me.map[map].len <= me.map[map].marks)
		return;
	set_bit_of((__u64 *)(at + me.map[map].marks), slot);
	set_bit_of((__u64 *)(at + SUMMARY_OFFSET), slot / LINE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static void run_exchange(const struct step *s)
{
	unsigned int m = map_of(s), max;
	struct twheel_slot *slots;
	__u32 slot;
	__u64 t;

	if (!has_slots(m))
		return;
	slots = (struct twheel_slot *)(me.map[m].at + PAGE);
	max = (me.map[m].len - PAGE) / sizeof(*slots);
	slot = (__u32)some_id(s) % max;
	if (s->op == OP_LOAD) {
		(void)word(&slots[slot]);
		return;
	}
	t = s->n & 1 ? 0 : moment(s, s->v[1]);
	swap_word(&slots[slot], t);
	if (t > wake(&slots[slot]) || !(s->n & 6))
		return;
	if (s->n & 4) {
		mark_slot(m, slot);
		/* Other programs may have written to this word. */
		if (t > ((struct twheel_table *)me.map[m].at)->next_ns)
			return;
	}
	if (!is_final(wheel_of(s)))
		turn_now(wheel(s));
}

/* Sets marks as a program should, or as it should not. */
static void run_mark(const struct step *s)
{
	unsigned int m = map_of(s), lines;
	char *at = me.map[m].at;

	if (!has_slots(m))
		return;
	lines = (me.map[m].len - me.map[m].marks) * 8 / LINE;
	if (s->how & HOW_RAW)
		scatter_marks((__u64 *)(at + me.map[m].marks), (__u64 *)(at + SUMMARY_OFFSET),
			      s->n % 4 && !seldom() ? 1 : lines, s->v[0]);
	else
		mark_slot(m, (__u32)some_id(s) % (lines * LINE));
	if (s->n & 4 && !is_final(wheel_of(s)))
		turn_now(wheel(s));
}

static void run_fdinfo(const struct step *s)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", wheel(s));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (read(fd, me.buffer, PAGE) < 0)
		me.buffer[0] = '\0';
	close(fd);
}

/* Forks a child that inherits everything, and writes once. */
static void run_fork(const struct step *s)
{
	struct step exchange = *s;
	pid_t pid = fork();

	if (!pid) {
		exchange.op = OP_EXCHANGE;
		if (!sigsetjmp(me.fault, 0))
			run_exchange(&exchange);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

static void run_open(const struct step *s)
{
	int *own = &me.own[s->which % OWN];

	if (*own >= 0)
		close(*own);
	*own = open(TWHEEL_DEVICE, (s->n & 3 ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
	me.nr_ids[WHEELS + s->which % OWN] = 0;
}

static void run_ioctl(const struct step *s)
{
	/* The first may be a pointer, and the kernel must write only to our memory. */
	__u64 words[VALUES] = { ptr_u64(me.buffer + PAGE), s->v[1], s->v[2], s->v[3] };
	unsigned int cmd = s->v[0];

	if (is_final(wheel_of(s)) && (cmd == TWHEEL_IOC_REARM || cmd == TWHEEL_IOC_CANCEL ||
				      cmd == TWHEEL_IOC_BATCH || cmd == TWHEEL_IOC_KICK))
		return;
	call(wheel(s), cmd, argument(s, words, sizeof(words)));
}

static void run_op(const struct step *s)
{
	int fd = wheel(s);

	switch (s->op) {
	case OP_OPEN:
		run_open(s);
		break;
	case OP_CLOSE:
		if (me.own[s->which % OWN] >= 0)
			close(me.own[s->which % OWN]);
		me.own[s->which % OWN] = -1;
		break;
	case OP_SETUP:
		run_setup(s);
		break;
	case OP_INFO:
		call(fd, TWHEEL_IOC_INFO, argument(s, NULL, sizeof(struct twheel_info)));
		break;
	case OP_STATS:
		call(fd, TWHEEL_IOC_STATS, argument(s, NULL, sizeof(struct twheel_stats)));
		break;
	case OP_REGISTER:
		run_verb(s, TWHEEL_IOC_REGISTER);
		break;
	case OP_REARM:
		run_verb(s, TWHEEL_IOC_REARM);
		break;
	case OP_CANCEL:
		run_verb(s, TWHEEL_IOC_CANCEL);
		break;
	case OP_GET:
		run_verb(s, TWHEEL_IOC_GET);
		break;
	case OP_BATCH:
		run_batch(s);
		break;
	case OP_LIST:
		run_list(s);
		break;
	case OP_KICK:
		run_kick(s);
		break;
	case OP_IOCTL:
		run_ioctl(s);
		break;
	case OP_READ:
		run_read(s, false);
		break;
	case OP_READV:
		run_read(s, true);
		break;
	case OP_POLL: {
		struct pollfd p = { .fd = fd, .events = s->n };

		poll(&p, 1, 0);
		break;
	}
	case OP_EPOLL:
		run_epoll(s);
		break;
	case OP_MMAP:
		run_mmap(s);
		break;
	case OP_MUNMAP:
	case OP_MREMAP:
	case OP_MPROTECT:
	case OP_MADVISE:
		run_mapping(s);
		break;
	case OP_EXCHANGE:
	case OP_LOAD:
		run_exchange(s);
		break;
	case OP_MARK:
		run_mark(s);
		break;
	case OP_FDINFO:
		if (random_below(10) == 0)
			run_fdinfo(s);
		break;
	case OP_SLEEP:
		sleep_ns(s->n % (seldom() ? 1000000 : 10000));
		break;
	case OP_FORK:
		if (seldom())
			run_fork(s);
		break;
	}
}

static void run_step(const struct step *s)
{
	/* The memory may be gone, or may never have existed. */
	if (!sigsetjmp(me.fault, 0)) {
		me.may_fault = true;
		run_op(s);
	}
	me.may_fault = false;
}

/* Restores the state from before the first program. */
static void clean_up(void)
{
	unsigned int i;

	for (i = 0; i < OWN; i++) {
		unmap(WHEELS + i);
		if (me.own[i] >= 0)
			close(me.own[i]);
		me.own[i] = -1;
		me.nr_ids[WHEELS + i] = 0;
	}
}

/* Maps the shared wheels again, which may have been replaced. */
static void map_wheels(void)
{
	unsigned int i;

	for (i = 0; i < WHEELS; i++) {
		struct twheel_info info;
		void *p;

		if (me.replaced[i] == shared->replaced[i])
			continue;
		me.replaced[i] = shared->replaced[i];
		unmap(i);
		me.nr_ids[i] = 0;
		if (call(shared->wheel[i], TWHEEL_IOC_INFO, &info))
			continue;
		p = map_at(shared->wheel[i], info.table_bytes, PROT_READ | PROT_WRITE,
			   MAP_SHARED, 0);
		if (p == MAP_FAILED)
			continue;
		me.map[i].at = p;
		me.map[i].len = info.table_bytes;
		me.map[i].marks = marks_offset(info.max_timers);
	}
}

/* Returns true if the step is a call of the device, or an exchange in its table. */
static bool is_call(const struct step *s)
{
	switch (s->op) {
	case OP_CLOSE:
		return me.own[s->which % OWN] >= 0;
	case OP_MUNMAP:
	case OP_MREMAP:
	case OP_MPROTECT:
	case OP_MADVISE:
		return me.map[WHEELS + s->which % OWN].len;
	case OP_EXCHANGE:
	case OP_MARK:
		return has_slots(map_of(s));
	case OP_LOAD:
	case OP_FDINFO:
	case OP_SLEEP:
	case OP_FORK:
		return false;
	default:
		return true;
	}
}

static void begin_step(unsigned int at, unsigned int op)
{
	me.nr_steps = at + 1;
	me.op[at] = op;
	me.begins[at] = me.kcov ? __atomic_load_n(&me.kcov[0], __ATOMIC_RELAXED) : 0;
}

static void run_program(const struct program *p)
{
	unsigned int i, calls = 0;

	map_wheels();
	if (trace)
		print_program(p);
	for (i = 0; i < p->nr; i++) {
		calls += is_call(&p->step[i]);
		begin_step(i, p->step[i].op);
		run_step(&p->step[i]);
	}
	begin_step(i, NR_OPS);
	clean_up();
	__atomic_fetch_add(&shared->calls[me.nr], calls, __ATOMIC_RELAXED);
	shared->programs[me.nr]++;
}

/* Pauses between two programs. */
static void stand_still(void)
{
	unsigned int pause;

	while ((pause = __atomic_load_n(&shared->pause, __ATOMIC_ACQUIRE)) && !shared->stop) {
		__atomic_store_n(&shared->standing[me.nr], pause, __ATOMIC_RELEASE);
		sleep_ns(200000);
	}
}

/* Coverage */

#define KCOV_WORDS	(1U << 16)
/*
 * The maximum number of programs that are tried for the constants of one program, until one
 * reaches something new.
 */
#define TRIES		200U
#define OPERANDS_A_CONSTANT	8U

/* Returns true if this process can trace its code. */
static bool open_kcov(void)
{
	me.kcov = NULL;
	me.kcov_fd = blind ? -1 : open("/sys/kernel/debug/kcov", O_RDWR | O_CLOEXEC);
	if (me.kcov_fd < 0)
		return false;
	if (ioctl(me.kcov_fd, KCOV_INIT_TRACE, KCOV_WORDS))
		return false;
	me.kcov = mmap(NULL, KCOV_WORDS * sizeof(*me.kcov), PROT_READ | PROT_WRITE, MAP_SHARED,
		       me.kcov_fd, 0);
	if (me.kcov == MAP_FAILED)
		me.kcov = NULL;
	return me.kcov;
}

static void run_traced(const struct program *p, unsigned int mode)
{
	__atomic_store_n(&me.kcov[0], 0, __ATOMIC_RELAXED);
	ioctl(me.kcov_fd, KCOV_ENABLE, mode);
	run_program(p);
	ioctl(me.kcov_fd, KCOV_DISABLE, 0);
}

/*
 * Returns true if the last run has filled the trace. Such a run takes a hundred times as long
 * as others, and so do its mutations. It is neither kept nor mutated, because otherwise little
 * else would run.
 */
static bool was_long(void)
{
	return me.kcov[0] + 1 >= KCOV_WORDS;
}

static unsigned int nr_operands(void)
{
	unsigned int n = __atomic_load_n(&shared->nr_operands, __ATOMIC_RELAXED);

	return n < OPERANDS ? n : OPERANDS;
}

static unsigned int mix(__u64 pc)
{
	return (pc * 0x9e3779b97f4a7c15ULL) >> 48;
}

/*
 * Returns how many new edges the last run has found, and marks them and their blocks. Each
 * kind of call has its own edges, because the same code may lead elsewhere.
 */
static unsigned int new_edges(__u8 *edges, __u8 *blocks, unsigned int *nr_blocks)
{
	unsigned long i, n = me.kcov[0], last = 0;
	unsigned int found = 0, step = 0;

	for (i = 1; i <= n && i < KCOV_WORDS; i++) {
		__u64 pc = me.kcov[i], edge;

		while (step + 1 < me.nr_steps && me.begins[step + 1] < i) {
			step++;
			last = 0;
		}
		edge = pc ^ last << 1 ^ (__u64)me.op[step] << 56;
		if (edges && !__atomic_exchange_n(&edges[mix(edge)], 1, __ATOMIC_RELAXED))
			found++;
		if (!__atomic_exchange_n(&blocks[mix(pc)], 1, __ATOMIC_RELAXED)) {
			__atomic_fetch_add(nr_blocks, 1, __ATOMIC_RELAXED);
			found += !edges;
		}
		last = pc;
	}
	return found;
}

/* Returns true if the last run reached new code, so that it is kept. */
static bool leads_on(void)
{
	bool is_long = was_long();

	/*
	 * The blocks of a program that was too long count as reached, but its edges may be
	 * reached by another one.
	 */
	return new_edges(is_long ? NULL : shared->edges, shared->blocks, &shared->nr_blocks) &&
	       !is_long;
}

/*
 * Finds the record of a comparison, or makes one. Returns NULL if there is no room. Two
 * processes may make one each, which does no harm.
 */
static struct operand *find_operand(unsigned long place, __u64 wanted)
{
	unsigned int at;

	for (at = 0; at < nr_operands(); at++)
		if (shared->operand[at].place == place && shared->operand[at].wanted == wanted)
			return &shared->operand[at];
	if (at < OPERANDS)
		at = __atomic_fetch_add(&shared->nr_operands, 1, __ATOMIC_RELAXED);
	if (at >= OPERANDS)
		return NULL;
	shared->operand[at] = (struct operand) { .place = place, .wanted = wanted };
	return &shared->operand[at];
}

/*
 * Records the constants of the code that the last run was compared with, and what was found
 * instead.
 */
static void note_operands(void)
{
	unsigned long i, n = me.kcov[0];

	for (i = 0; i < n && 4 * i + 4 < KCOV_WORDS; i++) {
		unsigned long *record = &me.kcov[1 + 4 * i];
		struct operand *o;

		if (!(record[0] & KCOV_CMP_CONST) || record[1] == record[2])
			continue;
		o = find_operand(record[3], record[1]);
		if (o)
			o->was = record[2];
	}
}

static void keep(const struct program *p)
{
	unsigned int at = __atomic_fetch_add(&shared->nr, 1, __ATOMIC_RELAXED);

	if (at >= CORPUS)
		return;
	shared->corpus[at] = *p;
	/* In order, so that everything below @ready is complete. */
	while (__atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE) != at)
		sched_yield();
	__atomic_store_n(&shared->ready, at + 1, __ATOMIC_RELEASE);
}

/*
 * Collects the constants that one run was compared with and did not equal, each with a few of
 * the values that were there. A batch has many of these.
 */
static unsigned int take_operands(struct operand *found, unsigned int most)
{
	unsigned long i, n = me.kcov[0];
	unsigned int nr = 0, at, same;

	for (i = 0; i < n && 4 * i + 4 < KCOV_WORDS && nr < most; i++) {
		unsigned long *record = &me.kcov[1 + 4 * i];

		if (!(record[0] & KCOV_CMP_CONST) || record[1] == record[2])
			continue;
		for (at = 0, same = 0; at < nr && same < OPERANDS_A_CONSTANT; at++)
			if (found[at].place == record[3] && found[at].wanted == record[1])
				same += found[at].was == record[2] ? OPERANDS_A_CONSTANT : 1;
		if (same < OPERANDS_A_CONSTANT)
			found[nr++] = (struct operand) {
				.was = record[2], .wanted = record[1], .place = record[3],
			};
	}
	return nr;
}

/* Replaces value @at of a step by the constant, if that value was compared with it. */
static bool give(struct step *s, unsigned int at, const struct operand *o)
{
	if (at == VALUES) {
		if (s->n != (__u32)o->was)
			return false;
		s->n = o->wanted;
		return true;
	}
	/* Compare the whole value, or its lower bits. */
	if (s->v[at] == o->was)
		s->v[at] = o->wanted;
	else if ((__u32)s->v[at] == o->was)
		s->v[at] = (s->v[at] & ~0xffffffffULL) | (__u32)o->wanted;
	else if ((__u16)s->v[at] == o->was)
		s->v[at] = (s->v[at] & ~0xffffULL) | (__u16)o->wanted;
	else
		return false;
	return true;
}

/*
 * Tries the constant of @operand in place of each value of @p that may have been compared with
 * it, while there are @tries left. Returns true if one try reaches something new, and leaves
 * it in @p.
 */
static bool try_operand(struct program *p, const struct operand *operand, unsigned int *tries)
{
	struct operand *note = find_operand(operand->place, operand->wanted);
	struct program next;
	unsigned int i;

	for (i = 0; i < p->nr * (VALUES + 1) && *tries && !shared->stop; i++) {
		next = *p;
		if (!give(&next.step[i / (VALUES + 1)], i % (VALUES + 1), operand))
			continue;
		--*tries;
		if (note)
			note->tried++;
		stand_still();
		shared->now[me.nr] = next;
		run_traced(&next, KCOV_TRACE_PC);
		if (!leads_on()) {
			/* Mutations with other values in its place may be too long too. */
			if (was_long())
				*tries /= 2;
			continue;
		}
		keep(&next);
		*p = next;
		return true;
	}
	return false;
}

static int by_tried(const void *a, const void *b)
{
	const struct operand *x = a, *y = b;

	return (x->tried > y->tried) - (x->tried < y->tried);
}

/*
 * Puts the constants that a program was compared with in the place of the compared values,
 * because that may lead further. The least tried constants come first, and each program that
 * reaches something new is followed in turn.
 */
static void follow(const struct program *found)
{
	static struct operand operands[256];
	struct program p = *found;
	unsigned int nr, i, tries;

	do {
		run_traced(&p, KCOV_TRACE_CMP);
		note_operands();
		nr = take_operands(operands, ARRAY_SIZE(operands));
		for (i = 0; i < nr; i++) {
			const struct operand *note = find_operand(operands[i].place,
								  operands[i].wanted);

			operands[i].tried = note ? note->tried : UINT_MAX;
		}
		qsort(operands, nr, sizeof(*operands), by_tried);
		tries = TRIES;
		for (i = 0; i < nr; i++)
			if (try_operand(&p, &operands[i], &tries))
				break;
	} while (i < nr);
}

/* Making programs */

static __u64 random_value(void)
{
	static const __u64 edges[] = {
		0, 1, 2, 16, 64, 255, 256, 4096, 65535, 65536, 99999, 100000, 1 << 19,
		1000000, 1 << 20, 1 << 24, 0x7fffffff, 0x80000000, 0xffffffff, 0x100000000,
		1ULL << 40, 1ULL << 62, 0x7fffffffffffffff, 0x8000000000000000,
		0xfffffffffff80000, 0xfffffffffffffffe, 0xffffffffffffffff,
	};
	unsigned int n;

	switch (random_below(6)) {
	case 0:
		return edges[random_below(ARRAY_SIZE(edges))];
	case 1:
		return edges[random_below(ARRAY_SIZE(edges))] + random_below(5) - 2;
	case 2:
		/* Close to the present time, like most events. */
		return random_below(4 * NS_PER_MS);
	case 3:
		n = nr_operands();
		if (n)
			return shared->operand[random_below(n)].wanted;
		return random_below(64);
	case 4:
		return 1ULL << random_below(64);
	default:
		return next_random(&me.seed) >> random_below(64);
	}
}

static unsigned int random_op(void)
{
	static unsigned int sum;
	unsigned int op, at;

	if (!sum)
		for (op = 0; op < NR_OPS; op++)
			sum += ops[op].weight;
	at = random_below(sum);
	for (op = 0; at >= ops[op].weight; op++)
		at -= ops[op].weight;
	return op;
}

static void random_step(struct step *s)
{
	unsigned int i;

	*s = (struct step) {
		.op = random_op(),
		.fd = random_below(WHEELS + OWN),
		.which = random_below(IDS),
		/* A good pointer most of the time. */
		.how = random_below(8) ? random_below(3) : random_below(8),
		.n = random_below(3) ? random_below(8) : random_value(),
	};
	if (random_below(2))
		s->how |= HOW_FROM_NOW;
	if (!random_below(4))
		s->how |= HOW_RAW;
	for (i = 0; i < VALUES; i++)
		s->v[i] = random_value();
	/* Events have a fixed size, which random sizes rarely match. */
	if (s->op == OP_READ && random_below(4))
		s->n = sizeof(struct twheel_event) * (1 + random_below(20));
}

/* Puts the value that the kernel wanted in the place of what it found. */
static void hint(struct step *s)
{
	unsigned int n = nr_operands(), from = n ? random_below(n) : 0, i, j;

	for (i = 0; i < n; i++) {
		struct operand o = shared->operand[(from + i) % n];

		if ((__u32)o.was == s->n) {
			s->n = o.wanted;
			return;
		}
		for (j = 0; j < VALUES; j++) {
			if (o.was == s->v[j] || (__u32)o.was == s->v[j]) {
				s->v[j] = o.wanted + random_below(3) - 1;
				return;
			}
		}
	}
}

static void mutate(struct program *p)
{
	unsigned int at, n = 1 + random_below(4);
	struct step *s;

	while (n--) {
		at = random_below(p->nr);
		s = &p->step[at];
		switch (random_below(9)) {
		case 0:
			if (p->nr == STEPS)
				break;
			memmove(s + 1, s, (p->nr++ - at) * sizeof(*s));
			random_step(s);
			break;
		case 1:
			if (p->nr > 1)
				memmove(s, s + 1, (--p->nr - at) * sizeof(*s));
			break;
		case 2:
			s->v[random_below(VALUES)] = random_value();
			break;
		case 3:
			s->v[random_below(VALUES)] += random_below(65) - 32;
			break;
		case 4:
			s->n = random_below(2) ? random_value() : s->n ^ 1U << random_below(32);
			break;
		case 5:
			s->how ^= 1U << random_below(5);
			break;
		case 6:
			s->fd = random_below(WHEELS + OWN);
			break;
		case 7:
			s->which = random_below(IDS);
			break;
		case 8:
			hint(s);
			break;
		}
	}
}

static const struct program *some_kept(unsigned int ready)
{
	const struct program *p = &shared->corpus[random_below(ready)];

	if (!is_program(p)) {
		printf("# what was kept has been written over\n");
		fflush(stdout);
		abort();
	}
	return p;
}

static void make_program(struct program *p)
{
	unsigned int ready = __atomic_load_n(&shared->ready, __ATOMIC_ACQUIRE), n, i;

	if (!ready || !random_below(6)) {
		p->nr = 1 + random_below(STEPS);
		for (i = 0; i < p->nr; i++)
			random_step(&p->step[i]);
		return;
	}
	*p = *some_kept(ready);
	/* Append the end of another program. */
	if (!random_below(4)) {
		const struct program *other = some_kept(ready);

		n = random_below(other->nr) + 1;
		if (n > STEPS - p->nr)
			n = STEPS - p->nr;
		memcpy(&p->step[p->nr], &other->step[other->nr - n], n * sizeof(*p->step));
		p->nr += n;
	}
	if (random_below(8))
		mutate(p);
}

/* The processes */

static bool begin(unsigned int nr)
{
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };
	unsigned int i;

	me.nr = nr;
	me.seed = (seed + 1) * 0x9e3779b97f4a7c15ULL + nr * 0xd1342543de82ef95ULL;
	me.seed |= 1;
	memset(me.replaced, 0, sizeof(me.replaced));
	for (i = 0; i < OWN; i++)
		me.own[i] = -1;
	me.epoll = epoll_create1(EPOLL_CLOEXEC);
	me.buffer = mmap(NULL, BUFFER + 3 * PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (me.buffer == MAP_FAILED || me.epoll < 0)
		return false;
	/* After the buffer: a page, one that is missing, and one that is read-only. */
	me.border = me.buffer + BUFFER + PAGE;
	me.fixed = me.buffer + BUFFER + 2 * PAGE;
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGBUS, &action, NULL);
	return !mprotect(me.border, PAGE, PROT_NONE) && !mprotect(me.fixed, PAGE, PROT_READ);
}

static void one_program(void)
{
	struct program *p = &shared->now[me.nr];
	unsigned int i;

	make_program(p);
	for (i = 0; i < p->nr * sizeof(*p->step); i++)
		shared->hash = (shared->hash ^ ((__u8 *)p->step)[i]) * 0x100000001b3ULL;
	if (!me.kcov) {
		run_program(p);
		return;
	}
	run_traced(p, KCOV_TRACE_PC);
	if (leads_on()) {
		keep(p);
		follow(p);
	} else if (!was_long() && !random_below(500)) {
		/* A constant that leads further may be on a path that is no longer new. */
		follow(p);
	}
}

static int work(unsigned int nr)
{
	if (!begin(nr))
		return 1;
	open_kcov();
	while (!__atomic_load_n(&shared->stop, __ATOMIC_ACQUIRE)) {
		stand_still();
		one_program();
	}
	return 0;
}

/*
 * The number of programs that the workers run between two times at which words are scribbled
 * over.
 */
#define PROGRAMS_A_SCRIBBLE	4

static unsigned long all_programs(void)
{
	return __atomic_load_n(&shared->programs[0], __ATOMIC_RELAXED) +
	       __atomic_load_n(&shared->programs[1], __ATOMIC_RELAXED);
}

/* Scribbles over the marks of any line, or of the first. */
static void scribble_marks(unsigned int m)
{
	unsigned int lines = (me.map[m].len - me.map[m].marks) * 8 / LINE;
	char *at = me.map[m].at;

	scatter_marks((__u64 *)(at + me.map[m].marks), (__u64 *)(at + SUMMARY_OFFSET),
		      random_below(4) ? 1 : lines, random_value());
}

/* Writes random values to the words, marks and the header at random times. */
static int scribble(unsigned int nr)
{
	static unsigned long next;

	if (!begin(nr))
		return 1;
	while (!__atomic_load_n(&shared->stop, __ATOMIC_ACQUIRE)) {
		unsigned int i, m = random_below(WHEELS);
		__u64 *words;

		stand_still();
		/*
		 * Keep pace with the workers, because otherwise the machine would only expire
		 * timers.
		 */
		if (all_programs() < next) {
			sleep_ns(100000);
			continue;
		}
		next = all_programs() + PROGRAMS_A_SCRIBBLE;
		map_wheels();
		if (!me.map[m].len)
			continue;
		if (sigsetjmp(me.fault, 0)) {
			me.may_fault = false;
			continue;
		}
		me.may_fault = true;
		words = (__u64 *)me.map[m].at;
		for (i = 0; i < 64; i++) {
			__u64 value = random_below(4) ? random_value() :
				      now(CLOCK_MONOTONIC) + random_below(4 * NS_PER_MS) -
				      NS_PER_MS;
			/* Usually the words of the first slots, and rarely any place. */
			__u64 at = random_below(64) ? PAGE / 8 + random_below(512) :
				   random_below(me.map[m].len / 8);

			__atomic_store_n(&words[at], value, __ATOMIC_RELAXED);
			if (i % 16 == 0)
				scribble_marks(m);
		}
		me.may_fault = false;
		shared->calls[nr] += 64;
	}
	return 0;
}

/* Quiet points, after a number of programs or some time */

#define PROGRAMS_A_POINT	2000
#define MS_A_POINT		10000

/* A wheel that the other processes have no descriptor of. */
struct neighbor {
	int fd;
	__u64 periodic;
	__u64 deadline;
	unsigned long events;
};

#define NEIGHBOR_PERIOD	(10 * NS_PER_MS)
#define NEIGHBOR_TIMERS	100
/* A period that is later than this has been lost. */
#define NEIGHBOR_LOST_AFTER	(10 * NS_PER_SEC)

static void open_neighbor(struct __test_metadata *_metadata, struct neighbor *n)
{
	struct twheel_timer t;

	memset(n, 0, sizeof(*n));
	n->fd = open_wheel(_metadata, O_NONBLOCK);
	add_many(_metadata, n->fd, NEIGHBOR_TIMERS, 1000 * HOUR, 0, 0, NULL);
	n->periodic = add_periodic(_metadata, n->fd, NEIGHBOR_PERIOD, NEIGHBOR_PERIOD, 0);
	ASSERT_EQ(0, get_timer(n->fd, n->periodic, &t));
	n->deadline = t.deadline_ns;
}

/*
 * Checks that every period of the neighbor has come, none twice and none early, and nothing
 * else.
 */
static void check_neighbor(struct __test_metadata *_metadata, struct neighbor *n)
{
	__u64 before = now(CLOCK_MONOTONIC);
	struct twheel_stats s;
	struct twheel_event ev;

	while (read_now(n->fd, &ev, 1) == 1) {
		ASSERT_EQ(n->periodic, ev.id);
		ASSERT_EQ(n->deadline, ev.deadline_ns);
		ASSERT_LE(ev.deadline_ns, ev.expired_ns);
		ASSERT_GE(ev.expirations, 1);
		n->deadline += ev.expirations * NEIGHBOR_PERIOD;
		n->events++;
	}
	ASSERT_GE(n->deadline + NEIGHBOR_LOST_AFTER, before);
	ASSERT_TRUE(conserved(n->fd, &s));
	ASSERT_EQ(NEIGHBOR_TIMERS + 1, s.allocated);
	ASSERT_EQ(0, s.displaced);
	ASSERT_EQ(n->events, s.delivered);
}

/* Returns how many timers LIST reports. It asks for many at a time, as there may be many. */
static int list_whole(int fd)
{
	static struct twheel_timer page[4096];
	__u32 cursor = 0;
	int ret, total = 0;

	while ((ret = list(fd, page, ARRAY_SIZE(page), &cursor)) > 0)
		total += ret;
	return ret < 0 ? ret : total;
}

/*
 * Replaces the wheels in turn, each by one of another shape. On a wheel that goes round, each
 * timer is looked at in each round: with two levels and 65536 timers, that is two million
 * looks a second. A slow machine would do nothing else, and be late forever.
 */
static void renew_wheel(struct __test_metadata *_metadata, unsigned int i)
{
	static const struct twheel_setup shapes[] = {
		{ .max_timers = 4096 },
		{ .max_timers = 1000, .tick_ns = 1 << 16, .levels = 1, .slot_bits = 4 },
		{ .max_timers = 4096, .tick_ns = 1 << 20, .slot_bits = 8 },
		{ .max_timers = 65536, .tick_ns = 1 << 17, .levels = 3, .slot_bits = 4,
		  .clock_id = CLOCK_BOOTTIME },
		{ .max_timers = 300, .tick_ns = 1, .slot_bits = 12 },
	};
	struct twheel_setup s = shapes[shared->generation % ARRAY_SIZE(shapes)];

	if (!is_root() && s.tick_ns && s.tick_ns < 100000)
		s.tick_ns = 0;
	if (shared->wheel[i] >= 0)
		close(shared->wheel[i]);
	shared->wheel[i] = open_wheel(_metadata, O_NONBLOCK);
	ASSERT_EQ(0, call(shared->wheel[i], TWHEEL_IOC_SETUP, &s));
	shared->read[i] = 0;
	shared->replaced[i]++;
	shared->generation++;
}

/* How long a wheel may take for due timers beyond their slack, in ms. */
#define OVERDUE_TIMEOUT_MS	60000

/* Returns how many timers of @fd should have expired by @before and have not. */
static int count_overdue(int fd, const struct twheel_info *info, __u64 before)
{
	static struct twheel_timer page[4096];
	__u32 cursor = 0;
	int ret, i, total = 0;

	while ((ret = list(fd, page, ARRAY_SIZE(page), &cursor)) > 0)
		for (i = 0; i < ret; i++) {
			__u64 by = page[i].deadline_ns, more = page[i].slack_ns + info->tick_ns;

			if (page[i].state == TWHEEL_ARMED && more >= info->tick_ns &&
			    by + more >= by && by + more < before)
				total++;
		}
	return ret < 0 ? ret : total;
}

/*
 * Checks that armed timers expire, which the sums alone would not show. First it marks words
 * that have changed without a mark.
 */
static void check_all_come(struct __test_metadata *_metadata, int fd)
{
	static struct twheel_timer page[4096];
	struct table t = { .fd = fd };
	struct twheel_info info;
	__u32 cursor = 0;
	unsigned int ms;
	__u64 before;
	int ret, i;

	ASSERT_EQ(0, call(fd, TWHEEL_IOC_INFO, &info));
	t.bytes = info.table_bytes;
	t.head = map_at(fd, t.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 0);
	ASSERT_TRUE(t.head != MAP_FAILED);
	while ((ret = list(fd, page, ARRAY_SIZE(page), &cursor)) > 0) {
		for (i = 0; i < ret; i++)
			mark(&t, page[i].id);
		ASSERT_EQ(0, turn_now(fd));
	}
	unmap_table(&t);
	ASSERT_EQ(0, ret);
	/* Wait for the finest buckets, and for timers that move down to them. */
	sleep_ms(20);
	before = now(info.clock_id);
	for (ms = 0; (ret = count_overdue(fd, &info, before)) && ms < OVERDUE_TIMEOUT_MS; ms += 10)
		sleep_ms(10);
	ASSERT_EQ(0, ret)
		TH_LOG("%d armed timers do not expire", ret);
}

static void check_wheels(struct __test_metadata *_metadata, unsigned int point)
{
	unsigned int i;

	for (i = 0; i < WHEELS; i++) {
		struct twheel_stats s;

		if (!conserved(shared->wheel[i], &s)) {
			tell_stats("not conserved", &s);
			ASSERT_TRUE(false);
		}
		ASSERT_EQ(s.allocated, (__u64)list_whole(shared->wheel[i]));
		ASSERT_EQ(s.delivered, shared->read[i]);
		ASSERT_LE(s.armed + s.unread, s.allocated);
		ASSERT_LE(s.worst_lateness_ns, s.expired ? NEVER : 0);
		if (is_final(i))
			ASSERT_EQ(0, s.withdrawn);
	}
	map_wheels();
	/* Nobody checks the sums of this wheel any more, so its events may be read. */
	i = point % WHEELS;
	check_all_come(_metadata, shared->wheel[i]);
	renew_wheel(_metadata, i);
}

static bool is_standing(unsigned int nr)
{
	return __atomic_load_n(&shared->standing[nr], __ATOMIC_ACQUIRE) == shared->pause;
}

static bool all_standing(const pid_t *pid, unsigned int processes)
{
	unsigned int i, ms;

	for (ms = 0; ms < 120000; ms++) {
		for (i = 0; i < processes; i++) {
			siginfo_t gone = { 0 };

			if (is_standing(i))
				continue;
			if (waitid(P_PID, pid[i], &gone, WEXITED | WNOHANG | WNOWAIT) ||
			    gone.si_pid)
				return false;
			break;
		}
		if (i == processes)
			return true;
		sleep_ms(1);
	}
	return false;
}

static void show_file(pid_t pid, const char *name)
{
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		printf("# %s: %s", name, line);
	if (f)
		fclose(f);
}

/* Shows where a process is that does not come back, and what the wheels do meanwhile. */
static void show_lost(const pid_t *pid, unsigned int processes)
{
	unsigned int i;

	for (i = 0; i < WORKERS; i++)
		print_program(&shared->now[i]);
	for (i = 0; i < processes; i++) {
		if (is_standing(i))
			continue;
		printf("# process %u:\n", i);
		show_file(pid[i], "stat");
		show_file(pid[i], "syscall");
		show_file(pid[i], "stack");
	}
	for (i = 0; i < WHEELS; i++) {
		struct twheel_stats s;
		struct twheel_info in;

		if (call(shared->wheel[i], TWHEEL_IOC_STATS, &s) ||
		    call(shared->wheel[i], TWHEEL_IOC_INFO, &in))
			continue;
		tell_stats("wheel", &s);
		printf("#   tick %llu ns, %u levels of %u bits: %llu moved, %llu cascaded, %llu wake-ups, %llu ns late at the worst\n",
		       in.tick_ns, in.levels, in.slot_bits, s.moved, s.cascaded, s.wakeups,
		       s.worst_lateness_ns);
	}
	fflush(stdout);
}

static unsigned long all_calls(void)
{
	return shared->calls[0] + shared->calls[1];
}

static bool enough(__u64 start)
{
	return (calls_wanted && all_calls() >= calls_wanted) ||
	       (seconds && now(CLOCK_MONOTONIC) - start >= seconds * NS_PER_SEC);
}

/* Waits until the next quiet point. */
static void wait_for_programs(__u64 began)
{
	unsigned long next = all_programs() + PROGRAMS_A_POINT;
	unsigned int ms;

	for (ms = 0; ms < MS_A_POINT && all_programs() < next && !enough(began); ms += 20)
		sleep_ms(20);
}

/* Returns the pid of a process that shares our descriptors, but not our memory. */
static pid_t start(int (*run)(unsigned int), unsigned int nr)
{
	pid_t pid = syscall(SYS_clone, CLONE_FILES | SIGCHLD, NULL, NULL, NULL, NULL);

	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		_exit(run(nr));
	}
	return pid;
}

static void load_corpus(struct __test_metadata *_metadata)
{
	const char *line = corpus_text, *end = line + sizeof(corpus_text) - 1;
	struct program p = { 0 };

	while (line < end) {
		size_t len = (const char *)memchr(line, '\n', end - line) - line;

		if (len && *line != '#') {
			ASSERT_LT(p.nr, STEPS);
			ASSERT_TRUE(parse_step(line, len, &p.step[p.nr]))
				TH_LOG("corpus: %.*s", (int)len, line);
			ASSERT_LT(p.step[p.nr].fd, WHEELS + OWN);
			p.nr++;
		} else if (!len && p.nr) {
			keep(&p);
			p.nr = 0;
		}
		line += len + 1;
	}
	if (p.nr)
		keep(&p);
	shared->given = shared->ready;
}

/*
 * Prints a corpus that reaches every block that the whole corpus does: the programs that add
 * something new, without the steps that do not matter.
 */
static void print_corpus(void)
{
	static __u8 blocks[COVERAGE], before[COVERAGE];
	unsigned int i, at, nr = 0, kept = 0;

	for (i = shared->ready; i--; ) {
		struct program p = shared->corpus[i], shorter;
		unsigned int gain, was = nr;

		memcpy(before, blocks, sizeof(blocks));
		run_traced(&p, KCOV_TRACE_PC);
		gain = new_edges(NULL, blocks, &nr);
		if (!gain)
			continue;
		for (at = p.nr; at-- && p.nr > 1; ) {
			shorter = p;
			memmove(&shorter.step[at], &shorter.step[at + 1],
				(--shorter.nr - at) * sizeof(*shorter.step));
			memcpy(blocks, before, sizeof(blocks));
			nr = was;
			run_traced(&shorter, KCOV_TRACE_PC);
			if (new_edges(NULL, blocks, &nr) >= gain)
				p = shorter;
		}
		print_program(&p);
		kept++;
	}
	printf("# corpus: %u programs for %u blocks\n", kept, nr);
}

FIXTURE(fuzz) {
	struct neighbor neighbor;
};

FIXTURE_SETUP(fuzz)
{
	unsigned int i;

	shared = shared_memory(sizeof(*shared));
	ASSERT_TRUE(!!shared);
	for (i = 0; i < WHEELS; i++)
		shared->wheel[i] = -1;
	for (i = 0; i < WHEELS; i++)
		renew_wheel(_metadata, i);
	load_corpus(_metadata);
	open_neighbor(_metadata, &self->neighbor);
}

FIXTURE_TEARDOWN(fuzz)
{
	unsigned int i;

	check_neighbor(_metadata, &self->neighbor);
	for (i = 0; i < WHEELS; i++)
		close(shared->wheel[i]);
	close(self->neighbor.fd);
}

/* Each program of the corpus can be printed, parsed again, and run. */
TEST_F_TIMEOUT(fuzz, corpus, 300)
{
	unsigned int i;

	EXPECT_GT(shared->given, 10);
	ASSERT_TRUE(begin(0));
	for (i = 0; i < shared->given; i++) {
		run_program(&shared->corpus[i]);
		check_neighbor(_metadata, &self->neighbor);
	}
	check_wheels(_metadata, 0);
}

/*
 * Marks that nobody sets again stop causing turns, wherever they are, even beyond the timers.
 * A wheel with nothing else to do wakes nobody.
 */
TEST_F_TIMEOUT(fuzz, marks_come_to_rest, 300)
{
	unsigned int i, kind, quiet, ms;

	ASSERT_TRUE(begin(0));
	for (i = 0; i < 5; i++) {
		unsigned int w = i % WHEELS, lines;
		struct twheel_stats s, before;
		char *at;

		renew_wheel(_metadata, w);
		map_wheels();
		ASSERT_GT(me.map[w].len, 0);
		at = me.map[w].at;
		lines = (me.map[w].len - me.map[w].marks) * 8 / LINE;
		add_many(_metadata, shared->wheel[w], 10, 0, TWHEEL_KEEP | TWHEEL_DISARMED, 0,
			 NULL);
		for (kind = 0; kind < 4; kind++) {
			/* A turn by itself, because a KICK does not request the next turn. */
			add_many(_metadata, shared->wheel[w], 1, NS_PER_MS, TWHEEL_KEEP, 0,
				 NULL);
			scatter_marks((__u64 *)(at + me.map[w].marks),
				      (__u64 *)(at + SUMMARY_OFFSET), lines, kind + 4);
			memset(at + SUMMARY_OFFSET, kind == 3 ? 0 : 0xff, 64);
			quiet = 0;
			ASSERT_EQ(0, call(shared->wheel[w], TWHEEL_IOC_STATS, &before));
			for (ms = 0; ms < TIMEOUT_MS && quiet < 3; ms += 20) {
				sleep_ms(20);
				ASSERT_EQ(0, call(shared->wheel[w], TWHEEL_IOC_STATS, &s));
				quiet = s.wakeups == before.wakeups ? quiet + 1 : 0;
				before = s;
			}
			ASSERT_EQ(3, quiet)
				TH_LOG("shape %u, marks %u: %llu wake-ups", i, kind, s.wakeups);
		}
	}
	check_wheels(_metadata, 0);
}

/* Two runs with the same seed make the same programs. */
TEST_F(fuzz, reproducible)
{
	unsigned int run, i;
	__u64 hash[2];

	for (run = 0; run < 2; run++) {
		ASSERT_TRUE(begin(0));
		shared->hash = 0;
		me.kcov = NULL;
		for (i = 0; i < 200; i++)
			one_program();
		hash[run] = shared->hash;
	}
	EXPECT_EQ(hash[0], hash[1]);
	check_wheels(_metadata, 0);
}

/* G3, G9: Whatever the processes do, everything adds up when they pause. */
TEST_F_TIMEOUT(fuzz, conservation, UNLIMITED)
{
	unsigned int points = 0, processes = single ? 0 : PROCESSES, i;
	pid_t pid[PROCESSES] = { 0 };
	__u64 began = now(CLOCK_MONOTONIC);
	bool guided;

	ASSERT_TRUE(begin(0));
	guided = open_kcov();
	if (!single && guided)
		close(me.kcov_fd);
	for (i = 0; i < processes; i++) {
		pid[i] = start(i < WORKERS ? work : scribble, i);
		ASSERT_GT(pid[i], 0);
	}
	while (!enough(began)) {
		int status;

		if (single)
			for (i = 0; i < 2000 && !enough(began); i++)
				one_program();
		else
			wait_for_programs(began);
		__atomic_store_n(&shared->pause, points + 1, __ATOMIC_RELEASE);
		if (!all_standing(pid, processes)) {
			show_lost(pid, processes);
			ASSERT_TRUE(false)
				TH_LOG("a process does not come back");
		}
		for (i = 0; i < processes; i++) {
			pid_t dead = waitpid(pid[i], &status, WNOHANG);

			ASSERT_EQ(0, dead);
		}
		check_wheels(_metadata, points++);
		check_neighbor(_metadata, &self->neighbor);
		__atomic_store_n(&shared->pause, 0, __ATOMIC_RELEASE);
	}
	shared->stop = 1;
	for (i = 0; i < processes; i++)
		EXPECT_EQ(0, status_of(pid[i]));
	check_wheels(_metadata, points++);
	TH_LOG("%lu calls and exchanges in %lu programs, %lu stores, %u quiet points, seed %llu, %llu a second",
	       all_calls(), shared->programs[0] + shared->programs[1], shared->calls[2], points,
	       seed, all_calls() * NS_PER_SEC / (now(CLOCK_MONOTONIC) - began));
	TARGET("calls", all_calls(), PART(calls_wanted));
	if (all_calls() < calls_wanted)
		TH_LOG("cut: %llu calls were asked for", calls_wanted);
	if (guided)
		TH_LOG("%u blocks, %u programs kept%s, %u constants", shared->nr_blocks,
		       shared->ready, shared->ready == CORPUS ? ", no more have room" : "",
		       nr_operands());
	else
		TH_LOG("blind: this kernel has no KCOV, or was not asked");
	if (single && !guided)
		TH_LOG("hash of the programs: %llx", shared->hash);
	EXPECT_GT(all_calls(), 0);
	/* The module was built for KCOV, and most of it was reached. */
	if (guided)
		EXPECT_GT(shared->nr_blocks, 700);
	EXPECT_TRUE(guided || !insist);
	if (print && guided) {
		if (!single)
			open_kcov();
		print_corpus();
	}
}

STRESS_MAIN({ "seconds", &seconds }, { "calls", &calls_wanted }, { "seed", &seed },
	    { "single", &single }, { "blind", &blind }, { "guided", &insist }, { "print", &print },
	    { "trace", &trace })
