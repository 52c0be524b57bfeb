// SPDX-License-Identifier: GPL-2.0-or-later
#include <math.h>

#include "base/json.h"
#include "kernel/cpu_pairs.h"
#include "recording/recording.h"
#include "recording/recording_rows.h"

static __u64 greater(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

/* Which of a pair's CPUs is behind the other one. */
static void put_behind(struct json *json, const char *key, const struct cpu_pair *pair, const struct warp warp[2])
{
	json_key(json, key);
	if (!warp[0].worst && !warp[1].worst)
		json_null(json);
	else
		json_number(json, "%u", warp[0].worst > warp[1].worst ? pair->cpus.first : pair->cpus.second);
}

static void put_pair(struct json *json, const struct cpu_pair *pair)
{
	json_open(json, '{');
	json_key_number(json, "first", pair->cpus.first);
	json_key_number(json, "second", pair->cpus.second);
	json_key_text(json, "relation", cpu_relation_names[pair->cpus.relation]);
	json_key(json, "transfer_ns");
	json_number(json, "%.1f", pair->transfer_ns);
	json_key(json, "least_transfer_ns");
	json_number(json, "%.1f", pair->least_transfer_ns);
	json_key_number(json, "rounds", pair->rounds);
	json_key_number(json, "readings", pair->clock[0].readings + pair->clock[1].readings);
	json_key_number(json, "warp_ns", greater(pair->clock[0].worst, pair->clock[1].worst));
	put_behind(json, "warp_behind", pair, pair->clock);
	json_key_number(json, "counter_warp_ticks", greater(pair->counter[0].worst, pair->counter[1].worst));
	put_behind(json, "counter_warp_behind", pair, pair->counter);
	json_close(json, '}');
}

void cpu_pairs_json(const struct cpu_pairs *pairs, struct json *json)
{
	json_open(json, '{');
	json_key_number(json, "cpus", pairs->cpus);
	json_key_number(json, "possible_pairs", pairs->possible);
	json_key_number(json, "chosen_pairs", pairs->chosen);
	json_key_text(json, "counter", cpu_counter_name);
	json_key(json, "counter_hz");
	json_number(json, "%.0f", pairs->counter_hz);
	json_key(json, "pairs");
	json_open(json, '[');
	for (__u32 i = 0; i < pairs->chosen; i++)
		if (pairs->pairs[i].rounds)
			put_pair(json, &pairs->pairs[i]);
	json_close(json, ']');
	json_close(json, '}');
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
