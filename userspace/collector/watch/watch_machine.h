/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Machines on which a watchpoint does harm. */
#ifndef LOCKLINE_WATCH_MACHINE_H
#define LOCKLINE_WATCH_MACHINE_H

#include <stdbool.h>

#include "kernel/kernel_config.h"

/*
 * arm64: without atomics (LSE) of the processor, used by the kernel too, a
 * locked access is a loop that each exception begins anew.  NULL: it may be
 * watched; else why not.
 */
const char *watch_lse_refusal(bool processor, enum kernel_option kernel, bool kernel_target, bool full);
/* The same of this machine; NULL on others than arm64. */
const char *watch_machine_refusal(bool kernel_target, bool full);

#endif /* LOCKLINE_WATCH_MACHINE_H */
