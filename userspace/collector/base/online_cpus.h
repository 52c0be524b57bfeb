/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The CPUs that are online, read anew at little cost. */
#ifndef LOCKLINE_ONLINE_CPUS_H
#define LOCKLINE_ONLINE_CPUS_H

#include <stdbool.h>

#include "base/values.h"

#define ONLINE_CPUS "/sys/devices/system/cpu/online"

struct online_cpus {
	int fd;
	char text[4096]; /* as it was read last */
};

int online_cpus_open(struct online_cpus *online, const char *path);
void online_cpus_close(struct online_cpus *online);
/* Reads it: whether it is another text than the last time; false too if it cannot be read. */
bool online_cpus_changed(struct online_cpus *online);
/* Those of the text that are wanted (no ids: all); list->ids is to be freed. */
int online_cpus_list(const struct online_cpus *online, const struct id_list *wanted, struct id_list *list);

#endif /* LOCKLINE_ONLINE_CPUS_H */
