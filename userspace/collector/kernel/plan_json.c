// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>

#include "base/json.h"
#include "kernel/cpu_pairs.h"
#include "cli/message.h"
#include "kernel/plan_json.h"

void plan_print_json(const struct plan *plan, const struct cpu_pairs *pairs)
{
	struct json json = {.out = stdout};

	json_open(&json, '{');
	json_key_text(&json, "schema", "lockline-doctor/1");
	json_key(&json, "host");
	json_open(&json, '{');
	for (int i = 0; i < plan->fact_count; i++)
		json_key_text(&json, plan->facts[i].name, plan->facts[i].value);
	json_close(&json, '}');
	json_key(&json, "probes");
	json_open(&json, '[');
	for (int i = 0; i < plan->probe_count; i++) {
		const struct probe *probe = &plan->probes[i];

		json_open(&json, '{');
		json_key_text(&json, "signal", signal_name(probe->signal));
		json_key_text(&json, "state", probe_state_names[probe->state]);
		json_key_text(&json, "source", probe->source);
		json_key_text(&json, "reason", probe->reason);
		json_key_text(&json, "lost", probe->lost);
		json_close(&json, '}');
	}
	json_close(&json, ']');
	if (pairs) {
		json_key(&json, "cpu_pairs");
		cpu_pairs_json(pairs, &json);
	}
	json_close(&json, '}');
	fputc('\n', stdout);
}
