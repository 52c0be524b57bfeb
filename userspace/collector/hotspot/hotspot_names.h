/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Names of a JVM's methods, and its other texts. */
#ifndef LOCKLINE_HOTSPOT_NAMES_H
#define LOCKLINE_HOTSPOT_NAMES_H

#include <stddef.h>

#include "hotspot/hotspot_layout.h"

/* Text of a Java class file, with '.' for '/': printable, or bytes of UTF-8.  What does not fit is cut. */
int hotspot_symbol_text(const struct hotspot_layout *layout, struct target_memory *memory, __u64 symbol, char *out,
			size_t size);
/* "package.Class.method" of a Method*; negative errno: that is none. */
int hotspot_method_name(const struct hotspot_layout *layout, struct target_memory *memory, __u64 method, char *out,
			size_t size);

#endif /* LOCKLINE_HOTSPOT_NAMES_H */
