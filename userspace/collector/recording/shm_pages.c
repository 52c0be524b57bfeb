// SPDX-License-Identifier: GPL-2.0-or-later
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/proc.h"
#include "recording/shm_pages.h"

#define PAGE_BYTES 4096
/* The index of a journal of 1 GB has as many. */
#define MOST_PAGES 512
/* What readers write: aReadMark of WalCkptInfo, in the first page (SQLite's wal.c, "WAL-Index Format"). */
#define MARKS_BEGIN 100
#define MARKS_END   120
#define LINE_BYTES  512

static const char suffix[] = "-shm";

struct mapping {
	uintptr_t begin, end;
	unsigned long long offset, inode;
	bool shared, is_index;
};

static struct {
	char *at;
	unsigned long long offset, inode;
} aside[MOST_PAGES];
static atomic_int count;
static atomic_flag busy = ATOMIC_FLAG_INIT; /* of all above; a signal's handler cannot wait for a mutex */

static void take(void)
{
	while (atomic_flag_test_and_set(&busy))
		;
}

static bool is_index(const char *path)
{
	size_t length = strlen(path);

	return length > strlen(suffix) && !strcmp(path + length - strlen(suffix), suffix);
}

static bool holds(const struct proc_map_line *line, uintptr_t address, unsigned long long inode)
{
	if (address)
		return address >= line->start && address < line->end;
	return is_index(line->path) && line->inode == inode && !line->offset;
}

/*
 * Where this address lies; without one, where the first page of the index with this inode does.  An end of 0: not found.
 * Without malloc(), as in a signal's handler.
 */
static struct mapping find_mapping(uintptr_t address, unsigned long long inode)
{
	struct mapping found = {};
	char line[LINE_BYTES], some[LINE_BYTES];
	struct proc_map_line in;
	size_t length = 0;
	ssize_t bytes;
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	while (fd >= 0 && !found.end && (bytes = read(fd, some, sizeof(some))) > 0) {
		for (ssize_t i = 0; i < bytes && !found.end; i++) {
			if (some[i] != '\n') {
				/* Of a long path the last characters count. */
				if (length == sizeof(line) - 1) {
					length--;
					memmove(line + LINE_BYTES / 2, line + LINE_BYTES / 2 + 1,
						length - LINE_BYTES / 2);
				}
				line[length++] = some[i];
				continue;
			}
			line[length] = 0;
			length = 0;
			if (proc_map_line_parse(line, &in) && holds(&in, address, inode))
				found = (struct mapping){
					in.start, in.end, in.offset, in.inode, in.access[3] == 's', is_index(in.path)};
		}
	}
	if (fd >= 0)
		close(fd);
	return found;
}

static bool is_aside(const char *page)
{
	for (int i = 0; i < count; i++)
		if (aside[i].at == page)
			return true;
	return false;
}

static bool set_aside(char *page, const struct mapping *in)
{
	char kept[PAGE_BYTES];

	if (is_aside(page))
		return true;
	if (!in->end || !in->shared || !in->is_index || count == MOST_PAGES)
		return false;
	memcpy(kept, page, sizeof(kept));
	if (mmap(page, sizeof(kept), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != page)
		return false;
	memcpy(page, kept, sizeof(kept));
	aside[count].at = page;
	aside[count].offset = in->offset + ((uintptr_t)page - in->begin);
	aside[count].inode = in->inode;
	count++;
	return true;
}

/* With its first page: what that says of the others holds for those in the file, as readers see them. */
static bool set_index_aside(char *page)
{
	struct mapping in, first;

	if (is_aside(page))
		return true;
	in = find_mapping((uintptr_t)page, 0);
	if (!in.end || !in.is_index)
		return false;
	first = find_mapping(0, in.inode);
	/* Not found where it is aside already. */
	if (first.end && !set_aside((char *)first.begin, &first))
		return false;
	return set_aside(page, &in);
}

static void no_room(int number, siginfo_t *info, void *context)
{
	int before = errno;
	bool done;

	take();
	done = set_index_aside((char *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE_BYTES - 1)));
	atomic_flag_clear(&busy);
	/* Not ours: it happens again, and ends the process. */
	if (!done)
		signal(number, SIG_DFL);
	errno = before;
}

int shm_pages_guard(void)
{
	struct sigaction action = {.sa_sigaction = no_room, .sa_flags = SA_SIGINFO | SA_RESTART};

	/* Its pages would be parts of the kernel's. */
	if (sysconf(_SC_PAGESIZE) != PAGE_BYTES)
		return 0;
	return sigaction(SIGBUS, &action, NULL) ? -errno : 0;
}

bool shm_pages_are_aside(void)
{
	return count;
}

/* SQLite's own descriptor: closing another one of the file would end its locks. */
static int descriptor_of(unsigned long long inode)
{
	DIR *directory = opendir("/proc/self/fd");
	struct dirent *entry;
	struct stat status;
	int found = -1;

	while (directory && found < 0 && (entry = readdir(directory))) {
		int fd = atoi(entry->d_name);

		if (fd > STDERR_FILENO && fd != dirfd(directory) && !fstat(fd, &status) && status.st_ino == inode &&
		    S_ISREG(status.st_mode) && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDWR)
			found = fd;
	}
	if (directory)
		closedir(directory);
	return found;
}

static bool write_at(int fd, const char *page, size_t begin, size_t end, unsigned long long offset)
{
	return pwrite(fd, page + begin, end - begin, offset + begin) == (ssize_t)(end - begin);
}

static bool write_back(int fd, const char *page, unsigned long long offset)
{
	if (offset)
		return write_at(fd, page, 0, PAGE_BYTES, offset);
	/* Readers may have set their marks meanwhile.  The head last: it makes the rest valid. */
	return write_at(fd, page, MARKS_END, PAGE_BYTES, 0) && write_at(fd, page, 0, MARKS_BEGIN, 0);
}

void shm_pages_return(void)
{
	struct mapping now;
	int fd;

	take();
	/* The first page, whose head speaks of all others, was set aside with or before them; it goes last. */
	for (int last = 0; last < 2; last++) {
		for (int i = count - 1; i >= 0; i--) {
			if ((aside[i].offset == 0) != last)
				continue;
			now = find_mapping((uintptr_t)aside[i].at, 0);
			fd = descriptor_of(aside[i].inode);
			/* Where SQLite has closed the file, something else may be there. */
			if (fd >= 0 && now.end && !now.inode) {
				if (!write_back(fd, aside[i].at, aside[i].offset) ||
				    mmap(aside[i].at, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
					 (off_t)aside[i].offset) == MAP_FAILED)
					goto out;
			}
			aside[i] = aside[count - 1];
			count--;
		}
	}
out:
	atomic_flag_clear(&busy);
}
