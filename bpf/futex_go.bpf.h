/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Goroutines that wait for mutexes, wait groups and conditions, and at channels (record --futex --go): uprobes at the
 * functions through which Go's sync asks the runtime to park one, and behind their call of runtime.semacquire1(); at the
 * call of runtime.gopark() in runtime.chansend(), runtime.chanrecv(), runtime.selectgo() and
 * sync.runtime_notifyListWait(), and behind it.  Never at return: Go moves its stacks.  A goroutine parks without its
 * thread, so that it is followed by the pointer to itself that Go keeps in a register; what it waits for is counted in a
 * futex's row, at the address of the mutex or condition, of the channel's own lock, of the channel (select, and one that
 * receives), or of the call (wait group, and a pool of a library).
 *
 * Who wakes one of those that sync parked does so in runtime.readyWithTime(), who sends to one that waits to receive in
 * runtime.send(), who receives from one that waits to send in runtime.recv(): an argument names the goroutine.
 *
 * Part of futex.bpf.c: it has the rows and the events.
 */
#ifndef FUTEX_GO_BPF_H
#define FUTEX_GO_BPF_H

SHARED_ARRAY(go_slots, struct go_slot);
SHARED_ARRAY(go_sites, struct go_site);

struct go_stack {
	__u64 frames[STACK_FRAMES];
	__u64 count;
};

/* Since Go 1.17, src/cmd/compile/abi-internal.md: the goroutine, and the first argument. */
static __always_inline __u64 goroutine_of(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->r14;
#else
	return regs->regs[28];
#endif
}

static __always_inline __u64 go_argument(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->ax;
#else
	return regs->regs[0];
#endif
}

static __always_inline __u64 go_second_argument(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->bx;
#else
	return regs->regs[1];
#endif
}

static __always_inline __u64 go_fourth_argument(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->di;
#else
	return regs->regs[3];
#endif
}

static __always_inline __u64 go_fifth_argument(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->si;
#else
	return regs->regs[4];
#endif
}

/* A bool is the low byte of its register. */
static __always_inline __u8 go_sixth_argument(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->r8;
#else
	return regs->regs[5];
#endif
}

static __always_inline __u64 go_frame(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->bp;
#else
	return regs->regs[29];
#endif
}

static __always_inline __u64 go_place(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	return regs->ip;
#else
	return regs->pc;
#endif
}

/* Where a function begins. */
static __always_inline __u64 go_return_address(struct pt_regs *regs)
{
#if defined(__TARGET_ARCH_x86)
	__u64 address = 0;

	bpf_probe_read_user(&address, sizeof(address), (void *)regs->sp);
	return address;
#else
	return regs->regs[30];
#endif
}

static __noinline struct go_slot *go_slot_of(__u64 key, bool claim)
{
	for (int probe = 0; probe < GO_PROBES; probe++) {
		__u32 index = ((key >> 32) + probe) & (GO_SLOTS - 1);
		struct go_slot *slot = bpf_map_lookup_elem(&go_slots, &index);

		if (slot && slot->key == key)
			return slot;
	}
	for (int probe = 0; claim && probe < GO_PROBES; probe++) {
		__u32 index = ((key >> 32) + probe) & (GO_SLOTS - 1);
		struct go_slot *slot = bpf_map_lookup_elem(&go_slots, &index);

		if (slot && !slot->key && !__sync_val_compare_and_swap(&slot->key, 0, key))
			return slot;
	}
	return NULL;
}

/* Each program's way in; NULL: nothing is recorded of this. */
static __always_inline struct cpu_state *go_recorded(struct futex_state *state)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct cpu_state *waits = bpf_map_lookup_elem(&cpu_states, &cpu);

	if (!state)
		return NULL;
	__sync_fetch_and_add(&state->traps, 1);
	return waits && recorded(waits, bpf_get_current_pid_tgid()) ? waits : NULL;
}

static __always_inline int go_begin(struct pt_regs *regs, __u64 address, __u32 op)
{
	struct futex_state *state = futex_state_of(bpf_get_smp_processor_id());
	struct cpu_state *waits = go_recorded(state);
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct go_slot *slot;

	if (!waits)
		return 0;
	/* It may have a slot: of a wait whose end was not seen; and a function whose check of the stack is not known may
	 * begin twice. */
	slot = go_slot_of(futex_row_key(tgid, goroutine_of(regs)), true);
	if (!slot) {
		count_futex(state, FUTEX_COUNT_GO_NO_SLOT);
		return 0;
	}
	*(volatile __u64 *)&slot->begin_ns = 0;
	slot->tgid = tgid;
	slot->address = address;
	slot->op = op;
	slot->ready_ns = 0;
	slot->begin_ns = clock_now(waits);
	return 0;
}

static __always_inline void go_stack_of(struct pt_regs *regs, struct go_stack *stack)
{
	long bytes = bpf_get_stack(regs, stack->frames, sizeof(stack->frames), BPF_F_USER_STACK);

	stack->count = bytes > 0 ? (__u64)bytes / sizeof(__u64) : 0;
}

/* The kernel's walk leaves out the caller of a function that has no frame yet. */
static __always_inline void go_stack_at_begin(struct pt_regs *regs, struct go_stack *stack)
{
	long bytes = bpf_get_stack(regs, stack->frames + 1, sizeof(stack->frames) - sizeof(__u64), BPF_F_USER_STACK);

	if (bytes < (long)sizeof(__u64))
		return;
	stack->frames[0] = stack->frames[1];
	stack->frames[1] = go_return_address(regs);
	stack->count = bytes / sizeof(__u64) + 1;
}

static __noinline int write_go_event(struct futex_state *state, struct go_slot *slot, struct go_stack *stack,
				     __u64 weights)
{
	struct futex_event *event;
	__u64 position;

	if (!state || !slot || !stack)
		return 0;
	event = begin_futex_event(state, weights, &position);
	if (!event)
		return 0;
	event->address = slot->address;
	event->wait_ns = slot->begin_ns;
	event->waker_tid = 0;
	event->value = 0;
	event->word = 0;
	event->owner = 0;
	event->op = slot->op;
	event->futex_tgid = slot->tgid;
	event->flags = slot->op == FUTEX_OP_GO_UNLOCK ? FUTEX_EVENT_WAKE : 0;
	event->user_frames = stack->count;
	__builtin_memcpy(event->user, stack->frames, sizeof(event->user));
	__sync_lock_test_and_set(&event->sequence, position + 1);
	return 0;
}

/* Of a stack that waits, or wakes, at an address; NULL: all places have something to tell. */
static __noinline struct go_site *go_site_of(__u64 key, __u64 now)
{
	__u32 first = bpf_get_smp_processor_id() * GO_SITES;

	for (int probe = 0; probe < GO_SITE_PROBES; probe++) {
		__u32 index = first + (((key >> 32) + probe) & (GO_SITES - 1));
		struct go_site *site = bpf_map_lookup_elem(&go_sites, &index);

		if (site && site->key == key)
			return site;
	}
	for (int probe = 0; probe < GO_SITE_PROBES; probe++) {
		__u32 index = first + (((key >> 32) + probe) & (GO_SITES - 1));
		struct go_site *site = bpf_map_lookup_elem(&go_sites, &index);
		__u64 other = site ? site->key : 0;

		if (site && go_site_is_free(site, now) &&
		    __sync_val_compare_and_swap(&site->key, other, key) == other) {
			site->next_ns = 0;
			site->count = 0;
			site->ns = 0;
			return site;
		}
	}
	return NULL;
}

static __always_inline __u64 go_site_key(const struct go_slot *slot, const struct go_stack *stack)
{
	__u64 key = futex_row_key(slot->tgid, slot->address) + slot->op;

	for (int i = 0; i < STACK_FRAMES; i++) {
		key = (key ^ stack->frames[i]) * 0x9e3779b97f4a7c15ull;
		key ^= key >> 29;
	}
	return key ? key : 1;
}

/* Counts a wait of so many ns, or a wake, at its site; what an event of it stands for, 0: there is none yet. */
static __always_inline __u64 go_site_weights(struct futex_state *state, struct futex_row *row,
					     const struct go_slot *slot, const struct go_stack *stack, __u64 now)
{
	struct go_site *site = go_site_of(go_site_key(slot, stack), now);

	if (!site)
		return takes_token(&state->go_tokens, &row->wait_samples, FUTEX_FEW_SAMPLES)
			       ? pack_weights(1, slot->begin_ns)
			       : 0;
	__sync_fetch_and_add(&site->count, 1);
	__sync_fetch_and_add(&site->ns, slot->begin_ns);
	if (now < site->next_ns)
		return 0;
	if (!takes_token(&state->go_tokens, &row->wait_samples, FUTEX_FEW_SAMPLES)) {
		site->next_ns = now;
		return 0;
	}
	site->next_ns = now + GO_SITE_NS;
	return pack_weights(__sync_lock_test_and_set(&site->count, 0), __sync_lock_test_and_set(&site->ns, 0));
}

/* begin_ns of the wait is how long it took from here on, ready_ns how long from the wake-up to the CPU (0: not known). */
static __noinline int go_record(struct pt_regs *regs, struct futex_state *state, struct go_slot *wait, __u64 now)
{
	__u64 weights, goroutine = goroutine_of(regs);
	struct go_stack stack = {};
	struct futex_row *row;

	if (!regs || !state || !wait)
		return 0;
	row = find_futex_row(state, bpf_get_smp_processor_id(), wait->tgid, wait->address);
	if (!row)
		return 0;
	if (!(row->ops & FUTEX_BIT(wait->op & 31)))
		__sync_fetch_and_or(&row->ops, FUTEX_BIT(wait->op & 31));
	__sync_fetch_and_add(&row->calls, 1);
	add_to_set(row->waiter_set, goroutine >> 6);
	if (wait->ready_ns)
		record_latency(row, wait->ready_ns);
	count_slept(row, wait->begin_ns);
	go_stack_of(regs, &stack);
	weights = go_site_weights(state, row, wait, &stack, now);
	if (weights)
		write_go_event(state, wait, &stack, weights);
	return 0;
}

SEC("?uprobe")
int go_lock_enter(struct pt_regs *regs)
{
	return go_begin(regs, go_argument(regs) - GO_MUTEX_SEMAPHORE, FUTEX_OP_GO_LOCK);
}

SEC("?uprobe")
int go_write_enter(struct pt_regs *regs)
{
	return go_begin(regs, go_argument(regs) - GO_WRITER_SEMAPHORE, FUTEX_OP_GO_LOCK);
}

SEC("?uprobe")
int go_read_enter(struct pt_regs *regs)
{
	return go_begin(regs, go_argument(regs) - GO_READER_SEMAPHORE, FUTEX_OP_GO_LOCK);
}

/* At the call of gopark(): its second argument is the channel's lock.  There is none where the channel is nil. */
SEC("?uprobe")
int go_send_enter(struct pt_regs *regs)
{
	__u64 lock = go_second_argument(regs);

	return lock ? go_begin(regs, lock, FUTEX_OP_GO_SEND) : 0;
}

static __always_inline bool go_has_buffer(const __u64 *channel)
{
	return channel[1] >= GO_CHANNEL_BUFFER && channel[1] >> 32 == 0 && channel[2];
}

/*
 * The channel that has this lock, if it has a buffer; 0: it has none.  It is empty where one waits to receive.  At no
 * other distance are there a 0, the size of a buffer and its address in turn: the 0 or the address speaks against it.
 * The nearest first: what lies before a channel may be no memory.
 */
static __noinline __u64 go_channel_of(__u64 lock)
{
	for (__u64 back = GO_CHANNEL_LOCK_LEAST; back <= GO_CHANNEL_LOCK_MOST; back += sizeof(back)) {
		__u64 words[3] = {};

		if (bpf_probe_read_user(words, sizeof(words), (void *)(lock - back)))
			return 0;
		if (!words[0] && go_has_buffer(words))
			return lock - back;
	}
	return 0;
}

/* At the call of gopark(), as where one sends.  The row is another one than that of those who send. */
SEC("?uprobe")
int go_receive_enter(struct pt_regs *regs)
{
	__u64 channel = go_channel_of(go_second_argument(regs));

	if (!channel) {
		go_recorded(futex_state_of(bpf_get_smp_processor_id()));
		return 0;
	}
	return go_begin(regs, channel, FUTEX_OP_GO_RECEIVE);
}

/* Groups come and go; the call of Wait() is the same each time.  The frame is still that of Wait(). */
SEC("?uprobe")
int go_group_enter(struct pt_regs *regs)
{
	__u64 address = 0;

	bpf_probe_read_user(&address, sizeof(address), (void *)(go_frame(regs) + sizeof(address)));
	return go_begin(regs, address ? address : go_argument(regs), FUTEX_OP_GO_GROUP);
}

/* At the call of gopark(), as where one sends. */
SEC("?uprobe")
int go_cond_enter(struct pt_regs *regs)
{
	return go_begin(regs, go_second_argument(regs) - GO_COND_LOCK, FUTEX_OP_GO_COND);
}

/* A place for a thread: no goroutine lies there. */
static __always_inline __u64 go_thread_key(__u64 pid_tgid)
{
	return futex_row_key(pid_tgid >> 32, 1ull << 63 | (__u32)pid_tgid);
}

/*
 * At the call of runtime.selectgo() in a library's function that waits there for one of a pool, and for nothing else: all
 * that wait so are one row, at that call.
 */
SEC("?uprobe")
int go_pool_enter(struct pt_regs *regs)
{
	return go_begin(regs, go_place(regs), FUTEX_OP_GO_POOL);
}

struct go_case {
	__u64 channel;
	__u64 element;
};

/* The first channel that a select would send to, and those it receives from come behind; a nil one is never ready. */
static __noinline __u64 go_sends_to(__u64 cases, __u64 sends)
{
	for (int i = 0; i < GO_SELECT_CASES && (__u64)i < sends; i++) {
		__u64 channel = 0;

		bpf_probe_read_user(&channel, sizeof(channel), (void *)(cases + i * sizeof(struct go_case)));
		if (channel)
			return channel;
	}
	return 0;
}

/* The first one with a buffer that a select receives from. */
static __noinline __u64 go_receives_from(__u64 cases, __u64 receives)
{
	for (int i = 0; i < GO_SELECT_CASES && (__u64)i < receives; i++) {
		__u64 channel = 0, words[3] = {};

		bpf_probe_read_user(&channel, sizeof(channel), (void *)(cases + i * sizeof(struct go_case)));
		if (channel && !bpf_probe_read_user(words, sizeof(words), (void *)channel) && go_has_buffer(words))
			return channel;
	}
	return 0;
}

/*
 * Where a select begins, its arguments are known; where it parks, that it waits.  Between the two it stays on its thread:
 * Go does not preempt its own runtime.
 */
SEC("?uprobe")
int go_select_enter(struct pt_regs *regs)
{
	struct futex_state *state = futex_state_of(bpf_get_smp_processor_id());
	__u64 sends = go_fourth_argument(regs), receives = go_fifth_argument(regs), to = 0, from = 0;
	__u64 cases = go_argument(regs), key = go_thread_key(bpf_get_current_pid_tgid());
	const bool blocks = go_sixth_argument(regs);
	struct go_slot *slot;

	if (!go_recorded(state))
		return 0;
	/* One that does not block never parks. */
	if (blocks)
		to = go_sends_to(cases, sends);
	if (blocks && !to)
		from = go_receives_from(cases + sends * sizeof(struct go_case), receives);
	slot = go_slot_of(key, to || from);
	if (slot) {
		slot->address = to ?: from;
		slot->op = to ? FUTEX_OP_GO_SELECT : FUTEX_OP_GO_RECEIVE;
	} else if (to || from) {
		count_futex(state, FUTEX_COUNT_GO_NO_SLOT);
	}
	return 0;
}

SEC("?uprobe")
int go_select_park(struct pt_regs *regs)
{
	struct go_slot *slot = go_slot_of(go_thread_key(bpf_get_current_pid_tgid()), false);
	__u64 channel = slot ? slot->address : 0;

	if (!channel) {
		go_recorded(futex_state_of(bpf_get_smp_processor_id()));
		return 0;
	}
	slot->address = 0;
	return go_begin(regs, channel, slot->op);
}

SEC("?uprobe")
int go_leave(struct pt_regs *regs)
{
	struct futex_state *state = futex_state_of(bpf_get_smp_processor_id());
	struct cpu_state *waits = go_recorded(state);
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	__u64 now, key = futex_row_key(tgid, goroutine_of(regs));
	struct go_slot *slot = go_slot_of(key, false), wait = {};

	/* No slot: it waited before the recording began. */
	if (!slot)
		return 0;
	wait.tgid = tgid;
	wait.address = slot->address;
	wait.op = slot->op;
	wait.begin_ns = slot->begin_ns;
	wait.ready_ns = slot->ready_ns;
	/* Whoever has the place next may not wait. */
	*(volatile __u64 *)&slot->begin_ns = 0;
	/* Recorded or not: its next wait may have no begin. */
	__sync_val_compare_and_swap(&slot->key, key, 0);
	if (!waits || !wait.begin_ns)
		return 0;
	now = clock_now(waits);
	/* A wake-up from before the wait is of the one before. */
	wait.ready_ns = wait.ready_ns >= wait.begin_ns && now > wait.ready_ns ? now - wait.ready_ns : 0;
	wait.begin_ns = now > wait.begin_ns ? now - wait.begin_ns : 0;
	go_record(regs, state, &wait, now);
	return 0;
}

/* One that waits is made ready.  A sudog begins with the goroutine. */
static __always_inline int go_made_ready(struct pt_regs *regs, __u64 sudog)
{
	struct futex_state *state = futex_state_of(bpf_get_smp_processor_id());
	struct cpu_state *waits = go_recorded(state);
	struct go_slot *slot, woken = {.tgid = bpf_get_current_pid_tgid() >> 32, .op = FUTEX_OP_GO_UNLOCK};
	__u64 goroutine = 0, weights;
	struct go_stack stack = {};
	struct futex_row *row;

	if (!waits || bpf_probe_read_user(&goroutine, sizeof(goroutine), (void *)sudog))
		return 0;
	/* No slot: it waited before the recording began. */
	slot = go_slot_of(futex_row_key(woken.tgid, goroutine), false);
	if (!slot || !slot->begin_ns)
		return 0;
	slot->ready_ns = clock_now(waits);
	woken.address = slot->address;
	row = find_futex_row(state, bpf_get_smp_processor_id(), woken.tgid, woken.address);
	if (!row)
		return 0;
	if (!(row->ops & FUTEX_BIT(FUTEX_OP_GO_UNLOCK)))
		__sync_fetch_and_or(&row->ops, FUTEX_BIT(FUTEX_OP_GO_UNLOCK));
	add_to_set(row->waker_set, goroutine_of(regs) >> 6);
	__sync_fetch_and_add(&row->wakes, 1);
	__sync_fetch_and_add(&row->tasks_woken, 1);
	go_stack_at_begin(regs, &stack);
	weights = go_site_weights(state, row, &woken, &stack, slot->ready_ns);
	if (weights)
		write_go_event(state, &woken, &stack, weights);
	return 0;
}

SEC("?uprobe")
int go_ready(struct pt_regs *regs)
{
	return go_made_ready(regs, go_argument(regs));
}

/* A value goes from one that sends to one that waits to receive, or from one that waits to send. */
SEC("?uprobe")
int go_hand_over(struct pt_regs *regs)
{
	return go_made_ready(regs, go_second_argument(regs));
}

#endif /* FUTEX_GO_BPF_H */
