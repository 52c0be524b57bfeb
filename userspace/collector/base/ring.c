// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdlib.h>
#include <string.h>

#include "base/hash_index.h"
#include "base/ring.h"

/* The least that is asked for: records. */
#define ASIDE_FIRST 64

static struct memory_budget aside_budget = {.limit = RING_ASIDE_BYTES};
static bool aside_was_full;

enum ring_found ring_copy(const struct ring *ring, __u64 position, void *out)
{
	const char *record = (const char *)ring->records + (position & (ring->count - 1)) * ring->bytes;
	const __u64 *sequence = (const void *)(record + ring->sequence);
	__u64 before = __atomic_load_n(sequence, __ATOMIC_ACQUIRE);

	if (before < position + 1)
		return RING_PENDING;
	if (before > position + 1)
		return RING_OVERWRITTEN;
	memcpy(out, record, ring->bytes);
	/* The copy is made before the sequence is read again. */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return __atomic_load_n(sequence, __ATOMIC_RELAXED) == before ? RING_COPIED : RING_TORN;
}

static bool has_aside(const struct ring *ring)
{
	return ring->aside && ring_has_aside(ring->aside);
}

static void begin(struct ring_pass *pass, const struct ring *ring, __u64 position, struct ring_losses *losses)
{
	*pass = (struct ring_pass){.ring = ring, .position = position, .end = ring_written(ring)};
	if (pass->end - position > ring->count) {
		pass->position = pass->end - ring->count;
		losses->overwritten += pass->position - position;
	}
}

static bool next(struct ring_pass *pass, void *out, struct ring_losses *losses)
{
	while (pass->position < pass->end) {
		switch (ring_copy(pass->ring, pass->position, out)) {
		case RING_COPIED:
			pass->position++;
			return true;
		case RING_OVERWRITTEN:
			losses->overwritten++;
			break;
		case RING_TORN:
			losses->torn++;
			break;
		default:
			return false;
		}
		pass->position++;
	}
	return false;
}

void ring_begin(struct ring_pass *pass, const struct ring *ring, __u64 position, struct ring_losses *losses)
{
	if (has_aside(ring))
		*pass = (struct ring_pass){.ring = ring, .position = position};
	else
		begin(pass, ring, position, losses);
}

static void forget_aside(struct ring_aside *aside)
{
	memory_budget_give(&aside_budget, (__u64)aside->room * aside->bytes);
	free(aside->records);
	*aside = (struct ring_aside){};
}

/* The next one that was put aside; after the last, the pass goes on in the ring. */
static bool next_aside(struct ring_pass *pass, void *out, struct ring_losses *losses)
{
	struct ring_aside *aside = pass->ring->aside;
	__u64 position, sequence;

	if (aside->first < aside->count) {
		memcpy(out, aside->records + (size_t)aside->first++ * aside->bytes, aside->bytes);
		memcpy(&sequence, (const char *)out + pass->ring->sequence, sizeof(sequence));
		pass->position = sequence;
		return true;
	}
	position = aside->position;
	forget_aside(aside);
	begin(pass, pass->ring, position, losses);
	return false;
}

bool ring_next(struct ring_pass *pass, void *out, struct ring_losses *losses)
{
	if (has_aside(pass->ring) && next_aside(pass, out, losses))
		return true;
	return next(pass, out, losses);
}

static bool grow(struct ring_aside *aside, __u32 more)
{
	__u64 bytes = (__u64)more * aside->bytes;
	char *records;

	if (!memory_budget_take(&aside_budget, bytes))
		return false;
	records = realloc(aside->records, (__u64)aside->room * aside->bytes + bytes);
	if (!records) {
		memory_budget_give(&aside_budget, bytes);
		return false;
	}
	aside->records = records;
	aside->room += more;
	return true;
}

void ring_put_aside(const struct ring *ring, __u64 *position, struct ring_losses *losses)
{
	struct ring_aside *aside = ring->aside;
	struct ring_pass pass;

	aside->bytes = ring->bytes;
	begin(&pass, ring, aside->count ? aside->position : *position, losses);
	while (pass.position < pass.end) {
		/* Twice as many, or as the last of the memory a few. */
		if (aside->count == aside->room && !grow(aside, aside->room ?: ASIDE_FIRST) &&
		    !grow(aside, ASIDE_FIRST)) {
			aside_was_full = true;
			break;
		}
		if (!next(&pass, aside->records + (size_t)aside->count * aside->bytes, losses))
			break;
		aside->count++;
	}
	*(aside->count ? &aside->position : position) = pass.position;
}

bool ring_aside_was_full(void)
{
	bool full = aside_was_full;

	aside_was_full = false;
	return full;
}

void ring_free_asides(struct ring_aside *asides, __u32 count)
{
	for (__u32 i = 0; asides && i < count; i++)
		forget_aside(&asides[i]);
	free(asides);
}

void ring_begin_back(struct ring_pass *pass, const struct ring *ring)
{
	__u64 written = ring_written(ring);

	*pass = (struct ring_pass){
		.ring = ring, .position = written, .end = written > ring->count ? written - ring->count : 0};
}

enum ring_found ring_previous(struct ring_pass *pass, void *out)
{
	return pass->position > pass->end ? ring_copy(pass->ring, --pass->position, out) : RING_END;
}
