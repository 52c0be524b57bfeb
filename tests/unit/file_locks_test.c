// SPDX-License-Identifier: GPL-2.0-or-later
/* Lines of /proc/locks, and a lock on a file that a child waits for. */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "sleeps/file_locks.h"
#include "tap.h"

#define MOST 32
/* On a starved machine a child may need long until it waits. */
#define DEADLINE_NS 60000000000ull

static void lines_of_proc_locks(void)
{
	struct file_lock_line line;

	CHECK(file_lock_parse("1: POSIX  ADVISORY  WRITE 15695 fe:00:10002872 0 0\n", &line), "who has it");
	CHECK(line.lock == 1 && !line.waits && line.pid == 15695 && line.inode == 10002872, "%u %d", line.lock,
	      line.pid);
	CHECK_TEXT(line.file, "fe:00:10002872");
	CHECK(file_lock_parse("12:  -> POSIX  ADVISORY  WRITE 15698 fe:00:10002872 0 0\n", &line), "who waits");
	CHECK(line.lock == 12 && line.waits && line.pid == 15698, "%u %d", line.lock, line.pid);
	CHECK(file_lock_parse("3: OFDLCK ADVISORY  READ -1 fe:00:55 0 EOF\n", &line) && line.pid == -1, "%d", line.pid);
	CHECK(!file_lock_parse("", &line) && !file_lock_parse("4: LEASE  ACTIVE", &line), "cut short");
	CHECK(!file_lock_parse("4: FLOCK  ADVISORY  WRITE 7 <none>:0 0 EOF", &line), "no file");
}

static void functions(void)
{
	CHECK(file_lock_may_wait("locks_lock_inode_wait.part.0") && file_lock_may_wait("fcntl_setlk64"), "locks");
	CHECK(!file_lock_may_wait("futex_do_wait") && !file_lock_may_wait("do_epoll_wait"), "others");
}

static pid_t fork_locker(const char *path)
{
	pid_t child = fork();

	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		flock(open(path, O_RDWR | O_CLOEXEC), LOCK_EX);
		pause();
		_exit(0);
	}
	return child;
}

/* Of those that wait for this file; NULL: none. */
static const struct file_lock_wait *find(const struct file_lock_wait *waits, int count, const char *path)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(waits[i].file, path))
			return &waits[i];
	return NULL;
}

static void who_has_it_and_who_waits(void)
{
	char path[] = "/tmp/file-locks-XXXXXX";
	const __u64 deadline_ns = now_ns() + DEADLINE_NS;
	const struct file_lock_wait *found = NULL;
	struct file_lock_wait waits[MOST];
	pid_t first, second;
	int fd = mkstemp(path);

	CHECK(fd >= 0, "%s", path);
	first = fork_locker(path);
	second = fork_locker(path);
	while (!found && now_ns() < deadline_ns)
		found = find(waits, file_locks_read(waits, MOST), path);
	/* Either of them may have come first. */
	CHECK(found && found->waiter + found->holder == (__u32)(first + second), "%u %u", found ? found->waiter : 0,
	      found ? found->holder : 0);
	kill(first, SIGKILL);
	kill(second, SIGKILL);
	waitpid(first, NULL, 0);
	waitpid(second, NULL, 0);
	CHECK(!find(waits, file_locks_read(waits, MOST), path), "nobody waits any more");
	close(fd);
	unlink(path);
}

int main(void)
{
	static const struct test tests[] = {TEST(lines_of_proc_locks), TEST(functions), TEST(who_has_it_and_who_waits)};

	return RUN_TESTS(tests);
}
