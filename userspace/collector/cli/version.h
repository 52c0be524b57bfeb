/* SPDX-License-Identifier: GPL-2.0-or-later */
/* --version: the version, and what the binary was linked with. */
#ifndef LOCKLINE_VERSION_H
#define LOCKLINE_VERSION_H

void print_version(void);

#endif /* LOCKLINE_VERSION_H */
