// SPDX-License-Identifier: GPL-2.0-or-later
/* Wishes for names that found no answer at first, or no room: the process lives, and its lock may wait no more. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "naming/naming_queue.h"
#include "naming/user_symbols.h"
#include "tap.h"

/* A busy machine may take long; a name that does not come fails after this. */
#define DEADLINE_S 30
/* More than any queue takes. */
#define FLOOD 200000

static atomic_int lookups, refusals;
static atomic_bool stopped;

/* So many lookups do not get an answer. */
int user_symbols_lookup(struct user_symbols *users, __u32 tgid, __u64 address, char *name, size_t name_size,
			__u64 *offset, char *module, size_t module_size)
{
	while (atomic_load(&stopped))
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	*name = *module = 0;
	*offset = 0;
	atomic_fetch_add(&lookups, 1);
	if (atomic_load(&refusals) > 0) {
		atomic_fetch_sub(&refusals, 1);
		return -EAGAIN;
	}
	/* Of the others nothing is known: they are gone. */
	if (tgid == 7) {
		snprintf(name, name_size, "held_mutex");
		snprintf(module, module_size, "/program");
	}
	return 0;
}

int user_symbols_open(struct user_symbols **out, unsigned int max_processes)
{
	*out = NULL;
	return 0;
}

void user_symbols_close(struct user_symbols *users)
{
}

void user_symbols_maps_again(struct user_symbols *users)
{
}

struct naming_client *user_symbols_client(struct user_symbols *users)
{
	return NULL;
}

void naming_client_counts(const struct naming_client *client, struct naming_counts *out)
{
	*out = (struct naming_counts){};
}

void naming_client_give_up(struct naming_client *client)
{
}

struct user_unwind *user_unwind_open(struct naming_client *client)
{
	return NULL;
}

void user_unwind_close(struct user_unwind *unwind)
{
}

int user_unwind(struct user_unwind *unwind, const struct user_stack *stack, __u64 *frames)
{
	return 0;
}

bool user_unwind_name(struct user_unwind *unwind, __u32 tgid, __u64 address, bool meet, char *name, size_t size,
		      __u64 *offset)
{
	return false;
}

__u64 user_unwind_cpu_ns(const struct user_unwind *unwind)
{
	return 0;
}

__u64 user_unwind_look_due(const struct user_unwind *unwind)
{
	return 0;
}

bool user_unwind_look(struct user_unwind *unwind, struct monitor_look *out)
{
	return false;
}

static int names, others;

static int take_name(void *context, const struct named *named)
{
	names += named->wish.tgid == 7 && !strcmp(named->name, "held_mutex");
	others += named->wish.tgid != 7;
	return 0;
}

static const struct naming_taker taker = {.name = take_name};
static const struct naming_wish wish = {.thing = NAMED_FUTEX, .tgid = 7, .address = 0x1000, .id = 3};

/* As the reader of the rings does: at each of its rounds. */
static void take_for(struct naming_queue *queue, int wanted)
{
	for (int i = 0; i < DEADLINE_S * 100 && names < wanted; i++) {
		CHECK(!naming_queue_take(queue, &taker), "take");
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	}
}

static struct naming_queue *begin(int refused)
{
	struct naming_queue *queue = NULL;

	names = others = 0;
	atomic_store(&lookups, 0);
	atomic_store(&refusals, refused);
	CHECK(!naming_queue_open(&queue, 1), "no queue");
	return queue;
}

/* While the recording goes on: a lock that is waited for five times comes to no other question. */
static void what_could_not_be_read_is_asked_again(void)
{
	struct naming_queue *queue = begin(2);

	CHECK(naming_queue_ask(queue, &wish), "there is room");
	take_for(queue, 1);
	CHECK(names == 1 && atomic_load(&lookups) == 3, "%d names after %d lookups", names, atomic_load(&lookups));
	naming_queue_close(queue);
}

static void what_is_never_answered_ends(void)
{
	struct naming_queue *queue = begin(1 << 30);

	CHECK(naming_queue_ask(queue, &wish), "there is room");
	CHECK(!naming_queue_settle(queue, 100000000, &taker), "settle");
	CHECK(!names && atomic_load(&lookups) <= 3, "%d lookups", atomic_load(&lookups));
	naming_queue_close(queue);
}

static void what_found_no_room_is_asked_again(void)
{
	struct naming_wish gone = wish;
	struct naming_queue *queue = begin(0);
	struct naming_queue_counts counts;
	int refused = 0;

	atomic_store(&stopped, true);
	gone.tgid = 8;
	for (int i = 0; i < FLOOD; i++)
		refused += !naming_queue_ask(queue, &gone);
	CHECK(refused > 0, "the queue has no bound");
	refused += !naming_queue_ask(queue, &wish);
	naming_queue_counts(queue, &counts);
	CHECK((int)counts.dropped == refused, "%llu counted of %d", counts.dropped, refused);
	CHECK(!naming_queue_ask_again(queue, &wish), "there is no room yet");
	atomic_store(&stopped, false);
	for (int i = 0; i < DEADLINE_S * 100 && !naming_queue_ask_again(queue, &wish); i++) {
		CHECK(!naming_queue_take(queue, &taker), "take");
		nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
	}
	take_for(queue, 1);
	CHECK(names == 1 && !others, "%d names, and %d of processes of which nothing is known", names, others);
	naming_queue_counts(queue, &counts);
	CHECK((int)counts.dropped == refused - 1, "%llu counted of %d", counts.dropped, refused - 1);
	naming_queue_close(queue);
}

int main(void)
{
	static const struct test tests[] = {
		TEST(what_could_not_be_read_is_asked_again),
		TEST(what_is_never_answered_ends),
		TEST(what_found_no_room_is_asked_again),
	};

	return RUN_TESTS(tests);
}
