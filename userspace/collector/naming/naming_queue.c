// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "naming/naming_queue.h"
#include "naming/user_symbols.h"

#define MOST_WISHES 8192u
#define MOST_FOUND  512u
#define STEP_NS     10000000ull

struct waiting {
	struct naming_wish wish;
	__u64 asked_ns;
};

struct naming_queue {
	struct user_symbols *users; /* the thread's alone once it runs */
	pthread_t thread;
	bool running;

	pthread_mutex_t lock; /* of all below; never held while a name is looked for */
	pthread_cond_t changed;
	struct waiting wishes[MOST_WISHES];
	__u32 first_wish, wish_count;
	struct named found[MOST_FOUND];
	__u32 first_found, found_count;
	bool busy; /* the thread looks for a name */
	bool end;
	struct naming_queue_counts counts;
};

static void look_up(struct naming_queue *queue, const struct naming_wish *wish, struct named *out)
{
	memset(out, 0, sizeof(*out));
	out->wish = *wish;
	/* Best effort: the process may be gone. */
	user_symbols_lookup(queue->users, wish->tgid, wish->address, out->name, sizeof(out->name), &out->offset,
			    out->module, sizeof(out->module));
}

static void *work(void *context)
{
	struct naming_queue *queue = context;
	struct naming_counts helper;
	struct waiting next;
	struct named named;
	__u64 took;

	pthread_mutex_lock(&queue->lock);
	while (!queue->end) {
		if (!queue->wish_count || queue->found_count == MOST_FOUND) {
			pthread_cond_wait(&queue->changed, &queue->lock);
			continue;
		}
		next = queue->wishes[queue->first_wish];
		queue->first_wish = (queue->first_wish + 1) % MOST_WISHES;
		queue->wish_count--;
		queue->busy = true;
		pthread_mutex_unlock(&queue->lock);

		look_up(queue, &next.wish, &named);
		naming_client_counts(user_symbols_client(queue->users), &helper);
		took = now_ns() - next.asked_ns;

		pthread_mutex_lock(&queue->lock);
		queue->found[(queue->first_found + queue->found_count++) % MOST_FOUND] = named;
		queue->counts.helper = helper;
		if (took > queue->counts.longest_ns)
			queue->counts.longest_ns = took;
		queue->busy = false;
		pthread_cond_broadcast(&queue->changed);
	}
	pthread_mutex_unlock(&queue->lock);
	return NULL;
}

/* At the first wish: COMMAND is then running, and needs no fork of a program with threads. */
static bool run(struct naming_queue *queue)
{
	sigset_t all, before;

	if (queue->running)
		return true;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	queue->running = !pthread_create(&queue->thread, NULL, work, queue);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return queue->running;
}

void naming_queue_ask(struct naming_queue *queue, const struct naming_wish *wish)
{
	bool taken = run(queue);

	pthread_mutex_lock(&queue->lock);
	taken = taken && queue->wish_count < MOST_WISHES;
	if (taken)
		queue->wishes[(queue->first_wish + queue->wish_count++) % MOST_WISHES] =
			(struct waiting){*wish, now_ns()};
	else
		queue->counts.dropped++;
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
}

static bool take_one(struct naming_queue *queue, struct named *out)
{
	bool any;

	pthread_mutex_lock(&queue->lock);
	any = queue->found_count;
	if (any) {
		*out = queue->found[queue->first_found];
		queue->first_found = (queue->first_found + 1) % MOST_FOUND;
		if (queue->found_count-- == MOST_FOUND)
			pthread_cond_broadcast(&queue->changed);
	}
	pthread_mutex_unlock(&queue->lock);
	return any;
}

int naming_queue_take(struct naming_queue *queue, int (*take)(void *context, const struct named *named), void *context)
{
	struct named named;
	int err = 0;

	for (__u32 i = 0; !err && i < MOST_FOUND && take_one(queue, &named); i++)
		err = take(context, &named);
	return err;
}

/* Waits for a moment at most; false: nothing is left. */
static bool wait_for_more(struct naming_queue *queue)
{
	struct timespec until;
	bool left;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += STEP_NS;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&queue->lock);
	if (!queue->found_count && (queue->wish_count || queue->busy))
		pthread_cond_timedwait(&queue->changed, &queue->lock, &until);
	left = queue->found_count || queue->wish_count || queue->busy;
	pthread_mutex_unlock(&queue->lock);
	return left;
}

int naming_queue_settle(struct naming_queue *queue, __u64 most_ns,
			int (*take)(void *context, const struct named *named), void *context)
{
	const __u64 deadline = now_ns() + most_ns;
	int err = naming_queue_take(queue, take, context);

	while (!err && queue->running && wait_for_more(queue) && now_ns() < deadline)
		err = naming_queue_take(queue, take, context);
	pthread_mutex_lock(&queue->lock);
	queue->counts.dropped += queue->wish_count + queue->busy;
	queue->wish_count = 0;
	pthread_mutex_unlock(&queue->lock);
	return err ?: naming_queue_take(queue, take, context);
}

void naming_queue_counts(struct naming_queue *queue, struct naming_queue_counts *out)
{
	pthread_mutex_lock(&queue->lock);
	*out = queue->counts;
	pthread_mutex_unlock(&queue->lock);
}

int naming_queue_open(struct naming_queue **out, unsigned int max_processes)
{
	struct naming_queue *queue = calloc(1, sizeof(*queue));
	int err;

	if (!queue)
		return -ENOMEM;
	err = user_symbols_open(&queue->users, max_processes);
	if (err) {
		free(queue);
		return err;
	}
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->changed, NULL);
	*out = queue;
	return 0;
}

void naming_queue_close(struct naming_queue *queue)
{
	if (!queue)
		return;
	naming_client_give_up(user_symbols_client(queue->users));
	pthread_mutex_lock(&queue->lock);
	queue->end = true;
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
	if (queue->running)
		pthread_join(queue->thread, NULL);
	user_symbols_close(queue->users);
	pthread_cond_destroy(&queue->changed);
	pthread_mutex_destroy(&queue->lock);
	free(queue);
}
