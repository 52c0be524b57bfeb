/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A machine made up, and what its plan says: for the tests of the plan. */
#ifndef PLAN_TEST_H
#define PLAN_TEST_H

#include <errno.h>
#include <stdlib.h>

#include "kernel/evidence.h"
#include "kernel/host.h"
#include "kernel/lock_mode.h"
#include "kernel/plan_make.h"
#include "tap.h"

/* plan_make() is not run here: these tests make up the evidence. */
void evidence_collect(struct evidence *evidence, const struct options *options, const struct symbols *symbols,
		      struct types **types, bool thorough)
{
	abort();
}

void host_facts(struct plan *plan, const struct evidence *evidence, bool thorough)
{
	abort();
}

/* A KVM guest of 6.18 with everything. */
static inline struct evidence machine(void)
{
	return (struct evidence){
		.lock = {.x86 = true,
			 .queued = true,
			 .possible_cpus = 4,
			 .major = 6,
			 .minor = 18,
			 .hypervisor = HYPERVISOR_KVM,
			 .functions_known = true,
			 .paravirt = true,
			 .paravirt_spinlocks = true,
			 .hypervisor_locks = true,
			 .kvm_pv_unhalt = true},
		.btf_contention = true,
		.btf_fork = true,
		.btf_percpu = true,
		.btf_slab = true,
		.btf_slab_pages = true,
		.btf_native_slow_path = true,
		.btf_paravirt_slow_path = true,
		.btf_read_slow_path = true,
		.btf_rwsem_slow_path = true,
		.btf_percpu_slow_path = true,
		.breakpoint_error = NOT_TRIED,
		.symbols = SYMBOLS_ALL,
		.page_table = true,
		.cgroup = CGROUP_V2,
		.clocksource = "tsc",
		.pmu = {.count = 1, .events = {{.name = "cpu/mem-loads/"}}},
		.btf_kernel_context = true,
		.breakpoint_source = true,
		.kprobe_source = true,
	};
}

static inline const struct probe *probe(const struct plan *plan, const char *signal)
{
	static const struct probe none = {.signal = SIGNALS};

	for (int i = 0; i < plan->probe_count; i++)
		if (!strcmp(signal_name(plan->probes[i].signal), signal))
			return &plan->probes[i];
	CHECK(false, "no signal \"%s\"", signal);
	return &none;
}

static inline void state(const struct plan *plan, const char *signal, enum probe_state want, const char *reason)
{
	const struct probe *is = probe(plan, signal);

	CHECK(is->state == want, "%s is %s: %s", signal, probe_state_names[is->state], is->reason);
	CHECK(strstr(is->reason, reason), "%s: \"%s\" lacks \"%s\"", signal, is->reason, reason);
}

/* What every plan keeps to, whatever the machine. */
static inline void well_formed(const struct plan *plan)
{
	for (int i = 0; i < plan->probe_count; i++) {
		const struct probe *is = &plan->probes[i];
		const char *name = signal_name(is->signal);

		CHECK(*name, "signal %d has no name", (int)is->signal);
		CHECK(is->reason[0] && strlen(is->reason) < PLAN_TEXT - 1, "%s: \"%s\"", name, is->reason);
		CHECK((is->state == PROBE_ON) == !is->lost[0], "%s is %s and loses \"%s\"", name,
		      probe_state_names[is->state], is->lost);
		CHECK(is->state != PROBE_ON || is->source[0], "%s has no source", name);
		CHECK(is->state != PROBE_UNAVAILABLE || !is->source[0], "%s has a source", name);
		for (int j = 0; j < i; j++)
			CHECK(is->signal != plan->probes[j].signal, "%s twice", name);
	}
}

#endif /* PLAN_TEST_H */
