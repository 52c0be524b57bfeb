// SPDX-License-Identifier: GPL-2.0-or-later
/* The programs of the signals that stand beside the lock waits. */
#include <string.h>

#include "lockline.skel.h"
#include "probes.h"

int signal_choices(struct lockline_bpf *bpf, const struct plan *plan, struct choice *choices, int count)
{
	/* Exits before entries: a call whose end was not seen would keep its slot. */
	const struct choice table[] = {
		{bpf->progs.futex_exit, plan->futex, "futex waits", NULL},
		{bpf->progs.futex_switch, plan->futex, "futex waits", NULL},
		{bpf->progs.futex_waking, plan->futex, "futex waits", NULL},
		{bpf->progs.futex_enter, plan->futex, "futex waits", NULL},
	};
	const int more = sizeof(table) / sizeof(table[0]);

	memcpy(choices + count, table, sizeof(table));
	return count + more;
}
