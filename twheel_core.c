// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * twheel.c under another name. Kbuild links the parts of the module to twheel.o, so none of them
 * can be an object of that name. The other ways are longer: a rule of our own in Kbuild, which
 * sparse, kunit/ and DKMS have to follow, or another name for twheel.c, which user space compiles
 * as it is, too.
 */
#include "twheel.c"
