// SPDX-License-Identifier: GPL-2.0
/* TLS to Redis. See tls.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "redis/tls.h"

/* What one record of TLS has room for. */
#define RECORD	16384

/**
 * struct tls - what we trust, and who we are
 * @ctx: of OpenSSL
 * @name: the name of all servers; empty: each has its own
 */
struct tls {
	SSL_CTX *ctx;
	char name[sizeof(((struct config *)0)->redis_tls_name)];
};

/**
 * struct tls_session - one connection
 * @ssl: of OpenSSL
 * @heard: the server has sent something behind the handshake
 * @wants: what it waits for
 * @why: why it failed
 */
struct tls_session {
	SSL *ssl;
	bool heard;
	uint32_t wants;
	char why[160];
};

/* ---- What we trust ---- */

static const char *reason(unsigned long err)
{
	const char *text = NULL;

	if (ERR_GET_LIB(err) == ERR_LIB_SYS)
		text = strerror(ERR_GET_REASON(err));
	else if (err)
		text = ERR_reason_error_string(err);
	return text ? text : "OpenSSL refused it";
}

static int bad(char why[TLS_WHY_LEN], const char *key, const char *file)
{
	/* The first error is the cause, such as "no such file". */
	snprintf(why, TLS_WHY_LEN, "%s: %s: %s", key, file, reason(ERR_peek_error()));
	return -1;
}

static int trust(SSL_CTX *ctx, const struct config *c, char why[TLS_WHY_LEN])
{
	const char *file = c->redis_tls_ca_file;

	if (!*file)
		return SSL_CTX_set_default_verify_paths(ctx) == 1 ? 0 :
		       bad(why, "redis-tls-ca-file", "the CAs of this system");
	return SSL_CTX_load_verify_locations(ctx, file, NULL) == 1 ? 0 :
	       bad(why, "redis-tls-ca-file", file);
}

static int identify(SSL_CTX *ctx, const struct config *c, char why[TLS_WHY_LEN])
{
	if (!*c->redis_tls_cert_file)
		return 0;
	if (SSL_CTX_use_certificate_chain_file(ctx, c->redis_tls_cert_file) != 1)
		return bad(why, "redis-tls-cert-file", c->redis_tls_cert_file);
	if (SSL_CTX_use_PrivateKey_file(ctx, c->redis_tls_key_file, SSL_FILETYPE_PEM) != 1)
		return bad(why, "redis-tls-key-file", c->redis_tls_key_file);
	return 0;
}

struct tls *tls_new(const struct config *config, char why[TLS_WHY_LEN])
{
	struct tls *t = calloc(1, sizeof(*t));

	snprintf(why, TLS_WHY_LEN, "no memory");
	if (!t)
		return NULL;
	ERR_clear_error();
	memcpy(t->name, config->redis_tls_name, sizeof(t->name));
	t->ctx = SSL_CTX_new(TLS_client_method());
	if (!t->ctx || trust(t->ctx, config, why) || identify(t->ctx, config, why)) {
		tls_free(t);
		return NULL;
	}
	SSL_CTX_set_min_proto_version(t->ctx, TLS1_2_VERSION);
	SSL_CTX_set_options(t->ctx, SSL_OP_NO_RENEGOTIATION);
	SSL_CTX_set_verify(t->ctx, SSL_VERIFY_PEER, NULL);
	/* The buffer from which a command is written may have moved before the next try. */
	SSL_CTX_set_mode(t->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
			 SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
	return t;
}

void tls_free(struct tls *t)
{
	if (!t)
		return;
	SSL_CTX_free(t->ctx);
	free(t);
}

void tls_replace(struct tls *t, struct tls *by)
{
	/* Open sessions have their own references. */
	SSL_CTX_free(t->ctx);
	*t = *by;
	free(by);
}

/* ---- Sessions ---- */

static bool is_address(const char *host)
{
	struct in6_addr ignored;

	return inet_pton(AF_INET, host, &ignored) == 1 || inet_pton(AF_INET6, host, &ignored) == 1;
}

static bool expect(SSL *ssl, const char *name)
{
	if (is_address(name))
		return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
	return SSL_set1_host(ssl, name) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1;
}

struct tls_session *tls_open(struct tls *t, int fd, const char *host)
{
	struct tls_session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->ssl = SSL_new(t->ctx);
	if (!s->ssl || SSL_set_fd(s->ssl, fd) != 1 || !expect(s->ssl, *t->name ? t->name : host)) {
		tls_free_session(s);
		return NULL;
	}
	SSL_set_connect_state(s->ssl);
	return s;
}

void tls_free_session(struct tls_session *s)
{
	if (!s)
		return;
	SSL_free(s->ssl);
	free(s);
}

/* Interprets the result of a call. Returns 0 at the end, or a negative errno. */
static int failed(struct tls_session *s, int ret, int err)
{
	long verdict = SSL_get_verify_result(s->ssl);

	switch (SSL_get_error(s->ssl, ret)) {
	case SSL_ERROR_WANT_READ:
		s->wants = EPOLLIN;
		return -EAGAIN;
	case SSL_ERROR_WANT_WRITE:
		s->wants = EPOLLOUT;
		return -EAGAIN;
	case SSL_ERROR_ZERO_RETURN:
		return 0;
	case SSL_ERROR_SYSCALL:
		/*
		 * With TLS 1.3, a server rejects a client after the handshake, and the reset hides
		 * the reason.
		 */
		snprintf(s->why, sizeof(s->why), "%s", err ? strerror(err) : "TLS ended early");
		if (!s->heard && (err == ECONNRESET || err == EPIPE))
			snprintf(s->why, sizeof(s->why), "TLS: Redis ended the connection: "
				 "perhaps it requires a client certificate: see redis-tls-cert-file");
		return -EPROTO;
	}
	if (ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING)
		return 0;
	snprintf(s->why, sizeof(s->why), "TLS: %s", reason(ERR_peek_last_error()));
	if (verdict != X509_V_OK)
		snprintf(s->why, sizeof(s->why), "TLS: the certificate of Redis is refused: %s",
			 X509_verify_cert_error_string(verdict));
	return -EPROTO;
}

int tls_shake(struct tls_session *s)
{
	int ret;

	ERR_clear_error();
	errno = 0;
	ret = SSL_do_handshake(s->ssl);
	if (ret == 1)
		return 0;
	ret = failed(s, ret, errno);
	if (!ret)
		snprintf(s->why, sizeof(s->why), "TLS: Redis ended the handshake");
	return ret ? ret : -EPROTO;
}

ssize_t tls_read(struct tls_session *s, void *buf, size_t len)
{
	int ret;

	ERR_clear_error();
	errno = 0;
	ret = SSL_read(s->ssl, buf, (int)len);
	if (ret > 0)
		s->heard = true;
	return ret > 0 ? ret : failed(s, ret, errno);
}

ssize_t tls_write(struct tls_session *s, const struct iovec *iov, int count)
{
	static char record[RECORD];
	size_t len = 0;
	int ret;

	for (int i = 0; i < count && len < sizeof(record); i++) {
		size_t n = iov[i].iov_len;

		if (n > sizeof(record) - len)
			n = sizeof(record) - len;
		memcpy(record + len, iov[i].iov_base, n);
		len += n;
	}
	ERR_clear_error();
	errno = 0;
	ret = SSL_write(s->ssl, record, (int)len);
	if (ret > 0)
		return ret;
	ret = failed(s, ret, errno);
	return ret ? ret : -EPIPE;
}

uint32_t tls_wants(const struct tls_session *s)
{
	return s->wants;
}

const char *tls_why(const struct tls_session *s)
{
	return s->why;
}
