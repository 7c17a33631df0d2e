/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Signatures of callbacks, as Standard Webhooks has them. No I/O, no clock.
 *
 *   id         "tw_" and 32 hex digits of SHA-256 of the Idempotency-Key
 *   signature  "v1," and base64 of HMAC-SHA256 over "id.timestamp.body"
 *
 * With two secrets there are two signatures with a space between.
 */
#ifndef TWHEELD_CALLBACK_SIGN_H
#define TWHEELD_CALLBACK_SIGN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

/* "tw_", 32 digits, NUL */
#define SIGN_ID_LEN		36
/* For each secret "v1,", 44 characters and a space or NUL */
#define SIGN_SIGNATURE_LEN	(48 * CONFIG_SECRETS_MAX)

struct signer;

/**
 * signer_new() - prepare to sign
 * @secret: keys; copied
 * @secrets: 0 to CONFIG_SECRETS_MAX
 *
 * Return: NULL without memory.
 */
struct signer *signer_new(const struct secret *secret, size_t secrets);

void signer_free(struct signer *s);

/**
 * sign_id() - the webhook-id of a key
 * @key: the Idempotency-Key
 * @id: the result
 */
bool sign_id(const char *key, char id[SIGN_ID_LEN]);

/**
 * sign_body() - the webhook-signature
 * @s: the signer
 * @id: webhook-id
 * @seconds: webhook-timestamp
 * @body: bytes
 * @len: how many
 * @out: the result; empty without a secret
 */
bool sign_body(const struct signer *s, const char *id, uint64_t seconds,
	       const uint8_t *body, size_t len, char out[SIGN_SIGNATURE_LEN]);

#endif /* TWHEELD_CALLBACK_SIGN_H */
