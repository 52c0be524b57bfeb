// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "cli/kinds.h"
#include "cli/message.h"
#include "episodes/trigger.h"
#include "base/values.h"
#include "recording/recording_rows.h"

/*
 * A line written to trace_marker becomes a record of the trace buffer without
 * passing a tracepoint, and its function is built without the calls that fentry
 * needs.  The write itself is seen like one to any file: without reading
 * the buffer, which would take from whoever else reads it.
 */
static int watch_marker(struct trigger *trigger)
{
	static const char *const paths[] = {"/sys/kernel/tracing/trace_marker",
					    "/sys/kernel/debug/tracing/trace_marker"};
	int err = 0;

	trigger->marker = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (trigger->marker < 0)
		return -errno;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		if (inotify_add_watch(trigger->marker, paths[i], IN_MODIFY) >= 0)
			return 0;
		err = err ?: -errno;
	}
	return err;
}

int trigger_open(struct trigger *trigger, const struct options *options, struct recording *recording)
{
	char why[VALUE_WHY];
	int err = 0;

	trigger->recording = recording;
	if (!options->until)
		return 0;
	err = until_parse(&trigger->until, options->until, why);
	if (!err && until_has_marker(&trigger->until)) {
		err = watch_marker(trigger);
		if (err)
			message("cannot watch trace_marker: %s; mount tracefs: mount -t tracefs none "
				"/sys/kernel/tracing",
				strerror(-err));
	}
	return err;
}

void trigger_close(struct trigger *trigger)
{
	if (trigger->marker >= 0)
		close(trigger->marker);
	trigger->marker = -1;
}

static void show_time(__u64 ns, char text[32])
{
	if (ns < 1000000)
		snprintf(text, 32, "%.1f us", ns / 1e3);
	else if (ns < 1000000000)
		snprintf(text, 32, "%.2f ms", ns / 1e6);
	else
		snprintf(text, 32, "%.2f s", ns / 1e9);
}

bool trigger_wait(struct trigger *trigger, const struct long_wait *wait)
{
	struct until_wait seen = {.wait_ns = wait->wait_ns, .kind = wait->kind, .tid = wait->tid, .tgid = wait->tgid};
	char name[128], length[32], shown[VALUE_SHOWN];

	if (!trigger->until.count || trigger->fired)
		return false;
	if (recording_lock_name(trigger->recording, wait->lock, name, sizeof(name)))
		return false;
	seen.lock = name;
	if (!until_matches(&trigger->until, &seen))
		return false;
	show_time(wait->wait_ns, length);
	snprintf(trigger->why, sizeof(trigger->why), "thread %u %s %s for %s (%s) on CPU %u", wait->tid,
		 wait->outlier ? "waited" : "has waited", length, show(*name ? name : "a lock without a name", shown),
		 kind_names[wait->kind] ?: "unknown", wait->cpu);
	trigger->fired = trigger->of_wait = true;
	return true;
}

void trigger_signal(struct trigger *trigger)
{
	if (trigger->fired)
		return;
	snprintf(trigger->why, sizeof(trigger->why), "SIGUSR2");
	trigger->fired = true;
}

void trigger_look(struct trigger *trigger)
{
	char events[sizeof(struct inotify_event) + NAME_MAX + 1];

	if (trigger->marker < 0 || trigger->fired || read(trigger->marker, events, sizeof(events)) <= 0)
		return;
	snprintf(trigger->why, sizeof(trigger->why), "a line was written to trace_marker");
	trigger->fired = true;
}
