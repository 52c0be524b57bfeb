/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The name of a lock in a slab object. */
#ifndef LOCKLINE_SLAB_NAMES_H
#define LOCKLINE_SLAB_NAMES_H

#include "names/lock_types.h"

#define CALL_SITES 5

/* The functions above the lock's own, nearest first. */
struct call_sites {
	struct symbol site[CALL_SITES];
	int count;
};

/* -ENOENT if the lock lies in no slab object. */
int slab_name(struct lock_names *names, const struct lock_hint *hint, const struct call_sites *sites,
	      struct lock_name *out);

/* What slab_name() says of the object's owner, of an object of this type; "": nothing. */
void slab_instance(struct lock_names *names, const struct kernel_type *type, __u64 object, struct lock_name *out);

#endif /* LOCKLINE_SLAB_NAMES_H */
