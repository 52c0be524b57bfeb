// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "clocksource/clock_reads.h"
#include "futex/futexes.h"
#include "ptrace/ptrace_waits.h"
#include "memory/live_memory.h"
#include "lockline.skel.h"
#include "cli/message.h"
#include "probes/probes.h"
#include "session/summary.h"
#include "watch/watch.h"

#define TASK_FILTER_WORDS (1u << 16)

/* The first sampling period, until the rate of waits is known. */
#define FIRST_SAMPLE_PERIOD 256

static int verbose_level;

static int print_libbpf(enum libbpf_print_level level, const char *format, va_list arguments)
{
	/* libbpf's own lines are for -v; what fails is told in ours. */
	if (verbose_level < 1 || (level == LIBBPF_DEBUG && verbose_level < 2))
		return 0;
	return vfprintf(stderr, format, arguments);
}

static void set_bit(struct maps *maps, __u32 base, __u32 id)
{
	__u64 *word = (__u64 *)maps->task_filter.data + base + (id >> 6 & (TASK_FILTER_WORDS - 1));

	__atomic_fetch_or(word, 1ull << (id & 63), __ATOMIC_SEQ_CST);
}

void probes_follow(struct probes *probes, __u32 tgid)
{
	set_bit(&probes->maps, 0, tgid);
}

bool probes_followed(const struct probes *probes, __u32 tgid)
{
	const __u64 *word = (__u64 *)probes->maps.task_filter.data + (tgid >> 6 & (TASK_FILTER_WORDS - 1));

	return __atomic_load_n(word, __ATOMIC_SEQ_CST) >> (tgid & 63) & 1;
}

/*
 * Mutex waits begin as spinning and may end as sleeping: both kinds are let in for
 * either.  BPF's own spinlocks pass the tracepoint as spinlocks.
 */
static __u32 begin_kinds(__u32 kinds)
{
	__u32 mutex = 1u << KIND_MUTEX | 1u << KIND_MUTEX_SPIN;

	if (kinds & 1u << KIND_RQSPINLOCK)
		kinds |= 1u << KIND_SPINLOCK;
	return kinds & mutex ? kinds | mutex : kinds;
}

static bool cpu_wanted(const struct options *options, __u32 cpu)
{
	for (size_t i = 0; i < options->cpus.count; i++)
		if (options->cpus.ids[i] == cpu)
			return true;
	return !options->cpus.count;
}

static void set_states(struct probes *probes, const struct options *options, const struct sizing *sizing, __u32 flags)
{
	__u32 period = options->sample_period ?: FIRST_SAMPLE_PERIOD;

	for (__u32 cpu = 0; cpu < sizing->cpus; cpu++) {
		struct cpu_state *state = maps_cpu(&probes->maps, cpu);

		state->sample_mask = period - 1;
		state->row_base = cpu * sizing->rows;
		state->named_rows = sizing->named_rows;
		state->flags = flags;
		/* Who asks for a period gets it. */
		state->stack_tokens = options->sample_period ? ~0u : STACK_TOKENS;
		state->threshold_ns = options->threshold_ns;
	}
	for (size_t i = 0; i < options->pids.count; i++)
		set_bit(&probes->maps, 0, options->pids.ids[i]);
	for (size_t i = 0; i < options->tids.count; i++)
		set_bit(&probes->maps, TASK_FILTER_WORDS, options->tids.ids[i]);
}

/* The length of a jiffy is the resolution of the coarse clocks (kernel/time/posix-timers.c, 5.19 to 7.2). */
static int set_coarse_clock(struct lockline_bpf *bpf)
{
	LIBBPF_OPTS(bpf_test_run_opts, run);
	struct timespec jiffy;
	int err = bpf_prog_test_run_opts(bpf_program__fd(bpf->progs.current_jiffy), &run);

	bpf->bss->coarse_base_ns = clock_ns(CLOCK_MONOTONIC_COARSE);
	clock_getres(CLOCK_MONOTONIC_COARSE, &jiffy);
	bpf->bss->coarse_base_jiffies = run.retval;
	bpf->bss->jiffy_ns = jiffy.tv_nsec;
	return err;
}

/*
 * In the order of attaching: ends before begins, since a begin whose end was
 * not seen would be a wait without an end.
 */
static int choose(struct lockline_bpf *bpf, const struct plan *plan, bool follow, struct choice choices[PROBE_PROGRAMS])
{
	const char *spin = plan->spin_kprobe ? NULL : plan->spin_slow_path;
	const char *kprobe = plan->spin_kprobe ? plan->spin_slow_path : NULL;
	const struct choice table[] = {
		{bpf->progs.process_fork, follow, SIGNAL_PROCESS_FOLLOWING, NULL},
		{bpf->progs.process_free, follow, SIGNAL_PROCESS_FOLLOWING, NULL},
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
	int count = sizeof(table) / sizeof(table[0]);

	memcpy(choices, table, sizeof(table));
	count = release_choices(bpf, plan, choices, count);
	count = context_choices(bpf, plan, choices, count);
	return signal_choices(bpf, plan, choices, count);
}

static bool is_kprobe(const struct bpf_program *program)
{
	return bpf_program__type(program) == BPF_PROG_TYPE_KPROBE;
}

static int prepare(const struct choice *choices, int count)
{
	int err = 0;

	for (int i = 0; !err && i < count; i++) {
		err = bpf_program__set_autoload(choices[i].program, program_wanted(choices, count, choices[i].program));
		/* A kprobe gets its function when it is attached. */
		if (!err && choices[i].wanted && choices[i].target && !is_kprobe(choices[i].program))
			err = bpf_program__set_attach_target(choices[i].program, 0, choices[i].target);
	}
	return err;
}

static void add_program(struct probes *probes, const struct choice *choice)
{
	int fd = bpf_program__fd(choice->program);

	probes->attached[probes->attached_count++].choice = *choice;
	for (int i = 0; i < probes->program_count; i++)
		if (probes->programs[i].fd == fd)
			return;
	probes->programs[probes->program_count++] = (struct own_program){
		.name = bpf_program__name(choice->program),
		.signal = signal_name(choice->signal),
		.fd = fd,
	};
}

int probes_load(struct probes *probes, const struct options *options, const struct plan *plan,
		const struct sizing *sizing, const struct cgroup_target *cgroup, int hierarchy)
{
	bool tasks = options->pids.count || options->tids.count || (options->command_argv && !options->all);
	bool follow = options->pids.count || (options->command_argv && !options->all);
	struct choice choices[PROBE_PROGRAMS];
	struct lockline_bpf *bpf;
	int count, err;

	verbose_level = options->verbose;
	libbpf_set_print(print_libbpf);
	*probes = (struct probes){0};
	probes->bpf = bpf = lockline_bpf__open();
	if (!bpf) {
		err = -errno;
		message("cannot open the BPF object: %s", strerror(-err));
		return err;
	}
	bpf->rodata->ring_mask = sizing->ring_events - 1;
	bpf->rodata->sleep_mask = sizing->sleep_slots - 1;
	bpf->rodata->wait_kinds = options->kinds;
	bpf->rodata->resilient_text = plan->resilient_text;
	bpf->rodata->resilient_text_size = plan->resilient_text_size;
	bpf->rodata->user_stacks = options->user_stacks;
	bpf->rodata->filter_tasks = tasks;
	bpf->rodata->filter_cgroup = cgroup ? cgroup->id : 0;
	bpf->rodata->cgroup_v1_subsys = hierarchy;
	bpf_program__set_autoload(bpf->progs.resolve_slab, plan->slab_kfunc);
	bpf->rodata->context_mask = sizing->ring_context ? sizing->ring_context - 1 : 0;
	bpf->rodata->context_cpus = sizing->cpus;
	bpf->rodata->holding_mask = sizing->ring_holdings ? sizing->ring_holdings - 1 : 0;
	bpf->rodata->record_holdings = options->holders;
	bpf->rodata->count_waiters = options->holders && plan->spinlock_mode == SPINLOCK_TEST_AND_SET;
	bpf->rodata->measure_holds = plan->release_functions & SPIN_LOCKS;
	count = choose(bpf, plan, follow, choices);
	err = prepare(choices, count);
	err = err ?: maps_resize(bpf, sizing, tasks);
	err = err ?: futexes_resize(bpf, sizing, plan->futex);
	err = err ?: ptrace_waits_resize(bpf, sizing->cpus, plan->inactive_turns);
	err = err ?: clock_reads_resize(bpf, sizing->cpus, plan->clock_read);
	err = err ?: watch_resize(bpf, sizing->cpus, options->command == COMMAND_WATCH);
	err = err ?: live_memory_resize(bpf, sizing->cpus, plan->hitm);
	if (!err)
		err = lockline_bpf__load(bpf);
	if (err) {
		message("the kernel refused the programs: %s; %s", strerror(-err),
			err == -EPERM || err == -EACCES
				? "root or CAP_BPF and CAP_PERFMON are needed"
				: "run with -v for the verifier's words, and see lockline doctor");
		goto out;
	}
	err = maps_open(&probes->maps, bpf, sizing);
	if (err) {
		message("cannot map the shared arrays: %s", strerror(-err));
		goto out;
	}
	err = plan->clock == CLOCK_COARSE ? set_coarse_clock(bpf) : 0;
	if (err) {
		message("cannot read the kernel's jiffies: %s", strerror(-err));
		goto out;
	}
	set_states(probes, options, sizing,
		   (tasks || cgroup ? STATE_FILTERED : 0) | (plan->clock == CLOCK_COARSE ? STATE_COARSE_CLOCK : 0));
	for (int i = 0; i < count; i++)
		if (choices[i].wanted)
			add_program(probes, &choices[i]);
	return 0;
out:
	probes_close(probes);
	return err;
}

/* Whether a signal was given up: its entry program must not run without the exit program. */
static bool given_up(const struct plan *plan, enum signal signal)
{
	return plan_probe(plan, signal)->state == PROBE_UNAVAILABLE;
}

static struct bpf_link *attach(const struct choice *choice)
{
	/* Section "kretprobe" alone attaches at return. */
	bool at_return = !strncmp(bpf_program__section_name(choice->program), "?kret", 5) ||
			 !strncmp(bpf_program__section_name(choice->program), "kret", 4);

	return is_kprobe(choice->program) ? bpf_program__attach_kprobe(choice->program, at_return, choice->target)
					  : bpf_program__attach(choice->program);
}

int probes_attach_one(struct attached *attached)
{
	attached->link = attach(&attached->choice);
	return attached->link ? 0 : -errno;
}

int probes_attach(struct probes *probes, struct plan *plan)
{
	for (int i = 0; i < probes->attached_count; i++) {
		struct attached *attached = &probes->attached[i];
		const char *name = bpf_program__name(attached->choice.program);
		enum signal signal = attached->choice.signal;
		int err;

		if (given_up(plan, signal))
			continue;
		err = probes_attach_one(attached);
		if (!err)
			continue;
		if (signal == SIGNAL_LOCK_WAITS) {
			message("cannot attach %s: %s; see lockline doctor", name, strerror(-err));
			probes_detach(probes);
			return err;
		}
		message("cannot attach %s: %s; the recording goes on without: %s", name, strerror(-err),
			signal_name(signal));
		plan_give_up(plan, signal, "the kernel refuses to attach its program", err);
	}
	/* What was attached for a signal before it was given up would run for nothing. */
	for (int i = 0; i < probes->attached_count; i++) {
		if (!given_up(plan, probes->attached[i].choice.signal))
			continue;
		bpf_link__destroy(probes->attached[i].link);
		probes->attached[i].link = NULL;
	}
	return 0;
}

void probes_start(struct probes *probes, const struct options *options, __u32 cpus)
{
	for (__u32 cpu = 0; cpu < cpus; cpu++)
		__atomic_store_n(&maps_cpu(&probes->maps, cpu)->begin_kinds,
				 cpu_wanted(options, cpu) ? begin_kinds(options->kinds) : 0, __ATOMIC_RELAXED);
}

void probes_stop(struct probes *probes, __u32 cpus)
{
	for (__u32 cpu = 0; cpu < cpus; cpu++)
		__atomic_store_n(&maps_cpu(&probes->maps, cpu)->begin_kinds, 0, __ATOMIC_RELAXED);
}

void probes_detach(struct probes *probes)
{
	for (int i = probes->attached_count - 1; i >= 0; i--) {
		bpf_link__destroy(probes->attached[i].link);
		probes->attached[i].link = NULL;
	}
}

void probes_close(struct probes *probes)
{
	probes_detach(probes);
	maps_close(&probes->maps);
	lockline_bpf__destroy(probes->bpf);
	probes->bpf = NULL;
}
