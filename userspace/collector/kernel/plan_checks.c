// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernel/plan_checks.h"

enum probe_state found(struct finding *finding, enum probe_state state, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(finding->reason, sizeof(finding->reason), format, arguments);
	va_end(arguments);
	return state;
}

static const char *refusal(int err)
{
	return err == -EPERM || err == -EACCES ? "; run as root, or with CAP_BPF and CAP_PERFMON" : "";
}

enum probe_state check_programs(struct finding *finding)
{
	const struct evidence *evidence = finding->evidence;

	if (evidence->btf_error)
		return UNAVAILABLE("the kernel has no BTF in /sys/kernel/btf (CONFIG_DEBUG_INFO_BTF)");
	if (evidence->btf_contention && evidence->load_error)
		return UNAVAILABLE("the kernel refuses the program: %s%s", strerror(-evidence->load_error),
				   refusal(evidence->load_error));
	return ON("BTF and BPF programs can be used");
}

enum probe_state check_waits(struct finding *finding)
{
	if (check_programs(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (!finding->evidence->btf_contention)
		return UNAVAILABLE("the kernel has no tracepoint lock:contention_begin: it came with 5.19");
	return ON("the tracepoints are in BTF, and a program for them loads");
}

enum probe_state check_fentry(struct finding *finding, const char *function)
{
	int err = finding->evidence->fentry_error;

	if (check_waits(finding) != PROBE_ON)
		return PROBE_UNAVAILABLE;
	if (!function)
		return UNAVAILABLE("the kernel has no such function in BTF");
	if (err == NOT_TRIED)
		return UNAVAILABLE("not tried");
	if (err)
		return UNAVAILABLE("refused: %s", strerror(-err));
	return ON("%s() is probed at entry and exit", function);
}

enum probe_state asked(struct finding *finding, bool wanted, const char *option)
{
	char reason[PLAN_TEXT];

	if (wanted)
		return PROBE_ON;
	snprintf(reason, sizeof(reason), "%s", finding->reason);
	return OFF("not asked for (%s); available: %.300s", option, reason);
}
