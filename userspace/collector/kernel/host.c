// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "base/capabilities.h"
#include "base/clock.h"
#include "kernel/host.h"
#include "base/small_file.h"

#define PERF_DEADLINE_MS 5000

extern char **environ;

__attribute__((format(printf, 3, 4))) static void fact(struct plan *plan, const char *name, const char *format, ...)
{
	char text[PLAN_TEXT];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	plan_put_fact(plan, name, text);
}

static void fact_of_file(struct plan *plan, const char *name, const char *path)
{
	char text[PLAN_TEXT];
	int err = first_line(path, text, sizeof(text));

	if (err)
		snprintf(text, sizeof(text), "not readable: %s", strerror(-err));
	fact(plan, name, "%s", text);
}

static void cpu_model(char out[PLAN_TEXT])
{
	char implementer[32], part[32];

	if (!value_of_key("/proc/cpuinfo", "model name", out, PLAN_TEXT))
		return;
	/* arm64 has numbers alone */
	if (value_of_key("/proc/cpuinfo", "CPU implementer", implementer, sizeof(implementer)) ||
	    value_of_key("/proc/cpuinfo", "CPU part", part, sizeof(part)))
		snprintf(out, PLAN_TEXT, "unknown");
	else
		snprintf(out, PLAN_TEXT, "implementer %s part %s", implementer, part);
}

static void hypervisor(const struct evidence *evidence, char out[PLAN_TEXT])
{
	static const char *const names[] = {
		[HYPERVISOR_NONE] = "none",      [HYPERVISOR_KVM] = "KVM",     [HYPERVISOR_XEN] = "Xen",
		[HYPERVISOR_HYPERV] = "Hyper-V", [HYPERVISOR_OTHER] = "other",
	};
	char signature[13];

	snprintf(signature, sizeof(signature), "%s", evidence->hypervisor);
	make_printable(signature);
	if (!evidence->lock.x86)
		snprintf(out, PLAN_TEXT, "not known on this architecture");
	else if (signature[0])
		snprintf(out, PLAN_TEXT, "%s (%s)", names[evidence->lock.hypervisor], signature);
	else
		snprintf(out, PLAN_TEXT, "%s", names[evidence->lock.hypervisor]);
}

/* The mode in force stands in brackets or parentheses: "none voluntary (full)". */
static bool chosen_word(const char *text, char open, char close, char *out, size_t size)
{
	const char *begin = strchr(text, open), *end = begin ? strchr(begin, close) : NULL;

	if (!end)
		return false;
	snprintf(out, size, "%.*s", (int)(end - begin - 1), begin + 1);
	return true;
}

static void preemption(const struct evidence *evidence, const char *version, char out[PLAN_TEXT])
{
	char text[4096], mode[32];
	const char *chosen;

	if (evidence->lock.realtime) {
		snprintf(out, PLAN_TEXT, "PREEMPT_RT");
		return;
	}
	/* debugfs is often not mounted; then the kernel's command line may still say it */
	if (!first_line("/sys/kernel/debug/sched/preempt", text, sizeof(text)) &&
	    chosen_word(text, '(', ')', mode, sizeof(mode)))
		snprintf(out, PLAN_TEXT, "%s (dynamic)", mode);
	else if (!first_line("/proc/cmdline", text, sizeof(text)) && (chosen = strstr(text, "preempt=")) &&
		 (chosen == text || chosen[-1] == ' ') && sscanf(chosen, "preempt=%31s", mode) == 1)
		snprintf(out, PLAN_TEXT, "%s (by the kernel's command line)", mode);
	else if (has_word(version, "PREEMPT_DYNAMIC"))
		snprintf(out, PLAN_TEXT, "dynamic; which one is not readable (debugfs)");
	else if (has_word(version, "PREEMPT_LAZY"))
		snprintf(out, PLAN_TEXT, "lazy");
	else if (has_word(version, "PREEMPT"))
		snprintf(out, PLAN_TEXT, "full");
	else
		snprintf(out, PLAN_TEXT, "none or voluntary");
}

static void lockdown(char out[PLAN_TEXT])
{
	char text[PLAN_TEXT];

	if (first_line("/sys/kernel/security/lockdown", text, sizeof(text)))
		snprintf(out, PLAN_TEXT, "not readable (securityfs)");
	else if (!chosen_word(text, '[', ']', out, PLAN_TEXT))
		snprintf(out, PLAN_TEXT, "%.*s", PLAN_TEXT - 1, text);
}

static void capabilities(char out[PLAN_TEXT])
{
	static const struct {
		const char *name;
		int bit;
	} wanted[] = {
		{"CAP_BPF", CAP_BPF},
		{"CAP_PERFMON", CAP_PERFMON},
		{"CAP_SYS_ADMIN", CAP_SYS_ADMIN},
		{"CAP_SYS_PTRACE", CAP_SYS_PTRACE},
		{"CAP_SYSLOG", CAP_SYSLOG},
		{"CAP_SYS_RESOURCE", CAP_SYS_RESOURCE},
		{"CAP_DAC_READ_SEARCH", CAP_DAC_READ_SEARCH},
	};
	char text[32], present[PLAN_TEXT] = "", missing[PLAN_TEXT] = "";
	unsigned long long mask;

	if (value_of_key("/proc/self/status", "CapEff", text, sizeof(text))) {
		snprintf(out, PLAN_TEXT, "not readable (/proc/self/status)");
		return;
	}
	mask = strtoull(text, NULL, 16);
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		char *list = mask >> wanted[i].bit & 1 ? present : missing;
		size_t used = strlen(list);

		snprintf(list + used, PLAN_TEXT - used, "%s%s", used ? " " : "", wanted[i].name);
	}
	snprintf(out, PLAN_TEXT, "present: %.100s; missing: %.100s", *present ? present : "none",
		 *missing ? missing : "none");
}

/* What `perf version` prints, or why not; a perf that hangs is killed. */
static void perf_version(char out[PLAN_TEXT])
{
	__u64 deadline = now_ns() + PERF_DEADLINE_MS * 1000000ull;
	char *const arguments[] = {"perf", "version", NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	int pipe_fds[2], err, status;
	size_t used = 0;
	pid_t pid;

	if (pipe2(pipe_fds, O_CLOEXEC)) {
		snprintf(out, PLAN_TEXT, "not asked: %s", strerror(errno));
		return;
	}
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	/* a group of its own: perf may be a script */
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
	posix_spawnattr_setpgroup(&attributes, 0);
	err = posix_spawnp(&pid, "perf", &actions, &attributes, arguments, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	close(pipe_fds[1]);
	if (err) {
		snprintf(out, PLAN_TEXT, "%s", err == ENOENT ? "not installed" : strerror(err));
		close(pipe_fds[0]);
		return;
	}
	while (used < PLAN_TEXT - 1) {
		struct pollfd ready = {.fd = pipe_fds[0], .events = POLLIN};
		__u64 now = now_ns();
		ssize_t got;

		if (now >= deadline || poll(&ready, 1, (deadline - now) / 1000000) <= 0)
			break;
		got = read(pipe_fds[0], out + used, PLAN_TEXT - 1 - used);
		if (got <= 0)
			break;
		used += got;
	}
	close(pipe_fds[0]);
	out[used] = 0;
	make_printable(out);
	/* It has written what it had to say, or is late: either way it is not needed any more. */
	kill(-pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (!strncmp(out, "perf version ", 13))
		memmove(out, out + 13, strlen(out + 13) + 1);
	else
		snprintf(out, PLAN_TEXT, "present, but it does not say its version");
}

void host_facts(struct plan *plan, const struct evidence *evidence, bool thorough)
{
	static const char *const modes[] = {
		[SPINLOCK_UNKNOWN] = "unknown",
		[SPINLOCK_NATIVE] = "native",
		[SPINLOCK_PARAVIRT] = "paravirt",
		[SPINLOCK_TEST_AND_SET] = "test-and-set",
		[SPINLOCK_RT_NATIVE] = "native (raw spinlocks; spinlock_t is an rt-mutex)",
	};
	static const char *const tables[] = {
		[SYMBOLS_NONE] = "not readable",
		[SYMBOLS_HIDDEN] = "hidden",
		[SYMBOLS_TEXT] = "text only",
		[SYMBOLS_ALL] = "all",
	};
	static const char *const layouts[] = {
		[CGROUP_NONE] = "none mounted",
		[CGROUP_V1] = "v1",
		[CGROUP_HYBRID] = "hybrid",
		[CGROUP_V2] = "v2",
	};
	char text[PLAN_TEXT];
	struct utsname name = {};
	/* In a container the machine's name is another one; a DaemonSet knows its node's. */
	const char *given = getenv("LOCKLINE_HOST");

	uname(&name);
	fact(plan, "hostname", "%.64s", given && *given ? given : name.nodename);
	fact(plan, "kernel_release", "%s", name.release);
	fact(plan, "kernel_version", "%s", name.version);
	fact(plan, "architecture", "%s", name.machine);
	cpu_model(text);
	fact(plan, "cpu_model", "%s", text);
	fact(plan, "cpus_possible", "%u", plan->possible_cpus);
	fact(plan, "cpus_online", "%ld", sysconf(_SC_NPROCESSORS_ONLN));
	fact(plan, "memory_total_bytes", "%llu",
	     (unsigned long long)sysconf(_SC_PHYS_PAGES) * (unsigned long long)sysconf(_SC_PAGESIZE));
	fact(plan, "clocksource", "%s", evidence->clocksource[0] ? evidence->clocksource : "not readable");
	fact_of_file(plan, "clocksources_available",
		     "/sys/devices/system/clocksource/clocksource0/available_clocksource");
	fact_of_file(plan, "boot_id", "/proc/sys/kernel/random/boot_id");
	hypervisor(evidence, text);
	fact(plan, "hypervisor", "%s", text);
	lockdown(text);
	fact(plan, "lockdown", "%s", text);
	preemption(evidence, name.version, text);
	fact(plan, "preemption", "%s", text);
	fact(plan, "spinlock_mode", "%s", modes[plan->spinlock_mode]);
	fact_of_file(plan, "kptr_restrict", "/proc/sys/kernel/kptr_restrict");
	fact_of_file(plan, "perf_event_paranoid", "/proc/sys/kernel/perf_event_paranoid");
	fact_of_file(plan, "bpf_stats_enabled", "/proc/sys/kernel/bpf_stats_enabled");
	fact(plan, "kallsyms", "%s", tables[evidence->symbols]);
	fact(plan, "btf", "%s", evidence->btf_error ? "missing" : "present");
	capabilities(text);
	fact(plan, "capabilities", "%s", text);
	fact(plan, "cgroup_layout", "%s", layouts[evidence->cgroup]);
	if (thorough) {
		perf_version(text);
		fact(plan, "perf_version", "%s", text);
	}
}
