/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The CPUs that there are and those that are online, read anew at little cost. */
#ifndef LOCKLINE_ONLINE_CPUS_H
#define LOCKLINE_ONLINE_CPUS_H

#include <stdbool.h>

#include "base/values.h"

#define MAX_CPUS 8192 /* the largest NR_CPUS of x86 and arm64 */

#define ONLINE_CPUS "/sys/devices/system/cpu/online"
/* Offline ones too, but no slots that a CPU may be put into one day: those are among the possible ones. */
#define PRESENT_CPUS "/sys/devices/system/cpu/present"

struct online_cpus {
	int fd;
	char text[4096]; /* as it was read last */
};

int online_cpus_open(struct online_cpus *online, const char *path);
void online_cpus_close(struct online_cpus *online);
/* Reads it: whether it is another text than the last time; false too if it cannot be read. */
bool online_cpus_changed(struct online_cpus *online);
/* If it is another text than the last time: came() for each CPU below cpus that is online, gone() for each other one. */
void online_cpus_follow(struct online_cpus *online, __u32 cpus, void (*came)(void *context, __u32 cpu),
			void (*gone)(void *context, __u32 cpu), void *context);
/* Those of the text that are wanted (no ids: all); list->ids is to be freed. */
int online_cpus_list(const struct online_cpus *online, const struct id_list *wanted, struct id_list *list);
/* How many CPUs of a list in a file have at least the number `from`; *end: one more than the highest. 0 without a list. */
__u32 cpus_listed(const char *path, __u32 from, __u32 *end);

#endif /* LOCKLINE_ONLINE_CPUS_H */
