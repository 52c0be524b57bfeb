// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/libbpf.h>

#include "bpf/ptrace.h"
#include "base/histogram_blob.h"
#include "ptrace/ptrace_waits.h"
#include "lockline.skel.h"
#include "probes/maps.h"
#include "recording/recording_rows.h"

struct ptrace_waits {
	struct recording *recording;
	struct mapped_array rows, states;
	__u32 cpus;
};

int ptrace_waits_resize(struct lockline_bpf *bpf, __u32 cpus, bool wanted)
{
	int err = bpf_map__set_max_entries(bpf->maps.inactive_slots, wanted ? INACTIVE_SLOTS : 1);

	err = err ?: bpf_map__set_max_entries(bpf->maps.inactive_rows, wanted ? cpus * INACTIVE_ROWS : 1);
	return err ?: bpf_map__set_max_entries(bpf->maps.inactive_states, wanted ? cpus : 1);
}

int ptrace_waits_open(struct ptrace_waits **out, const struct lockline_bpf *bpf, __u32 cpus,
		      struct recording *recording)
{
	struct ptrace_waits *waits = calloc(1, sizeof(*waits));
	int err;

	if (!waits)
		return -ENOMEM;
	waits->recording = recording;
	waits->cpus = cpus;
	err = maps_map(&waits->rows, bpf->maps.inactive_rows);
	err = err ?: maps_map(&waits->states, bpf->maps.inactive_states);
	if (err)
		ptrace_waits_close(waits);
	else
		*out = waits;
	return err;
}

void ptrace_waits_close(struct ptrace_waits *waits)
{
	if (!waits)
		return;
	maps_unmap(&waits->rows);
	maps_unmap(&waits->states);
	free(waits);
}

static const struct inactive_state *state_of(const struct ptrace_waits *waits, __u32 cpu)
{
	return (const struct inactive_state *)waits->states.data + cpu;
}

/* A pair's rows of several CPUs add up in the recording. */
static int store_row(const struct ptrace_waits *waits, const struct inactive_row *row)
{
	char comm[sizeof(row->comm) + 1] = "", target_comm[sizeof(row->target_comm) + 1] = "";

	memcpy(comm, row->comm, sizeof(row->comm));
	memcpy(target_comm, row->target_comm, sizeof(row->target_comm));
	return recording_put(waits->recording, inactive_wait, .tid = row->key >> 32, .tgid = row->tgid, .comm = comm,
			     .target_tid = (__u32)row->key, .target_tgid = row->target_tgid, .target_comm = target_comm,
			     .calls = row->calls, .turns = row->turns, .max_turns = row->max_turns,
			     .traced = row->traced, .failed = row->failed, .wait_ns = row->wait_ns,
			     .max_ns = row->max_ns);
}

static int store_attaches(const struct ptrace_waits *waits, const struct inactive_row *row)
{
	char comm[sizeof(row->comm) + 1] = "", target_comm[sizeof(row->target_comm) + 1] = "";

	memcpy(comm, row->comm, sizeof(row->comm));
	memcpy(target_comm, row->target_comm, sizeof(row->target_comm));
	return recording_put(waits->recording, ptrace_attach, .tid = row->key >> 32, .tgid = row->tgid, .comm = comm,
			     .target_tid = (__u32)row->key, .target_tgid = row->target_tgid, .target_comm = target_comm,
			     .attaches = row->attaches, .attach_ns = row->attach_ns, .max_ns = row->attach_max_ns);
}

static int store_cpu(const struct ptrace_waits *waits, __u32 cpu)
{
	const struct inactive_state *state = state_of(waits, cpu);
	struct histogram_blob times = {.size = 0}, turns = {.size = 0}, attaches = {.size = 0};
	int err = 0;

	for (int i = 0; i < HISTOGRAM_BUCKETS; i++)
		histogram_put(&times, i, state->histogram[i]);
	for (int i = 0; i < INACTIVE_TURN_COUNTS; i++)
		histogram_put(&turns, i, state->turn_counts[i]);
	for (int i = 0; i < HISTOGRAM_BUCKETS; i++)
		histogram_put(&attaches, i, state->attach_histogram[i]);
	if (attaches.size)
		err = recording_put(waits->recording, ptrace_attach_cpu, .cpu = cpu,
				    .histogram = {attaches.bytes, attaches.size});
	if (err || !times.size)
		return err;
	return recording_put(waits->recording, inactive_cpu, .cpu = cpu, .histogram = {times.bytes, times.size},
			     .turns = {turns.bytes, turns.size});
}

int ptrace_waits_flush(struct ptrace_waits *waits)
{
	__u64 no_slot = 0, no_row = 0, unmatched = 0, attach_failed = 0;
	int err = recording_clear(waits->recording, TABLE_INACTIVE_WAIT);

	err = err ?: recording_clear(waits->recording, TABLE_PTRACE_ATTACH);

	for (__u32 i = 0; !err && i < waits->cpus * INACTIVE_ROWS; i++) {
		const struct inactive_row *row = (const struct inactive_row *)waits->rows.data + i;

		if (row->calls || row->turns)
			err = store_row(waits, row);
		if (!err && row->attaches)
			err = store_attaches(waits, row);
	}
	for (__u32 cpu = 0; !err && cpu < waits->cpus; cpu++) {
		no_slot += state_of(waits, cpu)->no_slot;
		no_row += state_of(waits, cpu)->no_row;
		unmatched += state_of(waits, cpu)->unmatched;
		attach_failed += state_of(waits, cpu)->attach_failed;
		err = store_cpu(waits, cpu);
	}
	err = err
		      ?: recording_put(waits->recording, loss, .name = "inactive_no_slot", .count = no_slot,
				       .meaning =
					       "calls of wait_task_inactive() not recorded: too many were in progress",
				       .severity = "loss");
	err = err
		      ?: recording_put(waits->recording, loss, .name = "inactive_no_row", .count = no_row,
				       .meaning = "calls and turns of wait_task_inactive() without the names of tracer "
						  "and tracee",
				       .severity = "loss");
	err = err
		      ?: recording_put(waits->recording, loss, .name = "attach_failed", .count = attach_failed,
				       .meaning = "calls of ptrace_attach() that failed", .severity = "info");
	return err
		       ?: recording_put(
				  waits->recording, loss, .name = "inactive_unmatched", .count = unmatched,
				  .meaning =
					  "ends of wait_task_inactive() and ptrace_attach() whose begin was not seen",
				  .severity = "info");
}
