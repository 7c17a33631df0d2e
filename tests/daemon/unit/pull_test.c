// SPDX-License-Identifier: GPL-2.0
/*
 * Pull queues: each row is a request and the field that its error names. ' stands for ".
 */
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "text/json.h"
#include "text/pull.h"
#include "text/spec.h"

#define T	"0123456789abcdef-1f"

static struct api_error err;

static void check_reserve(void)
{
	static const struct {
		const char *text;
		const char *field;
	} rows[] = {
		{ "", NULL },
		{ "{}", NULL },
		{ "{'limit':100,'lease':'30s','wait':'20s'}", NULL },
		{ "{'limit':0}", "limit" },
		{ "{'limit':101}", "limit" },
		{ "{'limit':'1'}", "limit" },
		{ "{'lease':'999ms'}", "lease" },
		{ "{'lease':'13h'}", "lease" },
		{ "{'wait':'61s'}", "wait" },
		{ "{'waits':1}", "waits" },
		{ "[1]", "" },
	};
	struct reserve r;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *text = quoted(rows[i].text);
		int ret = reserve_parse(text, strlen(text), &r, &err);

		is_text(ret ? err.field : NULL, rows[i].field, "reserve %zu", i);
		if (i == 0)
			ok(r.limit == 1 && r.lease_ms == 30000 && !r.wait_ms,
			   "reserve 0 has the defaults");
		if (i == 2)
			ok(r.limit == 100 && r.wait_ms == 20000, "reserve 2 has its values");
	}
}

static const struct {
	enum report_kind kind;
	const char *text;
	const char *field;
} reports[] = {
	{ REPORT_ACK, "{'tasks':[{'id':'a','token':'" T "'}]}", NULL },
	{ REPORT_ACK, "{'tasks':[{'id':'a','token':'" T "'},{'id':'b','token':'" T "'}]}", NULL },
	{ REPORT_ACK, "{'tasks':[]}", "tasks" },
	{ REPORT_ACK, "{}", "tasks" },
	{ REPORT_ACK, "{'tasks':[7]}", "tasks[0]" },
	{ REPORT_ACK, "{'tasks':[{'id':'a'}]}", "tasks[0].token" },
	{ REPORT_ACK, "{'tasks':[{'id':'a','token':'x'}]}", "tasks[0].token" },
	{ REPORT_ACK, "{'tasks':[{'token':'" T "'}]}", "tasks[0].id" },
	{ REPORT_ACK, "{'tasks':[{'id':'a','token':'" T "','delay':'1ms'}]}", "tasks[0].delay" },
	{ REPORT_ACK, "{'tasks':[{'id':'a','token':'" T "'}],'dead':true}", "dead" },
	{ REPORT_NACK, "{'tasks':[{'id':'a','token':'" T "','delay':'1m','dead':true,"
	  "'error':'x'}]}", NULL },
	{ REPORT_NACK, "{'tasks':[{'id':'a','token':'" T "'}],'delay':'2d'}", "delay" },
	{ REPORT_NACK, "{'tasks':[{'id':'a','token':'" T "'}],'dead':1}", "dead" },
	{ REPORT_NACK, "{'tasks':[{'id':'a','token':'" T "'}],'error':1}", "error" },
	{ REPORT_NACK, "{'tasks':[{'id':'a','token':'" T "','lease':'1m'}]}", "tasks[0].lease" },
	{ REPORT_EXTEND, "{'tasks':[{'id':'a','token':'" T "','lease':'1m'}]}", NULL },
	{ REPORT_EXTEND, "{'tasks':[{'id':'a','token':'" T "'}],'lease':'0'}", "lease" },
	{ REPORT_RELEASE, "{'tasks':[{'id':'a','token':'" T "'}],'delay':'1h'}", NULL },
	{ REPORT_RELEASE, "{'tasks':[{'id':'a','token':'" T "'}],'delay':'2h'}", "delay" },
};

static void check_reports(void)
{
	struct report r;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(reports); i++) {
		const char *text = quoted(reports[i].text);
		int ret = report_parse(text, strlen(text), reports[i].kind, &r, &err);

		is_text(ret ? err.field : NULL, reports[i].field, "report %zu is %s", i,
			reports[i].field ? "refused" : "read");
		if (i == 1)
			ok(r.count == 2 && !strcmp(r.item[1].id, "b") &&
			   r.item[0].holder == 0x0123456789abcdef && r.item[0].token == 0x1f &&
			   !r.item[0].has_delay, "id, holder and token arrive");
		if (i == 10)
			ok(r.item->has_delay && r.item->delay_ms == 60000 && r.item->dead &&
			   !strcmp(r.item->error, "x"), "delay, dead and error arrive");
		if (i == 15)
			is_number(r.item->lease_ms, 60000, "the lease arrives");
		report_free(&r);
	}
}

static void check_defaults(void)
{
	const char *text = quoted("{'delay':'5s','error':'all','tasks':["
				  "{'id':'a','token':'" T "'},"
				  "{'id':'b','token':'" T "','delay':'7s','error':'b'}]}");
	struct report r;

	report_parse(text, strlen(text), REPORT_NACK, &r, &err);
	ok(r.item[0].has_delay && r.item[0].delay_ms == 5000 &&
	   !strcmp(r.item[0].error, "all"), "a field beside the tasks is for all");
	ok(r.item[1].delay_ms == 7000 && !strcmp(r.item[1].error, "b"),
	   "a field of a task wins");
	report_free(&r);
}

/* Returns the length of an error that has many two-byte characters after @ascii one-byte ones. */
static size_t error_len(size_t ascii)
{
	char text[1024], *p = text;
	struct report r;
	size_t len, i;

	p += sprintf(p, "{\"tasks\":[{\"id\":\"a\",\"token\":\"%s\"}],\"error\":\"", T);
	memset(p, 'x', ascii);
	p += ascii;
	for (i = 0; i < 200; i++)
		p += sprintf(p, "\xc3\xa4");
	strcpy(p, "\"}");
	report_parse(text, strlen(text), REPORT_NACK, &r, &err);
	len = strlen(r.item->error);
	report_free(&r);
	return len;
}

static void check_tokens(void)
{
	static const char *const bad[] = {
		"", "-", "0123456789abcdef", "0123456789abcdef-", "123456789abcdef-1",
		"0123456789ABCDEF-1", "0123456789abcdef-11111111111111111",
		"00123456789abcdef-1", "0123456789abcdef-1 ", " 0123456789abcdef-1",
		"0123456789abcdef-x", "0123456789abcdef--1",
	};
	uint64_t holder, token;
	char buf[TOKEN_LEN];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(bad); i++)
		ok(!token_parse(bad[i], &holder, &token), "token %zu is refused", i);
	ok(token_parse(token_text(buf, UINT64_MAX, UINT64_MAX), &holder, &token) &&
	   holder == UINT64_MAX && token == UINT64_MAX, "the largest token comes back");
	is_text(token_text(buf, 1, 2), "0000000000000001-2", "a token has its form");
}

static const char *reserved(struct task_body *b)
{
	static char text[512];
	const struct run run = {
		.queue = "q", .id = "a", .version = 5, .first_due_ms = 4, .attempt = 3,
	};

	payload_check(b);
	reserved_text(text, &run, 1, 2, b);
	ok(strlen(text) < reserved_room(b), "the text has room");
	return text;
}

static void check_reserved(void)
{
	struct task_body b = {
		.flags = BODY_HAS_PAYLOAD | BODY_JSON,
		.payload = (const uint8_t *)"[1]", .payload_len = 3,
	};

	is_text(reserved(&b), quoted("{'id':'a','token':'0000000000000001-2',"
		"'key':'q/a/5/4','version':5,'attempt':3,"
				     "'first_due':4,'payload':[1]}"), "a reserved task is written");
	b.payload_len = 2;
	ok(strstr(reserved(&b), "\"payload_base64\":\"WzE=\"}"), "a damaged payload is base64");
	b.payload_len = 3;
	b.flags = BODY_HAS_PAYLOAD;
	ok(strstr(reserved(&b), "\"payload_base64\":\"WzFd\"}"), "bytes are base64");
	b.flags = 0;
	ok(!strstr(reserved(&b), "payload"), "no payload has no field");
}

int main(void)
{
	check_reserve();
	check_reports();
	check_defaults();
	is_number(error_len(0), 256, "an error is cut at 256 bytes");
	is_number(error_len(1), 255, "an error is not cut within a character");
	check_tokens();
	check_reserved();
	return tap_end();
}
