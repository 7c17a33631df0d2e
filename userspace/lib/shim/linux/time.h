/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* The numbers of the clocks. */
#include <time.h>
