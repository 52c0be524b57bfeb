// SPDX-License-Identifier: GPL-2.0-or-later
/* The plan of --holders and --holds: what is probed at the unlock side. */
#include <stdio.h>
#include <string.h>

#include "kernel/plan_holders.h"

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

/* The cheapest: the kernel looks for waiters itself, and inlined unlocks pass it too. */
enum probe_state check_spin_release(struct finding *finding)
{
	const struct evidence *evidence = finding->evidence;

	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (!evidence->btf_release)
		return UNAVAILABLE("the kernel has no lock:contended_release: it came with 7.2");
	if (!evidence->spin_release)
		return UNAVAILABLE("spinlocks do not pass lock:contended_release "
				   "(CONFIG_QUEUED_SPINLOCKS_TRACE_CONTENDED_RELEASE, since 7.3)");
	if (finding->mode == SPINLOCK_TEST_AND_SET || finding->mode == SPINLOCK_UNKNOWN)
		return UNAVAILABLE("a test-and-set spinlock does not show whether anyone waits");
	if (evidence->holds)
		return UNAVAILABLE("--holds probes every unlock");
	ON("every release with waiters passes it, and no unlock is probed%s",
	   evidence->rw_release ? "" : " except those of rwlocks");
	return asked(finding, evidence->holders, "--holders");
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

	const bool spin_release = check_spin_release(finding) == PROBE_ON;

	if (check_spin_holders(finding) == PROBE_ON) {
		if (!spin_release)
			plan->release_functions |= functions & SPIN_UNLOCKS;
		/* With PREEMPT_RT an rwlock is an rt-mutex. */
		if (!finding->evidence->lock.realtime && !(spin_release && finding->evidence->rw_release))
			plan->release_functions |= functions & RW_UNLOCKS;
	} else if (!spin_release && check_spin_holders_kprobe(finding) == PROBE_ON) {
		plan->release_functions |= functions & SPIN_UNLOCKS;
		plan->release_kprobe = true;
	}
	plan->contended_release = spin_release || check_contended_release(finding) == PROBE_ON;
	if (!plan->contended_release && check_sleeping_unlocks(finding) == PROBE_ON)
		plan->release_functions |= functions & SLEEPING_UNLOCKS;
	if (check_holds(finding) == PROBE_ON)
		plan->release_functions |= functions & SPIN_LOCKS;
}
