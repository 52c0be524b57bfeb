// SPDX-License-Identifier: GPL-2.0-or-later
#include <string.h>

#include "base/ring.h"

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

void ring_begin(struct ring_pass *pass, const struct ring *ring, __u64 position, struct ring_losses *losses)
{
	*pass = (struct ring_pass){.ring = ring, .position = position, .end = ring_written(ring)};
	if (pass->end - position > ring->count) {
		pass->position = pass->end - ring->count;
		losses->overwritten += pass->position - position;
	}
}

bool ring_next(struct ring_pass *pass, void *out, struct ring_losses *losses)
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
