// SPDX-License-Identifier: GPL-2.0
/*
 * PID 1 of the test machine.
 *
 * It loads the module, runs the commands, unloads the module again, and then
 * prints the verdict: PASS only if every command exited with status 0 within its
 * time limit, the module could be unloaded, and the kernel logged no problem. On a
 * debug kernel, the module must also have freed all its memory, and lockdep must
 * still be on. It reads these files in the initramfs:
 *
 *   /twheel.ko	the module
 *   /vm/commands	the commands, one shell command per line
 *   /vm/forbidden	texts that must not be in the kernel log, one per line
 *   /vm/log-ok	texts that the module may log, one per line
 *   /vm/oom-ok	programs that may make the kernel run out of memory, one per line
 *
 * and these optional words on the kernel's command line:
 *
 *   twheel.limit=SECONDS	time limit for each command, 0 for none
 *   twheel.params=A=1,B=2	parameters of the module
 *   twheel.now=SECONDS		the expected time of the clock, in seconds since 1970
 *   twheel.shell=ROWSxCOLUMNS	run a shell instead of the commands; "pipe" if its
 *				input is not a terminal but a script, whose exit
 *				status then counts
 *   twheel.emulated=1		the processor is emulated, which the shell mentions
 *   twheel.port=DEVICE		the port for our output (default: /dev/ttyS1)
 *   twheel.gcov=1		print the counts of gcov for the module
 *   maxcpus=1			the other processors are started here, not by the kernel
 *   twheel.settle=SECONDS	sleep this long before anything else
 *   twheel.slow=N		set TWHEEL_TEST_SLOW=N, so that the tests wait longer
 *   twheel.leaks=0		do not search for leaked memory
 *   twheel.hangs=N		maximum number of times that due timers may have been left to a
 *				later interrupt (default: 3, which happens by chance)
 *
 * The kernel logs to one serial port. The other one gets the output of the
 * commands and, on lines that begin with "twheel-vm:", our own reports. The last of
 * these is the verdict.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "init.h"

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

#define MODULE_FILE	"/" MODULE ".ko"
#define DEVICE		"/dev/" MODULE

/* Maximum difference between the guest's clock and the host's, in seconds. */
#define CLOCK_TOLERANCE	300

static char cmdline[4096];
static char first_failure[256];
static unsigned int failures;

/* Prints a line and flushes it, because the machine may stop at any moment. */
void say(const char *fmt, ...)
{
	va_list ap;

	printf("twheel-vm: ");
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
	fflush(stdout);
}

void fail(const char *fmt, ...)
{
	char reason[sizeof(first_failure)];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(reason, sizeof(reason), fmt, ap);
	va_end(ap);
	say("fail: %s", reason);
	if (!failures++)
		memcpy(first_failure, reason, sizeof(reason));
}

/* Returns the value of @name on the kernel's command line, or NULL. It is never freed. */
static char *option(const char *name)
{
	size_t len = strlen(name);
	const char *p = cmdline;

	while ((p = strstr(p, name))) {
		if ((p == cmdline || p[-1] == ' ') && p[len] == '=') {
			p += len + 1;
			return strndup(p, strcspn(p, "\n "));
		}
		p += len;
	}
	return NULL;
}

long long number_option(const char *name, long long otherwise)
{
	const char *value = option(name);

	return value ? atoll(value) : otherwise;
}

static void mount_all(void)
{
	static const struct {
		const char *type;
		const char *dir;
	} mounts[] = {
		{ "proc", "/proc" },
		{ "sysfs", "/sys" },
		{ "devtmpfs", "/dev" },
		{ "tmpfs", "/tmp" },
		{ "debugfs", "/sys/kernel/debug" },
		{ "tracefs", "/sys/kernel/tracing" },
		{ "cgroup2", "/sys/fs/cgroup" },
		{ "devpts", "/dev/pts" },
		{ "tmpfs", "/dev/shm" },
	};
	size_t i;

	/* A kernel may lack some of these. A test that needs one fails with a message. */
	for (i = 0; i < ARRAY_SIZE(mounts); i++) {
		mkdir(mounts[i].dir, 0755);
		mount(mounts[i].type, mounts[i].dir, mounts[i].type, 0, NULL);
	}
	chmod("/tmp", 01777);
	chmod("/dev/shm", 01777);
}

/* Makes our port stdin, stdout and stderr, in raw mode unless a shell uses it. */
static void open_port(const char *shell)
{
	const char *port = option("twheel.port");
	int fd = open(port ? port : "/dev/ttyS1", O_RDWR | O_NOCTTY);
	struct termios t;

	if (fd < 0)
		return;
	if (!tcgetattr(fd, &t)) {
		if (shell)
			t.c_oflag |= OPOST | ONLCR;
		else
			cfmakeraw(&t);
		/* A script is not echoed. */
		if (shell && !strcmp(shell, "pipe"))
			t.c_lflag &= ~ECHO;
		cfsetspeed(&t, B115200);
		tcsetattr(fd, TCSANOW, &t);
	}
	dup2(fd, STDIN_FILENO);
	dup2(fd, STDOUT_FILENO);
	dup2(fd, STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
}

static void loopback_up(void)
{
	struct ifreq ifr = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	if (!ioctl(fd, SIOCGIFFLAGS, &ifr)) {
		ifr.ifr_flags |= IFF_UP;
		ioctl(fd, SIOCSIFFLAGS, &ifr);
	}
	close(fd);
}

/* Some tests open many descriptors. */
static void raise_limits(void)
{
	struct rlimit nofile = { 65536, 65536 };

	setrlimit(RLIMIT_NOFILE, &nofile);
}

/*
 * If the clock counts instructions, QEMU 7.2 runs another processor only while this one pauses or
 * sleeps. A kernel before 6.5 waits for a starting processor in a loop that does neither, so a
 * child executes pause instructions meanwhile.
 */
static void start_processors(void)
{
	char path[64];
	pid_t pause;
	int cpu, fd;

	pause = fork();
	if (!pause) {
		for (;;)
#if defined(__x86_64__)
			__builtin_ia32_pause();
#elif defined(__aarch64__)
			__asm__ volatile("yield");
#else
			sched_yield();
#endif
	}
	for (cpu = 1;; cpu++) {
		snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
		fd = open(path, O_WRONLY | O_CLOEXEC);
		if (fd < 0)
			break;
		if (write(fd, "1", 1) < 0)
			fail("cannot start processor %d: %s", cpu, strerror(errno));
		close(fd);
	}
	if (pause > 0) {
		kill(pause, SIGKILL);
		waitpid(pause, NULL, 0);
	}
}

/* Tells KCSAN to ignore races of the kernel whose stack may contain our module. */
static void forgive_races(void)
{
	/*
	 * A poller reads the flag of its wait queue without a lock, and a work item may be
	 * queued while its state is read.
	 */
	static const char *const known[] = { "!pollwake", "!queue_work_on" };
	size_t i;
	int fd;

	for (i = 0; i < ARRAY_SIZE(known); i++) {
		fd = open("/sys/kernel/debug/kcsan", O_WRONLY | O_CLOEXEC);
		if (fd < 0)
			return;
		if (write(fd, known[i], strlen(known[i])) < 0)
			fail("KCSAN knows no %s: %s", known[i] + 1, strerror(errno));
		close(fd);
	}
}

/* Returns true if the module has been loaded. */
static bool load_module(void)
{
	int fd = open(MODULE_FILE, O_RDONLY | O_CLOEXEC);
	char *params = option("twheel.params");
	char *p = params;
	bool loaded;

	while (p && (p = strchr(p, ',')))
		*p = ' ';
	loaded = fd >= 0 && !syscall(SYS_finit_module, fd, params ? params : "", 0);
	if (!loaded)
		fail("cannot load the module: %s", strerror(errno));
	else if (access(DEVICE, F_OK))
		fail("the module did not create %s", DEVICE);
	if (fd >= 0)
		close(fd);
	return loaded;
}

static bool is_loaded(void)
{
	return !access("/sys/module/" MODULE, F_OK);
}

static void unload_module(void)
{
	if (syscall(SYS_delete_module, MODULE, O_NONBLOCK))
		fail("cannot unload the module: %s", strerror(errno));
	else if (!access(DEVICE, F_OK))
		fail("the module left %s behind", DEVICE);
}

/*
 * Waits for @child for at most @limit seconds, or without a limit if that is 0, and reaps orphans
 * meanwhile. Returns false if the time is over.
 */
static bool wait_for(pid_t child, int *status, long limit)
{
	struct timespec end, now, left;
	sigset_t chld;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += limit;

	for (;;) {
		pid_t pid;

		while ((pid = waitpid(-1, status, WNOHANG)) > 0)
			if (pid == child)
				return true;
		clock_gettime(CLOCK_MONOTONIC, &now);
		if (limit && now.tv_sec >= end.tv_sec)
			return false;
		/* Look once a second, because tests may set the clock or freeze processes. */
		left = (struct timespec){ .tv_sec = 1 };
		sigtimedwait(&chld, NULL, &left);
	}
}

static void kill_all(void)
{
	int tries;

	/* If a process hangs in the kernel for good, the module cannot be unloaded. */
	for (tries = 0; tries < 100; tries++) {
		kill(-1, SIGKILL);
		while (waitpid(-1, NULL, WNOHANG) > 0)
			;
		if (waitpid(-1, NULL, WNOHANG) < 0)
			return;
		usleep(20000);
	}
}

static pid_t start(char *const argv[], bool interactive)
{
	pid_t pid = fork();
	sigset_t none;

	if (pid)
		return pid;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	if (interactive) {
		ioctl(STDIN_FILENO, TIOCSCTTY, 1);
	} else {
		int null = open("/dev/null", O_RDONLY);

		dup2(null, STDIN_FILENO);
		close(null);
	}
	execv(argv[0], argv);
	_exit(127);
}

/* Reports how @command has ended. */
static void judge(int status, const char *command)
{
	if (WIFSIGNALED(status)) {
		fail("signal %d: %s", WTERMSIG(status), command);
		say("exit: signal %d", WTERMSIG(status));
	} else {
		if (WEXITSTATUS(status))
			fail("status %d: %s", WEXITSTATUS(status), command);
		say("exit: %d", WEXITSTATUS(status));
	}
}

static void run(char *command, long limit)
{
	char *argv[] = { "/bin/sh", "-c", command, NULL };
	int status;
	pid_t pid;

	say("run: %s", command);
	pid = start(argv, false);
	if (pid < 0) {
		fail("cannot fork: %s", strerror(errno));
		return;
	}
	if (!wait_for(pid, &status, limit)) {
		fail("more than %ld s: %s", limit, command);
		kill_all();
		say("exit: timeout");
		return;
	}
	judge(status, command);
}

/* Runs the commands of /vm/commands, each with this time limit. */
static void run_all(long limit)
{
	FILE *list = fopen("/vm/commands", "re");
	char *line = NULL;
	size_t size = 0;
	ssize_t len;

	if (!list) {
		fail("cannot read /vm/commands: %s", strerror(errno));
		return;
	}
	while ((len = getline(&line, &size, list)) > 0) {
		if (line[len - 1] == '\n')
			line[len - 1] = '\0';
		run(line, limit);
	}
	free(line);
	fclose(list);
}

static void run_shell(const char *window)
{
	char *argv[] = { "/bin/sh", "-i", NULL };
	struct winsize size = { 0 };
	bool pipe = !strcmp(window, "pipe");
	int status;

	/* Without -i, the shell prints no prompts and asks the terminal nothing. */
	if (pipe)
		argv[1] = "/proc/self/fd/0";

	if (sscanf(window, "%hux%hu", &size.ws_row, &size.ws_col) == 2)
		ioctl(STDIN_FILENO, TIOCSWINSZ, &size);
	if (access(DEVICE, F_OK))
		puts("This machine has no " DEVICE ": see dmesg for the reason.");
	else
		puts("This machine has " DEVICE ". Try: twheelctl info\n"
		     "You can also run the examples (oneshot, dead_man, idle_server ...), and\n"
		     "static programs that you have put into build/user.");
	if (option("twheel.emulated"))
		puts("The processor is emulated: lateness here says nothing about a real machine.");
	if (!pipe)
		puts("Type exit to shut down; Ctrl-A X switches the machine off at once.");
	fflush(stdout);
	wait_for(start(argv, true), &status, 0);
	/* The end of the session has hung up our descriptors of the port. */
	open_port(window);
	/*
	 * The exit status of an interactive shell is that of its last command, which does not
	 * count.
	 */
	if (pipe)
		judge(status, "the script on stdin");
}

/* Prints the counters of the module, which exist even after it was unloaded, in base64. */
static void show_gcov(void)
{
	char script[] =
		"cd /sys/kernel/debug/gcov;"
		"for f in $(find -name '*.gcda' -path '*/" MODULE "*');"
		"do echo twheel-vm: gcov: $f; base64 $f; done;"
		"echo twheel-vm: counted";
	char *argv[] = { "/bin/sh", "-c", script, NULL };
	int status;

	wait_for(start(argv, false), &status, 0);
}

static void check_clock(void)
{
	long long host = number_option("twheel.now", 0);
	long long here = time(NULL);
	struct timespec step;

	/* A kernel that does not trust its hardware uses a periodic tick instead. */
	clock_getres(CLOCK_MONOTONIC, &step);
	if (step.tv_sec || step.tv_nsec != 1)
		fail("the kernel has no high-resolution timers");
	if (host && llabs(here - host) > CLOCK_TOLERANCE)
		fail("the clock is %lld s off", here - host);
}

int main(void)
{
	struct utsname name;
	const char *shell;
	sigset_t all;
	int kmsg, fd;
	bool loaded;

	mount_all();
	fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		if (read(fd, cmdline, sizeof(cmdline) - 1) < 0)
			fail("cannot read the command line: %s", strerror(errno));
		close(fd);
	}
	shell = option("twheel.shell");
	open_port(shell);

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setenv("PATH", "/bin:/sbin", 1);
	setenv("HOME", "/", 1);
	setenv("TMPDIR", "/tmp", 1);
	if (option("twheel.slow"))
		setenv("TWHEEL_TEST_SLOW", option("twheel.slow"), 1);
	raise_limits();
	loopback_up();
	forgive_races();
	if (option("maxcpus"))
		start_processors();

	kmsg = open_log();

	uname(&name);
	say("kernel: %s", name.release);
	check_clock();
	if (number_option("twheel.settle", 0))
		sleep(number_option("twheel.settle", 0));
	loaded = load_module();
	if (shell)
		run_shell(shell);
	else
		run_all(number_option("twheel.limit", 0));
	kill_all();
	scan_for_leaks();
	/* A person in the shell may have unloaded it. A test must load it again. */
	if (shell)
		loaded = is_loaded();
	if (loaded) {
		unload_module();
		scan_for_leaks();
	}
	check_lockdep();
	if (option("twheel.gcov"))
		show_gcov();
	scan_log(kmsg);

	if (failures)
		say("verdict: FAIL: %s%s", first_failure,
		    failures > 1 ? ", and more" : "");
	else
		say("verdict: PASS");
	tcdrain(STDOUT_FILENO);
	reboot(RB_POWER_OFF);
	return 0;
}
