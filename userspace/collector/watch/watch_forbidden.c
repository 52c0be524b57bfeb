// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "watch/watch_forbidden.h"

#define PLACE_BYTES 8

#define BY_ENTRY "the entry code uses it"
#define BY_NMI   "the entry of non-maskable interrupts uses it"
#define BY_WATCH "the handling of watchpoints uses it"

static const struct {
	const char *variable;
	const char *why;
	bool line; /* all of it is forbidden: each entry into the kernel, or each call, uses it */
} forbidden[] = {
	{"nmi_state", BY_NMI, false},
	{"nmi_cr2", BY_NMI, false},
	{"nmi_dr7", BY_NMI, false},
	{"nmi_stats", BY_NMI, false},
	{"cpu_dr7", BY_WATCH, false},
	{"bp_per_reg", BY_WATCH, false},
	{"cpu_debugreg", BY_WATCH, false},
	{"wp_on_reg", BY_WATCH, false},
	{"bp_on_reg", BY_WATCH, false},
	{"mde_ref_count", BY_WATCH, false},
	{"kde_ref_count", BY_WATCH, false},
	{"bpf_prog_active", "every program behind a watchpoint uses it", false},
	{"cpu_tss_rw", BY_ENTRY, false},
	{"cpu_tlbstate", BY_ENTRY, false},
	{"gdt_page", BY_ENTRY, false},
	{"pcpu_hot", BY_ENTRY, true},
	{"__preempt_count", BY_ENTRY, true},
	{"cpu_current_top_of_stack", BY_ENTRY, true},
	{"current_task", BY_ENTRY, true},
	{"hardirq_stack_ptr", BY_ENTRY, true},
	{"hardirq_stack_inuse", BY_ENTRY, false},
	{"irq_stack_ptr", BY_ENTRY, false},
	{"fixed_percpu_data", BY_ENTRY, true},
	{"__stack_chk_guard", "every function with a stack canary uses it", true},
	{"__x86_call_depth", "every call uses it", true},
	{"irq_stack_backing_store", BY_ENTRY, false},
	{"this_cpu_off", BY_ENTRY, false},
	{"cpu_number", BY_ENTRY, false},
	{"entry_stack_storage", BY_ENTRY, false},
	{"exception_stacks", BY_ENTRY, false},
	{"__cpu_online_mask", BY_WATCH, false},
};

__u32 watch_forbidden_places(const char *const names[CACHE_LINE], const char **why)
{
	bool line = false;
	__u32 mask = 0;

	*why = "";
	for (__u32 byte = 0; byte < CACHE_LINE; byte++) {
		for (size_t i = 0; names[byte] && i < sizeof(forbidden) / sizeof(*forbidden); i++) {
			if (strcmp(names[byte], forbidden[i].variable))
				continue;
			mask |= 1u << byte / PLACE_BYTES;
			*why = forbidden[i].why;
			line |= forbidden[i].line;
		}
	}
	if (!line)
		return mask;
	*why = "the entry code uses its line";
	return (1u << CACHE_LINE / PLACE_BYTES) - 1;
}
