// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "base/clock.h"
#include "perfdata/c2c_record.h"
#include "clocksource/clock_reads.h"
#include "kernel/cpu_pairs.h"
#include "session/descendants.h"
#include "waits/events.h"
#include "episodes/flight.h"
#include "futex/futexes.h"
#include "ptrace/ptrace_waits.h"
#include "holders/holders.h"
#include "lockline.skel.h"
#include "probes/measurement.h"
#include "memory/live_memory.h"
#include "cli/message.h"
#include "names/lock_names.h"
#include "names/symbols.h"
#include "names/user_symbols.h"
#include "kernel/plan_make.h"
#include "probes/probes.h"
#include "session/self_check.h"
#include "session/session.h"
#include "session/session_tasks.h"
#include "session/session_sizes.h"
#include "session/summary.h"
#include "waits/totals.h"
#include "watch/watch.h"
#include "session/workload.h"

/* The rings are read this often: a ring holds more than a CPU writes in it. */
#define POLL_NS 50000000ull
/* With --holders: turns are many. */
#define POLL_HOLDINGS_NS 10000000ull
/* Processes of -p and -t are looked for this often. */
#define LOOK_NS        1000000000ull
#define USER_PROCESSES 64

struct session {
	const struct options *options;
	struct plan plan;
	struct sizing sizing;
	struct cgroup_target cgroup;
	int hierarchy;
	struct symbols *symbols;
	struct user_symbols *users;
	struct lock_names *names;
	struct cgroup_paths *cgroups;
	struct recording *recording;
	struct probes probes;
	struct locks *locks;
	struct totals *totals;
	struct events *events;
	struct holders *holders;           /* NULL without --holders */
	struct futexes *futexes;           /* NULL without --futex */
	struct clock_reads *clock_reads;   /* NULL without --clocksource, or a device to read */
	struct ptrace_waits *ptrace_waits; /* NULL without --ptrace */
	struct flight flight;
	struct self_check *self_check; /* NULL without --self-check */
	struct own_cost *own_cost;
	struct workload workload;
	struct c2c_record *c2c;     /* NULL without --c2c */
	struct watch *watch;        /* NULL but for `watch` */
	struct live_memory *memory; /* NULL without --hitm, or a PMU for it */
	int signals;
	__s64 interval;
	__u64 begin_ns;
	__u64 interval_begin_ns;
	__u64 next_drain_ns;
	__u64 next_holdings_ns;
	__u64 stop_ns; /* when new waits were no longer let in; 0: they are */
	__u64 *begins; /* per CPU, at the last interval */
};

/* Ctrl-C, the end of COMMAND and the rest arrive by file descriptor; set before COMMAND is forked. */
static int catch_signals(struct session *session)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	/* nohup ignores it; a blocked signal would arrive all the same. */
	if (signal(SIGHUP, SIG_DFL) == SIG_IGN)
		signal(SIGHUP, SIG_IGN);
	else
		sigaddset(&set, SIGHUP);
	/* Ignored by the parent it would never tell of COMMAND's end. */
	signal(SIGCHLD, SIG_DFL);
	sigaddset(&set, SIGCHLD);
	if (session->options->flight || session->options->until)
		sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	session->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return session->signals < 0 ? -errno : 0;
}

/* What is not to be had without privileges, told before anything is written. */
static int check_plan(const struct session *session)
{
	if (session->plan.tp_btf_contention)
		return 0;
	message("%s cannot be recorded here: %s; see lockline doctor", signal_name(SIGNAL_LOCK_WAITS),
		plan_probe(&session->plan, SIGNAL_LOCK_WAITS)->reason);
	return -EOPNOTSUPP;
}

static int open_analysis(struct session *session)
{
	struct stacks stacks = {.recording = session->recording, .symbols = session->symbols};
	const struct maps *maps = &session->probes.maps;
	int err = lock_names_open(&session->names, session->symbols, session->probes.bpf);

	if (!err && (session->options->user_stacks || session->plan.futex))
		err = user_symbols_open(&session->users, USER_PROCESSES);
	stacks.users = session->users;
	if (!err)
		err = cgroup_paths_open(&session->cgroups, session->hierarchy);
	if (!err)
		err = locks_open(&session->locks, session->recording, session->names, session->sizing.locks);
	if (!err)
		err = totals_open(&session->totals, maps, session->recording, session->locks);
	if (!err)
		err = events_open(&session->events, maps, session->recording, session->locks, session->totals, &stacks,
				  session->cgroups, session->names);
	if (!err && session->options->holders)
		err = holders_open(&session->holders, maps, session->recording, session->locks, &stacks);
	if (!err && session->options->episodes)
		err = episodes_open(&session->flight.episodes, maps, session->recording, session->holders, &stacks,
				    session->names, session->options->threshold_ns);
	if (!err && flight_listens(&session->flight))
		events_listen(session->events, flight_on_wait, &session->flight);
	if (!err && session->plan.futex)
		err = futexes_open(&session->futexes, session->probes.bpf, &session->sizing, session->recording,
				   session->locks, &stacks);
	if (!err && session->plan.clock_read)
		err = clock_reads_open(&session->clock_reads, session->probes.bpf, session->sizing.cpus,
				       session->recording, &stacks, session->plan.clock_read);
	if (!err && session->plan.inactive_turns)
		err = ptrace_waits_open(&session->ptrace_waits, session->probes.bpf, session->sizing.cpus,
					session->recording);
	if (!err)
		err = live_memory_open(&session->memory, session->options, &session->plan, &session->probes,
				       session->recording, session->locks, session->symbols);
	session->begins = calloc(session->sizing.cpus, sizeof(*session->begins));
	if (!session->begins)
		err = err ?: -ENOMEM;
	if (err)
		message("cannot prepare the recording: %s", strerror(-err));
	return err;
}

static int open_session(struct session *session)
{
	const struct options *options = session->options;
	int err = catch_signals(session);

	if (!err)
		err = symbols_open(&session->symbols);
	if (err) {
		message("cannot read the kernel's symbols: %s", strerror(-err));
		return err;
	}
	err = plan_make(&session->plan, options, session->symbols);
	err = err ?: check_plan(session);
	err = err ?: session_check_namespace(options);
	err = err ?: session_check_processes(options);
	err = err ?: session_end_with(options);
	if (!err && options->cgroup)
		err = cgroup_resolve(options->cgroup, &session->cgroup);
	if (err)
		return err;
	session->hierarchy = !options->cgroup     ? cgroup_hierarchy()
			     : session->cgroup.v2 ? CGROUP_HIERARCHY_V2
						  : session->cgroup.subsys_id;
	err = sizing_for_options(options, session->plan.possible_cpus, session->plan.hitm, &session->sizing);
	if (!err)
		err = probes_load(&session->probes, options, &session->plan, &session->sizing,
				  options->cgroup ? &session->cgroup : NULL, session->hierarchy);
	/* After the programs, so that a refusal leaves no empty recording. */
	err = err ?: recording_create(&session->recording, options->output);
	err = err ?: flight_open(&session->flight, session->recording);
	return err ?: open_analysis(session);
}

/* Few stacks where waits are many, all of them where they are few: one in N, N by the CPU's rate. */
static void adapt_sampling(struct session *session, __u64 interval_ns)
{
	for (__u32 cpu = 0; cpu < session->sizing.cpus; cpu++) {
		struct cpu_state *state = maps_cpu(&session->probes.maps, cpu);
		__u64 begins = 0, rate;
		__u32 period = 1;

		for (int kind = 0; kind < KIND_COUNT; kind++)
			begins += state->begins[kind];
		begins += state->slow_paths;
		rate = (begins - session->begins[cpu]) * 1000000000ull / interval_ns;
		session->begins[cpu] = begins;
		while (period < SAMPLE_PERIOD_MAX && period * SAMPLES_PER_SECOND < rate)
			period *= 2;
		if (!session->options->sample_period && state->sample_mask != period - 1)
			__atomic_store_n(&state->sample_mask, period - 1, __ATOMIC_RELAXED);
	}
}

/* Allows some more stacks. */
static void refill_stack_tokens(struct session *session)
{
	const __u32 tokens = session->options->sample_period ? ~0u : STACK_TOKENS;

	for (__u32 cpu = 0; cpu < session->sizing.cpus; cpu++) {
		struct cpu_state *state = maps_cpu(&session->probes.maps, cpu);

		if (__atomic_load_n(&state->stack_tokens, __ATOMIC_RELAXED) < tokens)
			__atomic_store_n(&state->stack_tokens, tokens, __ATOMIC_RELAXED);
	}
}

static int drain_holdings(struct session *session, bool last)
{
	return session->holders ? holders_drain(session->holders, now_ns(), last) : 0;
}

/* Reads the rings, if it is time. */
static int drain_rings(struct session *session)
{
	int err;

	if (now_ns() < session->next_drain_ns)
		return 0;
	session->next_drain_ns = now_ns() + POLL_NS;
	err = events_drain(session->events, flight_interval(&session->flight, session->interval));
	err = err ?: flight_drained(&session->flight, now_ns());
	err = err ?: flight_look(&session->flight, session->events, now_ns());
	if (!err && session->futexes)
		err = futexes_drain(session->futexes);
	if (!err && session->clock_reads)
		err = clock_reads_drain(session->clock_reads);
	err = err ?: live_memory_drain(session->memory);
	err = err ?: watch_drain(session->watch);
	refill_stack_tokens(session);
	return err;
}

/* In the midst of what takes long. */
static int drain_meanwhile(void *context)
{
	struct session *session = context;
	int err = 0;

	if (session->holders && now_ns() >= session->next_holdings_ns) {
		session->next_holdings_ns = now_ns() + POLL_HOLDINGS_NS;
		err = drain_holdings(session, false);
	}
	return err ?: drain_rings(session);
}

static int end_interval(struct session *session, bool last)
{
	struct summary summary = {
		.recording = session->recording,
		.maps = &session->probes.maps,
		.own_cost = session->own_cost,
		.names = session->names,
		.symbols = session->symbols,
		.cgroups = session->cgroups,
		.locks = session->locks,
		.losses = events_losses(session->events),
		.holders = session->holders,
		.episodes = session->flight.episodes,
		.last = last,
	};
	/* First: it reads the rings meanwhile. */
	int err = live_memory_write(session->memory, drain_meanwhile, session, last);
	__u64 now = session->stop_ns ?: now_ns(), length = now - session->interval_begin_ns, cpu_ns;
	__s64 interval = flight_lasts(&session->flight, last) ? NO_INTERVAL : session->interval;

	err = err ?: drain_holdings(session, last);
	err = err ?: events_drain(session->events, flight_interval(&session->flight, session->interval));
	err = err ?: totals_flush(session->totals, interval);
	if (!err && session->futexes)
		err = futexes_drain(session->futexes) ?: futexes_flush(session->futexes, now_ns());
	if (!err && session->clock_reads)
		err = clock_reads_flush(session->clock_reads);
	if (!err && session->ptrace_waits)
		err = ptrace_waits_flush(session->ptrace_waits);
	if (!err && session->holders)
		err = holders_flush(session->holders);
	err = err ?: watch_flush(session->watch, now_ns());
	/* What lasted when the recording stopped may have ended while programs were detached, unseen. */
	err = err
		      ?: events_end_interval(session->events, flight_interval(&session->flight, session->interval),
					     session->stop_ns ?: now_ns(), &summary.open_waits);
	err = err ?: flight_end_interval(&session->flight, now_ns(), last);
	if (!err && interval != NO_INTERVAL)
		err = recording_run(session->recording, PUT_INTERVAL, "iii", interval,
				    (__s64)session->interval_begin_ns, (__s64)now);
	if (!err && interval != NO_INTERVAL && session->options->flight)
		err = recording_run(session->recording, PLACE_OUTLIERS, "i", interval);
	summary.now_ns = now;
	err = err ?: summary_write(&summary);
	cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	err = err ?: recording_commit(session->recording);
	live_memory_committed(session->memory, clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns);
	if (!err)
		recording_settle(session->recording);
	adapt_sampling(session, length ?: 1);
	session->interval_begin_ns = now;
	session->interval += !err;
	return err;
}

/* Whether a signal asks for the end; COMMAND's own end is looked at by the caller. */
static bool interrupted(struct session *session)
{
	struct signalfd_siginfo info;
	bool end = false;

	while (read(session->signals, &info, sizeof(info)) == sizeof(info))
		if (info.ssi_signo == SIGUSR2)
			trigger_signal(&session->flight.trigger);
		else
			end |= info.ssi_signo != SIGCHLD;
	return end;
}

/* What the rings hold is copied before detaching, which takes seconds where functions are probed. */
static int trigger_fired(struct session *session)
{
	__u64 fired_ns = now_ns();
	int err;

	flight_tell(&session->flight);
	err = drain_holdings(session, false);
	err = err ?: events_drain(session->events, flight_interval(&session->flight, session->interval));
	return err ?: flight_save(&session->flight, fired_ns);
}

static int run(struct session *session)
{
	const struct options *options = session->options;
	__u64 end_ns = options->duration_ns ? session->begin_ns + options->duration_ns : ~0ull, check_ns;
	__u64 interval_end_ns = session->begin_ns + options->interval_ns, next_look_ns = 0;
	int err = self_check_tick(session->self_check, &check_ns);

	while (!err) {
		__u64 now = now_ns(), next = now + (session->holders ? POLL_HOLDINGS_NS : POLL_NS),
		      tick = own_cost_tick(session->own_cost, now), wait;
		struct pollfd poll_fds[] = {{.fd = session->signals, .events = POLLIN},
					    {.fd = session->flight.trigger.marker, .events = POLLIN}};
		struct timespec timeout;

		next = next < interval_end_ns ? next : interval_end_ns;
		next = next < end_ns ? next : end_ns;
		next = next < tick ? next : tick;
		next = next < check_ns ? next : check_ns;
		wait = next > now ? next - now : 0;
		timeout = (struct timespec){wait / 1000000000ull, wait % 1000000000ull};
		ppoll(poll_fds, 2, &timeout, NULL);
		if (interrupted(session) || now_ns() >= end_ns || workload_ended(&session->workload))
			break;
		err = self_check_tick(session->self_check, &check_ns);
		err = err ?: drain_holdings(session, false);
		err = err ?: drain_rings(session);
		if (!err && now_ns() >= next_look_ns) {
			next_look_ns = now_ns() + LOOK_NS;
			if (session_processes_gone(options))
				break;
		}
		trigger_look(&session->flight.trigger);
		if (!err && !session->flight.trigger.fired && now_ns() >= interval_end_ns) {
			err = end_interval(session, false);
			interval_end_ns += options->interval_ns;
			if (interval_end_ns <= now_ns())
				interval_end_ns = now_ns() + options->interval_ns;
		}
		if (!err && session->flight.trigger.fired)
			return trigger_fired(session);
	}
	return err;
}

/* What was asked for and is not to be had: else it would be seen in the report, when the recording is over. */
static void tell_missing(const struct session *session)
{
	const struct options *options = session->options;
	const struct {
		bool asked;
		enum signal signal;
	} wanted[] = {
		{options->holders, SIGNAL_SPINLOCK_HOLDERS},
		{options->holds, SIGNAL_HOLD_TIMES},
		{options->ptrace, SIGNAL_TRACERS_ATTACHING},
		{options->futex, SIGNAL_FUTEX_WAITS},
	};

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
		if (wanted[i].asked)
			plan_tell_missing(&session->plan, wanted[i].signal);
}

/* The probes of unlocks are dear: what they cost is told before the recording begins. */
static void tell_cost(struct session *session)
{
	struct release_cost cost;
	int err;

	if (!session->plan.release_functions)
		return;
	err = release_cost(&session->probes, &cost);
	release_cost_tell(&cost, err, session->options->holds, sysconf(_SC_NPROCESSORS_ONLN));
}

/* Tells boots of one kernel apart, where perf.data files have it too (KASLR). */
static int write_kernel_base(struct session *session)
{
	char text[32];
	__u64 address;

	if (symbols_address(session->symbols, "_text", &address))
		return 0;
	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)address);
	return recording_run(session->recording, PUT_META, "tt", "kernel_text_address", text);
}

static int open_watch(struct session *session)
{
	const struct watch_base base = {
		.options = session->options,
		.probes = &session->probes,
		.recording = session->recording,
		.locks = session->locks,
		.names = session->names,
		.symbols = session->symbols,
		.cpus = session->sizing.cpus,
	};

	return session->options->command == COMMAND_WATCH ? watch_open(&session->watch, &base) : 0;
}

static int attach(struct session *session)
{
	const struct options *options = session->options;
	int err = options->deep ? cpu_pairs_record(session->recording) : 0;

	if (!err && options->command_argv) {
		err = workload_prepare(&session->workload, options->command_argv);
		if (err)
			message("cannot start %s: %s", options->command_argv[0], strerror(-err));
		else if (!options->all)
			probes_follow(&session->probes, session->workload.pid);
	}
	if (!err && options->c2c)
		err = c2c_record_open(&session->c2c, options, &session->plan, session->recording);
	err = err ?: probes_attach(&session->probes, &session->plan);
	if (err)
		return err;
	if (options->pids.count)
		descendants_follow(&session->probes);
	tell_missing(session);
	if (options->holders)
		tell_cost(session);
	err = open_watch(session);
	if (err)
		return err;
	session->begin_ns = session->interval_begin_ns = now_ns();
	probes_start(&session->probes, options, session->sizing.cpus);
	if (session->futexes)
		futexes_meet_waiting(session->futexes, &session->probes, options, session->begin_ns);
	err = summary_begin(session->recording, &session->plan, options, &session->sizing, session->begin_ns);
	err = err ?: write_kernel_base(session);
	err = err
		      ?: measurement_record(session->recording,
					    bpf_program__fd(session->probes.bpf->progs.current_jiffy),
					    session->plan.clock == CLOCK_COARSE);
	err = err ?: c2c_record_begin(session->c2c);
	err = err
		      ?: own_cost_open(&session->own_cost, session->probes.programs, session->probes.program_count,
				       session->begin_ns);
	err = err ?: self_check_open(&session->self_check, options, &session->probes, session->recording);
	err = err ?: self_check_begin(session->self_check);
	err = err ?: watch_begin(session->watch, session->begin_ns);
	err = err ?: recording_commit(session->recording);
	if (!err && options->command_argv)
		err = workload_start(&session->workload, options->command_argv[0]);
	if (!err && !options->quiet)
		message("recording %s%s%s%s", options->all ? "all CPUs" : "the selected tasks",
			options->temporary ? "" : " to ", options->temporary ? "" : options->output,
			options->duration_ns || options->command_argv ? "" : "; Ctrl-C ends it");
	return err;
}

static int finish(struct session *session, int err)
{
	int finish_err;

	/* Where functions are probed detaching takes seconds: the recording ends before it. */
	if (session->own_cost) {
		probes_stop(&session->probes, session->sizing.cpus);
		session->stop_ns = now_ns();
		own_cost_stop(session->own_cost, session->stop_ns);
	}
	live_memory_stop(session->memory);
	c2c_record_end(session->c2c);
	watch_end(session->watch);
	probes_detach(&session->probes);
	if (!err && session->own_cost)
		err = end_interval(session, true);
	if (err) {
		/* Without an interval there is nothing to keep, and an earlier recording is worth more. */
		if (session->interval)
			recording_close(session->recording);
		else
			recording_abandon(session->recording);
		session->recording = NULL;
		return err;
	}
	if (!session->options->quiet)
		summary_print(&session->probes.maps, session->stop_ns - session->begin_ns,
			      session->options->temporary ? NULL : session->options->output);
	if (!session->options->quiet)
		watch_print(session->watch);
	finish_err = c2c_record_finish(session->c2c);
	finish_err = recording_finish(session->recording) ?: finish_err;
	session->recording = NULL;
	/* Last: a command that does not end must not cost the recording. */
	workload_stop(&session->workload);
	return finish_err;
}

static void close_session(struct session *session)
{
	workload_stop(&session->workload);
	self_check_close(session->self_check);
	c2c_record_close(session->c2c);
	watch_close(session->watch);
	own_cost_close(session->own_cost);
	flight_close(&session->flight);
	futexes_close(session->futexes);
	clock_reads_close(session->clock_reads);
	ptrace_waits_close(session->ptrace_waits);
	live_memory_close(session->memory);
	holders_close(session->holders);
	events_close(session->events);
	totals_close(session->totals);
	locks_close(session->locks);
	cgroup_paths_close(session->cgroups);
	lock_names_close(session->names);
	user_symbols_close(session->users);
	symbols_close(session->symbols);
	probes_close(&session->probes);
	recording_abandon(session->recording);
	free(session->begins);
	if (session->signals >= 0)
		close(session->signals);
}

int session_record(const struct options *options)
{
	struct session *session = calloc(1, sizeof(*session));
	int err;

	if (!session)
		return -ENOMEM;
	session->options = options;
	session->signals = -1;
	flight_init(&session->flight, options);
	session->workload = (struct workload){.start = -1, .error = -1};
	err = open_session(session);
	if (!err) {
		err = attach(session);
		err = err ?: run(session);
		err = finish(session, err);
	}
	if (!err && session->flight.trigger.fired)
		err = SESSION_FIRED;
	close_session(session);
	free(session);
	return err;
}
