// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "lockline.skel.h"
#include "cli/message.h"
#include "names/core_types.h"
#include "probes/kprobe_misses.h"
#include "probes/probes.h"
#include "probes/sampling.h"

#define TASK_FILTER_WORDS (1u << 16)

static int verbose_level;

static int print_libbpf(enum libbpf_print_level level, const char *format, va_list arguments)
{
	/* libbpf's own lines are for -v; what fails is reported in ours. */
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

/* Whether waits may take the short way, and what else is asked for (lockline.h). */
static __u32 flags_of(const struct probes *probes, __u32 kinds)
{
	const struct lockline_bpf *bpf = probes->bpf;
	bool plain = !bpf->rodata->count_waiters && begin_kinds(kinds) == kinds &&
		     !(maps_cpu(&probes->maps, 0)->flags & STATE_COARSE_CLOCK);

	return begin_flags(plain, bpf->rodata->filtered, bpf->rodata->record_holdings, bpf->rodata->record_futexes);
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
	__u32 period = sampling_first_period(options);

	for (__u32 cpu = 0; cpu < sizing->cpus; cpu++) {
		struct cpu_state *state = maps_cpu(&probes->maps, cpu);

		state->sample_mask = period - 1;
		state->row_base = cpu * sizing->rows;
		state->sleep_bits = __builtin_ctz(sizing->sleep_slots);
		state->named_rows = sizing->named_rows;
		state->flags = flags;
		state->stack_tokens = sampling_tokens(options);
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

/* In the order of attaching: who is followed first, then what each subsystem has. */
static int choose(struct lockline_bpf *bpf, const struct ground *ground, const struct subsystem *const *subsystems,
		  int subsystem_count, struct choice choices[PROBE_PROGRAMS])
{
	const struct options *options = ground->options;
	bool follow = options->pids.count || (options->command_argv && !options->all);
	int count = 0;

	choices[count++] = (struct choice){bpf->progs.process_fork, follow, SIGNAL_PROCESS_FOLLOWING, NULL};
	choices[count++] = (struct choice){bpf->progs.process_free, follow, SIGNAL_PROCESS_FOLLOWING, NULL};
	for (int i = 0; i < subsystem_count; i++)
		if (subsystems[i]->choices)
			count = subsystems[i]->choices(bpf, ground->plan, choices, count);
	return count;
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

/* Before loading: constants, sizes, what is loaded. */
static int configure(struct lockline_bpf *bpf, const struct ground *ground, const struct subsystem *const *subsystems,
		     int count, const struct choice *choices, int choice_count)
{
	int err = prepare(choices, choice_count);

	err = err ?: bpf_program__set_autoload(bpf->progs.resolve_slab, ground->plan->slab_kfunc);
	err = err ?: maps_resize(bpf, ground->sizing, bpf->rodata->filter_tasks);
	for (int i = 0; !err && i < count; i++)
		if (subsystems[i]->configure)
			err = subsystems[i]->configure(bpf, ground);
	return err;
}

static void tell_refusal(int err)
{
	message("the kernel refused lockline's programs: %s; %s", strerror(-err),
		err == -EPERM || err == -EACCES
			? "root or CAP_BPF and CAP_PERFMON are needed"
			: "run with -v to see the verifier's messages, and see lockline doctor");
}

/* What is shared with the loaded programs. */
static int share(struct probes *probes, const struct ground *ground)
{
	const bool coarse = ground->plan->clock == CLOCK_COARSE;
	struct lockline_bpf *bpf = probes->bpf;
	bool by_task = bpf->rodata->filter_tasks || bpf->rodata->filter_cgroup;
	int err = maps_open(&probes->maps, bpf, ground->sizing);

	if (err) {
		message("cannot map the shared arrays: %s", strerror(-err));
		return err;
	}
	err = coarse ? set_coarse_clock(bpf) : 0;
	if (err) {
		message("cannot read the kernel's jiffies: %s", strerror(-err));
		return err;
	}
	set_states(probes, ground->options, ground->sizing,
		   (by_task ? STATE_FILTERED : 0) | (coarse ? STATE_COARSE_CLOCK : 0));
	return 0;
}

/*
 * core: a file for the types that the programs are fitted to, which is filled before they are loaded; -1: none, and
 * libbpf takes the kernel's.  A type that vmlinux lacks it then looks for in the modules' BTF, which wants
 * CAP_SYS_ADMIN.  Without it the path of vmlinux's BTF, given as if it were another, keeps libbpf from that.
 */
static struct lockline_bpf *open_programs(int core)
{
	LIBBPF_OPTS(bpf_object_open_opts, options);
	char path[64];
	__u32 id;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", core);
	if (core >= 0)
		options.btf_custom_path = path;
	else if (bpf_btf_get_next_id(0, &id) == -EPERM)
		options.btf_custom_path = "/sys/kernel/btf/vmlinux";
	return lockline_bpf__open_opts(&options);
}

static void close_types(int core)
{
	if (core >= 0)
		close(core);
}

int probes_load(const struct ground *ground, const struct subsystem *const *subsystems, int count,
		const struct cgroup_target *cgroup, int hierarchy)
{
	const struct options *options = ground->options;
	struct choice choices[PROBE_PROGRAMS];
	struct probes *probes = ground->probes;
	struct lockline_bpf *bpf;
	int choice_count, err, core = memfd_create("types", MFD_CLOEXEC);

	verbose_level = options->verbose;
	libbpf_set_print(print_libbpf);
	*probes = (struct probes){0};
	probes->bpf = bpf = open_programs(core);
	if (!bpf) {
		err = -errno;
		close_types(core);
		message("cannot open the BPF object: %s", strerror(-err));
		return err;
	}
	bpf->rodata->filter_tasks =
		options->pids.count || options->tids.count || (options->command_argv && !options->all);
	bpf->rodata->filter_cgroup = cgroup ? cgroup->id : 0;
	bpf->rodata->filtered = bpf->rodata->filter_tasks || bpf->rodata->filter_cgroup;
	bpf->rodata->cgroup_v1_subsys = hierarchy;
	choice_count = choose(bpf, ground, subsystems, count, choices);
	err = configure(bpf, ground, subsystems, count, choices, choice_count);
	if (core >= 0)
		err = err ?: core_types_write(ground->types, bpf_object__btf(bpf->obj), core);
	err = err ?: lockline_bpf__load(bpf);
	close_types(core);
	if (err)
		tell_refusal(err);
	err = err ?: share(probes, ground);
	if (err) {
		probes_close(probes);
		return err;
	}
	for (int i = 0; i < choice_count; i++)
		if (choices[i].wanted)
			add_program(probes, &choices[i]);
	return 0;
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
	attached->misses_past = attached->misses;
	attached->misses_before = 0;
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

void probes_read_misses(struct probes *probes)
{
	for (int i = 0; i < probes->attached_count; i++) {
		struct attached *attached = &probes->attached[i];
		__u64 misses;

		if (!attached->link || !is_kprobe(attached->choice.program))
			continue;
		attached->uncounted = kprobe_misses(bpf_link__fd(attached->link), &misses);
		if (misses > attached->misses_before)
			attached->misses = attached->misses_past + misses - attached->misses_before;
	}
}

__u64 probes_misses(const struct probes *probes, const char *program)
{
	__u64 misses = 0;

	for (int i = 0; i < probes->attached_count; i++)
		if (!strcmp(bpf_program__name(probes->attached[i].choice.program), program))
			misses += probes->attached[i].misses;
	return misses;
}

/* Programs of perf events are skipped while another kprobe's or event's runs: never counted, up to 7.2. */
static bool is_uncounted(const struct probes *probes, const struct own_program *program)
{
	struct bpf_prog_info info = {};
	__u32 size = sizeof(info);

	for (int i = 0; i < probes->attached_count; i++)
		if (probes->attached[i].uncounted &&
		    !strcmp(bpf_program__name(probes->attached[i].choice.program), program->name))
			return true;
	return !bpf_obj_get_info_by_fd(program->fd, &info, &size) && info.type == BPF_PROG_TYPE_PERF_EVENT;
}

__u32 probes_uncounted(const struct probes *probes)
{
	__u32 programs = 0;

	for (int i = 0; i < probes->program_count; i++)
		programs += is_uncounted(probes, &probes->programs[i]);
	return programs;
}

void probes_start(struct probes *probes, const struct options *options, __u32 cpus)
{
	__u32 kinds = options->kinds & ((1u << KIND_COUNT) - 1);

	probes_read_misses(probes);
	for (int i = 0; i < probes->attached_count; i++) {
		probes->attached[i].misses_before = probes->attached[i].misses;
		probes->attached[i].misses = 0;
	}
	for (__u32 cpu = 0; cpu < cpus; cpu++)
		__atomic_store_n(&maps_cpu(&probes->maps, cpu)->begin_kinds,
				 cpu_wanted(options, cpu) ? begin_kinds(kinds) | flags_of(probes, kinds) : 0,
				 __ATOMIC_RELAXED);
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
