/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The best name for the address of a lock; see docs/lock-identity.md. */
#ifndef LOCKLINE_LOCK_NAMES_H
#define LOCKLINE_LOCK_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "names/lock_name.h"
#include "names/symbols.h"

struct lockline_bpf;
struct lock_names;
struct types;

extern const char *const name_source_names[NAME_SOURCES]; /* as in recording.sql */

/*
 * bpf holds the resolver programs (bpf/resolve.bpf.c), run by BPF_PROG_TEST_RUN
 * and never attached; may be NULL (then there are no per-CPU and slab names).
 * types: NULL without BTF; the symbols and the call sites remain then.  Both are closed after it.
 */
int lock_names_open(struct lock_names **out, const struct symbols *symbols, const struct types *types,
		    struct lockline_bpf *bpf);
void lock_names_close(struct lock_names *names);
/* Never fails: at worst NAME_UNKNOWN with name "?". */
void lock_names_resolve(struct lock_names *names, const struct lock_hint *hint, struct lock_name *out);
/*
 * Whether the object that a lock was in is another one by now: its address was
 * used again.  type, and the lock's offset in it: of the name that the lock got.
 * paused: nobody has waited for it for a while.  False where the kernel does not show it.
 */
bool lock_names_reused(struct lock_names *names, __u64 address, const struct lock_identity *was, const char *type,
		       __u32 offset, bool paused);
/* Where the kernel keeps the address of a CPU's current task (x86); 0: not known. */
__u64 lock_names_current_task(const struct lock_names *names, unsigned int cpu);
size_t lock_names_bytes(const struct lock_names *names);

#endif /* LOCKLINE_LOCK_NAMES_H */
