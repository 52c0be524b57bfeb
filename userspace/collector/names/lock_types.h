/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The types that a lock may lie in, of the kernel and of its modules: what lock_names.c and slab_names.c look in. */
#ifndef LOCKLINE_LOCK_TYPES_H
#define LOCKLINE_LOCK_TYPES_H

#include "names/btf_members.h"
#include "names/code_locks.h"
#include "names/lock_name.h"
#include "names/percpu.h"
#include "names/resolver.h"
#include "names/slab_aliases.h"
#include "names/slab_pages.h"
#include "names/symbols.h"

#define MODULE_TYPES 8
#define NODES_MAX    (RESOLVE_BYTES / sizeof(__u64))

struct module_types {
	char module[56];
	struct types *types; /* NULL: the module has none */
};

struct lock_names {
	const struct symbols *symbols;
	struct resolver resolver;
	struct percpu percpu;
	const struct types *types; /* NULL: the kernel has no BTF */
	struct module_types modules[MODULE_TYPES];
	int module_count;
	struct slab_aliases aliases;
	struct slab_pages slab_pages;
	struct code_locks code_locks;
	__u64 image; /* address of the kernel image */
	__u64 image_end;
	__u64 nodes[NODES_MAX]; /* struct pglist_data; 0: none */
	__u32 page_size;
};

/* A type and where it is defined. */
struct kernel_type {
	const struct types *types;
	__u32 id; /* 0: unknown */
};

/* Looks in the kernel, and in the module if its name is not empty. */
struct kernel_type names_struct(struct lock_names *names, const char *type, const char *module);
struct kernel_type names_function(struct lock_names *names, const struct symbol *function);
/* Sets name to "type.member" for the lock at offset in type; -ENOENT if none begins there. */
int names_member(const struct kernel_type *type, const char *prefix, __u32 offset, enum lock_kind kind,
		 struct lock_name *out);
/* The object of that type that holds the lock. */
void names_object(const struct kernel_type *type, __u64 object, struct lock_name *out);

#endif /* LOCKLINE_LOCK_TYPES_H */
