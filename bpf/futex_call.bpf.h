/* SPDX-License-Identifier: GPL-2.0 */
/* What a system call wants of a futex: its number and arguments, also of 32-bit tasks, which have others. */
#ifndef FUTEX_CALL_BPF_H
#define FUTEX_CALL_BPF_H

#include "futex.h"
#include "compat.bpf.h"

/*
 * arch/x86/entry/syscalls/syscall_64.tbl and syscall_32.tbl; include/uapi/asm-generic/unistd.h and
 * arch/arm64/tools/syscall_32.tbl.  The later ones are the same everywhere.
 */
#if defined(__TARGET_ARCH_x86)
#define NR_FUTEX   202
#define NR_RESTART 219
#define NR_YIELD   24
#else
#define NR_FUTEX   98
#define NR_RESTART 128
#define NR_YIELD   124
#endif
#define NR_FUTEX_32        240
#define NR_YIELD_32        158
#define NR_FUTEX_TIME64_32 422
#define NR_FUTEX_WAITV     449
#define NR_FUTEX_WAKE      454
#define NR_FUTEX_WAIT      455
#define NR_FUTEX_REQUEUE   456

#define FUTEX_COMMANDS 0x1fu

struct futex_call {
	__u64 address;
	__u64 value;
	__u32 op;
	__u32 flags;
};

/* include/uapi/linux/futex.h */
struct waitv_entry {
	__u64 value;
	__u64 address;
	__u32 flags;
	__u32 reserved;
};

/* Cheap, for it is asked at every system call: what passes may still be another call, of the other word size. */
static __always_inline bool may_be_futex_call(long id)
{
	return id == NR_FUTEX || id == NR_FUTEX_32 || id == NR_FUTEX_TIME64_32 || id == NR_FUTEX_WAITV ||
	       (id >= NR_FUTEX_WAKE && id <= NR_FUTEX_REQUEUE) || id == NR_YIELD || id == NR_YIELD_32;
}

static __always_inline bool is_futex_call(long id, bool compat)
{
	return compat ? id != NR_FUTEX && id != NR_YIELD
		      : id != NR_FUTEX_32 && id != NR_FUTEX_TIME64_32 && id != NR_YIELD_32;
}

static __always_inline bool is_yield(long id)
{
	return id == NR_YIELD || id == NR_YIELD_32;
}

/* A call of a 32-bit task, or by a 64-bit task through the 32-bit entry. */
static __always_inline bool is_compat(void)
{
	struct task_struct *task = bpf_get_current_task_btf();

#if defined(__TARGET_ARCH_x86)
	return task->thread_info.status & 2; /* TS_COMPAT */
#else
	return task->thread_info.flags >> 22 & 1; /* TIF_32BIT */
#endif
}

static __always_inline long call_number(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->orig_ax;
#else
	return regs->syscallno;
#endif
}

static __always_inline __u64 call_argument(struct pt_regs *regs, bool compat, int n)
{
#if defined(__TARGET_ARCH_x86)
	switch (n) {
	case 0:
		return compat ? (__u32)regs->bx : regs->di;
	case 1:
		return compat ? (__u32)regs->cx : regs->si;
	case 2:
		return compat ? (__u32)regs->dx : regs->dx;
	case 3:
		return compat ? (__u32)regs->si : regs->r10;
	default:
		return compat ? (__u32)regs->di : regs->r8;
	}
#else
	return n ? regs->regs[n] : regs->orig_x0;
#endif
}

static __always_inline void read_entry(struct pt_regs *regs, bool compat, __u32 index, struct futex_call *call)
{
	struct waitv_entry entry = {};

	bpf_probe_read_user(&entry, sizeof(entry), (void *)(call_argument(regs, compat, 0) + index * sizeof(entry)));
	call->address = entry.address;
	call->value = entry.value;
	call->flags |= entry.flags & FUTEX_PRIVATE ? 0 : FUTEX_SHARED;
}

static __always_inline void read_call(struct pt_regs *regs, long id, bool compat, struct futex_call *call)
{
	__u32 flags;

	if (is_yield(id)) {
		call->op = FUTEX_OP_YIELD;
		call->address = FUTEX_YIELD_ADDRESS;
		return;
	}
	call->address = call_argument(regs, compat, 0);
	if (id == NR_FUTEX_WAITV) {
		call->op = FUTEX_OP_WAITV;
		read_entry(regs, compat, 0, call);
		if (call_argument(regs, compat, 3))
			call->flags |= FUTEX_TIMED;
		return;
	} else if (id == NR_FUTEX_REQUEUE) {
		call->op = FUTEX_OP_REQUEUE2;
		read_entry(regs, compat, 0, call);
		return;
	} else if (id == NR_FUTEX_WAIT) {
		call->op = FUTEX_OP_WAIT2;
		call->value = call_argument(regs, compat, 1);
		flags = call_argument(regs, compat, 3);
		if (call_argument(regs, compat, 4))
			call->flags |= FUTEX_TIMED;
	} else if (id == NR_FUTEX_WAKE) {
		call->op = FUTEX_OP_WAKE2;
		flags = call_argument(regs, compat, 3);
	} else {
		flags = call_argument(regs, compat, 1);
		call->op = flags & FUTEX_COMMANDS;
		call->value = call_argument(regs, compat, 2);
		if (FUTEX_WAIT_OPS & FUTEX_BIT(call->op) && call_argument(regs, compat, 3))
			call->flags |= FUTEX_TIMED;
	}
	if (!(flags & FUTEX_PRIVATE))
		call->flags |= FUTEX_SHARED;
}

#endif /* FUTEX_CALL_BPF_H */
