// SPDX-License-Identifier: GPL-2.0-or-later
/* Planted causes that lie in who owns a lock: it has ended, is traced, waits for others, or for a page, with it held. */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "incidents.h"
#include "workload.h"

#define PAGE 4096

pthread_mutex_t session_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t robust_mutex, adaptive_mutex, recursive_mutex;
static int sockets[2], logs[2], data;
static pthread_mutex_t *across;

/* A thread that takes the mutex, and ends. */
static void *take_and_end(void *argument)
{
	pthread_mutex_lock(&session_mutex);
	return NULL;
}

static void prepare_dead(long threads)
{
	pthread_t thread;

	must(!pthread_create(&thread, NULL, take_and_end, NULL) && !pthread_join(thread, NULL), "thread");
}

static void wait_for_dead(long thread)
{
	pthread_mutex_lock(&session_mutex);
	die("the mutex was released");
}

/* A robust mutex has its owner's number in its word. */
static void prepare_kind(pthread_mutex_t *mutex, int kind, int robust, int shared)
{
	pthread_mutexattr_t attributes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_settype(&attributes, kind);
	pthread_mutexattr_setrobust(&attributes, robust);
	pthread_mutexattr_setpshared(&attributes, shared);
	pthread_mutex_init(mutex, &attributes);
}

static void prepare_robust(long threads)
{
	prepare_kind(&robust_mutex, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_ROBUST, PTHREAD_PROCESS_PRIVATE);
}

static void sleep_in_robust(long thread)
{
	must(!pthread_mutex_lock(&robust_mutex), "lock");
	sleep_us(4000);
	pthread_mutex_unlock(&robust_mutex);
	spin_us(20);
}

/* Who waits spins for a moment first. */
static void prepare_adaptive(long threads)
{
	prepare_kind(&adaptive_mutex, PTHREAD_MUTEX_ADAPTIVE_NP, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE);
}

static void compute_in_adaptive(long thread)
{
	pthread_mutex_lock(&adaptive_mutex);
	spin_us(500);
	pthread_mutex_unlock(&adaptive_mutex);
	spin_us(20);
}

static void prepare_recursive(long threads)
{
	prepare_kind(&recursive_mutex, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_PRIVATE);
}

/* The lock is tried for a millisecond, again and again. */
static void try_for_a_moment(long thread)
{
	struct timespec end;

	do {
		clock_gettime(CLOCK_REALTIME, &end);
		end.tv_nsec += NSEC_PER_USEC * 1000;
		end.tv_sec += end.tv_nsec / 1000000000;
		end.tv_nsec %= 1000000000;
	} while (pthread_mutex_timedlock(&recursive_mutex, &end));
	sleep_us(8000);
	pthread_mutex_unlock(&recursive_mutex);
	spin_us(20);
}

static void prepare_sockets(long threads)
{
	must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), "socketpair");
}

/* A request with the mutex held, to a server that is slow: thread 0. */
static void call_in_section(long thread)
{
	char byte = 0;

	if (!thread) {
		must(read(sockets[1], &byte, 1) == 1, "read");
		sleep_us(3000);
		must(write(sockets[1], &byte, 1) == 1, "write");
		return;
	}
	pthread_mutex_lock(&session_mutex);
	must(write(sockets[0], &byte, 1) == 1 && read(sockets[0], &byte, 1) == 1, "call");
	pthread_mutex_unlock(&session_mutex);
	spin_us(20);
}

/* The same of a child that is waited for. */
static void child_in_section(long thread)
{
	pthread_mutex_lock(&session_mutex);
	pid_t child = vfork();
	if (!child) {
		execl("/bin/sleep", "sleep", "0.02", NULL);
		_exit(1);
	}
	must(child > 0 && waitpid(child, NULL, 0) == child, "child");
	pthread_mutex_unlock(&session_mutex);
	spin_us(20);
}

/* Nobody reads the log any more. */
static void prepare_log(long threads)
{
	must(!pipe2(logs, O_CLOEXEC), "pipe");
}

static void log_to_nobody(long thread)
{
	static char line[2048];

	pthread_mutex_lock(&session_mutex);
	must(write(logs[1], line, sizeof(line)) > 0, "write");
	pthread_mutex_unlock(&session_mutex);
}

static void prepare_across(long threads)
{
	across = mmap(NULL, sizeof(*across), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(across != MAP_FAILED, "mmap");
	prepare_kind(across, PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_STALLED, PTHREAD_PROCESS_SHARED);
}

/* Whoever has the mutex of several processes is held by a debugger, for ever. */
static void traced_once(long thread)
{
	if (thread)
		sleep_us(300000);
	must(!pthread_mutex_lock(across), "lock");
	if (!thread) {
		pid_t child = getpid();

		if (!fork()) {
			must(!ptrace(PTRACE_SEIZE, child, 0, 0) && !ptrace(PTRACE_INTERRUPT, child, 0, 0), "ptrace");
			for (;;)
				pause();
		}
		for (;;)
			spin_us(1000);
	}
	pthread_mutex_unlock(across);
}

static void traced(long thread)
{
	as_process(thread, traced_once);
}

/* The first process alone has a CPU limit, and computes with the mutex held. */
static void limited_once(long thread)
{
	if (!thread)
		must(!prctl(PR_SET_NAME, "holder"), "prctl");
	must(!pthread_mutex_lock(across), "lock");
	spin_us(thread ? 5 : 2000);
	pthread_mutex_unlock(across);
	sleep_us(thread ? 500 : 20);
}

static void limited(long thread)
{
	as_process(thread, limited_once);
}

/* A page that is handed over after 20 ms: who writes it to the file has the file's lock until then. */
static char *missing;
static int faults;

static void *serve(void *argument)
{
	static char content[PAGE] __attribute__((aligned(PAGE)));
	struct uffd_msg message;

	for (;;) {
		must(read(faults, &message, sizeof(message)) == sizeof(message), "userfaultfd");
		sleep_us(20000);
		struct uffdio_copy copy = {.dst = (unsigned long)missing, .src = (unsigned long)content, .len = PAGE};
		must(!ioctl(faults, UFFDIO_COPY, &copy), "UFFDIO_COPY");
	}
	return NULL;
}

static void prepare_page(long threads)
{
	struct uffdio_api api = {.api = UFFD_API};
	pthread_t thread;

	data = open("incident.page", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	must(data >= 0 && !unlink("incident.page"), "incident.page");
	missing = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	faults = syscall(SYS_userfaultfd, O_CLOEXEC);
	must(missing != MAP_FAILED && faults >= 0 && !ioctl(faults, UFFDIO_API, &api), "userfaultfd");
	struct uffdio_register range = {
		.range = {.start = (unsigned long)missing, .len = PAGE},
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	must(!ioctl(faults, UFFDIO_REGISTER, &range), "UFFDIO_REGISTER");
	must(!pthread_create(&thread, NULL, serve, NULL), "thread");
}

/* Thread 0 has the file's lock; who waits for that one has the mutex; the others wait for the mutex. */
static void page_in_file(long thread)
{
	if (!thread) {
		must(pwrite(data, missing, PAGE, 0) == PAGE, "pwrite");
		must(!madvise(missing, PAGE, MADV_DONTNEED), "madvise");
		return;
	}
	pthread_mutex_lock(&session_mutex);
	must(pwrite(data, "entry", 5, PAGE) == 5, "pwrite");
	pthread_mutex_unlock(&session_mutex);
	spin_us(20);
}

const struct incident owner_incidents[] = {
	{"dead-thread", wait_for_dead, prepare_dead},
	{"robust-sleep", sleep_in_robust, prepare_robust},
	{"adaptive", compute_in_adaptive, prepare_adaptive},
	{"timed-lock", try_for_a_moment, prepare_recursive},
	{"call-in-section", call_in_section, prepare_sockets},
	{"child-in-section", child_in_section, NULL},
	{"stuck-log", log_to_nobody, prepare_log},
	{"traced-holder", traced, prepare_across},
	{"limited-holder", limited, prepare_across},
	{"page-chain", page_in_file, prepare_page},
	{NULL, NULL, NULL},
};
