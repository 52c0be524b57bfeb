// SPDX-License-Identifier: GPL-2.0
/*
 * Behind the watchpoints of `lockline watch`: one record for each access.
 *
 * It runs in the exception of a debug register, which can be inside any code,
 * so it stores into memory of its own CPU and touches nothing else.  What the
 * access did, read or write, is worked out by the collector: from the
 * instruction, or from which of two watchpoints at one address were hit.
 */
#include "in_flight.bpf.h"
#include "watch.h"

SHARED_ARRAY(watch_records, struct watch_record);
SHARED_ARRAY(watch_states, struct watch_state);
SHARED_ARRAY(watch_target, struct watch_target);

/* What a perf_event program gets: include/uapi/linux/bpf_perf_event.h, the registers as in uapi/asm/ptrace.h. */
#ifdef __TARGET_ARCH_arm64
struct watch_registers {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 pstate;
};
#define INTERRUPTS_OFF(registers) ((registers)->pstate & 0x80)
#define IN_USER(registers)        (((registers)->pstate & 0xf) == 0)
#define INSTRUCTION(registers)    ((registers)->pc)
/* The processor distinguishes that one from a load's: watch_hit() is not called, too. */
#define WRITE_IS_ITS_OWN_HIT true
#else
struct watch_registers {
	__u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, orig_ax, ip, cs, flags, sp, ss;
};
#define INTERRUPTS_OFF(registers) (!((registers)->flags & 0x200))
#define IN_USER(registers)        ((registers)->cs & 3)
#define INSTRUCTION(registers)    ((registers)->ip)
#define WRITE_IS_ITS_OWN_HIT      false
#endif

/* Of two operands of a string instruction, the low bytes alone may be the same. */
#define BESIDE               8
#define IS_AT(pointer, line) ((pointer) - (line) + BESIDE <= CACHE_LINE + 2 * BESIDE)

struct watch_context {
	struct watch_registers regs;
	__u64 sample_period;
	__u64 addr;
};

static __always_inline void note_registers(struct watch_record *record, const struct watch_registers *regs)
{
#ifdef __TARGET_ARCH_arm64
#pragma unroll
	for (int i = 0; i < 31; i++)
		record->registers[i] = regs->regs[i];
	record->registers[31] = regs->sp;
#else
	record->registers[0] = regs->ax;
	record->registers[1] = regs->cx;
	record->registers[2] = regs->dx;
	record->registers[3] = regs->bx;
	record->registers[4] = regs->sp;
	record->registers[5] = regs->bp;
	record->registers[6] = regs->si;
	record->registers[7] = regs->di;
	record->registers[8] = regs->r8;
	record->registers[9] = regs->r9;
	record->registers[10] = regs->r10;
	record->registers[11] = regs->r11;
	record->registers[12] = regs->r12;
	record->registers[13] = regs->r13;
	record->registers[14] = regs->r14;
	record->registers[15] = regs->r15;
#endif
}

static __always_inline __u8 string_flags(const struct watch_context *ctx)
{
#ifdef __TARGET_ARCH_arm64
	return 0;
#else
	__u64 line = ctx->addr & ~(CACHE_LINE - 1ull);

	return (IS_AT(ctx->regs.si, line) ? WATCH_AT_SI : 0) | (IS_AT(ctx->regs.di, line) ? WATCH_AT_DI : 0);
#endif
}

static __always_inline void note_hit(struct watch_context *ctx, __u8 wrote)
{
	/* First: accesses of other CPUs are put in order by it. */
	__u64 now = bpf_ktime_get_ns();
	__u32 cpu = bpf_get_smp_processor_id(), first = 0, index;
	__u64 pid_tgid = bpf_get_current_pid_tgid(), position;
	struct watch_state *state = bpf_map_lookup_elem(&watch_states, &cpu);
	const struct watch_target *target = bpf_map_lookup_elem(&watch_target, &first);
	struct watch_record *record;

	if (!state || !target)
		return;
	if (target->tgid && target->tgid != pid_tgid >> 32) {
		state->others += !wrote || WRITE_IS_ITS_OWN_HIT;
		return;
	}
	position = state->records++;
	index = cpu * WATCH_RING + (position & (WATCH_RING - 1));
	record = bpf_map_lookup_elem(&watch_records, &index);
	if (!record)
		return;
	__sync_lock_test_and_set(&record->sequence, 0);
	record->ns = now;
	record->ip = INSTRUCTION(&ctx->regs);
	record->flags = (INTERRUPTS_OFF(&ctx->regs) ? WATCH_INTERRUPTS_OFF : 0) |
			(IN_USER(&ctx->regs) ? WATCH_USER : 0) | string_flags(ctx) | wrote;
	record->cpu = cpu;
	record->offset = ctx->addr & (CACHE_LINE - 1);
	record->tid = pid_tgid;
	record->tgid = pid_tgid >> 32;
	record->lock = 0;
	record->kind = WATCH_NO_KIND;
	if (!wait_in_flight(cpu, pid_tgid, &record->lock, &record->kind))
		record->kind = WATCH_NO_KIND;
	note_registers(record, &ctx->regs);
	bpf_get_current_comm(record->comm, sizeof(record->comm));
	__sync_lock_test_and_set(&record->sequence, position + 1);
}

/* Both return 1 always: 0 would keep the event from counting down to its limit of hits. */
SEC("?perf_event")
int watch_hit(struct watch_context *ctx)
{
	note_hit(ctx, 0);
	return 1;
}

/* Of a watchpoint for writes alone, which has one of watch_hit() beside it. */
SEC("?perf_event")
int watch_write(struct watch_context *ctx)
{
	note_hit(ctx, WATCH_WROTE);
	return 1;
}

/* The task_struct of a thread, for targets such as task:PID.pi_lock. */
SEC("?iter/task")
int watch_find_task(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	__u32 first = 0;
	struct watch_target *target = bpf_map_lookup_elem(&watch_target, &first);

	if (task && target && task->pid == (int)target->tid)
		target->task = (__u64)task;
	return 0;
}
