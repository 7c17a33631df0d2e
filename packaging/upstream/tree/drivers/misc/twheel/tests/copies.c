// SPDX-License-Identifier: GPL-2.0
/*
 * The suites link these copies. The driver has its own objects of the same files.
 */
#include "../wheel.c"
#include "../quota.c"
#include "../store.c"
