// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "helper/naming_helper.h"
#include "naming/naming_process.h"

/* How long the end of a helper is waited for, once it was killed. */
#define ENDS_MS 1000
/* Starts beyond these, and one a second, are refused: files that kill it must not keep a CPU busy. */
#define STARTS 64

/* Whether one more helper may be left alone; those that have ended meanwhile no longer count. */
static bool may_leave_one(struct naming_process *process)
{
	bool room = false;

	for (int i = 0; i < NAMING_MOST_LEFT; i++) {
		if (process->left[i] && waitpid(process->left[i], NULL, WNOHANG))
			process->left[i] = 0;
		room |= !process->left[i];
	}
	return room;
}

static void leave_alone(struct naming_process *process)
{
	for (int i = 0; i < NAMING_MOST_LEFT; i++) {
		if (!process->left[i]) {
			process->left[i] = process->pid;
			return;
		}
	}
}

int naming_process_start(struct naming_process *process)
{
	static char *const arguments[] = {"lockline-names", NAMING_HELPER_ARGUMENT, NULL};
	char *const environment[] = {NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t blocked, usual;
	int ends[2], err;

	if (!may_leave_one(process) || process->starts >= STARTS + (now_ns() - process->first_start_ns) / 1000000000ull)
		return -EAGAIN;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	process->starts++;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, ends[1], STDIN_FILENO);
	posix_spawn_file_actions_addclosefrom_np(&files, STDIN_FILENO + 1);
	/* Ctrl-C is the collector's; the names of the last waits are wanted after it. */
	sigfillset(&blocked);
	sigdelset(&blocked, SIGPROF);
	sigemptyset(&usual);
	sigaddset(&usual, SIGPROF);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attributes, &blocked);
	posix_spawnattr_setsigdefault(&attributes, &usual);
	err = -posix_spawn(&process->pid, "/proc/self/exe", &files, &attributes, arguments, environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&files);
	close(ends[1]);
	if (err) {
		close(ends[0]);
		return err;
	}
	process->socket = ends[0];
	return 0;
}

static void count_cpu(struct naming_process *process, const struct rusage *usage)
{
	process->ended_cpu_ns += (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000000ull +
				 (usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1000ull;
}

bool naming_process_cpu_ns(const struct naming_process *process, __u64 *out)
{
	clockid_t clock;

	if (clock_getcpuclockid(process->pid, &clock))
		return false;
	*out = clock_ns(clock);
	return true;
}

void naming_process_stop(struct naming_process *process)
{
	struct rusage usage;
	pid_t ended = 0;

	if (process->socket < 0)
		return;
	close(process->socket);
	process->socket = -1;
	kill(process->pid, SIGKILL);
	/* It may wait for a file where no signal reaches it. */
	for (int i = 0; !ended && i < ENDS_MS; i++) {
		ended = wait4(process->pid, NULL, WNOHANG, &usage);
		if (!ended)
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	if (ended > 0) {
		count_cpu(process, &usage);
	} else {
		process->ended_cpu_ns += process->running_cpu_ns;
		leave_alone(process);
	}
	process->running_cpu_ns = 0;
}
