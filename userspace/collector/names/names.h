/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * From addresses to names: kernel symbols, user symbols, locks.
 *
 * All functions return 0 or a negative errno unless stated otherwise.  None
 * is called on a hot path; all memory is bounded and freed by the close call.
 */
#ifndef LOCKLINE_NAMES_H
#define LOCKLINE_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "bpf/lockline.h"

struct lockline_bpf;

/* symbols.c: /proc/kallsyms, sorted, in one arena. */
struct symbols;

struct symbol {
	const char *name;   /* lives as long as the table; "" if unknown */
	const char *module; /* "" for the kernel image */
	__u64 address;
	__u64 offset; /* of the looked-up address in the symbol */
	char type;    /* as in kallsyms: t, T, d, D, b, B, ... */
};

int symbols_open(struct symbols **out);
void symbols_close(struct symbols *symbols);
/* The symbol that holds address; -ENOENT if none does. */
int symbols_lookup(const struct symbols *symbols, __u64 address, struct symbol *out);
/* Address of a symbol of the kernel image by exact name; -ENOENT, or -EPERM if kptr_restrict hides it. */
int symbols_address(const struct symbols *symbols, const char *name, __u64 *out);
bool symbols_have_data(const struct symbols *symbols); /* CONFIG_KALLSYMS_ALL */
bool symbols_hidden(const struct symbols *symbols);    /* all addresses read as 0 */
size_t symbols_bytes(const struct symbols *symbols);
/* True for a function that waits for or takes locks, or carries a probe: not a call site. */
bool symbol_is_lock_internal(const char *name);

/* user_symbols.c: elfutils (libdwfl), a bounded cache of processes. */
struct user_symbols;

int user_symbols_open(struct user_symbols **out, unsigned int max_processes);
void user_symbols_close(struct user_symbols *users);
/* name and module are copied; name is "" if unknown, module "" if unmapped or gone. */
int user_symbols_lookup(struct user_symbols *users, __u32 tgid, __u64 address, char *name, size_t name_size,
			__u64 *offset, char *module, size_t module_size);

/* Address of a symbol by its exact name; -ENOENT, or -ESRCH: no such process. */
int user_symbols_address(struct user_symbols *users, __u32 tgid, const char *name, __u64 *address);

/* lock_names.c: the best name for a lock address; see docs/lock-identity.md. */
struct lock_names;

enum name_source { NAME_UNKNOWN, NAME_SYMBOL, NAME_PERCPU, NAME_OWNER, NAME_SLAB, NAME_CALL_SITE, NAME_SOURCES };

extern const char *const name_source_names[NAME_SOURCES]; /* as in recording.sql */

struct lock_name {
	char name[128];    /* stable across boots: "tasklist_lock", "mm_struct.mmap_lock", "runqueues.__lock" */
	char instance[32]; /* "CPU 3", "tid 812", "" */
	enum name_source source;
	char type[64]; /* of the object that holds it, if that is known; else "" */
	__u64 object;  /* where that begins */
};

/* What the programs and the sampled stack know of a lock when it is first seen. */
struct lock_hint {
	__u64 address;
	__u32 kind;  /* enum lock_kind */
	__u32 owner; /* enum lock_owner */
	__u32 owner_offset;
	__u32 owner_tid;
	const __u64 *frames; /* kernel stack of a waiter, leaf first; may be NULL */
	int frame_count;
};

/*
 * bpf holds the resolver programs (bpf/resolve.bpf.c), run by BPF_PROG_TEST_RUN
 * and never attached; may be NULL (then per-CPU and slab names are not to be had).
 */
int lock_names_open(struct lock_names **out, const struct symbols *symbols, struct lockline_bpf *bpf);
void lock_names_close(struct lock_names *names);
/* Never fails: at worst NAME_UNKNOWN with name "?". */
void lock_names_resolve(struct lock_names *names, const struct lock_hint *hint, struct lock_name *out);
size_t lock_names_bytes(const struct lock_names *names);
/* The ids of a live task by the address of its task_struct. */
int lock_names_task(const struct lock_names *names, __u64 task, __u32 *tid, __u32 *tgid);

#endif /* LOCKLINE_NAMES_H */
