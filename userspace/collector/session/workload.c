// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/files_limit.h"
#include "cli/message.h"
#include "session/workload.h"

/* How long a command may take to end when it is asked to. */
#define PATIENCE_MS 3000
/* What lets it go. */
#define RUN  'r'
#define HOLD 'h'

static void run_command(char **argv, int start, int error)
{
	sigset_t none;
	char byte;
	int err;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
	files_limit_restore();
	/* End of file without the byte: the collector gave up. */
	if (read(start, &byte, 1) != 1)
		_exit(1);
	/* Its exec stops it then. */
	if (byte != HOLD || !ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		execvp(argv[0], argv);
	err = errno;
	if (write(error, &err, sizeof(err)) < 0)
		_exit(126);
	_exit(127);
}

int workload_prepare(struct workload *workload, char **argv)
{
	int start[2], error[2], err;

	*workload = (struct workload){.start = -1, .error = -1};
	if (pipe2(start, O_CLOEXEC))
		return -errno;
	if (pipe2(error, O_CLOEXEC)) {
		err = -errno;
		close(start[0]);
		close(start[1]);
		return err;
	}
	workload->pid = fork();
	if (!workload->pid) {
		close(start[1]);
		close(error[0]);
		run_command(argv, start[0], error[1]);
	}
	err = workload->pid < 0 ? -errno : 0;
	close(start[0]);
	close(error[1]);
	workload->start = start[1];
	workload->error = error[0];
	return err;
}

int workload_start(struct workload *workload, const char *name, bool held)
{
	int error = 0, status;
	const char how = held ? HOLD : RUN;
	ssize_t got;

	if (write(workload->start, &how, 1) != 1)
		return -errno;
	/* Closed by a successful exec. */
	got = read(workload->error, &error, sizeof(error));
	if (got != sizeof(error)) {
		workload->held = held && waitpid(workload->pid, &status, 0) == workload->pid && WIFSTOPPED(status);
		return 0;
	}
	message("cannot run %s: %s", name, strerror(error));
	return -error;
}

void workload_run(struct workload *workload)
{
	if (workload->held)
		ptrace(PTRACE_DETACH, workload->pid, NULL, NULL);
	workload->held = false;
}

bool workload_ended(struct workload *workload)
{
	int status = 0;
	pid_t ended;

	if (!workload->pid)
		return false;
	ended = waitpid(workload->pid, &status, WNOHANG);
	if (!ended || (ended < 0 && errno != ECHILD))
		return false;
	if (WIFEXITED(status) && WEXITSTATUS(status))
		message("the command ended with status %d", WEXITSTATUS(status));
	else if (WIFSIGNALED(status))
		message("the command was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	workload->pid = 0;
	return true;
}

void workload_stop(struct workload *workload)
{
	if (workload->start >= 0)
		close(workload->start);
	if (workload->error >= 0)
		close(workload->error);
	workload->start = workload->error = -1;
	if (workload->pid <= 0)
		return;
	workload_run(workload);
	kill(workload->pid, SIGTERM);
	kill(workload->pid, SIGCONT);
	for (int i = 0; i < PATIENCE_MS / 20; i++) {
		if (waitpid(workload->pid, NULL, WNOHANG))
			goto out;
		usleep(20000);
	}
	message("the command (process %d) does not end on SIGTERM; it is left running", workload->pid);
out:
	workload->pid = 0;
}
