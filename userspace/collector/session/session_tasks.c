// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "cli/message.h"
#include "session/session_tasks.h"
#include "base/proc.h"

/* lock: and addresses need no process. */
static bool is_of_process(const char *target)
{
	return target &&
	       (!strncmp(target, "task:", 5) || !strncmp(target, "user:", 5) || !strncmp(target, "futex:", 6));
}

/* The programs know tasks by their ids in the first pid namespace, and so does what finds a task's memory. */
int session_check_namespace(const struct options *options)
{
	bool of_process = is_of_process(options->watch_target);

	if (!of_process && !options->pids.count && !options->tids.count && (options->all || !options->command_argv))
		return 0;
	if (proc_has_kernel_ids())
		return 0;
	if (of_process)
		message("a target of a process needs the host's process ids, and this is another pid namespace: share "
			"the host's (--pid=host)");
	else
		message("-p, -t and COMMAND need the host's process ids, and this is another pid namespace: use -a or "
			"-G, or share the host's (--pid=host)");
	return -EINVAL;
}

/* SIGTERM is blocked by now: sent before the recording has begun, it ends it at once. */
int session_end_with(const struct options *options)
{
	if (!options->end_with)
		return 0;
	if (prctl(PR_SET_PDEATHSIG, SIGTERM)) {
		message("--end-with: the kernel does not let lockline follow that process: %s", strerror(errno));
		return -errno;
	}
	/* It may have ended before; and of another process the kernel tells nothing. */
	if (getppid() != (pid_t)options->end_with) {
		message("--end-with %u: not the process that started this one, or gone", options->end_with);
		return -ESRCH;
	}
	return 0;
}

int session_check_processes(const struct options *options)
{
	for (size_t i = 0; i < options->pids.count + options->tids.count; i++) {
		bool thread = i >= options->pids.count;
		__u32 id = thread ? options->tids.ids[i - options->pids.count] : options->pids.ids[i], leader;

		if (task_gone(id)) {
			message("no %s %u", thread ? "thread" : "process", id);
			return -ESRCH;
		}
		if (!thread && !task_leader(id, &leader) && leader != id) {
			message("%u is a thread of process %u: use -t %u or -p %u", id, leader, id, leader);
			return -ESRCH;
		}
	}
	return 0;
}

bool session_processes_gone(const struct options *options)
{
	for (size_t i = 0; i < options->pids.count; i++)
		if (!task_gone(options->pids.ids[i]))
			return false;
	for (size_t i = 0; i < options->tids.count; i++)
		if (!task_gone(options->tids.ids[i]))
			return false;
	return options->pids.count || options->tids.count;
}
