/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Objects on a JVM's heap: their class, and the text of a string.  They move: what is read is checked by its class. */
#ifndef LOCKLINE_HOTSPOT_OBJECTS_H
#define LOCKLINE_HOTSPOT_OBJECTS_H

#include <stddef.h>

#include "hotspot/hotspot_layout.h"

/* How an object begins: it follows switches of the JVM. */
enum hotspot_header {
	HEADER_NARROW,  /* a mark, then a class of 4 bytes */
	HEADER_COMPACT, /* the class is in the mark (JDK 24 and later) */
	HEADER_FULL,    /* a mark, then a pointer to the class */
};

struct hotspot_object {
	__u64 at, klass;
	enum hotspot_header header;
};

/* class: its name, "package.Class".  Negative errno: nothing there looks like an object. */
int hotspot_object_at(const struct hotspot_layout *layout, struct target_memory *memory, __u64 at,
		      struct hotspot_object *out, char *class, size_t size);
/* Of what a native structure points to: a handle, which points to the object, or, in old versions, the object. */
int hotspot_object_of(const struct hotspot_layout *layout, struct target_memory *memory, __u64 handle,
		      struct hotspot_object *out, char *class, size_t size);
/* The name of a java.lang.Thread, in UTF-8; what does not fit is cut.  -ENODATA: it has none, or is no thread. */
int hotspot_thread_name(const struct hotspot_layout *layout, struct target_memory *memory,
			const struct hotspot_object *thread, char *out, size_t size);

#endif /* LOCKLINE_HOTSPOT_OBJECTS_H */
