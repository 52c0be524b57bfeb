// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * cause_load MODE THREADS: makes threads wait for one kernel lock, by a cause that is the same on every kernel, until it
 * is killed.
 *
 * inotify: threads add and remove watches of one inotify descriptor.
 * append: threads write to one file.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "workload.h"

#define BLOCK      65536
#define FILE_BYTES (8 << 20)

static int shared = -1;

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

static const struct load {
	const char *name;
	void (*open)(long threads);
	void (*round)(long thread);
} loads[] = {
	{"inotify", open_inotify, watch_and_forget},
	{"append", open_append, append},
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
		die("usage: cause_load inotify|append THREADS");
	load->open(threads);
	for (long i = 1; i < threads; i++)
		if (pthread_create(&thread, NULL, run, (void *)i))
			die("cannot make a thread");
	run(NULL);
}
