// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * Compiles twheel.c under another name, because Kbuild links the parts of the module to twheel.o,
 * so that none of the parts can have this name. The alternatives are longer: a rule of our own in
 * Kbuild, which would have to work with sparse, kunit/ and DKMS, or another name for twheel.c,
 * which user space compiles as well.
 */
#include "twheel.c"
