/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One recording, from the plan to the closed file. */
#ifndef LOCKLINE_SESSION_H
#define LOCKLINE_SESSION_H

#include "cli/options.h"

/* Of session_record(): what --until or --flight waited for has happened; also the exit code. */
#define SESSION_FIRED 2

/* 0, SESSION_FIRED, or a negative errno; the reason has been told. */
int session_record(const struct options *options);
#endif /* LOCKLINE_SESSION_H */
