/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * Adds a prefix to the functions of the module's sources, from which the in-process wheel is
 * built. In the static library, they could otherwise clash with functions of the program.
 */
#define wheel_max_levels	twheel__wheel_max_levels
#define wheel_bytes		twheel__wheel_bytes
#define wheel_horizon		twheel__wheel_horizon
#define wheel_init		twheel__wheel_init
#define wheel_del		twheel__wheel_del
#define wheel_next		twheel__wheel_next
#define wheel_set_time		twheel__wheel_set_time
#define wheel_add		twheel__wheel_add
#define wheel_expire		twheel__wheel_expire
#define store_timer		twheel__store_timer
#define store_word		twheel__store_word
#define store_user_data		twheel__store_user_data
#define store_marks		twheel__store_marks
#define store_at		twheel__store_at
#define store_find		twheel__store_find
#define store_prefetch		twheel__store_prefetch
#define store_fetch		twheel__store_fetch
#define store_peek		twheel__store_peek
#define store_get		twheel__store_get
#define store_put		twheel__store_put
#define timer_end		twheel__timer_end
#define timer_successor		twheel__timer_successor
#define timer_to_idle		twheel__timer_to_idle
#define timer_comes_at_once	twheel__timer_comes_at_once
#define timer_periods		twheel__timer_periods
#define timer_count_unseen	twheel__timer_count_unseen
#define reconcile		twheel__reconcile
#define timers_begin_kick	twheel__timers_begin_kick
#define timers_take_marks	twheel__timers_take_marks
#define timers_begin		twheel__timers_begin
#define timers_check_setup	twheel__timers_check_setup
#define timers_info		twheel__timers_info
#define timers_map		twheel__timers_map
#define timers_turn		twheel__timers_turn
#define timers_next		twheel__timers_next
#define timers_publish_next	twheel__timers_publish_next
#define timers_prefetch		twheel__timers_prefetch
#define timers_answer		twheel__timers_answer
#define timers_commit		twheel__timers_commit
#define timers_list		twheel__timers_list
#define timers_stats		twheel__timers_stats
#define timers_peek		twheel__timers_peek
#define timers_consume		twheel__timers_consume
