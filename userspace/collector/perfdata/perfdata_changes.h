/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Records that change tasks and mappings. */
#ifndef LOCKLINE_PERFDATA_CHANGES_H
#define LOCKLINE_PERFDATA_CHANGES_H

#include "memory/memory_tasks.h"
#include "perfdata/perfdata_reader.h"

/* MMAP, MMAP2, COMM, FORK or EXIT; -EBADMSG: shorter than it has to be. */
int perfdata_apply_change(struct memory_tasks *tasks, const struct perfdata_record_view *record, bool big);

#endif /* LOCKLINE_PERFDATA_CHANGES_H */
