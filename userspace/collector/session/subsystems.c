// SPDX-License-Identifier: GPL-2.0-or-later
#include <stddef.h>

#include "clocksource/clocksource_subsystem.h"
#include "episodes/episodes_subsystem.h"
#include "filter/filter_subsystem.h"
#include "futex/futex_subsystem.h"
#include "futex/go_subsystem.h"
#include "holders/holders_subsystem.h"
#include "memory/memory_subsystem.h"
#include "perfdata/c2c_subsystem.h"
#include "ptrace/ptrace_subsystem.h"
#include "session/subsystems.h"
#include "sleeps/sleeps_subsystem.h"
#include "waits/waits_subsystem.h"
#include "watch/watch_subsystem.h"

/*
 * The order is that of attaching, opening, reading and writing: waits first, on which all others stand, then
 * holders, which episodes ask.  Closed in the reverse.
 */
const struct subsystem *const subsystems[SUBSYSTEMS] = {
	&waits_subsystem,       /* lock waits: totals, samples, outliers */
	&filter_subsystem,      /* -L, -S */
	&holders_subsystem,     /* --holders, --holds */
	&episodes_subsystem,    /* --episodes, --flight, --until */
	&ptrace_subsystem,      /* --ptrace */
	&clocksource_subsystem, /* --clocksource */
	&sleeps_subsystem,      /* what threads sleep in */
	&futex_subsystem,       /* --futex */
	&go_subsystem,          /* --go */
	&memory_subsystem,      /* --hitm */
	&c2c_subsystem,         /* --c2c */
	&watch_subsystem,       /* the command watch */
};

bool subsystems_name_user_code(const struct plan *plan)
{
	for (int i = 0; i < SUBSYSTEMS; i++)
		if (subsystems[i]->names_user_code && subsystems[i]->names_user_code(plan))
			return true;
	return false;
}

int subsystems_open(struct opened *opened, struct ground *ground, enum stage stage)
{
	int err = 0;

	for (int i = 0; !err && i < SUBSYSTEMS; i++)
		if (subsystems[i]->open[stage])
			err = subsystems[i]->open[stage](ground, &opened->states[i]);
	return err;
}

int subsystems_at(struct opened *opened, struct ground *ground, enum moment moment)
{
	int err = 0;

	for (int i = 0; !err && i < SUBSYSTEMS; i++)
		if (opened->states[i] && subsystems[i]->at[moment])
			err = subsystems[i]->at[moment](opened->states[i], ground);
	return err;
}

bool subsystems_care(const struct opened *opened, enum moment moment)
{
	for (int i = 0; i < SUBSYSTEMS; i++)
		if (opened->states[i] && subsystems[i]->at[moment])
			return true;
	return false;
}

void subsystems_end(struct opened *opened)
{
	for (int i = 0; i < SUBSYSTEMS; i++)
		if (opened->states[i] && subsystems[i]->end)
			subsystems[i]->end(opened->states[i]);
}

void subsystems_close(struct opened *opened)
{
	for (int i = SUBSYSTEMS - 1; i >= 0; i--) {
		if (opened->states[i])
			subsystems[i]->close(opened->states[i]);
		opened->states[i] = NULL;
	}
}
