// SPDX-License-Identifier: GPL-2.0
/*
 * Tasks, queues and queries from JSON: each row is a request and the field that its error
 * names. In a row, ' stands for ".
 */
#include <stdlib.h>

#include "tap.h"
#include "text/field.h"
#include "text/plain.h"
#include "text/pull.h"
#include "text/query.h"
#include "text/settings.h"
#include "text/spec.h"

static struct api_error err;
static struct queue_settings push, pull;

#define NO_UNIT		"must be a string with a unit (ms, s, min, h, d, w), such as \"30s\""
#define BARE_UNIT	"a duration needs a unit, for example ms, s or min"
#define BARE		"a number means Unix milliseconds, and must be at least 100000000000"
#define CB	"'callback':{'url':'http://a'}"

/* The request is valid if @field is NULL. */
static const struct {
	const char *text;
	const char *field;
	const char *message;
} tasks[] = {
	{ "{" CB "}", NULL, NULL },
	{ "", "", "not JSON: line 1, column 0: '[' or '{' expected near end of file" },
	{ "[]", "", "the body must be a JSON object" },
	{ "{} x", "", NULL },
	{ "{'id':'a','id':'b'," CB "}", "", NULL },
	{ "{}", "callback", "is missing; this queue calls URLs" },
	{ "{" CB ",'what':1}", "what", "unknown field" },
	{ "{" CB ",'id':'a_b:c-9'}", NULL, NULL },
	{ "{" CB ",'id':''}", "id", "must consist of " TASK_ID_TEXT },
	{ "{" CB ",'id':'a/b'}", NULL, NULL },
	{ "{" CB ",'id':'a b'}", "id", NULL },
	{ "{" CB ",'id':7}", "id", "must be a string" },
	{ "{" CB ",'id':null}", "id", "must be a string" },
	{ "{" CB ",'at':1795766400000}", NULL, NULL },
	{ "{" CB ",'at':'2026-11-27T08:00:00Z'}", NULL, NULL },
	{ "{" CB ",'at':'tomorrow'}", "at", NULL },
	{ "{" CB ",'at':-1}", "at", NULL },
	{ "{" CB ",'at':1.5}", "at", NULL },
	{ "{" CB ",'at':9999999999999999}", "at", "too far in the future" },
	{ "{" CB ",'at':'2400-01-01T00:00:00Z'}", "at", "too far in the future" },
	{ "{" CB ",'at':99999999999999999999}", "", NULL },
	{ "{" CB ",'in':'30s'}", NULL, NULL },
	{ "{" CB ",'at':'1795766400000'}", NULL, NULL },
	{ "{" CB ",'at':100000000000}", NULL, NULL },
	{ "{" CB ",'at':1795766400}", "at", BARE },
	{ "{" CB ",'at':'1795766400'}", "at", BARE },
	{ "{" CB ",'in':'0'}", NULL, NULL },
	{ "{" CB ",'in':'5min'}", NULL, NULL },
	{ "{" CB ",'in':'1min 2sec'}", NULL, NULL },
	{ "{" CB ",'in':'30'}", "in", BARE_UNIT },
	{ "{" CB ",'in':30}", "in", NO_UNIT },
	{ "{" CB ",'in':0}", "in", NO_UNIT },
	{ "{" CB ",'in_ms':0}", NULL, NULL },
	{ "{" CB ",'in_ms':'5s'}", "in_ms", NULL },
	{ "{" CB ",'in_ms':5,'in':'5s'}", "in_ms", "\"in\" and \"in_ms\" cannot be used together" },
	{ "{" CB ",'in_ms':5,'at':1795766400000}", "in_ms",
	  "\"at\" and \"in\" cannot be used together" },
	{ "{" CB ",'in':'-1s'}", "in", NULL },
	{ "{" CB ",'in':true}", "in", NULL },
	{ "{" CB ",'in':'40000d'}", "in", "must be from 0ms to 36600d" },
	{ "{" CB ",'in':'1ms','at':1795766400000}", "in",
	  "\"at\" and \"in\" cannot be used together" },
	{ "{" CB ",'if_exists':'keep'}", NULL, NULL },
	{ "{" CB ",'if_exists':'drop'}", "if_exists", "must be replace, keep, fail or update" },
	{ "{" CB ",'every':'100ms'}", NULL, NULL },
	{ "{" CB ",'every':'99ms'}", "every", "must be from 100ms to 36600d" },
	{ "{" CB ",'every':100}", "every", NO_UNIT },
	{ "{" CB ",'every_ms':100}", NULL, NULL },
	{ "{" CB ",'every_ms':99}", "every_ms", NULL },
	{ "{" CB ",'every_ms':100,'every':'100ms'}", "every_ms",
	  "\"every\" and \"every_ms\" cannot be used together" },
	{ "{" CB ",'late':{'after':'5m','then':'skip'}}", NULL, NULL },
	{ "{" CB ",'late':{'after':'5m','then':'hop'}}", "late.then",
	  "must be run, skip or dead" },
	{ "{" CB ",'late':{'after':'5m'}}", "late.then", "is missing" },
	{ "{" CB ",'late':{'then':'run'}}", "late.after", "is missing" },
	{ "{" CB ",'late':{'then':'run','after':'0'}}", "late.after", NULL },
	{ "{" CB ",'late':{'x':1}}", "late.x", "unknown field" },
	{ "{" CB ",'late':7}", "late", "must be an object" },
	{ "{" CB ",'keep':'1h'}", NULL, NULL },
	{ "{" CB ",'keep':'x'}", "keep", NULL },
	{ "{" CB ",'timeout':'15m'}", NULL, NULL },
	{ "{" CB ",'timeout':'16m'}", "timeout", "must be from 1ms to 15m" },
	{ "{" CB ",'timeout':'0'}", "timeout", NULL },
	{ "{" CB ",'timeout':20000}", "timeout", NO_UNIT },
	{ "{" CB ",'retry':{}}", NULL, NULL },
	{ "{" CB ",'retry':{'limit':1000,'base':'1ms','cap':'1ms','jitter':1}}", NULL, NULL },
	{ "{" CB ",'retry':{'limit':0}}", "retry.limit",
	  "must be a whole number from 1 to 1000" },
	{ "{" CB ",'retry':{'limit':1001}}", "retry.limit", NULL },
	{ "{" CB ",'retry':{'limit':1.5}}", "retry.limit", NULL },
	{ "{" CB ",'retry':{'base':'0'}}", "retry.base", NULL },
	{ "{" CB ",'retry':{'base':1000}}", "retry.base", NO_UNIT },
	{ "{" CB ",'retry':{'base':'2s','cap':'1s'}}", "retry.cap", "must not be below base" },
	{ "{" CB ",'retry':{'base':'2h'}}", NULL, NULL },
	{ "{" CB ",'retry':{'cap':'10ms'}}", NULL, NULL },
	{ "{" CB ",'retry':{'jitter':1.1}}", "retry.jitter", "must be a number from 0 to 1" },
	{ "{" CB ",'retry':{'jitter':-0.1}}", "retry.jitter", NULL },
	{ "{" CB ",'retry':{'jitter':'x'}}", "retry.jitter", NULL },
	{ "{" CB ",'retry':{'tries':1}}", "retry.tries", "unknown field" },
	{ "{" CB ",'retry':[]}", "retry", NULL },
	{ "{" CB ",'payload':null}", NULL, NULL },
	{ "{" CB ",'payload':'x'}", NULL, NULL },
	{ "{" CB ",'payload':{'a':[1,2,{}]}}", NULL, NULL },
	{ "{" CB ",'payload_base64':'AAEC'}", NULL, NULL },
	{ "{" CB ",'payload_base64':''}", NULL, NULL },
	{ "{" CB ",'payload_base64':'AAE'}", "payload_base64", "base64 needs its padding" },
	{ "{" CB ",'payload_base64':7}", "payload_base64", NULL },
	{ "{" CB ",'payload':1,'payload_base64':'AAEC'}", "payload_base64", NULL },
	{ "{'callback':'http://a'}", "callback", "must be an object" },
	{ "{'callback':{}}", "callback.url", "is missing" },
	{ "{'callback':{'url':'gopher://a'}}", "callback.url",
	  "a URL must begin with http:// or https://" },
	{ "{'callback':{'url':'http://a\\nb'}}", "callback.url", NULL },
	{ "{'callback':{'url':'http://a\\u0000b'}}", "",
	  "a string must not contain NUL: line 1, column 36" },
	{ "{'\\u0000':1}", "", "a string must not contain NUL: line 1, column 9" },
	{ "{'callback':{'url':7}}", "callback.url", "must be a string" },
	{ "{'callback':{'url':'http://a','method':'PUT'}}", NULL, NULL },
	{ "{'callback':{'url':'http://a','method':'put'}}", "callback.method",
	  "must be GET, POST, PUT, PATCH or DELETE" },
	{ "{'callback':{'url':'http://a','method':'TRACE'}}", "callback.method", NULL },
	{ "{'callback':{'url':'http://a','x':1}}", "callback.x", "unknown field" },
	{ "{'callback':{'url':'http://a','headers':{'X-A':'b','Content-Type':'text/plain'}}}",
	  NULL, NULL },
	{ "{'callback':{'url':'http://a','headers':{'Host':'b'}}}", "callback.headers.Host",
	  "a task may not set this header" },
	{ "{'callback':{'url':'http://a','headers':{'X':'a\\r\\nb'}}}", "callback.headers.X",
	  "a header contains a control character" },
	{ "{'callback':{'url':'http://a','headers':{'X Y':'b'}}}", "callback.headers.X Y",
	  NULL },
	{ "{'callback':{'url':'http://a','headers':{'X':1}}}", "callback.headers.X",
	  "must be a string" },
	{ "{'callback':{'url':'http://a','headers':[]}}", "callback.headers", NULL },
	{ "{" CB ",'\xc3\xa4':1}", "??", "unknown field" },
};

static void check_tasks(void)
{
	struct task_request req;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(tasks); i++) {
		const char *text = quoted(tasks[i].text);
		int ret;

		err = (struct api_error){ .status = 0 };
		ret = task_request_parse(text, strlen(text), NULL, &push, &req, &err);
		is_text(ret ? err.field : NULL, tasks[i].field, "task %zu is %s", i,
			tasks[i].field ? "refused" : "read");
		if (ret && (err.status != 400 || strcmp(err.code, "invalid")))
			ok(false, "task %zu: the error is 400 invalid", i);
		if (tasks[i].message)
			is_text(err.message, tasks[i].message, "task %zu: the error message", i);
		task_request_free(&req);
	}
}

/* Parses one valid task. The caller frees @req. */
static bool parse(const char *text, const char *id, const struct queue_settings *q,
		  struct task_request *req)
{
	text = quoted(text);
	return !task_request_parse(text, strlen(text), id, q, req, &err);
}

/* Each character in a payload is read like the library reads it. */
static void check_strings(void)
{
	unsigned int good = 0;

	for (unsigned int c = 1; c < 0x300; c++) {
		struct task_request req;
		struct task_body b;
		char text[64], want[32];
		json_t *v;

		snprintf(text, sizeof(text), "{'payload':'a\\u%04xz'}", c);
		snprintf(want, sizeof(want), "[\"a\\u%04xz\"]", c);
		v = json_loads(want, 0, NULL);
		json_dumpb(json_array_get(v, 0), want, sizeof(want), JSON_ENCODE_ANY);
		want[json_dumpb(json_array_get(v, 0), NULL, 0, JSON_ENCODE_ANY)] = '\0';
		json_decref(v);
		if (!parse(text, NULL, &pull, &req))
			continue;
		body_decode(req.item->spec.body, req.item->spec.body_len, &b);
		if (b.payload_len == strlen(want) && !memcmp(b.payload, want, b.payload_len))
			good++;
		else
			printf("# U+%04x: not %s\n", c, want);
		task_request_free(&req);
	}
	is_number(good, 0x2ff, "strings in a payload stay what they are");
}

static void check_fields(void)
{
	struct task_request req;
	struct task_spec *s;
	struct task_body b;

	parse("{'id':'a','in':'30s','if_exists':'fail','every':'1m','keep':'1h',"
	      "'late':{'after':'5m','then':'dead'},'timeout':'20s',"
	      "'retry':{'limit':3,'jitter':0.125},"
	      "'callback':{'url':'http://a/x','method':'GET','headers':{'X-A':'b','X-C':''}},"
	      "'payload':{'z':0.1,'a':[1, 2]}}", NULL, &push, &req);
	s = &req.item->spec;
	ok(!req.batch && req.count == 1, "a single task is no batch");
	is_text(s->id, "a", "id arrives");
	ok(s->when == TASK_IN && s->time_ms == 30000, "in arrives");
	ok(s->if_exists == IF_EXISTS_FAIL && s->every_ms == 60000 && s->keep_ms == 3600000,
	   "if_exists, every and keep arrive");
	ok(s->late_after_ms == 300000 && s->late_then == LATE_DEAD, "late arrives");
	is_number(s->limit, 3, "the limit of attempts arrives");
	ok(body_decode(s->body, s->body_len, &b), "the body is encoded");
	ok(b.method == BODY_GET && !strcmp(b.url, "http://a/x") && b.timeout_ms == 20000,
	   "method, URL and timeout are in it");
	ok(b.retry.limit == 3 && b.retry.base_ms == 1000 && b.retry.cap_ms == 3600000 &&
	   b.retry.jitter == 125, "retry is in it, with defaults");
	ok(b.headers == 2 && !strcmp(b.header, "X-A: b") &&
	   !strcmp(b.header + 7, "X-C: "), "headers are in it");
	ok(b.payload_len == 19 && !memcmp(b.payload, "{\"z\":0.1,\"a\":[1,2]}", 19),
	   "the payload keeps its order and its numbers");
	task_request_free(&req);
	task_request_free(&req);

	parse("{" CB "}", NULL, &push, &req);
	is_number(strlen(req.item->spec.id), 32, "an id is made up");
	ok(req.item->spec.when == TASK_NOW, "a task without a time is due now");
	task_request_free(&req);

	ok(parse("{'payload_base64':'AP8A'}", NULL, &pull, &req), "a pull task has no callback");
	body_decode(req.item->spec.body, req.item->spec.body_len, &b);
	ok(!b.url && b.payload_len == 3 && !memcmp(b.payload, "\0\xff", 3) &&
	   b.flags == BODY_HAS_PAYLOAD, "the payload of a pull task may be bytes");
	task_request_free(&req);
	ok(!parse("{" CB "}", NULL, &pull, &req) && !strcmp(err.field, "callback"),
	   "a callback is refused in a pull queue");
	ok(parse("{" CB "}", "p", &push, &req) && !strcmp(req.item->spec.id, "p"),
	   "the id of the path is taken");
	task_request_free(&req);
	ok(!parse("{'id':'q'," CB "}", "p", &push, &req), "a field with another id is refused");
	ok(!parse("{'tasks':[]}", "p", &push, &req), "a batch is refused at a path with an id");
}

/* Returns the text of @count tasks, each of which contains @each. */
static char *many(size_t count, const char *each)
{
	char *text = malloc(count * (strlen(each) + 1) + 16), *p = text;
	size_t i;

	p += sprintf(p, "{\"tasks\":[");
	for (i = 0; i < count; i++)
		p += sprintf(p, "%s%s", i ? "," : "", each);
	sprintf(p, "]}");
	return text;
}

static void check_batch(void)
{
	struct task_request req;
	char *text;

	ok(parse("{'tasks':[{" CB "},{'x':1},7,{'id':'b'," CB "}]}", NULL, &push, &req),
	   "a batch with bad tasks is read");
	ok(req.batch && req.count == 4, "a batch with bad tasks has four items");
	ok(!req.item[0].err.status && req.item[0].spec.body,
	   "the first task of the batch is valid");
	ok(req.item[1].err.status == 400 && !strcmp(req.item[1].err.field, "x"),
	   "the second names its field");
	ok(req.item[2].err.status == 400, "the third is no object");
	ok(!req.item[3].err.status && !strcmp(req.item[3].spec.id, "b"),
	   "the fourth task of the batch is valid");
	task_request_free(&req);

	ok(!parse("{'tasks':[]}", NULL, &push, &req), "an empty batch is refused");
	ok(!parse("{'tasks':7}", NULL, &push, &req), "a batch that is no list is refused");
	ok(!parse("{'tasks':[{}],'x':1}", NULL, &push, &req) && !strcmp(err.field, "x"),
	   "an unknown field beside a batch is refused");
	text = many(1000, "{}");
	ok(!task_request_parse(text, strlen(text), NULL, &pull, &req, &err) &&
	   req.count == 1000, "1000 tasks are read");
	task_request_free(&req);
	free(text);
	text = many(1001, "{}");
	ok(task_request_parse(text, strlen(text), NULL, &pull, &req, &err) &&
	   err.status == 413 && !strcmp(err.code, "too_large"), "1001 are too many");
	free(text);
}

/* Returns a task whose payload is a string of @len bytes. */
static char *large(const char *field, size_t len, char fill)
{
	char *text = malloc(len + 64), *p = text;

	p += sprintf(p, "{\"%s\":\"", field);
	memset(p, fill, len);
	strcpy(p + len, "\"}");
	return text;
}

static void check_sizes(void)
{
	static const struct {
		const char *field;
		size_t len;
		int status;
	} rows[] = {
		{ "payload", 65534, 0 },
		{ "payload", 65535, 413 },
		{ "payload_base64", 87380, 0 },
		{ "payload_base64", 87384, 413 },
		{ "payload_base64", 87388, 413 },
		{ "payload", 5 << 20, 413 },
	};
	struct task_request req;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		char *text = large(rows[i].field, rows[i].len, 'A');

		err.status = 0;
		task_request_parse(text, strlen(text), NULL, &pull, &req, &err);
		is_number((unsigned int)err.status, (unsigned int)rows[i].status,
			  "%s of %zu characters", rows[i].field, rows[i].len);
		task_request_free(&req);
		free(text);
	}
}

static void check_moves(void)
{
	static const struct {
		const char *text;
		const char *field;
	} rows[] = {
		{ "{'at':1795766400000}", NULL }, { "{'in':'5ms'}", NULL },
		{ "{'in_ms':5}", NULL }, { "{}", "at" },
		{ "{'at':1795766400000,'in':'5ms'}", "in" }, { "{'in':5}", "in" },
		{ "{'at':5}", "at" }, { "{'id':'a'}", "id" }, { "", "" },
	};
	struct task_move move;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *text = quoted(rows[i].text);
		int ret = task_move_parse(text, strlen(text), &move, &err);

		is_text(ret ? err.field : NULL, rows[i].field, "move %zu", i);
	}
	task_move_parse("{\"in\":\"5s\"}", 11, &move, &err);
	ok(move.when == TASK_IN && move.time_ms == 5000, "a move has its time");
}

/* Compares the text of a JSON answer, in which ' stands for ", and frees the answer. */
static void is_json(json_t *v, const char *want, const char *name)
{
	char *text = json_text(v, NULL);

	is_text(text, quoted(want), "%s", name);
	free(text);
}

static void check_settings(void)
{
	static const struct {
		const char *text;
		const char *field;
	} rows[] = {
		{ "", NULL },
		{ "{}", NULL },
		{ "{'mode':'pull','lanes':256,'ahead':'5s','timeout':'1m','lane_max':5}", NULL },
		{ "{'mode':'both'}", "mode" },
		{ "{'lanes':0}", "lanes" },
		{ "{'lanes':257}", "lanes" },
		{ "{'ahead':'6s'}", "ahead" },
		{ "{'retry':{'limit':0}}", "retry.limit" },
		{ "{'lane_max':0}", "lane_max" },
		{ "{'weight':0}", "weight" },
		{ "{'rate':{'limit':1,'per':'1m','burst':3},'concurrency':5}", NULL },
		{ "{'rate':null,'concurrency':null,'ahead':null,'lane_max':null}", NULL },
		{ "{'weight':null}", "weight" },
		{ "{'rate':{'burst':3}}", "rate.limit" },
		{ "{'concurrency':1000001}", "concurrency" },
		{ "{'mode':'push-limited'}", "mode" },
		{ "{'paused':true}", "paused" },
		{ "[]", "" },
	};
	static const char newer[] = "{\"mode\":\"pull\",\"color\":\"red\"}";
	struct queue_settings s;
	char *text;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		int ret;

		queue_settings_default(&s);
		text = (char *)quoted(rows[i].text);
		ret = queue_settings_parse(text, strlen(text), &s, &err);
		is_text(ret ? err.field : NULL, rows[i].field, "settings %zu", i);
		if (i == 2)
			ok(s.mode == QUEUE_PULL && s.lanes == 256 && s.ahead_ms == 5000 &&
			   s.timeout_ms == 60000 && s.lane_max == 5 && s.retry.limit == 10,
			   "values arrive, others stay");
	}
	is_json(queue_settings_to_json(&push), "{'mode':'push','lanes':4,'timeout':10000,"
		"'retry':{'limit':10,'base':1000,'cap':3600000,'jitter':0.2}}",
		"the defaults are written");
	queue_settings_default(&s);
	s.ahead_ms = 0;
	s.lane_max = 7;
	s.mode = QUEUE_PULL;
	s.weight = 3;
	text = json_text(queue_settings_to_store(&s, NULL), NULL);
	queue_settings_default(&push);
	ok(queue_settings_load(text, strlen(text), &push) && !memcmp(&push, &s, sizeof(s)),
	   "what is written can be loaded");
	free(text);
	s.concurrency = 9;
	s.rate = (struct rate){ 5, 60000, 8 };
	text = json_text(queue_settings_to_store(&s, NULL), NULL);
	ok(strstr(text, "\"pull-limited\"") && queue_settings_load(text, strlen(text), &push) &&
	   !memcmp(&push, &s, sizeof(s)), "limits come with a mode that older daemons do not know");
	free(text);
	is_json(queue_settings_to_json(&s), "{'mode':'pull','lanes':4,'timeout':10000,"
		"'retry':{'limit':10,'base':1000,'cap':3600000,'jitter':0.2},'ahead':0,'lane_max':7,"
		"'weight':3,'rate':{'limit':5,'per':60000,'burst':8},'concurrency':9}",
		"limits are answered");
	ok(queue_settings_load(newer, strlen(newer), &push) && push.mode == QUEUE_PULL &&
	   push.ahead_ms == QUEUE_AHEAD_DEFAULT, "fields of a newer daemon are skipped");
	text = (char *)quoted("{'ahead':null,'lane_max':null,'rate':null,'lanes':0}");
	ok(queue_settings_parse(text, strlen(text), &s, &err) && s.lane_max == 7 && s.rate.limit,
	   "an error changes no setting, even beside a null");
	s.concurrency = 0;
	is_json(queue_settings_to_store(&s, "{\"mode\":\"pull-limited\",\"concurrency\":9,"
					"\"color\":\"red\"}"),
		"{'mode':'pull-limited','lanes':4,'timeout':10000,"
		"'retry':{'limit':10,'base':1000,'cap':3600000,'jitter':0.2},'ahead':0,'lane_max':7,"
		"'weight':3,'rate':{'limit':5,'per':60000,'burst':8},'color':'red'}",
		"and stay where others are changed, while one of ours can be removed");
	text = (char *)quoted("{'ahead':null,'lane_max':null,'rate':null}");
	ok(!queue_settings_parse(text, strlen(text), &s, &err), "null is a value of a setting");
	is_json(queue_settings_to_store(&s, NULL), "{'mode':'pull','lanes':4,'timeout':10000,"
		"'retry':{'limit':10,'base':1000,'cap':3600000,'jitter':0.2},'weight':3}",
		"and gives it its default");
	ok(!queue_settings_load("{", 1, &push), "settings that are no JSON are refused");
	ok(!queue_settings_load("{\"lanes\":0}", 11, &push),
	   "settings with a wrong value are refused");
	queue_settings_default(&push);
}

static void check_answers(void)
{
	char put[TASK_PUT_LEN];
	struct task_request req;
	struct task_view v = {
		.queue = "q", .id = "a", .state = TASK_LEASED, .due_ms = 2, .first_due_ms = 1,
		.version = 3, .attempts = 4, .lost = 5, .limit = 3, .begun = true,
		.lease_end_ms = 9, .every_ms = 60000, .late_after_ms = 300000,
		.late_then = LATE_SKIP, .keep_ms = 8, .note = "b\xff", .note_len = 2,
	};

	parse("{'callback':{'url':'http://a','headers':{'X':'y'}},'payload':[0.1],"
	      "'retry':{'limit':3}}", NULL, &push, &req);
	v.body = req.item->spec.body;
	v.body_len = req.item->spec.body_len;
	is_json(task_view_to_json(&v), "{'id':'a','queue':'q','state':'leased','due':2,"
		"'first_due':1,'version':3,'attempts':4,'lost':5,'limit':3,'begun':true,"
		"'lease_end':9,'every':60000,'late':{'after':300000,'then':'skip'},'keep':8,"
		"'error':'b?','callback':{'url':'http://a','method':'POST','headers':"
		"{'X':'y'}},'payload':[0.1],'retry':{'limit':3,'base':1000,'cap':3600000,"
		"'jitter':0.2},'timeout':10000}", "a task is written");
	v = (struct task_view){ .queue = "q", .id = "a", .state = TASK_DEAD, .ended_ms = 6,
				.body = (const uint8_t *)"junk", .body_len = 4 };
	is_json(task_view_to_json(&v), "{'id':'a','queue':'q','state':'dead','due':0,"
		"'first_due':0,'version':0,'attempts':0,'lost':0,'limit':0,'ended':6}",
		"a body that is damaged is left out");
	task_request_free(&req);

	task_put_text(put, "a", TASK_SCHEDULED, 5, 6, "replaced", "leased");
	is_json(json_loads(put, 0, NULL),
		"{'id':'a','state':'scheduled','due':5,'version':6,'result':'replaced',"
		"'was':'leased'}", "a put is answered");
	api_error_set(&err, 400, "invalid", "a.b", "bad \"%s\"\n", "x\x01\xff");
	is_json(api_error_to_json(&err), "{'error':{'code':'invalid',"
		"'message':'bad \\'x??\\'?','field':'a.b'}}", "an error is answered");
	api_error_set(&err, 404, "not_found", NULL, "gone");
	is_json(api_error_to_json(&err), "{'error':{'code':'not_found','message':'gone'}}",
		"an error without a field has none");
	is_json(text_to_json("a\"b\nc", 5), "'a\\'b\\nc'", "text is escaped");
	is_json(json_real(0.1 + 0.2), "0.30000000000000004", "a number keeps its value");
	ok(!json_text(NULL, NULL), "no answer has no text");
}

static void check_queries(void)
{
	static const struct {
		const char *text;
		const char *field;
	} rows[] = {
		{ NULL, NULL },
		{ "", NULL },
		{ "&&", NULL },
		{ "state=dead&limit=10&cursor=a%3Ab", NULL },
		{ "st%61te=done", NULL }, { "state=", "state" }, { "state", "state" },
		{ "state=gone", "state" }, { "limit=0", "limit" },
		{ "limit=1001", "limit" }, { "limit=1e2", "limit" },
		{ "limit=-1", "limit" }, { "cursor=a+b", "cursor" }, { "cursor=%00", "" },
		{ "cursor=%0", "" }, { "cursor=%", "" }, { "cursor=%zz", "" },
		{ "what=1", "what" }, { "=1", "" }, { "limit=1&limit=1", "limit" },
		{ "state=dead&state=done", "state" }, { "cursor=a&cursor=b", "cursor" },
		{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa=1", "" },
	};
	struct list_query q;
	unsigned int limit;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		int ret = list_query_parse(rows[i].text, &q, &err);

		is_text(ret ? err.field : NULL, rows[i].field, "query %zu", i);
		if (i == 0)
			ok(q.limit == 100 && !q.has_state && !*q.cursor,
			   "query 0 has the defaults");
		if (i == 3)
			ok(q.limit == 10 && q.has_state && q.state == TASK_DEAD &&
			   !strcmp(q.cursor, "a:b"), "query 3 has its values");
	}
	ok(!limit_parse("7", 10, &limit, &err) && limit == 7, "a limit is read");
	ok(limit_parse("11", 10, &limit, &err) && limit_parse(NULL, 10, &limit, &err),
	   "a limit above its largest is refused");
}

static void check_names(void)
{
	char name[140];

	memset(name, 'a', sizeof(name));
	name[128] = '\0';
	ok(task_id_valid(name), "an id has up to 128 characters");
	name[128] = 'a';
	name[129] = '\0';
	ok(!task_id_valid(name) && !task_id_valid(""),
	   "an id has at least 1 and at most 128 characters");
	ok(task_id_valid("a.b@c=d/e+f~g") && task_id_valid("..."), "an id may contain . @ = / + ~");
	ok(!task_id_valid(".") && !task_id_valid("..") && !task_id_valid("a b") &&
	   !task_id_valid("a%") && !task_id_valid("a\1"), "an id is no step of a path");
	name[64] = '\0';
	ok(queue_name_valid(name), "a queue has up to 64 characters");
	ok(!queue_name_valid("a:b") && !queue_name_valid("a{b}") && !queue_name_valid(""),
	   "but no \":\" and no brace");
}

/* json_plain() and the library read the same. */
static void check_plain(void)
{
	static const struct {
		const char *text;
		bool plain;
	} rows[] = {
		{ "{}", true },
		{ " [ ] ", true },
		{ "{'a':1,'b':[0,10,999999999999999999],'c':{'d':'e f'}}", true },
		{ "\t{ 'a' : [ true , false , null ] } ", true },
		{ "{'':''}", true },
		{ "[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]", true },
		/* Texts that json_plain() leaves to the library. */
		{ "[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]", false },
		{ "[1000000000000000000]", false },
		{ "[-1]", false }, { "[1.5]", false }, { "[1e3]", false },
		{ "['\\n']", false }, { "['\303\244']", false }, { "['\177']", false },
		/* Texts that are not valid JSON. */
		{ "", false }, { "7", false }, { "'a'", false }, { "{", false },
		{ "[", false }, { "[1", false }, { "[1,", false }, { "[1,]", false },
		{ "[,1]", false }, { "[1 2]", false }, { "[01]", false },
		{ "[1]]", false }, { "[1] x", false }, { "[1}", false },
		{ "[nul]", false }, { "[truefalse]", false }, { "['a]", false },
		{ "['\t']", false }, { "{'a'}", false }, { "{'a':}", false },
		{ "{'a':1,}", false }, { "{'a':1 'b':2}", false },
		{ "{'a':1,'a':2}", false }, { "{1:2}", false }, { "{a:2}", false },
	};
	json_t *root;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *text = quoted(rows[i].text);
		size_t len = strlen(text);
		json_t *plain = json_plain(text, len);
		json_t *library = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);

		ok(!plain == !rows[i].plain && (!plain || json_equal(plain, library)),
		   "plain JSON: %s", rows[i].text);
		json_decref(plain);
		json_decref(library);
	}
	root = json_plain("\n[\n]\n", 5);
	ok(root, "a line's end is space");
	json_decref(root);
	ok(!json_plain("[1]\0", 4) && !json_plain("[\0]", 3), "a NUL is no space");
	ok(!json_plain("[1]", 2) && !json_plain("[\"a\"]", 3), "nothing is read behind the end");
}

int main(void)
{
	queue_settings_default(&push);
	pull = push;
	pull.mode = QUEUE_PULL;
	check_tasks();
	check_strings();
	check_fields();
	check_batch();
	check_sizes();
	check_moves();
	check_settings();
	check_answers();
	check_queries();
	check_names();
	check_plain();
	return tap_end();
}
