// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * lock_load futex|hand-over|directory|fork|ptrace|new-locks THREADS [FILE]: makes threads wait for kernel locks
 * until it is killed, where stress-ng is not at hand, or too uneven.
 *
 * FILE gets the rounds that each thread has made, while it makes them: one number of 8 bytes in each 128.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/futex.h>

#include "workload.h"

static int word;

/* A wait for a value that the word does not have takes the bucket's lock and returns. */
static void futex(long thread)
{
	if (syscall(SYS_futex, &word, FUTEX_WAIT, 1, NULL, NULL, 0) != -1 || errno != EAGAIN)
		die("futex: %s", strerror(errno));
}

#define PAIRS 64

/* Whose turn it is, of two threads on CPUs of their own: each wake-up takes the lock of the other CPU's run queue. */
static struct turn {
	int odd;
} __attribute__((aligned(128))) turns[PAIRS];

static void hand_over(long thread)
{
	int *odd = &turns[thread / 2 % PAIRS].odd, own = thread % 2, seen;

	while ((seen = __atomic_load_n(odd, __ATOMIC_ACQUIRE)) != own)
		if (syscall(SYS_futex, odd, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0) && errno != EAGAIN &&
		    errno != EINTR)
			die("futex: %s", strerror(errno));
	__atomic_store_n(odd, !own, __ATOMIC_RELEASE);
	if (syscall(SYS_futex, odd, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) < 0)
		die("futex: %s", strerror(errno));
}

static void directory(long thread)
{
	char name[32];
	int file;

	snprintf(name, sizeof(name), "lock_load.%ld", thread);
	file = open(name, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	if (file < 0 || close(file) || unlink(name))
		die("%s: %s", name, strerror(errno));
}

static void fork_and_wait(long thread)
{
	pid_t child = fork();

	if (child < 0)
		die("fork: %s", strerror(errno));
	if (!child)
		_exit(0);
	if (waitpid(child, NULL, 0) != child)
		die("waitpid: %s", strerror(errno));
}

#define STOPS 100

/* Each request to a tracee waits until it has stopped running (wait_task_inactive()). */
static void trace(long thread)
{
	const pid_t tracer = getpid();
	pid_t child = fork();
	int status;

	if (child < 0)
		die("fork: %s", strerror(errno));
	if (!child) {
		/* It would have a processor for good; the tracer may have ended before it asked. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != tracer)
			_exit(0);
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		for (;;)
			syscall(SYS_getppid);
	}
	for (int stop = 0; stop < STOPS; stop++)
		if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status) ||
		    ptrace(PTRACE_SYSCALL, child, NULL, NULL))
			die("ptrace: %s", strerror(errno));
	kill(child, SIGKILL);
	while (waitpid(child, &status, 0) == child && !WIFSIGNALED(status))
		;
}

#define PIPES_KEPT  512
#define PIPE_FILLED 65536

/* Two threads write to a pipe at once, which nobody has waited for before: its memory is not used again for a while. */
static struct meeting {
	int round;   /* the pipe that is there */
	int written; /* by the guest, of that round */
	int pipes[PIPES_KEPT][2];
} __attribute__((aligned(128))) meetings[PAIRS];

static void write_to(int pipe)
{
	static const char filling[PIPE_FILLED];

	if (write(pipe, filling, sizeof(filling)) < 0 && errno != EAGAIN)
		die("write: %s", strerror(errno));
}

static void wait_for(int *number, int least)
{
	while (__atomic_load_n(number, __ATOMIC_ACQUIRE) < least)
		sched_yield();
}

static void new_locks(long thread)
{
	struct meeting *meeting = &meetings[thread / 2 % PAIRS];
	int round, *ends;

	if (thread % 2) {
		round = meeting->written + 1;
		wait_for(&meeting->round, round);
		write_to(meeting->pipes[round % PIPES_KEPT][1]);
		__atomic_store_n(&meeting->written, round, __ATOMIC_RELEASE);
		return;
	}
	round = meeting->round + 1;
	ends = meeting->pipes[round % PIPES_KEPT];
	if (round > PIPES_KEPT && (close(ends[0]) || close(ends[1])))
		die("close: %s", strerror(errno));
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		die("pipe: %s", strerror(errno));
	__atomic_store_n(&meeting->round, round, __ATOMIC_RELEASE);
	write_to(ends[1]);
	wait_for(&meeting->written, round);
}

struct rounds {
	__u64 count;
	__u64 pad[15];
};

static const struct load {
	const char *name;
	void (*round)(long thread);
	bool pinned;
} loads[] = {
	{.name = "futex", .round = futex},         {.name = "hand-over", .round = hand_over, .pinned = true},
	{.name = "directory", .round = directory}, {.name = "fork", .round = fork_and_wait},
	{.name = "ptrace", .round = trace},        {.name = "new-locks", .round = new_locks, .pinned = true},
};

static const struct load *load;
static struct rounds *rounds;

static void *run(void *argument)
{
	long thread = (long)argument;

	if (load->pinned)
		pin_to_cpu(thread % sysconf(_SC_NPROCESSORS_ONLN));
	for (;;) {
		load->round(thread);
		__atomic_store_n(&rounds[thread].count, rounds[thread].count + 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

/* Without a file, into memory that nobody reads. */
static struct rounds *map_rounds(const char *path, long threads)
{
	size_t size = threads * sizeof(struct rounds);
	int file = path ? open(path, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600) : -1;
	void *mapped;

	if (path && (file < 0 || ftruncate(file, size)))
		die("%s: %s", path, strerror(errno));
	mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | (path ? 0 : MAP_ANONYMOUS), file, 0);
	if (mapped == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	return mapped;
}

int main(int argc, char **argv)
{
	long threads = argc == 3 || argc == 4 ? atol(argv[2]) : 0;
	pthread_t thread;

	for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++)
		if (threads > 0 && !strcmp(argv[1], loads[i].name))
			load = &loads[i];
	if (!load)
		die("usage: lock_load futex|hand-over|directory|fork|ptrace THREADS [FILE]");
	rounds = map_rounds(argc == 4 ? argv[3] : NULL, threads);
	for (long i = 1; i < threads; i++)
		if (pthread_create(&thread, NULL, run, (void *)i))
			die("cannot make a thread");
	run(NULL);
}
