/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Sums of memory samples into the memory_* tables of a recording, once; memory_update.h does it as they grow. */
#ifndef LOCKLINE_MEMORY_WRITE_H
#define LOCKLINE_MEMORY_WRITE_H

#include "memory/memory_source.h"

/* Frees what it does not need any more: lines cannot be added to afterwards. */
int memory_write(const struct memory_write *write, struct memory_rank *rank);

#endif /* LOCKLINE_MEMORY_WRITE_H */
