// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Memory samples for a collector that runs (record --hitm) on a machine without
 * such a PMU: written into the last CPU's ring as the program would write them.
 *
 *	memory_inject PID PER_SECOND LINES [own FILE...]
 *
 * own: of lines of this program's memory, by its own code, rather than of the kernel's; and in turn of each file, mapped
 * here, as if its first page were code and data.
 * Sample n, from 0 on, has its address, instruction, data source and lock by n
 * alone, so that it is known what the first so many of them add up to.  Events
 * must be on other CPUs.  Prints how many there were, and when, until SIGTERM.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <dirent.h>
#include <sys/mman.h>

#include <bpf/bpf.h>

#include "bpf/memory.h"

#define FIRST_LINE 0xffff888123456000ull
#define FIRST_CODE 0xffffffff81100000ull
#define LOCK       0xffff888000001000ull
#define STEP_NS    2000000ull

/* union perf_mem_data_src: a load; hit in L3, snoop HITM; a load; hit in L1 */
#define LOCAL_HITM (1ull << 1 | 1ull << 6 | 1ull << 11 | 1ull << 23)
#define L1_HIT     (1ull << 1 | 1ull << 6 | 1ull << 8 | 1ull << 20)

/* For "own": a variable, and a function, whose names are to be found. */
char injected_lines[64 * 64] __attribute__((aligned(64)));

void injected_code(void)
{
	__asm__ volatile(".skip 64, 0x90");
}

#define MOST_FILES 64

static __u64 first_lines[1 + MOST_FILES] = {FIRST_LINE}, first_codes[1 + MOST_FILES] = {FIRST_CODE};
static __u32 places = 1;

struct ring {
	struct memory_state *state;
	struct memory_record *records;
};

static volatile sig_atomic_t ended;

static void end(int number)
{
	ended = number;
}

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static __u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

/* The part of the last CPU. */
static void *map_part(int fd, const struct bpf_map_info *info, __u32 items)
{
	size_t page = sysconf(_SC_PAGESIZE), bytes = (size_t)info->max_entries * info->value_size;
	char *all = mmap(NULL, (bytes + page - 1) / page * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (all == MAP_FAILED)
		die("cannot map a BPF array");
	return all + bytes - (size_t)items * info->value_size;
}

static void take_map(struct ring *ring, __u32 id)
{
	struct bpf_map_info info = {};
	__u32 size = sizeof(info);
	int fd = bpf_map_get_fd_by_id(id);

	if (fd < 0 || bpf_obj_get_info_by_fd(fd, &info, &size))
		die("cannot open a map");
	if (!strcmp(info.name, "memory_states"))
		ring->state = map_part(fd, &info, 1);
	else if (!strcmp(info.name, "memory_records"))
		ring->records = map_part(fd, &info, MEMORY_RING_SAMPLES);
	close(fd);
}

static void find_ring(struct ring *ring, const char *pid)
{
	char path[64], line[128];
	struct dirent *entry;
	unsigned int id;
	DIR *directory;

	snprintf(path, sizeof(path), "/proc/%s/fdinfo", pid);
	directory = opendir(path);
	if (!directory)
		die(path);
	while ((entry = readdir(directory))) {
		char name[512];
		FILE *file;

		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		file = fopen(name, "re");
		while (file && fgets(line, sizeof(line), file))
			if (sscanf(line, "map_id: %u", &id) == 1)
				take_map(ring, id);
		if (file)
			fclose(file);
	}
	closedir(directory);
	if (!ring->state || !ring->records) {
		errno = ENOENT;
		die("the rings of --hitm");
	}
}

static void put_sample(const struct ring *ring, __u64 n, __u32 lines)
{
	struct memory_record *record = &ring->records[ring->state->records & (MEMORY_RING_SAMPLES - 1)];
	__u64 position = ring->state->records;

	ring->state->samples++;
	__atomic_store_n(&ring->state->records, position + 1, __ATOMIC_RELEASE);
	__atomic_store_n(&record->sequence, 0, __ATOMIC_SEQ_CST);
	record->time_ns = now_ns();
	record->address = first_lines[n % places] + 64 * (n / places % lines) + 8 * (n % 3);
	record->ip = first_codes[n % places] + 16 * (n % 4);
	record->data_src = n % 2 ? L1_HIT : LOCAL_HITM;
	record->physical = 0;
	record->lock = n % 5 ? 0 : LOCK;
	record->kind = KIND_SPINLOCK;
	record->weight = 100;
	record->tid = record->tgid = getpid();
	record->flags = MEMORY_INTERRUPTS_ON;
	snprintf(record->comm, sizeof(record->comm), "injected");
	__atomic_store_n(&record->sequence, position + 1, __ATOMIC_SEQ_CST);
}

int main(int argc, char **argv)
{
	struct ring ring = {};
	__u64 begin_ns, count = 0, told = 0;
	__u32 lines;
	double rate;

	if (argc < 4 || (argc > 4 && (strcmp(argv[4], "own") || atoi(argv[3]) > 64)) || argc > 5 + MOST_FILES) {
		fprintf(stderr, "usage: memory_inject PID PER_SECOND LINES [own FILE...]\n");
		return 1;
	}
	if (argc > 4) {
		first_lines[0] = (unsigned long)injected_lines;
		first_codes[0] = (unsigned long)injected_code;
	}
	for (int i = 5; i < argc; i++) {
		int file = open(argv[i], O_RDONLY | O_CLOEXEC);
		void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);

		if (file < 0 || page == MAP_FAILED)
			die(argv[i]);
		first_lines[places] = first_codes[places] = (unsigned long)page;
		places++;
	}
	rate = atof(argv[2]);
	lines = atoi(argv[3]);
	signal(SIGTERM, end);
	find_ring(&ring, argv[1]);
	begin_ns = now_ns();
	while (!ended) {
		const struct timespec step = {.tv_nsec = STEP_NS};
		__u64 wanted = (now_ns() - begin_ns) / 1e9 * rate;

		for (; count < wanted; count++)
			put_sample(&ring, count, lines);
		if (count > told)
			printf("%llu %llu\n", count, now_ns());
		told = count;
		nanosleep(&step, NULL);
	}
	return 0;
}
