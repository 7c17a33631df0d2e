// SPDX-License-Identifier: GPL-2.0
/*
 * Runs the suites in kunit/ in user space, and prints KTAP like the kernel.
 *
 * Parameters are passed as with insmod: core_test seed=42 ops=10000000
 */
#include <kunit/test.h>
#include <linux/module.h>
#include <linux/random.h>

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct shim_memory {
	struct shim_memory *next;
	u64 bytes[];
};

static struct kunit_suite *suites;
static struct shim_param *params;

/* Suites run in the order of the objects on the linker's command line. */
void shim_add_suite(struct kunit_suite *suite)
{
	struct kunit_suite **last = &suites;

	while (*last)
		last = &(*last)->next;
	*last = suite;
}

void shim_add_param(struct shim_param *param)
{
	param->next = params;
	params = param;
}

u32 get_random_u32(void)
{
	u32 value;

	if (getrandom(&value, sizeof(value), 0) != sizeof(value))
		abort();
	return value;
}

void *kunit_kzalloc(struct kunit *test, size_t size, int gfp)
{
	struct shim_memory *memory = calloc(1, sizeof(*memory) + size);

	(void)gfp;
	if (!memory)
		return NULL;
	memory->next = test->memory;
	test->memory = memory;
	return memory->bytes;
}

static void free_all(struct kunit *test)
{
	while (test->memory) {
		struct shim_memory *memory = test->memory;

		test->memory = memory->next;
		free(memory);
	}
}

void kunit_info(struct kunit *test, const char *fmt, ...)
{
	va_list args;

	printf("    # %s: ", test->name);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
}

void shim_fail(struct kunit *test, const struct shim_check *check, const char *fmt, ...)
{
	va_list args;

	test->status = KUNIT_FAILURE;
	printf("    # %s: %s FAILED at %s:%d\n", test->name,
	       check->fatal ? "ASSERTION" : "EXPECTATION", check->file, check->line);
	printf("    #   %s, but %#llx and %#llx\n    #   ", check->text,
	       check->left, check->right);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	if (check->fatal)
		longjmp(test->aborted, 1);
}

/* Runs a case once. Returns true if it passed. */
static bool run_once(const struct kunit_case *c, const void *param)
{
	struct kunit test = {
		.name = c->name,
		.param_value = param,
	};

	if (!setjmp(test.aborted))
		c->run_case(&test);
	free_all(&test);
	return test.status == KUNIT_SUCCESS;
}

static const char *verdict(bool ok)
{
	return ok ? "ok" : "not ok";
}

static bool run_rows(const struct kunit_case *c)
{
	char desc[KUNIT_PARAM_DESC_SIZE] = "";
	const void *param = NULL;
	unsigned int nr = 0;
	bool passed = true;

	printf("        KTAP version 1\n        # Subtest: %s\n", c->name);
	while ((param = c->generate_params(param, desc))) {
		bool ok = run_once(c, param);

		printf("        %s %u %s\n", verdict(ok), ++nr, desc);
		passed &= ok;
	}
	return passed;
}

static bool run_suite(const struct kunit_suite *suite)
{
	const struct kunit_case *c;
	unsigned int nr = 0;
	bool passed = true;

	for (c = suite->test_cases; c->run_case; c++)
		nr++;
	printf("    KTAP version 1\n    # Subtest: %s\n    1..%u\n", suite->name, nr);

	nr = 0;
	for (c = suite->test_cases; c->run_case; c++) {
		bool ok = c->generate_params ? run_rows(c) : run_once(c, NULL);

		printf("    %s %u %s\n", verdict(ok), ++nr, c->name);
		passed &= ok;
	}
	return passed;
}

static bool set_param(const char *arg)
{
	size_t len = strcspn(arg, "=");
	struct shim_param *param;
	char *end;

	for (param = params; param; param = param->next) {
		if (strlen(param->name) != len || strncmp(arg, param->name, len))
			continue;
		if (!arg[len] || !arg[len + 1])
			return false;
		*param->value = strtoul(arg + len + 1, &end, 0);
		return !*end;
	}
	return false;
}

int main(int argc, char **argv)
{
	const struct kunit_suite *suite;
	unsigned int nr = 0;
	bool passed = true;
	int i;

	for (i = 1; i < argc; i++) {
		if (!set_param(argv[i])) {
			const struct shim_param *param;

			fprintf(stderr, "usage: %s", argv[0]);
			for (param = params; param; param = param->next)
				fprintf(stderr, " [%s=NUMBER]", param->name);
			fprintf(stderr, "\n");
			return 2;
		}
	}

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (suite = suites; suite; suite = suite->next)
		nr++;
	printf("KTAP version 1\n1..%u\n", nr);

	nr = 0;
	for (suite = suites; suite; suite = suite->next) {
		bool ok = run_suite(suite);

		printf("%s %u %s\n", verdict(ok), ++nr, suite->name);
		passed &= ok;
	}
	return !passed || !nr;
}
