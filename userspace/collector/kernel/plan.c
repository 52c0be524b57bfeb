// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "kernel/plan.h"

const char *const probe_state_names[] = {
	[PROBE_ON] = "on",
	[PROBE_OFF] = "off",
	[PROBE_UNAVAILABLE] = "unavailable",
	[PROBE_BLIND] = "blind",
};

const char *plan_fact(const struct plan *plan, const char *name)
{
	for (int i = 0; i < plan->fact_count; i++)
		if (!strcmp(plan->facts[i].name, name))
			return plan->facts[i].value;
	return "";
}
