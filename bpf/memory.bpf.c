// SPDX-License-Identifier: GPL-2.0
/*
 * Memory samples of the PMU (record --hitm): Intel's loads and stores, AMD's
 * IBS.  What a sample tells is in the kernel's own context, which a program can
 * reach since 6.2; before, it has the address alone, and no data source.
 */
#include "memory.bpf.h"

/* Since 6.2 (fd264ca020948a743e4c36731dfdecc4a812153c). */
extern void *bpf_cast_to_kern_ctx(void *context) __ksym __weak;

/* enum perf_event_sample_format, include/uapi/linux/perf_event.h */
#define PERF_SAMPLE_IP        (1u << 0)
#define PERF_SAMPLE_ADDR      (1u << 3)
#define PERF_SAMPLE_WEIGHT    (1u << 14)
#define PERF_SAMPLE_DATA_SRC  (1u << 15)
#define PERF_SAMPLE_PHYS_ADDR (1u << 19)
#define PERF_SAMPLE_STRUCT    (1u << 24) /* of weights */

/* The registers at the head of struct bpf_perf_event_data: user space's interface, so not by CO-RE. */
#if defined(__TARGET_ARCH_arm64)
struct sampled_registers {
	__u64 x[31];
	__u64 sp;
	__u64 ip;
	__u64 pstate;
};

/* PSTATE.I */
#define INTERRUPTS_ARE_OFF(registers) ((registers)->pstate & 1u << 7)
#else
struct sampled_registers {
	__u64 others[16]; /* r15 to orig_ax */
	__u64 ip;
	__u64 cs;
	__u64 flags;
	__u64 sp;
	__u64 ss;
};

/* EFLAGS.IF */
#define INTERRUPTS_ARE_OFF(registers) (!((registers)->flags & 1u << 9))
#endif

struct sample_context {
	struct sampled_registers registers;
	__u64 period;
	__u64 address;
};

/*
 * A field is only what its flag says: before 6.3 the kernel fills in nothing
 * that the PMU's driver did not, and what is not flagged is left from before.
 */
static __always_inline void read_kernel_context(const struct perf_sample_data *data, struct memory_sample *sample)
{
	__u64 told = data->sample_flags;

	sample->address = told & PERF_SAMPLE_ADDR ? data->addr : 0;
	if (told & PERF_SAMPLE_IP)
		sample->ip = data->ip;
	if (told & PERF_SAMPLE_DATA_SRC)
		sample->data_src = data->data_src.val;
	if (told & PERF_SAMPLE_PHYS_ADDR)
		sample->physical = data->phys_addr;
	/* With the parts apart, the low half is the latency of the load. */
	if (told & (PERF_SAMPLE_WEIGHT | PERF_SAMPLE_STRUCT))
		sample->weight = data->weight.full;
}

SEC("?perf_event")
int memory_sample(struct sample_context *context)
{
	struct memory_sample sample = {
		.ip = context->registers.ip,
		.flags = INTERRUPTS_ARE_OFF(&context->registers) ? MEMORY_INTERRUPTS_OFF : MEMORY_INTERRUPTS_ON,
	};

	if (bpf_cast_to_kern_ctx) {
		struct bpf_perf_event_data_kern *kernel = bpf_cast_to_kern_ctx(context);

		read_kernel_context(kernel->data, &sample);
	} else {
		sample.address = context->address;
	}
	take_memory_sample(&sample);
	/* 0: nothing goes to a ring of perf's. */
	return 0;
}
