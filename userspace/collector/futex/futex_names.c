// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"
#include "base/proc_mapping.h"
#include "futex/futex_names.h"

/* In a container the kernel is asked for each thread's own id: of so many at most. */
#define THREADS_LOOKED_AT 1024

void futex_place(__u32 tgid, __u64 address, struct futex_place *place)
{
	struct proc_mapping mapping;

	*place = (struct futex_place){};
	/* What is written to a private mapping of a file is the process's own. */
	if (!proc_mapping_at(tgid, address, &mapping) && mapping.inode && mapping.shared)
		*place = (struct futex_place){mapping.inode, mapping.offset + (address - mapping.start), mapping.major,
					      mapping.minor};
}

/* Answers of the last second: a process is asked about at each of its samples, and never changes its namespace. */
#define ANSWERS   64
#define ANSWER_NS 1000000000ull

static struct {
	__u64 at_ns; /* 0: none */
	__u32 tgid;
	bool same;
} answers[ANSWERS];

static bool same_namespace(__u32 tgid)
{
	const __u64 now = now_ns();
	struct stat own, other;
	char path[PROC_PATH];
	const int place = tgid % ANSWERS;

	if (answers[place].at_ns && answers[place].tgid == tgid && now - answers[place].at_ns < ANSWER_NS)
		return answers[place].same;
	proc_path(path, sizeof(path), tgid, "ns/pid");
	answers[place].same = stat("/proc/self/ns/pid", &own) || stat(path, &other) ||
			      (own.st_ino == other.st_ino && own.st_dev == other.st_dev);
	answers[place].tgid = tgid;
	answers[place].at_ns = now;
	return answers[place].same;
}

static __u32 own_thread(__u32 tgid, __u32 tid)
{
	__u32 found = 0, thread;
	char path[PROC_PATH];
	DIR *dir;

	if (!tid || tid >> 22) /* PID_MAX_LIMIT */
		return 0;
	if (same_namespace(tgid)) {
		proc_path(path, sizeof(path), tgid, "task/%u", tid);
		return access(path, F_OK) ? 0 : tid;
	}
	dir = proc_open_directory(tgid, "task");
	for (int i = 0; dir && !found && i < THREADS_LOOKED_AT && (thread = proc_next(dir)); i++)
		if (proc_own_id(tgid, thread) == tid)
			found = thread;
	if (dir)
		closedir(dir);
	return found;
}

__u32 futex_thread(__u32 tgid, __u32 tid, __u64 address, bool shared)
{
	struct proc_mapping mapping;
	__u32 found = own_thread(tgid, tid), other;

	if (found || !shared || !tid || !same_namespace(tgid) || task_leader(tid, &other) || other == tgid)
		return found;
	/* It has to be able to take the lock: a word that is none, or that lies, may be the number of any thread. */
	if (proc_mapping_at(tgid, address, &mapping) || !proc_shares_memory_of(other, &mapping))
		return 0;
	return tid;
}
