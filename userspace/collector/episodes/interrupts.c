// SPDX-License-Identifier: GPL-2.0-or-later
/* No program can ask whether interrupts are off; the functions on the waiter's stack say what they did with them. */
#include <stdbool.h>
#include <string.h>

#include "episodes/snapshot.h"

static bool is(const char *function, const char *name)
{
	size_t length = strlen(name);

	/* Compilers append .isra.0, .constprop.0 and the like. */
	return !strncmp(function, name, length) && (!function[length] || function[length] == '.');
}

static bool begins(const char *function, const char *prefix)
{
	return !strncmp(function, prefix, strlen(prefix));
}

/* Entries of hard interrupts, x86-64 and arm64. */
static bool is_interrupt_entry(const char *function)
{
	static const char *const prefixes[] = {
		"asm_sysvec_",  "sysvec_",     "asm_common_interrupt", "common_interrupt",     "handle_irq",
		"__handle_irq", "el1h_64_irq", "el0t_64_irq",          "do_interrupt_handler", "gic_handle_irq"};

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (begins(function, prefixes[i]))
			return true;
	return false;
}

const char *interrupts_inferred(__u32 kind, const char *const *functions, int count, const char **from)
{
	static const struct {
		const char *function;
		const char *interrupts;
	} lockers[] = {
		{"_raw_spin_lock_irqsave", "off"},  {"_raw_spin_lock_irq", "off"},
		{"_raw_read_lock_irqsave", "off"},  {"_raw_read_lock_irq", "off"},
		{"_raw_write_lock_irqsave", "off"}, {"_raw_write_lock_irq", "off"},
	};

	/* A task that may sleep has them on, but for what the rt-mutexes of PREEMPT_RT spin for. */
	if (kind > KIND_RWLOCK_WRITE && kind < KIND_UNKNOWN) {
		*from = "inferred: waiters for sleeping locks may sleep";
		return "on";
	}
	for (int i = 0; i < count; i++) {
		for (size_t j = 0; j < sizeof(lockers) / sizeof(lockers[0]); j++) {
			if (!is(functions[i], lockers[j].function))
				continue;
			*from = "inferred: caller frame _raw_*_lock_irq or _irqsave";
			return lockers[j].interrupts;
		}
		/* Softirqs run with interrupts on, inside the exit of an interrupt. */
		if (is(functions[i], "__do_softirq") || is(functions[i], "handle_softirqs"))
			break;
		if (is_interrupt_entry(functions[i])) {
			*from = "inferred: in an interrupt handler";
			return "off";
		}
	}
	*from = count ? "no function on the stack tells" : "no stack";
	return "unknown";
}
