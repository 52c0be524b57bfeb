/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Tells systemd how the service is, as sd_notify(3) does; nothing where nobody listens. */
#ifndef LOCKLINE_NOTIFY_H
#define LOCKLINE_NOTIFY_H

#include <linux/types.h>

/* As in "READY=1".  It never waits. */
void notify(const char *state);
/* How often the watchdog wants to hear "WATCHDOG=1", half of the time that it waits; 0: there is none. */
__u64 notify_watchdog_ns(void);

#endif /* LOCKLINE_NOTIFY_H */
