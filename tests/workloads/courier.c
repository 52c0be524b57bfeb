// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * courier: what it reads leaves the guest through memory that the emulator shares with its host (-device ivshmem-plain).
 *
 * A serial port takes an exit and a share of an interrupt for each byte: minutes for a megabyte on a busy machine.
 * The memory begins with the number of bytes that were brought so far; they follow from offset 64 on.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "workload.h"

#define FIRST   64
#define IVSHMEM 0x1af41110u

static uint32_t identity(const char *device)
{
	static const char *const files[] = {"vendor", "device"};
	uint32_t found = 0;

	for (int i = 0; i < 2; i++) {
		char path[256];
		unsigned int word = 0;
		FILE *file;

		snprintf(path, sizeof(path), "%s/%s", device, files[i]);
		file = fopen(path, "r");
		if (!file || fscanf(file, "%x", &word) != 1)
			die("%s: %s", path, strerror(errno));
		fclose(file);
		found = found << 16 | word;
	}
	return found;
}

/* No driver does it here, nor everywhere the firmware or the kernel (6.1 of arm64): writes would go nowhere. */
static void enable(const char *device)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/enable", device);
	file = fopen(path, "w");
	if (!file || fputs("1", file) < 0 || fclose(file))
		die("%s: %s", path, strerror(errno));
}

static int open_memory(void)
{
	/* Where the processor can, as memory and not as registers: those must be written in whole aligned words. */
	static const char *const files[] = {"resource2_wc", "resource2"};
	glob_t devices;

	if (glob("/sys/bus/pci/devices/*", 0, NULL, &devices))
		die("no PCI devices");
	for (size_t i = 0; i < devices.gl_pathc; i++) {
		if (identity(devices.gl_pathv[i]) != IVSHMEM)
			continue;
		enable(devices.gl_pathv[i]);
		for (int j = 0; j < 2; j++) {
			char path[256];
			int fd;

			snprintf(path, sizeof(path), "%s/%s", devices.gl_pathv[i], files[j]);
			fd = open(path, O_RDWR | O_SYNC);
			if (fd >= 0)
				return fd;
		}
		die("the shared memory cannot be opened: %s", strerror(errno));
	}
	die("no shared memory: -device ivshmem-plain");
}

int main(void)
{
	int fd = open_memory();
	_Atomic uint64_t *brought;
	struct stat status;
	uint64_t size;
	char *memory;
	ssize_t got;

	if (fstat(fd, &status))
		die("fstat: %s", strerror(errno));
	memory = mmap(NULL, status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	brought = (_Atomic uint64_t *)memory;
	size = atomic_load(brought);
	for (;;) {
		static char buffer[1 << 16];

		got = read(STDIN_FILENO, buffer, sizeof(buffer));
		if (got <= 0)
			break;
		if (FIRST + size + got > (uint64_t)status.st_size)
			die("the shared memory is full");
		memcpy(memory + FIRST + size, buffer, got);
		size += got;
	}
	if (got < 0)
		die("read: %s", strerror(errno));
	/* All of it or nothing. */
	atomic_store(brought, size);
	if (atomic_load(brought) != size)
		die("the shared memory keeps nothing");
	return 0;
}
