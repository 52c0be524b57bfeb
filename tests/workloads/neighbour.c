// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * neighbour UID DIRECTORY WAY...: an unprivileged process that tries to harm a
 * recording, in each of the ways at once, until it ends.  What a recording sees
 * of it are waits for futexes in files, from callers in files: it says itself
 * where its frames are, as any process can.
 *
 * fifo: a mapped file becomes a FIFO that nobody writes and is unmapped, and its frames are still there.
 * files: the files of DIRECTORY/files are mapped, whatever they are.
 * changing: a mapping becomes another file's, and its file is cut and written again, all the time.
 * names: threads and files have names with escape codes and of two lines.
 * forks: processes that live for one wait.
 * owners: words that say they are mutexes of another process, in memory that it seems to share with it; lists of robust
 * futexes that lead nowhere.
 *
 * "count": how often it went round, for each way.
 * "blame TID": the owner of all that it waits for is that thread; before, it is init.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/futex.h>

#include "workload.h"

#define PAGE    4096
#define MAPPED  (256u << 10)
#define WAIT_NS 200000
#define FORKS   4
#define WAITS   16

static const char *directory;

/* Waits for a word that does not change, called from an address that no code of ours is at. */
static void wait_called_from(unsigned int *word, __u64 caller)
{
	struct timespec timeout = {.tv_nsec = WAIT_NS};
	/* What a frame pointer points to: the frame before, and the address to return to. */
	const __u64 frame[2] = {0, caller};
	const unsigned int value = *(volatile unsigned int *)word;
#ifdef __x86_64__
	register long fourth asm("r10") = (long)&timeout;
	long call = SYS_futex;

	asm volatile("mov %%rbp, %%r12\n\tmov %[frame], %%rbp\n\tsyscall\n\tmov %%r12, %%rbp"
		     : "+a"(call)
		     : [frame] "r"(frame), "D"(word), "S"(FUTEX_WAIT_PRIVATE), "d"(value), "r"(fourth)
		     : "rcx", "r11", "r12", "memory");
#else
	(void)frame;
	syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, &timeout);
#endif
}

static void path_of(char out[512], const char *name)
{
	snprintf(out, 512, "%s/%s", directory, name);
}

/* A copy of this program: a good object, with symbols. */
static void copy_program(const char *path)
{
	static char content[1 << 20];
	int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), to;
	ssize_t length = from < 0 ? -1 : read(from, content, sizeof(content));

	close(from);
	to = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0755);
	if (length <= 0 || to < 0 || write(to, content, length) != length)
		die("%s: %s", path, strerror(errno));
	close(to);
}

static char *map_file(const char *path, void *place)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *mapped = mmap(place, MAPPED, PROT_READ | PROT_EXEC, MAP_PRIVATE | (place ? MAP_FIXED : 0), fd, 0);

	close(fd);
	return mapped == MAP_FAILED ? NULL : mapped;
}

static void be_fifo(void)
{
	static unsigned int word;
	char path[512], *mapped;

	path_of(path, "fifo");
	unlink(path);
	copy_program(path);
	mapped = map_file(path, NULL);
	if (!mapped)
		die("%s: %s", path, strerror(errno));
	/* Who looks now knows the file as mapped, and reads it at the first address in it. */
	for (int i = 0; i < WAITS; i++)
		wait_called_from(&word, (__u64)(uintptr_t)be_fifo + i);
	unlink(path);
	if (mkfifo(path, 0666))
		die("%s: %s", path, strerror(errno));
	munmap(mapped, MAPPED);
	for (int i = 0; i < WAITS; i++)
		wait_called_from(&word, (__u64)(uintptr_t)mapped + 0x1000 + 16 * i);
}

static void use_files(void)
{
	char path[512 + 256], files[512];
	struct dirent *entry;
	DIR *dir;

	path_of(files, "files");
	dir = opendir(files);
	while (dir && (entry = readdir(dir))) {
		struct stat status;
		char *mapped;

		snprintf(path, sizeof(path), "%s/%s", files, entry->d_name);
		if (stat(path, &status) || !S_ISREG(status.st_mode) || status.st_size < 4096)
			continue;
		mapped = map_file(path, NULL);
		if (!mapped)
			continue;
		for (int i = 0; i < 4; i++)
			wait_called_from((unsigned int *)(mapped + 64 * i), (__u64)(uintptr_t)mapped + 128 * i);
		munmap(mapped, MAPPED);
	}
	if (dir)
		closedir(dir);
}

static void change(void)
{
	static char *place;
	static unsigned int word;
	char good[512], bad[512];

	path_of(good, "changing");
	path_of(bad, "changing-2");
	copy_program(good);
	copy_program(bad);
	if (truncate(bad, 70))
		die("%s: %s", bad, strerror(errno));
	if (!place)
		place = map_file(good, NULL);
	for (int i = 0; i < WAITS; i++) {
		map_file(i & 1 ? bad : good, place);
		wait_called_from(&word, (__u64)(uintptr_t)place + 0x1000 + 64 * i);
		if (i % 4 == 2 && truncate(good, 100 * i))
			die("%s: %s", good, strerror(errno));
		wait_called_from(&word, (__u64)(uintptr_t)place + 0x1008 + 64 * i);
		if (i % 4 == 3)
			copy_program(good);
	}
}

static void be_named(void)
{
	static const char *const names[] = {"\033[31mred", "two\nlines", "\033]0;title\a", "\xff\xfe\x80"};
	static atomic_uint round;
	const unsigned int number = atomic_fetch_add(&round, 1);
	static unsigned int word;
	char path[512], name[64], *mapped;

	prctl(PR_SET_NAME, names[number % 4], 0, 0, 0);
	snprintf(name, sizeof(name), "%s (deleted) %u", names[number % 4], number % 8);
	path_of(path, name);
	copy_program(path);
	mapped = map_file(path, NULL);
	if (!mapped)
		die("%s", strerror(errno));
	for (int i = 0; i < WAITS; i++)
		wait_called_from(&word, (__u64)(uintptr_t)mapped + 0x1000 + 32 * i);
	munmap(mapped, MAPPED);
}

static void fork_often(void)
{
	static unsigned int word;

	for (int i = 0; i < FORKS; i++) {
		pid_t child = fork();

		if (!child) {
			wait_called_from(&word, (__u64)(uintptr_t)fork_often + i);
			_exit(0);
		}
	}
	while (waitpid(-1, NULL, 0) > 0)
		continue;
}

/* Of glibc's: its lock, its owner, its kind. */
struct mutex_words {
	unsigned int lock, count, owner, users;
	int kind;
};

static atomic_uint blamed = 1;

static long wait_for_word(unsigned int *word, int op, long ns)
{
	const struct timespec wait = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
	struct timespec until;

	/* Of FUTEX_LOCK_PI an end, not a length. */
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += ns % 1000000000;
	until.tv_sec += ns / 1000000000 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	return syscall(SYS_futex, word, op, *(volatile unsigned int *)word,
		       (op & FUTEX_CMD_MASK) == FUTEX_LOCK_PI ? &until : &wait, NULL, 0);
}

/* The data of this program's file: every process that runs it has that mapped, each its own. */
static struct mutex_words *forged_mutexes(void)
{
	static char *file;
	int fd = file ? -1 : open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	if (!file)
		file = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	if (file == MAP_FAILED)
		die("its own file: %s", strerror(errno));
	if (fd >= 0)
		close(fd);
	return (void *)file;
}

/* In memory that nobody else sees, and that the kernel takes for shared; it lasts until the blamed one changes. */
static void *blame_for_long(void *unused)
{
	struct mutex_words *mutex = forged_mutexes() + 1;

	for (;;) {
		*mutex = (struct mutex_words){.lock = 2, .owner = atomic_load(&blamed), .users = 1};
		for (int i = 0; i < 20 && mutex->owner == atomic_load(&blamed); i++)
			wait_for_word(&mutex->lock, FUTEX_WAIT, 100000000);
		wait_for_word(&mutex->lock, FUTEX_WAIT, 3000000000);
	}
	return unused;
}

/* A list of robust futexes that goes round, and one that leads into the kernel; the kernel walks it when they end. */
static void end_with_bad_list(bool round)
{
	static struct robust_list_head head;

	if (fork())
		return;
	head.list.next = round ? &head.list : (void *)0xffff888000000000ull;
	head.list_op_pending = (void *)&head;
	syscall(SYS_set_robust_list, &head, sizeof(head));
	wait_for_word(&forged_mutexes()->lock, FUTEX_WAIT, WAIT_NS);
	_exit(0);
}

static void forge_owners(void)
{
	static const int ops[] = {FUTEX_WAIT, FUTEX_WAIT_PRIVATE, FUTEX_LOCK_PI, FUTEX_LOCK_PI_PRIVATE};
	static atomic_bool begun;
	const unsigned int owner = atomic_load(&blamed);
	const unsigned int owners[] = {owner, getpid(), 0x3fffffff, 0, -1u};
	struct mutex_words *mutex = forged_mutexes() + 4;
	pthread_t thread;

	if (!atomic_exchange(&begun, true) && pthread_create(&thread, NULL, blame_for_long, NULL))
		die("a thread: %s", strerror(errno));
	for (size_t i = 0; i < WAITS * sizeof(owners) / sizeof(*owners); i++) {
		const int op = ops[i / 4 % 4], cmd = op & FUTEX_CMD_MASK;

		*mutex = (struct mutex_words){.owner = owners[i % 5], .users = i, .kind = i * 0x11111111};
		mutex->lock = cmd == FUTEX_LOCK_PI ? owners[i % 5] | FUTEX_WAITERS : 2;
		wait_for_word(&mutex->lock, op, WAIT_NS);
	}
	end_with_bad_list(true);
	end_with_bad_list(false);
	while (waitpid(-1, NULL, 0) > 0)
		continue;
}

static struct way {
	const char *name;
	void (*go)(void);
	bool chosen;
	atomic_ulong rounds;
} ways[] = {
	{.name = "fifo", .go = be_fifo},   {.name = "files", .go = use_files},  {.name = "changing", .go = change},
	{.name = "names", .go = be_named}, {.name = "forks", .go = fork_often}, {.name = "owners", .go = forge_owners},
};

#define WAYS (sizeof(ways) / sizeof(ways[0]))

static void *go_round(void *argument)
{
	struct way *way = argument;

	for (;;) {
		way->go();
		atomic_fetch_add(&way->rounds, 1);
	}
	return NULL;
}

static void become(uid_t uid)
{
	/* Dumpable again: it is an ordinary process of this user. */
	if (!geteuid() && (setgroups(0, NULL) || setgid(uid) || setuid(uid) || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)))
		die("cannot become user %u: %s", uid, strerror(errno));
}

static void count(void)
{
	printf("{\"event\": \"count\"");
	for (size_t i = 0; i < WAYS; i++)
		if (ways[i].chosen)
			printf(", \"%s\": %lu", ways[i].name, atomic_load(&ways[i].rounds));
	printf("}\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct command command;

	if (argc < 4)
		die("usage: neighbour UID DIRECTORY WAY...");
	become(strtoul(argv[1], NULL, 10));
	directory = argv[2];
	commands_open();
	for (size_t i = 0; i < WAYS; i++)
		for (int j = 3; j < argc; j++)
			ways[i].chosen |= !strcmp(argv[j], ways[i].name);
	for (size_t i = 0; i < WAYS; i++) {
		pthread_t thread;

		if (ways[i].chosen && pthread_create(&thread, NULL, go_round, &ways[i]))
			die("a thread: %s", strerror(errno));
	}
	printf("{\"event\": \"ready\"}\n");
	fflush(stdout);
	while (next_command(&command)) {
		if (!strcmp(command.word, "blame"))
			atomic_store(&blamed, command.count);
		count();
	}
	_exit(0);
}
