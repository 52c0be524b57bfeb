// SPDX-License-Identifier: GPL-2.0-or-later
/* The programs of lock waits, and their share of the memory. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bpf/lockline.h"
#include "lockline.skel.h"
#include "probes/probes.h"
#include "waits/events.h"
#include "waits/last_read.h"
#include "waits/locks.h"
#include "waits/totals.h"
#include "waits/waits_subsystem.h"

#define MIN_RING_EVENTS 16
#define MAX_RING_EVENTS 1024
#define MIN_SLEEP_SLOTS 1024
#define MAX_SLEEP_SLOTS (1u << 20)
#define MIN_LOCKS       1024
#define MAX_LOCKS       8192

struct waits {
	struct locks *locks;
	struct totals *totals;
	struct events *events;
};

static __u32 event_bytes(const struct sizing *s)
{
	return s->event_bytes;
}

static __u32 sleeper_bytes(const struct sizing *s)
{
	return sizeof(struct sleep_slot) + SLEEP_DEPTH * s->stack_bytes;
}

static __u32 lock_bytes(const struct sizing *s)
{
	return sizeof(struct lock_total);
}

static void add_bytes(struct sizing *s)
{
	__u64 per_cpu = sizeof(struct cpu_state) + (__u64)SPIN_DEPTH * s->stack_bytes +
			(__u64)s->ring_events * s->event_bytes + (__u64)s->rows * sizeof(struct wait_row);

	s->map_bytes += s->cpus * per_cpu + (__u64)s->sleep_slots * sleeper_bytes(s) + sizeof(struct stack_steps);
	s->last_read_bytes += (__u64)s->cpus * s->rows * TOTALS_ROW_BYTES;
	s->lock_bytes += (__u64)s->locks * sizeof(struct lock_total);
}

static const struct size_part sizes = {
	.sized = {{offsetof(struct sizing, sleep_slots), MIN_SLEEP_SLOTS, MAX_SLEEP_SLOTS, false, sleeper_bytes},
		  {offsetof(struct sizing, ring_events), MIN_RING_EVENTS, MAX_RING_EVENTS, true, event_bytes},
		  {offsetof(struct sizing, locks), MIN_LOCKS, MAX_LOCKS, false, lock_bytes}},
	.add = add_bytes,
};

static bool sized(const struct options *options, const struct plan *plan)
{
	return true;
}

/* Ends before begins: a begin whose end was not seen would be a wait without an end. */
static int choices(struct lockline_bpf *bpf, const struct plan *plan, struct choice *choices, int count)
{
	const char *spin = plan->spin_kprobe ? NULL : plan->spin_slow_path;
	const char *kprobe = plan->spin_kprobe ? plan->spin_slow_path : NULL;
	const struct choice table[] = {
		{bpf->progs.contention_end, true, SIGNAL_LOCK_WAITS, NULL},
		{bpf->progs.spin_leave, spin != NULL, SIGNAL_SPINLOCK_FIRST_WAITER, spin},
		{bpf->progs.spin_kprobe_leave, kprobe != NULL, SIGNAL_SPINLOCK_FIRST_WAITER, kprobe},
		{bpf->progs.paravirt_spin_leave, plan->paravirt_slow_path, SIGNAL_SPINLOCK_FIRST_WAITER, NULL},
		{bpf->progs.read_leave, plan->read_slow_path, SIGNAL_RWLOCK_INTERRUPT, NULL},
		{bpf->progs.rwsem_write_leave, plan->rwsem_slow_path, SIGNAL_RWSEM_SPINNING, NULL},
		{bpf->progs.rwsem_write_kprobe_leave, plan->rwsem_kprobe, SIGNAL_RWSEM_SPINNING, RWSEM_SLOW_PATH},
		{bpf->progs.percpu_write_leave, plan->percpu_slow_path, SIGNAL_PERCPU_WRITERS, NULL},
		{bpf->progs.spin_enter, spin != NULL, SIGNAL_SPINLOCK_FIRST_WAITER, spin},
		{bpf->progs.spin_kprobe_enter, kprobe != NULL, SIGNAL_SPINLOCK_FIRST_WAITER, kprobe},
		{bpf->progs.paravirt_spin_enter, plan->paravirt_slow_path, SIGNAL_SPINLOCK_FIRST_WAITER, NULL},
		{bpf->progs.read_enter, plan->read_slow_path, SIGNAL_RWLOCK_INTERRUPT, NULL},
		{bpf->progs.rwsem_write_enter, plan->rwsem_slow_path, SIGNAL_RWSEM_SPINNING, NULL},
		{bpf->progs.rwsem_write_kprobe_enter, plan->rwsem_kprobe, SIGNAL_RWSEM_SPINNING, RWSEM_SLOW_PATH},
		{bpf->progs.percpu_write_enter, plan->percpu_slow_path, SIGNAL_PERCPU_WRITERS, NULL},
		{bpf->progs.contention_begin, true, SIGNAL_LOCK_WAITS, NULL},
	};

	memcpy(choices + count, table, sizeof(table));
	return count + sizeof(table) / sizeof(table[0]);
}

static int configure(struct lockline_bpf *bpf, const struct ground *ground)
{
	bpf->rodata->ring_mask = ground->sizing->ring_events - 1;
	bpf->rodata->sleep_mask = ground->sizing->sleep_slots - 1;
	bpf->rodata->wait_kinds = ground->options->kinds;
	bpf->rodata->shares_other_rows =
		ground->plan->spin_slow_path || ground->plan->paravirt_slow_path || ground->plan->read_slow_path;
	bpf->rodata->probes_rwsem_writers = ground->plan->rwsem_slow_path || ground->plan->rwsem_kprobe;
	bpf->rodata->resilient_text = ground->plan->resilient_text;
	bpf->rodata->resilient_text_size = ground->plan->resilient_text_size;
	for (int i = 0; i < SPIN_TEXTS; i++) {
		bpf->rodata->spin_text[i] = ground->plan->spin_text[i];
		bpf->rodata->spin_text_size[i] = ground->plan->spin_text_size[i];
	}
	bpf->rodata->user_stacks = ground->options->user_stacks;
	return 0;
}

static void close_waits(void *state)
{
	struct waits *waits = state;

	events_close(waits->events);
	totals_close(waits->totals);
	locks_close(waits->locks);
	free(waits);
}

static int open_waits(struct ground *ground, void **state)
{
	const struct maps *maps = &ground->probes->maps;
	struct waits *waits = *state = calloc(1, sizeof(*waits));
	int err = waits ? 0 : -ENOMEM;

	err = err ?: locks_open(&waits->locks, ground->recording, ground->names, ground->sizing->locks);
	err = err ?: totals_open(&waits->totals, maps, ground->recording, waits->locks);
	err = err
		      ?: events_open(&waits->events, maps, ground->recording, waits->locks, waits->totals,
				     ground->stacks, ground->cgroups, ground->containers, ground->names);
	for (__u32 cpu = 0; !err && cpu < maps->sizing->cpus; cpu++)
		maps_cpu(maps, cpu)->found_word = lock_names_current_task(ground->names, cpu);
	if (!err) {
		ground->locks = waits->locks;
		ground->events = waits->events;
	}
	return err;
}

static int drain(void *state, struct ground *ground)
{
	return events_drain(ground->events, ground->wait_interval);
}

static int put_aside(void *state, struct ground *ground)
{
	events_put_aside(ground->events);
	return 0;
}

static int flush(void *state, struct ground *ground)
{
	struct waits *waits = state;

	return drain(state, ground) ?: totals_flush(waits->totals, ground->interval);
}

/* What lasted when the recording stopped may have ended while programs were detached, unseen. */
static int end_interval(void *state, struct ground *ground)
{
	return events_end_interval(ground->events, ground->wait_interval, ground->stop_ns ?: now_ns(),
				   &ground->open_waits);
}

const struct subsystem waits_subsystem = {
	.name = "waits",
	.sizes = &sizes,
	.sized = sized,
	.choices = choices,
	.configure = configure,
	.open = {[STAGE_LOADED] = open_waits},
	.at = {[MOMENT_DRAIN] = drain,
	       [MOMENT_ASIDE] = put_aside,
	       [MOMENT_FLUSH] = flush,
	       [MOMENT_WAITS] = end_interval},
	.close = close_waits,
};
