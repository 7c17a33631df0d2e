// SPDX-License-Identifier: GPL-2.0
/*
 * Signatures: the test vector of Standard Webhooks' libraries, and two secrets.
 */
#include "callback/sign.h"
#include "../shared/base64.h"
#include "tap.h"

static struct secret secret_of(const char *base64)
{
	struct secret s = { .len = 0 };

	parse_base64(base64, strlen(base64), s.key, &s.len);
	return s;
}

int main(void)
{
	static const char body[] = "{\"test\": 2432232314}";
	static const char want[] = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
	struct secret secret[2] = {
		secret_of("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"),
		secret_of("C2FVsBQIhrscChlQIMV+b5sSYspob7oD"),
	};
	char id[SIGN_ID_LEN], signature[SIGN_SIGNATURE_LEN];
	struct signer *s;

	s = signer_new(secret, 1);
	ok(s && sign_body(s, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330,
			  (const uint8_t *)body, strlen(body), signature), "a body is signed");
	is_text(signature, want, "the signature equals the standard's");
	ok(sign_body(s, "tw_", 0, NULL, 0, signature) && strlen(signature) == 47,
	   "an empty body is signed");
	signer_free(s);

	s = signer_new(secret, 2);
	sign_body(s, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, (const uint8_t *)body,
		  strlen(body), signature);
	ok(!strncmp(signature, want, strlen(want)) && signature[47] == ' ' &&
	   !strncmp(signature + 48, "v1,", 3) && strlen(signature) == 95,
	   "two secrets make two signatures");
	signer_free(s);

	s = signer_new(NULL, 0);
	ok(sign_body(s, "tw_", 0, NULL, 0, signature) && !*signature,
	   "without a secret there is no signature");
	signer_free(s);

	ok(sign_id("abc", id), "an id is made");
	is_text(id, "tw_ba7816bf8f01cfea414140de5dae2223",
		"an id is the first half of a SHA-256");
	return tap_end();
}
