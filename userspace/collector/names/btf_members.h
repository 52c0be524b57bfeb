/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The kernel's types: from a type and an offset to the lock that lies there. */
#ifndef LOCKLINE_BTF_MEMBERS_H
#define LOCKLINE_BTF_MEMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "bpf/lockline.h"

struct btf;

/* BTF with an index by name; types are numbered as in BTF, 0 is no type. */
struct types;

int types_open(struct types **out);                      /* of the running kernel; says nothing if there are none */
int types_open_btf(struct types **out, struct btf *btf); /* takes btf over, on success alone */
/* What a module adds; its types may use the kernel's, which is closed after it. */
int types_open_module(struct types **out, const struct types *kernel, const char *module);
void types_close(struct types *types);
size_t types_bytes(const struct types *types);
const struct btf *types_btf(const struct types *types);

__u32 types_struct(const struct types *types, const char *name); /* struct or union */
__u32 types_function(const struct types *types, const char *name);
/* A type of a name of its own of this kind (BTF_KIND_TYPEDEF...). */
__u32 types_of_kind(const struct types *types, const char *name, unsigned int kind);
/* Calls visit with each structure, union, enum and typedef of that name. */
void types_each_of_name(const struct types *types, const char *name, void (*visit)(__u32 type, void *data), void *data);
/* The per-CPU variable whose image holds offset, in the static per-CPU area. */
__u32 types_percpu_variable(const struct types *types, __u32 offset, const char **name, __u32 *offset_in_variable);
/* Offset and size of a per-CPU variable; false if it is not there. */
bool types_percpu_offset(const struct types *types, const char *name, __u32 *offset);
__u32 types_percpu_size(const struct types *types); /* of the static area; 0: unknown */
/* Type without typedefs and qualifiers. */
__u32 types_resolve(const struct types *types, __u32 type);
__s64 types_size(const struct types *types, __u32 type);
const char *types_name(const struct types *types, __u32 type);
/* The struct that parameter number index of a function points to; 0 if it is no such pointer. */
__u32 types_parameter(const struct types *types, __u32 function, unsigned int index, bool *last);
/* What a pointer points to; 0: it is none. */
__u32 types_pointee(const struct types *types, __u32 type);
/* Offset in bytes of a direct or anonymous member; false if there is none. */
bool types_member(const struct types *types, __u32 type, const char *member, __u32 *offset, __u32 *member_type);

/* Of an array its elements' type, else the type itself, without typedefs and qualifiers. */
__u32 types_element(const struct types *types, __u32 type);
/* Calls visit with each name: of structures, unions and per-CPU variables; members: of what they hold too. */
void types_each_name(const struct types *types, bool members, void (*visit)(const char *name, void *data), void *data);
/* Calls visit with the name of each member of a type, anonymous ones' too. */
void types_each_member(const struct types *types, __u32 type, void (*visit)(const char *name, void *data), void *data);
/* Type of a per-CPU variable; 0 if there is none of that name. */
__u32 types_percpu_type(const struct types *types, const char *name);

/* Value of an enumerator; false if there is none. */
bool types_enumerator(const struct types *types, const char *type, const char *enumerator, __s64 *value);

/*
 * Writes the path of the lock of that kind at offset in type: ".mmap_lock",
 * ".mmap_lock.wait_lock"; array indices are left out of it, and the innermost
 * is stored in *index (-1: none).  -ENOENT if no such lock begins there.
 */
int types_lock_path(const struct types *types, __u32 type, __u32 offset, enum lock_kind kind, char *path, size_t size,
		    int *index);

#endif /* LOCKLINE_BTF_MEMBERS_H */
