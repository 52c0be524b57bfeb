// SPDX-License-Identifier: GPL-2.0-or-later
/* The plan of what stands beside the lock waits, each by an option of its own. */
#include <string.h>

#include "kernel/plan_signals.h"

/* A function that is there and cannot be probed would hide its calls: then all system calls are probed. */
enum probe_state check_futex_functions(struct finding *finding)
{
	const struct evidence *evidence = finding->evidence;
	const __u32 there = evidence->btf_futex_functions, lacking = evidence->futex_functions & ~there;
	enum probe_state state =
		check_fentry(finding, there & 1u << FUTEX_FUNCTION ? futex_function_names[FUTEX_FUNCTION] : NULL);

	if (state != PROBE_ON)
		return state;
	if (lacking)
		return UNAVAILABLE("the kernel's BTF lacks %s()", futex_function_names[__builtin_ctz(lacking)]);
	if (!(evidence->btf_context & 1u << PROBE_WAKING))
		return UNAVAILABLE("the kernel's BTF lacks the tracepoint sched_waking");
	ON("the system calls of futexes are probed, and no others");
	return asked(finding, evidence->futex, "--futex");
}

enum probe_state check_futex(struct finding *finding)
{
	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (!finding->evidence->btf_futex)
		return UNAVAILABLE("the kernel's BTF lacks the tracepoints sys_enter, sys_exit or sched_waking "
				   "(CONFIG_HAVE_SYSCALL_TRACEPOINTS)");
	ON("every system call passes a probe, futex calls are followed");
	return asked(finding, finding->evidence->futex, "--futex");
}

static enum probe_state check_probe(struct finding *finding, bool in_btf, const char *function, bool kprobe)
{
	if (!kprobe)
		return check_fentry(finding, in_btf ? function : NULL);
	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (!finding->evidence->kprobe_source)
		return UNAVAILABLE("no such event source (CONFIG_KPROBE_EVENTS)");
	if (!in_btf)
		return UNAVAILABLE("the kernel has no such function in BTF");
	return ON("%s() is probed at entry and return", function);
}

enum probe_state check_inactive_calls(struct finding *finding)
{
	enum probe_state state = check_probe(finding, finding->evidence->btf_wait_inactive, WAIT_INACTIVE, false);

	return state == PROBE_ON ? asked(finding, finding->evidence->ptrace, "--ptrace") : state;
}

enum probe_state check_inactive_kprobe(struct finding *finding)
{
	enum probe_state state = check_probe(finding, finding->evidence->btf_wait_inactive, WAIT_INACTIVE, true);

	return state == PROBE_ON ? asked(finding, finding->evidence->ptrace, "--ptrace") : state;
}

static enum probe_state check_attach(struct finding *finding, bool kprobe)
{
	const struct evidence *evidence = finding->evidence;
	enum probe_state state = check_probe(finding, evidence->btf_ptrace_attach, PTRACE_ATTACH_FUNCTION, kprobe);

	return state == PROBE_ON ? asked(finding, evidence->ptrace, "--ptrace") : state;
}

enum probe_state check_ptrace_attach(struct finding *finding)
{
	return check_attach(finding, false);
}

enum probe_state check_ptrace_attach_kprobe(struct finding *finding)
{
	return check_attach(finding, true);
}

enum probe_state check_inactive_turns(struct finding *finding)
{
	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (!finding->evidence->btf_wait_task)
		return UNAVAILABLE("the kernel has no tracepoint sched:sched_wait_task in BTF");
	ON("turns of the loop, by tracer and tracee; neither calls nor their time");
	return asked(finding, finding->evidence->ptrace, "--ptrace");
}

static enum probe_state check_clock_function(struct finding *finding, bool kprobe)
{
	const struct evidence *evidence = finding->evidence;
	const char *function = clock_read_function(evidence->clocksource);
	enum probe_state state;

	if (!function)
		return OFF("nothing to see: clocksource %s is no device that CPUs wait for", evidence->clocksource);
	state = check_probe(finding, evidence->btf_clock_read, function, kprobe);
	if (state != PROBE_ON)
		return state;
	if (evidence->cycle_counter)
		ON("%s() is probed at entry and exit, timed in CPU cycles", function);
	else
		ON("%s() is probed; its reads are counted, not timed: no event source msr/tsc", function);
	return asked(finding, evidence->clock_reads, "--clocksource");
}

enum probe_state check_clock_reads(struct finding *finding)
{
	return check_clock_function(finding, false);
}

enum probe_state check_clock_reads_kprobe(struct finding *finding)
{
	return check_clock_function(finding, true);
}

enum probe_state check_hitm(struct finding *finding)
{
	const struct evidence *evidence = finding->evidence;
	const struct pmu_plan *pmu = &evidence->pmu;
	char names[PMU_TEXT];

	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (*pmu->error)
		return UNAVAILABLE("%s", pmu->error);
	if (!pmu->count && *pmu->trace)
		return UNAVAILABLE("the samples of %s go to a buffer that BPF programs do not see; use record --c2c, "
				   "which runs perf",
				   pmu->trace);
	if (!pmu->count)
		return UNAVAILABLE("this machine has no event source mem-loads, ibs_op or arm_spe (guests seldom have "
				   "one); lockline watch works without");
	pmu_plan_names(pmu, names, sizeof(names));
	if (!evidence->btf_kernel_context)
		return UNAVAILABLE("the kernel has %.120s, but shows their data source to BPF programs only since 6.2; "
				   "use record --c2c, which runs perf",
				   names);
	ON("%.150s%s%.200s", names, *pmu->note ? "; " : "", pmu->note);
	return asked(finding, evidence->hitm, "--hitm");
}

void plan_signals(struct plan *plan, struct finding *finding)
{
	const char *function = clock_read_function(finding->evidence->clocksource);

	if (check_futex_functions(finding) == PROBE_ON)
		plan->futex_functions = finding->evidence->btf_futex_functions;
	plan->futex = plan->futex_functions || check_futex(finding) == PROBE_ON;
	plan->hitm = check_hitm(finding) == PROBE_ON;
	plan->pmu = finding->evidence->pmu;
	plan->inactive_turns = check_inactive_turns(finding) == PROBE_ON;
	plan->inactive_calls = check_inactive_calls(finding) == PROBE_ON;
	plan->inactive_kprobe = !plan->inactive_calls && check_inactive_kprobe(finding) == PROBE_ON;
	plan->ptrace_attach = check_ptrace_attach(finding) == PROBE_ON;
	plan->ptrace_attach_kprobe = !plan->ptrace_attach && check_ptrace_attach_kprobe(finding) == PROBE_ON;
	if (function && check_clock_reads(finding) == PROBE_ON) {
		plan->clock_read = function;
	} else if (function && check_clock_reads_kprobe(finding) == PROBE_ON) {
		plan->clock_read = function;
		plan->clock_kprobe = true;
	}
}
