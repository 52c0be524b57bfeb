// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "base/clock.h"
#include "base/notify.h"
#include "kernel/cpu_pairs.h"
#include "session/descendants.h"
#include "lockline.skel.h"
#include "probes/measurement.h"
#include "cli/message.h"
#include "kernel/plan_make.h"
#include "session/privileges.h"
#include "session/session.h"
#include "session/session_run.h"
#include "session/session_tasks.h"
#include "session/session_sizes.h"
#include "session/summary.h"
#include "recording/recording_rows.h"

#define USER_PROCESSES 64

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
	session->ground.types = session->types;
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
	recording_is_temporary(options->temporary);
	err = err ?: recording_create(&session->recording, options->output);
	session->keeper = (struct keeper){.keep_ns = options->keep_ns,
					  .max_bytes = options->max_bytes,
					  .interval_ns = options->interval_ns ?: INTERVAL_NS,
					  .rolled = {-1, -1}};
	err = err ?: recording_keep_begin(session->recording, &session->keeper);
	err = err ?: flight_open(&session->flight, session->recording);
	return err ?: open_analysis(session);
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
	session_set_interval(session, false);
	err = subsystems_at(&session->opened, ground, MOMENT_BEGIN);
	err = err ?: put_beginning(session);
	err = err
		      ?: own_cost_open(&session->own_cost, session->probes.programs, session->probes.program_count,
				       ground->begin_ns, options->max_cost_ns);
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
	session_stop_measuring(session);
	if (!err && session->own_cost)
		err = session_end_interval(session, true);
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
		.pause = session_drain_meanwhile,
		.pause_context = session,
		.hurry_fd = -1,
	};
	flight_init(&session->flight, options);
	session->workload = (struct workload){.start = -1, .error = -1};
	err = open_session(session);
	if (!err) {
		err = attach(session);
		err = err ?: begin(session);
		err = err ?: session_run(session);
		err = finish(session, err);
	}
	if (!err && flight_fired(&session->flight))
		err = SESSION_FIRED;
	close_session(session);
	free(session);
	return err;
}
