/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When BPF programs are done with what they found in a map. */
#ifndef LOCKLINE_PROGRAMS_H
#define LOCKLINE_PROGRAMS_H

#include <stdbool.h>

/* Whether programs_wait() works here: not on kernels with nohz_full CPUs, nor on one CPU. */
bool programs_can_be_waited_for(void);
/* Waits until no program that runs now runs any more, and sees what they wrote; false: it could not. */
bool programs_wait(void);

#endif /* LOCKLINE_PROGRAMS_H */
