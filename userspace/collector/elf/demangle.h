/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of C++ and Rust functions as people write them.  Runs in the helper: the names are other people's. */
#ifndef LOCKLINE_DEMANGLE_H
#define LOCKLINE_DEMANGLE_H

#include <stddef.h>

/* Without parameters and Rust's hash, cut to the size; what is no such name is copied. */
void demangle(const char *name, char *out, size_t size);

#endif /* LOCKLINE_DEMANGLE_H */
