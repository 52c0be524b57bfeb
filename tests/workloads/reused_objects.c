// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * reused_objects pipe|eventfd|timerfd|socket [REST_US]: two long-lived objects of the kernel with a lock in each, and
 * others of the same kind that come and go.  The threads rest for so long after some uses, where their number does not
 * matter.
 *
 * "use N" has threads on CPU 0 and 1 contend for the lock of object N (0 or 1) until another one is named; "rest": for
 * none.  "reuse COUNT": each of these threads makes and closes COUNT further objects meanwhile.  "close N" closes
 * object N, whose memory the next one may get.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "workload.h"

#define THREADS 2
#define OBJECTS 2
#define USES    1000 /* before "use" is answered */
#define BYTES   512
#define BURST   32 /* uses before a rest */

struct object {
	int fds[2]; /* -1: none */
};

struct kind {
	const char *name;
	int (*open)(int fds[2]);
	void (*use)(const int fds[2], int cpu);
};

static int open_pipe(int fds[2])
{
	return pipe2(fds, O_CLOEXEC | O_NONBLOCK);
}

static int open_eventfd(int fds[2])
{
	fds[0] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return fds[0];
}

static int open_timerfd(int fds[2])
{
	fds[0] = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	return fds[0];
}

static int open_sockets(int fds[2])
{
	return socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds);
}

static void check(ssize_t result)
{
	if (result < 0 && errno != EAGAIN)
		die("cannot use an object: %s", strerror(errno));
}

static void from_end_to_end(const int fds[2], int cpu)
{
	char bytes[BYTES] = {};

	check(cpu ? read(fds[0], bytes, sizeof(bytes)) : write(fds[1], bytes, sizeof(bytes)));
}

static void count(const int fds[2], int cpu)
{
	__u64 number = 1;

	check(cpu ? read(fds[0], &number, sizeof(number)) : write(fds[0], &number, sizeof(number)));
}

static void ask_time(const int fds[2], int cpu)
{
	struct itimerspec left;

	check(timerfd_gettime(fds[0], &left));
}

static const struct kind kinds[] = {
	{"pipe", open_pipe, from_end_to_end},
	{"eventfd", open_eventfd, count},
	{"timerfd", open_timerfd, ask_time},
	{"socket", open_sockets, from_end_to_end},
};

static const struct kind *kind;
static struct object objects[OBJECTS];
static int used = -1;
static long rest_ns; /* 0: they do not */
static __u64 rounds[THREADS], left[THREADS];

static void make(struct object *object)
{
	object->fds[0] = object->fds[1] = -1;
	if (kind->open(object->fds) < 0)
		die("cannot make a %s: %s", kind->name, strerror(errno));
}

static void unmake(struct object *object)
{
	for (int i = 0; i < 2; i++) {
		if (object->fds[i] >= 0)
			close(object->fds[i]);
		object->fds[i] = -1;
	}
}

static void *run(void *argument)
{
	const struct timespec pause = {.tv_nsec = 100 * NSEC_PER_USEC}, rest = {.tv_nsec = rest_ns};
	long cpu = (long)argument;

	pin_to_cpu(cpu);
	for (;;) {
		int number = __atomic_load_n(&used, __ATOMIC_ACQUIRE);

		if (number >= 0)
			kind->use(objects[number].fds, cpu);
		if (__atomic_load_n(&left[cpu], __ATOMIC_ACQUIRE)) {
			struct object other;

			make(&other);
			unmake(&other);
			__atomic_fetch_sub(&left[cpu], 1, __ATOMIC_RELEASE);
		} else if (number < 0) {
			nanosleep(&pause, NULL);
		} else if (rest_ns && rounds[cpu] % BURST == 0) {
			nanosleep(&rest, NULL);
		}
		__atomic_fetch_add(&rounds[cpu], 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void wait_for_rounds(__u64 more)
{
	const struct timespec pause = {.tv_nsec = 100 * NSEC_PER_USEC};

	for (int cpu = 0; cpu < THREADS; cpu++) {
		__u64 until = __atomic_load_n(&rounds[cpu], __ATOMIC_ACQUIRE) + more;

		while (__atomic_load_n(&rounds[cpu], __ATOMIC_ACQUIRE) < until)
			nanosleep(&pause, NULL);
	}
}

static void use(int number)
{
	__atomic_store_n(&used, number, __ATOMIC_RELEASE);
	/* The round that is under way may be about the one before. */
	wait_for_rounds(number < 0 ? 2 : USES);
}

static void reuse(__u64 number)
{
	const struct timespec pause = {.tv_nsec = 100 * NSEC_PER_USEC};

	for (int cpu = 0; cpu < THREADS; cpu++)
		__atomic_store_n(&left[cpu], number, __ATOMIC_RELEASE);
	for (int cpu = 0; cpu < THREADS; cpu++)
		while (__atomic_load_n(&left[cpu], __ATOMIC_ACQUIRE))
			nanosleep(&pause, NULL);
}

static struct object *named(const struct command *command)
{
	if (command->count >= OBJECTS)
		die("there is no object %llu", command->count);
	return &objects[command->count];
}

static void obey(const struct command *command)
{
	struct object *object = named(command);
	int number = object - objects;

	if (object->fds[0] < 0)
		die("object %d is closed", number);
	if (!strcmp(command->word, "use")) {
		use(number);
		return;
	}
	if (used == number)
		use(-1);
	unmake(object);
}

int main(int argc, char **argv)
{
	struct command command;
	pthread_t thread;

	for (size_t i = 0; (argc == 2 || argc == 3) && i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strcmp(argv[1], kinds[i].name))
			kind = &kinds[i];
	if (!kind)
		die("usage: reused_objects pipe|eventfd|timerfd|socket [REST_US]");
	rest_ns = argc == 3 ? atol(argv[2]) * NSEC_PER_USEC : 0;
	commands_open();
	for (int i = 0; i < OBJECTS; i++)
		make(&objects[i]);
	for (long cpu = 0; cpu < THREADS; cpu++)
		if (pthread_create(&thread, NULL, run, (void *)cpu))
			die("cannot make a thread");
	printf("{\"event\": \"ready\", \"pid\": %d}\n", getpid());
	while (next_command(&command)) {
		if (!strcmp(command.word, "rest"))
			use(-1);
		else if (!strcmp(command.word, "reuse"))
			reuse(command.count);
		else if (!strcmp(command.word, "use") || !strcmp(command.word, "close"))
			obey(&command);
		else
			die("unknown command '%s'; use, rest, reuse and close are known", command.word);
		printf("{\"event\": \"%s\", \"count\": %llu}\n", command.word, command.count);
	}
	return 0;
}
