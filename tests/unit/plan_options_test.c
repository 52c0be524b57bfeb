// SPDX-License-Identifier: GPL-2.0-or-later
/* What is probed only if it is asked for. */
#include "plan_test.h"

static void episodes(void)
{
	struct evidence e = machine();
	static struct plan plan;

	e.btf_context = (1u << CONTEXT_PROBES) - 1;
	plan_decide(&plan, &e);
	well_formed(&plan);
	state(&plan, "context switches", PROBE_OFF, "not asked for (--episodes); available: each one");
	CHECK(!plan.context, "%x", plan.context);

	e.episodes = true;
	plan_decide(&plan, &e);
	well_formed(&plan);
	state(&plan, "context switches", PROBE_ON, "each one");
	state(&plan, "interrupts of the CPU itself", PROBE_ON, "reschedule");
	/* arm64's are there and never pass. */
	CHECK(plan.context == (((1u << CONTEXT_PROBES) - 1) & ~(CONTEXT_IPIS | 1u << PROBE_IPIS_RAISED)), "%x",
	      plan.context);
	CHECK_TEXT(probe(&plan, "IPIs sent")->source, "tp_btf ipi_send_cpu, ipi_send_cpumask");

	/* 6.1 on arm64. */
	e.lock.x86 = false;
	e.btf_context &= ~(CONTEXT_VECTORS_MASK | 1u << PROBE_IPI_SENT | 1u << PROBE_IPIS_SENT);
	plan_decide(&plan, &e);
	well_formed(&plan);
	CHECK_TEXT(probe(&plan, "interrupts of the CPU itself")->source, "tp_btf ipi_entry, ipi_exit");
	CHECK_TEXT(probe(&plan, "IPIs sent")->source, "tp_btf ipi_raise");
	CHECK((plan.context & CONTEXT_IPIS) == CONTEXT_IPIS, "%x", plan.context);
	CHECK(plan.context & 1u << PROBE_IPIS_RAISED, "%x", plan.context);

	/* 6.1 on x86. */
	e.lock.x86 = true;
	plan_decide(&plan, &e);
	state(&plan, "IPIs sent", PROBE_UNAVAILABLE, "they came with 6.4");

	e.btf_context = 0;
	plan_decide(&plan, &e);
	well_formed(&plan);
	state(&plan, "turns of wait_task_inactive", PROBE_UNAVAILABLE, "no such tracepoint");
	CHECK(!plan.context, "%x", plan.context);

	e.btf_context = ~0u;
	e.btf_contention = false;
	plan_decide(&plan, &e);
	CHECK(!plan.context, "%x", plan.context);
}

static void holders(void)
{
	struct evidence e = machine();
	static struct plan plan;

	e.fentry_error = 0;
	e.btf_release_functions = (1u << RELEASE_FUNCTIONS) - 1;
	plan_decide(&plan, &e);
	well_formed(&plan);
	state(&plan, "spinlock holders", PROBE_OFF, "not asked for (--holders); available");
	state(&plan, "sleeping lock holders", PROBE_OFF, "available: mutex_unlock()");
	CHECK(!plan.release_functions && !plan.contended_release, "%x", plan.release_functions);

	e.holders = true;
	plan_decide(&plan, &e);
	well_formed(&plan);
	state(&plan, "spinlock holders", PROBE_ON, "every unlock is probed");
	state(&plan, "sleeping lock holders", PROBE_ON, "mutex_unlock()");
	state(&plan, "spinlock hold times", PROBE_OFF, "--holds");
	CHECK(plan.release_functions == (SPIN_UNLOCKS | RW_UNLOCKS | SLEEPING_UNLOCKS), "%x", plan.release_functions);

	e.holds = true;
	e.btf_release = true;
	e.btf_release_functions &= ~(1u << UNLOCK_SPIN_BH);
	e.lock.realtime = true;
	plan_decide(&plan, &e);
	well_formed(&plan);
	state(&plan, "spinlock holders", PROBE_ON, "not in this kernel: _raw_spin_unlock_bh");
	state(&plan, "spinlock hold times", PROBE_ON, "");
	CHECK(plan.contended_release, "7.2");
	/* An rwlock of PREEMPT_RT is a sleeping lock. */
	CHECK(plan.release_functions == ((SPIN_UNLOCKS & ~(1u << UNLOCK_SPIN_BH)) | SPIN_LOCKS), "%x",
	      plan.release_functions);

	e.fentry_error = -EPERM;
	e.btf_release = false;
	e.kprobe_source = true;
	plan_decide(&plan, &e);
	well_formed(&plan);
	CHECK_TEXT(probe(&plan, "spinlock holders")->source, "kprobe");
	CHECK_TEXT(probe(&plan, "sleeping lock holders")->source, "owner field");
	state(&plan, "spinlock hold times", PROBE_UNAVAILABLE, "refused");
	CHECK(plan.release_kprobe && !(plan.release_functions & ~SPIN_UNLOCKS), "%x", plan.release_functions);

	e.kprobe_source = false;
	plan_decide(&plan, &e);
	well_formed(&plan);
	state(&plan, "spinlock holders", PROBE_UNAVAILABLE, "CONFIG_KPROBE_EVENTS");
	CHECK(!plan.release_functions && !plan.release_kprobe, "%x", plan.release_functions);
}

/* A kernel whose queued spinlocks pass the tracepoint: no unlock is probed then. */
static void holders_by_contended_release(void)
{
	struct evidence e = machine();
	static struct plan plan;

	e.fentry_error = 0;
	e.btf_release_functions = (1u << RELEASE_FUNCTIONS) - 1;
	e.holders = e.btf_release = true;
	plan_decide(&plan, &e);
	well_formed(&plan);
	CHECK_TEXT(probe(&plan, "spinlock holders")->source, "fentry");
	CHECK(plan.contended_release && plan.release_functions == (SPIN_UNLOCKS | RW_UNLOCKS), "%x",
	      plan.release_functions);

	e.spin_release = true;
	plan_decide(&plan, &e);
	well_formed(&plan);
	CHECK_TEXT(probe(&plan, "spinlock holders")->source, "tp_btf contended_release");
	state(&plan, "spinlock holders", PROBE_ON, "except those of rwlocks");
	CHECK(plan.contended_release && plan.release_functions == RW_UNLOCKS, "%x", plan.release_functions);

	e.rw_release = true;
	plan_decide(&plan, &e);
	state(&plan, "spinlock holders", PROBE_ON, "no unlock is probed");
	CHECK(plan.contended_release && !plan.release_functions && !plan.release_kprobe, "%x", plan.release_functions);

	/* Without fentry it is as good. */
	e.fentry_error = -EPERM;
	e.kprobe_source = true;
	plan_decide(&plan, &e);
	CHECK_TEXT(probe(&plan, "spinlock holders")->source, "tp_btf contended_release");
	CHECK(plan.contended_release && !plan.release_functions && !plan.release_kprobe, "%x", plan.release_functions);

	/* A hold ends at its unlock. */
	e.fentry_error = 0;
	e.holds = true;
	plan_decide(&plan, &e);
	CHECK_TEXT(probe(&plan, "spinlock holders")->source, "fentry");
	CHECK((plan.release_functions & (SPIN_UNLOCKS | SPIN_LOCKS)) == (SPIN_UNLOCKS | SPIN_LOCKS), "%x",
	      plan.release_functions);

	e.holds = e.holders = false;
	plan_decide(&plan, &e);
	well_formed(&plan);
	state(&plan, "spinlock holders", PROBE_OFF, "not asked for (--holders)");
	CHECK(!plan.contended_release && !plan.release_functions, "%x", plan.release_functions);
}

static void what_the_doctor_tries(void)
{
	struct evidence e = machine();
	static struct plan plan;

	e.breakpoint_error = 0;
	e.breakpoints = 4;
	plan_decide(&plan, &e);
	well_formed(&plan);
	state(&plan, "watchpoints", PROBE_OFF, "4 at once");
	e.breakpoint_error = -ENOSPC;
	e.pmu.count = 0;
	plan_decide(&plan, &e);
	well_formed(&plan);
	state(&plan, "watchpoints", PROBE_UNAVAILABLE, "refuses a breakpoint");
	state(&plan, "memory samples (HITM)", PROBE_UNAVAILABLE, "ibs_op");
}

static const struct test tests[] = {
	TEST(holders),
	TEST(holders_by_contended_release),
	TEST(episodes),
	TEST(what_the_doctor_tries),
};

int main(void)
{
	return RUN_TESTS(tests);
}
