/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Capabilities of Linux 5.8 and 5.9, which the C library's headers may lack. */
#ifndef LOCKLINE_CAPABILITIES_H
#define LOCKLINE_CAPABILITIES_H

#include <linux/capability.h>

#ifndef CAP_PERFMON
#define CAP_PERFMON 38
#define CAP_BPF     39
#endif
#ifndef CAP_CHECKPOINT_RESTORE
#define CAP_CHECKPOINT_RESTORE 40
#endif

#endif /* LOCKLINE_CAPABILITIES_H */
