// SPDX-License-Identifier: GPL-2.0-or-later
#include "base/proc.h"
#include "names/task_ids.h"
#include "waits/in_flight.h"

/* A wait is that old before its thread is looked for. */
#define STALE_NS 1000000000ull
/* Threads that one call looks for: each costs the read of a file. */
#define MOST_LOOKUPS 256
/* Of these such as do not wait now, and have not for a while, but keep their slot. */
#define MOST_KEPT_LOOKUPS 16
#define KEPT_STALE_NS     (10 * STALE_NS)
/* One slot of so many may be kept. */
#define KEPT_SHARE 16

static int visit_spinning(const struct maps *maps, const struct lock_names *names, __u64 before_ns,
			  visit_open_wait visit, void *data, __u64 *open)
{
	int err = 0;

	for (__u32 cpu = 0; !err && cpu < maps->sizing->cpus; cpu++) {
		const struct cpu_state *state = maps_cpu(maps, cpu);
		__u32 depth = __atomic_load_n(&state->spin_depth, __ATOMIC_ACQUIRE);

		for (__u32 i = 0; !err && i < depth && i < SPIN_DEPTH; i++) {
			const struct spin_slot *slot = &state->spin[i];
			struct open_wait wait = {
				.lock = slot->lock,
				.begin_ns = slot->begin_ns,
				.kind = slot->kind,
				.cpu = cpu,
				.stack = maps_spin_stack(maps, cpu, i),
				.frames = slot->flags & SPIN_SAMPLED ? state->spin_frames[i].kernel : 0,
			};
			__u64 task = slot->task;

			++*open;
			/* A slot is filled in while it is read: what is not plausible is not shown. */
			if (!wait.begin_ns || wait.begin_ns >= before_ns)
				continue;
			lock_names_task(names, task, &wait.tid, &wait.tgid);
			err = visit(data, &wait);
		}
	}
	return err;
}

static int visit_sleeping(const struct maps *maps, __u64 before_ns, visit_open_wait visit, void *data, __u64 *open)
{
	int err = 0;

	for (__u32 i = 0; !err && i < maps->sizing->sleep_slots; i++) {
		const struct sleep_slot *slot = maps_sleeper(maps, i);
		__u32 tid = __atomic_load_n(&slot->tid, __ATOMIC_ACQUIRE);

		for (__u32 depth = 0; !err && tid && depth < slot->depth && depth < SLEEP_DEPTH; depth++) {
			const struct sleep_wait *waiting = &slot->wait[depth];
			struct open_wait wait = {
				.lock = waiting->lock,
				.begin_ns = waiting->begin_ns,
				.kind = waiting->kind,
				.tid = tid,
				.tgid = slot->tgid & ~SLEEP_KEPT,
				.cpu = waiting->begin_cpu,
				.stack = maps_sleep_stack(maps, i, depth),
				.frames = waiting->flags & SLEEP_SAMPLED ? waiting->frames.kernel : 0,
			};

			++*open;
			if (wait.begin_ns < before_ns)
				err = visit(data, &wait);
		}
	}
	return err;
}

int in_flight_visit(const struct maps *maps, const struct lock_names *names, __u64 before_ns, visit_open_wait visit,
		    void *data, __u64 *open)
{
	int err;

	*open = 0;
	err = visit_spinning(maps, names, before_ns, visit, data, open);
	return err ?: visit_sleeping(maps, before_ns, visit, data, open);
}

/* As release_sleeper() of the programs does it: nobody else touches the slot of a thread that is gone. */
static void free_sleeper(const struct maps *maps, __u32 index)
{
	struct sleep_slot *slot = maps_sleeper(maps, index);
	__u32 home = slot->tid & (maps->sizing->sleep_slots - 1);

	for (__u32 i = 0; i < slot->depth && i < SLEEP_DEPTH; i++)
		__atomic_fetch_add(&maps_cpu(maps, slot->wait[i].begin_cpu)->counters[COUNT_ORPHANED], 1,
				   __ATOMIC_RELAXED);
	slot->tgid &= ~SLEEP_KEPT;
	if (home != index)
		__atomic_fetch_sub(&maps_sleeper(maps, home)->displaced, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->tid, 0, __ATOMIC_RELEASE);
}

/* How old the youngest wait of the slot of tid is, 0 if that need not be looked for; *kept: it does not wait. */
static __u64 age_of(const struct sleep_slot *slot, __u32 tid, __u64 now_ns, bool *kept)
{
	__u32 depth = __atomic_load_n(&slot->depth, __ATOMIC_ACQUIRE);
	__u64 begin_ns;

	*kept = tid && !depth && slot->tgid & SLEEP_KEPT;
	if (!tid || (!depth && !*kept) || depth > SLEEP_DEPTH)
		return 0;
	/* The innermost wait is the youngest. */
	begin_ns = slot->wait[depth ? depth - 1 : 0].begin_ns;
	return begin_ns < now_ns ? now_ns - begin_ns : 0;
}

void in_flight_free_dead(const struct maps *maps, __u64 now_ns, __u32 *next)
{
	__u32 slots = maps->sizing->sleep_slots, index = *next, lookups = 0, kept_lookups = 0;

	/* In another pid namespace nobody would be found. */
	if (!proc_has_kernel_ids())
		return;
	for (__u32 i = 0; i < slots && lookups < MOST_LOOKUPS; i++, index++) {
		const struct sleep_slot *slot = maps_sleeper(maps, index & (slots - 1));
		__u32 tid = __atomic_load_n(&slot->tid, __ATOMIC_ACQUIRE);
		bool kept;
		__u64 age = age_of(slot, tid, now_ns, &kept);

		if (age <= (kept ? KEPT_STALE_NS : STALE_NS) || (kept && kept_lookups++ >= MOST_KEPT_LOOKUPS))
			continue;
		lookups++;
		/* Again: it may have ended its wait, and somebody else have taken the slot, before it was gone. */
		if (task_gone(tid) && __atomic_load_n(&slot->tid, __ATOMIC_ACQUIRE) == tid)
			free_sleeper(maps, index & (slots - 1));
	}
	*next = index & (slots - 1);
}

void in_flight_let_keep(const struct maps *maps)
{
	__u32 slots = maps->sizing->sleep_slots, cpus = maps->sizing->cpus, kept = 0, idle = 0,
	      most = slots / KEPT_SHARE;

	for (__u32 cpu = 0; cpu < cpus; cpu++) {
		__u32 left = __atomic_load_n(&maps_cpu(maps, cpu)->keeps, __ATOMIC_RELAXED);

		kept += left;
		idle += !left;
	}
	if (!idle)
		return;
	for (__u32 i = 0; i < slots; i++)
		kept += maps_sleeper(maps, i)->tid && maps_sleeper(maps, i)->tgid & SLEEP_KEPT;
	for (__u32 cpu = 0; cpu < cpus; cpu++) {
		__u8 *keeps = &maps_cpu(maps, cpu)->keeps;
		__u32 share = most > kept ? (most - kept) / cpus : 0;

		/* A program only takes from what there is: of 0 nobody takes meanwhile. */
		if (!__atomic_load_n(keeps, __ATOMIC_RELAXED))
			__atomic_store_n(keeps, share < 255 ? share : 255, __ATOMIC_RELAXED);
	}
}
