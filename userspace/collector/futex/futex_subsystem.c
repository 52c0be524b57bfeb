// SPDX-License-Identifier: GPL-2.0-or-later
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "bpf/futex.h"
#include "cli/message.h"
#include "futex/futex_subsystem.h"
#include "futex/futexes.h"
#include "futex/futex_rows.h"
#include "lockline.skel.h"
#include "probes/probe_cost.h"

#define MIN_FUTEX_ROWS 64
#define MAX_FUTEX_ROWS 4096
#define MIN_FUTEXES    512
#define MAX_FUTEXES    8192

static __u32 row_bytes(const struct sizing *s)
{
	return sizeof(struct futex_row) + sizeof(struct futex_row_seen);
}

static __u32 known_bytes(const struct sizing *s)
{
	return FUTEX_KNOWN_BYTES;
}

/* What the programs, and the collector, keep of a task in a futex call. */
static __u32 slot_bytes(const struct sizing *s)
{
	return sizeof(struct futex_slot) + FUTEX_OWNED_BYTES;
}

/* Twice the threads, as others come: nearly all of a JVM's may wait at once. */
static __u32 slots_for_threads(const struct sizing_wish *wish)
{
	__u32 slots = FUTEX_LEAST_SLOTS;

	while (slots < FUTEX_MOST_SLOTS && slots < 2ull * wish->threads)
		slots *= 2;
	return slots;
}

static void add_bytes(struct sizing *s)
{
	__u64 per_cpu = sizeof(struct futex_state) + FUTEX_RING_EVENTS * sizeof(struct futex_event) +
			FUTEX_BUCKET_ROWS * (sizeof(struct futex_bucket) + sizeof(__s64)) +
			s->futex_rows * (sizeof(struct futex_row) + sizeof(struct futex_row_seen)) +
			futex_stacks_per_cpu_of(s->cpus) * sizeof(struct futex_stack);

	s->futex_bytes += s->cpus * per_cpu + s->futex_slots * slot_bytes(s) + s->futexes * FUTEX_KNOWN_BYTES;
}

static const struct size_part sizes = {
	.sized = {{offsetof(struct sizing, futex_rows), MIN_FUTEX_ROWS, MAX_FUTEX_ROWS, true, row_bytes},
		  {offsetof(struct sizing, futexes), MIN_FUTEXES, MAX_FUTEXES, false, known_bytes},
		  {offsetof(struct sizing, futex_slots), FUTEX_LEAST_SLOTS, FUTEX_MOST_SLOTS, false, slot_bytes, 2,
		   slots_for_threads}},
	.add = add_bytes,
};

static bool sized(const struct options *options, const struct plan *plan)
{
	return options->futex;
}

static bool names_user_code(const struct plan *plan)
{
	return plan->futex;
}

/* Exits before entries: a call whose end was not seen would keep its slot. */
static int choices(struct lockline_bpf *bpf, const struct plan *plan, struct choice *choices, int count)
{
	const struct {
		struct bpf_program *enter, *leave;
	} calls[FUTEX_FUNCTIONS] = {
#define CALL(function, name) [function] = {bpf->progs.futex_enter_##name, bpf->progs.futex_exit_##name}
		CALL(FUTEX_FUNCTION, futex),
		CALL(FUTEX_WAITV_FUNCTION, waitv),
		CALL(FUTEX_WAKE_FUNCTION, wake),
		CALL(FUTEX_WAIT_FUNCTION, wait),
		CALL(FUTEX_REQUEUE_FUNCTION, requeue),
		CALL(FUTEX_TIME32_FUNCTION_32, time32_32),
		CALL(FUTEX_FUNCTION_32, futex_32),
		CALL(FUTEX_WAITV_FUNCTION_32, waitv_32),
		CALL(FUTEX_WAKE_FUNCTION_32, wake_32),
		CALL(FUTEX_WAIT_FUNCTION_32, wait_32),
		CALL(FUTEX_REQUEUE_FUNCTION_32, requeue_32),
		CALL(YIELD_FUNCTION, yield),
		CALL(RESTART_FUNCTION, restart),
	};
	const bool all_calls = plan->futex && !plan->futex_functions;

	choices[count++] = (struct choice){bpf->progs.futex_exit, all_calls, SIGNAL_FUTEX_WAITS, NULL};
	for (int i = 0; i < FUTEX_FUNCTIONS; i++)
		choices[count++] = (struct choice){calls[i].leave, plan->futex_functions >> i & 1, SIGNAL_FUTEX_WAITS,
						   futex_function_names[i]};
	choices[count++] = (struct choice){bpf->progs.futex_waking, plan->futex, SIGNAL_FUTEX_WAITS, NULL};
	for (int i = 0; i < FUTEX_FUNCTIONS; i++)
		choices[count++] = (struct choice){calls[i].enter, plan->futex_functions >> i & 1, SIGNAL_FUTEX_WAITS,
						   futex_function_names[i]};
	choices[count++] = (struct choice){bpf->progs.futex_enter, all_calls, SIGNAL_FUTEX_WAITS, NULL};
	return count;
}

static int configure(struct lockline_bpf *bpf, const struct ground *ground)
{
	return futexes_resize(bpf, ground->sizing, ground->plan->futex);
}

static int open_futexes(struct ground *ground, void **state)
{
	if (!ground->plan->futex)
		return 0;
	return futexes_open((struct futexes **)state, ground->probes->bpf, ground->sizing, ground->recording,
			    ground->locks, ground->stacks, ground->options->futex_stacks);
}

/* Before anything is recorded: it can be stopped then. */
static void tell_cost(const struct ground *ground)
{
	const char *what = ground->plan->futex_functions ? "the system calls of futexes" : "every system call";
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct probe_cost cost;
	int err = probe_cost_measure(ground->probes, 1ull << SIGNAL_FUTEX_WAITS, &cost);

	if (err)
		message("--futex probes %s; what that costs cannot be measured: %s", what, strerror(-err));
	else
		message("--futex probes %s, and every wake-up: %.0f a second now, %.0f ns each: at least %.1f "
			"%% "
			"of the time of %ld CPUs%s",
			what, cost.runs / (cost.window_ns / 1e9), cost.runs ? (double)cost.run_ns / cost.runs : 0.0,
			100.0 * cost.run_ns / (cost.window_ns * (double)cpus), cpus,
			ground->plan->futex_functions ? ""
						      : "; a program that does little else than system calls can lose "
							"a quarter of its speed");
}

static int tell(struct ground *ground, void **state)
{
	if (!ground->options->futex)
		return 0;
	plan_tell_missing(ground->plan, SIGNAL_FUTEX_WAITS);
	if (ground->plan->futex && !ground->options->quiet)
		tell_cost(ground);
	return 0;
}

static int begin(void *state, struct ground *ground)
{
	futexes_meet_waiting(state, ground->probes, ground->options, ground->begin_ns);
	return 0;
}

static int drain(void *state, struct ground *ground)
{
	return futexes_drain(state);
}

static int put_aside(void *state, struct ground *ground)
{
	futexes_put_aside(state);
	return 0;
}

static int flush(void *state, struct ground *ground)
{
	return futexes_drain(state) ?: futexes_flush(state, now_ns());
}

static void close_futexes(void *state)
{
	futexes_close(state);
}

const struct subsystem futex_subsystem = {
	.name = "futex",
	.sizes = &sizes,
	.sized = sized,
	.names_user_code = names_user_code,
	.choices = choices,
	.configure = configure,
	.open = {[STAGE_LOADED] = open_futexes, [STAGE_ATTACHED] = tell},
	.at = {[MOMENT_BEGIN] = begin, [MOMENT_DRAIN] = drain, [MOMENT_ASIDE] = put_aside, [MOMENT_FLUSH] = flush},
	.close = close_futexes,
};
