// SPDX-License-Identifier: GPL-2.0
/*
 * The suites link this copy. The driver has its own object of the same file.
 */
#include "../wheel.c"
