/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The list of the subsystems, and how a recording walks it. */
#ifndef LOCKLINE_SUBSYSTEMS_H
#define LOCKLINE_SUBSYSTEMS_H

#include "probes/subsystem.h"

#define SUBSYSTEMS 12

extern const struct subsystem *const subsystems[SUBSYSTEMS];

/* Of one recording: what each has opened; NULL: it is not of it. */
struct opened {
	void *states[SUBSYSTEMS];
};

/* Whether any subsystem of this plan needs names of user code. */
bool subsystems_name_user_code(const struct plan *plan);
/* All stop at the first error. */
int subsystems_open(struct opened *opened, struct ground *ground, enum stage stage);
int subsystems_at(struct opened *opened, struct ground *ground, enum moment moment);
/* Whether something is to be done at that moment. */
bool subsystems_care(const struct opened *opened, enum moment moment);
void subsystems_end(struct opened *opened);
/* In the reverse order. */
void subsystems_close(struct opened *opened);

#endif /* LOCKLINE_SUBSYSTEMS_H */
