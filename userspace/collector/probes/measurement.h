/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the kernel's measurement of a program's run time adds to it: the report takes that off. */
#ifndef LOCKLINE_MEASUREMENT_H
#define LOCKLINE_MEASUREMENT_H

#include <stdbool.h>

#include "recording/recording.h"

/*
 * Lets the kernel measure a program that does next to nothing, and stores the figure of the calmest batch.
 * Without the right to BPF statistics nothing is stored: no run time is then known either.  Of the coarse
 * clock its step is stored.
 */
int measurement_record(struct recording *recording, int program_fd, bool coarse_clock);

#endif /* LOCKLINE_MEASUREMENT_H */
