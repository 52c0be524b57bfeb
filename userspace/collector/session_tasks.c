// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <sys/stat.h>

#include "message.h"
#include "session_tasks.h"
#include "tasks.h"

/* Inode of the first pid namespace, PROC_PID_INIT_INO of include/linux/proc_ns.h. */
#define FIRST_PID_NAMESPACE 0xEFFFFFFCu

/* The programs know tasks by their ids in the first pid namespace. */
int session_check_namespace(const struct options *options)
{
	struct stat namespace;

	if (!options->pids.count && !options->tids.count && (options->all || !options->command_argv))
		return 0;
	if (stat("/proc/self/ns/pid", &namespace) || namespace.st_ino == FIRST_PID_NAMESPACE)
		return 0;
	message("-p, -t and COMMAND need the host's process ids, and this is another pid namespace: use -a or -G, or "
		"share the host's (--pid=host)");
	return -EINVAL;
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
