/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The running kernel's types in the recording, so that members can be named anywhere. */
#ifndef LOCKLINE_KERNEL_BTF_H
#define LOCKLINE_KERNEL_BTF_H

#include "recording/recording.h"

/* Types that cannot be had have been told; fails only if the recording cannot be written. */
int kernel_btf_put(struct recording *recording);

#endif /* LOCKLINE_KERNEL_BTF_H */
