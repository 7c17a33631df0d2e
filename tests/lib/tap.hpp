// SPDX-License-Identifier: GPL-2.0
// TAP for a C++ test: one line for each check, and the plan at the end.
#ifndef TAP_HPP
#define TAP_HPP

#include <cstdio>

static unsigned int number;
static bool failed;

static void check(bool good, const char *what)
{
	std::printf("%sok %u %s\n", good ? "" : "not ", ++number, what);
	failed |= !good;
}

// Prints the plan. Returns the exit status.
static int done_testing()
{
	std::printf("1..%u\n", number);
	return failed;
}

#endif
