// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/online_cpus.h"
#include "base/patience.h"
#include "base/small_file.h"
#include "cli/kinds.h"
#include "base/clock.h"
#include "base/proc.h"
#include "base/shell_words.h"
#include "cli/message.h"
#include "session/summary.h"
#include "recording/recording_rows.h"

#define PROGRAM "lockline "
/* Of a longer command line the rest is left out. */
#define COMMAND_LINE_BYTES 4096

static int put_text(struct recording *recording, const char *name, const char *value)
{
	return recording_put_text(recording, name, value);
}

static int put_number(struct recording *recording, const char *name, __u64 value)
{
	return recording_put_number(recording, name, value);
}

static void append(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

static void append(char *text, size_t size, const char *format, ...)
{
	size_t length = strlen(text);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text + length, size - length, format, arguments);
	va_end(arguments);
}

static void append_ids(char *text, size_t size, const char *option, const struct id_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		append(text, size, "%s%u", i ? "," : option, list->ids[i]);
}

/* By lock and by caller: what is not in them was not recorded, whoever waited. */
static void append_wait_filter(const struct options *options, char *text, size_t size)
{
	if (options->locks)
		append(text, size, " -L %s", options->locks);
	if (options->callers)
		append(text, size, " -S %s", options->callers);
}

/* The filters as they would be typed. */
static void filter_text(const struct options *options, char *text, size_t size)
{
	const char *separator = " --kinds ";

	text[0] = '\0';
	append(text, size, "%s", options->all ? " -a" : "");
	append_ids(text, size, " -p ", &options->pids);
	append_ids(text, size, " -t ", &options->tids);
	append_ids(text, size, " -C ", &options->cpus);
	if (options->cgroup)
		append(text, size, " -G %s", options->cgroup);
	if (options->container)
		append(text, size, " --container %s", options->container);
	if (options->pod)
		append(text, size, " --pod %s", options->pod);
	append_wait_filter(options, text, size);
	for (int kind = 0; options->kinds != KIND_MASK_ALL && kind < KIND_END; kind++) {
		if (options->kinds >> kind & 1) {
			append(text, size, "%s%s", separator, kind_names[kind]);
			separator = ",";
		}
	}
	for (char **word = options->command_argv; word && *word; word++)
		append(text, size, "%s%s", word == options->command_argv ? " -- " : " ", *word);
	if (*text)
		memmove(text, text + 1, strlen(text));
}

/* The arguments of this process, of `lockline`: the collector is a part of it. */
static int put_command_line(struct recording *recording)
{
	char arguments[2 * COMMAND_LINE_BYTES], text[COMMAND_LINE_BYTES + sizeof(PROGRAM)] = PROGRAM;
	ssize_t length = proc_read(getpid(), "cmdline", arguments, sizeof(arguments));
	size_t first = length > 0 ? strlen(arguments) + 1 : 0;

	if (length > (ssize_t)first)
		shell_words(arguments + first, length - first, text + strlen(text), COMMAND_LINE_BYTES);
	return put_text(recording, "command_line", text);
}

/* Time that the host took away from the CPUs since boot, in ns; 0 where there is no host to do so. */
static __u64 steal_ns(void)
{
	unsigned long long ticks = 0;
	char times[256];

	if (value_of_key("/proc/stat", "cpu", times, sizeof(times)) ||
	    sscanf(times, "%*u %*u %*u %*u %*u %*u %*u %llu", &ticks) != 1)
		return 0;
	return ticks * (1000000000ull / sysconf(_SC_CLK_TCK));
}

int summary_begin(struct recording *recording, const struct plan *plan, const struct options *options,
		  const struct sizing *sizing, __u64 begin_ns)
{
	char filter[8192], wait_filter[4096] = "";
	int err = 0;

	for (int i = 0; !err && i < plan->fact_count; i++)
		err = put_text(recording, plan->facts[i].name, plan->facts[i].value);
	for (int i = 0; !err && i < plan->probe_count; i++) {
		const struct probe *probe = &plan->probes[i];

		err = recording_put(recording, probe, .signal = signal_name(probe->signal),
				    .state = probe_state_names[probe->state], .source = probe->source,
				    .reason = probe->reason, .lost = probe->lost);
	}
	for (int kind = 0; !err && kind < KIND_END; kind++)
		err = recording_put(recording, kind, .id = kind, .name = kind_names[kind]);
	filter_text(options, filter, sizeof(filter));
	append_wait_filter(options, wait_filter, sizeof(wait_filter));
	err = err ?: put_text(recording, "lockline_version", LOCKLINE_VERSION);
	err = err ?: put_command_line(recording);
	err = err ?: put_text(recording, "filter", filter);
	if (*wait_filter)
		err = err ?: put_text(recording, "wait_filter", wait_filter + 1);
	err = err ?: put_text(recording, "state", "recording");
	err = err ?: put_text(recording, "clock", plan->clock == CLOCK_COARSE ? "coarse" : "precise");
	err = err ?: put_number(recording, "begin_ns", begin_ns);
	err = err ?: put_number(recording, "end_ns", begin_ns);
	err = err ?: put_number(recording, "steal_begin_ns", steal_ns());
	err = err ?: put_number(recording, "steal_end_ns", steal_ns());
	err = err ?: put_number(recording, "begin_unix_ns", clock_ns(CLOCK_REALTIME));
	err = err ?: put_number(recording, "threshold_ns", options->threshold_ns);
	err = err ?: put_number(recording, "sample_period", options->sample_period);
	err = err ?: put_number(recording, "interval_ns", options->interval_ns ?: INTERVAL_NS);
	if (options->keep_ns)
		err = err ?: put_number(recording, "keep_ns", options->keep_ns);
	if (options->max_bytes)
		err = err ?: put_number(recording, "max_bytes", options->max_bytes);
	err = err ?: put_number(recording, "memory_bytes", sizing->budget_bytes);
	err = err ?: put_number(recording, "named_rows_per_cpu", sizing->named_rows);
	return err ?: put_number(recording, "user_stacks", options->user_stacks);
}

static int put_loss(const struct summary *summary, const char *name, __u64 count, const char *severity,
		    const char *meaning)
{
	return recording_put(summary->recording, loss, .name = name, .count = count, .meaning = meaning,
			     .severity = severity);
}

static const struct {
	const char *name;
	const char *severity;
	const char *meaning;
} counters[] = {
	[COUNT_FILTERED] =
		{"filtered", "info",
		 "starts of waits that the filters leave out, or that came while probes were attached or detached"},
	[COUNT_REPEATED] =
		{"repeated", "info",
		 "further starts of a wait in progress: of a mutex, or of the tracepoint inside a probed slow path"},
	[COUNT_NESTED] = {"nested", "info",
			  "waits that started during another wait of the same CPU or task; recorded like any other"},
	[COUNT_ORPHANED] = {"orphaned", "loss", "waits whose end was not seen"},
	[COUNT_TOO_DEEP] = {"too_deep", "loss",
			    "waits not recorded: too many waits inside each other on one CPU or task"},
	[COUNT_NO_SLOT] = {"no_slot", "loss",
			   "sleeping waits not recorded: the table of waits was full; more --memory helps"},
	[COUNT_UNMATCHED] =
		{"unmatched", "info",
		 "ends of waits without a start: filtered, begun before the recording, or the start was missed"},
	[COUNT_TABLE_FULL] =
		{"table_full", "loss",
		 "waits counted without their lock's name: the table of locks was full; more --memory helps"},
	[COUNT_STACK_ERROR] = {"stack_error", "loss", "stacks that the kernel refused"},
	[COUNT_KNOWN_STACK] = {"known_stack", "info", "stacks that were known, and not walked again"},
	[COUNT_WRONG_STACK] =
		{"wrong_stack", "loss",
		 "stacks that were taken for known ones, but were others: seen when one in 16 was walked again"},
	[COUNT_UNNAMED] = {"unnamed", "info",
			   "of the filtered: waits for locks that -L chooses by name, before the name was known"},
};

/* Sums over the CPUs; what is written while it is read is in the next interval. */
struct sums {
	__u64 begins[KIND_COUNT];
	__u64 all_begins;
	__u64 slow_paths;
	__u64 counters[COUNT_LAST];
	__u64 ends;
};

static void sum_states(const struct maps *maps, struct sums *sums)
{
	memset(sums, 0, sizeof(*sums));
	for (__u32 cpu = 0; cpu < maps->sizing->cpus; cpu++) {
		const struct cpu_state *state = maps_cpu(maps, cpu);

		for (int i = 0; i < KIND_COUNT; i++) {
			sums->begins[i] += state->begins[i];
			sums->all_begins += state->begins[i];
		}
		for (int i = 0; i < COUNT_LAST; i++)
			sums->counters[i] += state->counters[i];
		sums->ends += state->ends;
		sums->slow_paths += slow_paths_of(state);
	}
}

static int write_holder_losses(const struct summary *summary)
{
	struct holder_losses losses;
	struct holdings_losses judged;
	int err;

	if (!summary->holders)
		return 0;
	holders_losses(summary->holders, &losses, &judged);
	err = put_loss(summary, "turns_overwritten", losses.ring.overwritten, "loss",
		       "contended releases and ends of waits that the ring lost before they were read; more --memory "
		       "helps");
	err = err
		      ?: put_loss(summary, "turns_torn", losses.ring.torn, "loss",
				  "contended releases and ends of waits that changed while they were read");
	err = err ?: put_loss(summary, "holds_lost", losses.holds, "info", "holds whose start or release was not seen");
	err = err
		      ?: put_loss(summary, "holders_incomplete", judged.incomplete, "info",
				  "waits longer than lockline's memory of their lock's releases: nobody is charged for "
				  "their first part");
	return err
		       ?: put_loss(summary, "holders_without_place", judged.without_place, "loss",
				   "times that a lock or a holder had no row of its own: the table was full");
}

static int write_episode_losses(const struct summary *summary)
{
	const struct episode_losses *losses;
	int err;

	if (!summary->episodes)
		return 0;
	losses = episodes_losses(summary->episodes);
	err = put_loss(summary, "episodes_not_kept", losses->not_kept, "info",
		       "long waits kept without their events: longer ones in the same interval came first");
	return err
		       ?: put_loss(summary, "episodes_without_records", losses->without_records, "info",
				   "long waits kept without their events: the recording has reached its limit of "
				   "events");
}

static int write_naming_losses(const struct summary *summary)
{
	struct naming_queue_counts counts = {};
	int err;

	if (!summary->naming)
		return 0;
	naming_queue_counts(summary->naming, &counts);
	err = put_loss(
		summary, "names_dropped", counts.dropped + counts.helper.refused, "info",
		"addresses of user space without a name: too many were new at once, or the recording ended first");
	err = err
		      ?: put_loss(summary, "stacks_not_unwound", counts.not_unwound, "info",
				  "samples of futexes whose stack is the one by frame pointers: too many came at once, "
				  "or the recording ended first");
	return err
		       ?: put_loss(summary, "unreadable_files", counts.helper.objects, "info",
				   "files of processes that took the naming helper too long, or ended it: their "
				   "addresses have no names");
}

static int write_losses(const struct summary *summary, const struct sums *sums)
{
	__u32 end, added = cpus_listed(PRESENT_CPUS, summary->maps->sizing->cpus, &end);
	int err = 0;

	for (size_t i = 0; !err && i < sizeof(counters) / sizeof(counters[0]); i++)
		err = put_loss(summary, counters[i].name, sums->counters[i], counters[i].severity, counters[i].meaning);
	for (int kind = 0; !err && kind < KIND_END; kind++)
		if (sums->begins[kind])
			err = recording_put(summary->recording, begin_count, .kind = kind,
					    .begins = sums->begins[kind]);
	err = err
		      ?: put_loss(summary, "slow_paths", sums->slow_paths, "info",
				  "slow paths entered, as the probes around them saw it: begins besides those of the "
				  "tracepoints");
	err = err ?: put_loss(summary, "ends", sums->ends, "info", "ends seen, those of filtered waits included");
	err = err ?: put_loss(summary, "open", summary->open_waits, "info", "waits that still last");
	err = err
		      ?: put_loss(summary, "cpus_added", added, "loss",
				  "CPUs that came after the recording began: waits on them are not in it");
	err = err
		      ?: put_loss(summary, "events_overwritten", summary->losses->ring.overwritten, "loss",
				  "samples and outliers that the ring lost before they were read; their waits are in "
				  "the totals");
	err = err
		      ?: put_loss(summary, "events_torn", summary->losses->ring.torn, "loss",
				  "samples and outliers that changed while they were read; their waits are in the "
				  "totals");
	err = err
		      ?: put_loss(summary, "samples_not_written", summary->losses->not_written, "loss",
				  "samples and long waits for which there was no place while a reader kept the file")
		      ?: put_loss(summary, "outliers_dropped", summary->losses->outliers_dropped, "info",
				  "outliers beyond the longest 1,000 of an interval; their waits are in the totals");
	err = err
		      ?: put_loss(summary, "locks_reused", locks_reused_counts(summary->locks)->found, "info",
				  "addresses that became another lock's, which has a row of its own")
		      ?: put_loss(summary, "locks_not_looked_at", locks_reused_counts(summary->locks)->not_looked_at,
				  "info",
				  "locks waited for again after a pause that were not asked whether they are still the "
				  "same");
	return err
		       ?: put_loss(summary, "locks_without_place", locks_without_place(summary->locks), "loss",
				   "times that a lock had no row of its own in the collector; more --memory helps");
}

static int write_programs(const struct summary *summary, const struct sums *sums)
{
	__u64 misses = 0;
	int err = 0;

	for (size_t i = 0; !err && i < own_cost_count(summary->own_cost); i++) {
		struct program_cost cost;
		struct recorded_integer runs = {};

		err = own_cost_program(summary->own_cost, i, &cost);
		if (err)
			return err;
		if (!strcmp(cost.name, "contention_begin"))
			runs = recorded(sums->all_begins);
		else if (!strcmp(cost.name, "contention_end"))
			runs = recorded(sums->ends);
		cost.recursion_misses += probes_misses(summary->probes, cost.name);
		misses += cost.recursion_misses;
		err = recording_put(summary->recording, program, .name = cost.name, .signal = cost.signal, .runs = runs,
				    .measured_runs = cost.measured_runs, .measured_ns = cost.measured_ns,
				    .recursion_misses = cost.recursion_misses);
	}
	err = err
		      ?: put_loss(
				 summary, "recursion_misses", misses, "loss",
				 "runs that the kernel skipped because the program, or for a kprobe any other one, was "
				 "already running on that CPU");
	return err
		       ?: put_loss(summary, "misses_uncounted", probes_uncounted(summary->probes), "info",
				   "programs of kprobes (before Linux 6.7) and perf events whose skipped runs this "
				   "kernel does not count");
}

static int put_cost(const struct summary *summary, const char *name, __u64 value, const char *unit)
{
	return recording_put(summary->recording, cost, .name = name, .value = value, .unit = unit);
}

static int write_cost(const struct summary *summary)
{
	const char *unavailable = own_cost_unavailable(summary->own_cost);
	struct naming_queue_counts naming = {};
	struct own_usage usage;
	int err = own_cost_usage(&usage);

	if (err)
		return err;
	if (summary->naming)
		naming_queue_counts(summary->naming, &naming);
	err = put_cost(summary, "collector_cpu_ns", usage.user_ns + usage.system_ns + naming.helper.cpu_ns, "ns");
	if (summary->naming) {
		err = err ?: put_cost(summary, "naming_cpu_ns", naming.helper.cpu_ns, "ns");
		err = err ?: put_cost(summary, "naming_longest_ns", naming.longest_ns, "ns");
		err = err ?: put_cost(summary, "naming_restarts", naming.helper.restarts, "restarts");
	}
	err = err ?: put_cost(summary, "commit_longest_ns", recording_longest_commit_ns(summary->recording), "ns");
	err = err ?: put_cost(summary, "reads_given_up", patience_lost(), "reads");
	err = err ?: put_cost(summary, "collector_user_ns", usage.user_ns, "ns");
	err = err ?: put_cost(summary, "collector_system_ns", usage.system_ns, "ns");
	err = err ?: put_cost(summary, "collector_peak_rss_bytes", usage.peak_rss_bytes, "bytes");
	err = err
		      ?: put_cost(summary, "collector_switches", usage.voluntary_switches + usage.involuntary_switches,
				  "switches");
	err = err ?: put_cost(summary, "map_bytes", summary->maps->sizing->map_bytes, "bytes");
	err = err ?: put_cost(summary, "table_bytes", summary->maps->sizing->total_bytes, "bytes");
	err = err
		      ?: put_cost(summary, "names_bytes",
				  lock_names_bytes(summary->names) + symbols_bytes(summary->symbols) +
					  cgroup_paths_bytes(summary->cgroups),
				  "bytes");
	err = err ?: put_cost(summary, "measured_window_ns", own_cost_window_ns(summary->own_cost), "ns");
	err = err ?: put_cost(summary, "measured_windows", own_cost_windows(summary->own_cost), "windows");
	return err ?: put_text(summary->recording, "own_cost_unavailable", unavailable ?: "");
}

int summary_write(const struct summary *summary)
{
	struct sums sums;
	int err;

	sum_states(summary->maps, &sums);
	err = write_losses(summary, &sums);
	err = err ?: write_holder_losses(summary);
	err = err ?: write_episode_losses(summary);
	err = err ?: write_naming_losses(summary);
	err = err ?: write_programs(summary, &sums);
	err = err ?: write_cost(summary);
	err = err ?: put_number(summary->recording, "end_ns", summary->now_ns);
	err = err ?: put_number(summary->recording, "steal_end_ns", steal_ns());
	if (!err && summary->last)
		err = put_text(summary->recording, "state", "complete");
	return err;
}

void summary_print(const struct maps *maps, __u64 length_ns, const char *path)
{
	struct sums sums;

	sum_states(maps, &sums);
	message("Recorded %.1f s%s%s: %llu lock waits began, %llu without a known end%s%s", length_ns / 1e9,
		path ? " to " : "", path ?: "", sums.all_begins + sums.slow_paths,
		sums.counters[COUNT_ORPHANED] + sums.counters[COUNT_TOO_DEEP] + sums.counters[COUNT_NO_SLOT],
		path ? "; lockline report " : "", path ?: "");
}
