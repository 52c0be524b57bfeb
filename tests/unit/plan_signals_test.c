// SPDX-License-Identifier: GPL-2.0-or-later
#include "plan_test.h"

#define FUTEX  "futex waits"
#define TRACER "tracers that wait for tracees"
#define ATTACH "tracers that attach"
#define CLOCK  "reads of a shared clock"

/* A kernel that offers all of it, with the options. */
static struct evidence with_all_signals(void)
{
	return (struct evidence){
		.futex = true,
		.ptrace = true,
		.clock_reads = true,
		.btf_contention = true,
		.btf_futex = true,
		.btf_wait_task = true,
		.btf_wait_inactive = true,
		.btf_ptrace_attach = true,
		.btf_clock_read = true,
		.cycle_counter = true,
		.kprobe_source = true,
		.clocksource = "hpet",
		.lock = {.x86 = true, .queued = true, .possible_cpus = 2, .major = 6, .minor = 12},
	};
}

static struct plan *decide(const struct evidence *evidence)
{
	static struct plan plan;

	plan_decide(&plan, evidence);
	return &plan;
}

static void check(const struct plan *plan, const char *signal, enum probe_state state, const char *source,
		  const char *reason)
{
	const struct probe *found = probe(plan, signal);

	CHECK(found->state == state, "%s: %s (%s)", signal, probe_state_names[found->state], found->reason);
	CHECK_TEXT(found->source, source);
	CHECK(strstr(found->reason, reason), "%s: %s", signal, found->reason);
	CHECK((state == PROBE_ON) == !*found->lost, "%s: %s", signal, found->lost);
}

static void all_of_it(void)
{
	struct evidence e = with_all_signals();
	const struct plan *plan = decide(&e);

	check(plan, FUTEX, PROBE_ON, "tp_btf sys_enter, sys_exit, sched_waking", "every system call");
	check(plan, TRACER, PROBE_ON, "fentry", WAIT_INACTIVE);
	check(plan, ATTACH, PROBE_ON, "fentry", PTRACE_ATTACH_FUNCTION);
	CHECK(plan->ptrace_attach && !plan->ptrace_attach_kprobe, "attaching");
	check(plan, CLOCK, PROBE_ON, "fentry", "CPU cycles");
	CHECK(plan->futex && plan->inactive_turns && plan->inactive_calls && !plan->inactive_kprobe,
	      "what is attached");
	CHECK_TEXT(plan->clock_read, "read_hpet");
	CHECK(!plan->clock_kprobe, "by fentry");
}

static void not_asked_for(void)
{
	struct evidence e = with_all_signals();
	const struct plan *plan;

	e.futex = e.ptrace = e.clock_reads = false;
	plan = decide(&e);
	check(plan, FUTEX, PROBE_OFF, "tp_btf sys_enter, sys_exit, sched_waking", "--futex");
	check(plan, TRACER, PROBE_OFF, "fentry", "--ptrace");
	check(plan, ATTACH, PROBE_OFF, "fentry", "--ptrace");
	check(plan, CLOCK, PROBE_OFF, "fentry", "--clocksource");
	CHECK(!plan->futex && !plan->inactive_turns && !plan->inactive_calls && !plan->inactive_kprobe &&
		      !plan->clock_read,
	      "nothing is attached");
}

static void without_fentry(void)
{
	struct evidence e = with_all_signals();
	const struct plan *plan;

	e.fentry_error = -EPERM;
	plan = decide(&e);
	check(plan, TRACER, PROBE_ON, "kprobe", WAIT_INACTIVE);
	check(plan, CLOCK, PROBE_ON, "kprobe", "read_hpet");
	CHECK(plan->inactive_kprobe && !plan->inactive_calls && plan->clock_kprobe, "by kprobe");
	check(plan, ATTACH, PROBE_ON, "kprobe", PTRACE_ATTACH_FUNCTION);
	CHECK(plan->ptrace_attach_kprobe && !plan->ptrace_attach, "attaching by kprobe");
	e.kprobe_source = false;
	plan = decide(&e);
	check(plan, TRACER, PROBE_ON, "tp_btf sched_wait_task", "neither calls nor their time");
	check(plan, CLOCK, PROBE_UNAVAILABLE, "", "refused");
	CHECK(plan->inactive_turns && !plan->inactive_kprobe && !plan->clock_read, "turns alone");
	e.btf_wait_task = e.btf_futex = false;
	plan = decide(&e);
	check(plan, TRACER, PROBE_UNAVAILABLE, "", "sched:sched_wait_task");
	check(plan, FUTEX, PROBE_UNAVAILABLE, "", "sys_enter");
}

/* What the kernel has, BTF knows; a function that BTF lacks would hide its calls. */
static void futexes(void)
{
	const __u32 all = 1u << FUTEX_FUNCTION | 1u << FUTEX_WAITV_FUNCTION | 1u << RESTART_FUNCTION;
	struct evidence e = with_all_signals();
	const struct plan *plan;

	e.btf_futex_functions = e.futex_functions = all;
	e.btf_context = 1u << PROBE_WAKING | 1u << PROBE_SWITCH;
	plan = decide(&e);
	check(plan, FUTEX, PROBE_ON, "fentry, tp_btf sched_waking", "and no others");
	CHECK(plan->futex && plan->futex_functions == all, "attached: %x", plan->futex_functions);
	e.futex = false;
	plan = decide(&e);
	check(plan, FUTEX, PROBE_OFF, "fentry, tp_btf sched_waking", "--futex");
	CHECK(!plan->futex && !plan->futex_functions, "nothing is attached");
	e.futex = true;
	e.btf_futex_functions &= ~(1u << FUTEX_WAITV_FUNCTION);
	plan = decide(&e);
	check(plan, FUTEX, PROBE_ON, "tp_btf sys_enter, sys_exit, sched_waking", "every system call");
	CHECK(plan->futex && !plan->futex_functions, "attached: %x", plan->futex_functions);
	/* An older kernel has fewer. */
	e.futex_functions = e.btf_futex_functions;
	CHECK(decide(&e)->futex_functions == e.btf_futex_functions, "a function that is not there is missed");
	e.fentry_error = -EPERM;
	plan = decide(&e);
	check(plan, FUTEX, PROBE_ON, "tp_btf sys_enter, sys_exit, sched_waking", "every system call");
	CHECK(plan->futex && !plan->futex_functions, "attached: %x", plan->futex_functions);
	e.fentry_error = 0;
	e.btf_context = 0;
	CHECK(!decide(&e)->futex_functions, "without wake-ups");
}

static void clocks(void)
{
	struct evidence e = with_all_signals();
	const struct plan *plan;

	strcpy(e.clocksource, "tsc");
	plan = decide(&e);
	check(plan, CLOCK, PROBE_OFF, "fentry", "nothing to see: clocksource tsc");
	CHECK(!plan->clock_read, "no device");
	strcpy(e.clocksource, "acpi_pm");
	e.cycle_counter = false;
	plan = decide(&e);
	check(plan, CLOCK, PROBE_ON, "fentry", "not timed");
	CHECK_TEXT(plan->clock_read, "acpi_pm_read");
	e.btf_clock_read = false;
	plan = decide(&e);
	check(plan, CLOCK, PROBE_UNAVAILABLE, "", "no such function");
}

/* A kernel of 6.12 on a PMU with one event. */
static struct evidence with_memory_events(void)
{
	struct evidence e = with_all_signals();

	e.hitm = true;
	e.btf_kernel_context = true;
	e.pmu = (struct pmu_plan){.count = 1, .events = {{.name = "cpu/mem-loads,ldlat=30/P"}}};
	return e;
}

static void memory_samples(void)
{
	struct evidence e = with_memory_events();
	const struct plan *plan = decide(&e);

	check(plan, "memory samples (HITM)", PROBE_ON, "PMU", "cpu/mem-loads,ldlat=30/P");
	CHECK(plan->hitm && plan->pmu.count == 1, "what is opened");
	snprintf(e.pmu.note, sizeof(e.pmu.note), "tells little");
	check(decide(&e), "memory samples (HITM)", PROBE_ON, "PMU", "tells little");
	e.hitm = false;
	plan = decide(&e);
	check(plan, "memory samples (HITM)", PROBE_OFF, "PMU", "--hitm");
	CHECK(!plan->hitm, "not asked for");
}

static void no_memory_samples(void)
{
	struct evidence e = with_memory_events();

	/* Before 6.2 a program is not told the data source. */
	e.btf_kernel_context = false;
	check(decide(&e), "memory samples (HITM)", PROBE_UNAVAILABLE, "", "since 6.2");
	CHECK(!decide(&e)->hitm, "opened all the same");
	e = with_memory_events();
	e.pmu.count = 0;
	check(decide(&e), "memory samples (HITM)", PROBE_UNAVAILABLE, "", "lockline watch");
	snprintf(e.pmu.trace, sizeof(e.pmu.trace), "arm_spe_0");
	check(decide(&e), "memory samples (HITM)", PROBE_UNAVAILABLE, "", "record --c2c");
	snprintf(e.pmu.error, sizeof(e.pmu.error), "gpu//: there is no such PMU");
	check(decide(&e), "memory samples (HITM)", PROBE_UNAVAILABLE, "", "no such PMU");
}

static const struct test tests[] = {
	TEST(all_of_it), TEST(not_asked_for),  TEST(without_fentry),    TEST(futexes),
	TEST(clocks),    TEST(memory_samples), TEST(no_memory_samples),
};

int main(void)
{
	return RUN_TESTS(tests);
}
