/* SPDX-License-Identifier: GPL-2.0 */
/* What nginx includes in place of its src/event/ngx_event_timer.h: see nginx_timer.c. */
#ifndef _NGX_EVENT_TIMER_H_INCLUDED_
#define _NGX_EVENT_TIMER_H_INCLUDED_

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

#define NGX_TIMER_INFINITE	((ngx_msec_t)-1)

ngx_int_t ngx_event_timer_init(ngx_log_t *log);
ngx_msec_t ngx_event_find_timer(void);
void ngx_event_expire_timers(void);
ngx_int_t ngx_event_no_timers_left(void);
void ngx_event_add_timer(ngx_event_t *ev, ngx_msec_t timer);
void ngx_event_del_timer(ngx_event_t *ev);

#endif
