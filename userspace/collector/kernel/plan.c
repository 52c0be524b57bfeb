// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>
#include <string.h>

#include "base/small_file.h"
#include "cli/message.h"
#include "kernel/plan.h"

const char *const probe_state_names[] = {
	[PROBE_ON] = "on",
	[PROBE_OFF] = "off",
	[PROBE_UNAVAILABLE] = "unavailable",
	[PROBE_BLIND] = "blind",
};

void plan_put_fact(struct plan *plan, const char *name, const char *value)
{
	struct fact *fact;

	if (plan->fact_count == PLAN_FACTS)
		return;
	fact = &plan->facts[plan->fact_count++];
	snprintf(fact->name, sizeof(fact->name), "%s", name);
	snprintf(fact->value, sizeof(fact->value), "%s", value);
	make_printable(fact->value);
}

const char *plan_fact(const struct plan *plan, const char *name)
{
	for (int i = 0; i < plan->fact_count; i++)
		if (!strcmp(plan->facts[i].name, name))
			return plan->facts[i].value;
	return "";
}

const struct probe *plan_probe(const struct plan *plan, enum signal signal)
{
	for (int i = 0; i < plan->probe_count; i++)
		if (plan->probes[i].signal == signal)
			return &plan->probes[i];
	return NULL;
}

void plan_give_up(struct plan *plan, enum signal signal, const char *why, int err)
{
	struct probe *probe = (struct probe *)plan_probe(plan, signal);

	if (!probe)
		return;
	probe->state = PROBE_UNAVAILABLE;
	probe->source[0] = '\0';
	snprintf(probe->reason, sizeof(probe->reason), "%s: %s", why, strerror(-err));
	snprintf(probe->lost, sizeof(probe->lost), "%s", signal_lost(signal));
}

void plan_tell_missing(const struct plan *plan, enum signal signal)
{
	const struct probe *probe = plan_probe(plan, signal);

	if (probe && probe->state == PROBE_UNAVAILABLE)
		message("no %s: %s; the recording goes on without them", signal_name(signal), probe->reason);
}
