/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What an imported recording says of itself. */
#ifndef LOCKLINE_PERFDATA_META_H
#define LOCKLINE_PERFDATA_META_H

#include "memory/memory_rank.h"
#include "perfdata/perfdata_sums.h"
#include "recording/recording.h"

/* Facts, losses and kinds; then all is in the recording. */
int perfdata_write_meta(const struct perfdata_import *import, struct recording *recording, const char *symbols,
			const struct memory_rank *rank);

#endif /* LOCKLINE_PERFDATA_META_H */
