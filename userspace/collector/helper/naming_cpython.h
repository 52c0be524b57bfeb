/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Functions of Python that a thread is in.  Runs in the helper alone: see naming_helper.c. */
#ifndef LOCKLINE_NAMING_CPYTHON_H
#define LOCKLINE_NAMING_CPYTHON_H

#include "helper/naming_target.h"

/* interpreter: its object, python3.X or libpython3.X.so. */
int naming_cpython_frames(__u32 interpreter, const struct naming_memory *asked, const struct cpython_thread *thread,
			  struct cpython_frames *frames);

#endif /* LOCKLINE_NAMING_CPYTHON_H */
