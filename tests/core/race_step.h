/* SPDX-License-Identifier: GPL-2.0 */
/* Between the steps of a look, others get their turn: see race_test.c. */
struct twheel_slot;
void word_step(struct twheel_slot *slot);
#define word_step word_step
