// SPDX-License-Identifier: GPL-2.0-or-later
#include <math.h>
#include <sqlite3.h>

#include "kernel/cpu_pairs.h"
#include "recording/recording.h"
#include "recording/recording_rows.h"

static __u64 greater(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

/* Which of a pair's CPUs is behind the other one, as a JSON value. */
static void put_behind(sqlite3_str *text, const struct cpu_pair *pair, const struct warp warp[2])
{
	if (!warp[0].worst && !warp[1].worst)
		sqlite3_str_appendall(text, "null");
	else
		sqlite3_str_appendf(text, "%u", warp[0].worst > warp[1].worst ? pair->cpus.first : pair->cpus.second);
}

char *cpu_pairs_json(const struct cpu_pairs *pairs)
{
	sqlite3_str *text = sqlite3_str_new(NULL);
	const char *comma = "";

	sqlite3_str_appendf(text,
			    "{\"cpus\": %u, \"possible_pairs\": %llu, \"chosen_pairs\": %u, \"counter\": \"%s\", "
			    "\"counter_hz\": %.0f, \"pairs\": [",
			    pairs->cpus, pairs->possible, pairs->chosen, cpu_counter_name, pairs->counter_hz);
	for (__u32 i = 0; i < pairs->chosen; i++) {
		const struct cpu_pair *pair = &pairs->pairs[i];

		if (!pair->rounds)
			continue;
		sqlite3_str_appendf(
			text,
			"%s{\"first\": %u, \"second\": %u, \"relation\": \"%s\", \"transfer_ns\": %.1f, "
			"\"least_transfer_ns\": %.1f, \"rounds\": %u, \"readings\": %llu, \"warp_ns\": %llu, "
			"\"warp_behind\": ",
			comma, pair->cpus.first, pair->cpus.second, cpu_relation_names[pair->cpus.relation],
			pair->transfer_ns, pair->least_transfer_ns, pair->rounds,
			pair->clock[0].readings + pair->clock[1].readings,
			greater(pair->clock[0].worst, pair->clock[1].worst));
		put_behind(text, pair, pair->clock);
		sqlite3_str_appendf(text, ", \"counter_warp_ticks\": %llu, \"counter_warp_behind\": ",
				    greater(pair->counter[0].worst, pair->counter[1].worst));
		put_behind(text, pair, pair->counter);
		sqlite3_str_appendall(text, "}");
		comma = ", ";
	}
	sqlite3_str_appendall(text, "]}");
	return sqlite3_str_finish(text);
}

static int write_pairs(const struct cpu_pairs *pairs, struct recording *recording)
{
	__u64 counter_warp = 0;
	int err = 0;

	for (__u32 i = 0; !err && i < pairs->chosen; i++) {
		const struct cpu_pair *pair = &pairs->pairs[i];

		if (!pair->rounds)
			continue;
		counter_warp = greater(counter_warp, greater(pair->counter[0].worst, pair->counter[1].worst));
		err = recording_put(recording, cpu_pair, .first = pair->cpus.first, .second = pair->cpus.second,
				    .transfer_ns = pair->transfer_ns, .least_transfer_ns = pair->least_transfer_ns,
				    .warp_ns = greater(pair->clock[0].worst, pair->clock[1].worst),
				    .rounds = pair->rounds);
	}
	err = err ?: recording_put_number(recording, "cpu_pairs_possible", pairs->possible);
	err = err ?: recording_put_number(recording, "cpu_pairs_chosen", pairs->chosen);
	err = err ?: recording_put_text(recording, "cpu_counter", cpu_counter_name);
	err = err ?: recording_put_number(recording, "cpu_counter_hz", llround(pairs->counter_hz));
	return err ?: recording_put_number(recording, "cpu_counter_warp_ticks", counter_warp);
}

int cpu_pairs_record(struct recording *recording)
{
	struct cpu_pairs *pairs;
	int err = cpu_pairs_open(&pairs, DEEP_RECORD_NS);

	err = err ?: write_pairs(pairs, recording);
	cpu_pairs_close(pairs);
	return err;
}
