// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdlib.h>
#include <string.h>

#include "watch/watch_sums.h"

void watch_sums_open(struct watch_sums *sums, struct memory_budget *budget)
{
	*sums = (struct watch_sums){.budget = budget};
}

void watch_sums_close(struct watch_sums *sums)
{
	for (__u32 i = 0; i < sums->access_count; i++)
		free(sums->accesses[i].cpus);
	free(sums->accesses);
	free(sums->access_index.slots);
	free(sums->transfers);
	free(sums->transfer_index.slots);
	free(sums->waits);
	free(sums->wait_index.slots);
	*sums = (struct watch_sums){};
}

void watch_sums_begin(struct watch_sums *sums)
{
	sums->dirty = false;
}

/* A new item's place in its array; NULL with *err. */
static void *add_item(struct watch_sums *sums, void **array, __u32 *count, __u32 *capacity, size_t size,
		      struct hash_index *index, __u32 hash, int *err)
{
	*err = memory_reserve(array, *count, capacity, size, sums->budget);
	if (!*err)
		*err = hash_index_add(index, sums->budget, hash, *count);
	if (*err)
		return NULL;
	memset((char *)*array + *count * size, 0, size);
	return (char *)*array + (*count)++ * size;
}

static struct watch_access_sum *find_access(struct watch_sums *sums, const struct watch_hit *hit, int *err)
{
	__u32 hash = hash_two((__u64)hit->code << 32 | hit->thread, hit->offset);
	struct watch_access_sum *sum;

	hash_index_for(&sums->access_index, hash, number)
	{
		sum = &sums->accesses[number];
		if (sum->code == hit->code && sum->thread == hit->thread && sum->offset == hit->offset)
			return sum;
	}
	sum = add_item(sums, (void **)&sums->accesses, &sums->access_count, &sums->access_capacity,
		       sizeof(*sums->accesses), &sums->access_index, hash, err);
	if (sum) {
		sum->code = hit->code;
		sum->thread = hit->thread;
		sum->offset = hit->offset;
	}
	return sum;
}

static int note_cpu(struct watch_access_sum *sum, __u32 cpu)
{
	__u32 bytes = cpu / 8 + 1;

	if (bytes > sum->cpu_bytes) {
		__u8 *larger = realloc(sum->cpus, bytes);

		if (!larger)
			return -ENOMEM;
		memset(larger + sum->cpu_bytes, 0, bytes - sum->cpu_bytes);
		sum->cpus = larger;
		sum->cpu_bytes = bytes;
	}
	sum->cpus[cpu / 8] |= 1u << cpu % 8;
	return 0;
}

static int add_access(struct watch_sums *sums, const struct watch_hit *hit)
{
	int err = 0;
	struct watch_access_sum *sum = find_access(sums, hit, &err);

	if (!sum)
		return err;
	sum->changed = true;
	sum->records++;
	sum->loads += !!(hit->access & ACCESS_READ);
	sum->stores += !!(hit->access & ACCESS_WRITE);
	sum->locked += !!(hit->access & ACCESS_LOCKED);
	sum->in_wait += hit->kind != WATCH_NO_KIND;
	sum->interrupts_off += !!(hit->flags & WATCH_INTERRUPTS_OFF);
	return note_cpu(sum, hit->cpu);
}

static int add_transfer(struct watch_sums *sums, const struct watch_hit *hit)
{
	const struct watch_hit *from = &sums->writer;
	bool write = hit->access & ACCESS_WRITE;
	__u32 hash = hash_two((__u64)from->code << 32 | hit->code,
			      (__u64)from->cpu << 32 | hit->cpu << 16 | from->offset << 8 | hit->offset << 1 | write);
	struct watch_transfer_sum *sum;
	int err;

	hash_index_for(&sums->transfer_index, hash, number)
	{
		sum = &sums->transfers[number];
		if (sum->from_code != from->code || sum->code != hit->code || sum->from_cpu != from->cpu ||
		    sum->cpu != hit->cpu || sum->from_offset != from->offset || sum->offset != hit->offset ||
		    sum->write != write)
			continue;
		sum->transfers++;
		sum->changed = true;
		return 0;
	}
	sum = add_item(sums, (void **)&sums->transfers, &sums->transfer_count, &sums->transfer_capacity,
		       sizeof(*sums->transfers), &sums->transfer_index, hash, &err);
	if (!sum)
		return err;
	*sum = (struct watch_transfer_sum){
		.from_code = from->code,
		.code = hit->code,
		.from_cpu = from->cpu,
		.cpu = hit->cpu,
		.from_offset = from->offset,
		.offset = hit->offset,
		.write = write,
		.changed = true,
		.transfers = 1,
	};
	return 0;
}

static int add_wait(struct watch_sums *sums, const struct watch_hit *hit, bool transfer)
{
	__u32 hash = hash_two(hit->lock, hit->kind);
	struct watch_wait_sum *sum = NULL;
	int err;

	hash_index_for(&sums->wait_index, hash, number)
	{
		if (sums->waits[number].lock != hit->lock || sums->waits[number].kind != hit->kind)
			continue;
		sum = &sums->waits[number];
		break;
	}
	if (!sum)
		sum = add_item(sums, (void **)&sums->waits, &sums->wait_count, &sums->wait_capacity,
			       sizeof(*sums->waits), &sums->wait_index, hash, &err);
	if (!sum)
		return err;
	sum->lock = hit->lock;
	sum->kind = hit->kind;
	sum->records++;
	sum->transfers += transfer;
	sum->changed = true;
	return 0;
}

int watch_sums_add(struct watch_sums *sums, const struct watch_hit *hit)
{
	bool transfer = sums->dirty && sums->writer.cpu != hit->cpu;
	int err = add_access(sums, hit);

	if (!err && transfer)
		err = add_transfer(sums, hit);
	if (!err && hit->kind != WATCH_NO_KIND)
		err = add_wait(sums, hit, transfer);
	if (hit->access & ACCESS_WRITE) {
		sums->writer = *hit;
		sums->dirty = true;
	} else if (transfer) {
		sums->dirty = false;
	}
	if (err == -ENOSPC) {
		sums->refused++;
		err = 0;
	}
	return err ? err : transfer;
}
