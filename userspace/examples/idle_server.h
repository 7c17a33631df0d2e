/* SPDX-License-Identifier: GPL-2.0 */
/* What the server of the demo and its clients share. */
#ifndef IDLE_SERVER_H
#define IDLE_SERVER_H

#include <linux/types.h>

#define NSEC_PER_MSEC	1000000ULL
#define NSEC_PER_SEC	1000000000ULL

/* Heartbeats of a client within a timeout. */
#define BEATS		4

/* idle_server.c */
void die(const char *what);
__u64 now_ns(void);
const char *msec_text(char buf[24], __u64 ns);

/* idle_clients.c */
unsigned int silent_of(unsigned int clients);
int run_clients(unsigned int count, __u64 timeout, unsigned int port, int end);

#endif /* IDLE_SERVER_H */
