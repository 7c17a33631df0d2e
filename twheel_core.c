// SPDX-License-Identifier: GPL-2.0 OR MIT
/* A module cannot have the name of one of its own parts, so twheel.c is compiled as this. */
#include "twheel.c"
