// SPDX-License-Identifier: GPL-2.0
/* The body of a task: its stored form, and which URLs and headers are allowed. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "text/body.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define BODY_FORMAT	1
#define BODY_FLAGS	(BODY_JSON | BODY_HAS_PAYLOAD)

static const char *const methods[BODY_METHODS] = {
	[BODY_GET] = "GET",
	[BODY_POST] = "POST",
	[BODY_PUT] = "PUT",
	[BODY_PATCH] = "PATCH",
	[BODY_DELETE] = "DELETE",
};

/*
 * Headers that frame the request, or that the daemon sets itself. Hop-by-hop headers must be those
 * that libcurl sends.
 */
static const char *const refused_headers[] = {
	"host", "content-length", "transfer-encoding", "connection", "keep-alive",
	"te", "trailer", "upgrade", "expect", "proxy-connection",
};

static void put16(uint8_t *p, unsigned int v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

static void put32(uint8_t *p, uint32_t v)
{
	put16(p, v >> 16);
	put16(p + 2, v & 0xffff);
}

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)get16(p) << 16 | get16(p + 2);
}

const char *body_method_name(enum body_method method)
{
	return methods[method];
}

size_t body_size(const struct task_body *b)
{
	size_t url_len = b->url ? strlen(b->url) + 1 : 0;

	return BODY_FIXED_LEN + url_len + b->headers_len + b->payload_len;
}

void body_encode(const struct task_body *b, uint8_t *out)
{
	size_t url_len = b->url ? strlen(b->url) + 1 : 0;

	out[0] = BODY_FORMAT;
	out[1] = (uint8_t)b->method;
	out[2] = b->flags;
	out[3] = b->headers;
	put32(out + 4, b->timeout_ms);
	put32(out + 8, b->retry.base_ms);
	put32(out + 12, b->retry.cap_ms);
	put16(out + 16, b->retry.jitter);
	put16(out + 18, (unsigned int)url_len);
	put16(out + 20, (unsigned int)b->headers_len);
	put16(out + 22, b->retry.limit);
	out += BODY_FIXED_LEN;
	if (url_len)
		memcpy(out, b->url, url_len);
	out += url_len;
	if (b->headers_len)
		memcpy(out, b->header, b->headers_len);
	out += b->headers_len;
	if (b->payload_len)
		memcpy(out, b->payload, b->payload_len);
}

/* True if @len bytes are exactly @count strings, each with its NUL. */
static bool are_strings(const char *p, size_t len, unsigned int count)
{
	for (; count; count--) {
		const char *nul = memchr(p, 0, len);

		if (!nul)
			return false;
		len -= (size_t)(nul + 1 - p);
		p = nul + 1;
	}
	return !len;
}

bool body_decode(const uint8_t *data, size_t len, struct task_body *b)
{
	size_t url_len;

	if (len < BODY_FIXED_LEN || len > BODY_MAX || data[0] != BODY_FORMAT ||
	    data[1] >= BODY_METHODS || data[2] & ~BODY_FLAGS)
		return false;
	*b = (struct task_body){
		.method = data[1],
		.flags = data[2],
		.headers = data[3],
		.timeout_ms = get32(data + 4),
		.retry = {
			.base_ms = get32(data + 8),
			.cap_ms = get32(data + 12),
			.jitter = get16(data + 16),
			.limit = get16(data + 22),
		},
		.headers_len = get16(data + 20),
	};
	url_len = get16(data + 18);
	if (url_len > BODY_URL_MAX + 1 || b->headers_len > BODY_HEADERS_BYTES ||
	    b->headers > BODY_HEADERS_MAX || url_len + b->headers_len > len - BODY_FIXED_LEN)
		return false;
	data += BODY_FIXED_LEN;
	if (url_len) {
		b->url = (const char *)data;
		if (!are_strings(b->url, url_len, 1))
			return false;
	}
	b->header = (const char *)data + url_len;
	if (!are_strings(b->header, b->headers_len, b->headers))
		return false;
	b->payload = data + url_len + b->headers_len;
	b->payload_len = len - BODY_FIXED_LEN - url_len - b->headers_len;
	return b->payload_len <= BODY_PAYLOAD_MAX;
}

/* True for a character of the name of a header, according to RFC 9110. */
static bool is_token_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
	       (c >= 'a' && c <= 'z') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool has_control(const char *p, size_t len)
{
	for (; len; len--, p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return true;
	return false;
}

const char *header_refused(const char *name, size_t name_len, const char *value,
			   size_t value_len)
{
	size_t i;

	if (!name_len)
		return "a header needs a name";
	for (i = 0; i < name_len; i++)
		if (!is_token_char(name[i]))
			return "the name of a header contains an invalid character";
	for (i = 0; i < ARRAY_SIZE(refused_headers); i++)
		if (strlen(refused_headers[i]) == name_len &&
		    !strncasecmp(refused_headers[i], name, name_len))
			return "a task may not set this header";
	if (has_control(value, value_len))
		return "a header contains a control character";
	return NULL;
}

/* The parts of a URL: scheme, host and port. If it is not valid, @host_len is 0. */
struct parts {
	const char *scheme;
	const char *host;
	size_t host_len;
	unsigned int port;
};

static bool is_host_char(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
	       (c >= 'a' && c <= 'z') || c == '-' || c == '.' || c == '_';
}

/* Reads ":PORT" up to @end. If there is nothing, uses the default of the scheme. */
static const char *split_port(const char *p, const char *end, struct parts *parts)
{
	unsigned int port = 0;

	if (p == end)
		return NULL;
	if (*p++ != ':' || p == end)
		return "the port of the URL is not valid";
	for (; p < end; p++) {
		if (*p < '0' || *p > '9')
			return "the port of the URL is not valid";
		port = port * 10 + (unsigned int)(*p - '0');
		if (port > 65535)
			return "the port of the URL is not valid";
	}
	if (!port)
		return "the port of the URL is not valid";
	parts->port = port;
	return NULL;
}

static const char *split_url(const char *url, struct parts *parts)
{
	const char *end, *p, *host_end;

	if (!strncasecmp(url, "http://", 7))
		*parts = (struct parts){ .scheme = "http", .host = url + 7, .port = 80 };
	else if (!strncasecmp(url, "https://", 8))
		*parts = (struct parts){ .scheme = "https", .host = url + 8, .port = 443 };
	else
		return "a URL must begin with http:// or https://";
	end = parts->host + strcspn(parts->host, "/?#");
	if (memchr(parts->host, '@', (size_t)(end - parts->host)))
		return "a URL must not contain a user or password";
	if (*parts->host == '[') {
		host_end = memchr(parts->host, ']', (size_t)(end - parts->host));
		if (!host_end)
			return "the host of the URL is not valid";
		host_end++;
		for (p = parts->host + 1; p < host_end - 1; p++)
			if (!strchr("0123456789abcdefABCDEF:.", *p))
				return "the host of the URL is not valid";
	} else {
		host_end = memchr(parts->host, ':', (size_t)(end - parts->host));
		host_end = host_end ? host_end : end;
		for (p = parts->host; p < host_end; p++)
			if (!is_host_char(*p))
				return "the host of the URL is not valid";
	}
	parts->host_len = (size_t)(host_end - parts->host);
	if (!parts->host_len || parts->host_len > 255)
		return "the host of the URL is not valid";
	return split_port(host_end, end, parts);
}

const char *url_refused(const char *url)
{
	struct parts parts;
	const char *p;

	if (strlen(url) > BODY_URL_MAX)
		return "a URL must have at most 2048 bytes";
	for (p = url; *p; p++)
		if ((unsigned char)*p <= ' ' || (unsigned char)*p >= 0x7f || *p == '\\')
			return "a URL may contain only printable ASCII characters";
	return split_url(url, &parts);
}

bool url_host_key(const char *url, char *key, size_t len)
{
	struct parts parts;
	char *p;
	int n;

	if (split_url(url, &parts))
		return false;
	n = snprintf(key, len, "%s://%.*s:%u", parts.scheme, (int)parts.host_len,
		     parts.host, parts.port);
	if (n < 0 || (size_t)n >= len)
		return false;
	for (p = key; *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p - 'A' + 'a');
	return true;
}
