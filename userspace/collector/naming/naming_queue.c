// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"
#include "naming/naming_queue.h"
#include "naming/user_symbols.h"

/* 3 MiB, as far as they are used: while the helper reads one large file, all others wait. */
#define MOST_WISHES 65536u
#define MOST_FOUND  512u
/*
 * What has no name now and may have one later: frames of code without a file, whose map its process may write when it
 * ends, are asked again at the end.  What was in the way of the others passes: they are asked again after so long, and
 * each time after twice as long.
 */
#define MOST_UNNAMED 4096u
#define MOST_AT_END  3072u
#define AGAIN_NS     1000000000ull
#define MOST_TRIES   6
/* 9 MiB, as far as they are used. */
#define MOST_SAMPLES 1024u
/* At monitors; those that find no room are left out. */
#define MOST_LOOKS 32u
#define STEP_NS    10000000ull
/* Of CPU time that counts for one stack. */
#define MOST_STACK_NS 2000000ull
#define MOST_SINCE    16
#define GIVE_UP_NS    2000000000ull

struct waiting {
	struct naming_wish wish;
	__u32 tries;
	__u64 asked_ns; /* of those without a name: when they are asked again; 0: at the end */
};

struct naming_queue {
	struct user_symbols *users; /* the thread's alone once it runs */
	struct user_unwind *unwind; /* likewise; NULL: no memory for it */
	pthread_t thread;
	bool running;

	pthread_mutex_t lock; /* of all below; never held while a name is looked for */
	pthread_cond_t changed;
	struct waiting wishes[MOST_WISHES];
	__u32 first_wish, wish_count;
	struct waiting unnamed[MOST_UNNAMED];
	__u32 unnamed_count;
	__u64 again_ns; /* when the next one of them is asked again; 0: none is */
	struct named found[MOST_FOUND];
	__u32 first_found, found_count;
	struct naming_sample
		samples[MOST_SAMPLES]; /* those that are done, then those that wait, the first maybe in work */
	__u32 first_sample, samples_done, samples_waiting;
	struct monitor_look looks[MOST_LOOKS];
	__u32 first_look, look_count;
	bool names_turn; /* the next is a name, if there is one */
	bool busy;       /* the thread looks for a name, or unwinds */
	bool asked;      /* it is to be woken: see naming_queue_take() */
	bool waited_for; /* somebody waits for what it does */
	bool again;      /* these are the unnamed: what is known of them stays */
	bool maps_again; /* maps that may have been written since are read for them */
	bool stuck;      /* the thread did not come back: it and this are left as they are */
	bool settled;    /* nothing more is looked for */
	bool end;
	struct naming_queue_counts counts;
	__u64 stacks_cpu_ns; /* that samples' stacks took */
	__u64 seen_cpu_ns;   /* until the thread's last rest, all that it did */
	__u32 since;         /* stacks since then */
};

static bool is_unnamed(const struct named *named)
{
	return named->wish.thing == NAMED_FRAME && !*named->name && !strcmp(named->module, "[anon]");
}

/* Of code that a JVM made, or of a function of Python; meet: also where no stack of the process was unwound. */
static bool name_by_run_time(struct naming_queue *queue, struct named *out, bool meet)
{
	if (out->wish.thing != NAMED_FRAME || !queue->unwind ||
	    !user_unwind_name(queue->unwind, out->wish.tgid, out->wish.address, meet, out->name, sizeof(out->name),
			      &out->offset))
		return false;
	snprintf(out->module, sizeof(out->module), strncmp(out->name, "py::", 4) ? "[java]" : "[python]");
	return true;
}

/* Whether it may have a name later. */
static bool look_up(struct naming_queue *queue, const struct naming_wish *wish, struct named *out)
{
	int err;

	memset(out, 0, sizeof(*out));
	out->wish = *wish;
	/* Of a JVM by itself, which a map that it wrote may be older than. */
	if (name_by_run_time(queue, out, false))
		return false;
	/* Best effort: the process may be gone. */
	err = user_symbols_lookup(queue->users, wish->tgid, wish->address, out->name, sizeof(out->name), &out->offset,
				  out->module, sizeof(out->module));
	if (is_unnamed(out))
		name_by_run_time(queue, out, true);
	return err == -EAGAIN || is_unnamed(out);
}

/* Of two moments, of which 0 is none. */
static __u64 earlier(__u64 one, __u64 other)
{
	return !one || (other && other < one) ? other : one;
}

/* at_end: it may have a name then, and hardly before. */
static void keep_unnamed(struct naming_queue *queue, const struct waiting *asked, bool at_end)
{
	struct waiting *kept = &queue->unnamed[queue->unnamed_count];

	if (queue->unnamed_count >= (at_end ? MOST_AT_END : MOST_UNNAMED))
		return;
	queue->unnamed_count++;
	*kept = *asked;
	kept->asked_ns = 0;
	if (at_end || asked->tries == MOST_TRIES)
		return;
	kept->asked_ns = now_ns() + (AGAIN_NS << kept->tries++);
	queue->again_ns = earlier(queue->again_ns, kept->asked_ns);
}

static bool put_wish(struct naming_queue *queue, const struct naming_wish *wish, __u32 tries)
{
	if (queue->settled || queue->wish_count == MOST_WISHES)
		return false;
	queue->wishes[(queue->first_wish + queue->wish_count++) % MOST_WISHES] =
		(struct waiting){.wish = *wish, .tries = tries, .asked_ns = now_ns()};
	return true;
}

/* Those whose time has come are wishes once more. */
static void ask_due(struct naming_queue *queue, __u64 now)
{
	__u32 kept = 0;

	if (!queue->again_ns || now < queue->again_ns)
		return;
	queue->again_ns = 0;
	for (__u32 i = 0; i < queue->unnamed_count; i++) {
		struct waiting unnamed = queue->unnamed[i];

		if (unnamed.asked_ns && unnamed.asked_ns <= now) {
			if (put_wish(queue, &unnamed.wish, unnamed.tries))
				continue;
			unnamed.asked_ns = now + AGAIN_NS;
		}
		queue->again_ns = earlier(queue->again_ns, unnamed.asked_ns);
		queue->unnamed[kept++] = unnamed;
	}
	queue->unnamed_count = kept;
}

static void find_name(struct naming_queue *queue)
{
	struct waiting next = queue->wishes[queue->first_wish];
	const bool maps_are_old = queue->again && !queue->maps_again;
	struct named named;
	bool later;
	__u64 took;

	queue->maps_again |= maps_are_old;
	queue->first_wish = (queue->first_wish + 1) % MOST_WISHES;
	queue->wish_count--;
	pthread_mutex_unlock(&queue->lock);

	if (maps_are_old)
		user_symbols_maps_again(queue->users);
	later = look_up(queue, &next.wish, &named);
	took = now_ns() - next.asked_ns;

	pthread_mutex_lock(&queue->lock);
	/* The recording has nothing of it yet: that nothing is known is nothing new. */
	if (*named.name || (*named.module && !queue->again))
		queue->found[(queue->first_found + queue->found_count++) % MOST_FOUND] = named;
	if (!queue->again && later)
		keep_unnamed(queue, &next, is_unnamed(&named));
	if (took > queue->counts.longest_ns)
		queue->counts.longest_ns = took;
}

static struct naming_sample *sample_at(struct naming_queue *queue, __u32 number)
{
	return &queue->samples[(queue->first_sample + number) % MOST_SAMPLES];
}

static void find_frames(struct naming_queue *queue)
{
	struct naming_sample *sample = sample_at(queue, queue->samples_done);
	__u64 frames[NAMING_FRAMES];
	int count = 0;

	/* Its place is the thread's while it waits. */
	pthread_mutex_unlock(&queue->lock);
	if (queue->unwind)
		count = user_unwind(queue->unwind, &sample->stack, frames);
	if (count > 1) {
		memcpy(sample->frames, frames, count * sizeof(*frames));
		sample->count = count;
	}
	pthread_mutex_lock(&queue->lock);
	queue->samples_done++;
	queue->samples_waiting--;
	queue->since++;
}

/* What stacks took, with their names: not at each one, as the clock of CPU time costs as much as one that is known. */
static void count_cpu(struct naming_queue *queue)
{
	const __u64 cpu_ns = queue->unwind ? user_unwind_cpu_ns(queue->unwind) : 0;
	const __u64 took = cpu_ns - queue->seen_cpu_ns, most = MOST_STACK_NS * queue->since;

	/* Those that take longer read what all others need: a program's tables. */
	queue->stacks_cpu_ns += took < most ? took : most;
	queue->seen_cpu_ns = cpu_ns;
	queue->since = 0;
}

static void find_waiters(struct naming_queue *queue)
{
	struct monitor_look look;
	bool found;

	pthread_mutex_unlock(&queue->lock);
	found = user_unwind_look(queue->unwind, &look);
	pthread_mutex_lock(&queue->lock);
	if (found && queue->look_count < MOST_LOOKS)
		queue->looks[(queue->first_look + queue->look_count++) % MOST_LOOKS] = look;
}

/* For a wish or a sample, or until then; 0: for as long as it takes. */
static void wait_until(struct naming_queue *queue, __u64 until_ns)
{
	if (until_ns)
		thread_wait_until(&queue->changed, &queue->lock, until_ns);
	else
		pthread_cond_wait(&queue->changed, &queue->lock);
}

static void *work(void *context)
{
	struct naming_queue *queue = context;

	pthread_mutex_lock(&queue->lock);
	while (!queue->end) {
		const __u64 now = now_ns();
		const __u64 look = queue->unwind && !queue->settled ? user_unwind_look_due(queue->unwind) : 0;
		const bool looks = look && look <= now;
		bool names;

		ask_due(queue, now);
		names = queue->wish_count && queue->found_count < MOST_FOUND;

		if (queue->since && (queue->since >= MOST_SINCE || !queue->samples_waiting))
			count_cpu(queue);
		if (queue->settled || (!names && !queue->samples_waiting && !looks)) {
			wait_until(queue, earlier(look, queue->again_ns));
			continue;
		}
		queue->busy = true;
		if (looks)
			find_waiters(queue);
		else if (names && (queue->names_turn || !queue->samples_waiting))
			find_name(queue);
		else
			find_frames(queue);
		queue->names_turn = !queue->names_turn;
		naming_client_counts(user_symbols_client(queue->users), &queue->counts.helper);
		queue->busy = false;
		if (queue->waited_for)
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

static bool ask(struct naming_queue *queue, const struct naming_wish *wish, bool again)
{
	bool taken = run(queue);

	pthread_mutex_lock(&queue->lock);
	taken = taken && put_wish(queue, wish, 0);
	if (!again)
		queue->counts.dropped += !taken;
	else
		queue->counts.dropped -= taken;
	queue->asked |= taken;
	pthread_mutex_unlock(&queue->lock);
	return taken;
}

bool naming_queue_ask(struct naming_queue *queue, const struct naming_wish *wish)
{
	return ask(queue, wish, false);
}

bool naming_queue_ask_again(struct naming_queue *queue, const struct naming_wish *wish)
{
	return ask(queue, wish, true);
}

struct naming_sample *naming_queue_place(struct naming_queue *queue)
{
	struct naming_sample *place = NULL;
	bool running = run(queue);
	__u32 used;

	pthread_mutex_lock(&queue->lock);
	used = queue->samples_done + queue->samples_waiting;
	/* The thread moves it from those that wait to those that are done, and touches no place behind them. */
	if (running && !queue->settled && used < MOST_SAMPLES)
		place = sample_at(queue, used);
	else
		queue->counts.not_unwound++;
	pthread_mutex_unlock(&queue->lock);
	return place;
}

void naming_queue_unwind(struct naming_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->samples_waiting++;
	queue->asked = true;
	pthread_mutex_unlock(&queue->lock);
}

/* Once for all that was asked since: each time is a switch, and the thread would wait for the lock first. */
static void wake(struct naming_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	if (queue->asked)
		pthread_cond_broadcast(&queue->changed);
	queue->asked = false;
	pthread_mutex_unlock(&queue->lock);
}

static bool take_name(struct naming_queue *queue, struct named *out)
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

/* NULL: none is done.  Its place is the caller's until it is dropped. */
static const struct naming_sample *see_sample(struct naming_queue *queue)
{
	const struct naming_sample *sample;

	pthread_mutex_lock(&queue->lock);
	sample = queue->samples_done ? sample_at(queue, 0) : NULL;
	pthread_mutex_unlock(&queue->lock);
	return sample;
}

static void drop_sample(struct naming_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->first_sample = (queue->first_sample + 1) % MOST_SAMPLES;
	queue->samples_done--;
	pthread_mutex_unlock(&queue->lock);
}

static bool take_look(struct naming_queue *queue, struct monitor_look *out)
{
	bool any;

	pthread_mutex_lock(&queue->lock);
	any = queue->look_count;
	if (any) {
		*out = queue->looks[queue->first_look];
		queue->first_look = (queue->first_look + 1) % MOST_LOOKS;
		queue->look_count--;
	}
	pthread_mutex_unlock(&queue->lock);
	return any;
}

int naming_queue_take(struct naming_queue *queue, const struct naming_taker *taker)
{
	const struct naming_sample *sample;
	struct monitor_look look;
	struct named named;
	int err = 0;

	/* First: their frames are wishes. */
	for (__u32 i = 0; !err && i < MOST_SAMPLES && (sample = see_sample(queue)); i++) {
		err = taker->sample(taker->context, sample);
		drop_sample(queue);
	}
	for (__u32 i = 0; !err && i < MOST_FOUND && take_name(queue, &named); i++)
		err = taker->name(taker->context, &named);
	for (__u32 i = 0; !err && i < MOST_LOOKS && take_look(queue, &look); i++)
		err = taker->look(taker->context, &look);
	wake(queue);
	return err;
}

/* Waits for a moment at most; false: nothing is left. */
static bool wait_for_more(struct naming_queue *queue)
{
	const __u64 until_ns = now_ns() + STEP_NS;
	bool left;

	pthread_mutex_lock(&queue->lock);
	queue->waited_for = true;
	if (!queue->found_count && !queue->samples_done && (queue->wish_count || queue->samples_waiting || queue->busy))
		thread_wait_until(&queue->changed, &queue->lock, until_ns);
	left = queue->found_count || queue->wish_count || queue->samples_done || queue->samples_waiting || queue->busy;
	pthread_mutex_unlock(&queue->lock);
	return left;
}

/* No sample is lost: each has the frames that it came with. */
static void give_up(struct naming_queue *queue)
{
	const __u64 until_ns = now_ns() + GIVE_UP_NS;

	naming_client_give_up(user_symbols_client(queue->users));
	pthread_mutex_lock(&queue->lock);
	queue->waited_for = true;
	queue->settled = true;
	queue->counts.dropped += queue->wish_count;
	queue->wish_count = 0;
	/* A file system that does not answer may hold it up. */
	while (queue->busy && thread_wait_until(&queue->changed, &queue->lock, until_ns))
		continue;
	queue->stuck = queue->busy;
	queue->counts.not_unwound += queue->samples_waiting;
	queue->samples_done += queue->samples_waiting;
	queue->samples_waiting = 0;
	pthread_mutex_unlock(&queue->lock);
}

static int settle_until(struct naming_queue *queue, __u64 deadline, const struct naming_taker *taker, bool *left)
{
	int err = naming_queue_take(queue, taker);

	*left = queue->running;
	while (!err && *left && now_ns() < deadline) {
		*left = wait_for_more(queue);
		err = naming_queue_take(queue, taker);
	}
	return err;
}

static void ask_again(struct naming_queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->again = true;
	queue->again_ns = 0;
	for (__u32 i = 0; i < queue->unnamed_count; i++)
		queue->counts.dropped += !put_wish(queue, &queue->unnamed[i].wish, MOST_TRIES);
	queue->asked = true;
	pthread_mutex_unlock(&queue->lock);
}

int naming_queue_settle(struct naming_queue *queue, __u64 most_ns, const struct naming_taker *taker)
{
	const __u64 deadline = now_ns() + most_ns;
	bool left;
	int err = settle_until(queue, deadline, taker, &left);

	if (!err && !left && queue->unnamed_count) {
		ask_again(queue);
		err = settle_until(queue, deadline, taker, &left);
	}
	if (left)
		give_up(queue);
	return err ?: naming_queue_take(queue, taker);
}

void naming_queue_counts(struct naming_queue *queue, struct naming_queue_counts *out)
{
	pthread_mutex_lock(&queue->lock);
	*out = queue->counts;
	pthread_mutex_unlock(&queue->lock);
}

void naming_queue_pace(struct naming_queue *queue, struct naming_pace *out)
{
	pthread_mutex_lock(&queue->lock);
	*out = (struct naming_pace){
		.cpu_ns = queue->stacks_cpu_ns,
		.waiting = queue->samples_done + queue->samples_waiting,
		.most_waiting = MOST_SAMPLES,
	};
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
	queue->unwind = user_unwind_open(user_symbols_client(queue->users));
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->changed, NULL);
	*out = queue;
	return 0;
}

void naming_queue_close(struct naming_queue *queue)
{
	if (!queue || queue->stuck)
		return;
	naming_client_give_up(user_symbols_client(queue->users));
	pthread_mutex_lock(&queue->lock);
	queue->end = true;
	pthread_cond_broadcast(&queue->changed);
	pthread_mutex_unlock(&queue->lock);
	if (queue->running)
		pthread_join(queue->thread, NULL);
	user_unwind_close(queue->unwind);
	user_symbols_close(queue->users);
	pthread_cond_destroy(&queue->changed);
	pthread_mutex_destroy(&queue->lock);
	free(queue);
}
