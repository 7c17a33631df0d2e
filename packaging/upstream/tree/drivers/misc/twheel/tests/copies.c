// SPDX-License-Identifier: GPL-2.0
/*
 * What the suites are linked with. The device has objects of its own of these.
 */
#include "../wheel.c"
#include "../quota.c"
#include "../store.c"
