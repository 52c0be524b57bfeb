/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the running kernel was built with, where it tells. */
#ifndef LOCKLINE_KERNEL_CONFIG_H
#define LOCKLINE_KERNEL_CONFIG_H

enum kernel_option { OPTION_UNKNOWN = -1, OPTION_OFF, OPTION_ON };

/* path: a configuration, gzipped or not.  OPTION_UNKNOWN if it cannot be read to its end. */
enum kernel_option kernel_config_read(const char *path, const char *name);
/* name: with CONFIG_; of the running kernel. */
enum kernel_option kernel_config(const char *name);

#endif /* LOCKLINE_KERNEL_CONFIG_H */
