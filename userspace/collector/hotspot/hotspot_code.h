/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is at an address of a JVM's compiled code: HotSpot's code cache, its segment maps, code blobs and scopes. */
#ifndef LOCKLINE_HOTSPOT_CODE_H
#define LOCKLINE_HOTSPOT_CODE_H

#include "hotspot/hotspot_layout.h"

#define HOTSPOT_HEAPS   8
#define HOTSPOT_INLINED 16 /* methods that the compiler put into one place */
#define HOTSPOT_NAME    64

struct hotspot_heap {
	__u64 low, high;
	__u64 segments, segments_end; /* the map: a byte each */
	__u32 shift;
};

struct hotspot_heaps {
	struct hotspot_heap list[HOTSPOT_HEAPS];
	__u32 count;
};

enum hotspot_kind {
	HOTSPOT_COMPILED,    /* a method, by the compiler or as a wrapper of native code */
	HOTSPOT_INTERPRETER, /* its frames tell their method */
	HOTSPOT_STUB,        /* other code that HotSpot made for itself */
};

struct hotspot_code {
	enum hotspot_kind kind;
	__u32 frame_bytes; /* from the stack pointer to the caller's; 0: it keeps a frame pointer instead */
	__u64 begin;       /* of the code */
	__u64 method;      /* of HOTSPOT_COMPILED */
	__u64 inlined[HOTSPOT_INLINED]; /* the methods in `method` that the address is in, innermost first */
	__u32 inlined_count;
	char name[HOTSPOT_NAME]; /* of HOTSPOT_STUB */
};

int hotspot_heaps_read(struct hotspot_heaps *heaps, const struct hotspot_layout *layout, struct target_memory *memory);
/* pc: a return address.  -ENOENT: no code of these heaps is there. */
int hotspot_code_at(const struct hotspot_heaps *heaps, const struct hotspot_layout *layout,
		    struct target_memory *memory, __u64 pc, struct hotspot_code *out);

#endif /* LOCKLINE_HOTSPOT_CODE_H */
