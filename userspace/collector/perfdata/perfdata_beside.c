// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "perfdata/perfdata_beside.h"

/* 1.3 MiB: what waits between the two threads. */
#define BLOCK  1024u
#define BLOCKS 16u
/* To sum fewer takes less time than it is worth. */
#define MANY (64u << 10)

struct block {
	__u32 count;
	struct memory_sample samples[BLOCK];
};

struct perfdata_beside {
	struct perfdata_import *import;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t added, gone;
	/* Under lock: how many blocks have come, and how many of them are summed. */
	__u64 come;
	__u64 summed;
	__u64 awaited; /* the reader waits until so many are; 0: it does not */
	bool ending;
	int err;
	struct block blocks[BLOCKS]; /* the one at `come` is the reader's, those before are the thread's */
};

static void *sum(void *argument)
{
	struct perfdata_beside *beside = argument;
	const struct block *block;
	int err = 0;

	pthread_mutex_lock(&beside->lock);
	while (true) {
		while (beside->summed == beside->come && !beside->ending)
			pthread_cond_wait(&beside->added, &beside->lock);
		if (beside->summed == beside->come)
			break;
		block = &beside->blocks[beside->summed % BLOCKS];
		pthread_mutex_unlock(&beside->lock);
		err = err ?: perfdata_sums_samples(beside->import, block->samples, block->count);
		pthread_mutex_lock(&beside->lock);
		beside->err = err;
		beside->summed++;
		if (beside->awaited && beside->summed >= beside->awaited) {
			beside->awaited = 0;
			pthread_cond_signal(&beside->gone);
		}
	}
	pthread_mutex_unlock(&beside->lock);
	return NULL;
}

static bool has_two_cpus(void)
{
	cpu_set_t cpus;

	/* It fails where there are more than the set has room for. */
	return sched_getaffinity(0, sizeof(cpus), &cpus) || CPU_COUNT(&cpus) > 1;
}

/* NULL: this thread sums them. */
static struct perfdata_beside *start(struct perfdata_import *import)
{
	struct perfdata_beside *beside = has_two_cpus() ? calloc(1, sizeof(*beside)) : NULL;

	if (!beside)
		return NULL;
	beside->import = import;
	pthread_mutex_init(&beside->lock, NULL);
	pthread_cond_init(&beside->added, NULL);
	pthread_cond_init(&beside->gone, NULL);
	/* What both allocate lies together: the sums outlive the thread. */
	mallopt(M_ARENA_MAX, 1);
	if (thread_start(&beside->thread, sum, beside)) {
		free(beside);
		return NULL;
	}
	return beside;
}

/* Under lock: until so many blocks are summed. */
static void wait_for(struct perfdata_beside *beside, __u64 summed)
{
	while (beside->summed < summed) {
		beside->awaited = summed;
		pthread_cond_wait(&beside->gone, &beside->lock);
	}
}

/* The reader's block is full, and the thread's from now on. */
static int hand_on(struct perfdata_beside *beside)
{
	int err;

	pthread_mutex_lock(&beside->lock);
	beside->come++;
	pthread_cond_signal(&beside->added);
	/* Once all are full some go at once: to wake up takes as long as to sum many samples. */
	if (beside->come - beside->summed == BLOCKS)
		wait_for(beside, beside->come - BLOCKS / 2);
	err = beside->err;
	pthread_mutex_unlock(&beside->lock);
	beside->blocks[beside->come % BLOCKS].count = 0;
	return err;
}

int perfdata_beside_samples(void *context, const struct memory_sample *samples, __u32 count)
{
	struct perfdata_import *import = context;
	struct block *block;
	__u32 some;
	int err = 0;

	if (!import->beside && !import->alone && import->samples >= MANY) {
		import->beside = start(import);
		import->alone = !import->beside;
	}
	if (!import->beside)
		return perfdata_sums_samples(import, samples, count);
	for (; !err && count; samples += some, count -= some) {
		block = &import->beside->blocks[import->beside->come % BLOCKS];
		some = count < BLOCK - block->count ? count : BLOCK - block->count;
		memcpy(block->samples + block->count, samples, some * sizeof(*samples));
		block->count += some;
		if (block->count == BLOCK)
			err = hand_on(import->beside);
	}
	return err;
}

int perfdata_beside_wait(struct perfdata_import *import)
{
	struct perfdata_beside *beside = import->beside;
	struct block *block;
	int err;

	if (!beside)
		return 0;
	pthread_mutex_lock(&beside->lock);
	wait_for(beside, beside->come);
	err = beside->err;
	pthread_mutex_unlock(&beside->lock);
	/* The thread sleeps: to wake it up for a few, at each of many changes, takes longer than to sum them here. */
	block = &beside->blocks[beside->come % BLOCKS];
	err = err ?: perfdata_sums_samples(import, block->samples, block->count);
	block->count = 0;
	return err;
}

int perfdata_beside_end(struct perfdata_import *import)
{
	struct perfdata_beside *beside = import->beside;
	int err = perfdata_beside_wait(import);

	if (!beside)
		return 0;
	pthread_mutex_lock(&beside->lock);
	beside->ending = true;
	pthread_cond_signal(&beside->added);
	pthread_mutex_unlock(&beside->lock);
	pthread_join(beside->thread, NULL);
	free(beside);
	import->beside = NULL;
	/* perf script's samples, which may follow, come slowly. */
	import->alone = true;
	return err;
}
