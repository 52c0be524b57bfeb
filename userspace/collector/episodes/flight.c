// SPDX-License-Identifier: GPL-2.0-or-later
#include <time.h>

#include "base/clock.h"
#include "episodes/flight.h"
#include "cli/message.h"
#include "waits/totals.h"
#include "recording/recording_rows.h"

/* What a flight keeps of the waits before it ends. */
#define FLIGHT_NS 10000000000ull
/* Once it has ended: so long for what comes after the wait. */
#define AFTERMATH_NS 2000000
/* Waits in progress are looked at this often, if one of them may end the recording. */
#define LOOK_NS 100000000ull

void flight_init(struct flight *flight, const struct options *options)
{
	*flight = (struct flight){
		.options = options,
		.trigger = {.marker = -1, .wanted = options->flight || options->until},
		.aside = {.words = -1},
	};
}

int flight_open(struct flight *flight, struct recording *recording)
{
	flight->recording = recording;
	return trigger_open(&flight->trigger, flight->options, recording)
		       ?: aside_open(&flight->aside, flight->options);
}

void flight_close(struct flight *flight)
{
	episodes_close(flight->episodes);
	flight->episodes = NULL;
	trigger_close(&flight->trigger);
	aside_close(&flight->aside);
}

int flight_on_wait(void *data, const struct long_wait *wait)
{
	struct flight *flight = data;
	bool fired = flight->trigger.wanted && trigger_wait(&flight->trigger, wait);

	if (flight->looking && !fired)
		return 0;
	return flight->episodes ? episodes_on_wait(flight->episodes, wait, fired) : 0;
}

bool flight_listens(const struct flight *flight)
{
	return flight->episodes || flight->trigger.wanted;
}

bool flight_lasts(const struct flight *flight, bool last)
{
	return flight->options->flight && !flight->trigger.fired && !last;
}

__s64 flight_interval(const struct flight *flight, __s64 interval)
{
	return flight->options->flight ? NO_INTERVAL : interval;
}

int flight_drained(struct flight *flight, __u64 now_ns)
{
	if (!flight->episodes || flight->options->flight)
		return 0;
	return episodes_collect(flight->episodes, now_ns, false);
}

int flight_look(struct flight *flight, struct events *events, __u64 now_ns)
{
	int err;

	if (flight->trigger.fired || !until_has_wait(&flight->trigger.until) || now_ns < flight->next_look_ns)
		return 0;
	flight->next_look_ns = now_ns + LOOK_NS;
	flight->looking = true;
	err = events_look(events, now_ns, flight->options->threshold_ns);
	flight->looking = false;
	return err;
}

int flight_end_interval(struct flight *flight, __u64 now_ns, bool last)
{
	int err = 0;

	if (flight_lasts(flight, last)) {
		err = recording_prune_outliers(flight->recording, now_ns - FLIGHT_NS);
		episodes_forget(flight->episodes, now_ns - FLIGHT_NS);
	} else if (flight->episodes && (!flight->options->flight || flight->trigger.fired)) {
		err = episodes_collect(flight->episodes, now_ns, last);
		err = err ?: episodes_write(flight->episodes, now_ns);
	}
	return err;
}

static int put_fired(struct flight *flight, __u64 now_ns)
{
	return recording_put_text(flight->recording, "fired", flight->trigger.why)
		       ?: recording_put_number(flight->recording, "fired_ns", now_ns);
}

bool flight_fired(const struct flight *flight)
{
	return flight->trigger.fired && !flight->options->save_last_ns;
}

int flight_keep_aside(struct flight *flight, __s64 interval)
{
	int err = 0;

	if (!flight->options->save_last_ns)
		return 0;
	if (flight->trigger.fired) {
		if (aside_want(&flight->aside, flight->trigger.why, interval, now_ns()))
			err = put_fired(flight, now_ns());
		flight->trigger.fired = flight->trigger.of_wait = false;
	}
	aside_tick(&flight->aside, interval);
	return err;
}

void flight_tell(const struct flight *flight)
{
	const struct timespec aftermath = {.tv_nsec = AFTERMATH_NS};

	message("%s: %s", flight->options->flight ? "the flight is over" : "the condition of --until holds",
		flight->trigger.why);
	nanosleep(&aftermath, NULL);
}

int flight_save(struct flight *flight, __u64 fired_ns)
{
	int err = 0;

	if (flight->episodes) {
		if (!flight->trigger.of_wait)
			err = episodes_snapshot(flight->episodes, fired_ns);
		err = err ?: episodes_collect(flight->episodes, fired_ns, true);
		/* Who holds the lock is looked at now, not when the programs are detached. */
		err = err ?: episodes_write(flight->episodes, fired_ns);
	}
	return err ?: put_fired(flight, fired_ns);
}
