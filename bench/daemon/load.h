/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The programs that make bench-tasks runs beside the daemon: clients, an endpoint, and two rivals.
 *
 *   load.c     main(), schedules, and the record of runs
 *   client.c   HTTP connections to a daemon
 *   put.c      puts tasks
 *   worker.c   reserves tasks and reports them
 *   sink.c     the endpoint of callbacks
 *   timerfd.c  a bare timerfd that runs at the same time
 *   slices.c   a simpler design, with a key for each minute and a poll each second
 *
 * A task is a number. Its id is that number as 16 hex digits. A schedule is a file with the
 * due time of each task in ms, one per line. A record is a file with a line for each run, which
 * contains the number of the task and the time of CLOCK_REALTIME in ns.
 */
#ifndef LOAD_H
#define LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NSEC_PER_SEC	1000000000ULL
#define NSEC_PER_MSEC	1000000ULL
#define NSEC_PER_USEC	1000ULL
#define ID_LEN		16
#define PAYLOAD_LEN	200

void die(const char *what);
uint64_t now_ns(void);
void *allocate(size_t size);

/**
 * struct schedule - when tasks are due
 * @count: number of tasks
 * @due_ms: the due time of each
 */
struct schedule {
	unsigned int count;
	uint64_t *due_ms;
};

void schedule_read(struct schedule *s, const char *path);

/**
 * payload() - a JSON string
 * @len: its length, at most PAYLOAD_LEN; each call has the same
 */
const char *payload(unsigned int len);

/**
 * struct seen - the record of runs
 * @count: number of runs
 * @tasks: number of tasks that have run
 * @want: number of tasks to wait for
 * @room: size of @run
 * @end_ns: when the program ends, which is a while after the last task, to see tasks run twice
 * @ran: which tasks have run
 */
struct seen {
	unsigned int count;
	unsigned int tasks;
	unsigned int want;
	unsigned int room;
	uint64_t end_ns;
	bool *ran;
	struct run {
		unsigned int task;
		uint64_t at_ns;
	} *run;
};

void seen_init(struct seen *s, unsigned int want);
void seen_add(struct seen *s, const char *id);
bool seen_all(const struct seen *s);
void seen_write(const struct seen *s, const char *path);

/* SIGTERM asks for the end. */
extern volatile int ended;

/* ---- HTTP ---- */

/**
 * struct conn - a connection, which has one request at a time
 * @fd: the socket
 * @out: the request
 * @out_len: its length
 * @out_done: number of bytes sent so far
 * @in: the bytes received
 * @in_len: their number
 * @in_room: size of @in
 * @got: called with the answer
 * @gone: the daemon closed it
 * @busy: a request is on its way
 * @number: private data of @got
 */
struct conn {
	int fd;
	char *out;
	size_t out_len;
	size_t out_done;
	char *in;
	size_t in_len;
	size_t in_room;
	void (*got)(struct conn *c, int status, char *body, size_t len);
	bool gone;
	bool busy;
	unsigned int number;
};

/**
 * conn_open() - connect to a Unix socket
 * @epoll: the epoll set of the loop
 */
void conn_open(struct conn *c, int epoll, const char *path);

/**
 * conn_send() - send a request
 */
void conn_send(struct conn *c, const char *method, const char *path, const char *body, size_t len);

/**
 * conns_turn() - wait for answers and take them
 * @ms: maximum time to wait
 */
void conns_turn(int epoll, int ms);

int put_main(int argc, char **argv);
int worker_main(int argc, char **argv);
int sink_main(int argc, char **argv);
int timerfd_main(int argc, char **argv);
int slices_put_main(int argc, char **argv);
int slices_work_main(int argc, char **argv);

#endif /* LOAD_H */
