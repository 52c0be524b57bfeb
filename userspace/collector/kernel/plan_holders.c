// SPDX-License-Identifier: GPL-2.0-or-later
/* The plan of --holders and --holds: what is probed at the unlock side. */
#include <stdio.h>
#include <string.h>

#include "kernel/plan_checks.h"

const char *const release_function_names[RELEASE_FUNCTIONS] = {
	[UNLOCK_SPIN] = "_raw_spin_unlock",
	[UNLOCK_SPIN_IRQRESTORE] = "_raw_spin_unlock_irqrestore",
	[UNLOCK_SPIN_IRQ] = "_raw_spin_unlock_irq",
	[UNLOCK_SPIN_BH] = "_raw_spin_unlock_bh",
	[UNLOCK_READ] = "_raw_read_unlock",
	[UNLOCK_READ_IRQRESTORE] = "_raw_read_unlock_irqrestore",
	[UNLOCK_READ_IRQ] = "_raw_read_unlock_irq",
	[UNLOCK_READ_BH] = "_raw_read_unlock_bh",
	[UNLOCK_WRITE] = "_raw_write_unlock",
	[UNLOCK_WRITE_IRQRESTORE] = "_raw_write_unlock_irqrestore",
	[UNLOCK_WRITE_IRQ] = "_raw_write_unlock_irq",
	[UNLOCK_WRITE_BH] = "_raw_write_unlock_bh",
	[UNLOCK_MUTEX] = "mutex_unlock",
	[UNLOCK_RWSEM_WRITE] = "up_write",
	[UNLOCK_RWSEM_READ] = "up_read",
	[UNLOCK_RT_SPIN] = "rt_spin_unlock",
	[LOCK_SPIN] = "_raw_spin_lock",
	[LOCK_SPIN_IRQSAVE] = "_raw_spin_lock_irqsave",
	[LOCK_SPIN_IRQ] = "_raw_spin_lock_irq",
	[LOCK_SPIN_BH] = "_raw_spin_lock_bh",
	[LOCK_SPIN_TRY] = "_raw_spin_trylock",
};

enum probe_state asked(struct finding *finding, bool wanted, const char *option)
{
	char reason[PLAN_TEXT];

	if (wanted)
		return PROBE_ON;
	snprintf(reason, sizeof(reason), "%s", finding->reason);
	return OFF("not asked for (%s); can be had: %.300s", option, reason);
}

/* Functions of the mask that this kernel has inlined, and whose releases are therefore not seen. */
static void tell_missing(struct finding *finding, __u32 mask, const char *what)
{
	char missing[PLAN_TEXT] = "";

	for (int i = 0; i < RELEASE_FUNCTIONS; i++) {
		size_t used = strlen(missing);

		if (mask >> i & 1 && !(finding->evidence->btf_release_functions >> i & 1))
			snprintf(missing + used, sizeof(missing) - used, "%s%s", used ? ", " : "",
				 release_function_names[i]);
	}
	if (*missing)
		ON("%s; not in this kernel: %.200s", what, missing);
	else
		ON("%s", what);
}

/* The first function of the mask that this kernel has; NULL: none. */
static const char *first_of(const struct finding *finding, __u32 mask)
{
	__u32 there = finding->evidence->btf_release_functions & mask;

	return there ? release_function_names[__builtin_ctz(there)] : NULL;
}

enum probe_state check_spin_holders(struct finding *finding)
{
	enum probe_state state = check_fentry(finding, first_of(finding, SPIN_UNLOCKS));

	if (state != PROBE_ON)
		return state;
	tell_missing(finding, SPIN_UNLOCKS, "every unlock is probed, those with waiters are recorded");
	return asked(finding, finding->evidence->holders, "--holders");
}

enum probe_state check_spin_holders_kprobe(struct finding *finding)
{
	const struct evidence *evidence = finding->evidence;

	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (!evidence->kprobe_source)
		return UNAVAILABLE("no such event source (CONFIG_KPROBE_EVENTS)");
	if (!(evidence->btf_release_functions & SPIN_UNLOCKS))
		return UNAVAILABLE("the kernel has no such function in BTF");
	tell_missing(finding, SPIN_UNLOCKS, "every unlock is probed, those with waiters are recorded");
	return asked(finding, evidence->holders, "--holders");
}

enum probe_state check_contended_release(struct finding *finding)
{
	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (!finding->evidence->btf_release)
		return UNAVAILABLE("the kernel has no lock:contended_release: it came with 7.2");
	ON("every release with waiters passes it");
	return asked(finding, finding->evidence->holders, "--holders");
}

enum probe_state check_sleeping_unlocks(struct finding *finding)
{
	enum probe_state state = check_fentry(finding, "mutex_unlock");

	if (state != PROBE_ON)
		return state;
	ON("mutex_unlock(), up_write() and up_read() are probed; not those of semaphores and percpu-rwsems");
	return asked(finding, finding->evidence->holders, "--holders");
}

/* The last resort: who held the lock when the wait began, and nobody after that. */
enum probe_state check_owners(struct finding *finding)
{
	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	ON("the owner field of mutexes, rwsems and rtmutexes when a wait begins: whoever held it after that is not "
	   "seen");
	return asked(finding, finding->evidence->holders, "--holders");
}

enum probe_state check_holds(struct finding *finding)
{
	enum probe_state state = check_fentry(finding, first_of(finding, SPIN_LOCKS));

	if (state != PROBE_ON)
		return state;
	ON("of the spinlocks that were waited for most");
	return asked(finding, finding->evidence->holds, "--holds");
}

void plan_releases(struct plan *plan, struct finding *finding)
{
	__u32 functions = finding->evidence->btf_release_functions;

	if (check_spin_holders(finding) == PROBE_ON) {
		plan->release_functions |= functions & SPIN_UNLOCKS;
		/* With PREEMPT_RT an rwlock is an rt-mutex. */
		if (!finding->evidence->lock.realtime)
			plan->release_functions |= functions & RW_UNLOCKS;
	} else if (check_spin_holders_kprobe(finding) == PROBE_ON) {
		plan->release_functions |= functions & SPIN_UNLOCKS;
		plan->release_kprobe = true;
	}
	plan->contended_release = check_contended_release(finding) == PROBE_ON;
	if (!plan->contended_release && check_sleeping_unlocks(finding) == PROBE_ON)
		plan->release_functions |= functions & SLEEPING_UNLOCKS;
	if (check_holds(finding) == PROBE_ON)
		plan->release_functions |= functions & SPIN_LOCKS;
}
