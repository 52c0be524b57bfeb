// SPDX-License-Identifier: GPL-2.0-or-later
/* The filters by lock and by caller: their constants, and the verdicts on locks that are known by name alone. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "filter/filter_subsystem.h"
#include "filter/lock_filter.h"
#include "filter/verdicts.h"
#include "lockline.skel.h"
#include "probes/maps.h"
#include "probes/probes.h"

/* As if some of -L were names: that is not known yet. */
static void add_bytes(struct sizing *s)
{
	s->map_bytes += VERDICT_SLOTS * sizeof(__u64) +
			(__u64)s->cpus * (QUESTIONS * sizeof(struct lock_question) + sizeof(struct question_state));
}

static const struct size_part sizes = {.add = add_bytes};

static bool sized(const struct options *options, const struct plan *plan)
{
	(void)plan;
	return options->locks;
}

static int resize(struct lockline_bpf *bpf, const struct lock_filter *filter, __u32 cpus)
{
	int err = bpf_map__set_max_entries(bpf->maps.lock_verdicts, filter->name_count ? VERDICT_SLOTS : 1);

	err = err ?: bpf_map__set_max_entries(bpf->maps.lock_questions, filter->name_count ? cpus * QUESTIONS : 1);
	err = err ?: bpf_map__set_max_entries(bpf->maps.question_states, filter->name_count ? cpus : 1);
	return err ?: bpf_map__set_max_entries(bpf->maps.caller_ranges, filter->caller_count ?: 1);
}

static int configure(struct lockline_bpf *bpf, const struct ground *ground)
{
	const struct lock_filter *filter = ground->lock_filter;

	bpf->rodata->filtered |= filter->locks || filter->callers_chosen;
	bpf->rodata->filter_locks = filter->locks;
	bpf->rodata->filter_lock_names = filter->name_count;
	bpf->rodata->lock_range_count = filter->range_count;
	for (__u32 i = 0; i < filter->range_count; i++) {
		bpf->rodata->lock_range_begin[i] = filter->ranges[i].begin;
		bpf->rodata->lock_range_bytes[i] = filter->ranges[i].end - filter->ranges[i].begin;
	}
	bpf->rodata->filter_callers = filter->callers_chosen;
	bpf->rodata->caller_range_count = filter->caller_count;
	return resize(bpf, filter, ground->sizing->cpus);
}

/* Before a program runs; they do not change any more. */
static int share_callers(const struct lock_filter *filter, struct lockline_bpf *bpf)
{
	struct mapped_array array;
	int err = maps_map(&array, bpf->maps.caller_ranges);

	if (err)
		return err;
	memcpy(array.data, filter->callers, filter->caller_count * sizeof(*filter->callers));
	maps_unmap(&array);
	return 0;
}

static int open_filter(struct ground *ground, void **state)
{
	const struct lock_filter *filter = ground->lock_filter;
	struct lockline_bpf *bpf = ground->probes->bpf;
	int err = filter->caller_count ? share_callers(filter, bpf) : 0;

	if (!err && filter->name_count)
		err = verdicts_open((struct verdicts **)state, bpf, ground);
	return err;
}

static int drain(void *state, struct ground *ground)
{
	(void)ground;
	return verdicts_answer(state);
}

static int flush(void *state, struct ground *ground)
{
	(void)ground;
	verdicts_age(state);
	return 0;
}

static void close_filter(void *state)
{
	verdicts_close(state);
}

const struct subsystem filter_subsystem = {
	.name = "filter",
	.sizes = &sizes,
	.sized = sized,
	.configure = configure,
	.open = {[STAGE_LOADED] = open_filter},
	.at = {[MOMENT_DRAIN] = drain, [MOMENT_FLUSH] = flush},
	.close = close_filter,
};
