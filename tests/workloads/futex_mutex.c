// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * futex_mutex: waits in user space whose nature is known.
 *
 * "lock COUNT MICROSECONDS": a thread waits COUNT times for a pthread mutex that
 * the main thread holds for that time from the moment that the other sleeps.
 * "hold 1 MICROSECONDS": the same once, and the mutex stays held and waited for until "release 1 0".
 * "deadlock 1 0": two threads take one mutex each and then wait for the other's, for good.
 * "pi COUNT MICROSECONDS": the same with a mutex that inherits priority.
 * "waitv", "wait2", "requeue" COUNT MICROSECONDS: a thread waits by futex_waitv() for the second of two words, by
 * futex_wait(), or by FUTEX_WAIT on a word from which it is moved to another; it is woken after that time.
 * "restart COUNT MICROSECONDS": a wait with a timeout is stopped after that time and continued, and goes on by
 * restart_syscall() for as long again.
 * "calls32 COUNT MICROSECONDS": a thread waits, and is woken, by system calls of 32-bit programs.
 * "contend COUNT MICROSECONDS": THREADS threads take one mutex COUNT times each
 * and hold it for that time.
 * "work COUNT MICROSECONDS": idle workers wait for a condition; one of them is
 * given work COUNT times, each after that time.
 * "poll COUNT MICROSECONDS": a thread waits COUNT times for a condition that
 * never comes, with that timeout.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <linux/futex.h>

#include "workload.h"

#define THREADS 4

/* Static, so that the recording names them; in the order of the commands. */
pthread_mutex_t held_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t pi_mutex;
unsigned int first_word, second_word;
unsigned int *low_word;
pthread_mutex_t contended_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t work_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t work_condition = PTHREAD_COND_INITIALIZER;
pthread_mutex_t poll_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t poll_condition = PTHREAD_COND_INITIALIZER;

static struct command command;
static __u64 work, done;
static bool no_more_work;
static __u64 waited_ns, waits;

/* Bytes through pipes, so that what the workload says to itself is no futex wait. */
static int to_waiter[2], to_main[2];
static pid_t waiter_tid;

static void send_byte(const int pipe[2])
{
	if (write(pipe[1], "", 1) != 1)
		die("pipe: %s", strerror(errno));
}

static void receive_byte(const int pipe[2])
{
	char byte;

	while (read(pipe[0], &byte, 1) != 1)
		if (errno != EINTR)
			die("pipe: %s", strerror(errno));
}

static void hold_for(__u64 microseconds)
{
	wait_until_ns(now_ns() + microseconds * NSEC_PER_USEC);
}

static void *wait_for_mutex(void *argument)
{
	pthread_mutex_t *mutex = argument;
	__u64 begin;

	waiter_tid = gettid();
	send_byte(to_main);
	for (__u64 i = 0; i < command.count; i++) {
		receive_byte(to_waiter);
		begin = now_ns();
		pthread_mutex_lock(mutex);
		waited_ns += now_ns() - begin;
		pthread_mutex_unlock(mutex);
		send_byte(to_main);
	}
	return NULL;
}

static void lock(pthread_mutex_t *mutex)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, wait_for_mutex, mutex))
		die("cannot make a thread");
	receive_byte(to_main);
	for (__u64 i = 0; i < command.count; i++) {
		pthread_mutex_lock(mutex);
		send_byte(to_waiter);
		wait_until_blocked(getpid(), waiter_tid, SYS_futex);
		hold_for(command.microseconds);
		pthread_mutex_unlock(mutex);
		receive_byte(to_main);
		waits++;
	}
	pthread_join(thread, NULL);
}

static pthread_t held_up;

static void hold(void)
{
	if (pthread_create(&held_up, NULL, wait_for_mutex, &held_mutex))
		die("cannot make a thread");
	receive_byte(to_main);
	pthread_mutex_lock(&held_mutex);
	send_byte(to_waiter);
	wait_until_blocked(getpid(), waiter_tid, SYS_futex);
	hold_for(command.microseconds);
}

static void release(void)
{
	pthread_mutex_unlock(&held_mutex);
	receive_byte(to_main);
	pthread_join(held_up, NULL);
	waits = 1;
}

pthread_mutex_t first_mutex = PTHREAD_MUTEX_INITIALIZER, second_mutex = PTHREAD_MUTEX_INITIALIZER;

static void *take_second_then_first(void *unused)
{
	waiter_tid = gettid();
	pthread_mutex_lock(&second_mutex);
	send_byte(to_main);
	receive_byte(to_waiter);
	pthread_mutex_lock(&first_mutex);
	return unused;
}

static void *take_first_then_second(void *unused)
{
	pthread_mutex_lock(&first_mutex);
	send_byte(to_waiter);
	wait_until_blocked(getpid(), waiter_tid, SYS_futex);
	waiter_tid = gettid();
	send_byte(to_main);
	pthread_mutex_lock(&second_mutex);
	return unused;
}

static void deadlock(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, take_second_then_first, NULL))
		die("cannot make a thread");
	receive_byte(to_main);
	if (pthread_create(&thread, NULL, take_first_then_second, NULL))
		die("cannot make a thread");
	receive_byte(to_main);
	wait_until_blocked(getpid(), waiter_tid, SYS_futex);
}

static void make_pi_mutex(void)
{
	pthread_mutexattr_t attributes;

	if (pthread_mutexattr_init(&attributes) || pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) ||
	    pthread_mutex_init(&pi_mutex, &attributes))
		die("cannot make a mutex that inherits priority");
}

/* As in include/uapi/linux/futex.h of 6.7 and later. */
#define NR_FUTEX_WAITV 449
#define NR_FUTEX_WAKE  454
#define NR_FUTEX_WAIT  455
#define WORD_U32       2
#define WORD_PRIVATE   128
#define ALL_BITS       0xfffffffful

struct word_to_wait_for {
	__u64 value;
	__u64 address;
	__u32 flags;
	__u32 reserved;
};

/* arch/x86/entry/syscalls/syscall_32.tbl; from a 64-bit program, which may call so too */
#define NR_FUTEX_32  240
#define NR_GETPID_32 20

static long call_32(long number, void *address, long op)
{
#ifdef __x86_64__
	long result;

	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "a"(number), "b"(address), "c"(op), "d"(1l - (op & 1 ? 0 : 1)), "S"(0l), "D"(0l)
			 : "memory", "r8", "r9", "r10", "r11");
	return (int)result;
#else
	return -ENOSYS;
#endif
}

static void make_low_word(void)
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(call_32(NR_GETPID_32, NULL, 0) == getpid() ? 0 : 1);
	if (child < 0 || waitpid(child, &status, 0) != child || status)
		die("this kernel takes no system calls of 32-bit programs");
#ifdef MAP_32BIT
	low_word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	if (low_word == MAP_FAILED)
		die("mmap: %s", strerror(errno));
#endif
}

static long wait_for_word(void)
{
	const struct timespec minutes = {.tv_sec = 600};

	if (!strcmp(command.word, "calls32"))
		return call_32(NR_FUTEX_32, low_word, FUTEX_WAIT_PRIVATE);
	if (!strcmp(command.word, "restart"))
		return syscall(SYS_futex, &second_word, FUTEX_WAIT_PRIVATE, 0, &minutes, NULL, 0);
	struct word_to_wait_for words[] = {
		{.address = (__u64)(unsigned long)&first_word, .flags = WORD_U32 | WORD_PRIVATE},
		{.address = (__u64)(unsigned long)&second_word, .flags = WORD_U32 | WORD_PRIVATE},
	};

	if (!strcmp(command.word, "waitv"))
		return syscall(NR_FUTEX_WAITV, words, 2, 0, NULL, 0) - 1;
	if (!strcmp(command.word, "wait2"))
		return syscall(NR_FUTEX_WAIT, &second_word, 0ul, ALL_BITS, WORD_U32 | WORD_PRIVATE, NULL, 0);
	return syscall(SYS_futex, &first_word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

static void *wait_for_words(void *unused)
{
	waiter_tid = gettid();
	send_byte(to_main);
	for (__u64 i = 0; i < command.count; i++) {
		receive_byte(to_waiter);
		if (wait_for_word())
			die("%s: %s", command.word, strerror(errno));
		send_byte(to_main);
	}
	return unused;
}

static void wake_waiter(void)
{
	long woken;

	if (!strcmp(command.word, "calls32")) {
		woken = call_32(NR_FUTEX_32, low_word, FUTEX_WAKE_PRIVATE);
	} else if (!strcmp(command.word, "restart")) {
		woken = syscall(SYS_futex, &second_word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	} else if (strcmp(command.word, "requeue")) {
		woken = syscall(NR_FUTEX_WAKE, &second_word, ALL_BITS, 1, WORD_U32 | WORD_PRIVATE);
	} else {
		if (syscall(SYS_futex, &first_word, FUTEX_CMP_REQUEUE_PRIVATE, 0, 1ul, &second_word, 0) != 1)
			die("requeue: %s", strerror(errno));
		woken = syscall(SYS_futex, &second_word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
	}
	if (woken != 1)
		die("%s: %ld woken", command.word, woken);
}

static void wait_until_stopped(pid_t process, pid_t thread)
{
	char state = 0, path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", process, thread);
	while (state != 'T') {
		FILE *file = fopen(path, "re");

		if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
			_exit(1);
		fclose(file);
		usleep(1000);
	}
}

/* A child stops this process and lets it go on: both its threads, as one that is continued first waits once more. */
static void stop_and_go_on(void)
{
	pid_t parent = getpid(), child = fork();

	if (child < 0)
		die("fork: %s", strerror(errno));
	if (!child) {
		kill(parent, SIGSTOP);
		wait_until_stopped(parent, parent);
		wait_until_stopped(parent, waiter_tid);
		kill(parent, SIGCONT);
		_exit(0);
	}
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		continue;
}

static void words(long system_call)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, wait_for_words, NULL))
		die("cannot make a thread");
	receive_byte(to_main);
	for (__u64 i = 0; i < command.count; i++) {
		send_byte(to_waiter);
		wait_until_blocked(getpid(), waiter_tid, system_call);
		hold_for(command.microseconds);
		if (!strcmp(command.word, "restart")) {
			stop_and_go_on();
			wait_until_blocked(getpid(), waiter_tid, SYS_restart_syscall);
			hold_for(command.microseconds);
		}
		wake_waiter();
		receive_byte(to_main);
		waits++;
	}
	pthread_join(thread, NULL);
}

static void words_of_32_bits(void)
{
	make_low_word();
	words(NR_FUTEX_32);
}

static void *take_contended_mutex(void *unused)
{
	for (__u64 i = 0; i < command.count; i++) {
		pthread_mutex_lock(&contended_mutex);
		hold_for(command.microseconds);
		pthread_mutex_unlock(&contended_mutex);
	}
	return unused;
}

static void *do_work(void *unused)
{
	pthread_mutex_lock(&work_mutex);
	for (;;) {
		while (!work && !no_more_work)
			pthread_cond_wait(&work_condition, &work_mutex);
		if (!work)
			break;
		work--;
		__atomic_add_fetch(&done, 1, __ATOMIC_SEQ_CST);
	}
	pthread_mutex_unlock(&work_mutex);
	return unused;
}

static void give_work(void)
{
	for (__u64 i = 0; i < command.count; i++) {
		struct timespec pause = {command.microseconds / 1000000, command.microseconds % 1000000 * 1000};

		nanosleep(&pause, NULL);
		pthread_mutex_lock(&work_mutex);
		work++;
		pthread_mutex_unlock(&work_mutex);
		/* Outside of the mutex, so that the woken worker has no need to wait for it. */
		pthread_cond_signal(&work_condition);
	}
	while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) < command.count)
		usleep(1000);
	waits = done;
	done = 0;
	pthread_mutex_lock(&work_mutex);
	no_more_work = true;
	pthread_mutex_unlock(&work_mutex);
	pthread_cond_broadcast(&work_condition);
}

static void poll_for_nothing(void)
{
	pthread_mutex_lock(&poll_mutex);
	for (__u64 i = 0; i < command.count; i++) {
		struct timespec until;
		__u64 ns;

		clock_gettime(CLOCK_REALTIME, &until);
		ns = until.tv_nsec + command.microseconds * NSEC_PER_USEC;
		until.tv_sec += ns / NSEC_PER_SEC;
		until.tv_nsec = ns % NSEC_PER_SEC;
		if (pthread_cond_timedwait(&poll_condition, &poll_mutex, &until) != ETIMEDOUT)
			die("the condition came");
		waits++;
	}
	pthread_mutex_unlock(&poll_mutex);
}

static void with_threads(void *(*run)(void *), void (*meanwhile)(void))
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, run, NULL))
			die("cannot make a thread");
	if (meanwhile)
		meanwhile();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

int main(void)
{
	if (pipe(to_waiter) || pipe(to_main))
		die("pipe: %s", strerror(errno));
	make_pi_mutex();
	commands_open();
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("{\"event\": \"ready\", \"pid\": %d}\n", getpid());
	while (next_command(&command)) {
		waited_ns = waits = 0;
		no_more_work = false;
		if (!strcmp(command.word, "lock"))
			lock(&held_mutex);
		else if (!strcmp(command.word, "hold"))
			hold();
		else if (!strcmp(command.word, "release"))
			release();
		else if (!strcmp(command.word, "deadlock"))
			deadlock();
		else if (!strcmp(command.word, "pi"))
			lock(&pi_mutex);
		else if (!strcmp(command.word, "waitv"))
			words(NR_FUTEX_WAITV);
		else if (!strcmp(command.word, "wait2"))
			words(NR_FUTEX_WAIT);
		else if (!strcmp(command.word, "requeue"))
			words(SYS_futex);
		else if (!strcmp(command.word, "restart"))
			words(SYS_futex);
		else if (!strcmp(command.word, "calls32"))
			words_of_32_bits();
		else if (!strcmp(command.word, "contend"))
			with_threads(take_contended_mutex, NULL);
		else if (!strcmp(command.word, "work"))
			with_threads(do_work, give_work);
		else if (!strcmp(command.word, "poll"))
			poll_for_nothing();
		else
			die("no such command: %s", command.word);
		printf("{\"event\": \"done\", \"waits\": %llu, \"waited_ns\": %llu}\n", waits, waited_ns);
	}
	return 0;
}
