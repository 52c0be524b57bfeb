// SPDX-License-Identifier: GPL-2.0-or-later
#include <stddef.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "base/clock.h"
#include "bpf/lockline.h"
#include "holders/holder_wakes.h"
#include "holders/holders.h"
#include "holders/holders_subsystem.h"
#include "holders/release_probes.h"
#include "lockline.skel.h"

#define MIN_RING_HOLDINGS 256
#define MAX_RING_HOLDINGS 16384

static __u32 record_bytes(const struct sizing *s)
{
	return sizeof(struct holding_record);
}

static void add_bytes(struct sizing *s)
{
	__u64 per_cpu = sizeof(struct release_state) + (__u64)RELEASE_STACKS * s->stack_bytes +
			(__u64)s->ring_holdings * sizeof(struct holding_record) + FOCUS_LOCKS * sizeof(struct hold_row);

	s->map_bytes += s->cpus * per_cpu + (__u64)s->sleep_slots * SLEEP_DEPTH * sizeof(__u32) +
			WAITER_COUNTS * sizeof(struct waiter_count) + FOCUS_LOCKS * sizeof(__u64);
}

static const struct size_part sizes = {
	.sized = {{offsetof(struct sizing, ring_holdings), MIN_RING_HOLDINGS, MAX_RING_HOLDINGS, true, record_bytes}},
	.add = add_bytes,
};

static bool sized(const struct options *options, const struct plan *plan)
{
	return options->holders;
}

static int configure(struct lockline_bpf *bpf, const struct ground *ground)
{
	__u32 records = ground->sizing->ring_holdings;

	bpf->rodata->holding_mask = records ? records - 1 : 0;
	bpf->rodata->wake_mask = records ? records / WAKE_PARTS - 1 : 0;
	bpf->rodata->record_holdings = ground->options->holders;
	bpf->rodata->count_waiters = ground->options->holders && ground->plan->spinlock_mode == SPINLOCK_TEST_AND_SET;
	bpf->rodata->measure_holds = ground->plan->release_functions & SPIN_LOCKS;
	return 0;
}

static int open_holders(struct ground *ground, void **state)
{
	int err = 0;

	if (ground->options->holders)
		err = holders_open(&ground->holders, &ground->probes->maps, ground->recording, ground->locks,
				   ground->stacks);
	*state = ground->holders;
	return err || !ground->holders
		       ? err
		       : holders_wake_by(ground->holders, bpf_map__fd(ground->probes->bpf->maps.holding_wakes),
					 &ground->hurry_fd);
}

/* The probes of unlocks are dear: their cost is shown before the recording begins. */
static int tell(struct ground *ground, void **state)
{
	const struct options *options = ground->options;
	struct probe_cost cost;
	int err;

	if (options->holders)
		plan_tell_missing(ground->plan, SIGNAL_SPINLOCK_HOLDERS);
	if (options->holds)
		plan_tell_missing(ground->plan, SIGNAL_HOLD_TIMES);
	if (!options->holders || !(ground->plan->release_functions || ground->plan->contended_release))
		return 0;
	err = release_cost(ground->probes, &cost);
	release_cost_tell(&cost, err, ground->plan, options->holds, sysconf(_SC_NPROCESSORS_ONLN));
	return 0;
}

static int hurry(void *state, struct ground *ground)
{
	return holders_drain(state, now_ns(), ground->last);
}

static int put_aside(void *state, struct ground *ground)
{
	holders_put_aside(state);
	return 0;
}

static int flush(void *state, struct ground *ground)
{
	return holders_flush(state);
}

static void close_holders(void *state)
{
	holders_close(state);
}

const struct subsystem holders_subsystem = {
	.name = "holders",
	.sizes = &sizes,
	.sized = sized,
	.choices = release_choices,
	.configure = configure,
	.open = {[STAGE_LOADED] = open_holders, [STAGE_ATTACHED] = tell},
	.at = {[MOMENT_HURRY] = hurry, [MOMENT_ASIDE] = put_aside, [MOMENT_FLUSH] = flush},
	.close = close_holders,
};
