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
#include "base/notify.h"
#include "kernel/cpu_pairs.h"
#include "session/descendants.h"
#include "episodes/flight.h"
#include "filter/lock_filter.h"
#include "recording/recording_interval.h"
#include "lockline.skel.h"
#include "probes/measurement.h"
#include "cli/message.h"
#include "names/btf_members.h"
#include "names/lock_names.h"
#include "names/symbols.h"
#include "naming/naming_queue.h"
#include "kernel/plan_make.h"
#include "session/privileges.h"
#include "probes/probes.h"
#include "probes/sampling.h"
#include "session/progress.h"
#include "session/self_check.h"
#include "session/session.h"
#include "session/session_tasks.h"
#include "session/subsystems.h"
#include "session/session_sizes.h"
#include "session/summary.h"
#include "session/workload.h"
#include "recording/recording_rows.h"
#include "waits/stacks.h"

/* The rings are read this often: a ring holds more than a CPU writes in it. */
#define POLL_NS 50000000ull
/* Some can fill faster: releases of --holders are many.  They tell when they do; else they are read this often. */
#define HURRY_NS 10000000ull
/* Processes of -p and -t are looked for this often. */
#define LOOK_NS        1000000000ull
#define USER_PROCESSES 64
/* Without -I an interval is no longer than 1 / INTERVALS_OF_TIME of what is recorded, within these bounds. */
#define SHORT_INTERVAL_NS 100000000ull
#define INTERVALS_OF_TIME 50

struct session {
	const struct options *options;
	struct plan plan;
	struct sizing sizing;
	struct cgroup_target cgroup;
	int hierarchy;
	struct lock_filter lock_filter;
	struct symbols *symbols;
	struct types *types;         /* the kernel's */
	struct naming_queue *naming; /* NULL: nothing of user space is named */
	struct lock_names *names;
	struct cgroup_paths *cgroups;
	struct containers *containers;
	struct stacks stacks;
	struct monitors monitors;
	struct recording *recording;
	struct keeper keeper;
	struct probes probes;
	struct flight flight;
	struct self_check *self_check; /* NULL without --self-check */
	struct own_cost *own_cost;
	struct workload workload;
	struct progress progress;
	struct ground ground; /* what the subsystems stand on */
	struct opened opened; /* and which are of this recording */
	int signals;
	bool told; /* that it is over, and the file system does not answer */
	struct recording_interval_end interval_end;
	__s64 interval;
	__u64 interval_begin_ns;
	__u64 end_ns;       /* of -d; ~0: none */
	__u64 cpu_begin_ns; /* the collector's CPU time when it began to record */
	__u64 next_drain_ns;
	__u64 next_hurry_ns;
	__u64 watchdog_ns; /* how often systemd hears that it lives; 0: never */
	__u64 next_alive_ns;
	struct sampling *sampling; /* per CPU */
	__u64 ending_ns;           /* what ending the last interval took */
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

/* Says what is missing, as privileges are, before anything is written. */
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
	struct ground *ground = &session->ground;
	int err = lock_names_open(&session->names, session->symbols, session->types, session->probes.bpf);

	if (!err && (session->options->user_stacks || subsystems_name_user_code(&session->plan)))
		err = naming_queue_open(&session->naming, USER_PROCESSES);
	err = err ?: cgroup_paths_open(&session->cgroups, session->types, session->hierarchy);
	err = err ?: containers_open(&session->containers, "/");
	session->stacks = (struct stacks){
		.recording = session->recording,
		.symbols = session->symbols,
		.naming = session->naming,
		.monitors = &session->monitors,
	};
	ground->recording = session->recording;
	ground->names = session->names;
	ground->cgroups = session->cgroups;
	ground->containers = session->containers;
	err = err ?: subsystems_open(&session->opened, ground, STAGE_LOADED);
	session->sampling = calloc(session->sizing.cpus, sizeof(*session->sampling));
	if (!session->sampling)
		err = err ?: -ENOMEM;
	if (err)
		message("cannot prepare the recording: %s", strerror(-err));
	return err;
}

/* -G, or what --container and --pod name; session->cgroup.id stays 0 without them. */
static int choose_cgroup(struct session *session)
{
	const struct options *options = session->options;
	const char *cgroup = options->cgroup;
	char directory[PATH_MAX];
	int err;

	if (options_name_container(options)) {
		err = container_resolve(options->container, options->pod, directory);
		if (err)
			return err;
		cgroup = directory;
	}
	return cgroup ? cgroup_resolve(session->types, cgroup, &session->cgroup) : 0;
}

static int open_session(struct session *session)
{
	const struct options *options = session->options;
	int err = catch_signals(session);

	/* What needs nothing of the kernel comes first: a slip in the command line ends it at once. */
	err = err ?: session_check_namespace(options);
	err = err ?: session_check_processes(options);
	err = err ?: session_end_with(options);
	err = err ?: recording_check(options->output);
	if (err)
		return err;
	err = symbols_open(&session->symbols);
	if (err) {
		message("cannot read the kernel's symbols: %s", strerror(-err));
		return err;
	}
	session->ground.symbols = session->symbols;
	err = plan_make(&session->plan, options, session->symbols, &session->types);
	err = err ?: check_plan(session);
	err = err ?: choose_cgroup(session);
	err = err ?: lock_filter_make(&session->lock_filter, options, session->symbols);
	if (err)
		return err;
	session->hierarchy = !session->cgroup.id  ? cgroup_hierarchy(session->types)
			     : session->cgroup.v2 ? CGROUP_HIERARCHY_V2
						  : session->cgroup.subsys_id;
	err = sizing_for_options(options, &session->plan, &session->sizing);
	if (!err)
		err = probes_load(&session->ground, subsystems, SUBSYSTEMS,
				  session->cgroup.id ? &session->cgroup : NULL, session->hierarchy);
	/* After the programs, so that a refusal leaves no empty recording. */
	err = err ?: recording_create(&session->recording, options->output);
	session->keeper = (struct keeper){.keep_ns = options->keep_ns,
					  .max_bytes = options->max_bytes,
					  .interval_ns = options->interval_ns ?: INTERVAL_NS,
					  .rolled = {-1, -1}};
	err = err ?: recording_keep_begin(session->recording, &session->keeper);
	err = err ?: flight_open(&session->flight, session->recording);
	return err ?: open_analysis(session);
}

/* What the figures of this moment belong to. */
static void set_interval(struct session *session, bool last)
{
	struct ground *ground = &session->ground;

	ground->interval = flight_lasts(&session->flight, last) ? NO_INTERVAL : session->interval;
	ground->wait_interval = flight_interval(&session->flight, session->interval);
	ground->last = last;
}

static int hurry(struct session *session)
{
	return subsystems_at(&session->opened, &session->ground, MOMENT_HURRY);
}

/* Reads the rings, if it is time. */
static int drain_rings(struct session *session)
{
	int err;

	if (now_ns() < session->next_drain_ns)
		return 0;
	session->next_drain_ns = now_ns() + POLL_NS;
	err = subsystems_at(&session->opened, &session->ground, MOMENT_DRAIN);
	err = err ?: stacks_put_names(&session->stacks, false);
	sampling_refill(&session->probes.maps, session->options, session->sampling);
	return err;
}

/* In the midst of what takes long. */
static int drain_meanwhile(void *context)
{
	struct session *session = context;
	const bool last = session->ground.last;
	int err = 0;

	/* Rings are read as in any other moment: what waits there is not the last. */
	session->ground.last = false;
	if (now_ns() >= session->next_hurry_ns) {
		session->next_hurry_ns = now_ns() + HURRY_NS;
		err = hurry(session);
	}
	session->ground.last = last;
	return err ?: drain_rings(session);
}

static int put_interval(struct session *session, __u64 now)
{
	__s64 interval = session->ground.interval;
	int err;

	if (interval == NO_INTERVAL)
		return 0;
	err = recording_put(session->recording, interval, .id = interval, .begin_ns = session->interval_begin_ns,
			    .end_ns = now);
	if (!err && session->options->flight)
		err = recording_place_outliers(session->recording, interval);
	return err;
}

static int put_summary(struct session *session, __u64 now)
{
	const struct summary summary = {
		.recording = session->recording,
		.maps = &session->probes.maps,
		.probes = &session->probes,
		.own_cost = session->own_cost,
		.names = session->names,
		.symbols = session->symbols,
		.cgroups = session->cgroups,
		.naming = session->naming,
		.locks = session->ground.locks,
		.losses = events_losses(session->ground.events),
		.holders = session->ground.holders,
		.episodes = session->flight.episodes,
		.open_waits = session->ground.open_waits,
		.now_ns = now,
		.last = session->ground.last,
	};

	probes_read_misses(&session->probes);
	return summary_write(&summary);
}

static void tell_alive(struct session *session)
{
	if (!session->watchdog_ns || now_ns() < session->next_alive_ns)
		return;
	session->next_alive_ns = now_ns() + session->watchdog_ns;
	notify("WATCHDOG=1");
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

static __u64 cpu_ns(void)
{
	struct own_usage usage = {};

	return own_cost_usage(&usage) ? 0 : usage.user_ns + usage.system_ns;
}

/* Whether --max-cost is used up. */
static bool too_dear(struct session *session)
{
	__u64 elapsed_ns = now_ns() - session->ground.begin_ns;

	if (!session->options->max_cost_ns ||
	    own_cost_estimate(session->own_cost, elapsed_ns) + cpu_ns() - session->cpu_begin_ns <
		    session->options->max_cost_ns)
		return false;
	progress_clear(&session->progress);
	if (!session->options->quiet)
		message("the CPU time of --max-cost is used up");
	return true;
}

static bool is_over(struct session *session)
{
	return session->stacks.interrupted || now_ns() >= session->end_ns || workload_ended(&session->workload) ||
	       too_dear(session);
}

/* Nothing is measured from then on, and nothing stays attached.  Leaves the recording alone. */
static void stop_measuring(struct session *session)
{
	if (session->ground.stop_ns)
		return;
	/* Where functions are probed detaching takes seconds: the recording ends before it. */
	if (session->own_cost) {
		probes_stop(&session->probes, session->sizing.cpus);
		session->ground.stop_ns = now_ns();
		own_cost_stop(session->own_cost, session->ground.stop_ns);
	}
	subsystems_end(&session->opened);
	probes_read_misses(&session->probes);
	probes_detach(&session->probes);
}

/* The file is being written, which may take for ever. */
static void while_written(void *context)
{
	struct session *session = context;

	tell_alive(session);
	own_cost_tick(session->own_cost, now_ns());
	/* Nothing fails here. */
	subsystems_at(&session->opened, &session->ground, MOMENT_ASIDE);
	if (now_ns() < session->next_drain_ns)
		return;
	session->next_drain_ns = now_ns() + POLL_NS;
	session->stacks.interrupted |= interrupted(session);
	if (!session->ground.stop_ns && is_over(session))
		stop_measuring(session);
	if (session->ground.stop_ns && session->interval_end.stalled && !session->told) {
		session->told = true;
		message("nothing is measured any more; what is in memory is written once the file system answers");
	}
	sampling_refill(&session->probes.maps, session->options, session->sampling);
}

static int end_interval(struct session *session, bool last)
{
	struct recording_interval_end *end = &session->interval_end;
	struct ground *ground = &session->ground;
	struct opened *opened = &session->opened;
	__u64 now, length;
	int err;

	set_interval(session, last);
	/* First: it reads the rings meanwhile. */
	err = subsystems_at(opened, ground, MOMENT_LONG);
	now = ground->stop_ns ?: now_ns();
	length = now - session->interval_begin_ns;
	err = err ?: hurry(session);
	err = err ?: subsystems_at(opened, ground, MOMENT_FLUSH);
	err = err ?: subsystems_at(opened, ground, MOMENT_WAITS);
	err = err ?: put_interval(session, now);
	err = err ?: stacks_put_names(&session->stacks, last);
	err = err ?: put_summary(session, now);
	*end = (struct recording_interval_end){
		.keeper = &session->keeper, .now_ns = now, .meanwhile = while_written, .context = session};
	err = err ?: recording_end_interval(session->recording, end);
	ground->commit_ns = end->cpu_ns;
	/* Nothing fails here. */
	subsystems_at(opened, ground, MOMENT_COMMIT);
	if (!err && !last)
		progress_show(&session->progress, session->recording, now - ground->begin_ns);
	sampling_adapt(&session->probes.maps, session->options, session->sampling, length ?: 1);
	session->interval_begin_ns = now;
	session->interval += !err;
	set_interval(session, false);
	return err;
}

/* What the rings hold is copied before detaching, which takes seconds where functions are probed. */
static int trigger_fired(struct session *session)
{
	__u64 fired_ns = now_ns();
	int err;

	flight_tell(&session->flight);
	err = hurry(session);
	err = err ?: events_drain(session->ground.events, session->ground.wait_interval);
	return err ?: flight_save(&session->flight, fired_ns);
}

/*
 * How long the next interval is.  Without -I the first ones are short, so that a recording of a few seconds has enough
 * of them to be compared; each is a part of what is recorded already, so that there are never many more than one a
 * second.  Where ending one takes long they are longer.
 */
static __u64 interval_length(const struct session *session)
{
	const struct options *options = session->options;
	__u64 length;

	if (options->interval_ns)
		return options->interval_ns;
	if (options->flight || options->command != COMMAND_RECORD)
		return INTERVAL_NS;
	length = (now_ns() - session->ground.begin_ns) / INTERVALS_OF_TIME;
	length = length > session->ending_ns * INTERVALS_OF_TIME ? length : session->ending_ns * INTERVALS_OF_TIME;
	length = length > SHORT_INTERVAL_NS ? length : SHORT_INTERVAL_NS;
	return length < INTERVAL_NS ? length : INTERVAL_NS;
}

static int run(struct session *session)
{
	const struct options *options = session->options;
	__u64 interval_end_ns = session->ground.begin_ns + interval_length(session), next_look_ns = 0;
	const bool looks = subsystems_care(&session->opened, MOMENT_HURRY) && session->ground.hurry_fd < 0;
	const __u64 poll_ns = looks ? HURRY_NS : POLL_NS;
	__u64 check_ns;
	int err = self_check_tick(session->self_check, &check_ns);

	session->end_ns = options->duration_ns ? session->ground.begin_ns + options->duration_ns : ~0ull;
	session->cpu_begin_ns = cpu_ns();
	session->watchdog_ns = notify_watchdog_ns();
	while (!err) {
		__u64 now = now_ns(), next = now + poll_ns, tick = own_cost_tick(session->own_cost, now), wait;
		struct pollfd poll_fds[] = {{.fd = session->signals, .events = POLLIN},
					    {.fd = session->flight.trigger.marker, .events = POLLIN},
					    {.fd = session->ground.hurry_fd, .events = POLLIN}};
		struct timespec timeout;

		next = next < interval_end_ns ? next : interval_end_ns;
		next = next < session->end_ns ? next : session->end_ns;
		next = next < tick ? next : tick;
		next = next < check_ns ? next : check_ns;
		wait = next > now ? next - now : 0;
		timeout = timespec_of(wait);
		ppoll(poll_fds, 3, &timeout, NULL);
		tell_alive(session);
		session->stacks.interrupted |= interrupted(session);
		if (session->ground.stop_ns || is_over(session))
			break;
		err = self_check_tick(session->self_check, &check_ns);
		err = err ?: hurry(session);
		err = err ?: drain_rings(session);
		if (!err && now_ns() >= next_look_ns) {
			next_look_ns = now_ns() + LOOK_NS;
			if (session_processes_gone(options))
				break;
		}
		trigger_look(&session->flight.trigger);
		err = err ?: flight_keep_aside(&session->flight, session->interval);
		if (!err && !flight_fired(&session->flight) && now_ns() >= interval_end_ns) {
			__u64 started_ns = now_ns();

			/* Without a place for its rows the interval goes on: one that is longer takes no more room. */
			if (!recording_is_full(session->recording))
				err = end_interval(session, false);
			session->ending_ns = now_ns() - started_ns;
			interval_end_ns += interval_length(session);
			if (interval_end_ns <= now_ns())
				interval_end_ns = now_ns() + interval_length(session);
		}
		if (!err && flight_fired(&session->flight))
			return trigger_fired(session);
	}
	return err;
}

/* Tells boots of one kernel apart, where perf.data files have it too (KASLR). */
static int write_kernel_base(struct session *session)
{
	char text[32];
	__u64 address;

	if (symbols_address(session->symbols, "_text", &address))
		return 0;
	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)address);
	return recording_put_text(session->recording, "kernel_text_address", text);
}

/* COMMAND's process, which waits to be let go. */
static int prepare_workload(struct session *session)
{
	const struct options *options = session->options;
	int err;

	if (!options->command_argv)
		return 0;
	err = workload_prepare(&session->workload, options->command_argv);
	if (err)
		message("cannot start %s: %s", options->command_argv[0], strerror(-err));
	else if (!options->all)
		probes_follow(&session->probes, session->workload.pid);
	return err;
}

static int start_workload(struct session *session)
{
	int err = workload_start(&session->workload, session->options->command_argv[0],
				 subsystems_care(&session->opened, MOMENT_COMMAND));

	if (err || !session->workload.held)
		return err;
	session->ground.command = session->workload.pid;
	err = subsystems_at(&session->opened, &session->ground, MOMENT_COMMAND);
	workload_run(&session->workload);
	return err;
}

/* What the recording says of itself from its first moment on. */
static int put_beginning(struct session *session)
{
	int err = summary_begin(session->recording, &session->plan, session->options, &session->sizing,
				session->ground.begin_ns);

	err = err ?: write_kernel_base(session);
	return err
		       ?: measurement_record(session->recording,
					     bpf_program__fd(session->probes.bpf->progs.current_jiffy),
					     session->plan.clock == CLOCK_COARSE);
}

static void tell_recording(const struct options *options)
{
	if (!options->quiet)
		message("recording %s%s%s%s", options->all ? "all CPUs" : "the selected tasks",
			options->temporary ? "" : " to ", options->temporary ? "" : options->output,
			options->duration_ns || options->command_argv ? "" : "; Ctrl-C ends it");
}

static int attach(struct session *session)
{
	const struct options *options = session->options;
	int err = options->deep ? cpu_pairs_record(session->recording) : 0;

	err = err ?: prepare_workload(session);
	err = err ?: subsystems_open(&session->opened, &session->ground, STAGE_PREPARED);
	err = err ?: probes_attach(&session->probes, &session->plan);
	if (err)
		return err;
	if (options->pids.count)
		descendants_follow(&session->probes);
	return subsystems_open(&session->opened, &session->ground, STAGE_ATTACHED);
}

/* All that needs them is attached or started. */
static int drop_privileges(struct session *session)
{
	char text[512];

	privileges_drop(session->options, text, sizeof(text));
	return recording_put_text(session->recording, "privileges_kept", text);
}

/* From the first wait that is let in to the start of COMMAND. */
static int begin(struct session *session)
{
	const struct options *options = session->options;
	struct ground *ground = &session->ground;
	int err;

	ground->begin_ns = session->interval_begin_ns = now_ns();
	probes_start(&session->probes, options, session->sizing.cpus);
	set_interval(session, false);
	err = subsystems_at(&session->opened, ground, MOMENT_BEGIN);
	err = err ?: put_beginning(session);
	err = err
		      ?: own_cost_open(&session->own_cost, session->probes.programs, session->probes.program_count,
				       ground->begin_ns);
	err = err ?: self_check_open(&session->self_check, options, &session->probes, session->recording);
	err = err ?: self_check_begin(session->self_check);
	err = err ?: subsystems_at(&session->opened, ground, MOMENT_START);
	err = err ?: drop_privileges(session);
	err = err ?: recording_commit(session->recording);
	if (!err && options->command_argv)
		err = start_workload(session);
	if (!err) {
		notify("READY=1");
		tell_recording(options);
	}
	progress_open(&session->progress, options);
	return err;
}

static int finish(struct session *session, int err)
{
	int finish_err;

	notify("STOPPING=1");
	progress_clear(&session->progress);
	stop_measuring(session);
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
		summary_print(&session->probes.maps, session->ground.stop_ns - session->ground.begin_ns,
			      session->options->temporary ? NULL : session->options->output);
	if (!session->options->quiet)
		subsystems_at(&session->opened, &session->ground, MOMENT_PRINT);
	finish_err = subsystems_at(&session->opened, &session->ground, MOMENT_FINISH);
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
	own_cost_close(session->own_cost);
	subsystems_close(&session->opened);
	flight_close(&session->flight);
	cgroup_paths_close(session->cgroups);
	containers_close(session->containers);
	lock_names_close(session->names);
	naming_queue_close(session->naming);
	types_close(session->types);
	symbols_close(session->symbols);
	probes_close(&session->probes);
	lock_filter_free(&session->lock_filter);
	recording_abandon(session->recording);
	free(session->sampling);
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
	session->ground = (struct ground){
		.options = options,
		.plan = &session->plan,
		.sizing = &session->sizing,
		.probes = &session->probes,
		.lock_filter = &session->lock_filter,
		.stacks = &session->stacks,
		.flight = &session->flight,
		.pause = drain_meanwhile,
		.pause_context = session,
		.hurry_fd = -1,
	};
	flight_init(&session->flight, options);
	session->workload = (struct workload){.start = -1, .error = -1};
	err = open_session(session);
	if (!err) {
		err = attach(session);
		err = err ?: begin(session);
		err = err ?: run(session);
		err = finish(session, err);
	}
	if (!err && flight_fired(&session->flight))
		err = SESSION_FIRED;
	close_session(session);
	free(session);
	return err;
}
