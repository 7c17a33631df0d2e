/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The configuration: defaults, then a file, then flags.
 *
 * The file has lines "key = value". A flag --KEY=VALUE has the same keys and
 * wins. A line that begins with "#" is a comment. "listen" and "callback-allow"
 * may repeat; a flag of such a key replaces all lines of the file. Any other key
 * may stand once in the file. Each error names the file and line, or the flag,
 * and a reason. The caller prints it and exits with 2.
 */
#ifndef TWHEELD_CONFIG_CONFIG_H
#define TWHEELD_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/address.h"
#include "config/bearer.h"
#include "config/value.h"

#define CONFIG_FILE		"/etc/twheel/twheeld.conf"
#define CONFIG_ERROR_LEN	512
#define CONFIG_LISTEN_MAX	16
#define CONFIG_ALLOW_MAX	64
#define CONFIG_SECRETS_MAX	2
#define CONFIG_TOKENS_MAX	64

/**
 * struct config - all keys; durations are in milliseconds
 * @redis: redis
 * @redis_user: redis-user; empty: the default user
 * @redis_password_file: redis-password-file; empty: no password
 * @redis_password: the first line of that file
 * @sentinel_user: sentinel-user; empty: the default user
 * @sentinel_password_file: sentinel-password-file; empty: no password
 * @sentinel_password: the first line of that file
 * @redis_tls: redis-tls
 * @redis_tls_ca_file: redis-tls-ca-file; empty: the CAs of the system
 * @redis_tls_cert_file: redis-tls-cert-file; empty: we show no certificate
 * @redis_tls_key_file: redis-tls-key-file
 * @redis_tls_name: redis-tls-name; empty: the host of each connection
 * @prefix: prefix of all keys in Redis
 * @listen: listen; the default is replaced by the first one that is set
 * @listens: how many
 * @token_file: token-file; empty: no token
 * @token: bearer tokens: the lines of that file
 * @tokens: how many
 * @lease_ms: lease
 * @max_lost: max-lost
 * @batch: batch
 * @hold_max: hold-max
 * @hold_bytes: hold-bytes
 * @ahead_ms: ahead
 * @wait_replicas: wait-replicas
 * @wait_timeout_ms: wait-timeout
 * @callback_concurrency: callback-concurrency
 * @host_concurrency: host-concurrency
 * @allow: callback-allow
 * @allows: how many
 * @secret_file: secret-file; empty: callbacks are not signed
 * @secret: the lines of that file
 * @secrets: how many
 * @lane_max: lane-max
 * @dead_max: dead-max
 * @dead_keep_ms: dead-keep
 * @strict: strict
 * @log_level: log-level
 * @stop_delay_ms: stop-delay
 * @stop_timeout_ms: stop-timeout
 * @tick_ns: tick
 */
struct config {
	struct redis_url redis;
	char redis_user[128];
	char redis_password_file[256];
	char redis_password[512];
	char sentinel_user[128];
	char sentinel_password_file[256];
	char sentinel_password[512];
	bool redis_tls;
	char redis_tls_ca_file[256];
	char redis_tls_cert_file[256];
	char redis_tls_key_file[256];
	char redis_tls_name[128];
	char prefix[32];
	struct listen_on listen[CONFIG_LISTEN_MAX];
	size_t listens;
	char token_file[256];
	struct bearer token[CONFIG_TOKENS_MAX];
	size_t tokens;
	uint64_t lease_ms;
	unsigned int max_lost;
	unsigned int batch;
	unsigned int hold_max;
	uint64_t hold_bytes;
	uint64_t ahead_ms;
	unsigned int wait_replicas;
	uint64_t wait_timeout_ms;
	unsigned int callback_concurrency;
	unsigned int host_concurrency;
	struct network allow[CONFIG_ALLOW_MAX];
	size_t allows;
	char secret_file[256];
	struct secret secret[CONFIG_SECRETS_MAX];
	size_t secrets;
	uint64_t lane_max;
	uint64_t dead_max;
	uint64_t dead_keep_ms;
	bool strict;
	int log_level;
	uint64_t stop_delay_ms;
	uint64_t stop_timeout_ms;
	uint64_t tick_ns;
};

/**
 * struct config_args - what a command line asks for beside the keys
 * @file: -c FILE, else CONFIG_FILE
 * @file_named: -c was given, so that a missing file is an error
 * @check: --check
 * @version: --version
 * @help: --help or -h
 * @from: where each key was set; for config_place()
 */
#define CONFIG_KEYS	33
struct config_args {
	const char *file;
	bool file_named;
	bool check;
	bool version;
	bool help;
	int from[CONFIG_KEYS];
};

/**
 * config_read() - the configuration of a command line
 * @c: the result; needs no preparation and holds no pointers
 * @args: the result
 * @argc: of main()
 * @argv: of main()
 * @err: the error, one line without a newline
 *
 * Reads the files that the keys name, too. With --version or --help it reads
 * no file.
 *
 * Return: 0, or -1 with @err set.
 */
int config_read(struct config *c, struct config_args *args, int argc, char **argv,
		char err[CONFIG_ERROR_LEN]);

/**
 * config_place() - say where a value was set that turned out to be wrong
 * @args: of config_read()
 * @why: "KEY: why"
 * @err: the error, as of config_read()
 */
void config_place(const struct config_args *args, const char *why, char err[CONFIG_ERROR_LEN]);

/**
 * config_fixed() - find a key that was changed and takes effect at a start only
 * @now: the configuration that is used
 * @next: the one that was read after it
 * @args: of @next
 * @at: 0 at first; where to go on
 * @err: its place, as of config_read()
 *
 * Return: false if there is none.
 */
bool config_fixed(const struct config *now, const struct config *next,
		  const struct config_args *args, size_t *at, char err[CONFIG_ERROR_LEN]);

/**
 * config_exposed() - find a file with a secret whose mode lets every user read or change it
 * @c: the configuration
 * @args: of @c
 * @at: 0 at first; where to go on
 * @err: its place, as of config_read()
 *
 * Return: false if there is none.
 */
bool config_exposed(const struct config *c, const struct config_args *args, size_t *at,
		    char err[CONFIG_ERROR_LEN]);

/**
 * config_defaults() - a configuration of defaults only
 * @c: the result
 */
void config_defaults(struct config *c);

/**
 * config_text() - apply the text of a file
 * @c: the configuration
 * @name: the name of the file for errors
 * @text: its text
 * @len: its length
 * @err: the error
 *
 * Reads none of the files that the keys name.
 *
 * Return: 0, or -1 with @err set.
 */
int config_text(struct config *c, const char *name, const char *text, size_t len,
		char err[CONFIG_ERROR_LEN]);

/**
 * config_usage() - the text of --help, with all keys
 */
const char *config_usage(void);

#endif /* TWHEELD_CONFIG_CONFIG_H */
