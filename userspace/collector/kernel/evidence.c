// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/bpf.h>
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "kernel/evidence.h"
#include "base/small_file.h"
#include "names/btf_members.h"

#define EVENT_SOURCES    "/sys/bus/event_source/devices/"
#define MOST_BREAKPOINTS 64

static bool has_type(const struct types *types, const char *name, unsigned int kind)
{
	return types && types_of_kind(types, name, kind);
}

static bool has_value(const struct types *types, const char *enumeration, const char *name)
{
	__s64 value;

	return types && types_enumerator(types, enumeration, name, &value);
}

static bool has_symbol(const struct symbols *symbols, const char *name)
{
	__u64 address;

	return symbols && !symbols_address(symbols, name, &address);
}

static bool has_function(const struct types *types, const struct symbols *symbols, const char *name)
{
	return has_type(types, name, BTF_KIND_FUNC) || has_symbol(symbols, name);
}

/* Address and size, 0 if not known.  A table of symbols has no sizes: the function ends where another begins. */
static void find_function(const struct symbols *symbols, const char *name, __u64 *address, __u64 *size)
{
	__u64 inside = 0, outside = 1 << 16;
	struct symbol symbol;

	*address = *size = 0;
	if (!symbols || symbols_hidden(symbols) || symbols_address(symbols, name, address))
		return;
	while (outside - inside > 1) {
		__u64 middle = inside + (outside - inside) / 2;

		if (!symbols_lookup(symbols, *address + middle, &symbol) && symbol.address == *address)
			inside = middle;
		else
			outside = middle;
	}
	*size = outside;
}

/* fd, or negative errno.  The program does nothing: `return 0`. */
static int load_empty(enum bpf_attach_type type, int target)
{
	struct bpf_insn nothing[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K}, {.code = BPF_JMP | BPF_EXIT}};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = type, .attach_btf_id = target);
	int fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, "lockline_try", "GPL", nothing,
			       sizeof(nothing) / sizeof(nothing[0]), &opts);

	return fd < 0 ? -errno : fd;
}

static int try_load(const struct types *types)
{
	int target = types ? types_of_kind(types, "btf_trace_contention_begin", BTF_KIND_TYPEDEF) : 0;
	int fd = target ? load_empty(BPF_TRACE_RAW_TP, target) : -ENOENT;

	if (fd < 0)
		return fd;
	close(fd);
	return 0;
}

/* bpf_fentry_test1() is the kernel's own target for such trials: nothing else calls it. */
static int try_fentry(const struct types *types)
{
	int target = types ? types_of_kind(types, "bpf_fentry_test1", BTF_KIND_FUNC) : 0;
	int fd = target ? load_empty(BPF_TRACE_FENTRY, target) : -ENOENT;
	int link, err = 0;

	if (fd < 0)
		return fd;
	link = bpf_link_create(fd, 0, BPF_TRACE_FENTRY, NULL);
	if (link < 0)
		err = -errno;
	else
		close(link);
	close(fd);
	return err;
}

static int try_statistics(void)
{
	int fd = bpf_enable_stats(BPF_STATS_RUN_TIME);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/* How many watchpoints this thread can have on a variable of its own; none of them is ever armed. */
static int try_breakpoints(int *count)
{
	static long long target;
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.bp_type = HW_BREAKPOINT_W,
		.bp_addr = (unsigned long)&target,
		.bp_len = HW_BREAKPOINT_LEN_8,
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	int fds[MOST_BREAKPOINTS], err = 0, opened = 0;

	while (opened < MOST_BREAKPOINTS) {
		fds[opened] = syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
		if (fds[opened] < 0) {
			err = -errno;
			break;
		}
		opened++;
	}
	for (int i = 0; i < opened; i++)
		close(fds[i]);
	*count = opened;
	return opened ? 0 : err;
}

static enum cgroup_layout look_at_cgroups(void)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	bool v1 = false, v2 = false;
	char *line = NULL;
	size_t size = 0;

	if (!file)
		return CGROUP_NONE;
	while (getline(&line, &size, file) > 0) {
		const char *rest = strstr(line, " - ");

		if (!rest)
			continue;
		v2 |= !strncmp(rest, " - cgroup2 ", 11);
		/* a hierarchy with a name has no controller: systemd's bookkeeping */
		v1 |= !strncmp(rest, " - cgroup ", 10) && !strstr(rest, "name=");
	}
	free(line);
	fclose(file);
	return v1 && v2 ? CGROUP_HYBRID : v1 ? CGROUP_V1 : v2 ? CGROUP_V2 : CGROUP_NONE;
}

static void look_at_locks(struct evidence *evidence, const struct types *types, const struct symbols *symbols)
{
	static const char *const hypervisor_functions[] = {
		[HYPERVISOR_KVM] = "kvm_wait",
		[HYPERVISOR_XEN] = "xen_qlock_wait",
		[HYPERVISOR_HYPERV] = "hv_qlock_wait",
		[HYPERVISOR_OTHER] = NULL,
	};
	struct lock_mode_evidence *lock = &evidence->lock;
	char text[4096], type[16];
	struct utsname name = {};
	int possible = libbpf_num_possible_cpus();

#if defined(__x86_64__)
	lock->x86 = true;
#endif
#if defined(__x86_64__) || defined(__aarch64__)
	lock->queued = true;
#endif
	uname(&name);
	if (sscanf(name.release, "%u.%u", &lock->major, &lock->minor) != 2)
		lock->major = lock->minor = 0;
	lock->realtime = has_word(name.version, "PREEMPT_RT") ||
			 (!first_line("/sys/kernel/realtime", text, sizeof(text)) && text[0] == '1');
	lock->possible_cpus = possible > 0 ? possible : sysconf(_SC_NPROCESSORS_CONF);
	lock_mode_cpuid(lock, evidence->hypervisor);
	/* A paravirtual Xen guest may see the bare CPU's leaves. */
	if (lock->x86 && !first_line("/sys/hypervisor/type", type, sizeof(type)) && !strcmp(type, "xen"))
		lock->hypervisor = HYPERVISOR_XEN;
	first_line("/proc/cmdline", text, sizeof(text));
	lock->nopvspin = has_word(text, "nopvspin") ||
			 (lock->hypervisor == HYPERVISOR_XEN && has_word(text, "xen_nopvspin")) ||
			 (lock->hypervisor == HYPERVISOR_HYPERV && has_word(text, "hv_nopvspin"));
	lock->functions_known = types || (symbols && !symbols_hidden(symbols));
	lock->paravirt = has_type(types, "paravirt_patch_template", BTF_KIND_STRUCT) ||
			 has_function(types, symbols, "native_pv_lock_init");
	lock->paravirt_spinlocks = has_function(types, symbols, "__pv_queued_spin_lock_slowpath");
	if (lock->hypervisor != HYPERVISOR_NONE && hypervisor_functions[lock->hypervisor])
		lock->hypervisor_locks = has_function(types, symbols, hypervisor_functions[lock->hypervisor]);
}

static enum symbol_table look_at_symbols(const struct symbols *symbols)
{
	if (!symbols)
		return SYMBOLS_NONE;
	if (symbols_hidden(symbols))
		return SYMBOLS_HIDDEN;
	return symbols_have_data(symbols) ? SYMBOLS_ALL : SYMBOLS_TEXT;
}

static void look_at_futexes(struct evidence *evidence, const struct types *types, const struct symbols *symbols)
{
	for (int i = 0; i < FUTEX_FUNCTIONS; i++) {
		const char *name = futex_function_names[i];

		if (name && has_type(types, name, BTF_KIND_FUNC))
			evidence->btf_futex_functions |= 1u << i;
		if (name && has_symbol(symbols, name))
			evidence->futex_functions |= 1u << i;
	}
}

void evidence_collect(struct evidence *evidence, const struct options *options, const struct symbols *symbols,
		      struct types **opened, bool thorough)
{
	const struct types *types;

	*opened = NULL;
	*evidence = (struct evidence){
		.user_stacks = options->user_stacks,
		.holders = options->holders,
		.holds = options->holds,
		.episodes = options->episodes,
		.futex = options->futex,
		.ptrace = options->ptrace,
		.clock_reads = options->clocksource,
		.hitm = options->hitm,
		.follow_forks = options->pids.count || options->command_argv,
		.fentry_error = NOT_TRIED,
		.breakpoint_error = NOT_TRIED,
	};
	evidence->btf_error = types_open(opened);
	types = *opened;
	look_at_locks(evidence, types, symbols);
	evidence->btf_contention = has_type(types, "btf_trace_contention_begin", BTF_KIND_TYPEDEF) &&
				   has_type(types, "btf_trace_contention_end", BTF_KIND_TYPEDEF);
	evidence->btf_fork = has_type(types, "btf_trace_sched_process_fork", BTF_KIND_TYPEDEF);
	evidence->btf_release = has_type(types, "btf_trace_contended_release", BTF_KIND_TYPEDEF);
	evidence->spin_release = evidence->btf_release && has_function(types, symbols, SPIN_RELEASE);
	evidence->rw_release = evidence->spin_release && has_function(types, symbols, RW_RELEASE);
	evidence->btf_wait_task = has_type(types, "btf_trace_sched_wait_task", BTF_KIND_TYPEDEF);
	evidence->btf_wait_inactive = has_type(types, WAIT_INACTIVE, BTF_KIND_FUNC);
	evidence->btf_ptrace_attach = has_type(types, PTRACE_ATTACH_FUNCTION, BTF_KIND_FUNC);
	evidence->btf_futex = has_type(types, "btf_trace_sys_enter", BTF_KIND_TYPEDEF) &&
			      has_type(types, "btf_trace_sys_exit", BTF_KIND_TYPEDEF) &&
			      has_type(types, "btf_trace_sched_waking", BTF_KIND_TYPEDEF);
	look_at_futexes(evidence, types, symbols);
	evidence->btf_percpu = has_type(types, "runqueues", BTF_KIND_VAR);
	evidence->btf_slab = has_type(types, "bpf_get_kmem_cache", BTF_KIND_FUNC);
	/* As slab_pages.c tells them; struct slab came with 5.17. */
	evidence->btf_slab_pages =
		has_type(types, "slab", BTF_KIND_STRUCT) &&
		(has_value(types, "pagetype", "PGTY_slab") || has_value(types, "pageflags", "PG_slab"));
	evidence->btf_native_slow_path = has_type(types, "native_queued_spin_lock_slowpath", BTF_KIND_FUNC);
	evidence->btf_paravirt_slow_path = has_type(types, "__pv_queued_spin_lock_slowpath", BTF_KIND_FUNC);
	evidence->btf_queued_slow_path = has_type(types, "queued_spin_lock_slowpath", BTF_KIND_FUNC);
	for (int i = 0; i < RELEASE_FUNCTIONS; i++)
		if (has_type(types, release_function_names[i], BTF_KIND_FUNC))
			evidence->btf_release_functions |= 1u << i;
	for (int i = 0; i < CONTEXT_PROBES; i++) {
		char name[64];

		snprintf(name, sizeof(name), "btf_trace_%s", context_tracepoints[i]);
		if (has_type(types, name, BTF_KIND_TYPEDEF))
			evidence->btf_context |= 1u << i;
	}
	evidence->btf_read_slow_path = has_type(types, "queued_read_lock_slowpath", BTF_KIND_FUNC);
	evidence->btf_rwsem_slow_path = has_type(types, RWSEM_SLOW_PATH, BTF_KIND_FUNC);
	evidence->btf_percpu_slow_path = has_type(types, PERCPU_SLOW_PATH, BTF_KIND_FUNC);
	evidence->btf_resilient = has_type(types, "rqspinlock", BTF_KIND_STRUCT);
	find_function(symbols, "resilient_queued_spin_lock_slowpath", &evidence->resilient_text,
		      &evidence->resilient_text_size);
	find_function(symbols,
		      evidence->btf_native_slow_path ? "native_queued_spin_lock_slowpath" : "queued_spin_lock_slowpath",
		      &evidence->spin_text[0], &evidence->spin_text_size[0]);
	find_function(symbols, "__pv_queued_spin_lock_slowpath", &evidence->spin_text[1], &evidence->spin_text_size[1]);
	evidence->load_error = try_load(types);
	evidence->fentry_error = try_fentry(types);
	evidence->statistics_error = try_statistics();
	evidence->kprobe_source = !access(EVENT_SOURCES "kprobe", F_OK);
	evidence->symbols = look_at_symbols(symbols);
#ifdef __aarch64__
	evidence->page_table = true;
#else
	evidence->page_table = has_symbol(symbols, "vmemmap_base") && has_symbol(symbols, "page_offset_base");
#endif
	evidence->cgroup = look_at_cgroups();
	first_line("/sys/devices/system/clocksource/clocksource0/current_clocksource", evidence->clocksource,
		   sizeof(evidence->clocksource));
	evidence->btf_clock_read = clock_read_function(evidence->clocksource) &&
				   has_type(types, clock_read_function(evidence->clocksource), BTF_KIND_FUNC);
	evidence->cycle_counter = !access(EVENT_SOURCES "msr/events/tsc", F_OK);
	pmu_plan_make(&evidence->pmu, &(struct pmu_wish){.root = PMU_ROOT,
							 .ldlat = options->ldlat,
							 .l3_misses = options->l3_misses,
							 .event = options->hitm_event});
	evidence->btf_kernel_context = has_type(types, "bpf_cast_to_kern_ctx", BTF_KIND_FUNC);
	evidence->breakpoint_source = !access(EVENT_SOURCES "breakpoint", F_OK);
	if (thorough)
		evidence->breakpoint_error = try_breakpoints(&evidence->breakpoints);
}
