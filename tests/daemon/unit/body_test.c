// SPDX-License-Identifier: GPL-2.0
/*
 * The stored form of a task's body, and the URLs and headers that a task may have.
 */
#include <stdlib.h>

#include "tap.h"
#include "text/body.h"

static const struct {
	const char *url;
	const char *why;
	const char *key;
} urls[] = {
	{ "http://a", NULL, "http://a:80" },
	{ "https://a", NULL, "https://a:443" },
	{ "HTTP://A.Example/X", NULL, "http://a.example:80" },
	{ "http://a:8080/x?y=z#f", NULL, "http://a:8080" },
	{ "http://a?x", NULL, "http://a:80" },
	{ "http://127.0.0.1:1/", NULL, "http://127.0.0.1:1" },
	{ "http://[::1]:8/", NULL, "http://[::1]:8" },
	{ "http://[FD00::1]/", NULL, "http://[fd00::1]:80" },
	{ "http://a/@b", NULL, "http://a:80" },
	{ "", "a URL must begin with http:// or https://", NULL },
	{ "ftp://a", "a URL must begin with http:// or https://", NULL },
	{ "file:///etc/passwd", "a URL must begin with http:// or https://", NULL },
	{ "//a", "a URL must begin with http:// or https://", NULL },
	{ "http:a", "a URL must begin with http:// or https://", NULL },
	{ "http://", "the host of the URL is not valid", NULL },
	{ "http:///x", "the host of the URL is not valid", NULL },
	{ "http://:80", "the host of the URL is not valid", NULL },
	{ "http://u@a", "a URL must not contain a user or password", NULL },
	{ "http://a#@b", NULL, "http://a:80" },
	{ "http://a:0", "the port of the URL is not valid", NULL },
	{ "http://a:65536", "the port of the URL is not valid", NULL },
	{ "http://a:", "the port of the URL is not valid", NULL },
	{ "http://a:8x", "the port of the URL is not valid", NULL },
	{ "http://a:80:80", "the port of the URL is not valid", NULL },
	{ "http://[::1", "the host of the URL is not valid", NULL },
	{ "http://[::1]x", "the port of the URL is not valid", NULL },
	{ "http://[::1%25lo]/", "the host of the URL is not valid", NULL },
	{ "http://a%2eb/", "the host of the URL is not valid", NULL },
	{ "http://a,b/", "the host of the URL is not valid", NULL },
	{ "http://a b/", "a URL may contain only printable ASCII characters", NULL },
	{ "http://a/\n", "a URL may contain only printable ASCII characters", NULL },
	{ "http://a\\@b/", "a URL may contain only printable ASCII characters", NULL },
	{ "http://\xc3\xa4/", "a URL may contain only printable ASCII characters", NULL },
};

static void check_urls(void)
{
	char key[300], longest[BODY_URL_MAX + 2];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(urls); i++) {
		is_text(url_refused(urls[i].url), urls[i].why, "URL %zu is %s", i,
			urls[i].why ? "refused" : "accepted");
		if (urls[i].key)
			is_text(url_host_key(urls[i].url, key, sizeof(key)) ? key : NULL,
				urls[i].key, "and is at %s", urls[i].key);
	}
	memset(longest, 'a', sizeof(longest));
	memcpy(longest, "http://a/", 9);
	longest[BODY_URL_MAX] = '\0';
	ok(!url_refused(longest), "a URL of 2048 bytes is accepted");
	longest[BODY_URL_MAX] = 'a';
	longest[BODY_URL_MAX + 1] = '\0';
	ok(url_refused(longest), "a URL of 2049 bytes is refused");
	ok(!url_host_key("http://abc", key, 10), "a key that does not fit is refused");
}

static const struct {
	const char *name;
	const char *value;
	bool good;
} headers[] = {
	{ "X-A", "b", true },
	{ "X-A", "", true },
	{ "x!#$%&'*+-.^_`|~", "b", true },
	{ "Content-Type", "text/plain", true },
	{ "X-A", "\xc3\xa4", true },
	{ "", "b", false },
	{ "X A", "b", false },
	{ "X:A", "b", false },
	{ "X\r\nY", "b", false },
	{ "X-A", "b\r\nHost: c", false },
	{ "X-A", "b\n", false },
	{ "X-A", "\x7f", false },
	{ "X-A", "\t", false },
	{ "Host", "a", false },
	{ "hOST", "a", false },
	{ "Content-Length", "1", false },
	{ "Transfer-Encoding", "chunked", false },
	{ "Connection", "close", false },
	{ "Upgrade", "h2c", false },
	{ "Hosts", "a", true },
};

static void check_headers(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(headers); i++)
		ok(!header_refused(headers[i].name, strlen(headers[i].name),
				   headers[i].value, strlen(headers[i].value)) ==
		   headers[i].good, "header %zu is %s", i,
		   headers[i].good ? "accepted" : "refused");
	ok(header_refused("X", 1, "a\0b", 3), "a header with a NUL byte is refused");
}

static const char two_headers[] = "X-A: 1\0X-B: two";

static const struct task_body full = {
	.method = BODY_PATCH,
	.flags = BODY_JSON | BODY_HAS_PAYLOAD,
	.headers = 2,
	.timeout_ms = 900000,
	.retry = { .limit = 1000, .jitter = 1000, .base_ms = 1, .cap_ms = 2592000000u },
	.url = "https://a.example/x",
	.header = two_headers,
	.headers_len = sizeof(two_headers),
	.payload = (const uint8_t *)"{\"a\":1}",
	.payload_len = 7,
};

static bool same(const struct task_body *a, const struct task_body *b)
{
	return a->method == b->method && a->flags == b->flags &&
	       a->headers == b->headers && a->timeout_ms == b->timeout_ms &&
	       !memcmp(&a->retry, &b->retry, sizeof(a->retry)) && !a->url == !b->url &&
	       (!a->url || !strcmp(a->url, b->url)) && a->headers_len == b->headers_len &&
	       (!a->headers_len || !memcmp(a->header, b->header, a->headers_len)) &&
	       a->payload_len == b->payload_len &&
	       (!a->payload_len || !memcmp(a->payload, b->payload, a->payload_len));
}

/* Changes each byte of a valid block, and cuts it at each length. */
static void check_damage(const uint8_t *block, size_t len)
{
	unsigned int decoded = 0;
	struct task_body b;
	uint8_t *copy;
	size_t i;

	for (i = 0; i < len; i++) {
		copy = malloc(i ? i : 1);
		memcpy(copy, block, i);
		decoded += body_decode(copy, i, &b) && i < len - full.payload_len;
		free(copy);
	}
	is_number(decoded, 0, "a block that is cut before its payload is refused");
	for (i = 0; i < len * 256; i++) {
		copy = malloc(len);
		memcpy(copy, block, len);
		copy[i / 256] = (uint8_t)i;
		if (body_decode(copy, len, &b) && b.url)
			decoded += strlen(b.url) > BODY_URL_MAX;
		free(copy);
	}
	is_number(decoded, 0, "a block with a wrong byte is refused or harmless");
}

int main(void)
{
	static const struct task_body empty = { .method = BODY_POST };
	struct task_body back;
	size_t len = body_size(&full);
	uint8_t *block = malloc(len);

	check_urls();
	check_headers();
	body_encode(&full, block);
	ok(body_decode(block, len, &back) && same(&full, &back), "a full body comes back");
	ok((const uint8_t *)back.url > block && (const uint8_t *)back.url < block + len,
	   "the URL points into the block");
	check_damage(block, len);
	free(block);

	is_number(body_size(&empty), BODY_FIXED_LEN, "an empty body has 24 bytes");
	block = malloc(BODY_FIXED_LEN);
	body_encode(&empty, block);
	ok(body_decode(block, BODY_FIXED_LEN, &back) && same(&empty, &back),
	   "an empty body comes back");
	ok(!back.url, "an empty body has no URL");
	free(block);
	is_text(body_method_name(BODY_DELETE), "DELETE", "a method has its name");
	return tap_end();
}
