// SPDX-License-Identifier: GPL-2.0
/*
 * Durations, sizes, times and base64: each row is a text and its value.
 */
#include "../shared/base64.h"
#include "../shared/duration.h"
#include "ground/units.h"
#include "tap.h"

#define BAD	UINT64_MAX
/* Stands for UINT64_MAX. */
#define LARGEST	(UINT64_MAX - 1)

struct row {
	const char *text;
	uint64_t value;
};

static const struct row durations[] = {
	{ "0", 0 }, { "0ms", 0 }, { "250ms", 250 }, { "30s", 30000 }, { "5m", 300000 },
	{ "2h", 7200000 }, { "7d", 604800000 }, { "1h30m", 5400000 }, { "1.5s", 1500 },
	{ "0.25s", 250 }, { "1.0000s", 1000 }, { "1000us", 1 }, { "3000000ns", 3 },
	/* Units of systemd.time(7). */
	{ "5min", 300000 }, { "2sec", 2000 }, { "1min 30s", 90000 }, { "2 h", 7200000 },
	{ "2hours", 7200000 }, { "48hr", 172800000 }, { "55s500ms", 55500 },
	{ "1week 5day", 1036800000 }, { "1w", 604800000 }, { "20msec", 20 },
	{ "2000usec", 2 }, { "2000\xc2\xb5s", 2 }, { "3days 1minute 2seconds", 259262000 },
	{ "213503d", 213503 * MS_PER_DAY },
	{ "213504d", BAD }, { "1.0005s", BAD }, { "1.5ms", BAD }, { "1us", BAD },
	/* A number without a unit is invalid, unless it is 0. */
	{ "250", BAD }, { "1.5", BAD }, { "00", BAD }, { "0.0", BAD }, { "1h30", BAD },
	{ "18446744073709551615", BAD },
	{ "", BAD }, { "-1s", BAD }, { "+1s", BAD }, { " 1s", BAD }, { "1s ", BAD },
	{ "s", BAD }, { "1.s", BAD }, { ".5s", BAD }, { "1. 5s", BAD }, { "1 2s", BAD },
	{ "1S", BAD }, { "1M", BAD }, { "1y", BAD }, { "1s1h", BAD }, { "1s 1sec", BAD },
	{ "99999999999999999999s", BAD }, { "1e3", BAD }, { "1s,", BAD }, { "infinity", BAD },
};

/* What twheelctl reads, in ns. */
static const struct row nanoseconds[] = {
	{ "1ns", 1 }, { "7us", 7000 }, { "7usec", 7000 }, { "7\xc2\xb5s", 7000 },
	{ "2hours30minutes", 9000000000000 }, { "1d2h3m4s5ms6us7ns", 93784005006007 },
	{ "0.000000001s", 1 }, { "1.25m", 75000000000 }, { "1.0ns", 1 }, { "1m0.5s", 60500000000 },
	{ "213503d", 18446659200000000000ULL }, { "18446744073709551615ns", LARGEST },
	{ "18446744073709551616ns", BAD }, { "213503d24h", BAD }, { "18446744074s", BAD },
	{ "0.0000000001s", BAD }, { "0.50000000001s", BAD }, { "1.5ns", BAD },
	{ "1.5.5s", BAD }, { "5s6", BAD }, { "0x10", BAD }, { "1s.", BAD },
};

static const struct row sizes[] = {
	{ "0", 0 }, { "65536", 65536 }, { "64K", 65536 }, { "64M", 64ULL << 20 },
	{ "2G", 2ULL << 30 }, { "1T", 1ULL << 40 }, { "64k", BAD }, { "64MB", BAD },
	{ "M", BAD }, { "", BAD }, { "-1", BAD }, { "99999999T", BAD },
};

static const struct row times[] = {
	{ "0", 0 },
	{ "1795766400000", 1795766400000 },
	{ "1970-01-01T00:00:00Z", 0 },
	{ "2026-11-27T08:00:00Z", 1795766400000 },
	{ "2026-11-27T08:00:00.250Z", 1795766400250 },
	{ "2026-11-27t08:00:00z", 1795766400000 },
	{ "2026-11-27 08:00:00Z", 1795766400000 },
	{ "2026-11-27T09:00:00+01:00", 1795766400000 },
	{ "2026-11-27T02:30:00-05:30", 1795766400000 },
	{ "2026-11-27T08:00:00.2500000001Z", 1795766400251 },
	{ "2026-11-27T08:00:00.2500000000Z", 1795766400250 },
	{ "2026-11-27T08:00:00.999999Z", 1795766401000 },
	{ "2016-12-31T23:59:60Z", 1483228800000 },
	{ "2000-02-29T00:00:00Z", 951782400000 },
	{ "2024-02-29T00:00:00Z", 1709164800000 },
	{ "9999-12-31T23:59:59.999Z", 253402300799999 },
	{ "2023-02-29T00:00:00Z", BAD },
	{ "2100-02-29T00:00:00Z", BAD },
	{ "2026-13-01T00:00:00Z", BAD },
	{ "2026-00-01T00:00:00Z", BAD },
	{ "2026-01-00T00:00:00Z", BAD },
	{ "2026-04-31T00:00:00Z", BAD },
	{ "2026-01-01T24:00:00Z", BAD },
	{ "2026-01-01T00:60:00Z", BAD },
	{ "2026-01-01T00:00:61Z", BAD },
	{ "2026-01-01T00:00:00", BAD },
	{ "2026-01-01T00:00:00.Z", BAD },
	{ "2026-01-01T00:00:00+0100", BAD },
	{ "2026-01-01T00:00:00+24:00", BAD },
	{ "2026-01-01T00:00:00Zx", BAD },
	{ "2026-01-01", BAD },
	{ "1969-12-31T23:59:59Z", BAD },
	{ "", BAD },
	{ "now", BAD },
	{ "99999999999999999999", BAD },
};

static void check(const char *what, const struct row *rows, size_t count,
		  const char *(*parse)(const char *, uint64_t *))
{
	size_t i;

	for (i = 0; i < count; i++) {
		uint64_t got = 0x5555;
		const char *why = parse(rows[i].text, &got);

		if (rows[i].value == BAD)
			ok(why && got == 0x5555, "%s \"%s\" is refused: %s", what,
			   rows[i].text, why ? why : "no");
		else if (rows[i].value == LARGEST)
			ok(!why && got == UINT64_MAX, "%s \"%s\" is the largest", what,
			   rows[i].text);
		else
			is_number(got, rows[i].value, "%s \"%s\" is read", what, rows[i].text);
	}
}

static const char *parse_ns(const char *text, uint64_t *ns)
{
	unsigned long long value;
	const char *why = parse_duration(text, strlen(text), &value);

	if (!why)
		*ns = value;
	return why;
}

static void check_format(void)
{
	static const struct row rows[] = {
		{ "0ms", 0 }, { "1ms", 1 }, { "1s", 1000 }, { "1500ms", 1500 },
		{ "10m", 600000 }, { "90m", 5400000 }, { "7d", 604800000 },
	};
	char buf[DURATION_LEN];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++)
		is_text(format_duration(buf, rows[i].value), rows[i].text,
			"%s is written", rows[i].text);
}

static void check_base64(void)
{
	static const char *const bad[] = {
		"A", "AA", "AAA", "A===", "====", "AA=A", "AB==", "AAB=", "AA==AA==",
		"A-==", "AA\n=", "AA==A",
	};
	uint8_t data[64], back[64];
	char text[96];
	size_t len, n, i;

	for (len = 0; len < sizeof(data); len++) {
		for (i = 0; i < len; i++)
			data[i] = (uint8_t)(len * 37 + i * 101);
		format_base64(text, data, len);
		if (parse_base64(text, strlen(text), back, &n) || n != len ||
		    memcmp(data, back, len))
			break;
	}
	ok(len == sizeof(data), "base64 of 0 to 63 bytes comes back");
	format_base64(text, (const uint8_t *)"foob", 4);
	is_text(text, "Zm9vYg==", "base64 is that of RFC 4648");
	for (i = 0; i < ARRAY_SIZE(bad); i++)
		ok(parse_base64(bad[i], strlen(bad[i]), back, &n), "base64 %zu is refused", i);
	ok(!parse_base64("Zm9v", 4, NULL, &n) && n == 3, "base64 is checked without a result");
}

int main(void)
{
	check("duration", durations, ARRAY_SIZE(durations), parse_ms);
	check("duration in ns", nanoseconds, ARRAY_SIZE(nanoseconds), parse_ns);
	check("size", sizes, ARRAY_SIZE(sizes), parse_size);
	check("time", times, ARRAY_SIZE(times), parse_time);
	check_format();
	check_base64();
	return tap_end();
}
