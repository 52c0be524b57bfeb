// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "containers/cgroup_mounts.h"

#define MOST_MOUNTS 64 /* far more than there are controllers; bind mounts in containers repeat them */

/* mountinfo writes blank, tab, newline and backslash as three octal digits. */
static void unescape(char *text)
{
	char *to = text;

	for (; *text; text++) {
		if (text[0] == '\\' && text[1] >= '0' && text[1] <= '3' && text[2] >= '0' && text[2] <= '7' &&
		    text[3] >= '0' && text[3] <= '7') {
			*to++ = (text[1] - '0') << 6 | (text[2] - '0') << 3 | (text[3] - '0');
			text += 3;
		} else {
			*to++ = *text;
		}
	}
	*to = 0;
}

/* Words of a v1 mount's options that are no controllers. */
static bool is_option(const char *word, size_t length)
{
	static const char *const options[] = {
		"rw",   "ro",  "xattr",    "noprefix",    "clone_children", "cpuset_v2_mode",
		"none", "all", "seclabel", "favordynmods"};

	if (memchr(word, '=', length)) /* name=systemd, release_agent=... */
		return true;
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (strlen(options[i]) == length && !strncmp(word, options[i], length))
			return true;
	return false;
}

static void take_controllers(struct cgroup_mount *mount, const char *options)
{
	size_t used = 0;

	while (*options) {
		size_t length = strcspn(options, ",");

		if (length && !is_option(options, length) && used + length + 2 <= sizeof(mount->controllers)) {
			if (!used)
				snprintf(mount->controller, sizeof(mount->controller), "%.*s", (int)length, options);
			used += snprintf(mount->controllers + used, sizeof(mount->controllers) - used, "%s%.*s",
					 used ? "," : "", (int)length, options);
		}
		options += length + (options[length] == ',');
	}
}

/* id parent major:minor root directory options optional... - type source super-options */
static bool parse_line(char *line, struct cgroup_mount *mount)
{
	char *dash = strstr(line, " - "), *directory = line, *type, *source, *options, *save;

	*mount = (struct cgroup_mount){};
	if (!dash)
		return false;
	*dash = 0;
	type = strtok_r(dash + 3, " \n", &save);
	source = strtok_r(NULL, " \n", &save);
	options = strtok_r(NULL, " \n", &save);
	if (!type || !source || !options || (strcmp(type, "cgroup") && strcmp(type, "cgroup2")))
		return false;
	mount->v2 = !strcmp(type, "cgroup2");
	for (int field = 0; field < 4; field++) {
		directory = strchr(directory, ' ');
		if (!directory)
			return false;
		directory++;
	}
	directory[strcspn(directory, " ")] = 0;
	unescape(directory);
	if (*directory != '/' || strlen(directory) >= sizeof(mount->directory))
		return false;
	strcpy(mount->directory, directory);
	if (!mount->v2)
		take_controllers(mount, options);
	return true;
}

int cgroup_mounts_parse(struct cgroup_mounts *out, FILE *mountinfo)
{
	struct cgroup_mount mount;
	char *line = NULL;
	size_t size = 0, v2 = 0;

	*out = (struct cgroup_mounts){.mounts = calloc(MOST_MOUNTS, sizeof(*out->mounts))};
	if (!out->mounts)
		return -ENOMEM;
	while (out->count < MOST_MOUNTS && getline(&line, &size, mountinfo) > 0) {
		size_t at = out->count;

		if (!parse_line(line, &mount))
			continue;
		if (mount.v2) {
			at = v2++;
			memmove(&out->mounts[at + 1], &out->mounts[at], (out->count - at) * sizeof(mount));
		}
		out->mounts[at] = mount;
		out->count++;
	}
	free(line);
	return 0;
}

int cgroup_mounts_read(struct cgroup_mounts *out)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	int err;

	*out = (struct cgroup_mounts){};
	if (!file)
		return -errno;
	err = cgroup_mounts_parse(out, file);
	fclose(file);
	return err;
}

void cgroup_mounts_free(struct cgroup_mounts *mounts)
{
	free(mounts->mounts);
	*mounts = (struct cgroup_mounts){};
}
