/* SPDX-License-Identifier: GPL-2.0-or-later */
/* record --c2c: perf's memory samples of the same time, beside the recording; what goes wrong with them never ends it. */
#ifndef LOCKLINE_C2C_RECORD_H
#define LOCKLINE_C2C_RECORD_H

#include "kernel/plan.h"
#include "recording/recording.h"

struct c2c_record;

/*
 * Starts perf, its events off, and stores the kernel's types.  A line says
 * what is not available; it is the plan's signal "memory samples".  Fails
 * only if the recording cannot be written.
 */
int c2c_record_open(struct c2c_record **out, const struct options *options, struct plan *plan,
		    struct recording *recording);
/* All of these do nothing with NULL. */
int c2c_record_begin(struct c2c_record *c2c);
/* Ends the sampling. */
void c2c_record_end(struct c2c_record *c2c);
/* Waits for perf, and stores what became of it. */
int c2c_record_finish(struct c2c_record *c2c);
void c2c_record_close(struct c2c_record *c2c);

#endif /* LOCKLINE_C2C_RECORD_H */
