/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Kernel memory by way of the resolver programs (bpf/resolve.bpf.c). */
#ifndef LOCKLINE_RESOLVER_H
#define LOCKLINE_RESOLVER_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "bpf/resolve.h"

struct lockline_bpf;
struct bpf_program;

struct resolver {
	struct resolve_result *result; /* mapped; NULL: no resolver */
	int cpu_fd;                    /* programs; negative: not loaded */
	int slab_fd;
	int read_fd;
};

/* Never fails: without the programs every question is answered with -ENOSYS. */
void resolver_open(struct resolver *resolver, struct lockline_bpf *bpf);
void resolver_close(struct resolver *resolver);
/* size is at most RESOLVE_BYTES. */
int resolver_read(const struct resolver *resolver, __u64 address, void *out, size_t size);
/* Address of the struct rq of a CPU; -ENOENT if it cannot be found. */
int resolver_rq(const struct resolver *resolver, unsigned int cpu, __u64 *out);
/* Address of the caller's task_struct. */
int resolver_task(const struct resolver *resolver, __u64 *out);
/* -ENOENT if address lies in no slab object. */
int resolver_slab(const struct resolver *resolver, __u64 address, struct slab_cache *out);

#endif /* LOCKLINE_RESOLVER_H */
