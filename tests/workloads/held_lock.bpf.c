// SPDX-License-Identifier: GPL-2.0
/*
 * Runs at the entry of a kernel function that is called with a lock held, and for
 * one task keeps it there: until the waiters have said that they go for the
 * lock, and hold_ns longer.
 */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "held_lock.h"

#define MOST_TURNS  (1u << 23) /* of bpf_loop(), since 5.17 */
#define DEADLINE_NS 200000000ull
#define LOOP_STOP   1
#define LOOP_ON     0

__u32 holder;  /* tid */
__u32 waiters; /* how many say that they go */
__u64 hold_ns;
__u32 holds_of_round = 1;
__u32 armed;        /* by the holder: holds to come of this round */
__u64 rounds;       /* begun: a round is a system call of the holder */
__u32 by_interrupt; /* a hold is ended by an interrupt that the program raises after hold_ns */
__u32 going;        /* waiters of this hold that go for the lock */
__u32 back;         /* and that had it */
__u64 holding;      /* holds begun */
struct hold holds[MOST_HOLDS];

/* An entry wakes whoever polls it, by an irq_work: an interrupt of the CPU to itself. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 4096);
} raiser SEC(".maps");

__u32 raised;         /* in wait for that interrupt */
__u64 interrupted_ns; /* when its handler was entered; 0: not yet */

struct turn {
	__u64 begin_ns;
	__u64 all_going_ns;
	__u64 now_ns;
};

static long spin(__u32 index, void *context)
{
	struct turn *turn = context;

	turn->now_ns = bpf_ktime_get_ns();
	if (!turn->all_going_ns && *(volatile __u32 *)&going >= waiters)
		turn->all_going_ns = turn->now_ns;
	if (turn->all_going_ns && turn->now_ns - turn->all_going_ns >= hold_ns) {
		if (!by_interrupt || *(volatile __u64 *)&interrupted_ns)
			return LOOP_STOP;
		if (!raised) {
			raised = 1;
			bpf_ringbuf_output(&raiser, &index, sizeof(index), BPF_RB_FORCE_WAKEUP);
		}
	}
	return turn->now_ns - turn->begin_ns < DEADLINE_NS ? LOOP_ON : LOOP_STOP;
}

static __always_inline int keep(void)
{
	struct hold *hold = &holds[holding & (MOST_HOLDS - 1)];
	struct turn turn = {};

	if ((__u32)bpf_get_current_pid_tgid() != holder || !armed)
		return 0;
	if (armed == holds_of_round)
		__sync_fetch_and_add(&rounds, 1);
	armed--;
	raised = 0;
	interrupted_ns = 0;
	turn.begin_ns = bpf_ktime_get_ns();
	__sync_fetch_and_add(&holding, 1);
	bpf_loop(MOST_TURNS, spin, &turn, 0);
	hold->begin_ns = turn.begin_ns;
	hold->all_going_ns = turn.all_going_ns;
	hold->end_ns = turn.now_ns;
	hold->interrupted_ns = interrupted_ns;
	raised = 0;
	return 0;
}

/* The holder's interrupt, entered while the holder is stopped in keep(). */
SEC("?tp_btf/irq_work_entry")
int note_interrupt(void *context)
{
	if (raised && !interrupted_ns && (__u32)bpf_get_current_pid_tgid() == holder)
		interrupted_ns = bpf_ktime_get_ns();
	return 0;
}

/* The target is set at load. */
SEC("?fentry/wake_q_add_safe")
int keep_by_fentry(void *context)
{
	return keep();
}

/* Where the kernel has no fentry. */
SEC("?kprobe")
int keep_by_kprobe(void *context)
{
	return keep();
}

char LICENSE[] SEC("license")
= "GPL";
