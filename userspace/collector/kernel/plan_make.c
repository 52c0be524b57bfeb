// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "kernel/evidence.h"
#include "kernel/host.h"
#include "kernel/plan_context.h"
#include "kernel/plan_holders.h"
#include "kernel/plan_make.h"
#include "kernel/plan_signals.h"

static enum probe_state check_first_waiter(struct finding *finding)
{
	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	switch (finding->mode) {
	case SPINLOCK_PARAVIRT:
		return ON("paravirtual spinlocks: every entry of the slow path passes the tracepoint (%.100s)",
			  finding->mode_reason);
	case SPINLOCK_NATIVE:
		return BLIND(
			"native queued spinlocks: the first waiter behind a holder spins on the pending bit and passes "
			"no tracepoint (%.100s)",
			finding->mode_reason);
	case SPINLOCK_RT_NATIVE:
		return BLIND(
			"raw spinlocks: the first waiter spins on the pending bit and passes no tracepoint; spinlock_t "
			"is an rt-mutex and is seen (%.100s)",
			finding->mode_reason);
	case SPINLOCK_TEST_AND_SET:
		return BLIND("test-and-set spinlocks pass no tracepoint (%.150s)", finding->mode_reason);
	default:
		return BLIND("not known which kind of spinlock runs here: %.180s", finding->mode_reason);
	}
}

static const char *spin_slow_path(const struct evidence *evidence)
{
	return evidence->btf_native_slow_path   ? "native_queued_spin_lock_slowpath"
	       : evidence->btf_queued_slow_path ? "queued_spin_lock_slowpath"
						: NULL;
}

static enum probe_state check_spin_slow_path(struct finding *finding)
{
	return check_fentry(finding, spin_slow_path(finding->evidence));
}

static enum probe_state check_kprobe(struct finding *finding, const char *function)
{
	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (!finding->evidence->kprobe_source)
		return UNAVAILABLE("no such event source (CONFIG_KPROBE_EVENTS)");
	if (!function)
		return UNAVAILABLE("the kernel has no such function in BTF");
	return ON("%s() is probed at entry and return", function);
}

static enum probe_state check_spin_kprobe(struct finding *finding)
{
	return check_kprobe(finding, spin_slow_path(finding->evidence));
}

static enum probe_state check_read_slow_path(struct finding *finding)
{
	if (finding->evidence->lock.realtime)
		return UNAVAILABLE("PREEMPT_RT: rwlocks are rt-mutexes");
	return check_fentry(finding, finding->evidence->btf_read_slow_path ? "queued_read_lock_slowpath" : NULL);
}

/* Their file is built without the calls that fentry needs, and a kprobe's program would not run inside BPF's. */
static enum probe_state check_resilient(struct finding *finding)
{
	const struct evidence *evidence = finding->evidence;

	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (!evidence->btf_resilient && !evidence->resilient_text)
		return ON("they are spinlocks like others: resilient ones came with 6.15");
	if (!evidence->resilient_text)
		return BLIND("resilient spinlocks cannot be told from others: the symbol table hides the function "
			     "that waits for them");
	return BLIND("of the waiters for a resilient spinlock those that queue pass the tracepoint; the first "
		     "one, and all with test-and-set, cannot be probed");
}

static enum probe_state check_queued_waiters(struct finding *finding)
{
	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (finding->mode == SPINLOCK_TEST_AND_SET)
		return BLIND("test-and-set spinlocks pass no tracepoint (%.150s)", finding->mode_reason);
	if (finding->mode == SPINLOCK_UNKNOWN)
		return BLIND("not known which kind of spinlock runs here; test-and-set would show none: %.120s",
			     finding->mode_reason);
	return ON("from the moment they join the queue");
}

static enum probe_state check_sleeping(struct finding *finding)
{
	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	return ON("every wait in their slow paths%s",
		  finding->evidence->lock.realtime ? "; with PREEMPT_RT also spinlock_t" : "");
}

static enum probe_state check_rwlock(struct finding *finding)
{
	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	return ON("every wait in the slow paths of task context");
}

static enum probe_state check_rwlock_interrupt(struct finding *finding)
{
	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (finding->evidence->lock.realtime)
		return ON("PREEMPT_RT: rwlocks are not taken in interrupt context");
	return BLIND("a reader in interrupt context spins before the tracepoint");
}

static enum probe_state check_rwsem_spinning(struct finding *finding)
{
	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (finding->evidence->lock.realtime)
		return ON("PREEMPT_RT: writers do not spin");
	return BLIND("a writer that wins the rwsem while it spins passes no tracepoint");
}

static enum probe_state check_rwsem_slow_path(struct finding *finding)
{
	if (finding->evidence->lock.realtime)
		return UNAVAILABLE("PREEMPT_RT: writers do not spin");
	return check_fentry(finding, finding->evidence->btf_rwsem_slow_path ? RWSEM_SLOW_PATH : NULL);
}

static enum probe_state check_rwsem_kprobe(struct finding *finding)
{
	return check_kprobe(finding, finding->evidence->btf_rwsem_slow_path ? RWSEM_SLOW_PATH : NULL);
}

/* 6.1 and 6.6 are read to begin before the wait for readers, 6.12 and later after it. */
static enum probe_state check_percpu_writers(struct finding *finding)
{
	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (kernel_before(&finding->evidence->lock, 6, 7))
		return ON("the tracepoint spans the wait for readers");
	return BLIND("the tracepoint passes only if two writers meet%s",
		     kernel_before(&finding->evidence->lock, 6, 12) ? " (in some kernels from 6.7 to 6.11)" : "");
}

/* Not by kprobe: the function returns nothing that would tell which wait is over. */
static enum probe_state check_percpu_slow_path(struct finding *finding)
{
	return check_fentry(finding, finding->evidence->btf_percpu_slow_path ? PERCPU_SLOW_PATH : NULL);
}

static enum probe_state check_static_names(struct finding *finding)
{
	switch (finding->evidence->symbols) {
	case SYMBOLS_ALL:
		return ON("/proc/kallsyms has data symbols");
	case SYMBOLS_TEXT:
		return UNAVAILABLE(
			"/proc/kallsyms has functions alone: the kernel is built without CONFIG_KALLSYMS_ALL");
	case SYMBOLS_HIDDEN:
		return UNAVAILABLE("/proc/kallsyms hides addresses; run as root or with CAP_SYSLOG, and see "
				   "kernel.kptr_restrict");
	default:
		return UNAVAILABLE("/proc/kallsyms is not readable");
	}
}

static enum probe_state check_percpu_symbols(struct finding *finding)
{
	enum probe_state state = check_static_names(finding);

	return state == PROBE_ON ? check_programs(finding) : state;
}

static enum probe_state check_percpu_btf(struct finding *finding)
{
	if (check_programs(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (!finding->evidence->btf_percpu)
		return UNAVAILABLE("BTF has no per-CPU variables");
	return ON("offsets from BTF, and each CPU's area from its run queue");
}

static enum probe_state check_slab_names(struct finding *finding)
{
	if (check_programs(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (!finding->evidence->btf_slab)
		return UNAVAILABLE("the kernel has no bpf_get_kmem_cache(): it came with 6.13");
	return ON("the kernel finds the cache of an address");
}

static enum probe_state check_slab_pages(struct finding *finding)
{
	if (check_programs(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (!finding->evidence->page_table)
		return UNAVAILABLE("needs arm64, or x86-64 with CONFIG_KALLSYMS_ALL");
	if (!finding->evidence->btf_slab_pages)
		return UNAVAILABLE("BTF does not say which pages are slabs (before 5.17; 6.10 and 6.11)");
	return ON("the cache of an address is read from its struct page");
}

static enum probe_state check_owner_names(struct finding *finding)
{
	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	return ON("locks in the waiter's own task, mm, signal, sighand and files");
}

static enum probe_state check_kernel_stacks(struct finding *finding)
{
	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (finding->evidence->symbols >= SYMBOLS_TEXT)
		return ON("of every outlier and of a sample of the other waits");
	check_static_names(finding);
	return PROBE_BLIND;
}

static enum probe_state check_user_stacks(struct finding *finding)
{
	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	return finding->evidence->user_stacks ? ON("--user-stacks") : OFF("not asked for: --user-stacks");
}

static enum probe_state check_following(struct finding *finding)
{
	if (check_programs(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (!finding->evidence->btf_fork)
		return UNAVAILABLE("the kernel has no tracepoint sched:sched_process_fork in BTF");
	return finding->evidence->follow_forks ? ON("for the processes that were chosen")
					       : OFF("not needed: used with -p and with COMMAND");
}

static enum probe_state check_cgroup(struct finding *finding)
{
	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	switch (finding->evidence->cgroup) {
	case CGROUP_V2:
		return ON("cgroup v2");
	case CGROUP_HYBRID:
		return ON("hybrid: the v2 hierarchy, or one v1 controller's if v2 is not divided");
	case CGROUP_V1:
		return ON("cgroup v1: the hierarchy of one controller");
	default:
		return BLIND("no cgroup hierarchy is mounted here: ids have no paths");
	}
}

static const char *const shared_clocks[] = {"hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies"};

static bool clock_is_shared(const char *clocksource)
{
	for (size_t i = 0; i < sizeof(shared_clocks) / sizeof(shared_clocks[0]); i++)
		if (!strcmp(clocksource, shared_clocks[i]))
			return true;
	return false;
}

static enum probe_state check_clock(struct finding *finding)
{
	const char *clocksource = finding->evidence->clocksource;

	if (!*clocksource)
		return ON("the current clocksource cannot be read; lockline assumes that each CPU has its own");
	if (clock_is_shared(clocksource))
		return BLIND("clocksource %s is one device that all CPUs read in turn: a clock that moves at each tick "
			     "is used "
			     "instead",
			     clocksource);
	return ON("clocksource %s", clocksource);
}

static enum probe_state check_own_cost(struct finding *finding)
{
	int err = finding->evidence->statistics_error;

	if (!err)
		return ON("in windows of 100 ms, switched on by file descriptor");
	return UNAVAILABLE("the kernel refuses BPF statistics: %s%s", strerror(-err),
			   err == -EPERM ? "; run as root, or with CAP_SYS_ADMIN" : "");
}

static enum probe_state check_watchpoints(struct finding *finding)
{
	const struct evidence *evidence = finding->evidence;

	if (!evidence->breakpoint_source)
		return UNAVAILABLE("no event source for breakpoints");
	if (evidence->breakpoint_error == NOT_TRIED)
		return OFF("only lockline watch uses it; the event source is there");
	if (evidence->breakpoint_error)
		return UNAVAILABLE("the kernel refuses a breakpoint: %s", strerror(-evidence->breakpoint_error));
	return OFF("only lockline watch uses it; %d at once in one thread", evidence->breakpoints);
}

#define CANDIDATES 3

/*
 * Everything that lockline knows how to see.  Candidates in order: the first
 * that is on wins; else the signal is what the first one is, and the reason
 * says why the others cannot be had.
 */
static const struct row {
	struct {
		const char *source;
		enum probe_state (*check)(struct finding *finding);
	} candidates[CANDIDATES];
} rows[] = {
	[SIGNAL_LOCK_WAITS] = {{{"tp_btf contention_begin, contention_end", check_waits}}},
	[SIGNAL_SPINLOCK_FIRST_WAITER] = {{{"tp_btf contention_begin", check_first_waiter},
					   {"fentry", check_spin_slow_path},
					   {"kprobe", check_spin_kprobe}}},
	[SIGNAL_SPINLOCK_QUEUED_WAITERS] = {{{"tp_btf contention_begin", check_queued_waiters},
					     {"fentry", check_spin_slow_path},
					     {"kprobe", check_spin_kprobe}}},
	[SIGNAL_SLEEPING_LOCKS] = {{{"tp_btf contention_begin", check_sleeping}}},
	[SIGNAL_RWLOCK_WAITERS] = {{{"tp_btf contention_begin", check_rwlock}}},
	[SIGNAL_RWLOCK_INTERRUPT] = {{{"tp_btf contention_begin", check_rwlock_interrupt},
				      {"fentry", check_read_slow_path}}},
	[SIGNAL_BPF_SPINLOCKS] = {{{"tp_btf contention_begin", check_resilient}}},
	[SIGNAL_RWSEM_SPINNING] = {{{"tp_btf contention_begin", check_rwsem_spinning},
				    {"fentry", check_rwsem_slow_path},
				    {"kprobe", check_rwsem_kprobe}}},
	[SIGNAL_PERCPU_WRITERS] = {{{"tp_btf contention_begin", check_percpu_writers},
				    {"fentry", check_percpu_slow_path}}},
	[SIGNAL_SPINLOCK_HOLDERS] = {{{"tp_btf contended_release", check_spin_release},
				      {"fentry", check_spin_holders},
				      {"kprobe", check_spin_holders_kprobe}}},
	[SIGNAL_SLEEPING_HOLDERS] = {{{"tp_btf contended_release", check_contended_release},
				      {"fentry", check_sleeping_unlocks},
				      {"owner field", check_owners}}},
	[SIGNAL_HOLD_TIMES] = {{{"fentry", check_holds}}},
	[SIGNAL_INTERRUPTS] = {{{"tp_btf irq_handler_entry, irq_handler_exit", check_interrupts}}},
	[SIGNAL_CPU_INTERRUPTS] = {{{"tp_btf local_timer_entry, reschedule_entry, ...", check_vectors},
				    {"tp_btf ipi_entry, ipi_exit", check_ipis_received}}},
	[SIGNAL_IPIS_SENT] = {{{"tp_btf ipi_send_cpu, ipi_send_cpumask", check_ipis_sent},
			       {"tp_btf ipi_raise", check_ipis_raised}}},
	[SIGNAL_SOFTIRQS] = {{{"tp_btf softirq_entry, softirq_exit", check_softirqs}}},
	[SIGNAL_CONTEXT_SWITCHES] = {{{"tp_btf sched_switch", check_switches}}},
	[SIGNAL_WAKE_UPS] = {{{"tp_btf sched_waking, sched_wakeup", check_wake_ups}}},
	[SIGNAL_WAIT_TASK_TURNS] = {{{"tp_btf sched_wait_task", check_wait_task}}},
	[SIGNAL_TRACERS_WAITING] = {{{"fentry", check_inactive_calls},
				     {"kprobe", check_inactive_kprobe},
				     {"tp_btf sched_wait_task", check_inactive_turns}}},
	[SIGNAL_TRACERS_ATTACHING] = {{{"fentry", check_ptrace_attach}, {"kprobe", check_ptrace_attach_kprobe}}},
	[SIGNAL_CLOCK_READS] = {{{"fentry", check_clock_reads}, {"kprobe", check_clock_reads_kprobe}}},
	[SIGNAL_FUTEX_WAITS] = {{{"fentry, tp_btf sched_waking", check_futex_functions},
				 {"tp_btf sys_enter, sys_exit, sched_waking", check_futex}}},
	[SIGNAL_STATIC_NAMES] = {{{"symbol table", check_static_names}}},
	[SIGNAL_PERCPU_NAMES] = {{{"symbol table and BTF", check_percpu_symbols},
				  {"BTF and run queues", check_percpu_btf}}},
	[SIGNAL_SLAB_NAMES] = {{{"bpf_get_kmem_cache()", check_slab_names}, {"table of pages", check_slab_pages}}},
	[SIGNAL_OWNER_NAMES] = {{{"BTF", check_owner_names}}},
	[SIGNAL_KERNEL_STACKS] = {{{"BPF stack walk and symbol table", check_kernel_stacks}}},
	[SIGNAL_USER_STACKS] = {{{"BPF stack walk", check_user_stacks}}},
	[SIGNAL_PROCESS_FOLLOWING] = {{{"tp_btf sched_process_fork", check_following}}},
	[SIGNAL_CGROUP] = {{{"task_struct.cgroups", check_cgroup}}},
	[SIGNAL_CLOCK] = {{{"bpf_ktime_get_ns()", check_clock}}},
	[SIGNAL_OWN_COST] = {{{"BPF statistics", check_own_cost}}},
	[SIGNAL_HITM] = {{{"PMU", check_hitm}}},
	[SIGNAL_WATCHPOINTS] = {{{"debug registers", check_watchpoints}}},
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))
_Static_assert(ROWS == SIGNAL_MEMORY_BY_PERF, "every signal but that of --c2c, which plans for itself, has its row");

static void decide(enum signal signal, struct finding *finding, struct probe *probe)
{
	const struct row *row = &rows[signal];

	probe->signal = signal;
	for (size_t i = 0; i < CANDIDATES && row->candidates[i].check; i++) {
		enum probe_state state = row->candidates[i].check(finding);
		size_t used = strlen(probe->reason);

		/* What can be had when it is asked for outdoes what cannot. */
		if (!i || state == PROBE_ON || (state == PROBE_OFF && probe->state == PROBE_UNAVAILABLE)) {
			probe->state = state;
			snprintf(probe->source, sizeof(probe->source), "%s", row->candidates[i].source);
			snprintf(probe->reason, sizeof(probe->reason), "%s", finding->reason);
		} else if (probe->state != PROBE_OFF &&
			   !strstr(probe->reason, finding->reason)) { /* several can lack the same */
			snprintf(probe->reason + used, sizeof(probe->reason) - used, "; %s: %s",
				 row->candidates[i].source, finding->reason);
		}
		if (state == PROBE_ON)
			return;
	}
	if (probe->state != PROBE_OFF)
		probe->source[0] = '\0';
	snprintf(probe->lost, sizeof(probe->lost), "%s", signal_lost(signal));
}

/* Where the tracepoints see every wait, probes around the slow paths would only cost. */
static void plan_sleeping_paths(struct plan *plan, struct finding *finding)
{
	if (check_rwsem_spinning(finding) == PROBE_BLIND) {
		plan->rwsem_slow_path = check_rwsem_slow_path(finding) == PROBE_ON;
		plan->rwsem_kprobe = !plan->rwsem_slow_path && check_rwsem_kprobe(finding) == PROBE_ON;
	}
	if (check_percpu_writers(finding) == PROBE_BLIND)
		plan->percpu_slow_path = check_percpu_slow_path(finding) == PROBE_ON;
}

void plan_decide(struct plan *plan, const struct evidence *evidence)
{
	struct finding finding = {.evidence = evidence};

	memset(plan, 0, sizeof(*plan));
	finding.mode = lock_mode_decide(&evidence->lock, finding.mode_reason);
	plan->spinlock_mode = finding.mode;
	plan->clock = clock_is_shared(evidence->clocksource) ? CLOCK_COARSE : CLOCK_PRECISE;
	plan->tp_btf_contention = check_waits(&finding) == PROBE_ON;
	plan->slab_kfunc = check_slab_names(&finding) == PROBE_ON;
	plan->possible_cpus = evidence->lock.possible_cpus;
	/* Paravirtual spinlocks pass the tracepoints at every entry: probes around them would only cost. */
	if (finding.mode != SPINLOCK_PARAVIRT) {
		bool fentry = check_spin_slow_path(&finding) == PROBE_ON;

		plan->spin_kprobe = !fentry && check_spin_kprobe(&finding) == PROBE_ON;
		if (fentry || plan->spin_kprobe)
			plan->spin_slow_path = spin_slow_path(evidence);
		plan->paravirt_slow_path =
			fentry && finding.mode == SPINLOCK_UNKNOWN && evidence->btf_paravirt_slow_path;
	}
	plan->resilient_text = evidence->resilient_text;
	plan->resilient_text_size = evidence->resilient_text_size;
	memcpy(plan->spin_text, evidence->spin_text, sizeof(plan->spin_text));
	memcpy(plan->spin_text_size, evidence->spin_text_size, sizeof(plan->spin_text_size));
	plan->read_slow_path = check_read_slow_path(&finding) == PROBE_ON;
	plan_sleeping_paths(plan, &finding);
	plan_releases(plan, &finding);
	plan_context(plan, &finding);
	plan_signals(plan, &finding);
	for (size_t i = 0; i < ROWS; i++)
		decide(i, &finding, &plan->probes[plan->probe_count++]);
}

int plan_make(struct plan *plan, const struct options *options, const struct symbols *symbols, struct types **types)
{
	bool thorough = options->command == COMMAND_DOCTOR;
	struct evidence evidence;

	evidence_collect(&evidence, options, symbols, types, thorough);
	plan_decide(plan, &evidence);
	host_facts(plan, &evidence, thorough);
	return 0;
}
