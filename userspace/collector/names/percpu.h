/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where each CPU keeps its copy of the static per-CPU variables. */
#ifndef LOCKLINE_PERCPU_H
#define LOCKLINE_PERCPU_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

struct resolver;
struct symbols;
struct types;

struct percpu {
	__u64 *bases; /* by CPU; 0: unknown */
	unsigned int cpus;
	__u32 size;
	__u64 image; /* link address of the area: its symbols are relative to it */
};

/* Finds what it can; without any base percpu_find() finds nothing. */
int percpu_open(struct percpu *percpu, const struct resolver *resolver, const struct symbols *symbols,
		const struct types *types);
void percpu_close(struct percpu *percpu);
/* True if address lies in a CPU's static area: that CPU, and the offset in the area. */
bool percpu_find(const struct percpu *percpu, __u64 address, unsigned int *cpu, __u32 *offset);

#endif /* LOCKLINE_PERCPU_H */
