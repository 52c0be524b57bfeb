// SPDX-License-Identifier: GPL-2.0-or-later
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "futex/futex_names.h"
#include "futex/futex_waiting.h"
#include "tap.h"

#define BEGIN_NS 12345
#define ROUNDS   40

struct waiter {
	pthread_t thread;
	__u32 tid;
	__u32 word; /* waited for while it is 1 */
	bool restless;
};

/* Of probes.c; the tests choose threads. */
bool probes_followed(const struct probes *probes, __u32 tgid)
{
	return false;
}

static long futex(__u32 *word, int op, __u32 value, const struct timespec *timeout)
{
	return syscall(SYS_futex, word, op | FUTEX_PRIVATE, value, timeout, NULL, 0);
}

static void *wait_for_word(void *argument)
{
	const struct timespec soon = {.tv_nsec = 20000};
	struct waiter *waiter = argument;

	__atomic_store_n(&waiter->tid, gettid(), __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&waiter->word, __ATOMIC_SEQ_CST))
		futex(&waiter->word, FUTEX_OP_WAIT, 1, waiter->restless ? &soon : NULL);
	return NULL;
}

static void start(struct waiter *waiter, bool restless)
{
	*waiter = (struct waiter){.word = 1, .restless = restless};
	pthread_create(&waiter->thread, NULL, wait_for_word, waiter);
	while (!__atomic_load_n(&waiter->tid, __ATOMIC_SEQ_CST))
		usleep(1000);
}

static void stop(struct waiter *waiter)
{
	__atomic_store_n(&waiter->word, 0, __ATOMIC_SEQ_CST);
	futex(&waiter->word, FUTEX_OP_WAKE, 1, NULL);
	pthread_join(waiter->thread, NULL);
}

static __u32 meet(struct futex_slot *slots, struct waiter *waiter)
{
	struct options options = {.tids = {.ids = &waiter->tid, .count = 1}};
	const struct futex_slots table = {slots, FUTEX_LEAST_SLOTS - 1};

	return futex_meet_waiting(&table, NULL, &options, BEGIN_NS).count;
}

static struct futex_slot *home_of(struct futex_slot *slots, __u32 tid)
{
	return &slots[tid & (FUTEX_LEAST_SLOTS - 1)];
}

static void a_thread_that_is_asleep(void)
{
	struct futex_slot *slots = calloc(FUTEX_LEAST_SLOTS, sizeof(*slots)), *slot;
	struct waiter waiter;

	start(&waiter, false);
	/* It has a tid before it sleeps. */
	while (!meet(slots, &waiter))
		usleep(1000);
	slot = home_of(slots, waiter.tid);
	CHECK(slot->tid == waiter.tid, "%u, wanted %u", slot->tid, waiter.tid);
	CHECK(slot->tgid == (__u32)getpid(), "%u", slot->tgid);
	CHECK(slot->address == (__u64)&waiter.word, "%llx", slot->address);
	CHECK(slot->begin_ns == BEGIN_NS, "%llu", slot->begin_ns);
	CHECK(slot->op == FUTEX_OP_WAIT && !slot->flags, "op %u, flags %u", slot->op, slot->flags);
	CHECK(slot->value == 1 && slot->word == 1, "%u, %u", slot->value, slot->word);
	stop(&waiter);
	free(slots);
}

static void a_thread_that_has_a_slot(void)
{
	struct futex_slot *slots = calloc(FUTEX_LEAST_SLOTS, sizeof(*slots)), *home, *next;
	struct waiter waiter;

	start(&waiter, false);
	while (!meet(slots, &waiter))
		usleep(1000);
	home = home_of(slots, waiter.tid);
	next = home_of(slots, waiter.tid + 1);
	*next = *home;
	*home = (struct futex_slot){.displaced = 1};
	next->begin_ns = 1;
	CHECK(!meet(slots, &waiter), "met again");
	CHECK(!home->tid && home->displaced == 1, "%u, %u", home->tid, home->displaced);
	CHECK(next->tid == waiter.tid && next->begin_ns == 1, "%u, %llu", next->tid, next->begin_ns);
	stop(&waiter);
	free(slots);
}

static void no_slot_stays_of_a_thread_that_left(void)
{
	struct futex_slot *slots = calloc(FUTEX_LEAST_SLOTS, sizeof(*slots)), *home;
	struct waiter waiter;

	start(&waiter, true);
	home = home_of(slots, waiter.tid);
	/* Another one has its home. */
	home->tid = waiter.tid + FUTEX_LEAST_SLOTS;
	for (int i = 0; i < ROUNDS; i++) {
		__u32 met = meet(slots, &waiter), used = 0;

		for (__u32 at = 0; at < FUTEX_LEAST_SLOTS; at++)
			used += slots[at].tid && &slots[at] != home;
		CHECK(used == met && home->displaced == met, "%u met, %u slots, %u displaced", met, used,
		      home->displaced);
		/* One that was asleep all the while is kept; the programs would see it leave. */
		for (__u32 at = 0; at < FUTEX_LEAST_SLOTS; at++)
			if (&slots[at] != home)
				slots[at] = (struct futex_slot){};
		home->displaced = 0;
	}
	stop(&waiter);
	free(slots);
}

/* Of a process of its own: one thread has the mutex, the others wait for good. */
struct hung {
	pthread_mutex_t mutex;
	__u32 waits_for_mutex, waits_for_word;
	__u32 words[3]; /* as a mutex has them, without an owner */
};

static void *wait_for_mutex(void *argument)
{
	struct hung *hung = argument;

	__atomic_store_n(&hung->waits_for_mutex, gettid(), __ATOMIC_SEQ_CST);
	pthread_mutex_lock(&hung->mutex);
	return NULL;
}

static void *wait_idle(void *argument)
{
	struct hung *hung = argument;

	__atomic_store_n(&hung->waits_for_word, gettid(), __ATOMIC_SEQ_CST);
	for (;;)
		futex(hung->words, FUTEX_OP_WAIT, 0, NULL);
	return NULL;
}

static pid_t hang(struct hung *hung)
{
	pid_t pid = fork();
	pthread_t thread;

	if (pid)
		return pid;
	pthread_mutex_init(&hung->mutex, NULL);
	pthread_mutex_lock(&hung->mutex);
	pthread_create(&thread, NULL, wait_for_mutex, hung);
	pthread_create(&thread, NULL, wait_idle, hung);
	for (;;)
		pause();
}

static struct futex_slot *slot_of(struct futex_slot *slots, __u32 count, __u32 tid)
{
	for (__u32 i = 0; i < count; i++)
		if (slots[i].tid == tid)
			return &slots[i];
	return NULL;
}

static void of_a_whole_machine_those_who_wait_for_an_owner(void)
{
	struct hung *hung = mmap(NULL, sizeof(*hung), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct futex_slot *slots = calloc(FUTEX_MOST_SLOTS, sizeof(*slots)), *slot = NULL;
	const struct futex_slots table = {slots, FUTEX_MOST_SLOTS - 1};
	struct options options = {.all = true};
	pid_t pid = hang(hung);

	while (!__atomic_load_n(&hung->waits_for_word, __ATOMIC_SEQ_CST))
		usleep(1000);
	/* On a busy machine the time for a look may end before all are looked at. */
	while (!slot) {
		__u32 tid = __atomic_load_n(&hung->waits_for_mutex, __ATOMIC_SEQ_CST);

		futex_meet_waiting(&table, NULL, &options, BEGIN_NS);
		slot = tid ? slot_of(slots, FUTEX_MOST_SLOTS, tid) : NULL;
		usleep(1000);
	}
	CHECK(slot->address == (__u64)&hung->mutex && slot->owner == (__u32)pid, "%llx, owner %u", slot->address,
	      slot->owner);
	CHECK(!slot_of(slots, FUTEX_MOST_SLOTS, hung->waits_for_word), "an idle thread has a slot");
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	munmap(hung, sizeof(*hung));
	free(slots);
}

static void whom_an_event_calls_the_owner(void)
{
	const struct futex_event mutex = {.op = FUTEX_WAIT, .word = 2, .owner = 1234, .flags = FUTEX_EVENT_SHARED};
	const struct futex_event pi = {.op = FUTEX_LOCK_PI, .word = FUTEX_WAITERS | 4321, .owner = 7};
	struct futex_event semaphore = mutex;

	CHECK(futex_event_owner(&mutex) == 1234, "glibc's mutex: behind its word");
	CHECK(futex_event_owner(&pi) == 4321, "in the word");
	/* How glibc shares it is no thread, whatever thread has that number. */
	semaphore.flags |= FUTEX_EVENT_SEM;
	semaphore.owner = 128;
	CHECK(!futex_event_owner(&semaphore), "a semaphore: %u", futex_event_owner(&semaphore));
}

int main(void)
{
	static const struct test tests[] = {
		TEST(a_thread_that_is_asleep),
		TEST(a_thread_that_has_a_slot),
		TEST(no_slot_stays_of_a_thread_that_left),
		TEST(of_a_whole_machine_those_who_wait_for_an_owner),
		TEST(whom_an_event_calls_the_owner),
	};

	return RUN_TESTS(tests);
}
