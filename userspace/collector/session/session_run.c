// SPDX-License-Identifier: GPL-2.0-or-later
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/notify.h"
#include "cli/message.h"
#include "recording/recording_rows.h"
#include "session/session_run.h"
#include "session/session_tasks.h"
#include "session/summary.h"
#include "waits/events.h"

/* The rings are read this often: a ring holds more than a CPU writes in it. */
#define POLL_NS 50000000ull
/* Some can fill faster: releases of --holders are many.  They tell when they do; else they are read this often. */
#define HURRY_NS 10000000ull
/* Processes of -p and -t are looked for this often. */
#define LOOK_NS 1000000000ull
/* Without -I an interval is no longer than 1 / INTERVALS_OF_TIME of what is recorded, within these bounds. */
#define SHORT_INTERVAL_NS 100000000ull
#define INTERVALS_OF_TIME 50

void session_set_interval(struct session *session, bool last)
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

int session_drain_meanwhile(void *context)
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

/* Whether --max-cost is used up, with what the end will take: the last interval has to be written. */
static bool too_dear(struct session *session)
{
	__u64 now = now_ns(), cost_ns;

	if (!session->options->max_cost_ns)
		return false;
	cost_ns = own_cost_estimate(session->own_cost, now, now - session->ground.begin_ns);
	cost_ns += cpu_ns() - session->cpu_begin_ns + session->ending_cpu_ns;
	if (cost_ns < session->options->max_cost_ns)
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

void session_stop_measuring(struct session *session)
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
		session_stop_measuring(session);
	if (session->ground.stop_ns && session->interval_end.stalled && !session->told) {
		session->told = true;
		message("nothing is measured any more; what is in memory is written once the file system answers");
	}
	sampling_refill(&session->probes.maps, session->options, session->sampling);
}

int session_end_interval(struct session *session, bool last)
{
	struct recording_interval_end *end = &session->interval_end;
	struct ground *ground = &session->ground;
	struct opened *opened = &session->opened;
	__u64 now, length;
	int err;

	session_set_interval(session, last);
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
	session_set_interval(session, false);
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

int session_run(struct session *session)
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
			__u64 started_ns = now_ns(), cpu_before_ns = cpu_ns(), cpu;

			/* Without a place for its rows the interval goes on: one that is longer takes no more room. */
			if (!recording_is_full(session->recording))
				err = session_end_interval(session, false);
			session->ending_ns = now_ns() - started_ns;
			cpu = cpu_ns() - cpu_before_ns;
			session->ending_cpu_ns = cpu > session->ending_cpu_ns ? cpu : session->ending_cpu_ns;
			interval_end_ns += interval_length(session);
			if (interval_end_ns <= now_ns())
				interval_end_ns = now_ns() + interval_length(session);
		}
		if (!err && flight_fired(&session->flight))
			return trigger_fired(session);
	}
	return err;
}
