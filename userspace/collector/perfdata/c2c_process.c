// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "perfdata/c2c_process.h"

/* perf looks at every process before it is ready, and at every file they map before it ends. */
#define PATIENCE_MS 30000
#define STEP_MS     20
/* As a shell's. */
#define CANNOT_RUN 127

void c2c_arguments(const struct c2c_request *request, struct c2c_process *process, const char *out[C2C_ARGUMENTS])
{
	int n = 0;

	out[n++] = request->perf;
	out[n++] = "c2c";
	out[n++] = "record";
	if (request->ldlat) {
		out[n++] = "-l";
		out[n++] = request->ldlat;
	}
	/* Before "--" -k would be c2c's own --all-kernel, not record's clock. */
	out[n++] = "--";
	out[n++] = "-k";
	out[n++] = "CLOCK_MONOTONIC";
	out[n++] = request->cpus ? "-C" : "-a";
	if (request->cpus)
		out[n++] = request->cpus;
	/* No copies of binaries in the user's home. */
	out[n++] = "-N";
	out[n++] = "-D";
	out[n++] = "-1";
	out[n++] = process->control_option;
	out[n++] = "-o";
	out[n++] = request->file;
	out[n] = NULL;
}

static void describe(struct c2c_process *process, const char *const *arguments)
{
	size_t used = 0;

	process->command[0] = 0;
	for (; *arguments && used < sizeof(process->command); arguments++)
		used += snprintf(process->command + used, sizeof(process->command) - used, "%s%s", used ? " " : "",
				 *arguments);
}

static void become_perf(const char *const *arguments, int output, const int *inherited, pid_t parent)
{
	int null = open("/dev/null", O_RDONLY);
	sigset_t none;

	/* Its own group: Ctrl-C is the collector's, which then ends it in good order. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		_exit(1);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	dup2(null, STDIN_FILENO);
	dup2(output, STDOUT_FILENO);
	dup2(output, STDERR_FILENO);
	for (int i = 0; i < 2; i++)
		fcntl(inherited[i], F_SETFD, 0);
	/* perf's words are searched for. */
	setenv("LC_ALL", "C", 1);
	execvp(arguments[0], (char *const *)arguments);
	dprintf(STDERR_FILENO, "cannot run %s: %s\n", arguments[0], strerror(errno));
	_exit(CANNOT_RUN);
}

/* The first line that perf printed and that says something, or "". */
static void first_words(int output, char *out, size_t size)
{
	char text[4096], *rest = text;
	ssize_t length = pread(output, text, sizeof(text) - 1, 0);

	*out = 0;
	text[length > 0 ? length : 0] = 0;
	for (char *line; (line = strsep(&rest, "\n"));) {
		line += strspn(line, " \t");
		if (!*line || !strcmp(line, "Error:") || !strncasecmp(line, "warning", 7))
			continue;
		if (!strncmp(line, "Error: ", 7))
			line += 7;
		snprintf(out, size, "%s", line);
		break;
	}
	for (; *out; out++)
		if (*out < ' ' || *out > '~')
			*out = '?';
}

/* What would help, where perf's own words do not say it. */
static const char *advice(const char *words, int status)
{
	if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_RUN)
		return "; install it (linux-perf, perf, linux-tools), or name one with --perf";
	if (strstr(words, "unknown option") || strstr(words, "not a perf-command"))
		return "; lockline needs perf 5.9 or newer";
	return "";
}

/* How perf ended, in words; status of waitpid(). */
static void explain(struct c2c_process *process, int status, const char *when)
{
	char words[200], how[80];

	first_words(process->output, words, sizeof(words));
	if (WIFSIGNALED(status))
		snprintf(how, sizeof(how), "signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
	else
		snprintf(how, sizeof(how), "status %d", WEXITSTATUS(status));
	snprintf(process->why, sizeof(process->why), "perf ended %s with %s%s%s%s", when, how,
		 *words ? "; it said: " : "", words, advice(words, status));
}

/* Whether it has ended; then there is no child any more. */
static bool has_ended(struct c2c_process *process, int *status)
{
	pid_t ended = waitpid(process->pid, status, WNOHANG);

	if (!ended || (ended < 0 && errno == EINTR))
		return false;
	if (ended < 0)
		*status = 0;
	process->pid = 0;
	return true;
}

static void kill_and_reap(struct c2c_process *process)
{
	if (process->pid <= 0)
		return;
	kill(process->pid, SIGKILL);
	while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR)
		;
	process->pid = 0;
}

static bool readable(int fd, int timeout_ms)
{
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	return poll(&poll_fd, 1, timeout_ms) > 0;
}

/*
 * One command, and perf's answer to it.  perf reads commands only once its
 * events are open, so that the first answer tells that it is ready.
 */
static int ask(struct c2c_process *process, const char *command)
{
	const __u64 deadline = now_ns() + PATIENCE_MS * 1000000ull;
	char answer[16];
	int status;

	/* SIGPIPE is ignored: the code below reports a perf that is gone. */
	if (write(process->control, command, strlen(command)) < 0 && errno != EPIPE) {
		snprintf(process->why, sizeof(process->why), "cannot tell perf to %.20s: %s", command, strerror(errno));
		return -EIO;
	}
	while (now_ns() < deadline) {
		if (readable(process->answers, STEP_MS) && read(process->answers, answer, sizeof(answer)) > 0)
			return 0;
		if (has_ended(process, &status)) {
			explain(process, status, "at once");
			return -ECHILD;
		}
	}
	snprintf(process->why, sizeof(process->why), "perf does not answer within %d s", PATIENCE_MS / 1000);
	return -ETIMEDOUT;
}

static void close_pipes(struct c2c_process *process)
{
	if (process->control >= 0)
		close(process->control);
	if (process->answers >= 0)
		close(process->answers);
	process->control = process->answers = -1;
}

int c2c_process_start(struct c2c_process *process, const struct c2c_request *request)
{
	int control[2] = {-1, -1}, answers[2] = {-1, -1}, inherited[2], err;
	const char *arguments[C2C_ARGUMENTS];
	const pid_t self = getpid();

	*process = (struct c2c_process){.control = -1, .answers = -1};
	process->output = memfd_create("perf c2c record", MFD_CLOEXEC);
	if (process->output < 0 || pipe2(control, O_CLOEXEC) || pipe2(answers, O_CLOEXEC)) {
		err = -errno;
		snprintf(process->why, sizeof(process->why), "cannot make pipes for perf: %s", strerror(-err));
		goto out;
	}
	inherited[0] = control[0];
	inherited[1] = answers[1];
	snprintf(process->control_option, sizeof(process->control_option), "--control=fd:%d,%d", inherited[0],
		 inherited[1]);
	c2c_arguments(request, process, arguments);
	describe(process, arguments);
	process->pid = fork();
	if (!process->pid)
		become_perf(arguments, process->output, inherited, self);
	err = process->pid < 0 ? -errno : 0;
	if (err) {
		process->pid = 0;
		snprintf(process->why, sizeof(process->why), "cannot start a process: %s", strerror(-err));
		goto out;
	}
	process->control = control[1];
	process->answers = answers[0];
	control[1] = answers[0] = -1;
	/* Its events are off already: a command that changes nothing, to hear that it is ready. */
	err = ask(process, "disable\n");
out:
	for (int i = 0; i < 2; i++) {
		if (control[i] >= 0)
			close(control[i]);
		if (answers[i] >= 0)
			close(answers[i]);
	}
	if (err)
		c2c_process_close(process);
	return err;
}

int c2c_process_enable(struct c2c_process *process)
{
	int err = ask(process, "enable\n");

	if (err)
		kill_and_reap(process);
	return err;
}

void c2c_process_end(struct c2c_process *process)
{
	int status;

	if (process->pid <= 0 || process->why[0])
		return;
	if (has_ended(process, &status)) {
		explain(process, status, "before the recording did");
		return;
	}
	/* The answer is not waited for: SIGINT ends it all the same. */
	if (write(process->control, "disable\n", 8) < 0 || kill(process->pid, SIGINT))
		snprintf(process->why, sizeof(process->why), "perf cannot be told to end: %s", strerror(errno));
}

int c2c_process_wait(struct c2c_process *process)
{
	const __u64 deadline = now_ns() + PATIENCE_MS * 1000000ull;
	int status;

	while (process->pid > 0) {
		if (has_ended(process, &status)) {
			/* perf ends by the signal that it was sent, after its file is whole. */
			if (!(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) &&
			    !(WIFEXITED(status) && !WEXITSTATUS(status)))
				explain(process, status, "at the end");
			break;
		}
		if (now_ns() >= deadline) {
			kill_and_reap(process);
			snprintf(process->why, sizeof(process->why), "perf did not end within %d s of SIGINT",
				 PATIENCE_MS / 1000);
			break;
		}
		usleep(STEP_MS * 1000);
	}
	return process->why[0] ? -EIO : 0;
}

void c2c_process_close(struct c2c_process *process)
{
	kill_and_reap(process);
	close_pipes(process);
	if (process->output >= 0)
		close(process->output);
	process->output = -1;
}
