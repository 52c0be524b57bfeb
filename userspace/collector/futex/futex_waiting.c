// SPDX-License-Identifier: GPL-2.0-or-later
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/patience.h"
#include "base/proc.h"
#include "base/small_file.h"
#include "futex/futex_names.h"
#include "futex/futex_waiting.h"

/* Of 32-bit tasks, on x86-64 and arm64; other calls of these numbers do not sleep for long. */
#define NR_FUTEX_32        240
#define NR_FUTEX_TIME64_32 422
#define NR_FUTEX_WAIT      455

bool futex_words(__u32 tgid, __u64 address, struct futex_words *words)
{
	return patience_read(tgid, address, words, sizeof(*words)) == sizeof(*words);
}

/* The system call that a thread is asleep in, as /proc has it: "NUMBER ARGUMENT..." */
static bool read_call(__u32 tgid, __u32 tid, char *line, size_t size)
{
	char path[PROC_PATH];

	proc_path(path, sizeof(path), tgid, "task/%u/syscall", tid);
	return !first_line(path, line, size) && isdigit((unsigned char)*line);
}

/* How often it has gone to sleep. */
static bool read_switches(__u32 tgid, __u32 tid, char *switches, size_t size)
{
	return !proc_thread_status(tgid, tid, "voluntary_ctxt_switches", switches, size);
}

/* What a call waits for: false for all that is no wait for one futex. */
static bool parse_wait(const char *line, struct futex_slot *wait)
{
	unsigned long long arguments[5];
	long number;
	__u32 flags;

	if (sscanf(line, "%ld %llx %llx %llx %llx %llx", &number, &arguments[0], &arguments[1], &arguments[2],
		   &arguments[3], &arguments[4]) != 6)
		return false;
	wait->address = arguments[0];
	if (number == NR_FUTEX_WAIT) {
		wait->op = FUTEX_OP_WAIT2;
		wait->value = arguments[1];
		flags = arguments[3];
		wait->flags = arguments[4] ? FUTEX_TIMED : 0;
	} else if (number == SYS_futex || number == NR_FUTEX_32 || number == NR_FUTEX_TIME64_32) {
		flags = arguments[1];
		wait->op = flags & 0x1f;
		wait->value = arguments[2];
		wait->flags = arguments[3] ? FUTEX_TIMED : 0;
	} else {
		return false;
	}
	if (!(flags & FUTEX_PRIVATE))
		wait->flags |= FUTEX_SHARED;
	return FUTEX_WAIT_OPS & FUTEX_BIT(wait->op);
}

__u64 futex_waited_for(const char *line)
{
	struct futex_slot wait = {0};

	return parse_wait(line, &wait) ? wait.address : 0;
}

bool futex_still_waits(__u32 tgid, __u32 tid, __u64 address)
{
	struct futex_slot wait = {0};
	char call[256];

	return read_call(tgid, tid, call, sizeof(call)) && parse_wait(call, &wait) && wait.address == address;
}

int futex_used_shared(__u32 tgid, __u64 address)
{
	DIR *dir = proc_open_directory(tgid, "task");
	int found = -EAGAIN;
	__u32 tid;

	while (dir && found < 0 && (tid = proc_next(dir))) {
		struct futex_slot wait = {0};
		char call[256];

		if (read_call(tgid, tid, call, sizeof(call)) && parse_wait(call, &wait) && wait.address == address)
			found = !!(wait.flags & FUTEX_SHARED);
	}
	if (dir)
		closedir(dir);
	return found;
}

/* DWARF's number of the stack pointer. */
#if defined(__x86_64__)
#define STACK_POINTER 7
#else
#define STACK_POINTER 31
#endif

bool futex_waiting_stack(__u32 tgid, __u32 tid, __u64 address, struct user_stack *out)
{
	struct futex_slot wait = {0};
	char before[256], after[256];
	ssize_t size;
	__u64 sp;

	if (!read_call(tgid, tid, before, sizeof(before)) || !parse_wait(before, &wait) || wait.address != address ||
	    !proc_call_place(before, &sp, &out->pc))
		return false;
	size = patience_read(tgid, sp, out->bytes, sizeof(out->bytes));
	if (size <= 0 || !read_call(tgid, tid, after, sizeof(after)) || strcmp(before, after))
		return false;
	memset(out->registers, 0, sizeof(out->registers));
	out->registers[STACK_POINTER] = sp;
	out->tgid = tgid;
	out->tid = tid;
	out->bare = true;
	out->program = 0;
	out->size = size;
	return true;
}

/* In the tid of a slot that is being filled in: to the programs it is taken, and nobody's. */
#define FILLING (1u << 31)

static bool has_slot(const struct futex_slots *table, __u32 tid)
{
	for (int probe = 0; probe < FUTEX_PROBES; probe++)
		if (__atomic_load_n(&table->slots[(tid + probe) & table->mask].tid, __ATOMIC_SEQ_CST) == tid)
			return true;
	return false;
}

/* A slot for tid, which no program finds before publish(). */
static struct futex_slot *claim(const struct futex_slots *table, __u32 tid)
{
	__u32 home = tid & table->mask;

	for (int probe = 0; probe < FUTEX_PROBES; probe++) {
		struct futex_slot *slot = &table->slots[(home + probe) & table->mask];
		__u32 free = 0;

		if (!__atomic_compare_exchange_n(&slot->tid, &free, tid | FILLING, false, __ATOMIC_SEQ_CST,
						 __ATOMIC_SEQ_CST))
			continue;
		if (probe)
			__atomic_fetch_add(&table->slots[home].displaced, 1, __ATOMIC_SEQ_CST);
		return slot;
	}
	return NULL;
}

static void publish(struct futex_slot *slot, __u32 tid)
{
	__atomic_store_n(&slot->tid, tid, __ATOMIC_SEQ_CST);
}

/* held: what the slot's tid is, unless its task has left the call meanwhile, and the slot with it. */
static void give_back(const struct futex_slots *table, struct futex_slot *slot, __u32 tid, __u32 held)
{
	struct futex_slot *home = &table->slots[tid & table->mask];

	if (__atomic_compare_exchange_n(&slot->tid, &held, 0, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) &&
	    slot != home)
		__atomic_fetch_sub(&home->displaced, 1, __ATOMIC_SEQ_CST);
}

/* What a thread is asleep in; if it is the same twice, it has not run in between. */
struct asleep {
	char call[256];
	char switches[24];
};

static bool look_asleep(__u32 tgid, __u32 tid, struct asleep *asleep)
{
	*asleep = (struct asleep){};
	return read_call(tgid, tid, asleep->call, sizeof(asleep->call)) &&
	       read_switches(tgid, tid, asleep->switches, sizeof(asleep->switches));
}

static bool still_asleep(__u32 tgid, __u32 tid, const struct asleep *before)
{
	struct asleep now;

	return look_asleep(tgid, tid, &now) && !strcmp(now.call, before->call) &&
	       !strcmp(now.switches, before->switches);
}

/* A wait, as its call tells of it, with what its word has. */
static bool wait_in_call(__u32 tgid, const char *call, struct futex_slot *wait)
{
	struct futex_words words = {0};

	if (!parse_wait(call, wait))
		return false;
	futex_words(tgid, wait->address, &words);
	wait->word = words.word;
	wait->owner = words.owner;
	if (futex_is_semaphore(&words, wait->op, wait->value, wait->flags & FUTEX_SHARED))
		wait->flags |= FUTEX_SEM;
	return true;
}

static bool meet_thread(const struct futex_slots *table, __u32 tgid, __u32 tid, __u64 begin_ns)
{
	struct futex_slot wait = {0}, *slot;
	struct asleep asleep;

	if (!look_asleep(tgid, tid, &asleep) || !wait_in_call(tgid, asleep.call, &wait) || has_slot(table, tid))
		return false;
	slot = claim(table, tid);
	if (!slot)
		return false;
	slot->tgid = tgid;
	slot->waker_tid = 0;
	slot->address = wait.address;
	slot->waking_ns = 0;
	slot->switches = FUTEX_MET;
	slot->value = wait.value;
	slot->word = wait.word;
	slot->owner = wait.owner;
	slot->op = wait.op;
	slot->flags = wait.flags;
	slot->begin_ns = begin_ns;
	/* It may have left meanwhile, and have another slot: the programs see it leave from publish() on. */
	if (!still_asleep(tgid, tid, &asleep)) {
		give_back(table, slot, tid, tid | FILLING);
		return false;
	}
	publish(slot, tid);
	if (still_asleep(tgid, tid, &asleep))
		return true;
	give_back(table, slot, tid, tid);
	return false;
}

static bool thread_wanted(const struct probes *probes, const struct options *options, __u32 tgid, __u32 tid)
{
	for (size_t i = 0; i < options->tids.count; i++)
		if (options->tids.ids[i] == tid)
			return true;
	return probes_followed(probes, tgid);
}

/*
 * Whether it waits for what a thread owns: of a whole machine only these are met.  Idle threads wait too, and to give
 * each of them a row and a name takes seconds.
 */
static bool waits_for_owner(__u32 tgid, __u32 tid)
{
	struct futex_slot wait = {0};
	struct futex_event event;
	char call[256];

	if (!read_call(tgid, tid, call, sizeof(call)) || !wait_in_call(tgid, call, &wait))
		return false;
	event = (struct futex_event){.op = wait.op, .word = wait.word, .owner = wait.owner};
	if (wait.flags & FUTEX_SEM)
		event.flags |= FUTEX_EVENT_SEM;
	return futex_thread(tgid, futex_event_owner(&event), wait.address, wait.flags & FUTEX_SHARED);
}

/* A walk through the threads that there are. */
struct meeting {
	const struct futex_slots *table;
	const struct probes *probes;
	const struct options *options;
	__u64 begin_ns, until_ns;
	__u32 most; /* to be met: the other half of the slots is for waits to come */
	__u32 looked;
	bool chosen; /* processes and threads; else the whole machine */
	struct futex_met met;
};

static bool is_wanted(struct meeting *meeting, __u32 tgid, __u32 tid)
{
	if (meeting->chosen)
		return thread_wanted(meeting->probes, meeting->options, tgid, tid);
	if (meeting->looked == FUTEX_MOST_LOOKED || now_ns() > meeting->until_ns) {
		meeting->met.not_looked++;
		return false;
	}
	meeting->looked++;
	return waits_for_owner(tgid, tid);
}

static void meet_process(struct meeting *meeting, __u32 tgid)
{
	DIR *dir = proc_open_directory(tgid, "task");
	__u32 tid;

	while (dir && meeting->met.count < meeting->most && (tid = proc_next(dir)))
		if (is_wanted(meeting, tgid, tid))
			meeting->met.count += meet_thread(meeting->table, tgid, tid, meeting->begin_ns);
	if (dir)
		closedir(dir);
}

struct futex_met futex_meet_waiting(const struct futex_slots *table, const struct probes *probes,
				    const struct options *options, __u64 begin_ns)
{
	struct meeting meeting = {
		.table = table,
		.probes = probes,
		.options = options,
		.begin_ns = begin_ns,
		.until_ns = now_ns() + FUTEX_MOST_LOOKING_NS,
		.most = (table->mask + 1) / 2,
		.chosen = options->pids.count || options->tids.count,
	};
	const bool group = options->cgroup || options_name_container(options);
	DIR *dir = !group && (meeting.chosen || options->all) ? opendir("/proc") : NULL;
	__u32 tgid;

	while (dir && meeting.met.count < meeting.most && (tgid = proc_next(dir)))
		if (meeting.chosen || (tgid != (__u32)getpid() && proc_has_program(tgid)))
			meet_process(&meeting, tgid);
	if (dir)
		closedir(dir);
	return meeting.met;
}
