/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Futex waits in progress: those that began before the recording, and what lies around a word now. */
#ifndef LOCKLINE_FUTEX_WAITING_H
#define LOCKLINE_FUTEX_WAITING_H

#include <stdbool.h>
#include <linux/types.h>

#include "bpf/futex.h"
#include "cli/options.h"
#include "naming/user_unwind.h"
#include "probes/probes.h"

/* The programs' table of tasks in a futex call. */
struct futex_slots {
	struct futex_slot *slots;
	__u32 mask; /* their number, a power of two, less one */
};

/* Reads a futex and what lies above it from a process's memory: false if it cannot be read. */
bool futex_words(__u32 tgid, __u64 address, struct futex_words *words);

/*
 * The stack of a thread that is asleep in a call that waits for that futex: its pointer and where the thread goes on
 * by /proc, and what lies there.  False: it does not wait any more, or nothing can be read.
 */
bool futex_waiting_stack(__u32 tgid, __u32 tid, __u64 address, struct user_stack *out);

/* The futex that a line of /proc/PID/task/TID/syscall says is waited for; 0: none. */
__u64 futex_waited_for(const char *line);

/* Whether the thread is asleep in a call that waits for that futex, by /proc. */
bool futex_still_waits(__u32 tgid, __u32 tid, __u64 address);

/*
 * Whether the threads of a process use that futex without FUTEX_PRIVATE_FLAG: by one that is asleep in a call for it.
 * -EAGAIN: none is now.
 */
int futex_used_shared(__u32 tgid, __u64 address);

/* Of a whole machine so many threads are looked at, for so long; a look takes some 15 us. */
#define FUTEX_MOST_LOOKED     16384
#define FUTEX_MOST_LOOKING_NS 200000000ull

struct futex_met {
	__u32 count;
	__u32 not_looked; /* threads beyond */
};

/*
 * Finds the threads that are asleep in a futex call, by /proc, and gives each a slot, as if it had begun to wait
 * at begin_ns.  After attaching, so that the programs see each of them leave.  Of processes and threads that were
 * chosen all of them; of a whole machine those that wait for what another thread owns.
 */
struct futex_met futex_meet_waiting(const struct futex_slots *table, const struct probes *probes,
				    const struct options *options, __u64 begin_ns);

#endif /* LOCKLINE_FUTEX_WAITING_H */
