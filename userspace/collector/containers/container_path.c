// SPDX-License-Identifier: GPL-2.0-or-later
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "containers/container_path.h"

/* What stands before an id in a component; the longest first where one begins as another. */
static const struct {
	const char *before;
	const char *runtime; /* NULL: not a container, though it has an id */
} prefixes[] = {
	{"docker-", "docker"},      {"cri-containerd-", "containerd"}, {"cri-containerd:", "containerd"},
	{"nerdctl-", "containerd"}, {"containerd-", "containerd"},     {"crio-conmon-", NULL},
	{"crio-", "cri-o"},         {"libpod-conmon-", NULL},          {"libpod-payload-", "podman"},
	{"libpod-", "podman"},
};

#define PREFIXES (sizeof(prefixes) / sizeof(prefixes[0]))

bool is_container_id(const char *text, size_t length)
{
	if (length != CONTAINER_ID)
		return false;
	for (size_t i = 0; i < length; i++)
		if (!isdigit((unsigned char)text[i]) && (text[i] < 'a' || text[i] > 'f'))
			return false;
	return true;
}

static bool ends_with(const char *text, const char *end)
{
	size_t length = strlen(text), want = strlen(end);

	return length > want && !strcmp(text + length - want, end);
}

static void put(char *out, size_t size, const char *text, size_t length)
{
	if (length >= size)
		length = size - 1;
	memcpy(out, text, length);
	out[length] = 0;
}

/* systemd writes '-' and bytes that a unit's name cannot have as \xNN. */
static void unescape(char *text)
{
	char *to = text;
	unsigned int byte;

	for (const char *from = text; *from; to++) {
		if (from[0] == '\\' && from[1] == 'x' && isxdigit((unsigned char)from[2]) &&
		    isxdigit((unsigned char)from[3]) && sscanf(from + 2, "%2x", &byte) == 1 && byte) {
			*to = byte;
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = 0;
}

/* A container begins here: what was found outside of it says nothing about it. */
static void begin_container(struct container *out, const char *runtime)
{
	snprintf(out->runtime, sizeof(out->runtime), "%s", runtime);
	out->id[0] = out->name[0] = 0;
}

/* "pod1234-...", also as "kubepods-burstable-pod1234_....slice": '-' is a level of slices there. */
static void take_pod(struct container *out, const char *component)
{
	const char *uid = NULL;
	size_t length;

	if (!strncmp(component, "pod", 3))
		uid = component + 3;
	else if (!strncmp(component, "kubepods-", 9) && strstr(component, "-pod"))
		uid = strstr(component, "-pod") + 4;
	if (!uid)
		return;
	length = strspn(uid, "0123456789abcdef-_");
	if (length < 32 || length > 36 || (uid[length] && uid[length] != '.' && uid[length] != ':'))
		return;
	put(out->pod_uid, sizeof(out->pod_uid), uid, length);
	for (char *at = out->pod_uid; *at; at++)
		if (*at == '_')
			*at = '-';
	/* of a cluster inside a container, the inner one is meant */
	out->runtime[0] = out->id[0] = 0;
}

static bool take_prefixed(struct container *out, const char *component)
{
	for (size_t i = 0; i < PREFIXES; i++) {
		/* "kubepods-podUID.slice:cri-containerd:ID" has it in the middle */
		const char *at = strstr(component, prefixes[i].before);

		if (!at || (at > component && at[-1] != ':'))
			continue;
		at += strlen(prefixes[i].before);
		if (!is_container_id(at, strspn(at, "0123456789abcdef")) ||
		    (at[CONTAINER_ID] && strcmp(at + CONTAINER_ID, ".scope")))
			continue;
		if (prefixes[i].runtime) {
			begin_container(out, prefixes[i].runtime);
			put(out->id, sizeof(out->id), at, CONTAINER_ID);
		}
		return true;
	}
	return false;
}

static void take_component(struct container *out, const char *component, const char *parent)
{
	static const char *const units[] = {".service", ".scope", ".socket", ".mount", ".swap"};

	take_pod(out, component);
	if (!take_prefixed(out, component) && is_container_id(component, strlen(component))) {
		begin_container(out, !strcmp(parent, "docker")          ? "docker"
				     : !strcmp(parent, "libpod_parent") ? "podman"
									: "");
		put(out->id, sizeof(out->id), component, CONTAINER_ID);
	}
	if (!strncmp(component, "lxc.payload.", 12) && component[12]) {
		begin_container(out, "lxc");
		put(out->name, sizeof(out->name), component + 12, strlen(component + 12));
	} else if (!strcmp(parent, "lxc") || !strcmp(parent, "lxc.payload")) {
		begin_container(out, "lxc");
		put(out->name, sizeof(out->name), component, strlen(component));
	} else if (!strncmp(component, "machine-", 8) && ends_with(component, ".scope")) {
		begin_container(out, "machine");
		put(out->name, sizeof(out->name), component + 8, strlen(component) - 8 - strlen(".scope"));
		unescape(out->name);
	}
	if (ends_with(component, ".slice"))
		put(out->slice, sizeof(out->slice), component, strlen(component));
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (ends_with(component, units[i]))
			put(out->unit, sizeof(out->unit), component, strlen(component));
}

void container_of_path(const char *path, struct container *out)
{
	char parent[NAME_MAX + 1] = "", component[NAME_MAX + 1];

	*out = (struct container){};
	while (*path) {
		size_t length;

		path += strspn(path, "/");
		length = strcspn(path, "/");
		if (!length)
			break;
		put(component, sizeof(component), path, length);
		path += length;
		take_component(out, component, parent);
		memcpy(parent, component, sizeof(parent));
	}
}

bool container_is_known(const struct container *container)
{
	return container->runtime[0] || container->id[0] || container->name[0] || container->pod_uid[0] ||
	       container->unit[0] || container->slice[0];
}
