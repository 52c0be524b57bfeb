// SPDX-License-Identifier: GPL-2.0-or-later
#include "userfault.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096

struct worker {
	struct held_lock *lock;
	void *page;
	pthread_t thread;
	pid_t tid;
	sem_t start;
	sem_t done;
	__u64 entered_ns;
	__u64 returned_ns;
};

static void *holder(void *argument)
{
	struct worker *worker = argument;

	worker->tid = gettid();
	sem_post(&worker->done);
	for (;;) {
		sem_wait(&worker->start);
		worker->lock->hold(worker->lock, worker->page);
		sem_post(&worker->done);
	}
	return NULL;
}

static void *waiter(void *argument)
{
	struct worker *worker = argument;

	if (worker->lock->waiter_cpu >= 0)
		pin_to_cpu(worker->lock->waiter_cpu);
	worker->tid = gettid();
	sem_post(&worker->done);
	for (;;) {
		sem_wait(&worker->start);
		worker->entered_ns = now_ns();
		worker->lock->wait(worker->lock);
		worker->returned_ns = now_ns();
		sem_post(&worker->done);
	}
	return NULL;
}

static void start_worker(struct worker *worker, void *(*run)(void *), struct held_lock *lock, void *page)
{
	worker->lock = lock;
	worker->page = page;
	sem_init(&worker->start, 0, 0);
	sem_init(&worker->done, 0, 0);
	if (pthread_create(&worker->thread, NULL, run, worker))
		die("cannot make a thread");
	sem_wait(&worker->done);
}

static int open_userfault(void *page)
{
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register range = {
		.range = {.start = (unsigned long)page, .len = PAGE},
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);

	if (fd < 0)
		die("userfaultfd: %s", strerror(errno));
	if (ioctl(fd, UFFDIO_API, &api) || ioctl(fd, UFFDIO_REGISTER, &range))
		die("cannot register the page with userfaultfd: %s", strerror(errno));
	return fd;
}

static void wait_for_fault(int userfault)
{
	struct uffd_msg message;

	if (read(userfault, &message, sizeof(message)) != sizeof(message) || message.event != UFFD_EVENT_PAGEFAULT)
		die("userfaultfd reports no fault");
}

static void serve_fault(int userfault, void *page, void *content)
{
	struct uffdio_copy copy = {
		.dst = (unsigned long)page,
		.src = (unsigned long)content,
		.len = PAGE,
	};

	if (ioctl(userfault, UFFDIO_COPY, &copy))
		die("cannot serve the fault: %s", strerror(errno));
}

/* What a round works with. */
struct stage {
	struct held_lock *lock;
	struct worker hold;
	struct worker wait;
	int userfault;
	void *page;
};

/* The lock is held and the waiter sleeps; returns when that was seen. */
static __u64 begin_round(struct stage *stage)
{
	/* The page of the round before goes, so that the next copy faults again. */
	if (madvise(stage->page, PAGE, MADV_DONTNEED))
		die("madvise: %s", strerror(errno));
	sem_post(&stage->hold.start);
	wait_for_fault(stage->userfault);
	sem_post(&stage->wait.start);
	wait_until_blocked(getpid(), stage->wait.tid, stage->lock->wait_system_call);
	return now_ns();
}

/* Lets the lock go; returns when that was begun. */
static __u64 end_round(struct stage *stage)
{
	static char content[PAGE];
	__u64 served_ns = now_ns();

	serve_fault(stage->userfault, stage->page, content);
	sem_wait(&stage->hold.done);
	sem_wait(&stage->wait.done);
	if (stage->lock->after_round)
		stage->lock->after_round(stage->lock);
	return served_ns;
}

static void run_rounds(struct stage *stage, const struct command *command)
{
	__u64 *served_ns = calloc(command->count, sizeof(*served_ns));
	__u64 seen_ns, round;

	if (!served_ns && command->count)
		die("no memory for %llu rounds", (unsigned long long)command->count);
	printf("{\"event\": \"waits\", \"waits\": [");
	for (round = 0; round < command->count; round++) {
		seen_ns = begin_round(stage);
		wait_until_ns(seen_ns + command->microseconds * NSEC_PER_USEC);
		served_ns[round] = end_round(stage);
		printf("%s[%llu, %llu]", round ? ", " : "", served_ns[round] - seen_ns,
		       stage->wait.returned_ns - stage->wait.entered_ns);
	}
	/* When the page that the holder waits for was given to it, the moment before. */
	printf("], \"served_ns\": [");
	for (round = 0; round < command->count; round++)
		printf("%s%llu", round ? ", " : "", served_ns[round]);
	printf("]}\n");
	free(served_ns);
}

void run_held_lock(struct held_lock *lock, int argc, char **argv)
{
	struct stage stage = {.lock = lock};
	struct command command = {};
	bool left = false;

	stage.page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stage.page == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	commands_open();
	stage.userfault = open_userfault(stage.page);
	start_worker(&stage.hold, holder, lock, stage.page);
	start_worker(&stage.wait, waiter, lock, stage.page);
	printf("{\"event\": \"ready\", \"pid\": %d, \"holder\": %d, \"waiter\": %d}\n", getpid(), stage.hold.tid,
	       stage.wait.tid);
	if (argc == 3) {
		command.count = strtoull(argv[1], NULL, 10);
		command.microseconds = strtoull(argv[2], NULL, 10);
		run_rounds(&stage, &command);
		return;
	}
	while (next_command(&command)) {
		if (left)
			end_round(&stage);
		left = !strcmp(command.word, "leave");
		if (left)
			printf("{\"event\": \"left\", \"seen_ns\": %llu}\n", begin_round(&stage));
		else
			run_rounds(&stage, &command);
	}
	if (left)
		end_round(&stage);
}
