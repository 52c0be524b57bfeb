// SPDX-License-Identifier: GPL-2.0
/*
 * Reads of a clock that all CPUs share (record --clocksource): how long each
 * takes, since it waits for the device and for the others.
 *
 * To ask the kernel for the time here would read the device once more, so
 * time is taken in CPU cycles: from a counter that perf has opened on each CPU
 * (msr/tsc/).  Without it reads are counted alone.
 */
#include "state.bpf.h"
#include "clocksource.h"
#include <bpf/bpf_tracing.h>

const volatile __u64 clock_cycles_mult __weak = 0; /* 0: no counter */

SHARED_ARRAY(clock_states, struct clock_state);
SHARED_ARRAY(clock_reads, struct clock_read);

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, sizeof(__u32));
} cycle_counters SEC(".maps");

static __always_inline struct clock_state *clock_state_of(__u32 cpu)
{
	struct cpu_state *waits = bpf_map_lookup_elem(&cpu_states, &cpu);

	/* Not before the recording begins, nor after its end. */
	return waits && waits->begin_kinds && !(waits->flags & STATE_SHALLOW) ? bpf_map_lookup_elem(&clock_states, &cpu)
									      : NULL;
}

static __always_inline __u64 cycles(void)
{
	return clock_cycles_mult ? bpf_perf_event_read(&cycle_counters, BPF_F_CURRENT_CPU) : 1;
}

static __always_inline void write_read(void *ctx, struct clock_state *state, __u32 cpu)
{
	__u64 position = state->events++, pid_tgid = bpf_get_current_pid_tgid();
	__u32 index = cpu * CLOCK_RING_READS + (position & (CLOCK_RING_READS - 1));
	struct clock_read *read = bpf_map_lookup_elem(&clock_reads, &index);
	long bytes;

	if (!read)
		return;
	__sync_lock_test_and_set(&read->sequence, 0);
	read->reads = state->pending_reads;
	read->read_ns = state->pending_ns;
	state->pending_reads = 0;
	state->pending_ns = 0;
	read->tid = pid_tgid;
	read->tgid = pid_tgid >> 32;
	bpf_get_current_comm(read->comm, sizeof(read->comm));
	bytes = bpf_get_stack(ctx, read->kernel, sizeof(read->kernel), 0);
	read->kernel_frames = bytes < 0 ? 0 : (__u64)bytes / sizeof(__u64);
	__sync_lock_test_and_set(&read->sequence, position + 1);
}

static __always_inline void begin_read(void)
{
	struct clock_state *state = clock_state_of(bpf_get_smp_processor_id());

	if (state)
		state->begin = cycles();
}

static __always_inline void end_read(void *ctx)
{
	__u64 now = cycles(), read_ns = 0;
	__u32 cpu = bpf_get_smp_processor_id();
	struct clock_state *state = clock_state_of(cpu);

	if (!state)
		return;
	state->reads++;
	if (!state->begin) {
		state->unmatched++;
		return;
	}
	if (now > state->begin)
		read_ns = (now - state->begin) * clock_cycles_mult >> CLOCK_CYCLES_SHIFT;
	state->begin = 0;
	state->read_ns += read_ns;
	if (read_ns > state->max_ns)
		state->max_ns = read_ns;
	state->histogram[histogram_bucket(read_ns) & (HISTOGRAM_BUCKETS - 1)]++;
	state->pending_reads++;
	state->pending_ns += read_ns;
	if (!state->tokens)
		return;
	state->tokens--;
	write_read(ctx, state, cpu);
}

/* u64 read(struct clocksource *); which function is set at load. */
SEC("?fentry/read_hpet")
int clock_read_enter(void *ctx)
{
	begin_read();
	return 0;
}

SEC("?fexit/read_hpet")
int clock_read_leave(void *ctx)
{
	end_read(ctx);
	return 0;
}

SEC("?kprobe")
int clock_kprobe_enter(struct pt_regs *ctx)
{
	begin_read();
	return 0;
}

SEC("?kretprobe")
int clock_kprobe_leave(struct pt_regs *ctx)
{
	end_read(ctx);
	return 0;
}
