// SPDX-License-Identifier: GPL-2.0-or-later
/* uffd_rwsem DIRECTORY [COUNT MICROSECONDS]: known waits for a file's inode rwsem (write side). */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "userfault.h"

#define PAGE 4096

static void hold_inode(struct held_lock *lock, const void *page)
{
	if (pwrite(lock->fds[0], page, PAGE, 0) != PAGE)
		die("pwrite from the missing page failed: %s", strerror(errno));
}

static void wait_inode(struct held_lock *lock)
{
	if (pwrite(lock->fds[0], "w", 1, PAGE) != 1)
		die("pwrite of the waiter failed: %s", strerror(errno));
}

int main(int argc, char **argv)
{
	struct held_lock lock = {
		.hold = hold_inode,
		.wait = wait_inode,
		.wait_system_call = SYS_pwrite64,
		.waiter_cpu = -1,
	};

	if (argc < 2)
		die("uffd_rwsem DIRECTORY [COUNT MICROSECONDS]");
	lock.fds[0] = open(argv[1], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (lock.fds[0] < 0)
		die("cannot make a file in %s: %s", argv[1], strerror(errno));
	run_held_lock(&lock, argc - 1, argv + 1);
	return 0;
}
