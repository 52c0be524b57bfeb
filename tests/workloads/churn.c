// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * churn DIRECTORY CGROUP: short lives without end.  Each process is an
 * executable of its own name and file, in a cgroup of its own (below CGROUP, a
 * directory of cgroup2; every fourth process makes one), and has two threads
 * that wait for each other: in user space for a mutex, in the kernel for their
 * own memory map.  All locks, tasks, executables and cgroups are new ones.
 *
 * "count": how many processes have ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workload.h"

#define RUNNERS 8
#define ROUNDS  12
#define SECTION 20000 /* ns */
#define PAGES   16
#define PAGE    4096

static atomic_ulong *ended;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void *live(void *unused)
{
	for (int i = 0; i < ROUNDS; i++) {
		char *memory;

		pthread_mutex_lock(&mutex);
		wait_until_ns(now_ns() + SECTION);
		pthread_mutex_unlock(&mutex);
		memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory == MAP_FAILED)
			continue;
		for (int page = 0; page < PAGES; page++)
			memory[page * PAGE] = 1;
		munmap(memory, PAGES * PAGE);
	}
	return unused;
}

static int live_once(void)
{
	pthread_t other;

	if (pthread_create(&other, NULL, live, NULL))
		return 1;
	live(NULL);
	pthread_join(other, NULL);
	return 0;
}

static void write_pid(const char *cgroup)
{
	char path[320], pid[16];
	int fd;

	snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
	snprintf(pid, sizeof(pid), "%d", getpid());
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, pid, strlen(pid)) < 0)
		die("%s: %s", path, strerror(errno));
	close(fd);
}

static void copy_self(const char *to)
{
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), copy = open(to, O_WRONLY | O_CREAT | O_EXCL, 0700);
	struct stat status;

	if (from < 0 || copy < 0 || fstat(from, &status) ||
	    sendfile(copy, from, NULL, status.st_size) != status.st_size)
		die("%s: %s", to, strerror(errno));
	close(from);
	close(copy);
}

static void run_one(const char *directory, const char *cgroups, int runner, unsigned long number)
{
	char path[256], cgroup[288];
	pid_t child;

	snprintf(path, sizeof(path), "%s/churn-%d-%lu", directory, runner, number);
	snprintf(cgroup, sizeof(cgroup), "%s/churn-%d-%lu", cgroups, runner, number / 4);
	if (number % 4 == 0 && mkdir(cgroup, 0700))
		die("%s: %s", cgroup, strerror(errno));
	copy_self(path);
	child = fork();
	if (!child) {
		write_pid(cgroup);
		execl(path, path, "live", NULL);
		_exit(127);
	}
	if (child < 0 || waitpid(child, NULL, 0) != child)
		die("a process: %s", strerror(errno));
	unlink(path);
	if (number % 4 == 3)
		rmdir(cgroup);
	atomic_fetch_add(ended, 1);
}

int main(int argc, char **argv)
{
	struct command command;
	pid_t runners[RUNNERS];

	if (argc == 2 && !strcmp(argv[1], "live"))
		return live_once();
	if (argc != 3)
		die("usage: churn DIRECTORY CGROUP");
	ended = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ended == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	commands_open();
	for (int i = 0; i < RUNNERS; i++) {
		runners[i] = fork();
		if (runners[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (unsigned long number = 0;; number++)
			run_one(argv[1], argv[2], i, number);
	}
	printf("{\"event\": \"ready\"}\n");
	fflush(stdout);
	while (next_command(&command)) {
		printf("{\"event\": \"count\", \"processes\": %lu}\n", atomic_load(ended));
		fflush(stdout);
	}
	for (int i = 0; i < RUNNERS; i++)
		kill(runners[i], SIGKILL);
	return 0;
}
