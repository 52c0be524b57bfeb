// SPDX-License-Identifier: GPL-2.0-or-later
/* uffd_mutex [-c CPU] [COUNT MICROSECONDS]: known waits for the mutex of a pipe. */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "userfault.h"

#define PAGE 4096

static void hold_pipe(struct held_lock *lock, const void *page)
{
	if (write(lock->fds[1], page, PAGE) != PAGE)
		die("write from the missing page failed");
}

/* A frame below the C library's write(), which has no frame pointer of its own. */
static __attribute__((noinline)) void lockline_inner_caller(int fd)
{
	if (write(fd, "w", 1) != 1)
		die("write of the waiter failed");
	__asm__ volatile("" ::: "memory");
}

/* The tests look for this name in the waiter's user stack. */
__attribute__((noinline)) void lockline_known_caller(int fd)
{
	lockline_inner_caller(fd);
	__asm__ volatile("" ::: "memory");
}

static void wait_pipe(struct held_lock *lock)
{
	lockline_known_caller(lock->fds[1]);
}

static void drain_pipe(struct held_lock *lock)
{
	char buffer[PAGE + 1];
	ssize_t got, left = sizeof(buffer);

	for (; left > 0; left -= got) {
		got = read(lock->fds[0], buffer, left);
		if (got <= 0)
			die("read of the pipe failed");
	}
}

int main(int argc, char **argv)
{
	struct held_lock lock = {
		.hold = hold_pipe,
		.wait = wait_pipe,
		.wait_system_call = SYS_write,
		.after_round = drain_pipe,
		.waiter_cpu = -1,
	};

	if (argc > 2 && !strcmp(argv[1], "-c")) {
		lock.waiter_cpu = atoi(argv[2]);
		argc -= 2;
		argv += 2;
	}
	if (pipe(lock.fds))
		die("pipe failed");
	run_held_lock(&lock, argc, argv);
	return 0;
}
