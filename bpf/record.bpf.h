/* SPDX-License-Identifier: GPL-2.0 */
/* What an ended wait leaves behind: its row's figures, and at times an event. */
#ifndef RECORD_BPF_H
#define RECORD_BPF_H

#include "event.bpf.h"
#include "table.bpf.h"

static __always_inline __u64 clock_now(void)
{
	/* A shared clocksource (hpet, acpi_pm) would make each wait a contended device read. */
	return coarse_clock ? bpf_ktime_get_coarse_ns() : bpf_ktime_get_ns();
}

static __always_inline bool takes_sample(struct wait_row *row)
{
	__u32 before = row->begins++;

	/* The first waits of a row give it a call site. */
	return before < 4 || !(before & sample_mask);
}

static __always_inline void add(__u64 *value, __u64 n, bool atomic)
{
	if (atomic)
		__sync_fetch_and_add(value, n);
	else
		*value += n;
}

static __always_inline void add32(__u32 *value, __u32 n, bool atomic)
{
	if (atomic)
		__sync_fetch_and_add(value, n);
	else
		*value += n;
}

static __always_inline void record_wait(void *ctx, struct cpu_state *state, __u32 cpu, const struct ended_wait *wait,
					const struct wait_stack *stack, bool spinning)
{
	struct wait_row *row = row_at(cpu, wait->row);
	bool outlier = wait->wait_ns >= threshold_ns;
	bool atomic = !spinning || is_other_row(wait->row);

	if (!row)
		return;
	if (is_other_row(wait->row))
		state->counters[COUNT_TABLE_FULL]++;
	add(&row->waits, 1, atomic);
	add(&row->wait_ns, wait->wait_ns, atomic);
	/* Where programs can be preempted a maximum may be lost here; its bucket and its outlier stand. */
	if (wait->wait_ns > row->max_ns)
		row->max_ns = wait->wait_ns;
	add32(&row->histogram[histogram_bucket(wait->wait_ns) & (HISTOGRAM_BUCKETS - 1)], 1, atomic);
	if (wait->result)
		add32(&row->failed, 1, atomic);
	if (outlier || wait->sampled) {
		__u64 weight_ns = wait->wait_ns;
		__u32 weight = 1;

		if (!outlier) {
			weight_ns += row->pending_ns;
			weight += row->pending_waits;
			row->pending_ns = 0;
			row->pending_waits = 0;
		}
		write_event(ctx, state, cpu, wait, stack, outlier, weight, weight_ns);
	} else {
		add(&row->pending_ns, wait->wait_ns, atomic);
		add32(&row->pending_waits, 1, atomic);
	}
}

#endif /* RECORD_BPF_H */
