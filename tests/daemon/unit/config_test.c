// SPDX-License-Identifier: GPL-2.0
/*
 * The configuration: each row is a file or flags, and the expected error or field.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/un.h>
#include <syslog.h>
#include <unistd.h>

#include "config/config.h"
#include "config/value.h"
#include "tap.h"

#define NEEDS_UNIT	"a duration needs a unit, for example ms, s or min"

static struct config c;
static char dir[] = "/tmp/twheeld-config.XXXXXX";
static char conf[64], secret[64], token[64];

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	if (!f || fputs(text, f) < 0 || fclose(f))
		ok(false, "%s is written", path);
}

static void check_defaults(void)
{
	config_defaults(&c);
	ok(c.redis.kind == REDIS_UNIX, "Redis is on a Unix socket by default");
	is_text(c.redis.path, "/run/redis/redis-server.sock", "Redis's default socket is Debian's");
	is_text(c.prefix, "tw:", "the prefix is tw:");
	is_number(c.listens, 1, "there is one address");
	is_text(c.listen[0].text, "127.0.0.1:7733", "the default address is 127.0.0.1:7733");
	ok(c.listen[0].local, "the default address is local");
	is_number(c.lease_ms, 10000, "lease");
	is_number(c.max_lost, 5, "max-lost");
	is_number(c.batch, 128, "batch");
	is_number(c.hold_max, 16384, "hold-max");
	is_number(c.hold_bytes, 64 << 20, "hold-bytes");
	is_number(c.ahead_ms, 500, "ahead");
	is_number(c.wait_replicas, 0, "wait-replicas");
	is_number(c.wait_timeout_ms, 500, "wait-timeout");
	is_number(c.callback_concurrency, 1000, "callback-concurrency");
	is_number(c.host_concurrency, 32, "host-concurrency");
	is_number(c.allows, 0, "callback-allow");
	is_number(c.lane_max, 1000000, "lane-max");
	is_number(c.dead_max, 100000, "dead-max");
	is_number(c.dead_keep_ms, 7 * 86400000ULL, "dead-keep");
	ok(!c.strict, "strict");
	is_number(c.log_level, LOG_INFO, "log-level");
	is_number(c.stop_delay_ms, 0, "stop-delay");
	is_number(c.stop_timeout_ms, 20000, "stop-timeout");
	is_number(c.tick_ns, 131072, "tick");
}

static const char networks[] = "callback-allow = 10.0.0.0/8, fd00::/8\n"
			       "callback-allow = 127.0.0.1\n";
static const char addresses[] = "listen = 127.0.0.1:1\nlisten = [::1]:2\n"
				"listen = unix:/run/t.sock\n";

/* The text of a file and its error, or NULL if it is valid. */
static const struct {
	const char *text;
	const char *err;
} files[] = {
	{ "", NULL },
	{ "# comment\n\n  # another\n", NULL },
	{ "lease = 20s", NULL },
	{ "lease=20s\r\n", NULL },
	{ "\tlease\t=\t20s\t\n", NULL },
	{ "lease = 20s\nlease = 30s\n", "f:2: lease: already set in line 1" },
	{ "\n\nlease 20s\n", "f:3: not \"key = value\"" },
	{ "leese = 20s\n", "f:1: unknown key \"leese\": see twheeld.conf(5)" },
	{ " = 20s\n", "f:1: unknown key \"\": see twheeld.conf(5)" },
	{ "lease =\n", "f:1: lease: \"\": empty" },
	{ "lease = 3s\n", "f:1: lease: \"3s\": must be at least 6s" },
	{ "lease = 1h\n", "f:1: lease: \"1h\": must be at most 15m" },
	{ "lease = soon\n",
	  "f:1: lease: \"soon\": not a duration (try 250ms, 5s, 1h30m)" },
	{ "max-lost = 0\n", "f:1: max-lost: \"0\": must be at least 1" },
	{ "batch = 129\n", "f:1: batch: \"129\": must be at most 128" },
	{ "batch = 12x\n", "f:1: batch: \"12x\": not a number" },
	{ "hold-bytes = 64X\n", "f:1: hold-bytes: \"64X\": not a size (try 65536, 64K, 64M)" },
	{ "ahead = 6s\n", "f:1: ahead: \"6s\": must be at most 5s" },
	{ "dead-keep = 30\n", "f:1: dead-keep: \"30\": " NEEDS_UNIT },
	{ "dead-keep = 1week 2days\nstop-timeout = 1min 30s\nahead = 0\n", NULL },
	{ "tick = 131072\n", "f:1: tick: \"131072\": " NEEDS_UNIT },
	{ "tick = 100us\n", NULL },
	{ "tick = 999ns\n", "f:1: tick: \"999ns\": must be at least 1000ns" },
	{ "log-level = warning\n", NULL },
	{ "log-level = debug\n",
	  "f:1: log-level: \"debug\": must be err, warning, notice or info" },
	{ "strict = maybe\n", "f:1: strict: \"maybe\": must be yes or no" },
	{ "prefix = a b\n",
	  "f:1: prefix: \"a b\": a prefix may contain only A-Z, a-z, 0-9 and _:.-" },
	{ "prefix = {a}\n",
	  "f:1: prefix: \"{a}\": a prefix may contain only A-Z, a-z, 0-9 and _:.-" },
	{ "prefix =\n", "f:1: prefix: \"\": must not be empty" },
	{ "prefix = abcdefghijklmnopqrstuvwxyz0123456789\n",
	  "f:1: prefix: \"abcdefghijklmnopqrstuvwxyz0123456789\": longer than 31 bytes" },
	{ "redis-tls = perhaps\n", "f:1: redis-tls: \"perhaps\": must be yes or no" },
	{ "redis-tls-name = a b\n",
	  "f:1: redis-tls-name: \"a b\": a name must not contain spaces" },
	{ "redis-user = a b\n", "f:1: redis-user: \"a b\": a name must not contain spaces" },
	{ networks, NULL },
	{ "callback-allow = 10.0.0.1/8\n",
	  "f:1: callback-allow: \"10.0.0.1/8\": the address has bits beyond the prefix" },
	{ addresses, NULL },
	{ "listen = example.com:1\n",
	  "f:1: listen: \"example.com:1\": not ADDRESS:PORT, [IPV6]:PORT or unix:PATH" },
	{ "listen = 127.0.0.1\n", "f:1: listen: \"127.0.0.1\": the port is missing" },
	{ "listen = 127.0.0.1:0\n",
	  "f:1: listen: \"127.0.0.1:0\": a port must be from 1 to 65535" },
	{ "listen = 127.0.0.1:65536\n",
	  "f:1: listen: \"127.0.0.1:65536\": a port must be from 1 to 65535" },
	{ "listen = [::1\n", "f:1: listen: \"[::1\": \"[\" without \"]\"" },
	{ "listen = unix:x\n", "f:1: listen: \"unix:x\": unix: needs an absolute path" },
	{ "redis = http://x\n", "f:1: redis: \"http://x\": "
	  "not unix:PATH, redis://, rediss://, sentinel:// or cluster://" },
	{ "tick = \x1b[31m\n", "f:1: tick: \"?[31m\": not a duration (try 250ms, 5s, 1h30m)" },
	{ "hold-bytes = 1023K\n", "f:1: hold-bytes: \"1023K\": must be at least 1M" },
	{ "hold-bytes = 1025G\n", "f:1: hold-bytes: \"1025G\": must be at most 1048576M" },
};

/* Reads the defaults, and then @len bytes of a file. */
static int read_text(const char *text, size_t len, char *err)
{
	config_defaults(&c);
	*err = '\0';
	return config_text(&c, "f", text, len, err);
}

static void check_files(void)
{
	char err[CONFIG_ERROR_LEN], name[64];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(files); i++) {
		const char *want = files[i].err;
		int ret = read_text(files[i].text, strlen(files[i].text), err);

		snprintf(name, sizeof(name), "file %zu %s", i, want ? "is refused" : "is read");
		is_text(ret ? err : NULL, want, "%s", name);
	}
	ok(read_text("lease\0= 1", 9, err), "a NUL byte is refused");
	is_text(err, "f:1: the line contains a NUL byte", "the error names the NUL byte");
	read_text("lease = 20s\nstrict = yes\nprefix = a:\n", 37, err);
	ok(c.lease_ms == 20000 && c.strict && !strcmp(c.prefix, "a:"), "values arrive");
	read_text(networks, strlen(networks), err);
	is_number(c.allows, 3, "networks of several lines and commas are added up");
	read_text(addresses, strlen(addresses), err);
	is_number(c.listens, 3, "three addresses replace the default");
}

static const struct {
	const char *text;
	const char *why;
	enum redis_kind kind;
	const char *host;
	uint16_t port;
	size_t nodes;
} urls[] = {
	{ "unix:/run/redis.sock", NULL, REDIS_UNIX, "", 0, 0 },
	{ "redis://localhost", NULL, REDIS_TCP, "localhost", 6379, 1 },
	{ "redis://10.0.0.1:6380/3", NULL, REDIS_TCP, "10.0.0.1", 6380, 1 },
	{ "redis://[fd00::1]:6380/", NULL, REDIS_TCP, "fd00::1", 6380, 1 },
	{ "redis://[fd00::1]", NULL, REDIS_TCP, "fd00::1", 6379, 1 },
	{ "rediss://redis.example:6380", NULL, REDIS_TCP, "redis.example", 6380, 1 },
	{ "sentinel://a:1,b,c:3/mymaster", NULL, REDIS_SENTINEL, "a", 1, 3 },
	{ "sentinel://a/m", NULL, REDIS_SENTINEL, "a", 26379, 1 },
	{ "cluster://a:7000,[::1]:7001", NULL, REDIS_CLUSTER, "a", 7000, 2 },
	{ "unix:redis.sock", "unix: needs an absolute path", 0, NULL, 0, 0 },
	{ "redis://", "the host is missing", 0, NULL, 0, 0 },
	{ "redis://:6379", "the host is missing", 0, NULL, 0, 0 },
	{ "redis://a:b", "a port must be from 1 to 65535", 0, NULL, 0, 0 },
	{ "redis://a/70000", "a database must be from 0 to 65535", 0, NULL, 0, 0 },
	{ "redis://a/x", "a database must be from 0 to 65535", 0, NULL, 0, 0 },
	{ "redis://a b", "not a host name", 0, NULL, 0, 0 },
	{ "redis://u:p@a", "use redis-user and redis-password-file for user and password", 0,
	  NULL, 0, 0 },
	{ "redis://[zz]:1", "not an IPv6 address", 0, NULL, 0, 0 },
	{ "redis://[::1]x", "not HOST:PORT", 0, NULL, 0, 0 },
	{ "redis://a,b", "only sentinel:// and cluster:// can name several hosts", 0, NULL, 0, 0 },
	{ "sentinel://a:1", "the name of the master is missing", 0, NULL, 0, 0 },
	{ "sentinel://a:1/", "the name of the master is missing", 0, NULL, 0, 0 },
	{ "sentinel:///m", "the host is missing", 0, NULL, 0, 0 },
	{ "cluster://a,", "the host is missing", 0, NULL, 0, 0 },
	{ "cluster://a/1", "a cluster has only one database", 0, NULL, 0, 0 },
	{ "", "not unix:PATH, redis://, rediss://, sentinel:// or cluster://", 0, NULL, 0, 0 },
};

static void check_urls(void)
{
	char many[CONFIG_NODES_MAX * 2 + 32] = "cluster://";
	struct redis_url url;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(urls); i++) {
		const char *why;

		memset(&url, 0x55, sizeof(url));
		why = redis_url_parse(urls[i].text, &url);
		is_text(why, urls[i].why, "\"%s\" is %s", urls[i].text,
			urls[i].why ? "refused" : "read");
		if (why)
			continue;
		ok(url.kind == urls[i].kind && url.nodes == urls[i].nodes &&
		   !strcmp(url.node[0].host, urls[i].host) &&
		   url.node[0].port == urls[i].port, "the URL's parts are parsed");
	}
	redis_url_parse("rediss://a:1/7", &url);
	ok(url.tls && url.db == 7, "rediss:// is TLS, and /7 is a database");
	redis_url_parse("sentinel://a:1,b,c:3/mymaster", &url);
	ok(!strcmp(url.master, "mymaster") && url.node[1].port == 26379 && !url.tls,
	   "Sentinel has a name and a port of its own");
	for (i = 0; i < CONFIG_NODES_MAX + 1; i++)
		strcat(many, i ? ",a" : "a");
	is_text(redis_url_parse(many, &url), "more than 32 hosts", "33 hosts are refused");
}

/* Flags that follow "-c conf", the text of that file, and the error. */
static const struct {
	const char *text;
	const char *flag[3];
	const char *err;
} lines[] = {
	{ "lease = 20s", { "--lease=30s" }, NULL },
	{ "", { "--lease=3s" }, "--lease: \"3s\": must be at least 6s" },
	{ "", { "--lease" }, "--lease: needs a value: --lease=VALUE" },
	{ "", { "--leese=3s" }, "unknown option \"--leese=3s\": see twheeld.conf(5)" },
	{ "", { "lease" }, "unknown argument \"lease\"" },
	{ "", { "-x" }, "unknown argument \"-x\"" },
	{ "listen = 0.0.0.0:1", { NULL }, "CONF:1: listen: \"0.0.0.0:1\": "
	  "an address that other machines can reach needs token-file" },
	{ "listen = 0.0.0.0:1\ntoken-file = TOKEN", { NULL }, NULL },
	{ "listen = 0.0.0.0:1", { "--listen=127.0.0.1:2", "--listen=unix:/x" }, NULL },
	{ "", { "--listen=[::]:1" }, "--listen: \"[::]:1\": "
	  "an address that other machines can reach needs token-file" },
	{ "redis-user = me", { NULL },
	  "CONF:1: redis-user: a user needs a password: set redis-password-file" },
	{ "sentinel-user = me", { NULL },
	  "CONF:1: sentinel-user: a user needs a password: set sentinel-password-file" },
	{ "", { "--secret-file=/nonexistent" },
	  "--secret-file: /nonexistent: No such file or directory" },
	{ "secret-file = SECRET", { NULL }, NULL },
	{ "secret-file = TOKEN", { NULL },
	  "CONF:1: secret-file: TOKEN:1: a secret must begin with whsec_" },
	{ "redis = rediss://h\nredis-tls-ca-file = /ca", { NULL }, NULL },
	{ "redis = cluster://h\nredis-tls = yes\nredis-tls-name = n", { NULL }, NULL },
	{ "redis = cluster://h\nredis-tls-name = n", { NULL }, "CONF:2: redis-tls-name: "
	  "this needs rediss:// or redis-tls = yes" },
	{ "redis-tls = yes", { NULL }, "CONF:1: redis-tls: a Unix socket does not use TLS" },
	{ "redis = rediss://h", { "--redis-tls-cert-file=/c" },
	  "--redis-tls-cert-file: a certificate needs its key, and a key its certificate" },
};

/* Replaces CONF, TOKEN and SECRET in a text. */
static const char *fill(char *buf, size_t len, const char *text)
{
	const char *const names[][2] = {
		{ "CONF", conf }, { "TOKEN", token }, { "SECRET", secret },
	};
	size_t n = 0, i;

	while (*text && n + 1 < len) {
		for (i = 0; i < ARRAY_SIZE(names); i++)
			if (!strncmp(text, names[i][0], strlen(names[i][0])))
				break;
		if (i == ARRAY_SIZE(names)) {
			buf[n++] = *text++;
			continue;
		}
		n += (size_t)snprintf(buf + n, len - n, "%s", names[i][1]);
		text += strlen(names[i][0]);
	}
	buf[n] = '\0';
	return buf;
}

static int read_line(const char *text, const char *const *flags, struct config_args *args,
		     char *err)
{
	char *argv[8] = { "twheeld", "-c", conf };
	char buf[512];
	int argc = 3;

	write_file(conf, fill(buf, sizeof(buf), text));
	for (; *flags; flags++)
		argv[argc++] = (char *)*flags;
	*err = '\0';
	return config_read(&c, args, argc, argv, err);
}

static void check_lines(void)
{
	char err[CONFIG_ERROR_LEN], want[CONFIG_ERROR_LEN];
	struct config_args args;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(lines); i++) {
		int ret = read_line(lines[i].text, lines[i].flag, &args, err);

		is_text(ret ? err : NULL,
			lines[i].err ? fill(want, sizeof(want), lines[i].err) : NULL,
			"command line %zu is %s", i, lines[i].err ? "refused" : "read");
	}
	read_line(lines[0].text, lines[0].flag, &args, err);
	is_number(c.lease_ms, 30000, "a flag wins over the file");
	read_line(lines[8].text, lines[8].flag, &args, err);
	ok(c.listens == 2 && !strcmp(c.listen[0].text, "127.0.0.1:2"),
	   "flags of a list replace the lines of the file");
	read_line(lines[7].text, lines[7].flag, &args, err);
	ok(c.tokens == 2 && !strcmp(c.token[1].text, "0123456789abcdef-2"), "two tokens are read");
	read_line(lines[13].text, lines[13].flag, &args, err);
	ok(c.secrets == 2 && c.secret[0].len == 24 && c.secret[1].len == 32,
	   "two secrets are read");
}

static void check_credentials(void)
{
	static const char text[] = "listen = 0.0.0.0:1\ntoken-file = ${CREDENTIALS_DIRECTORY}/";
	const char *const none[] = { NULL };
	char dir[sizeof(token)], line[256], err[CONFIG_ERROR_LEN], want[CONFIG_ERROR_LEN];
	const char *name = strrchr(token, '/') + 1;
	struct config_args args;

	snprintf(line, sizeof(line), "%s%s", text, name);
	snprintf(dir, sizeof(dir), "%.*s", (int)(name - 1 - token), token);
	unsetenv("CREDENTIALS_DIRECTORY");
	ok(read_line(line, none, &args, err) && strstr(err, ":2: token-file: ") &&
	   strstr(err, "CREDENTIALS_DIRECTORY is not set: the unit needs LoadCredential="),
	   "a credential without a unit: %s", err);
	setenv("CREDENTIALS_DIRECTORY", dir, 1);
	ok(!read_line(line, none, &args, err) && c.tokens == 2, "a token is a credential: %s", err);
	config_place(&args, "token-file: no good", err);
	is_text(err, fill(want, sizeof(want), "CONF:2: token-file: no good"),
		"the place of a value that is wrong");
	unsetenv("CREDENTIALS_DIRECTORY");
}

static void check_options(void)
{
	char *missing[] = { "twheeld", "-c", "/nonexistent/x", NULL };
	char *none[] = { "twheeld", "--check", NULL };
	char *version[] = { "twheeld", "--version", "--leese=1", NULL };
	char *joined[] = { "twheeld", conf, NULL };
	char err[CONFIG_ERROR_LEN], minus_c[80];
	struct config_args args;

	ok(config_read(&c, &args, 3, missing, err), "a file that is named must exist");
	is_text(err, "/nonexistent/x: No such file or directory", "the error names it");
	ok(config_read(&c, &args, 2, missing, err), "-c alone is refused");
	ok(!config_read(&c, &args, 2, none, err) && args.check && !args.file_named,
	   "the default file need not exist");
	ok(!config_read(&c, &args, 3, version, err) && args.version,
	   "--version needs nothing else to be right");
	write_file(conf, "lease = 25s\n");
	snprintf(minus_c, sizeof(minus_c), "-c%s", conf);
	joined[1] = minus_c;
	ok(!config_read(&c, &args, 2, joined, err) && c.lease_ms == 25000, "-cFILE is -c FILE");
	ok(strstr(config_usage(), "--check"), "there is a usage");
	ok(strstr(config_usage(), "  redis-tls-ca-file "), "the usage has all keys");
}

static void check_values(void)
{
	static const struct {
		const char *text;
		const char *why;
	} rows[] = {
		{ "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", NULL },
		{ "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz", "a secret must begin with whsec_" },
		{ "whsec_", "a secret must have 24 to 64 bytes" },
		{ "whsec_MDEy", "a secret must have 24 to 64 bytes" },
		{ "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTI", "base64 needs its padding" },
		{ "whsec_MDEy*zQ1Njc4OTAxMjM0NTY3ODkwMTIz", "not base64" },
	};
	struct listen_on on;
	struct secret s;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++)
		is_text(secret_parse(rows[i].text, &s), rows[i].why, "secret %zu is %s", i,
			rows[i].why ? "refused" : "read");
	ok(token_refused("short"), "a short token is refused");
	ok(token_refused("0123456789 abcdef"), "a token with a space is refused");
	ok(!listen_parse("localhost:80", &on) && on.local, "localhost is local");
	ok(!listen_parse("*:80", &on) && !on.local, "* is not local");
	ok(!listen_parse("[::1]:80", &on) && on.local &&
	   ((struct sockaddr_in6 *)&on.sa)->sin6_port == htons(80), "[::1] is local");
	ok(!listen_parse("unix:/run/x", &on) && on.local &&
	   !strcmp(((struct sockaddr_un *)&on.sa)->sun_path, "/run/x"), "a socket is local");
}

static void check_levels(void)
{
	static const struct {
		const char *line;
		int level;
	} levels[] = {
		{ "log-level = err", LOG_ERR }, { "log-level = warning", LOG_WARNING },
		{ "log-level = notice", LOG_NOTICE }, { "log-level = info", LOG_INFO },
	};
	char err[CONFIG_ERROR_LEN];

	for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
		c.log_level = -1;
		config_text(&c, "f", levels[i].line, strlen(levels[i].line), err);
		is_number(c.log_level, levels[i].level, "%s", levels[i].line);
	}
}

#define T	"0123456789abcdef"
#define LINE	"a line must be NAME TOKEN VERBS QUEUES, or a single token"
#define NAME	"the name of a token must be 1 to 64 of A-Za-z0-9_.@-"
#define VERBS	"verbs are read, put, work and admin, separated by commas"
#define QUEUES	"queues are names, which may contain * and ?, separated by commas"

/* A line of a token file, the reason why it is refused, and what it yields. */
static const struct {
	const char *line;
	const char *why;
	const char *name;
	unsigned int verbs;
	const char *queues;
} bearers[] = {
	{ T, NULL, "token", BEARER_ALL, "*" },
	{ "a.b@c-D_1 " T " read *", NULL, "a.b@c-D_1", VERB_READ, "*" },
	{ "a\t" T "  put,work \t mail-*,q?", NULL, "a", VERB_PUT | VERB_WORK, "mail-*,q?" },
	{ "a " T " admin,read,admin q", NULL, "a", VERB_ADMIN | VERB_READ, "q" },
	{ T " read", LINE },
	{ "a " T " read", LINE },
	{ "a " T " read q more", LINE },
	{ "a/b " T " read q", NAME },
	{ "a short read q", "a token must have at least 16 characters" },
	{ "a " T "\x7f read q", "a token may contain only printable characters, and no spaces" },
	{ "a " T " write q", VERBS },
	{ "a " T " read,, q", VERBS },
	{ "a " T " read, q", VERBS },
	{ "a " T " rea q", VERBS },
	{ "a " T " read [a-z]", QUEUES },
	{ "a " T " read a,", QUEUES },
	{ "a " T " read ,a", QUEUES },
	{ "a " T " read a,,b", QUEUES },
};

static const struct {
	const char *queues;
	const char *queue;
	bool sees;
} globs[] = {
	{ "*", "q", true }, { "q", "q", true }, { "q", "qq", false }, { "qq", "q", false },
	{ "a,q", "q", true }, { "q?", "q", false }, { "q?", "q1", true }, { "q?", "q12", false },
	{ "q*", "q", true }, { "q*x", "q1x2x", true }, { "q*x", "qx1", false },
	{ "*a*b*", "xxaxxbxx", true }, { "*a*b*", "xxbxxaxx", false }, { "m-*,j", "jo", false },
	{ "**", "any", true }, { "*?", "a", true }, { "*??", "a", false },
};

static void check_bearers(void)
{
	struct bearer t = { .verbs = 0 };
	char line[400];

	for (size_t i = 0; i < ARRAY_SIZE(bearers); i++) {
		const char *why = bearer_parse(bearers[i].line, &t);

		is_text(why, bearers[i].why, "line %zu of tokens is %s", i,
			bearers[i].why ? "refused" : "read");
		if (!why)
			ok(!strcmp(t.name, bearers[i].name) && !strcmp(t.text, T) &&
			   t.verbs == bearers[i].verbs && !strcmp(t.queues, bearers[i].queues),
			   "the token's parts are parsed");
	}
	for (size_t i = 0; i < ARRAY_SIZE(globs); i++) {
		strcpy(t.queues, globs[i].queues);
		ok(bearer_sees(&t, globs[i].queue) == globs[i].sees, "\"%s\" is %sfor %s",
		   globs[i].queues, globs[i].sees ? "" : "not ", globs[i].queue);
	}
	strcpy(t.queues, "a,*");
	ok(bearer_sees_all(&t), "\"a,*\" is for all queues");
	strcpy(t.queues, "a*,?*");
	ok(!bearer_sees_all(&t), "\"a*,?*\" is not");
	memset(line, 'x', sizeof(line));
	strcpy(line + BEARER_NAME_MAX, " " T " read q");
	ok(!bearer_parse(line, &t) && strlen(t.name) == 64, "a name may have 64 characters");
	memset(line, 'x', sizeof(line));
	strcpy(line + BEARER_NAME_MAX + 1, " " T " read q");
	is_text(bearer_parse(line, &t), NAME, "and no more");
	memset(line, 'x', sizeof(line));
	line[255] = '\0';
	ok(!bearer_parse(line, &t), "a token may have 255 characters");
	line[255] = 'x';
	line[256] = '\0';
	is_text(bearer_parse(line, &t), "a token must have at most 255 characters",
		"a token may not have 256 characters");
}

/* The text of a file, a changed text, and the first changed key that requires a restart. */
static const struct {
	const char *now;
	const char *next;
	const char *err;
} changes[] = {
	{ "", "", NULL },
	{ "", "lease = 20s\nhold-max = 7\nlog-level = err\nredis-user =\n", NULL },
	{ "", "callback-allow = 10.0.0.0/8\n", NULL },
	{ "", "redis = unix:/run/redis/redis-server.sock\nlisten = 127.0.0.1:7733\n", NULL },
	{ "", "\nredis = unix:/x\n", "CONF:2: redis: " },
	{ "redis = unix:/x\n", "", "redis: " },
	{ "redis = redis://h\n", "redis = redis://h:6379/0\n", NULL },
	{ "redis = redis://h\n", "redis = redis://h/1\n", "CONF:1: redis: " },
	{ "redis = redis://h\n", "redis = rediss://h\n", "CONF:1: redis: " },
	{ "redis = redis://h\n", "redis = redis://h\nredis-tls = yes\n", "CONF:2: redis-tls: " },
	{ "redis = cluster://a,b\n", "redis = cluster://a,c\n", "CONF:1: redis: " },
	{ "", "prefix = x:\n", "CONF:1: prefix: " },
	{ "", "listen = 127.0.0.1:1\n", "CONF:1: listen: " },
	{ "", "listen = 127.0.0.1:7733\nlisten = [::1]:1\n", "CONF:2: listen: " },
	{ "", "wait-replicas = 1\n", "CONF:1: wait-replicas: " },
	{ "", "tick = 1ms\n", "CONF:1: tick: " },
};

static void check_changes(void)
{
	static const char *const none[] = { NULL };
	static struct config now;
	char err[CONFIG_ERROR_LEN], want[CONFIG_ERROR_LEN], why[80];
	struct config_args args;

	for (size_t i = 0; i < ARRAY_SIZE(changes); i++) {
		size_t at = 0;
		bool fixed;

		ok(!read_line(changes[i].now, none, &args, err), "file %zu is read", i);
		now = c;
		ok(!read_line(changes[i].next, none, &args, err),
		   "the changed file %zu is read", i);
		fixed = config_fixed(&now, &c, &args, &at, err);
		snprintf(why, sizeof(why), "%sonly a restart can change this",
			 changes[i].err ? changes[i].err : "");
		is_text(fixed ? err : NULL,
			changes[i].err ? fill(want, sizeof(want), why) : NULL,
			"change %zu is %s", i, changes[i].err ? "refused" : "made");
		ok(!fixed || !config_fixed(&now, &c, &args, &at, err),
		   "no other key needs a restart");
	}
}

int main(void)
{
	if (!mkdtemp(dir))
		return 1;
	snprintf(conf, sizeof(conf), "%s/conf", dir);
	snprintf(secret, sizeof(secret), "%s/secret", dir);
	snprintf(token, sizeof(token), "%s/token", dir);
	write_file(token, "0123456789abcdef-1\n\n0123456789abcdef-2\n");
	write_file(secret, "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz\n"
		   "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=\n");
	check_defaults();
	check_files();
	check_urls();
	check_lines();
	check_credentials();
	check_options();
	check_values();
	check_levels();
	check_bearers();
	check_changes();
	unlink(conf);
	unlink(secret);
	unlink(token);
	rmdir(dir);
	return tap_end();
}
