// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * stuck_memory UID DIRECTORY: as root at first; a process of that user that harms who looks at it.  It has mapped a file
 * of a file system that it serves itself (FUSE), which answers the first read of a page, and nothing after that.
 *
 * "stick": threads wait for a futex on such a page: whoever reads the futex's word waits for good.
 * "nap": a thread sleeps again and again, with its stack on such a page.
 * "code": threads wait for a futex in code of such a file: whoever opens the file waits for good, root too.
 * "jvm": threads wait below code that a JVM seems to have compiled, whose tables are on such a page.
 * "lock": its list of mappings cannot be read any more: a thread holds the lock of it for good.  Nothing else of the
 * process runs then.
 */
#include <dlfcn.h>
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
#define FOREVER 1000000
#define WAITERS 3

/* include/linux/sched.h */
#define PF_EXITING 4

/* The root is 1. */
enum file { WORD = 2, STACK, CODE, LOCKED, FILES };

static const char *const names[FILES] = {
	[WORD] = "word",
	[STACK] = "stack",
	[CODE] = "code",
	[LOCKED] = "locked",
};

/* futex_wait(word). */
#if defined(__x86_64__)
static const unsigned char wait_code[] = {
	0x55,                                     /* push %rbp */
	0x48, 0x89, 0xe5,                         /* mov %rsp, %rbp */
	0xb8, 0xca, 0x00, 0x00, 0x00,             /* mov $202 (futex), %eax */
	0x31, 0xf6, 0x31, 0xd2, 0x45, 0x31, 0xd2, /* op, value and timeout 0 */
	0x0f, 0x05,                               /* syscall */
	0x5d, 0xc3,                               /* pop %rbp; ret */
};
#else
static const unsigned char wait_code[1];
#endif

static void answer(int fuse, __u64 unique, int error, const void *data, size_t size)
{
	struct fuse_out_header header = {.len = sizeof(header) + size, .error = -error, .unique = unique};
	struct iovec parts[] = {{&header, sizeof(header)}, {(void *)data, size}};

	if (writev(fuse, parts, size ? 2 : 1) < 0 && errno != ENOENT)
		die("FUSE: %s", strerror(errno));
}

static struct fuse_attr attributes(__u64 node)
{
	const bool file = node >= WORD;

	return (struct fuse_attr){
		.ino = node,
		.size = file ? PAGE : 0,
		.mode = file ? S_IFREG | 0755 : S_IFDIR | 0755,
		.nlink = 1,
	};
}

/* 0: there is no such file. */
static __u64 node_of(const char *name)
{
	for (__u64 i = WORD; i < FILES; i++)
		if (!strcmp(names[i], name))
			return i;
	return 0;
}

/* Its main thread ends; it may need our answer for that, as others of it may. */
static bool is_ending(pid_t pid)
{
	char path[64], text[512] = "";
	const char *state;
	unsigned int flags = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return true;
	if (!fgets(text, sizeof(text), file))
		text[0] = 0;
	fclose(file);
	state = strrchr(text, ')');
	return !state || sscanf(state, ") %*c %*d %*d %*d %*d %*d %u", &flags) != 1 || flags & PF_EXITING;
}

/* Waits for a request; false: that process ends. */
static bool is_asked(int fuse, pid_t process)
{
	struct pollfd asked = {.fd = fuse, .events = POLLIN};

	while (!is_ending(process))
		if (poll(&asked, 1, 200))
			return true;
	return false;
}

/* Answers all but a file's reads after its first one; its opens after that too if it is CODE. */
static void serve(int fuse, pid_t process)
{
	static char request[PAGE + 65536];
	static char page[PAGE];
	bool read_once[FILES] = {};

	while (is_asked(fuse, process) && read(fuse, request, sizeof(request)) > 0) {
		const struct fuse_in_header *in = (void *)request;
		const struct fuse_init_in *init = (void *)(in + 1);
		const struct fuse_open_in *open = (void *)(in + 1);
		const __u64 node = in->opcode == FUSE_LOOKUP ? node_of((const char *)(in + 1)) : in->nodeid;
		struct fuse_init_out begun = {
			.major = FUSE_KERNEL_VERSION, .minor = init->minor, .max_write = PAGE, .max_background = 1};
		struct fuse_entry_out entry = {
			.nodeid = node, .entry_valid = FOREVER, .attr_valid = FOREVER, .attr = attributes(node)};
		struct fuse_attr_out attribute = {.attr_valid = FOREVER, .attr = attributes(node)};
		struct fuse_open_out opened = {.fh = 1};

		switch (in->opcode) {
		case FUSE_INIT:
			answer(fuse, in->unique, 0, &begun, sizeof(begun));
			break;
		case FUSE_LOOKUP:
			answer(fuse, in->unique, node ? 0 : ENOENT, &entry, node ? sizeof(entry) : 0);
			break;
		case FUSE_GETATTR:
			answer(fuse, in->unique, 0, &attribute, sizeof(attribute));
			break;
		case FUSE_OPEN:
			/* With this the kernel forgets a file's pages when it is mapped, and waits for each of them. */
			if (open->flags & O_SYNC)
				opened.open_flags = FOPEN_DIRECT_IO;
			if (node != CODE || !read_once[node])
				answer(fuse, in->unique, 0, &opened, sizeof(opened));
			break;
		case FUSE_READ:
			memset(page, 0, sizeof(page));
			if (node == CODE)
				memcpy(page, wait_code, sizeof(wait_code));
			if (node < FILES && !read_once[node] && node != LOCKED)
				answer(fuse, in->unique, 0, page, sizeof(page));
			if (node < FILES)
				read_once[node] = true;
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

/* One page of a file, open as `flags` says. */
static void *map(const char *directory, enum file file, int flags, int protection, int *fd)
{
	char path[512];
	void *page;

	snprintf(path, sizeof(path), "%s/%s", directory, names[file]);
	*fd = open(path, O_RDONLY | O_CLOEXEC | flags);
	page = *fd < 0 ? MAP_FAILED : mmap(NULL, PAGE, protection, MAP_SHARED, *fd, 0);
	if (page == MAP_FAILED)
		die("%s: %s", path, strerror(errno));
	return page;
}

/* Nobody has the page any more. */
static void drop(void *page, int fd)
{
	if (madvise(page, PAGE, MADV_DONTNEED) || posix_fadvise(fd, 0, PAGE, POSIX_FADV_DONTNEED))
		die("the page: %s", strerror(errno));
}

static void start(void *(*thread)(void *), void *argument)
{
	pthread_t id;

	if (pthread_create(&id, NULL, thread, argument))
		die("a thread: %s", strerror(errno));
}

static void *wait_forever(void *word)
{
	prctl(PR_SET_NAME, "stuck-waiter");
	syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL);
	return NULL;
}

static void stick(const char *directory)
{
	int fd;
	unsigned int *word = map(directory, WORD, 0, PROT_READ, &fd);

	for (int i = 0; i < WAITERS; i++)
		start(wait_forever, word);
	/* They sleep. */
	sleep(1);
	drop(word, fd);
}

/* Nothing of it may be kept on the stack, which it must not touch. */
static void *nap_forever(void *top)
{
	prctl(PR_SET_NAME, "stuck-napper");
#if defined(__x86_64__)
	static const struct timespec time = {.tv_nsec = 10000000};
	__asm__ volatile("mov %0, %%rsp\n"
			 "1: mov $35, %%eax\n" /* nanosleep */
			 "mov %1, %%rdi\n"
			 "xor %%esi, %%esi\n"
			 "syscall\n"
			 "jmp 1b\n" ::"r"(top),
			 "r"(&time)
			 : "rax", "rdi", "rsi", "rcx", "r11", "memory");
#endif
	return NULL;
}

static void nap(const char *directory)
{
	int fd;
	char *stack = map(directory, STACK, 0, PROT_READ, &fd);

	if (*(volatile char *)stack)
		die("the stack's page is not empty");
	start(nap_forever, stack + PAGE / 2);
	drop(stack, fd);
}

static unsigned int plain_word;

static void *wait_in_code(void *code)
{
	prctl(PR_SET_NAME, "stuck-code");
	((int (*)(unsigned int *))code)(&plain_word);
	return NULL;
}

static void wait_in_file(const char *directory)
{
	int fd;
	void *code = map(directory, CODE, 0, PROT_READ | PROT_EXEC, &fd);

	for (int i = 0; i < WAITERS; i++)
		start(wait_in_code, code);
	sleep(1);
}

static void (*compiled_park)(unsigned int *word);

static void *park_forever(void *unused)
{
	static unsigned int word;

	prctl(PR_SET_NAME, "stuck-java");
	while (true)
		compiled_park(&word);
	return unused;
}

/* Code that calls the function, as a compiler of a JVM leaves it: in memory of no file. */
static void *compile_call(void *function)
{
#if defined(__x86_64__)
	static const unsigned char begin[] = {0x55, 0x48, 0x89,
					      0xe5, 0x48, 0xb8};     /* push %rbp; mov %rsp, %rbp; mov $, %rax */
	static const unsigned char end[] = {0xff, 0xd0, 0x5d, 0xc3}; /* call *%rax; pop %rbp; ret */
	unsigned char *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (code == MAP_FAILED)
		die("memory for code: %s", strerror(errno));
	memcpy(code, begin, sizeof(begin));
	memcpy(code + sizeof(begin), &function, sizeof(function));
	memcpy(code + sizeof(begin) + sizeof(function), end, sizeof(end));
	return code;
#else
	return function;
#endif
}

static void run_jvm(const char *directory)
{
	char path[PAGE] = "";
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
	void *jvm, *park, **tables, *page;
	int fd;

	if (length > 0)
		snprintf(strrchr(path, '/'), PAGE - length, "/libjvm.so");
	jvm = dlopen(path, RTLD_NOW);
	park = jvm ? dlsym(jvm, "Unsafe_Park") : NULL;
	tables = jvm ? dlsym(jvm, "gHotSpotVMStructs") : NULL;
	if (!park || !tables)
		die("%s", dlerror());
	page = map(directory, WORD, 0, PROT_READ, &fd);
	if (*(volatile char *)page)
		die("the page of the tables is not empty");
	drop(page, fd);
	*tables = page;
	compiled_park = compile_call(park);
	for (int i = 0; i < WAITERS; i++)
		start(park_forever, NULL);
}

static void *read_forever(void *fd)
{
	char byte;

	prctl(PR_SET_NAME, "stuck-reader");
	if (pread(*(int *)fd, &byte, 1, 0) > 0)
		die("the file that does not answer has answered");
	return NULL;
}

/* It waits for the page that is being read, with the lock of the mappings. */
static void *map_forever(void *fd)
{
	prctl(PR_SET_NAME, "stuck-locker");
	mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, *(int *)fd, 0);
	die("the mapping that never ends has ended");
}

static void lock_mappings(const char *directory)
{
	static int plain, direct;
	char path[512];

	for (int i = 0; i < WAITERS; i++)
		start(wait_forever, &plain_word);
	sleep(1);
	snprintf(path, sizeof(path), "%s/%s", directory, names[LOCKED]);
	plain = open(path, O_RDONLY | O_CLOEXEC);
	direct = open(path, O_RDONLY | O_SYNC | O_CLOEXEC);
	if (plain < 0 || direct < 0)
		die("%s: %s", path, strerror(errno));
	start(read_forever, &plain);
	sleep(1);
	start(map_forever, &direct);
	sleep(1);
}

static int mount_ourselves(const char *directory, const char *uid)
{
	int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[128];

	if (fuse < 0)
		die("/dev/fuse: %s", strerror(errno));
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=%s,group_id=%s,allow_other", fuse, uid, uid);
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("stuck", directory, "fuse.stuck", MS_NOSUID | MS_NODEV, options))
		die("mount: %s", strerror(errno));
	return fuse;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*begin)(const char *directory);
	} ways[] = {{"stick", stick}, {"nap", nap}, {"code", wait_in_file}, {"jvm", run_jvm}, {"lock", lock_mappings}};
	struct command command;
	int fuse;

	if (argc != 3)
		die("usage: stuck_memory UID DIRECTORY");
	fuse = mount_ourselves(argv[2], argv[1]);
	if (!fork()) {
		serve(fuse, getppid());
		_exit(0);
	}
	close(fuse);
	if (setgroups(0, NULL) || setgid(strtoul(argv[1], NULL, 10)) || setuid(strtoul(argv[1], NULL, 10)) ||
	    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))
		die("cannot become user %s: %s", argv[1], strerror(errno));
	commands_open();
	printf("{\"event\": \"ready\"}\n");
	fflush(stdout);
	while (next_command(&command)) {
		for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++)
			if (!strcmp(command.word, ways[i].name))
				ways[i].begin(argv[2]);
		/* Written by hand: the C library may want memory, and with "lock" there is no more. */
		if (write(STDOUT_FILENO, "{\"event\": \"stuck\"}\n", 19 + 1) < 0)
			break;
	}
	_exit(0);
}
