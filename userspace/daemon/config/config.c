// SPDX-License-Identifier: GPL-2.0
/*
 * The configuration: a table of keys, a file and flags that follow it.
 *
 * The order is: defaults, the file, the flags, then the files that keys name and
 * the rules between keys. Each key remembers where it was set, for its errors.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>

#include "../../shared/duration.h"
#include "config/config.h"
#include "config/value.h"
#include "ground/units.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define FILE_MAX	65536
#define LINE_LEN	1024

enum key_type {
	KEY_BOOL,
	KEY_DURATION,
	KEY_LEVEL,
	KEY_LISTEN,
	KEY_NETWORKS,
	KEY_NUMBER,
	KEY_NUMBER64,
	KEY_PATH,
	KEY_PREFIX,
	KEY_REDIS,
	KEY_SIZE,
	KEY_TICK,
	KEY_WORD,
};

#define AT(field)	offsetof(struct config, field)

/*
 * @def is what a line of the file would say; @min and @max bound numbers. What is @fixed takes
 * effect at a start only, and SIGHUP refuses to change it. A @secret is a file that holds one.
 */
static const struct key {
	const char *name;
	enum key_type type;
	size_t at;
	const char *def;
	uint64_t min;
	uint64_t max;
	bool fixed;
	bool secret;
} keys[] = {
	{ "redis", KEY_REDIS, AT(redis), "unix:/run/redis/redis-server.sock", .fixed = true },
	{ "redis-user", KEY_WORD, AT(redis_user), "" },
	{ "redis-password-file", KEY_PATH, AT(redis_password_file), "", .secret = true },
	{ "sentinel-user", KEY_WORD, AT(sentinel_user), "" },
	{ "sentinel-password-file", KEY_PATH, AT(sentinel_password_file), "", .secret = true },
	{ "redis-tls", KEY_BOOL, AT(redis_tls), "no", .fixed = true },
	{ "redis-tls-ca-file", KEY_PATH, AT(redis_tls_ca_file), "" },
	{ "redis-tls-cert-file", KEY_PATH, AT(redis_tls_cert_file), "" },
	{ "redis-tls-key-file", KEY_PATH, AT(redis_tls_key_file), "", .secret = true },
	{ "redis-tls-name", KEY_WORD, AT(redis_tls_name), "" },
	{ "prefix", KEY_PREFIX, AT(prefix), "tw:", .fixed = true },
	{ "listen", KEY_LISTEN, AT(listen), "127.0.0.1:7733", .fixed = true },
	{ "token-file", KEY_PATH, AT(token_file), "", .secret = true },
	{ "lease", KEY_DURATION, AT(lease_ms), "10s", 6 * MS_PER_SEC, 15 * MS_PER_MIN },
	{ "max-lost", KEY_NUMBER, AT(max_lost), "5", 1, 255 },
	{ "batch", KEY_NUMBER, AT(batch), "128", 1, 128 },
	{ "hold-max", KEY_NUMBER, AT(hold_max), "16384", 1, 1000000 },
	{ "hold-bytes", KEY_SIZE, AT(hold_bytes), "64M", 1 << 20, 1ULL << 40 },
	{ "ahead", KEY_DURATION, AT(ahead_ms), "500ms", 0, 5 * MS_PER_SEC },
	{ "wait-replicas", KEY_NUMBER, AT(wait_replicas), "0", 0, 16, .fixed = true },
	{ "wait-timeout", KEY_DURATION, AT(wait_timeout_ms), "500ms", 1, MS_PER_MIN },
	{ "callback-concurrency", KEY_NUMBER, AT(callback_concurrency), "1000", 1, 65536 },
	{ "host-concurrency", KEY_NUMBER, AT(host_concurrency), "32", 1, 65536 },
	{ "callback-allow", KEY_NETWORKS, AT(allow), "" },
	{ "secret-file", KEY_PATH, AT(secret_file), "", .secret = true },
	{ "lane-max", KEY_NUMBER64, AT(lane_max), "1000000", 1, 1000000000 },
	{ "dead-max", KEY_NUMBER64, AT(dead_max), "100000", 0, 1000000000 },
	{ "dead-keep", KEY_DURATION, AT(dead_keep_ms), "7d", 0, 100 * MS_PER_YEAR },
	{ "strict", KEY_BOOL, AT(strict), "no" },
	{ "log-level", KEY_LEVEL, AT(log_level), "info" },
	{ "stop-delay", KEY_DURATION, AT(stop_delay_ms), "0", 0, MS_PER_HOUR },
	{ "stop-timeout", KEY_DURATION, AT(stop_timeout_ms), "20s", 0, MS_PER_HOUR },
	{ "tick", KEY_TICK, AT(tick_ns), "131072ns", 1000, 1000000000,
	  .fixed = true },
};

/* The place where a key was set: the number of a line in the file, or one of these. */
enum {
	FROM_DEFAULT = 0,
	FROM_FLAG = -1,
};

struct reader {
	struct config *c;
	const char *file;
	int from[CONFIG_KEYS];
	char *err;
};

_Static_assert(ARRAY_SIZE(keys) == CONFIG_KEYS, "each key has a place");

static const char usage[] =
	"Usage: twheeld [-c FILE] [--KEY=VALUE]... [--check] [--version]\n"
	"Run delayed tasks that Redis holds.\n"
	"\n"
	"  -c FILE        read this file (default: " CONFIG_FILE ")\n"
	"  --KEY=VALUE    set a key, which overrides the line \"KEY = VALUE\" of the file\n"
	"  --check        test the configuration and the connection to Redis, then exit\n"
	"  --version      print the version and exit\n"
	"  -h, --help     print this text and exit\n"
	"\n"
	"These are the keys with their defaults, which twheeld.conf(5) describes:\n";

const char *config_usage(void)
{
	static char text[4096];
	size_t len = snprintf(text, sizeof(text), "%s", usage);

	for (size_t i = 0; i < ARRAY_SIZE(keys) && len < sizeof(text); i++)
		len += snprintf(text + len, sizeof(text) - len, "  %-23s %s\n", keys[i].name,
				*keys[i].def ? keys[i].def : "none");
	return text;
}

/* Sets the error: place, key and reason. Returns -1. */
static __attribute__((format(printf, 4, 5)))
int fail(struct reader *r, const struct key *key, int from, const char *fmt, ...)
{
	char *end = r->err + CONFIG_ERROR_LEN, *p = r->err;
	va_list args;

	if (from == FROM_FLAG)
		p += snprintf(p, CONFIG_ERROR_LEN, "--%s: ", key->name);
	else if (from > 0)
		p += snprintf(p, CONFIG_ERROR_LEN, "%.256s:%d: %s%s", r->file, from,
			      key ? key->name : "", key ? ": " : "");
	else if (key)
		p += snprintf(p, CONFIG_ERROR_LEN, "%s: ", key->name);
	va_start(args, fmt);
	vsnprintf(p, (size_t)(end - p), fmt, args);
	va_end(args);
	/* Replace control characters, because the text goes to a terminal or a log. */
	for (p = r->err; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = '?';
	return -1;
}

static const struct key *find_key(const char *name, size_t len)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(keys); i++)
		if (strlen(keys[i].name) == len && !memcmp(keys[i].name, name, len))
			return &keys[i];
	return NULL;
}

static const struct key *key_at(size_t at)
{
	size_t i = 0;

	while (keys[i].at != at)
		i++;
	return &keys[i];
}

/* Writes a bound. Bounds of sizes are whole MiB. */
static void bound_text(char *buf, size_t len, const struct key *key, uint64_t bound)
{
	char duration[DURATION_LEN];

	if (key->type == KEY_DURATION)
		snprintf(buf, len, "%s", format_duration(duration, bound));
	else if (key->type == KEY_TICK)
		snprintf(buf, len, "%lluns", (unsigned long long)bound);
	else if (key->type == KEY_SIZE)
		snprintf(buf, len, "%lluM", (unsigned long long)bound >> 20);
	else
		snprintf(buf, len, "%llu", (unsigned long long)bound);
}

static const char *parse_tick(const char *text, uint64_t *ns)
{
	unsigned long long value;
	const char *why = parse_duration(text, strlen(text), &value);

	if (!why)
		*ns = value;
	return why;
}

/* Reads a number, a size or a duration into its field. */
static int set_number(struct reader *r, const struct key *key, int from, const char *text)
{
	char *field = (char *)r->c + key->at;
	char bound[DURATION_LEN];
	const char *why;
	uint64_t value;

	if (key->type == KEY_DURATION)
		why = parse_ms(text, &value);
	else if (key->type == KEY_TICK)
		why = parse_tick(text, &value);
	else if (key->type == KEY_SIZE)
		why = parse_size(text, &value);
	else
		why = parse_number(text, &value);
	if (why)
		return fail(r, key, from, "\"%s\": %s", text, why);
	if (value < key->min) {
		bound_text(bound, sizeof(bound), key, key->min);
		return fail(r, key, from, "\"%s\": must be at least %s", text, bound);
	}
	if (value > key->max) {
		bound_text(bound, sizeof(bound), key, key->max);
		return fail(r, key, from, "\"%s\": must be at most %s", text, bound);
	}
	if (key->type == KEY_NUMBER)
		*(unsigned int *)field = (unsigned int)value;
	else
		*(uint64_t *)field = value;
	return 0;
}

static const char *set_bool(const char *text, bool *value)
{
	if (!strcmp(text, "yes") || !strcmp(text, "true") || !strcmp(text, "on"))
		*value = true;
	else if (!strcmp(text, "no") || !strcmp(text, "false") || !strcmp(text, "off"))
		*value = false;
	else
		return "must be yes or no";
	return NULL;
}

static const char *set_level(const char *text, int *level)
{
	static const struct {
		const char *name;
		int level;
	} levels[] = {
		{ "err", LOG_ERR }, { "warning", LOG_WARNING }, { "notice", LOG_NOTICE },
		{ "info", LOG_INFO },
	};

	for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
		if (strcmp(text, levels[i].name))
			continue;
		*level = levels[i].level;
		return NULL;
	}
	return "must be err, warning, notice or info";
}

static const char *set_text(const char *text, char *field, size_t len)
{
	static char why[64];

	if (strlen(text) >= len) {
		snprintf(why, sizeof(why), "longer than %zu bytes", len - 1);
		return why;
	}
	memcpy(field, text, strlen(text) + 1);
	return NULL;
}

/* systemd passes files of LoadCredential= in a directory whose name only the unit knows. */
static const char *set_path(const char *text, char *field, size_t len)
{
	static const char variable[] = "${CREDENTIALS_DIRECTORY}/";
	size_t skip = sizeof(variable) - 1;
	const char *dir;

	if (strncmp(text, variable, skip))
		return set_text(text, field, len);
	dir = getenv("CREDENTIALS_DIRECTORY");
	if (!dir)
		return "CREDENTIALS_DIRECTORY is not set: the unit needs LoadCredential=";
	return (size_t)snprintf(field, len, "%s/%s", dir, text + skip) < len ? NULL :
	       "the path is too long";
}

/* Adds the networks of one line, which may contain several, separated by commas or spaces. */
static const char *add_networks(struct config *c, const char *text)
{
	char one[64];

	for (;;) {
		const char *why;
		size_t len;

		text += strspn(text, ", \t");
		if (!*text)
			return NULL;
		len = strcspn(text, ", \t");
		if (len >= sizeof(one))
			return "not a network";
		memcpy(one, text, len);
		one[len] = '\0';
		if (c->allows == CONFIG_ALLOW_MAX)
			return "more than " TEXT(CONFIG_ALLOW_MAX) " networks";
		why = network_parse(one, &c->allow[c->allows]);
		if (why)
			return why;
		c->allows++;
		text += len;
	}
}

static const char *add_listen(struct config *c, const char *text)
{
	const char *why;

	if (c->listens == CONFIG_LISTEN_MAX)
		return "more than " TEXT(CONFIG_LISTEN_MAX) " addresses";
	why = listen_parse(text, &c->listen[c->listens]);
	if (!why)
		c->listens++;
	return why;
}

static bool may_repeat(const struct key *key)
{
	return key->type == KEY_LISTEN || key->type == KEY_NETWORKS;
}

static void forget_list(struct config *c, const struct key *key)
{
	if (key->type == KEY_LISTEN)
		c->listens = 0;
	if (key->type == KEY_NETWORKS)
		c->allows = 0;
}

/* Sets one key from a line of the file or from a flag. */
static int set_key(struct reader *r, const struct key *key, int from, const char *text)
{
	int *was = &r->from[key - keys];
	char *field = (char *)r->c + key->at;
	bool from_file = from > 0;
	const char *why;

	if (from_file && *was > 0 && !may_repeat(key))
		return fail(r, key, from, "already set in line %d", *was);
	/* The first value from a new source replaces the list of the source before. */
	if (from_file != (*was > 0) || *was == FROM_DEFAULT)
		forget_list(r->c, key);
	*was = from;

	switch (key->type) {
	case KEY_BOOL:
		why = set_bool(text, (bool *)field);
		break;
	case KEY_LEVEL:
		why = set_level(text, (int *)field);
		break;
	case KEY_LISTEN:
		why = add_listen(r->c, text);
		break;
	case KEY_NETWORKS:
		why = add_networks(r->c, text);
		break;
	case KEY_PATH:
		why = set_path(text, field, sizeof(r->c->token_file));
		break;
	case KEY_PREFIX:
		why = prefix_refused(text);
		why = why ? why : set_text(text, field, sizeof(r->c->prefix));
		break;
	case KEY_REDIS:
		why = redis_url_parse(text, &r->c->redis);
		break;
	case KEY_WORD:
		why = strpbrk(text, " \t") ? "a name must not contain spaces" :
		      set_text(text, field, sizeof(r->c->redis_user));
		break;
	default:
		return set_number(r, key, from, text);
	}
	return why ? fail(r, key, from, "\"%s\": %s", text, why) : 0;
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Reads one line of the file, [@p, @end), whose number is @number. */
static int read_line(struct reader *r, int number, const char *p, const char *end)
{
	const char *name, *equals, *name_end;
	const struct key *key;
	char value[LINE_LEN];

	while (p < end && is_space(*p))
		p++;
	while (end > p && is_space(end[-1]))
		end--;
	if (p == end || *p == '#')
		return 0;
	if (memchr(p, 0, (size_t)(end - p)))
		return fail(r, NULL, number, "the line contains a NUL byte");
	name = p;
	equals = memchr(p, '=', (size_t)(end - p));
	if (!equals)
		return fail(r, NULL, number, "not \"key = value\"");
	for (name_end = equals; name_end > name && is_space(name_end[-1]);)
		name_end--;
	key = find_key(name, (size_t)(name_end - name));
	if (!key)
		return fail(r, NULL, number, "unknown key \"%.*s\": see twheeld.conf(5)",
			    (int)(name_end - name > 64 ? 64 : name_end - name), name);
	for (p = equals + 1; p < end && is_space(*p);)
		p++;
	if (end - p >= LINE_LEN)
		return fail(r, key, number, "the line is too long");
	memcpy(value, p, (size_t)(end - p));
	value[end - p] = '\0';
	return set_key(r, key, number, value);
}

static int read_text(struct reader *r, const char *text, size_t len)
{
	const char *end = text + len;
	int number = 0;

	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		const char *line_end = newline ? newline : end;

		if (read_line(r, ++number, text, line_end))
			return -1;
		text = line_end + 1;
	}
	return 0;
}

/* Reads a file. Returns its length, or a negative errno. */
static long slurp(const char *path, char *buf, size_t room)
{
	FILE *f = fopen(path, "re");
	size_t len;
	int err;

	if (!f)
		return -errno;
	errno = 0;
	len = fread(buf, 1, room, f);
	err = ferror(f) ? (errno ? errno : EIO) : 0;
	fclose(f);
	if (err)
		return -err;
	return len == room ? -EFBIG : (long)len;
}

/* Large enough for one file at a time. */
static char file_text[FILE_MAX];

static int read_file(struct reader *r, const struct config_args *args)
{
	long len;

	len = slurp(args->file, file_text, sizeof(file_text));
	if (len == -ENOENT && !args->file_named)
		return 0;
	if (len < 0)
		return fail(r, NULL, FROM_DEFAULT, "%.256s: %s", args->file,
			    strerror((int)-len));
	return read_text(r, file_text, (size_t)len);
}

/*
 * Reads the lines of the file that a key names: at least one, and at most @max. Passes each to
 * @take, which returns what is wrong with it.
 */
static int read_lines(struct reader *r, size_t at, size_t max,
		      const char *(*take)(struct config *c, const char *line))
{
	const char *what = at == AT(token_file) ? "token" : at == AT(secret_file) ? "secret" :
		"password";
	const char *path = (const char *)r->c + at;
	const struct key *key = key_at(at);
	int from = r->from[key - keys];
	char *line, *next, many[64];
	size_t count = 0;
	int number = 0;
	long len;

	if (!*path)
		return 0;
	len = slurp(path, file_text, sizeof(file_text) - 1);
	if (len < 0)
		return fail(r, key, from, "%s: %s", path, strerror((int)-len));
	file_text[len] = '\0';
	if (strlen(file_text) != (size_t)len)
		return fail(r, key, from, "%s: the file contains a NUL byte", path);
	for (line = file_text; line; line = next) {
		const char *why;
		char *end;

		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		number++;
		while (is_space(*line))
			line++;
		for (end = line + strlen(line); end > line && is_space(end[-1]);)
			*--end = '\0';
		/* In a file of tokens, this is a comment, but a password may begin with "#". */
		if (!*line || (*line == '#' && at == AT(token_file)))
			continue;
		snprintf(many, sizeof(many), "the file may contain at most %zu %s%s", max, what,
			 max == 1 ? "" : "s");
		why = ++count > max ? many : take(r->c, line);
		if (!why)
			continue;
		explicit_bzero(file_text, (size_t)len);
		return fail(r, key, from, "%s:%d: %s", path, number, why);
	}
	explicit_bzero(file_text, (size_t)len);
	return count ? 0 : fail(r, key, from, "%s: the file contains no %s", path, what);
}

static const char *take_password(struct config *c, const char *line)
{
	return set_text(line, c->redis_password, sizeof(c->redis_password));
}

static const char *take_sentinel_password(struct config *c, const char *line)
{
	return set_text(line, c->sentinel_password, sizeof(c->sentinel_password));
}

static const char *take_token(struct config *c, const char *line)
{
	struct bearer *t = &c->token[c->tokens];
	const char *why = bearer_parse(line, t);

	if (why)
		return why;
	for (size_t i = 0; i < c->tokens; i++)
		if (!strcmp(c->token[i].text, t->text))
			return "an earlier line has the same token";
	c->tokens++;
	return NULL;
}

static const char *take_secret(struct config *c, const char *line)
{
	const char *why = secret_parse(line, &c->secret[c->secrets]);

	if (!why)
		c->secrets++;
	return why;
}

/* The rules between the keys of TLS. */
static int finish_tls(struct reader *r)
{
	static const size_t of_tls[] = {
		AT(redis_tls_ca_file), AT(redis_tls_cert_file), AT(redis_tls_key_file),
		AT(redis_tls_name),
	};
	struct config *c = r->c;
	const struct key *key = key_at(AT(redis_tls));
	size_t i;

	if (c->redis_tls && c->redis.kind == REDIS_UNIX)
		return fail(r, key, r->from[key - keys], "a Unix socket does not use TLS");
	c->redis.tls |= c->redis_tls;
	for (i = 0; i < ARRAY_SIZE(of_tls); i++) {
		key = key_at(of_tls[i]);
		if (*((char *)c + key->at) && !c->redis.tls)
			return fail(r, key, r->from[key - keys],
				    "this needs rediss:// or redis-tls = yes");
	}
	if (!*c->redis_tls_cert_file == !*c->redis_tls_key_file)
		return 0;
	key = key_at(*c->redis_tls_cert_file ? AT(redis_tls_cert_file) : AT(redis_tls_key_file));
	return fail(r, key, r->from[key - keys], "a certificate needs its key, and a key its certificate");
}

/* The files that keys name, and the rules between keys. */
static int finish(struct reader *r)
{
	const struct key *key;
	size_t i;

	if (read_lines(r, AT(redis_password_file), 1, take_password) ||
	    read_lines(r, AT(sentinel_password_file), 1, take_sentinel_password) ||
	    read_lines(r, AT(token_file), CONFIG_TOKENS_MAX, take_token) ||
	    read_lines(r, AT(secret_file), CONFIG_SECRETS_MAX, take_secret))
		return -1;
	key = key_at(AT(redis_user));
	if (*r->c->redis_user && !*r->c->redis_password_file)
		return fail(r, key, r->from[key - keys],
			    "a user needs a password: set redis-password-file");
	key = key_at(AT(sentinel_user));
	if (*r->c->sentinel_user && !*r->c->sentinel_password_file)
		return fail(r, key, r->from[key - keys],
			    "a user needs a password: set sentinel-password-file");
	if (finish_tls(r))
		return -1;
	key = key_at(AT(listen));
	for (i = 0; i < r->c->listens; i++)
		if (!r->c->listen[i].local && !r->c->tokens)
			return fail(r, key, r->from[key - keys],
				    "\"%s\": an address that other machines can reach needs token-file",
				    r->c->listen[i].text);
	return 0;
}

/* Handles the options that are not keys. Returns false if @arg is not one of them. */
static bool read_option(struct config_args *args, const char *arg)
{
	if (!strcmp(arg, "--check"))
		args->check = true;
	else if (!strcmp(arg, "--version"))
		args->version = true;
	else if (!strcmp(arg, "--help") || !strcmp(arg, "-h"))
		args->help = true;
	else
		return false;
	return true;
}

/* Finds the options that are needed before the file is read. */
static int read_options(struct reader *r, struct config_args *args, int argc, char **argv)
{
	int i;

	for (i = 1; i < argc; i++) {
		if (read_option(args, argv[i]) || !strncmp(argv[i], "--", 2))
			continue;
		if (strncmp(argv[i], "-c", 2))
			return fail(r, NULL, FROM_DEFAULT, "unknown argument \"%.64s\"",
				    argv[i]);
		args->file_named = true;
		if (argv[i][2]) {
			args->file = argv[i] + 2;
			continue;
		}
		if (++i == argc)
			return fail(r, NULL, FROM_DEFAULT, "-c needs a file");
		args->file = argv[i];
	}
	return 0;
}

static int read_flags(struct reader *r, int argc, char **argv)
{
	struct config_args ignored;
	int i;

	for (i = 1; i < argc; i++) {
		const struct key *key;
		size_t len;

		if (!strcmp(argv[i], "-c"))
			i++;
		if (strncmp(argv[i], "--", 2) || read_option(&ignored, argv[i]))
			continue;
		len = strcspn(argv[i] + 2, "=");
		key = find_key(argv[i] + 2, len);
		if (!key)
			return fail(r, NULL, FROM_DEFAULT, "unknown option \"%.64s\": see twheeld.conf(5)",
				    argv[i]);
		if (!argv[i][2 + len])
			return fail(r, key, FROM_FLAG, "needs a value: --%s=VALUE",
				    key->name);
		if (set_key(r, key, FROM_FLAG, argv[i] + 3 + len))
			return -1;
	}
	return 0;
}

void config_defaults(struct config *c)
{
	char err[CONFIG_ERROR_LEN];
	struct reader r = { .c = c, .file = "", .err = err };
	size_t i;

	memset(c, 0, sizeof(*c));
	for (i = 0; i < ARRAY_SIZE(keys); i++)
		set_key(&r, &keys[i], FROM_DEFAULT, keys[i].def);
}

int config_text(struct config *c, const char *name, const char *text, size_t len,
		char err[CONFIG_ERROR_LEN])
{
	struct reader r = { .c = c, .file = name, .err = err };

	return read_text(&r, text, len);
}

int config_read(struct config *c, struct config_args *args, int argc, char **argv,
		char err[CONFIG_ERROR_LEN])
{
	struct reader r = { .c = c, .err = err };

	*args = (struct config_args){ .file = CONFIG_FILE };
	config_defaults(c);
	if (read_options(&r, args, argc, argv))
		return -1;
	r.file = args->file;
	if (args->version || args->help)
		return 0;
	if (read_file(&r, args) || read_flags(&r, argc, argv))
		return -1;
	memcpy(args->from, r.from, sizeof(args->from));
	return finish(&r);
}

void config_place(const struct config_args *args, const char *why, char err[CONFIG_ERROR_LEN])
{
	struct reader r = { .file = args->file, .err = err };
	size_t len = strcspn(why, ":");
	const struct key *key = find_key(why, len);

	if (key)
		fail(&r, key, args->from[key - keys], "%s", why + len + 2);
	else
		fail(&r, NULL, FROM_DEFAULT, "%s", why);
}

static bool same_listen(const struct config *a, const struct config *b)
{
	if (a->listens != b->listens)
		return false;
	for (size_t i = 0; i < a->listens; i++)
		if (strcmp(a->listen[i].text, b->listen[i].text))
			return false;
	return true;
}

/* True if a key that only takes effect at a start has the same value in both. */
static bool same_value(const struct key *key, const struct config *a, const struct config *b)
{
	const char *x = (const char *)a + key->at, *y = (const char *)b + key->at;

	switch (key->type) {
	case KEY_BOOL:
		return *(const bool *)x == *(const bool *)y;
	case KEY_LISTEN:
		return same_listen(a, b);
	case KEY_NUMBER:
		return *(const unsigned int *)x == *(const unsigned int *)y;
	case KEY_PREFIX:
		return !strcmp(x, y);
	case KEY_REDIS:
		/* redis-tls has its own key. */
		return redis_url_same(&a->redis, &b->redis) &&
		       (a->redis.tls == b->redis.tls || a->redis_tls != b->redis_tls);
	default:
		return *(const uint64_t *)x == *(const uint64_t *)y;
	}
}

bool config_fixed(const struct config *now, const struct config *next,
		  const struct config_args *args, size_t *at, char err[CONFIG_ERROR_LEN])
{
	struct reader r = { .file = args->file, .err = err };

	while (*at < ARRAY_SIZE(keys)) {
		const struct key *key = &keys[(*at)++];

		if (!key->fixed || same_value(key, now, next))
			continue;
		fail(&r, key, args->from[key - keys], "only a restart can change this");
		return true;
	}
	return false;
}

bool config_exposed(const struct config *c, const struct config_args *args, size_t *at,
		    char err[CONFIG_ERROR_LEN])
{
	struct reader r = { .file = args->file, .err = err };

	while (*at < ARRAY_SIZE(keys)) {
		const struct key *key = &keys[(*at)++];
		const char *path = (const char *)c + key->at;
		struct stat st;

		if (!key->secret || !*path || stat(path, &st) || !S_ISREG(st.st_mode) ||
		    !(st.st_mode & 0006))
			continue;
		fail(&r, key, args->from[key - keys],
		     "%s: every user of this machine may %s it, because its mode is %04o", path,
		     st.st_mode & 0002 ? "change" : "read", st.st_mode & 07777);
		return true;
	}
	return false;
}
