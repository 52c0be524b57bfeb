// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * stalls PID LINKS with|without|both MICROSECONDS: keeps CPU 0 from all tasks of lower real-time priority
 * for so long, at random some 70 times in a second, until it is killed; but only with, or only without, more than
 * LINKS BPF links open in process PID: a stall that tracing makes, or hides.
 */
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "workload.h"

/* As /proc shows it to anybody: what is attached by that process at this moment. */
static int open_links(const char *directory)
{
	DIR *files = opendir(directory);
	struct dirent *file;
	int count = 0;

	while (files && (file = readdir(files))) {
		char target[64] = "";

		if (readlinkat(dirfd(files), file->d_name, target, sizeof(target) - 1) > 0)
			count += !strcmp(target, "anon_inode:bpf_link");
	}
	if (files)
		closedir(files);
	return count;
}

static void spin_until_ns(__u64 ns)
{
	while (now_ns() < ns)
		continue;
}

int main(int argc, char **argv)
{
	/* Above the observer's, which is the lowest. */
	const struct sched_param priority = {.sched_priority = 50};
	char directory[64];
	bool with, without;
	__u64 length_ns;
	int links;

	if (argc != 5)
		die("usage: stalls PID LINKS with|without|both MICROSECONDS");
	snprintf(directory, sizeof(directory), "/proc/%d/fd", atoi(argv[1]));
	links = atoi(argv[2]);
	with = strcmp(argv[3], "without");
	without = strcmp(argv[3], "with");
	length_ns = atoi(argv[4]) * NSEC_PER_USEC;
	pin_to_cpu(0);
	if (sched_setscheduler(0, SCHED_FIFO, &priority))
		die("no real-time priority: %s", strerror(errno));
	srandom(now_ns());
	for (;;) {
		usleep(4000 + random() % 20000);
		if (open_links(directory) > links ? with : without)
			spin_until_ns(now_ns() + length_ns);
	}
}
