// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "memory/memory_lines.h"
#include "memory/perf_samples.h"

#define PAGE_BITS 12
/* So many accesses before its turn one is fetched from memory. */
#define AHEAD 16
/* Accesses of so many lines, with their threads, fit into a cache of the processor. */
#define FEW_ACCESSES 512
/* So often mappings change that state, of what is known, has room for. */
#define KNOWN_CHANGES (1u << 28)

void memory_lines_open(struct memory_lines *lines, __u32 line_size, struct memory_budget *budget)
{
	*lines = (struct memory_lines){.line_size = line_size, .budget = budget};
	lines->known = calloc(1 << MEMORY_KNOWN_BITS, sizeof(*lines->known));
}

void memory_lines_close(struct memory_lines *lines)
{
	for (__u32 i = 0; i < lines->access_count; i++)
		memory_access_free(&lines->accesses[i]);
	free(lines->lines);
	free(lines->codes);
	free(lines->accesses);
	free(lines->pages);
	free(lines->waits);
	free(lines->known);
	free(lines->line_index.slots);
	free(lines->code_index.slots);
	free(lines->access_index.slots);
	free(lines->page_index.slots);
	free(lines->wait_index.slots);
	*lines = (struct memory_lines){};
}

void memory_lines_drop_indexes(struct memory_lines *lines)
{
	free(lines->known);
	lines->known = NULL;
	free(lines->access_index.slots);
	free(lines->line_index.slots);
	free(lines->code_index.slots);
	lines->access_index = lines->line_index = lines->code_index = (struct hash_index){};
}

/* Kinds are few: sums of equal ones are expanded when another kind takes their place. */
static __u32 count_kind(struct memory_lines *lines, const struct memory_sample *sample, bool mapped)
{
	__u32 how = mapped << 1 | !sample->address;
	__u32 at = ((sample->data_src ^ (__u64)how << 60) * 0x9e3779b97f4a7c15ull) >> (64 - MEMORY_RECENT_BITS);

	if (lines->recent[at].data_src != sample->data_src || lines->recent[at].how != how ||
	    !lines->recent[at].count) {
		if (lines->recent[at].count)
			memory_counts_add(&lines->totals, lines->recent[at].kind, lines->recent[at].count);
		lines->recent[at].data_src = sample->data_src;
		lines->recent[at].how = how;
		lines->recent[at].kind = memory_kind(sample->data_src, sample->address, mapped);
		lines->recent[at].count = 0;
	}
	lines->recent[at].count++;
	return lines->recent[at].kind;
}

/* map_ip() of tools/perf/util/map.h. */
static __u64 unit_address(const struct memory_mapping *mapping, __u64 address)
{
	return !mapping || mapping->anonymous ? address : address - mapping->start + mapping->offset;
}

static bool is_private_memory(const struct memory_mapping *mapping, const struct memory_object *object, __u8 cpumode)
{
	static const struct memory_file_id none;

	return cpumode != CPUMODE_KERNEL && !mapping->shared && !memcmp(&object->file, &none, sizeof(none));
}

/* The access remembers its last page: mostly the next sample's too. */
static void take_page(struct memory_lines *lines, struct memory_access *access, __u64 physical)
{
	__u64 page = physical >> PAGE_BITS << PAGE_BITS;
	__u32 hash, number = access->line;
	struct memory_line *line;

	if (!physical || (page && access->page == page))
		return;
	access->page = page;
	line = &lines->lines[number];
	if (!line->page || line->page == page) {
		line->page = page;
		return;
	}
	line->pages = true;
	hash = hash_two(page, number);
	hash_index_for(&lines->page_index, hash, found)
	{
		if (lines->pages[found].page == page && lines->pages[found].line == number)
			return;
	}
	/* Without room pages are counted short; nothing else hangs on them. */
	if (memory_reserve((void **)&lines->pages, lines->page_count, &lines->page_capacity, sizeof(*lines->pages),
			   lines->budget) ||
	    hash_index_add(&lines->page_index, lines->budget, hash, lines->page_count))
		return;
	lines->pages[lines->page_count++] = (struct memory_page){.page = page, .line = number};
}

/* Without room waits are counted short. */
static void take_wait(struct memory_lines *lines, const struct memory_waiting *waiting)
{
	__u32 hash = hash_two(waiting->lock, (__u64)waiting->access.line << 8 | waiting->wait_kind);
	struct memory_wait *wait = NULL;

	hash_index_for(&lines->wait_index, hash, found)
	{
		wait = &lines->waits[found];
		if (wait->lock == waiting->lock && wait->line == waiting->access.line &&
		    wait->kind == waiting->wait_kind)
			break;
		wait = NULL;
	}
	if (!wait) {
		if (memory_reserve((void **)&lines->waits, lines->wait_count, &lines->wait_capacity,
				   sizeof(*lines->waits), lines->budget) ||
		    hash_index_add(&lines->wait_index, lines->budget, hash, lines->wait_count))
			return;
		wait = &lines->waits[lines->wait_count++];
		*wait = (struct memory_wait){
			.lock = waiting->lock, .line = waiting->access.line, .kind = waiting->wait_kind};
	}
	wait->records++;
	wait->transfers += !!(waiting->access.kind & ACCESS_SNOOPED);
}

/* Variables of .bss lie in memory without a file behind the object's data. */
static void find_static(struct memory_line *line, const struct memory_mapping *mapping,
			const struct memory_space *space)
{
	const struct memory_mapping *before;

	line->static_object = MEMORY_NO_OBJECT;
	if (!mapping)
		return;
	if (!mapping->anonymous) {
		line->static_object = mapping->object;
		line->static_unit = line->unit;
		return;
	}
	before = space && mapping->start ? memory_space_find(space, mapping->start - 1) : NULL;
	if (!before || before->anonymous)
		return;
	line->static_object = before->object;
	line->static_unit = line->address - before->start + before->offset;
}

/* The line's key, and what is kept of its first sample. */
static void describe_line(struct memory_lines *lines, struct memory_waiting *waiting,
			  const struct memory_sample *sample, const struct memory_objects *objects,
			  const struct memory_mapping *mapping, const struct memory_space *space)
{
	const struct memory_object *object = mapping ? &objects->list[mapping->object] : NULL;
	__u64 mask = ~(__u64)(lines->line_size - 1);
	struct memory_line *line = &waiting->line;

	*line = (struct memory_line){
		.unit = unit_address(mapping, sample->address) & mask,
		.address = sample->address & mask,
		.object = mapping ? mapping->object : MEMORY_NO_OBJECT,
		.group = object ? object->group : MEMORY_NO_OBJECT,
		.pid = object && is_private_memory(mapping, object, sample->cpumode) ? sample->pid : 0,
		.cpumode = sample->cpumode,
		.cpu = MEMORY_NO_CPU,
	};
	find_static(line, mapping, space);
	waiting->line_hash = hash_two(line->unit, (__u64)line->group << 32 | (line->pid ^ (__u32)line->cpumode << 28));
}

static __s64 find_line(struct memory_lines *lines, const struct memory_line *wanted, __u32 hash)
{
	__u32 number = lines->line_count;
	int err;

	hash_index_for(&lines->line_index, hash, found)
	{
		const struct memory_line *line = &lines->lines[found];

		if (line->unit == wanted->unit && line->group == wanted->group && line->pid == wanted->pid &&
		    line->cpumode == wanted->cpumode)
			return found;
	}
	/* The last eighth is for more of the lines that are there. */
	if (lines->budget->used > lines->budget->limit - lines->budget->limit / 8)
		return -ENOSPC;
	err = memory_reserve((void **)&lines->lines, number, &lines->line_capacity, sizeof(*lines->lines),
			     lines->budget);
	err = err ?: hash_index_add(&lines->line_index, lines->budget, hash, number);
	if (err)
		return err;
	lines->lines[lines->line_count++] = *wanted;
	return number;
}

static __s64 find_code(struct memory_lines *lines, const struct memory_sample *sample,
		       const struct memory_mapping *mapping)
{
	struct memory_code wanted = {
		.address = sample->ip,
		.unit = unit_address(mapping, sample->ip),
		.object = mapping ? mapping->object : MEMORY_NO_OBJECT,
		.cpumode = sample->cpumode,
	};
	__u32 hash = hash_two(wanted.address, (__u64)wanted.object << 8 | wanted.cpumode);
	__u32 number = lines->code_count;
	int err;

	hash_index_for(&lines->code_index, hash, found)
	{
		const struct memory_code *code = &lines->codes[found];

		if (code->address == wanted.address && code->object == wanted.object && code->cpumode == wanted.cpumode)
			return found;
	}
	err = memory_reserve((void **)&lines->codes, number, &lines->code_capacity, sizeof(*lines->codes),
			     lines->budget);
	err = err ?: hash_index_add(&lines->code_index, lines->budget, hash, number);
	if (err)
		return err;
	lines->codes[lines->code_count++] = wanted;
	return number;
}

static __u32 hash_access(const struct memory_access *access)
{
	return hash_two((__u64)access->line << 32 | access->code, access->offset);
}

/* The number of the access, or negative errno. */
static __s64 add_access(struct memory_lines *lines, const struct memory_access *wanted, __u32 hash)
{
	__u32 number = lines->access_count;
	int err;

	hash_index_for(&lines->access_index, hash, found)
	{
		struct memory_access *access = &lines->accesses[found];

		if (access->line == wanted->line && access->code == wanted->code && access->offset == wanted->offset &&
		    !memory_access_full(access)) {
			err = memory_access_add(access, wanted, lines->budget);
			return err ?: (__s64)found;
		}
	}
	err = memory_reserve((void **)&lines->accesses, number, &lines->access_capacity, sizeof(*lines->accesses),
			     lines->budget);
	err = err ?: hash_index_add(&lines->access_index, lines->budget, hash, number);
	if (err)
		return err;
	lines->accesses[number] = *wanted;
	lines->access_count++;
	return number;
}

static __u16 take_cpu(struct memory_lines *lines, __u32 cpu)
{
	if (cpu < MEMORY_CPUS)
		return cpu;
	lines->without_cpu += cpu == MEMORY_NO_ID;
	lines->bad_cpus += cpu != MEMORY_NO_ID;
	return MEMORY_NO_CPU;
}

static int refuse(struct memory_lines *lines, struct memory_waiting *waiting, int err)
{
	waiting->refused = true;
	lines->refused++;
	return err == -ENOSPC ? 0 : err;
}

static void fetch_item(const struct hash_index *index, __u32 hash, const void *items, size_t size)
{
	hash_index_for(index, hash, found)
	{
		__builtin_prefetch((const char *)items + found * size, 1);
		return;
	}
}

static void fetch_access(const struct memory_lines *lines, struct memory_waiting *waiting)
{
	if (waiting->refused)
		return;
	hash_index_for(&lines->access_index, waiting->access_hash, found)
	{
		waiting->access_number = found + 1;
		__builtin_prefetch(&lines->accesses[found], 1);
		return;
	}
}

static void fetch_slot(const struct hash_index *index, __u32 hash)
{
	if (index->slots)
		__builtin_prefetch(&index->slots[hash & index->mask]);
}

/* The sample's line is known from here on. */
static int settle_line(struct memory_lines *lines, struct memory_waiting *waiting)
{
	struct memory_access *access = &waiting->access;
	__s64 number;

	number = find_line(lines, &waiting->line, waiting->line_hash);
	if (number < 0)
		return refuse(lines, waiting, number);
	access->line = number;
	waiting->access_hash = hash_access(access);
	fetch_slot(&lines->access_index, waiting->access_hash);
	return 0;
}

/* What is left to do of a sample that was added to the access of this number, or was not: negative errno. */
static int finish_access(struct memory_lines *lines, struct memory_waiting *waiting, __s64 number)
{
	if (number < 0)
		return refuse(lines, waiting, number);
	take_page(lines, &lines->accesses[number], waiting->page);
	if (waiting->lock)
		take_wait(lines, waiting);
	return 0;
}

static int settle_access(struct memory_lines *lines, struct memory_waiting *waiting)
{
	__s64 number = add_access(lines, &waiting->access, waiting->access_hash);

	if (number >= 0 && lines->known) {
		waiting->known.access = number + 1;
		lines->known[waiting->place] = waiting->known;
	}
	return finish_access(lines, waiting, number);
}

/* The same of a sample whose access is known: at once. */
static int settle_known(struct memory_lines *lines, struct memory_waiting *waiting, const struct memory_known *known)
{
	struct memory_access *access = &lines->accesses[known->access - 1];
	__s64 number = known->access - 1;
	int err;

	waiting->access.line = access->line;
	waiting->access.code = access->code;
	if (memory_access_full(access)) {
		number = add_access(lines, &waiting->access, hash_access(&waiting->access));
	} else {
		err = memory_access_add(access, &waiting->access, lines->budget);
		number = err ?: number;
	}
	return finish_access(lines, waiting, number);
}

/* Puts those that wait into the sums, in their turn. */
static int settle(struct memory_lines *lines)
{
	/* What lies in the processor's caches need not be fetched. */
	const bool few = lines->access_count < FEW_ACCESSES;
	struct memory_waiting *begin = lines->waiting, *end = begin + lines->waiting_count, *waiting;
	int err = 0;

	lines->waiting_count = 0;
	for (waiting = begin; !few && waiting < end; waiting++)
		fetch_item(&lines->line_index, waiting->line_hash, lines->lines, sizeof(*lines->lines));
	for (waiting = begin; !err && waiting < end; waiting++)
		err = settle_line(lines, waiting);
	for (waiting = begin; !few && waiting < end; waiting++)
		fetch_access(lines, waiting);
	for (waiting = begin; !few && waiting < end; waiting++)
		if (waiting->access_number)
			memory_access_fetch(&lines->accesses[waiting->access_number - 1]);
	for (waiting = begin; !few && waiting < end; waiting++)
		if (waiting->access_number)
			memory_access_fetch_more(&lines->accesses[waiting->access_number - 1], waiting->access.thread,
						 waiting->access.cpu);
	for (waiting = begin; !err && waiting < end; waiting++)
		if (!waiting->refused)
			err = settle_access(lines, waiting);
	return err;
}

bool memory_lines_need_fetching(const struct memory_lines *lines)
{
	/* What lies in the processor's caches need not be fetched. */
	return lines->known && lines->access_count >= FEW_ACCESSES;
}

static __u32 known_place(const struct memory_sample *sample)
{
	return ((sample->address * 0x9e3779b97f4a7c15ull) ^ (sample->ip * 0xff51afd7ed558ccdull)) >>
	       (64 - MEMORY_KNOWN_BITS);
}

void memory_lines_fetch(const struct memory_lines *lines, const struct memory_sample *sample)
{
	__builtin_prefetch(&lines->known[known_place(sample)]);
}

__u32 memory_lines_fetch_access(const struct memory_lines *lines, const struct memory_sample *sample)
{
	const struct memory_known *known = &lines->known[known_place(sample)];

	if (known->address != sample->address || known->ip != sample->ip)
		return 0;
	if (known->access)
		__builtin_prefetch(&lines->accesses[known->access - 1], 1);
	return known->access;
}

void memory_lines_fetch_more(const struct memory_lines *lines, __u32 access)
{
	if (access)
		memory_access_fetch(&lines->accesses[access - 1]);
}

void memory_lines_fetch_counts(const struct memory_lines *lines, __u32 access, __u32 thread, __u32 cpu)
{
	if (access)
		memory_access_fetch_more(&lines->accesses[access - 1], thread, cpu);
}

/* What the sample is to be known by, but for whether it is mapped. */
static struct memory_known known_by(const struct memory_sample *sample, const struct memory_objects *objects,
				    const struct memory_space *space)
{
	return (struct memory_known){
		.address = sample->address,
		.ip = sample->ip,
		.space = space,
		.state = objects->changes << 4 | (sample->cpumode & 7) << 1,
	};
}

/* What is known of the sample, or NULL. */
static const struct memory_known *look_up(const struct memory_lines *lines, const struct memory_sample *sample,
					  const struct memory_objects *objects, const struct memory_space *space,
					  __u32 place)
{
	const struct memory_known *found = &lines->known[place];
	__u32 state = objects->changes << 4 | (sample->cpumode & 7) << 1;

	if (!lines->known || objects->changes >= KNOWN_CHANGES || !found->access)
		return NULL;
	if (found->address != sample->address || found->ip != sample->ip || found->space != space ||
	    found->state >> 1 != state >> 1)
		return NULL;
	return found;
}

/* Looks up what the sample adds to; gives whether both its address and its instruction are mapped. */
static bool describe(struct memory_lines *lines, struct memory_waiting *waiting, const struct memory_sample *sample,
		     const struct memory_objects *objects, const struct memory_space *space, __s64 *code)
{
	const struct memory_mapping *data = memory_space_find(space, sample->address);
	const struct memory_mapping *code_mapping = memory_space_find(space, sample->ip);

	*code = 0;
	if (!sample->address)
		return data && code_mapping;
	*code = find_code(lines, sample, code_mapping);
	describe_line(lines, waiting, sample, objects, data, space);
	waiting->known = known_by(sample, objects, space);
	waiting->known.state |= data && code_mapping;
	fetch_slot(&lines->line_index, waiting->line_hash);
	return data && code_mapping;
}

/* Puts a sample among those that wait, or at once into the access that is known; code: of one that is not. */
static __attribute__((noinline)) int add_slowly(struct memory_lines *lines, const struct memory_sample *sample,
						__u32 thread, __u32 kind, __u32 code, const struct memory_known *known)
{
	struct memory_waiting *waiting = &lines->waiting[lines->waiting_count];

	waiting->refused = false;
	waiting->access_number = 0;
	waiting->page = sample->physical;
	waiting->lock = sample->lock;
	waiting->wait_kind = sample->wait_kind;
	waiting->access = (struct memory_access){
		.code = code,
		.thread = thread,
		.kind = kind,
		.cpu = take_cpu(lines, sample->cpu),
		.offset = sample->address & (lines->line_size - 1),
		.count = 1,
		.weight = sample->weight,
	};
	if (known)
		return settle_known(lines, waiting, known);
	return ++lines->waiting_count == MEMORY_WAITING ? settle(lines) : 0;
}

static __attribute__((noinline)) int add_unknown(struct memory_lines *lines, const struct memory_sample *sample,
						 __u32 thread, const struct memory_objects *objects,
						 const struct memory_space *space, __u32 place)
{
	struct memory_waiting *waiting = &lines->waiting[lines->waiting_count];
	__s64 code;
	bool mapped = describe(lines, waiting, sample, objects, space, &code);
	__u32 kind = count_kind(lines, sample, mapped);

	waiting->place = place;
	if (!sample->address)
		return 0;
	if (code < 0)
		return refuse(lines, waiting, code);
	return add_slowly(lines, sample, thread, kind | sample->live, code, NULL);
}

int memory_lines_add(struct memory_lines *lines, const struct memory_sample *sample, __u32 thread,
		     const struct memory_objects *objects, const struct memory_space *space)
{
	__u32 place = known_place(sample), kind;
	const struct memory_known *known = look_up(lines, sample, objects, space, place);
	struct memory_access *access;

	if (!known)
		return add_unknown(lines, sample, thread, objects, space, place);
	/* Nearly all samples are like one before. */
	access = &lines->accesses[known->access - 1];
	kind = count_kind(lines, sample, known->state & 1) | sample->live;
	if (sample->lock || sample->cpu >= MEMORY_CPUS ||
	    !memory_access_count(access, kind, thread, sample->cpu, sample->weight))
		return add_slowly(lines, sample, thread, kind, 0, known);
	take_page(lines, access, sample->physical);
	return 0;
}

/* What one access adds to the sums of its line. */
static void add_to_line(struct memory_line *line, const struct memory_access *access)
{
	const struct memory_kind_sum one = {access->kind, access->count, 0};
	const struct memory_kind_sum *kinds = access->more ? access->more->kinds : &one;
	__u32 count = access->more ? access->more->kind_count : 1;
	__u64 snoops = line->snoops, waits = line->waits, samples = line->samples;

	if (!line->samples)
		line->thread = access->thread;
	if (line->cpu == MEMORY_NO_CPU)
		line->cpu = access->cpu;
	line->several |= line->thread != access->thread || (access->cpu != MEMORY_NO_CPU && line->cpu != access->cpu) ||
			 memory_access_threads(access) > 1 || memory_access_has_cpus(access);
	for (__u32 i = 0; i < count; i++) {
		samples += kinds[i].count;
		snoops += kinds[i].kind & ACCESS_SNOOPED ? kinds[i].count : 0;
		waits += kinds[i].kind & ACCESS_FILL_BUFFER ? kinds[i].count : 0;
		line->stores |= kinds[i].kind & ACCESS_STORE;
	}
	line->samples = samples < ~0u ? samples : ~0u;
	line->snoops = snoops < ~0u ? snoops : ~0u;
	line->waits = waits < ~0u ? waits : ~0u;
}

void memory_lines_sum(struct memory_lines *lines)
{
	for (__u32 i = 0; i < lines->line_count; i++) {
		struct memory_line *line = &lines->lines[i];

		line->samples = line->snoops = line->waits = 0;
		line->several = line->stores = false;
		line->cpu = MEMORY_NO_CPU;
	}
	for (__u32 i = 0; i < lines->access_count; i++) {
		if (i + AHEAD < lines->access_count) {
			memory_access_fetch(&lines->accesses[i + AHEAD]);
			__builtin_prefetch(&lines->lines[lines->accesses[i + AHEAD].line], 1);
		}
		add_to_line(&lines->lines[lines->accesses[i].line], &lines->accesses[i]);
	}
}

int memory_lines_finish(struct memory_lines *lines)
{
	for (int i = 0; i < 1 << MEMORY_RECENT_BITS; i++) {
		memory_counts_add(&lines->totals, lines->recent[i].kind, lines->recent[i].count);
		lines->recent[i].count = 0;
	}
	return settle(lines);
}
