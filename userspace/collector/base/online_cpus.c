// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/online_cpus.h"
#include "base/small_file.h"
#include "base/values.h"

int online_cpus_open(struct online_cpus *online, const char *path)
{
	*online = (struct online_cpus){.fd = open(path, O_RDONLY | O_CLOEXEC)};
	if (online->fd < 0)
		return -errno;
	return online_cpus_changed(online) ? 0 : -ENODATA;
}

void online_cpus_close(struct online_cpus *online)
{
	if (online->fd >= 0)
		close(online->fd);
	online->fd = -1;
}

bool online_cpus_changed(struct online_cpus *online)
{
	char text[sizeof(online->text)];
	ssize_t length = pread(online->fd, text, sizeof(text) - 1, 0);

	if (length <= 0)
		return false;
	text[length] = 0;
	text[strcspn(text, "\n")] = 0;
	if (!*text || !strcmp(text, online->text))
		return false;
	memcpy(online->text, text, sizeof(text));
	return true;
}

int online_cpus_list(const struct online_cpus *online, const struct id_list *wanted, struct id_list *list)
{
	char why[VALUE_WHY];
	size_t kept = 0;
	int err;

	*list = (struct id_list){};
	err = parse_ids(online->text, true, 0, MAX_CPUS - 1, MAX_CPUS, list, why);
	for (size_t i = 0; !err && i < list->count; i++)
		if (!wanted->count || id_list_has(wanted, list->ids[i]))
			list->ids[kept++] = list->ids[i];
	list->count = kept;
	return err;
}

void online_cpus_follow(struct online_cpus *online, __u32 cpus, void (*came)(void *context, __u32 cpu),
			void (*gone)(void *context, __u32 cpu), void *context)
{
	const struct id_list all = {};
	struct id_list list;

	if (!online_cpus_changed(online) || online_cpus_list(online, &all, &list))
		return;
	for (__u32 cpu = 0; cpu < cpus; cpu++)
		if (id_list_has(&list, cpu))
			came(context, cpu);
		else
			gone(context, cpu);
	free(list.ids);
}

__u32 cpus_listed(const char *path, __u32 from, __u32 *end)
{
	char text[4096], why[VALUE_WHY];
	struct id_list list = {};
	__u32 count = 0;

	*end = 0;
	if (first_line(path, text, sizeof(text)) || parse_ids(text, true, 0, MAX_CPUS - 1, MAX_CPUS, &list, why))
		list.count = 0;
	for (size_t i = 0; i < list.count; i++) {
		count += list.ids[i] >= from;
		if (list.ids[i] >= *end)
			*end = list.ids[i] + 1;
	}
	free(list.ids);
	return count;
}
