/* SPDX-License-Identifier: GPL-2.0 */
/* Lets other threads run between the steps of a look: see race_test.c. */
struct twheel_slot;
void word_step(struct twheel_slot *slot);
#define word_step word_step
