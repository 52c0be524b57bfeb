/* SPDX-License-Identifier: GPL-2.0-or-later */
/* lockline-collect import: from a perf.data file to a recording. */
#ifndef LOCKLINE_PERFDATA_IMPORT_H
#define LOCKLINE_PERFDATA_IMPORT_H

#include "perfdata/perfdata_sums.h"

/* 0, or a negative errno; the reason has been told. */
int perfdata_import(const struct options *options);

/* The parts of it: all samples are in import->lines after read. */
int perfdata_import_open(struct perfdata_import *import, const struct options *options);
int perfdata_import_read(struct perfdata_import *import);
void perfdata_import_close(struct perfdata_import *import);
#endif /* LOCKLINE_PERFDATA_IMPORT_H */
