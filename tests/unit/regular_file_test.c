// SPDX-License-Identifier: GPL-2.0-or-later
/* Files of others: what is no regular file is not opened, and nothing waits.  A test that hangs is a failure too. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/proc.h"
#include "base/proc_mapping.h"
#include "base/regular_file.h"
#include "tap.h"

#define SOMEBODY 65534

static char directory[] = "/tmp/regular-file-XXXXXX", path[64], other[64], text[16];

static void make_file(const char *name, const char *content)
{
	int fd = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0644);

	CHECK(fd >= 0 && write(fd, content, strlen(content)) == (ssize_t)strlen(content), "%s", name);
	close(fd);
}

/* What the file says, or "" and the error. */
static int read_and_close(int fd)
{
	ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	text[length > 0 ? length : 0] = 0;
	if (fd >= 0)
		close(fd);
	return fd < 0 ? fd : 0;
}

static void regular_files_are_read(void)
{
	struct stat status = {};

	make_file(path, "own");
	CHECK(!read_and_close(regular_file_open(path, LINK_REFUSED, &status)), "opened");
	CHECK_TEXT(text, "own");
	CHECK(status.st_size == 3 && S_ISREG(status.st_mode), "%lld", (long long)status.st_size);
	CHECK(regular_file_open(other, LINK_REFUSED, NULL) == -ENOENT, "there is none");
	unlink(path);
}

static void nothing_else_is_opened(void)
{
	CHECK(!mkfifo(path, 0666), "FIFO");
	CHECK(regular_file_open(path, LINK_FOLLOWED, NULL) == -ENXIO, "a FIFO without a writer");
	unlink(path);
	CHECK(regular_file_open("/dev/zero", LINK_FOLLOWED, NULL) == -ENXIO, "a device");
	CHECK(regular_file_open(directory, LINK_FOLLOWED, NULL) == -ENXIO, "a directory");
}

static void links_are_followed_when_told(void)
{
	make_file(other, "other");
	CHECK(!symlink(other, path), "link");
	CHECK(regular_file_open(path, LINK_REFUSED, NULL) == -ELOOP, "refused");
	CHECK(!read_and_close(regular_file_open(path, LINK_FOLLOWED, NULL)), "followed");
	CHECK_TEXT(text, "other");
	unlink(path);
	CHECK(!symlink("/dev/zero", path), "link");
	CHECK(regular_file_open(path, LINK_FOLLOWED, NULL) == -ENXIO, "to a device");
	unlink(path);
	unlink(other);
}

static struct mapped_file map(struct proc_mapping *mapping)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *mapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);

	CHECK(mapped != MAP_FAILED, "mapped");
	close(fd);
	CHECK(!proc_mapping_at(getpid(), (__u64)(uintptr_t)mapped, mapping), "found");
	return (struct mapped_file){
		.tgid = getpid(),
		.start = mapping->start,
		.end = mapping->end,
		.inode = mapping->inode,
		.major = mapping->major,
		.minor = mapping->minor,
		.path = mapping->path,
	};
}

static void the_mapped_inode_is_opened(void)
{
	struct proc_mapping mapping;
	struct mapped_file mapped;
	int err;

	make_file(path, "mapped");
	mapped = map(&mapping);
	CHECK(!read_and_close(mapped_file_open(&mapped, NULL)), "opened");
	CHECK_TEXT(text, "mapped");
	/* Where the kernel lets us open the mapping itself, that is what we get. */
	make_file(other, "another");
	CHECK(!rename(other, path), "another file takes its place");
	err = read_and_close(mapped_file_open(&mapped, NULL));
	CHECK(err || !strcmp(text, "mapped"), "%s", text);
	unlink(path);
	CHECK(!mkfifo(path, 0666), "and a FIFO");
	err = read_and_close(mapped_file_open(&mapped, NULL));
	CHECK(err || !strcmp(text, "mapped"), "%s", text);
	munmap((void *)(uintptr_t)mapping.start, 4096);
	CHECK(mapped_file_open(&mapped, NULL) < 0, "no longer mapped");
	unlink(path);
}

/* As somebody who may not open mappings: exit code 0 if all is as it should be. */
static int by_path_alone(void)
{
	struct proc_mapping mapping;
	struct mapped_file mapped;
	char moved[80];

	if (!geteuid() && (setgid(SOMEBODY) || setuid(SOMEBODY) || prctl(PR_SET_DUMPABLE, 1)))
		return 1;
	mapped = map(&mapping);
	if (read_and_close(mapped_file_open(&mapped, NULL)) || strcmp(text, "mapped"))
		return 2;
	snprintf(moved, sizeof(moved), "%s.moved", path);
	if (rename(path, moved) || mapped_file_open(&mapped, NULL) != -ENOENT)
		return 3;
	make_file(path, "another");
	if (mapped_file_open(&mapped, NULL) != -ESTALE)
		return 4;
	unlink(path);
	if (mkfifo(path, 0666) || mapped_file_open(&mapped, NULL) != -ESTALE)
		return 5;
	return unlink(path) || unlink(moved) ? 6 : 0;
}

static void another_inode_at_its_path_is_refused(void)
{
	int status = 0;
	pid_t child;

	make_file(path, "mapped");
	CHECK(!chmod(directory, 0777), "for somebody");
	child = fork();
	if (!child)
		_exit(by_path_alone());
	CHECK(waitpid(child, &status, 0) == child && !status, "status %x", status);
	unlink(path);
}

static const struct test tests[] = {
	TEST(regular_files_are_read),
	TEST(nothing_else_is_opened),
	TEST(links_are_followed_when_told),
	TEST(the_mapped_inode_is_opened),
	TEST(another_inode_at_its_path_is_refused),
};

int main(void)
{
	int err;

	if (!mkdtemp(directory))
		return 1;
	snprintf(path, sizeof(path), "%s/file", directory);
	snprintf(other, sizeof(other), "%s/other", directory);
	err = RUN_TESTS(tests);
	rmdir(directory);
	return err;
}
