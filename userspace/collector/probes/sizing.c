// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stddef.h>

#include "bpf/memory.h"
#include "futex/futexes_known.h"
#include "waits/last_read.h"
#include "probes/sizing.h"

#define MIN_NAMED_ROWS    32
#define MAX_NAMED_ROWS    4096
#define MIN_RING_EVENTS   16
#define MAX_RING_EVENTS   1024
#define MIN_SLEEP_SLOTS   1024
#define MAX_SLEEP_SLOTS   (1u << 20)
#define MIN_RING_HOLDINGS 256
#define MAX_RING_HOLDINGS 16384
#define MIN_RING_CONTEXT  1024
#define MAX_RING_CONTEXT  65536
#define MIN_LOCKS         1024
#define MAX_LOCKS         8192
#define MIN_FUTEX_ROWS    64
#define MAX_FUTEX_ROWS    1024
#define MIN_FUTEXES       512
#define MAX_FUTEXES       8192

static __u32 power_of_two_below(__u64 value, __u32 least, __u32 most)
{
	__u32 power = least;

	while (power < most && (__u64)power * 2 <= value)
		power *= 2;
	return power;
}

static __u64 futex_bytes(const struct sizing *s)
{
	__u64 per_cpu = sizeof(struct futex_state) + FUTEX_RING_EVENTS * sizeof(struct futex_event) +
			FUTEX_BUCKET_ROWS * sizeof(struct futex_bucket) + s->futex_rows * sizeof(struct futex_row);

	if (!s->futex_rows)
		return 0;
	return s->cpus * per_cpu + FUTEX_SLOTS * (sizeof(struct futex_slot) + sizeof(__u64)) +
	       s->futexes * FUTEX_KNOWN_BYTES;
}

static void fill(struct sizing *s)
{
	__u64 per_cpu = sizeof(struct cpu_state) + (__u64)SPIN_DEPTH * s->stack_bytes +
			(__u64)s->ring_events * s->event_bytes + (__u64)s->rows * sizeof(struct wait_row);
	__u64 per_sleeper = sizeof(struct sleep_slot) + (__u64)SLEEP_DEPTH * s->stack_bytes;

	if (s->ring_holdings) {
		per_cpu += sizeof(struct release_state) + (__u64)RELEASE_STACKS * s->stack_bytes +
			   (__u64)s->ring_holdings * sizeof(struct holding_record) +
			   FOCUS_LOCKS * sizeof(struct hold_row);
		per_sleeper += SLEEP_DEPTH * sizeof(__u32);
	}
	if (s->ring_context)
		per_cpu += sizeof(struct context_state) + (__u64)s->ring_context * sizeof(struct context_record);
	if (s->ring_samples)
		per_cpu += sizeof(struct memory_state) + (__u64)s->ring_samples * sizeof(struct memory_record);
	s->map_bytes = s->cpus * per_cpu + s->sleep_slots * per_sleeper;
	if (s->ring_holdings)
		s->map_bytes += WAITER_COUNTS * sizeof(struct waiter_count) + FOCUS_LOCKS * sizeof(__u64);
	s->last_read_bytes =
		(__u64)s->cpus * (s->rows * sizeof(struct row_last_read) + 2 * KIND_COUNT * sizeof(struct figures));
	s->lock_bytes = (__u64)s->locks * sizeof(struct lock_total);
	s->futex_bytes = futex_bytes(s);
	s->total_bytes = s->map_bytes + s->last_read_bytes + s->lock_bytes + s->futex_bytes;
}

static void set_rows(struct sizing *s, __u32 named)
{
	s->named_rows = named;
	s->rows = named + KIND_COUNT;
}

/* The least of each. */
static void set_least(struct sizing *s, const struct sizing_wish *wish)
{
	s->ring_events = MIN_RING_EVENTS;
	s->sleep_slots = MIN_SLEEP_SLOTS;
	s->ring_holdings = wish->holders ? MIN_RING_HOLDINGS : 0;
	s->ring_context = wish->episodes ? MIN_RING_CONTEXT : 0;
	s->ring_samples = wish->memory_samples ? MEMORY_RING_SAMPLES : 0;
	s->locks = MIN_LOCKS;
	s->futex_rows = wish->futexes ? MIN_FUTEX_ROWS : 0;
	s->futexes = wish->futexes ? MIN_FUTEXES : 0;
}

int sizing_make(struct sizing *out, __u32 cpus, const struct sizing_wish *wish, __u64 *need)
{
	__u32 slot_bytes, row_bytes = sizeof(struct wait_row) + sizeof(struct row_last_read);
	struct sizing s = {.cpus = cpus};
	__u64 budget = wish->budget, rows;

	if (!cpus)
		return -EINVAL;
	s.stack_bytes = wish->user_stacks ? sizeof(struct wait_stack) : offsetof(struct wait_stack, user);
	s.event_bytes = offsetof(struct wait_event, stack) + s.stack_bytes;
	slot_bytes = sizeof(struct sleep_slot) + SLEEP_DEPTH * s.stack_bytes;

	set_least(&s, wish);
	set_rows(&s, MIN_NAMED_ROWS);
	fill(&s);
	*need = s.total_bytes;
	if (!budget)
		budget = *need * 3 / 2 > MEMORY_DEFAULT ? *need * 3 / 2 : MEMORY_DEFAULT;
	if (s.total_bytes > budget)
		return -ENOSPC;
	s.budget_bytes = budget;

	/* An eighth each for sleepers, rings, turns, relief, locks and twice futexes; the rows take what is left. */
	s.sleep_slots = power_of_two_below(budget / 8 / slot_bytes, MIN_SLEEP_SLOTS, MAX_SLEEP_SLOTS);
	s.ring_events = power_of_two_below(budget / 8 / cpus / s.event_bytes, MIN_RING_EVENTS, MAX_RING_EVENTS);
	s.locks = power_of_two_below(budget / 8 / sizeof(struct lock_total), MIN_LOCKS, MAX_LOCKS);
	if (wish->holders)
		s.ring_holdings = power_of_two_below(budget / 8 / cpus / sizeof(struct holding_record),
						     MIN_RING_HOLDINGS, MAX_RING_HOLDINGS);
	if (wish->episodes)
		s.ring_context = power_of_two_below(budget / 8 / cpus / sizeof(struct context_record), MIN_RING_CONTEXT,
						    MAX_RING_CONTEXT);
	if (wish->futexes) {
		s.futex_rows = power_of_two_below(budget / 8 / cpus / sizeof(struct futex_row), MIN_FUTEX_ROWS,
						  MAX_FUTEX_ROWS);
		s.futexes = power_of_two_below(budget / 8 / FUTEX_KNOWN_BYTES, MIN_FUTEXES, MAX_FUTEXES);
	}
	fill(&s);
	if (s.total_bytes > budget) {
		/* Tight: back to the least of each. */
		set_least(&s, wish);
		fill(&s);
	}
	rows = s.named_rows + (budget - s.total_bytes) / cpus / row_bytes;
	set_rows(&s, rows < MAX_NAMED_ROWS ? rows : MAX_NAMED_ROWS);
	fill(&s);
	*out = s;
	return 0;
}
