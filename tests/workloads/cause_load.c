// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * cause_load MODE THREADS: makes threads wait for one kernel lock, by a cause that is the same on every kernel, until it
 * is killed.
 *
 * maps-reader: a process with many mappings adds and removes one of them; a program of another name reads its smaps.
 * inotify: threads add and remove watches of one inotify descriptor.
 * epoll: threads collect the ready files of one epoll descriptor, all of which are ready all the time.
 * append: threads write to one file.
 * migrate: a program of another name moves a process from one control group to another; threads fork beside it.
 * namespaces: threads make network namespaces.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workload.h"

#define MAPPINGS   4000
#define READY      900
#define BLOCK      65536
#define FILE_BYTES (8 << 20)
#define MOVED      64 /* threads of the process that is moved */

static int shared = -1;

/* A process that ends with this one. */
static pid_t start_process(const char *name)
{
	pid_t child = fork();

	if (child < 0)
		die("fork: %s", strerror(errno));
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, name);
	}
	return child;
}

static void read_smaps(pid_t process)
{
	static char text[1 << 16];
	char path[64];
	int file;

	snprintf(path, sizeof(path), "/proc/%d/smaps", process);
	for (;;) {
		file = open(path, O_RDONLY);
		if (file < 0)
			die("%s: %s", path, strerror(errno));
		while (read(file, text, sizeof(text)) > 0)
			;
		close(file);
	}
}

static void open_maps_reader(long threads)
{
	pid_t process = getpid();

	/* Of two kinds in turn: neighbours of one kind become one mapping. */
	for (long i = 0; i < MAPPINGS; i++)
		if (mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) == MAP_FAILED)
			die("mmap: %s", strerror(errno));
	if (!start_process("maps_reader"))
		read_smaps(process);
}

static void map_and_unmap(long thread)
{
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED || munmap(memory, 4096))
		die("mmap: %s", strerror(errno));
}

static void open_inotify(long threads)
{
	shared = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (shared < 0)
		die("inotify: %s", strerror(errno));
}

static void watch_and_forget(long thread)
{
	char name[32];
	int file, watch;

	snprintf(name, sizeof(name), "watched.%ld", thread);
	file = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (file < 0)
		die("%s: %s", name, strerror(errno));
	close(file);
	for (int i = 0; i < 100; i++) {
		watch = inotify_add_watch(shared, name, IN_CLOSE_WRITE);
		if (watch < 0 || inotify_rm_watch(shared, watch))
			die("inotify: %s", strerror(errno));
	}
}

static void open_epoll(long threads)
{
	shared = epoll_create1(EPOLL_CLOEXEC);
	for (long i = 0; i < READY; i++) {
		struct epoll_event event = {.events = EPOLLIN};

		if (epoll_ctl(shared, EPOLL_CTL_ADD, eventfd(1, EFD_CLOEXEC), &event))
			die("epoll: %s", strerror(errno));
	}
}

static void collect(long thread)
{
	static __thread struct epoll_event events[READY];

	if (epoll_wait(shared, events, READY, 0) < 0)
		die("epoll: %s", strerror(errno));
}

static void open_append(long threads)
{
	shared = open("appended", O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
	if (shared < 0)
		die("appended: %s", strerror(errno));
}

static void append(long thread)
{
	static const char block[BLOCK];

	/* In place of an end that moves, the memory of which would run out. */
	for (off_t at = 0; at < FILE_BYTES; at += BLOCK)
		if (pwrite(shared, block, BLOCK, at) != BLOCK)
			die("write: %s", strerror(errno));
}

static void write_number(const char *path, int number)
{
	FILE *file = fopen(path, "we");

	if (!file || fprintf(file, "%d", number) < 0 || fclose(file))
		die("%s: %s", path, strerror(errno));
}

static void *stand_by(void *argument)
{
	for (;;)
		pause();
	return NULL;
}

static void open_migrate(long threads)
{
	static const char *const groups[] = {"cgroups/one/cgroup.procs", "cgroups/two/cgroup.procs"};
	pthread_t thread;
	pid_t moved;

	mkdir("cgroups", 0700);
	if (mount("cgroup2", "cgroups", "cgroup2", 0, NULL) || mkdir("cgroups/one", 0700) || mkdir("cgroups/two", 0700))
		die("cgroups: %s", strerror(errno));
	moved = start_process("moved");
	if (!moved) {
		for (int i = 1; i < MOVED; i++)
			if (pthread_create(&thread, NULL, stand_by, NULL))
				die("cannot make a thread");
		stand_by(NULL);
	}
	if (!start_process("cgroup_mover"))
		for (unsigned int i = 0;; i++)
			write_number(groups[i % 2], moved);
}

static void fork_and_wait(long thread)
{
	pid_t child = fork();

	if (child < 0)
		die("fork: %s", strerror(errno));
	if (!child)
		_exit(0);
	if (waitpid(child, NULL, 0) != child)
		die("waitpid: %s", strerror(errno));
}

static void make_namespace(long thread)
{
	pid_t child = fork();

	if (child < 0)
		die("fork: %s", strerror(errno));
	if (!child)
		_exit(unshare(CLONE_NEWNET) ? 1 : 0);
	if (waitpid(child, NULL, 0) != child)
		die("waitpid: %s", strerror(errno));
}

static const struct load {
	const char *name;
	void (*open)(long threads);
	void (*round)(long thread);
} loads[] = {
	{"maps-reader", open_maps_reader, map_and_unmap},
	{"inotify", open_inotify, watch_and_forget},
	{"epoll", open_epoll, collect},
	{"append", open_append, append},
	{"migrate", open_migrate, fork_and_wait},
	{"namespaces", NULL, make_namespace},
};

static const struct load *load;

static void *run(void *argument)
{
	for (;;)
		load->round((long)argument);
	return NULL;
}

int main(int argc, char **argv)
{
	long threads = argc == 3 ? atol(argv[2]) : 0;
	pthread_t thread;

	for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++)
		if (threads > 0 && !strcmp(argv[1], loads[i].name))
			load = &loads[i];
	if (!load)
		die("usage: cause_load maps-reader|inotify|epoll|append|migrate|namespaces THREADS");
	if (load->open)
		load->open(threads);
	for (long i = 1; i < threads; i++)
		if (pthread_create(&thread, NULL, run, (void *)i))
			die("cannot make a thread");
	run(NULL);
}
