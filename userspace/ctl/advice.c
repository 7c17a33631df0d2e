// SPDX-License-Identifier: GPL-2.0
/*
 * Explains why the kernel's wheel cannot be used, and what to do. Error messages and doctor print
 * this.
 */
#define _GNU_SOURCE
#include <glob.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "advice.h"
#include "verb.h"

#define SECURE_BOOT	"/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

/* True if the modules of the running kernel include this one. */
static bool module_is_installed(const char *release)
{
	bool found = false;
	char path[256];
	char line[4096];
	FILE *f;

	snprintf(path, sizeof(path), "/lib/modules/%s/modules.dep", release);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':');
		char *name;

		if (!colon)
			continue;
		*colon = '\0';
		name = strrchr(line, '/');
		name = name ? name + 1 : line;
		found = !strncmp(name, "twheel.ko", strlen("twheel.ko"));
	}
	fclose(f);
	return found;
}

/* True if DKMS has the module's source. */
static bool source_is_installed(void)
{
	glob_t found;
	bool is = !glob("/usr/src/twheel-*/dkms.conf", 0, NULL, &found);

	globfree(&found);
	return is;
}

/* True if Secure Boot is on, so that the kernel only accepts signed modules. */
static bool secure_boot(void)
{
	FILE *f = fopen(SECURE_BOOT, "re");
	/* The value comes after four bytes of attributes. */
	unsigned char bytes[5] = { 0 };
	bool is = f && fread(bytes, sizeof(bytes), 1, f) == 1 && bytes[4] == 1;

	if (f)
		fclose(f);
	return is;
}

/* The minor number of the module's device, or -1. */
int module_minor(void)
{
	FILE *f = fopen("/proc/misc", "re");
	char line[128], name[64];
	int minor = -1, n;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "%d %63s", &n, name) == 2 && !strcmp(name, "twheel"))
			minor = n;
	if (f)
		fclose(f);
	return minor;
}

/* There may be no /sys or /proc in a chroot or a container. */
bool module_is_loaded(void)
{
	return !access("/sys/module/twheel", F_OK) || module_minor() >= 0;
}

/* Returns the version of the loaded module, or "unknown". */
const char *module_version(char *buf, size_t size)
{
	FILE *f = fopen("/sys/module/twheel/version", "re");

	if (!f || !fgets(buf, size, f))
		snprintf(buf, size, "unknown");
	if (f)
		fclose(f);
	buf[strcspn(buf, "\n")] = '\0';
	return buf;
}

/* Returns the name of the container manager, or NULL outside of containers. */
const char *container(void)
{
	static const struct {
		const char *path;
		const char *name;
	} marks[] = {
		{ "/.dockerenv", "Docker" },
		{ "/run/.containerenv", "Podman" },
		{ "/run/systemd/container", "a container" },
	};
	const char *name = getenv("container");
	size_t i;

	for (i = 0; i < ARRAY_SIZE(marks); i++)
		if (!access(marks[i].path, F_OK))
			return marks[i].name;
	return name && *name ? "a container" : NULL;
}

/* Writes what to do if the module is not loaded. */
void advise_load(char buf[ADVICE_LEN])
{
	struct utsname uts;

	uname(&uts);
	if (container())
		snprintf(buf, ADVICE_LEN,
			 "load the module on the host (see doc/install.md), then start the container with --device="
			 DEVICE);
	else if (module_is_installed(uts.release))
		snprintf(buf, ADVICE_LEN, "the module is not loaded: modprobe twheel%s",
			 !secure_boot() ? "" :
			 "; Secure Boot only loads modules that an enrolled key has signed: see doc/install.md");
	else if (source_is_installed())
		snprintf(buf, ADVICE_LEN,
			 "the module is not built for Linux %.65s: install the headers of this kernel, then run dkms autoinstall and modprobe twheel",
			 uts.release);
	else
		snprintf(buf, ADVICE_LEN,
			 "the module is not installed: in the source of twheel, run \"make load\", or \"make dkms-install\" and then \"modprobe twheel\"");
}

/* Writes what to do if @path does not exist. */
void advise_absent(char buf[ADVICE_LEN], const char *path)
{
	if (strcmp(path, DEVICE))
		snprintf(buf, ADVICE_LEN, "omit --device to use " DEVICE);
	else if (!module_is_loaded())
		advise_load(buf);
	else if (container())
		snprintf(buf, ADVICE_LEN,
			 "the module is loaded: start the container with --device=" DEVICE);
	else
		snprintf(buf, ADVICE_LEN,
			 "the module is loaded, but " DEVICE " is not its device: remove "
			 DEVICE ", then either load the module again, or create the node with the minor number in /proc/misc");
}

/* Writes what to do if the user has too many wheels. */
void advise_limit(char buf[ADVICE_LEN])
{
	snprintf(buf, ADVICE_LEN,
		 "this user has reached max_wheels_per_user or max_bytes_per_user: close a wheel, or raise this parameter of the module");
}

/* Writes what to do if the process may not open @path. */
void advise_permission(char buf[ADVICE_LEN], const char *path)
{
	const char *group = NULL;
	struct group *entry;
	struct stat st;
	FILE *f;

	if (stat(path, &st)) {
		snprintf(buf, ADVICE_LEN, "you need search permission (x) for the directory of %.100s",
			 path);
		return;
	}
	if (!access(path, R_OK | W_OK)) {
		snprintf(buf, ADVICE_LEN,
			 "the mode of this file is fine: if this is a container, start it with --device=%.100s",
			 path);
		return;
	}
	/* A static program cannot use getgrgid(). */
	f = fopen("/etc/group", "re");
	while (f && !group && (entry = fgetgrent(f)))
		if (entry->gr_gid == st.st_gid)
			group = entry->gr_name;
	if ((st.st_mode & 0060) == 0060 && st.st_gid && group)
		snprintf(buf, ADVICE_LEN,
			 "join the group that may use it: usermod -aG %.100s USER, and log in again",
			 group);
	else
		snprintf(buf, ADVICE_LEN,
			 "its mode is %04o: become root, or have a udev rule give it to a group",
			 st.st_mode & 07777);
	if (f)
		fclose(f);
}
