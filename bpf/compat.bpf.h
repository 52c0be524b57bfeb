/* SPDX-License-Identifier: GPL-2.0 */
/* One helper per kernel difference, with the version (and commit) that made it. */
#ifndef COMPAT_BPF_H
#define COMPAT_BPF_H

#include "vmlinux.h"
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#endif /* COMPAT_BPF_H */
