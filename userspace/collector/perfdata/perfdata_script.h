/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files whose samples only perf can decode, by the text of `perf script`. */
#ifndef LOCKLINE_PERFDATA_SCRIPT_H
#define LOCKLINE_PERFDATA_SCRIPT_H

struct perfdata_import;

/* why: told where there is no perf.  What was read before is dropped. */
int perfdata_script(struct perfdata_import *import, const char *why);

#endif /* LOCKLINE_PERFDATA_SCRIPT_H */
