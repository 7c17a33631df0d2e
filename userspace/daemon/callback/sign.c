// SPDX-License-Identifier: GPL-2.0
/*
 * Signatures of callbacks. OpenSSL fetches an algorithm once for each signer,
 * because that costs more than a signature.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include "callback/sign.h"
#include "../../shared/base64.h"

#define SHA256_LEN	32
#define ID_BYTES	16

struct signer {
	size_t secrets;
	EVP_MAC *mac;
	/* Each context has its key. A signature is made with a copy of it. */
	struct evp_mac_ctx_st *ctx[CONFIG_SECRETS_MAX];
};

static EVP_MAC_CTX *keyed_context(EVP_MAC *mac, const struct secret *secret)
{
	OSSL_PARAM params[] = {
		OSSL_PARAM_utf8_string("digest", (char *)"SHA256", 0),
		OSSL_PARAM_END
	};
	EVP_MAC_CTX *ctx = EVP_MAC_CTX_new(mac);

	if (ctx && !EVP_MAC_init(ctx, secret->key, secret->len, params)) {
		EVP_MAC_CTX_free(ctx);
		return NULL;
	}
	return ctx;
}

struct signer *signer_new(const struct secret *secret, size_t secrets)
{
	struct signer *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	if (!s->mac)
		goto fail;
	for (; s->secrets < secrets; s->secrets++) {
		s->ctx[s->secrets] = keyed_context(s->mac, &secret[s->secrets]);
		if (!s->ctx[s->secrets])
			goto fail;
	}
	return s;

fail:
	signer_free(s);
	return NULL;
}

void signer_free(struct signer *s)
{
	size_t i;

	if (!s)
		return;
	for (i = 0; i < s->secrets; i++)
		EVP_MAC_CTX_free(s->ctx[i]);
	EVP_MAC_free(s->mac);
	free(s);
}

bool sign_id(const char *key, char id[SIGN_ID_LEN])
{
	uint8_t hash[SHA256_LEN];
	size_t i;

	if (!EVP_Digest(key, strlen(key), hash, NULL, EVP_sha256(), NULL))
		return false;
	memcpy(id, "tw_", 3);
	for (i = 0; i < ID_BYTES; i++)
		snprintf(id + 3 + 2 * i, 3, "%02x", hash[i]);
	return true;
}

bool sign_body(const struct signer *s, const char *id, uint64_t seconds,
	       const uint8_t *body, size_t len, char out[SIGN_SIGNATURE_LEN])
{
	char head[SIGN_ID_LEN + 24];
	uint8_t hash[SHA256_LEN];
	int head_len;
	size_t i;

	head_len = snprintf(head, sizeof(head), "%s.%" PRIu64 ".", id, seconds);
	*out = '\0';
	for (i = 0; i < s->secrets; i++) {
		EVP_MAC_CTX *ctx = EVP_MAC_CTX_dup(s->ctx[i]);
		size_t hash_len;
		bool ok;

		ok = ctx && EVP_MAC_update(ctx, (uint8_t *)head, (size_t)head_len) &&
		     (!len || EVP_MAC_update(ctx, body, len)) &&
		     EVP_MAC_final(ctx, hash, &hash_len, sizeof(hash));
		EVP_MAC_CTX_free(ctx);
		if (!ok)
			return false;
		if (i)
			*out++ = ' ';
		memcpy(out, "v1,", 3);
		format_base64(out + 3, hash, sizeof(hash));
		out += strlen(out);
	}
	return true;
}
