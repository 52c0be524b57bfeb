// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The program stands in for perf itself: called as `... c2c record ...` it
 * speaks perf's control protocol, and writes what it receives into the file of
 * -o, whose name says how it is to behave.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "perfdata/c2c_process.h"
#include "tap.h"

static char self[PATH_MAX], directory[] = "/tmp/lockline-c2c-XXXXXX", path[PATH_MAX];
static int log_fd = -1;

static void note(const char *text)
{
	if (write(log_fd, text, strlen(text)) < 0)
		_exit(99);
}

static void on_signal(int number)
{
	note(number == SIGINT ? "interrupted\n" : "terminated\n");
	/* As perf does, once its file is whole. */
	signal(number, SIG_DFL);
	raise(number);
}

static int stand_in(int argc, char **argv)
{
	int control = -1, answers = -1, commands = 0;
	const char *file = NULL;
	char text[64];
	ssize_t length;

	for (int i = 1; i < argc; i++) {
		if (!strncmp(argv[i], "--control=fd:", 13))
			sscanf(argv[i], "--control=fd:%d,%d", &control, &answers);
		else if (!strcmp(argv[i], "-o") && i + 1 < argc)
			file = argv[i + 1];
	}
	if (!file || control < 0)
		return 98;
	if (strstr(file, "refuse")) {
		fprintf(stderr, "Warning:\n\nError:\n\tno memory \033[1m events\nmore of it\n");
		return 255;
	}
	if (strstr(file, "old")) {
		fprintf(stderr, "Error: unknown option `control=fd:3,4'\n");
		return 129;
	}
	log_fd = open(file, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
	signal(SIGINT, on_signal);
	signal(SIGTERM, on_signal);
	while ((length = read(control, text, sizeof(text) - 1)) > 0) {
		text[length] = 0;
		note(text);
		if (write(answers, "ack\n", 5) < 0)
			return 97;
		if (++commands == 2 && strstr(file, "early"))
			return 3;
	}
	for (;;)
		pause();
}

static struct c2c_request request_of(const char *name)
{
	struct c2c_request request = {.perf = self, .file = path};

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	unlink(path);
	return request;
}

static const char *logged(void)
{
	static char text[256];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	text[length > 0 ? length : 0] = 0;
	if (fd >= 0)
		close(fd);
	return text;
}

static bool no_child(void)
{
	return waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD;
}

static void join(const char *const *words, char *out, size_t size)
{
	size_t used = 0;

	for (*out = 0; *words; words++)
		used += snprintf(out + used, size - used, "%s%s", used ? " " : "", *words);
}

static void arguments(void)
{
	struct c2c_request request = {.perf = "perf", .file = "x.perf.data"};
	struct c2c_process process = {.control_option = "--control=fd:5,6"};
	const char *words[C2C_ARGUMENTS];
	char line[256];

	c2c_arguments(&request, &process, words);
	join(words, line, sizeof(line));
	/* Before "--" -k would mean --all-kernel. */
	CHECK_TEXT(line, "perf c2c record -- -k CLOCK_MONOTONIC -a -N -D -1 --control=fd:5,6 -o x.perf.data");
	request.cpus = "0,3";
	request.ldlat = "50";
	c2c_arguments(&request, &process, words);
	join(words, line, sizeof(line));
	CHECK_TEXT(line, "perf c2c record -l 50 -- -k CLOCK_MONOTONIC -C 0,3 -N -D -1 --control=fd:5,6 -o x.perf.data");
}

static void starts_and_ends(void)
{
	struct c2c_request request = request_of("good");
	struct c2c_process process;
	int err = c2c_process_start(&process, &request);

	CHECK(!err, "%s", process.why);
	CHECK_TEXT(logged(), "disable\n");
	CHECK(!c2c_process_enable(&process), "%s", process.why);
	CHECK_TEXT(logged(), "disable\nenable\n");
	c2c_process_end(&process);
	CHECK(!c2c_process_wait(&process), "%s", process.why);
	CHECK(strstr(logged(), "enable\n") && strstr(logged(), "interrupted\n"), "%s", logged());
	CHECK(strstr(process.command, "c2c record -- -k CLOCK_MONOTONIC"), "%s", process.command);
	c2c_process_close(&process);
	CHECK(no_child(), "a child is left");
}

static void refusals(void)
{
	struct c2c_request request = request_of("refuse");
	struct c2c_process process;

	CHECK(c2c_process_start(&process, &request) < 0, "started");
	CHECK_TEXT(process.why, "perf ended at once with status 255; it said: no memory ?[1m events");
	CHECK(!process.pid && no_child(), "a child is left");
	request = request_of("old");
	CHECK(c2c_process_start(&process, &request) < 0, "started");
	CHECK(strstr(process.why, "needs perf 5.9 or newer"), "%s", process.why);
	request = request_of("good");
	request.perf = "/no/such/perf";
	CHECK(c2c_process_start(&process, &request) < 0, "started");
	CHECK(strstr(process.why, "cannot run /no/such/perf: No such file or directory; install it"), "%s",
	      process.why);
	CHECK(!process.pid && no_child(), "a child is left");
}

static void ends_by_itself(void)
{
	struct c2c_request request = request_of("early");
	struct c2c_process process;

	CHECK(!c2c_process_start(&process, &request), "%s", process.why);
	CHECK(!c2c_process_enable(&process), "%s", process.why);
	/* It is a zombie, which this does not reap. */
	waitid(P_PID, process.pid, &(siginfo_t){}, WEXITED | WNOWAIT);
	c2c_process_end(&process);
	CHECK(c2c_process_wait(&process) < 0, "not noticed");
	CHECK_TEXT(process.why, "perf ended before the recording did with status 3");
	c2c_process_close(&process);
	CHECK(no_child(), "a child is left");
}

static void closed_at_once(void)
{
	struct c2c_request request = request_of("good");
	struct c2c_process process;

	CHECK(!c2c_process_start(&process, &request), "%s", process.why);
	c2c_process_close(&process);
	CHECK(no_child(), "a child is left");
	c2c_process_end(&process);
	c2c_process_close(&process);
}

/* Killed without a chance to clean up, the collector leaves no perf behind. */
static void dies_with_the_collector(void)
{
	struct c2c_request request = request_of("good");
	struct c2c_process process;
	int status = 0;
	pid_t collector;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	collector = fork();
	if (!collector) {
		if (c2c_process_start(&process, &request) || c2c_process_enable(&process))
			_exit(1);
		raise(SIGKILL);
	}
	waitpid(collector, &status, 0);
	CHECK(WIFSIGNALED(status), "status %x", status);
	/* Its orphan is ours now; without the signal this would not end. */
	CHECK(waitpid(-1, &status, 0) > 0, "no orphan");
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM, "status %x", status);
	CHECK_TEXT(logged(), "disable\nenable\nterminated\n");
	prctl(PR_SET_CHILD_SUBREAPER, 0);
}

static const struct test tests[] = {
	TEST(arguments),      TEST(starts_and_ends), TEST(refusals),
	TEST(ends_by_itself), TEST(closed_at_once),  TEST(dies_with_the_collector),
};

int main(int argc, char **argv)
{
	int failed;

	if (argc > 2 && !strcmp(argv[1], "c2c"))
		return stand_in(argc, argv);
	signal(SIGPIPE, SIG_IGN);
	alarm(240);
	if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0 || !mkdtemp(directory))
		return 1;
	failed = RUN_TESTS(tests);
	for (const char *const *name = (const char *const[]){"good", "early", NULL}; *name; name++) {
		request_of(*name);
		unlink(path);
	}
	rmdir(directory);
	return failed;
}
