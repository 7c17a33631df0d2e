/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* User space has no tracepoints. */
#include "twheel_notrace.h"
