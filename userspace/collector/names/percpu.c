// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <bpf/libbpf.h>

#include "names/btf_members.h"
#include "names/symbols.h"
#include "names/percpu.h"
#include "names/resolver.h"

/* The kernel's own table of offsets: needs KALLSYMS_ALL. */
static void find_by_symbols(struct percpu *percpu, const struct resolver *resolver, const struct symbols *symbols)
{
	__u64 table, start, end, offset;

	if (symbols_address(symbols, "__per_cpu_start", &start) || symbols_address(symbols, "__per_cpu_end", &end) ||
	    symbols_address(symbols, "__per_cpu_offset", &table))
		return;
	percpu->image = start;
	percpu->size = end - start;
	for (unsigned int cpu = 0; cpu < percpu->cpus; cpu++)
		if (!resolver_read(resolver, table + cpu * sizeof(offset), &offset, sizeof(offset)))
			percpu->bases[cpu] = start + offset;
}

/* BTF tells where in the area the run queue lies, the resolver where it lies in memory. */
static void find_by_run_queues(struct percpu *percpu, const struct resolver *resolver, const struct types *types)
{
	__u32 offset;
	__u64 rq;

	if (!types || !types_percpu_offset(types, "runqueues", &offset))
		return;
	percpu->size = types_percpu_size(types);
	for (unsigned int cpu = 0; cpu < percpu->cpus; cpu++)
		if (!resolver_rq(resolver, cpu, &rq))
			percpu->bases[cpu] = rq - offset;
}

int percpu_open(struct percpu *percpu, const struct resolver *resolver, const struct symbols *symbols,
		const struct types *types)
{
	int cpus = libbpf_num_possible_cpus();

	*percpu = (struct percpu){};
	if (cpus < 0)
		return cpus;
	percpu->bases = calloc(cpus, sizeof(*percpu->bases));
	if (!percpu->bases)
		return -ENOMEM;
	percpu->cpus = cpus;
	find_by_symbols(percpu, resolver, symbols);
	if (!percpu->bases[0])
		find_by_run_queues(percpu, resolver, types);
	return 0;
}

void percpu_close(struct percpu *percpu)
{
	free(percpu->bases);
	percpu->bases = NULL;
	percpu->cpus = 0;
}

bool percpu_find(const struct percpu *percpu, __u64 address, unsigned int *cpu, __u32 *offset)
{
	for (unsigned int i = 0; i < percpu->cpus; i++) {
		if (!percpu->bases[i] || address - percpu->bases[i] >= percpu->size)
			continue;
		*cpu = i;
		*offset = address - percpu->bases[i];
		return true;
	}
	return false;
}
