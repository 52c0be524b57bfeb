// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>

#include "watch/watch_write.h"

#define NO_STACK ((struct lock_hint){})

int watch_write_source(struct recording *recording, int slots)
{
	int err = recording_run(recording, PUT_MEMORY_SOURCE, "ittt", (__s64)WATCH_IDS, "watchpoint", "debug registers",
				"mem:ADDRESS/8:rw");

	return err ?: recording_run(recording, PUT_META, "ti", "watch_registers", (__s64)slots);
}

int watch_write_line(struct recording *recording, const struct watch_line *line)
{
	const struct watched *watched = &line->watched;
	__u64 first = watched->address & ~(CACHE_LINE - 1ull), symbol_begin = watched->address - watched->symbol_offset;
	bool named = *watched->symbol && symbol_begin <= first;

	return recording_run(recording, PUT_MEMORY_LINE, "iiiitittiti", (__s64)line->id, (__s64)WATCH_IDS, (__s64)first,
			     (__s64)CACHE_LINE, watched->tgid ? "user" : "kernel", (__s64)watched->tgid,
			     watched->tgid ? watched->mapping : "[kernel.kallsyms]", named ? watched->symbol : "",
			     (__s64)(named ? first - symbol_begin : 0), "", 0ll);
}

/* The bytes of those eighths. */
static __u64 bytes_of(__u32 places)
{
	__u64 bytes = 0;

	for (int place = 0; place < WATCH_PLACES; place++)
		if (places >> place & 1)
			bytes |= 0xffull << (WATCH_SLOT_BYTES * place);
	return bytes;
}

int watch_write_window(struct recording *recording, const struct watch_line *line)
{
	const struct watch_window_row *row = &line->row;

	return recording_run(recording, PUT_WATCH_WINDOW, "iiiiiiiii", (__s64)line->id, (__s64)row->begin_ns,
			     (__s64)(row->end_ns - row->begin_ns), (__s64)bytes_of(row->places), (__s64)row->hits,
			     (__s64)row->lost, (__s64)row->transfers, (__s64)row->cut, (__s64)row->changed);
}

static int write_accesses(struct recording *recording, const struct watch_line *line)
{
	int err = 0;

	for (__u32 i = 0; !err && i < line->sums.access_count; i++) {
		struct watch_access_sum *sum = &line->sums.accesses[i];
		__u32 cpus = 0;

		if (!sum->changed)
			continue;
		for (__u32 byte = 0; byte < sum->cpu_bytes; byte++)
			cpus += __builtin_popcount(sum->cpus[byte]);
		err = recording_run(recording, PUT_WATCH_ACCESS, "iiiiiiiiibi", (__s64)line->id, (__s64)sum->offset,
				    (__s64)sum->code, (__s64)sum->thread, (__s64)sum->records, (__s64)sum->loads,
				    (__s64)sum->stores, (__s64)sum->locked, (__s64)sum->in_wait, sum->cpus,
				    (int)sum->cpu_bytes, (__s64)cpus);
		err = err
			      ?: recording_run(recording, PUT_MEMORY_INTERRUPTS, "iiiiii", (__s64)line->id,
					       (__s64)sum->offset, (__s64)sum->code, (__s64)sum->thread,
					       (__s64)sum->records, (__s64)sum->interrupts_off);
		sum->changed = false;
	}
	return err;
}

static int write_transfers(struct recording *recording, const struct watch_line *line)
{
	int err = 0;

	for (__u32 i = 0; !err && i < line->sums.transfer_count; i++) {
		struct watch_transfer_sum *sum = &line->sums.transfers[i];

		if (sum->changed)
			err = recording_run(recording, PUT_WATCH_TRANSFER, "iiiiiiiii", (__s64)line->id,
					    (__s64)sum->from_cpu, (__s64)sum->from_offset, (__s64)sum->from_code,
					    (__s64)sum->cpu, (__s64)sum->offset, (__s64)sum->code, (__s64)sum->write,
					    (__s64)sum->transfers);
		sum->changed = false;
	}
	return err;
}

/* Locks that were waited for were met by their waits; those without a row are all others. */
static int write_waits(struct recording *recording, const struct watch_line *line, struct locks *locks)
{
	int err = 0;

	for (__u32 i = 0; !err && i < line->sums.wait_count; i++) {
		struct watch_wait_sum *sum = &line->sums.waits[i];
		struct lock_hint hint = NO_STACK;
		struct known_lock *lock;

		if (!sum->changed)
			continue;
		hint.address = sum->lock;
		hint.kind = sum->kind;
		lock = locks_meet(locks, &hint, &err);
		if (!err)
			err = recording_run(recording, PUT_MEMORY_WAIT, "iiiii", (__s64)line->id,
					    (__s64)(lock ? lock->id : OTHER_LOCK), (__s64)sum->kind,
					    (__s64)sum->records, (__s64)sum->transfers);
		sum->changed = false;
	}
	return err;
}

/* The lock that was asked for if it was met, else the first one of the line. */
static const struct known_lock *lock_of(const struct watched *watched, struct locks *locks)
{
	const struct known_lock *lock = watched->tgid ? NULL : locks_find(locks, watched->address);
	__u64 first = watched->address & ~(CACHE_LINE - 1ull);

	for (int offset = 0; !lock && !watched->tgid && offset < CACHE_LINE; offset += 4)
		lock = locks_find(locks, first + offset);
	return lock;
}

static int write_decoded(struct recording *recording, struct watch_line *line, const struct watch_cost *cost)
{
	const struct watch_decoded_sums *told = &line->told;
	int err = recording_run(recording, PUT_WATCH_TOLD, "iiiiiiiiii", (__s64)line->id,
				(__s64)told->by[DECODED_BY_INSTRUCTION], (__s64)told->by[DECODED_BY_WATCHPOINT],
				(__s64)told->by[DECODED_BEFORE], (__s64)told->by[DECODED_NOT], (__s64)told->compared,
				(__s64)told->disagreed, (__s64)told->typed_windows, (__s64)told->typed_hits,
				(__s64)cost->write_ns);

	for (__u32 i = 0; !err && i < told->comparison_count; i++) {
		struct watch_comparison *comparison = &told->comparisons[i];

		if (comparison->changed)
			err = recording_run(recording, PUT_WATCH_COMPARISON, "iiiii", (__s64)line->id,
					    (__s64)comparison->code, (__s64)comparison->decoded,
					    (__s64)comparison->only_read, (__s64)comparison->wrote);
		comparison->changed = false;
	}
	return err;
}

int watch_write_sums(struct recording *recording, struct watch_line *line, struct locks *locks,
		     const struct options *options, const struct watch_cost *cost)
{
	struct watched *watched = &line->watched;
	const struct known_lock *lock = lock_of(watched, locks);
	__u64 first = watched->address & ~(CACHE_LINE - 1ull);
	int err;

	/* A wait's stack tells more than the address alone. */
	if (lock && !*watched->type && *lock->type) {
		snprintf(watched->type, sizeof(watched->type), "%s", lock->type);
		watched->object = lock->address - lock->type_offset;
		watched->from = watch_type_from(lock->source);
	}
	err = recording_run(recording, PUT_WATCH, "itiitittdiiit", (__s64)line->id, watched->target,
			    (__s64)(lock ? lock->id : 0), (__s64)(watched->address & (CACHE_LINE - 1)), watched->type,
			    (__s64)(*watched->type ? first - watched->object : 0), *watched->type ? watched->from : "",
			    watch_access_from(options->watch_access_from, &line->told), options->watch_share,
			    (__s64)line->begin_ns, (__s64)line->end_ns, (__s64)cost->hit_ns, line->ended);
	err = err ?: write_decoded(recording, line, cost);
	err = err ?: write_accesses(recording, line);
	err = err ?: write_transfers(recording, line);
	return err ?: write_waits(recording, line, locks);
}
