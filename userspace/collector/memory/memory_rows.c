// SPDX-License-Identifier: GPL-2.0-or-later
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/memory_rows.h"
#include "memory/perf_samples.h"
#include "base/small_file.h"
#include "recording/recording_rows.h"

#define PATH_SIZE 4200

static const char *space_of(__u8 cpumode, __u64 address)
{
	if (cpumode == CPUMODE_USER)
		return "user";
	/* What kernel code did to memory of a process whose pages the file does not tell is neither. */
	return cpumode == CPUMODE_KERNEL && address >> 63 ? "kernel" : "other";
}

/* Foreign text, fit for a reader of the recording. */
static const char *clean(const char *text, char *out, size_t size)
{
	snprintf(out, size, "%s", text);
	make_printable(out);
	return out;
}

static const char *object_name(const struct memory_write *write, __u32 object, char out[PATH_SIZE])
{
	return object == MEMORY_NO_OBJECT ? "" : clean(write->tasks->objects.list[object].name, out, PATH_SIZE);
}

/* "cpu" of "cpu/mem-loads/P" */
static const char *pmu_of(const char *event, char out[64])
{
	snprintf(out, 64, "%.*s", (int)strcspn(event, "/"), event);
	return out;
}

/* One row for each event; the first of them is the whole file's. */
int memory_rows_source(const struct memory_write *write)
{
	const struct memory_counts none = {}, *more = write->uncounted ?: &none, *totals = &write->lines->totals;
	__s64 id = MEMORY_SOURCE;
	char pmu[64];
	int err = 0;

	for (const char *event = write->events; !err && (*event || id == MEMORY_SOURCE);
	     event += strlen(event) + !!*event)
		err = recording_put(write->recording, memory_source, .id = id++, .kind = write->kind,
				    .name = write->name ?: pmu_of(event, pmu), .event = event);

#define COUNT(field)                                                                                            \
	err = err                                                                                               \
		      ?: recording_put(write->recording, memory_count, .source = MEMORY_SOURCE, .name = #field, \
				       .count = totals->field + more->field);
	MEMORY_COUNTS(COUNT)
#undef COUNT
	return err;
}

struct nodes {
	__u64 bits[MEMORY_NODES / 64];
};

static void add_node(struct nodes *nodes, int node)
{
	if (node >= 0 && node < MEMORY_NODES)
		nodes->bits[node / 64] |= 1ull << node % 64;
}

/* "0,1" */
static void list_nodes(const struct nodes *nodes, char *out, size_t size)
{
	size_t used = 0;

	*out = 0;
	for (int word = 0; word < MEMORY_NODES / 64; word++)
		for (__u64 bits = nodes->bits[word]; bits && used + 8 < size; bits &= bits - 1)
			used += sprintf(out + used, "%s%d", used ? "," : "", 64 * word + __builtin_ctzll(bits));
}

static int compare_pages(const void *a, const void *b)
{
	const struct memory_page *x = a, *y = b;

	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	return x->page < y->page ? -1 : x->page > y->page;
}

void memory_pages_sort(struct memory_pages *pages)
{
	if (pages->count)
		qsort(pages->list, pages->count, sizeof(*pages->list), compare_pages);
}

static __u32 line_nodes(const struct memory_write *write, const struct memory_pages *all, __u32 number, char *out,
			size_t size)
{
	const struct memory_line *line = &write->lines->lines[number];
	__u32 low = 0, high = all->count, pages = !!line->page;
	struct nodes nodes = {};

	if (line->page)
		add_node(&nodes, memory_node(write->topology, line->page));
	while (line->pages && low < high) {
		__u32 middle = low + (high - low) / 2;

		if (all->list[middle].line < number)
			low = middle + 1;
		else
			high = middle;
	}
	for (; line->pages && low < all->count && all->list[low].line == number; low++, pages++)
		add_node(&nodes, memory_node(write->topology, all->list[low].page));
	list_nodes(&nodes, out, size);
	return pages;
}

int memory_row_line(const struct memory_write *write, const struct memory_pages *pages, __u32 number, __s64 id,
		    const struct memory_name *name)
{
	const struct memory_line *line = &write->lines->lines[number];
	char nodes[1024], path[PATH_SIZE], symbol[PATH_SIZE];
	__u32 count = line_nodes(write, pages, number, nodes, sizeof(nodes));

	return recording_put(write->recording, memory_line, .id = id, .source = MEMORY_SOURCE, .address = line->address,
			     .size = write->lines->line_size, .space = space_of(line->cpumode, line->address),
			     .pid = line->pid, .object = object_name(write, line->object, path),
			     .symbol = clean(name->symbol, symbol, sizeof(symbol)), .symbol_offset = name->offset,
			     .nodes = nodes, .pages = count);
}

int memory_row_line_pages(const struct memory_write *write, const struct memory_pages *pages, __u32 number, __s64 id)
{
	char nodes[1024];
	__u32 count = line_nodes(write, pages, number, nodes, sizeof(nodes));

	return recording_set_memory_line_pages(write->recording, id, nodes, count);
}

int memory_row_line_name(const struct memory_write *write, __s64 id, const struct memory_name *name)
{
	char symbol[PATH_SIZE];

	return recording_set_memory_line_name(write->recording, id, clean(name->symbol, symbol, sizeof(symbol)),
					      name->offset);
}

int memory_row_code(const struct memory_write *write, __u32 number, const struct memory_name *name)
{
	const struct memory_code *code = &write->lines->codes[number];
	char path[PATH_SIZE], symbol[PATH_SIZE], line[PATH_SIZE];

	return recording_put(write->recording, memory_code, .id = (__s64)number + 1, .address = code->address,
			     .space = space_of(code->cpumode, code->address),
			     .symbol = clean(name->symbol, symbol, sizeof(symbol)), .offset = name->offset,
			     .object = object_name(write, code->object, path),
			     .line = clean(name->line, line, sizeof(line)));
}

int memory_row_thread(const struct memory_write *write, __u32 number)
{
	const struct memory_thread *thread = &write->tasks->threads[number];
	char comm[MEMORY_COMM];

	return recording_put(write->recording, memory_thread, .id = (__s64)number + 1, .pid = (__s32)thread->pid,
			     .tid = (__s32)thread->tid, .comm = clean(thread->comm, comm, sizeof(comm)));
}

/* Threads with ids below this one are written as a bit set: those of large ids take less as a list. */
#define THREAD_SET 4096

struct sums {
	struct memory_counts counts;
	__u64 remote_hitm_weight;
	__u64 local_hitm_weight;
	__u64 load_weight;
	__u64 load_weights;
	__u64 in_wait;
	__u64 interrupts_on;
	__u64 interrupts_off;
	__u32 thread_count;
	__u32 list_bytes;
	__u32 set_bytes;
	__u32 record_bytes;
	__u32 cpu_bytes;
	__u32 cpu_count;
	__u8 cpus[MEMORY_CPUS / 8];
	__u8 set[THREAD_SET / 8];
	struct memory_share *threads; /* NULL: one, or too many */
};

/* Beyond what a reader of the recording takes, an access is of threads that are not known. */
#define THREADS_MAX (1u << 18)

static void add_kind(struct sums *sums, __u32 kind, __u32 count, __u64 weight)
{
	memory_counts_add(&sums->counts, kind, count);
	sums->in_wait += kind & ACCESS_IN_WAIT ? count : 0;
	sums->interrupts_on += kind & ACCESS_INTERRUPTS_ON ? count : 0;
	sums->interrupts_off += kind & ACCESS_INTERRUPTS_OFF ? count : 0;
	/* compute_stats() of tools/perf/builtin-c2c.c: a sample's weight counts once. */
	if (kind & ACCESS_REMOTE_HITM) {
		sums->remote_hitm_weight += weight;
	} else if (kind & (ACCESS_L2_HITM | ACCESS_LLC_HITM)) {
		sums->local_hitm_weight += weight;
	} else if (kind & ACCESS_LOAD) {
		sums->load_weight += weight;
		sums->load_weights += count;
	}
}

static void add_cpus(struct sums *sums, const struct memory_access *access)
{
	const struct memory_more *more = access->more;
	__u32 bytes = more ? more->cpu_bytes : 0;

	for (__u32 i = 0; i < bytes; i++)
		sums->cpus[i] |= more->cpus[i];
	if (access->cpu != MEMORY_NO_CPU) {
		sums->cpus[access->cpu / 8] |= 1u << access->cpu % 8;
		bytes = access->cpu / 8u + 1 > bytes ? access->cpu / 8u + 1 : bytes;
	}
	sums->cpu_bytes = bytes > sums->cpu_bytes ? bytes : sums->cpu_bytes;
}

/* The threads as a list, as the recording has it: ids of rows, little-endian. */
static void list_threads(struct sums *sums)
{
	struct memory_share *shares = sums->threads;

	for (__u32 i = 0; i < sums->thread_count; i++)
		shares[i] = (struct memory_share){htole32(shares[i].thread + 1), htole32(shares[i].records)};
	sums->list_bytes = sums->thread_count * sizeof(*shares);
}

/* The threads as a bit set, and their records in place of the shares, which are not needed behind: they are shorter. */
static void set_threads(struct sums *sums, __u32 most)
{
	struct memory_share *shares = sums->threads;
	__u8 *records = (__u8 *)shares;

	for (__u32 i = 0; i < sums->thread_count; i++) {
		struct memory_share share = shares[i];
		__u32 id = share.thread + 1, count = htole32(share.records);

		sums->set[id / 8] |= 1u << id % 8;
		sums->set_bytes = id / 8 + 1;
		if (most <= 0xff)
			*records++ = share.records;
		else
			records = (__u8 *)memcpy(records, &count, sizeof(count)) + sizeof(count);
	}
	sums->record_bytes = records - (__u8 *)shares;
}

static int add_threads(struct sums *sums, const struct memory_access *accesses, __u32 count)
{
	struct memory_share *shares = malloc(sums->thread_count * sizeof(*shares));
	__u32 most = 0;
	bool is_set;

	if (!shares)
		return -ENOMEM;
	sums->threads = shares;
	for (__u32 i = 0, at = 0; i < count; at += memory_access_threads(&accesses[i++]))
		memory_access_shares(&accesses[i], shares + at);
	is_set = shares[sums->thread_count - 1].thread + 1 < THREAD_SET;
	for (__u32 i = 0; i < sums->thread_count; i++) {
		most = shares[i].records > most ? shares[i].records : most;
		/* Of several accesses each has its own list. */
		is_set &= !i || shares[i].thread > shares[i - 1].thread;
	}
	if (is_set)
		set_threads(sums, most);
	else
		list_threads(sums);
	return 0;
}

/* Accesses with the same key: more than one only where a count was at its end. */
static int add_up(struct sums *sums, const struct memory_access *accesses, __u32 count)
{
	__u32 threads = 0;

	for (__u32 i = 0; i < count; i++) {
		const struct memory_more *more = accesses[i].more;

		for (__u32 n = 0; more && n < more->kind_count; n++)
			add_kind(sums, more->kinds[n].kind, more->kinds[n].count, more->kinds[n].weight);
		if (!more)
			add_kind(sums, accesses[i].kind, accesses[i].count, accesses[i].weight);
		add_cpus(sums, &accesses[i]);
		threads += memory_access_threads(&accesses[i]);
	}
	while (sums->cpu_bytes && !sums->cpus[sums->cpu_bytes - 1])
		sums->cpu_bytes--;
	for (__u32 i = 0; i < sums->cpu_bytes; i++)
		sums->cpu_count += __builtin_popcount(sums->cpus[i]);
	sums->thread_count = threads;
	if (threads < 2 || threads > THREADS_MAX)
		return 0;
	return add_threads(sums, accesses, count);
}

static void clear(struct sums *sums)
{
	free(sums->threads);
	memset(sums->set, 0, sums->set_bytes);
	memset(sums, 0, offsetof(struct sums, cpus));
	memset(sums->cpus, 0, sizeof(sums->cpus));
	sums->threads = NULL;
}

static void cpu_nodes(const struct memory_write *write, const struct sums *sums, char *out, size_t size)
{
	struct nodes nodes = {};

	*out = 0;
	if (!write->topology->numa)
		return;
	for (__u32 byte = 0; byte < sums->cpu_bytes; byte++)
		for (__u32 bits = sums->cpus[byte]; bits; bits &= bits - 1)
			add_node(&nodes, write->topology->node_of_cpu[8 * byte + __builtin_ctz(bits)] - 1);
	list_nodes(&nodes, out, size);
}

static int write_access(const struct memory_write *write, __s64 line, const struct memory_access *access,
			const struct sums *sums)
{
	const struct memory_counts *counts = &sums->counts;
	struct recorded_memory_access row = {
		.line = line,
		.offset = access->offset,
		.code = access->code + 1ll,
		.thread = sums->thread_count == 1 ? access->thread + 1ll : 0,
		.records = recorded(counts->nr_entries),
		.loads = recorded(counts->load),
		.stores = recorded(counts->store),
		.locked = recorded(counts->locks),
		.local_hitm = recorded(counts->lcl_hitm),
		.remote_hitm = recorded(counts->rmt_hitm),
		.local_peer = recorded(counts->lcl_peer),
		.remote_peer = recorded(counts->rmt_peer),
		.fill_buffer = recorded(counts->ld_fbhit),
		.l1_hit = recorded(counts->ld_l1hit),
		.l2_hit = recorded(counts->ld_l2hit),
		.llc_hit = recorded(counts->ld_llchit),
		.remote_hit = recorded(counts->rmt_hit),
		.local_dram = recorded(counts->lcl_dram),
		.remote_dram = recorded(counts->rmt_dram),
		.store_l1_hit = recorded(counts->st_l1hit),
		.store_l1_miss = recorded(counts->st_l1miss),
		.store_unknown = recorded(counts->st_na),
		.blocked = recorded(counts->blk_data + counts->blk_addr),
		.no_map = recorded(counts->nomap),
		.no_parse = recorded(counts->noparse),
		.remote_hitm_weight = recorded(sums->remote_hitm_weight),
		.local_hitm_weight = recorded(sums->local_hitm_weight),
		.load_weight = recorded(sums->load_weight),
		.load_weights = recorded(sums->load_weights),
		.cpus = {sums->cpus, sums->cpu_bytes},
		.cpu_count = recorded(sums->cpu_count),
		.threads = {sums->threads, sums->list_bytes},
		.thread_set = {sums->set, sums->set_bytes},
		.thread_records = {sums->threads, sums->record_bytes},
	};
	char nodes[1024];
	int err;

	if (write->locks)
		row.in_wait = recorded(sums->in_wait);
	cpu_nodes(write, sums, nodes, sizeof(nodes));
	row.nodes = nodes;
	err = recording_put_memory_access(write->recording, &row);
	if (!err && sums->interrupts_on + sums->interrupts_off)
		err = recording_put(write->recording, memory_interrupts, .line = line, .offset = access->offset,
				    .code = row.code, .thread = row.thread,
				    .records = sums->interrupts_on + sums->interrupts_off, .off = sums->interrupts_off);
	return err;
}

int memory_rows_accesses(const struct memory_write *write, __s64 line, const struct memory_access *accesses,
			 __u32 count)
{
	struct sums sums = {};
	int err = 0;

	for (__u32 at = 0, end; !err && at < count; at = end) {
		const struct memory_access *first = &accesses[at];

		for (end = at + 1;
		     end < count && accesses[end].offset == first->offset && accesses[end].code == first->code;)
			end++;
		err = add_up(&sums, first, end - at);
		err = err ?: write_access(write, line, first, &sums);
		clear(&sums);
	}
	return err;
}

int memory_row_wait(const struct memory_write *write, __s64 line, const struct memory_wait *wait)
{
	__s64 lock = write->locks->id(write->locks->context, wait->lock, wait->kind);

	if (lock < 0)
		return lock;
	return recording_add_memory_wait(write->recording,
					 &(struct recorded_memory_wait){.line = line,
									.lock = lock,
									.kind = wait->kind,
									.records = wait->records,
									.transfers = wait->transfers});
}
