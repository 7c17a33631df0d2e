// SPDX-License-Identifier: GPL-2.0
/* twheeld: runs delayed tasks across machines on Redis. Options, start, stop. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <curl/curl.h>

#include "config/config.h"
#include "daemon.h"
#include "ground/log.h"
#include "redis/tls.h"
#include "reload.h"

#define EXIT_USAGE	2

/*
 * Raises the limit for descriptors. A shell sets it to 1,024, which may be too few for callbacks
 * and clients.
 */
static void raise_files(void)
{
	struct rlimit files;

	/* Use prlimit(), because the unit forbids setrlimit(2). */
	if (prlimit(0, RLIMIT_NOFILE, NULL, &files))
		return;
	files.rlim_cur = files.rlim_max;
	prlimit(0, RLIMIT_NOFILE, &files, NULL);
}

/* Flushes stdout. Returns the exit status. */
static int end_output(void)
{
	if (!fflush(stdout) && !ferror(stdout))
		return 0;
	perror("twheeld: cannot write");
	return 1;
}

int main(int argc, char **argv)
{
	static struct daemon d;
	struct config_args args;
	char err[CONFIG_ERROR_LEN], why[TLS_WHY_LEN];
	int ret;

	if (config_read(&d.config, &args, argc, argv, err)) {
		fprintf(stderr, "twheeld: %s\n", err);
		return EXIT_USAGE;
	}
	if (args.help) {
		fputs(config_usage(), stdout);
		return end_output();
	}
	if (args.version) {
		printf("twheeld %s\n", DAEMON_VERSION);
		return end_output();
	}
	if (d.config.redis.tls) {
		struct tls *tls = tls_new(&d.config, why);

		if (!tls) {
			config_place(&args, why, err);
			fprintf(stderr, "twheeld: %s\n", err);
			return EXIT_USAGE;
		}
		tls_free(tls);
	}
	log_set_level(d.config.log_level);
	reload_warn(&d.config, &args);
	signal(SIGPIPE, SIG_IGN);
	/* As process 1 of a container it inherits orphans, and it has no other children. */
	signal(SIGCHLD, SIG_IGN);
	raise_files();
	if (args.check) {
		ret = daemon_check(&d);
		if (ret)
			return ret;
		puts("the configuration and Redis are fine\n"
		     "Workers:    twheelctl worker QUEUE -- COMMAND; see twheelctl(1)\n"
		     "Containers: see CONTAINERS in twheeld(8)\n"
		     "Upgrades:   one daemon after the other; see VERSIONS in twheeld(8)");
		return end_output();
	}
	if (curl_global_init(CURL_GLOBAL_DEFAULT)) {
		fputs("twheeld: cannot initialize libcurl\n", stderr);
		return 1;
	}
	ret = daemon_run(&d, argc, argv);
	curl_global_cleanup();
	return ret;
}
