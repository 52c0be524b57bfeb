// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdio.h>

#include "watch/watch_write.h"
#include "recording/recording_rows.h"

#define NO_STACK ((struct lock_hint){})

int watch_write_source(struct recording *recording, int slots)
{
	int err = recording_put(recording, memory_source, .id = WATCH_IDS, .kind = "watchpoint",
				.name = "debug registers", .event = "mem:ADDRESS/8:rw");

	return err ?: recording_put_number(recording, "watch_registers", slots);
}

int watch_write_line(struct recording *recording, const struct watch_line *line)
{
	const struct watched *watched = &line->watched;
	__u64 first = watched->address & ~(CACHE_LINE - 1ull), symbol_begin = watched->address - watched->symbol_offset;
	bool named = *watched->symbol && symbol_begin <= first;

	return recording_put(recording, memory_line, .id = line->id, .source = WATCH_IDS, .address = first,
			     .size = CACHE_LINE, .space = watched->tgid ? "user" : "kernel", .pid = watched->tgid,
			     .object = watched->tgid ? watched->mapping : "[kernel.kallsyms]",
			     .symbol = named ? watched->symbol : "", .symbol_offset = named ? first - symbol_begin : 0,
			     .nodes = "", .pages = 0);
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

	return recording_put(recording, watch_window, .line = line->id, .begin_ns = row->begin_ns,
			     .length_ns = row->end_ns - row->begin_ns, .offsets = bytes_of(row->places),
			     .hits = row->hits, .lost = row->lost, .transfers = row->transfers, .cut = row->cut,
			     .changed = row->changed);
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
		err = recording_put(recording, memory_access, .line = line->id, .offset = sum->offset,
				    .code = sum->code, .thread = sum->thread, .records = recorded(sum->records),
				    .loads = recorded(sum->loads), .stores = recorded(sum->stores),
				    .locked = recorded(sum->locked), .in_wait = recorded(sum->in_wait),
				    .cpus = {sum->cpus, sum->cpu_bytes}, .cpu_count = recorded(cpus), .nodes = "");
		err = err
			      ?: recording_put(recording, memory_interrupts, .line = line->id, .offset = sum->offset,
					       .code = sum->code, .thread = sum->thread, .records = sum->records,
					       .off = sum->interrupts_off);
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
			err = recording_put(recording, watch_transfer, .line = line->id, .from_cpu = sum->from_cpu,
					    .from_offset = sum->from_offset, .from_code = sum->from_code,
					    .cpu = sum->cpu, .offset = sum->offset, .code = sum->code,
					    .write = sum->write, .transfers = sum->transfers);
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
			err = recording_put(recording, memory_wait, .line = line->id,
					    .lock = lock ? lock->id : OTHER_LOCK, .kind = sum->kind,
					    .records = sum->records, .transfers = sum->transfers);
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
	int err = recording_put(
		recording, watch_told, .line = line->id, .instruction = told->by[DECODED_BY_INSTRUCTION],
		.watchpoint = told->by[DECODED_BY_WATCHPOINT], .remembered = told->by[DECODED_BEFORE],
		.untold = told->by[DECODED_NOT], .compared = told->compared, .disagreed = told->disagreed,
		.typed_windows = told->typed_windows, .typed_hits = told->typed_hits, .typed_hit_ns = cost->write_ns);

	for (__u32 i = 0; !err && i < told->comparison_count; i++) {
		struct watch_comparison *comparison = &told->comparisons[i];

		if (comparison->changed)
			err = recording_put(recording, watch_comparison, .line = line->id, .code = comparison->code,
					    .decoded = comparison->decoded, .only_read = comparison->only_read,
					    .wrote = comparison->wrote);
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
	err = recording_put(recording, watch, .line = line->id, .target = watched->target, .lock = lock ? lock->id : 0,
			    .lock_offset = watched->address & (CACHE_LINE - 1), .type = watched->type,
			    .type_offset = *watched->type ? first - watched->object : 0,
			    .type_from = *watched->type ? watched->from : "",
			    .access_from = watch_access_from(options->watch_access_from, &line->told),
			    .budget = options->watch_share, .begin_ns = line->begin_ns, .end_ns = line->end_ns,
			    .hit_ns = cost->hit_ns, .ended = line->ended);
	err = err ?: write_decoded(recording, line, cost);
	err = err ?: write_accesses(recording, line);
	err = err ?: write_transfers(recording, line);
	return err ?: write_waits(recording, line, locks);
}
