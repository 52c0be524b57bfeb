// SPDX-License-Identifier: GPL-2.0-or-later
#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/ring.h"
#include "base/thread.h"
#include "cli/message.h"
#include "recording/recording_internal.h"
#include "recording/recording_interval.h"

#define MEANWHILE_NS 5000000ull
/* A file system that takes longer stands still: a message says so. */
#define STALL_NS 2000000000ull

struct job {
	struct recording *recording;
	struct recording_interval_end *end;
	int err;
};

static void *write_interval(void *argument)
{
	struct job *job = argument;
	const __u64 cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	job->err = recording_keep(job->recording, job->end->keeper, job->end->now_ns);
	job->err = job->err ?: recording_commit(job->recording);
	if (!job->err)
		recording_settle(job->recording);
	job->end->cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns;
	return NULL;
}

static bool ended(pthread_t thread, __u64 wait_ns)
{
	const struct timespec until = timespec_of(now_ns() + wait_ns);

	return !pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until);
}

int recording_end_interval(struct recording *recording, struct recording_interval_end *end)
{
	struct job job = {.recording = recording, .end = end};
	const __u64 begin_ns = now_ns();
	pthread_t thread;

	ring_aside_was_full();
	if (thread_start(&thread, write_interval, &job)) {
		write_interval(&job);
		return job.err;
	}
	while (!ended(thread, MEANWHILE_NS)) {
		end->meanwhile(end->context);
		if (end->stalled || now_ns() - begin_ns < STALL_NS)
			continue;
		end->stalled = true;
		message("%s: its file system does not answer; the recording goes on in memory", recording->path);
	}
	if (end->stalled && !job.err)
		message("%s: its file system answers again after %.1f s; %s", recording->path,
			(now_ns() - begin_ns) / 1e9,
			ring_aside_was_full() ? "more came than memory holds, the report says how much was lost"
					      : "nothing was lost");
	return job.err;
}
