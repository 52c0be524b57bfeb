// SPDX-License-Identifier: GPL-2.0-or-later
/* Planted causes of waiting in the kernel, for incidents.c.  As root. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/membarrier.h>
#include <linux/perf_event.h>

#include "incidents.h"
#include "workload.h"

#define LARGE (256u << 20)

static int epoll, events, watches, sockets[2], ends[2], locked = -1;

/* File systems that come and go: the lock of all mounts of a namespace. */
static void prepare_mounts(long threads)
{
	char name[32];

	must(!unshare(CLONE_NEWNS) && !mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL), "unshare");
	for (long i = 0; i < threads; i++) {
		snprintf(name, sizeof(name), "mount.%ld", i);
		must(!mkdir(name, 0700), name);
	}
}

static void mount_once(long thread)
{
	char name[32];

	snprintf(name, sizeof(name), "mount.%ld", thread);
	must(!mount("none", name, "tmpfs", 0, NULL) && !umount2(name, MNT_DETACH), name);
}

/* Where control groups are: v2, or any hierarchy of v1.  A group of our own, which the laboratory removes. */
static char group[64];

static void prepare_groups(long threads)
{
	const char *tops[] = {"/sys/fs/cgroup/pids", "/sys/fs/cgroup"};

	for (size_t i = 0; i < 2; i++) {
		snprintf(group, sizeof(group), "%s/lockline-groups", tops[i]);
		if (!mkdir(group, 0755) || errno == EEXIST)
			return;
	}
	die("%s: %s", group, strerror(errno));
}

static void make_group(long thread)
{
	char name[128];

	snprintf(name, sizeof(name), "%s/%ld", group, thread);
	must(!mkdir(name, 0755) || errno == EEXIST, name);
	must(!rmdir(name), name);
}

/* Readers of a directory of kernfs, where nodes come and go. */
static void read_groups(long thread)
{
	struct dirent *entry;
	char name[384];
	struct stat stat;
	DIR *directory;

	if (!thread) {
		make_group(thread);
		return;
	}
	directory = opendir(group);
	must(directory != NULL, group);
	while ((entry = readdir(directory))) {
		snprintf(name, sizeof(name), "%s/%s", group, entry->d_name);
		lstat(name, &stat);
	}
	closedir(directory);
}

static void make_netns_once(long thread)
{
	must(!unshare(CLONE_NEWNET), "unshare");
}

static void make_netns(long thread)
{
	as_process(thread, make_netns_once);
}

/* An agent that reads what all processes do. */
static void scan_proc(long thread)
{
	static const char *const files[] = {"stat", "status", "cmdline", "maps"};
	static _Thread_local char text[1 << 16];
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	char name[300];
	int file;

	must(proc != NULL, "/proc");
	while ((entry = readdir(proc))) {
		for (int i = 0; i < 4 && entry->d_name[0] >= '1' && entry->d_name[0] <= '9'; i++) {
			snprintf(name, sizeof(name), "/proc/%s/%s", entry->d_name, files[i]);
			file = open(name, O_RDONLY | O_CLOEXEC);
			while (file >= 0 && read(file, text, sizeof(text)) > 0)
				continue;
			close(file);
		}
	}
	closedir(proc);
}

/* Watches of one inotify group. */
static void prepare_watches(long threads)
{
	char name[32];

	watches = inotify_init1(IN_CLOEXEC);
	must(watches >= 0, "inotify_init1");
	for (long i = 0; i < threads; i++) {
		snprintf(name, sizeof(name), "watch.%ld", i);
		must(!mkdir(name, 0700), name);
	}
}

static void watch(long thread)
{
	char name[32];
	int made;

	snprintf(name, sizeof(name), "watch.%ld", thread);
	made = inotify_add_watch(watches, name, IN_MODIFY);
	must(made >= 0 && !inotify_rm_watch(watches, made), name);
}

static int open_event(__u32 type, __u64 config)
{
	struct perf_event_attr attributes = {
		.type = type, .size = sizeof(attributes), .config = config, .disabled = 1, .exclude_hv = 1};

	return syscall(SYS_perf_event_open, &attributes, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
}

/* Events that come and go. */
static void open_events(long thread)
{
	int made = open_event(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);

	must(made >= 0 && !close(made), "perf_event_open");
}

/* The same of a tracepoint: to switch it the kernel changes its own text, and waits for all CPUs. */
static long tracepoint;

static void prepare_tracepoint(long threads)
{
	FILE *file;

	must(!mkdir("tracefs", 0700) && !unshare(CLONE_NEWNS) && !mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
		     !mount("none", "tracefs", "tracefs", 0, NULL),
	     "tracefs");
	file = fopen("tracefs/events/sched/sched_process_wait/id", "re");
	must(file && fscanf(file, "%ld", &tracepoint) == 1, "tracepoint");
	fclose(file);
}

static void switch_tracepoint(long thread)
{
	int made = open_event(PERF_TYPE_TRACEPOINT, tracepoint);

	must(made >= 0 && !close(made), "perf_event_open");
}

/* Callers of synchronize_rcu(). */
static void wait_for_rcu(long thread)
{
	must(!syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0), "membarrier");
}

/* Renames across directories: one mutex for each file system. */
static void prepare_directories(long threads)
{
	char name[48];

	for (long i = 0; i < threads; i++) {
		for (char of = 'a'; of <= 'b'; of++) {
			snprintf(name, sizeof(name), "rename.%c.%ld", of, i);
			must(!mkdir(name, 0700), name);
		}
		snprintf(name, sizeof(name), "rename.a.%ld/d", i);
		must(!mkdir(name, 0700), name);
	}
}

static void rename_across(long thread)
{
	char one[48], two[48];

	snprintf(one, sizeof(one), "rename.a.%ld/d", thread);
	snprintf(two, sizeof(two), "rename.b.%ld/d", thread);
	must(!rename(one, two) && !rename(two, one), "rename");
}

/* The table of open files of one process. */
static void open_files(long thread)
{
	int made[16];

	for (int i = 0; i < 16; i++)
		made[i] = dup(0);
	for (int i = 0; i < 16; i++)
		close(made[i]);
}

static void ignored(int signal)
{
}

static void prepare_signals(long threads)
{
	const struct sigaction action = {.sa_handler = ignored};

	must(!sigaction(SIGUSR1, &action, NULL), "sigaction");
}

/* Signals of all threads to their process: its lock of signals. */
static void send_signals(long thread)
{
	must(!kill(getpid(), SIGUSR1), "kill");
}

/* Segments of shared memory: the lock of their ids. */
static void make_segments(long thread)
{
	int made = shmget(IPC_PRIVATE, 4096, 0600);

	must(made >= 0 && !shmctl(made, IPC_RMID, NULL), "shmget");
}

static void prepare_epoll(long threads)
{
	struct epoll_event event = {.events = EPOLLIN};

	epoll = epoll_create1(EPOLL_CLOEXEC);
	events = eventfd(0, EFD_CLOEXEC);
	must(epoll >= 0 && events >= 0 && !epoll_ctl(epoll, EPOLL_CTL_ADD, events, &event), "epoll");
}

/* All threads change what one epoll looks at. */
static void change_epoll(long thread)
{
	struct epoll_event event = {.events = EPOLLIN};
	static _Thread_local int own = -1;

	if (own < 0)
		own = eventfd(0, EFD_CLOEXEC);
	must(!epoll_ctl(epoll, EPOLL_CTL_ADD, own, &event) && !epoll_ctl(epoll, EPOLL_CTL_DEL, own, &event),
	     "epoll_ctl");
}

static void prepare_stream(long threads)
{
	must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), "socketpair");
}

/* Many write to one connection, which one reads slowly. */
static void write_slow_stream(long thread)
{
	static char data[1 << 16];

	if (thread) {
		must(write(sockets[1], data, 4096) > 0, "write");
		return;
	}
	must(read(sockets[0], data, sizeof(data)) > 0, "read");
	sleep_us(5000);
}

static void prepare_pipe(long threads)
{
	must(!pipe2(ends, O_CLOEXEC), "pipe");
}

/* A writer of each pipe, and a reader that is slower: no lock at all. */
static void fill_pipe(long thread)
{
	static _Thread_local int own[2];
	static char data[1 << 16];

	if (!own[1])
		must(!pipe2(own, O_CLOEXEC) && write(own[1], data, sizeof(data)) > 0, "pipe");
	must(write(own[1], data, 1) > 0, "write");
}

/* A lock of fcntl() whose holder was stopped. */
static void lock_range(bool of_file)
{
	struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

	if (locked < 0)
		locked = open("range.lock", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	must(locked >= 0 && !fcntl(locked, of_file ? F_OFD_SETLKW : F_SETLKW, &range), "fcntl");
}

static void unlock_range(bool of_file)
{
	struct flock range = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_len = 1};

	must(!fcntl(locked, of_file ? F_OFD_SETLK : F_SETLK, &range), "fcntl");
}

static void stopped_with_range_once(long thread)
{
	if (thread)
		sleep_us(300000);
	lock_range(false);
	if (!thread)
		raise(SIGSTOP);
	unlock_range(false);
}

static void stopped_with_range(long thread)
{
	as_process(thread, stopped_with_range_once);
}

/* The same of an open file: the kernel names no process that has it. */
static void lock_open_file_once(long thread)
{
	lock_range(true);
	sleep_us(thread ? 500 : 40000);
	unlock_range(true);
	sleep_us(300);
}

static void lock_open_file(long thread)
{
	as_process(thread, lock_open_file_once);
}

/* A fork of much memory, while others map: the forking thread has mmap_lock all the time. */
static char *large;

static void prepare_memory(long threads)
{
	large = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(large != MAP_FAILED && !madvise(large, LARGE, MADV_NOHUGEPAGE), "mmap");
	memset(large, 1, LARGE);
}

static void fork_large(long thread)
{
	void *memory;
	pid_t child;

	if (!thread) {
		child = fork();
		must(child >= 0, "fork");
		if (!child)
			_exit(0);
		waitpid(child, NULL, 0);
		return;
	}
	memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(memory != MAP_FAILED && !munmap(memory, 4096), "mmap");
	sleep_us(300);
}

/* A file that several read past the page cache: the disk alone. */
static void read_disk(long thread)
{
	static _Thread_local void *block;
	static _Thread_local int own = -1;
	char name[32];

	if (own < 0) {
		snprintf(name, sizeof(name), "disk.%ld", thread);
		own = open(name, O_CREAT | O_RDWR | O_CLOEXEC | O_DIRECT, 0600);
		must(own >= 0 && !posix_memalign(&block, 4096, 1 << 20), name);
		memset(block, 1, 1 << 20);
		must(pwrite(own, block, 1 << 20, 0) == 1 << 20, name);
	}
	must(pread(own, block, 1 << 20, 0) == 1 << 20, "read");
}

/* More memory than its control group allows: what it reads is thrown away and read again. */
static void reclaim(long thread)
{
	static _Thread_local char *mapped;
	const size_t size = 64u << 20;
	volatile char sum = 0;
	char name[32];
	int own;

	if (!mapped) {
		snprintf(name, sizeof(name), "reclaim.%ld", thread);
		own = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
		must(own >= 0 && !ftruncate(own, size), name);
		mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, own, 0);
		must(mapped != MAP_FAILED, "mmap");
	}
	for (size_t at = 0; at < size; at += 4096)
		sum += mapped[at];
}

/* Threads that wait for another process, which has their lock of a directory: vfork() waits for its child. */
static void start_programs(long thread)
{
	pid_t child = vfork();

	must(child >= 0, "vfork");
	if (!child) {
		usleep(20000);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

const struct incident kernel_incidents[] = {
	{"mounts", mount_once, prepare_mounts},
	{"groups", make_group, prepare_groups},
	{"kernfs-readers", read_groups, prepare_groups},
	{"netns", make_netns, NULL},
	{"proc-scan", scan_proc, NULL},
	{"inotify", watch, prepare_watches},
	{"perf-events", open_events, NULL},
	{"tracepoints", switch_tracepoint, prepare_tracepoint},
	{"rcu-callers", wait_for_rcu, NULL},
	{"renames", rename_across, prepare_directories},
	{"file-table", open_files, NULL},
	{"signals", send_signals, prepare_signals},
	{"segments", make_segments, NULL},
	{"one-epoll", change_epoll, prepare_epoll},
	{"slow-stream", write_slow_stream, prepare_stream},
	{"full-pipe", fill_pipe, prepare_pipe},
	{"stopped-range", stopped_with_range, NULL},
	{"open-file-lock", lock_open_file, NULL},
	{"fork-large", fork_large, prepare_memory},
	{"disk", read_disk, NULL},
	{"reclaim", reclaim, NULL},
	{"vfork", start_programs, NULL},
	{NULL, NULL, NULL},
};
