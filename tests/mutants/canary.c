// SPDX-License-Identifier: GPL-2.0
/*
 * Loads planted.ko with its bug "field" (tests/mutants/gate.sh canary), which gives us a page
 * with a word in it that nothing was written to, and shows that: the module was
 * built to have a pattern there, for the tests of twheel to stumble upon.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What planted_field() copies. */
struct leak {
	unsigned int one;
	unsigned int unset;
	unsigned long long two;
};

int main(void)
{
	int fd = open("/planted.ko", O_RDONLY | O_CLOEXEC);
	const struct leak *leak;
	FILE *param;
	char page[32] = "";

	if (fd < 0 || syscall(SYS_finit_module, fd, "bug=field", 0)) {
		perror("planted.ko");
		return 1;
	}
	param = fopen("/sys/module/planted/parameters/page", "re");
	if (!param || !fgets(page, sizeof(page), param)) {
		perror("no page");
		return 1;
	}
	leak = (const void *)strtoul(page, NULL, 0);
	if (leak->one != 1 || leak->two != 2) {
		fputs("another page\n", stderr);
		return 1;
	}
	printf("nothing was written to: %08x\n", leak->unset);
	return 0;
}
