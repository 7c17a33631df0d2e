// SPDX-License-Identifier: GPL-2.0
/*
 * SIGHUP: reads the configuration again. See reload.h.
 *
 * Most keys are looked up where they are used, so they only need a copy of the new configuration.
 * The keys of TLS, and those that libcurl was told, are prepared first, because only that can
 * fail.
 */
#include <stdio.h>
#include <string.h>

#include "config/config.h"
#include "ground/log.h"
#include "ground/notify.h"
#include "ground/now.h"
#include "redis/store.h"
#include "redis/tls.h"
#include "reload.h"
#include "work/attempt.h"
#include "work/work.h"

void reload_warn(const struct config *c, const struct config_args *args)
{
	char err[CONFIG_ERROR_LEN];
	size_t at = 0;

	while (config_exposed(c, args, &at, err))
		log_line(LOG_WARNING, "%s", err);
}

/*
 * Logs a line for each changed key that only takes effect at a start. Returns true if there is
 * one.
 */
static bool refuse_fixed(const struct daemon *d, const struct config *next,
			 const struct config_args *args, char err[CONFIG_ERROR_LEN])
{
	char more[CONFIG_ERROR_LEN];
	size_t at = 0;

	if (!config_fixed(&d->config, next, args, &at, err))
		return false;
	while (config_fixed(&d->config, next, args, &at, more))
		log_line(LOG_ERR, "the configuration stays as it was: %s", more);
	return true;
}

/* Returns false if the new configuration cannot be used, with the reason in @err. */
static bool use(struct daemon *d, struct config *next, const struct config_args *args,
		char err[CONFIG_ERROR_LEN])
{
	char why[TLS_WHY_LEN];
	struct tls *tls = NULL;

	if (refuse_fixed(d, next, args, err))
		return false;
	if (next->redis.tls) {
		tls = tls_new(next, why);
		if (!tls) {
			config_place(args, why, err);
			return false;
		}
	}
	if (attempt_change(d, next)) {
		tls_free(tls);
		snprintf(err, CONFIG_ERROR_LEN, "no memory");
		return false;
	}
	if (tls)
		store_trust(d->store, tls);
	d->config = *next;
	log_set_level(d->config.log_level);
	reload_warn(&d->config, args);
	/* There may be room for more tasks than before. */
	d->refill = true;
	return true;
}

/*
 * Tells systemd about a reload, except for a service that is not ready yet: the end of the reload
 * would make it ready.
 */
static void tell_reloading(const struct daemon *d)
{
	if (d->connected)
		notify("RELOADING=1\nMONOTONIC_USEC=%llu",
		       now_ns(CLOCK_MONOTONIC) / NSEC_PER_USEC);
}

void daemon_reload(struct daemon *d, int argc, char **argv)
{
	static struct config next;
	struct config_args args;
	char err[CONFIG_ERROR_LEN];
	bool used;

	tell_reloading(d);
	used = !config_read(&next, &args, argc, argv, err) && use(d, &next, &args, err);
	explicit_bzero(&next, sizeof(next));
	if (used)
		log_line(LOG_NOTICE, "the configuration was read again");
	else
		log_line(LOG_ERR, "the configuration stays as it was: %s", err);
	notify("%sSTATUS=%s%s", d->connected ? "READY=1\n" : "",
	       used ? "the configuration was read again" : "the configuration stays as it was: ",
	       used ? "" : err);
}
