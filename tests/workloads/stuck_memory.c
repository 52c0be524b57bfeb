// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * stuck_memory UID DIRECTORY: as root at first; a process of that user whose threads wait for a futex in a file of a
 * file system that it serves itself (FUSE), and that does not answer reads any more.  Whoever reads the futex's word
 * waits for a page that never comes.
 *
 * "stick": begins all that.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <linux/fuse.h>
#include <linux/futex.h>

#include "workload.h"

#define PAGE    4096
#define FILE_ID 2
#define WAITERS 3
#define FOREVER 1000000

static unsigned int *word;

static void answer(int fuse, __u64 unique, int error, const void *data, size_t size)
{
	struct fuse_out_header header = {.len = sizeof(header) + size, .error = -error, .unique = unique};
	struct iovec parts[] = {{&header, sizeof(header)}, {(void *)data, size}};

	if (writev(fuse, parts, size ? 2 : 1) < 0 && errno != ENOENT)
		die("FUSE: %s", strerror(errno));
}

static struct fuse_attr attributes(__u64 node)
{
	return (struct fuse_attr){
		.ino = node,
		.size = node == FILE_ID ? PAGE : 0,
		.mode = node == FILE_ID ? S_IFREG | 0444 : S_IFDIR | 0755,
		.nlink = 1,
	};
}

/* Waits for a request; false: who holds the other end of `alive` has ended. */
static bool is_asked(int fuse, int alive)
{
	struct pollfd fds[] = {{.fd = fuse, .events = POLLIN}, {.fd = alive}};

	return poll(fds, 2, -1) > 0 && !fds[1].revents;
}

/* Answers all but the reads after the first one. */
static void serve(int fuse, int alive)
{
	static char request[PAGE + 65536];
	bool read_once = false;

	while (is_asked(fuse, alive) && read(fuse, request, sizeof(request)) > 0) {
		const struct fuse_in_header *in = (void *)request;
		const struct fuse_init_in *init = (void *)(in + 1);
		struct fuse_init_out begun = {
			.major = FUSE_KERNEL_VERSION, .minor = init->minor, .max_write = PAGE, .max_background = 1};
		struct fuse_entry_out entry = {
			.nodeid = FILE_ID, .entry_valid = FOREVER, .attr_valid = FOREVER, .attr = attributes(FILE_ID)};
		struct fuse_attr_out attribute = {.attr_valid = FOREVER, .attr = attributes(in->nodeid)};
		struct fuse_open_out opened = {.fh = 1};
		static const char page[PAGE];

		switch (in->opcode) {
		case FUSE_INIT:
			answer(fuse, in->unique, 0, &begun, sizeof(begun));
			break;
		case FUSE_LOOKUP:
			answer(fuse, in->unique, 0, &entry, sizeof(entry));
			break;
		case FUSE_GETATTR:
			answer(fuse, in->unique, 0, &attribute, sizeof(attribute));
			break;
		case FUSE_OPEN:
			answer(fuse, in->unique, 0, &opened, sizeof(opened));
			break;
		case FUSE_READ:
			if (!read_once)
				answer(fuse, in->unique, 0, page, sizeof(page));
			read_once = true;
			break;
		case FUSE_FORGET:
		case FUSE_BATCH_FORGET:
		case FUSE_INTERRUPT:
			break;
		case FUSE_FLUSH:
		case FUSE_RELEASE:
			answer(fuse, in->unique, 0, NULL, 0);
			break;
		default:
			answer(fuse, in->unique, ENOSYS, NULL, 0);
		}
	}
}

static void *wait_forever(void *unused)
{
	prctl(PR_SET_NAME, "stuck-waiter");
	syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL);
	return unused;
}

static int mount_ourselves(const char *directory, const char *uid)
{
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[128];

	if (fuse < 0)
		die("/dev/fuse: %s", strerror(errno));
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%s,group_id=%s", fuse, uid, uid);
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("stuck", directory, "fuse.stuck", MS_NOSUID | MS_NODEV, options))
		die("mount: %s", strerror(errno));
	return fuse;
}

int main(int argc, char **argv)
{
	struct command command;
	char path[512];
	int fuse, fd, alive[2];

	if (argc != 3)
		die("usage: stuck_memory UID DIRECTORY");
	fuse = mount_ourselves(argv[2], argv[1]);
	/* No signal tells the server that we have ended: another user may not send it one. */
	if (pipe2(alive, O_CLOEXEC))
		die("pipe: %s", strerror(errno));
	if (!fork()) {
		close(alive[1]);
		serve(fuse, alive[0]);
		_exit(0);
	}
	close(fuse);
	close(alive[0]);
	if (setgroups(0, NULL) || setgid(strtoul(argv[1], NULL, 10)) || setuid(strtoul(argv[1], NULL, 10)) ||
	    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))
		die("cannot become user %s: %s", argv[1], strerror(errno));
	snprintf(path, sizeof(path), "%s/word", argv[2]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	word = fd < 0 ? MAP_FAILED : mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	if (word == MAP_FAILED)
		die("%s: %s", path, strerror(errno));
	commands_open();
	printf("{\"event\": \"ready\"}\n");
	fflush(stdout);
	while (next_command(&command)) {
		if (strcmp(command.word, "stick"))
			continue;
		for (int i = 0; i < WAITERS; i++) {
			pthread_t thread;

			if (pthread_create(&thread, NULL, wait_forever, NULL))
				die("a thread: %s", strerror(errno));
		}
		/* They sleep; then nobody has the page any more. */
		sleep(1);
		if (madvise(word, PAGE, MADV_DONTNEED) || posix_fadvise(fd, 0, PAGE, POSIX_FADV_DONTNEED))
			die("the page: %s", strerror(errno));
		printf("{\"event\": \"stuck\"}\n");
		fflush(stdout);
	}
	_exit(0);
}
