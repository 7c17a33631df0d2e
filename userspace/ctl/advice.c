// SPDX-License-Identifier: GPL-2.0
/*
 * Why the kernel's wheel cannot be had, and what to do about it: for errors, and for doctor.
 */
#define _GNU_SOURCE
#include <glob.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common.h"

#define SECURE_BOOT	"/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

/* Does the module's file belong to the modules of the running kernel? */
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

/* Is its source where DKMS takes it from? */
static bool source_is_installed(void)
{
	glob_t found;
	bool is = !glob("/usr/src/twheel-*/dkms.conf", 0, NULL, &found);

	globfree(&found);
	return is;
}

/* Does the firmware let only signed modules in? */
static bool secure_boot(void)
{
	FILE *f = fopen(SECURE_BOOT, "re");
	/* Four bytes of attributes, then the value. */
	unsigned char bytes[5] = { 0 };
	bool is = f && fread(bytes, sizeof(bytes), 1, f) == 1 && bytes[4] == 1;

	if (f)
		fclose(f);
	return is;
}

bool module_is_loaded(void)
{
	return !access("/sys/module/twheel", F_OK);
}

/* The version of the module that is loaded, or "unknown". */
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

/* What runs this process in a container, or NULL. */
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

/* What to do if the module is not loaded. */
void advise_load(char buf[ADVICE_LEN])
{
	struct utsname uts;

	uname(&uts);
	if (container())
		snprintf(buf, ADVICE_LEN,
			 "the host loads the module: modprobe twheel; then give the container --device="
			 DEVICE);
	else if (module_is_installed(uts.release))
		snprintf(buf, ADVICE_LEN, "the module is not loaded: modprobe twheel%s",
			 secure_boot() ? "; Secure Boot asks for an enrolled key" : "");
	else if (source_is_installed())
		snprintf(buf, ADVICE_LEN,
			 "the module is not built for Linux %.65s: install its headers, then dkms autoinstall and modprobe twheel",
			 uts.release);
	else
		snprintf(buf, ADVICE_LEN,
			 "the module is not installed: in the source of twheel, make load; or make dkms-install, then modprobe twheel");
}

/* What to do if there is no @path. */
void advise_absent(char buf[ADVICE_LEN], const char *path)
{
	if (strcmp(path, DEVICE))
		snprintf(buf, ADVICE_LEN, "without --device it is " DEVICE);
	else if (!module_is_loaded())
		advise_load(buf);
	else if (container())
		snprintf(buf, ADVICE_LEN,
			 "the module is loaded: a container needs --device=" DEVICE);
	else
		snprintf(buf, ADVICE_LEN,
			 "the module is loaded, but %s is not its device; see the minor in /proc/misc",
			 path);
}

/* What to do if @path may not be opened. */
void advise_permission(char buf[ADVICE_LEN], const char *path)
{
	const char *group = NULL;
	struct group *entry;
	struct stat st;
	FILE *f;

	if (stat(path, &st)) {
		snprintf(buf, ADVICE_LEN, "its directory may not be searched");
		return;
	}
	if (!access(path, R_OK | W_OK)) {
		snprintf(buf, ADVICE_LEN,
			 "not by its mode, which allows it: a container needs --device=%.100s",
			 path);
		return;
	}
	/* Not getgrgid(), which a static program cannot have. */
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
