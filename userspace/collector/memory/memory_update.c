// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "memory/memory_elf.h"
#include "memory/memory_rows.h"
#include "memory/memory_update.h"
#include "memory/perf_samples.h"
#include "recording/recording_rows.h"

/* For names in files, of one write that is not the last; the next goes on. */
#define NAMING_NS 20000000ull

enum row_state {
	ROW_NONE,
	ROW_UNNAMED,  /* a file may have the name */
	ROW_NAMELESS, /* the kernel's symbols do not have it, before their last reading */
	ROW_DONE,
};

static const struct memory_name no_name = {.symbol = "", .line = ""};

/* One write, of what there was when it began. */
struct round {
	struct memory_update *update;
	const struct memory_write *write;
	const struct memory_turn *turn;
	const struct memory_rank *rank;
	struct memory_pages pages;
	struct memory_wait *waits;
	__u32 wait_count;
	__u32 line_count;
	__u32 code_count;
	__u32 thread_count;
	__u32 *places;  /* by line: in the rank, + 1; 0: not kept */
	__u32 *samples; /* by place */
	__u8 *changed;  /* by place: its rows are written anew */
	__u8 *codes;    /* by number: kept lines refer to it */
	__u8 *threads;
};

void memory_update_free(struct memory_update *update)
{
	free(update->samples);
	free(update->lines);
	free(update->codes);
	free(update->threads);
	*update = (struct memory_update){};
}

static int extend(void **array, __u32 from, __u32 to, size_t size)
{
	void *larger = realloc(*array, (to + 1ull) * size);

	if (!larger)
		return -ENOMEM;
	memset((char *)larger + from * size, 0, (to - from) * size);
	*array = larger;
	return 0;
}

/* All are few bytes beside what the sums have of each. */
static int extend_update(struct memory_update *update, const struct round *round)
{
	int err = extend((void **)&update->samples, update->line_count, round->line_count, sizeof(*update->samples));

	err = err ?: extend((void **)&update->lines, update->line_count, round->line_count, 1);
	if (!err)
		update->line_count = round->line_count;
	err = err ?: extend((void **)&update->codes, update->code_count, round->code_count, 1);
	if (!err)
		update->code_count = round->code_count;
	err = err ?: extend((void **)&update->threads, update->thread_count, round->thread_count, 1);
	if (!err)
		update->thread_count = round->thread_count;
	return err;
}

static void *copy(const void *list, __u32 count, size_t size)
{
	void *out = malloc((count + 1ull) * size);

	if (out && count)
		memcpy(out, list, count * size);
	return out;
}

static void end_round(struct round *round)
{
	free(round->pages.list);
	free(round->waits);
	free(round->places);
	free(round->samples);
	free(round->changed);
	free(round->codes);
	free(round->threads);
}

static int begin_round(struct round *round)
{
	const struct memory_lines *lines = round->write->lines;
	const struct memory_rank *rank = round->rank;
	__u32 accesses = rank->line_count ? rank->ends[rank->line_count - 1] : 0;

	round->line_count = lines->line_count;
	round->code_count = lines->code_count;
	round->thread_count = round->write->tasks->thread_count;
	round->pages.list = copy(lines->pages, lines->page_count, sizeof(*lines->pages));
	round->pages.count = lines->page_count;
	round->waits = copy(lines->waits, lines->wait_count, sizeof(*lines->waits));
	round->wait_count = lines->wait_count;
	round->places = calloc(round->line_count + 1ull, sizeof(*round->places));
	round->samples = calloc(rank->line_count + 1ull, sizeof(*round->samples));
	round->changed = calloc(rank->line_count + 1ull, 1);
	round->codes = calloc(round->code_count + 1ull, 1);
	round->threads = calloc(round->thread_count + 1ull, 1);
	if (!round->pages.list || !round->waits || !round->places || !round->samples || !round->changed ||
	    !round->codes || !round->threads)
		return -ENOMEM;
	memory_pages_sort(&round->pages);
	for (__u32 i = 0; i < rank->line_count; i++) {
		round->places[rank->lines[i]] = i + 1;
		round->samples[i] = lines->lines[rank->lines[i]].samples;
	}
	for (__u32 i = 0; i < accesses; i++) {
		round->codes[rank->accesses[i].code] = 1;
		memory_access_mark(&rank->accesses[i], round->threads);
	}
	return extend_update(round->update, round);
}

static int pause(const struct round *round)
{
	return round->turn->pause ? round->turn->pause(round->turn->context) : 0;
}

static int drop_line(struct recording *recording, __s64 id)
{
	int err = recording_drop_memory_line(recording, id);

	err = err ?: recording_drop_memory_accesses(recording, id);
	err = err ?: recording_drop_memory_interrupts(recording, id);
	return err ?: recording_drop_memory_waits(recording, id);
}

/* Lines that others have pushed out. */
static int drop_lines(struct round *round)
{
	struct memory_update *update = round->update;
	int err = 0;

	for (__u32 i = 0; !err && i < round->line_count; i++) {
		if (round->places[i] || !update->samples[i])
			continue;
		err = drop_line(round->write->recording, (__s64)i + 1);
		update->samples[i] = 0;
		update->lines[i] = ROW_NONE;
		err = err ?: pause(round);
	}
	return err;
}

static enum row_state name_line(const struct round *round, __u32 number, struct memory_name *name)
{
	const struct memory_line *line = &round->write->lines->lines[number];

	*name = no_name;
	if (line->cpumode != CPUMODE_KERNEL)
		return line->static_object == MEMORY_NO_OBJECT ? ROW_DONE : ROW_UNNAMED;
	return memory_name_kernel(round->write, line->address, line->object, true, name) ? ROW_DONE : ROW_NAMELESS;
}

static enum row_state name_code(const struct round *round, __u32 number, struct memory_name *name)
{
	const struct memory_code *code = &round->write->lines->codes[number];

	*name = no_name;
	if (code->cpumode != CPUMODE_KERNEL)
		return code->object == MEMORY_NO_OBJECT ? ROW_DONE : ROW_UNNAMED;
	return memory_name_kernel(round->write, code->address, code->object, false, name) ? ROW_DONE : ROW_NAMELESS;
}

/* Whether the row is to be written for its kernel name: it is new, or symbols were read for the last time. */
static bool wants_name(const struct round *round, __u8 state)
{
	return state == ROW_NONE || (round->turn->last && state == ROW_NAMELESS);
}

static int put_line(struct round *round, __u32 place)
{
	struct memory_update *update = round->update;
	const struct memory_write *write = round->write;
	const struct memory_rank *rank = round->rank;
	__u32 number = rank->lines[place], begin = place ? rank->ends[place - 1] : 0;
	__s64 id = (__s64)number + 1;
	struct memory_name name;
	int err = 0;

	round->changed[place] = round->samples[place] != update->samples[number];
	if (wants_name(round, update->lines[number]) && round->samples[place]) {
		update->lines[number] = name_line(round, number, &name);
		err = memory_row_line(write, &round->pages, number, id, &name);
	} else if (round->changed[place]) {
		err = memory_row_line_pages(write, &round->pages, number, id);
	}
	if (err || !round->changed[place])
		return err;
	update->samples[number] = round->samples[place];
	err = recording_drop_memory_waits(write->recording, id);
	return err ?: memory_rows_accesses(write, id, rank->accesses + begin, rank->ends[place] - begin);
}

static int put_lines(struct round *round)
{
	int err = 0;

	for (__u32 i = 0; !err && i < round->rank->line_count; i++) {
		err = put_line(round, i);
		err = err ?: pause(round);
	}
	for (__u32 i = 0; !err && round->write->locks && i < round->wait_count; i++) {
		const struct memory_wait *wait = &round->waits[i];
		__u32 place = round->places[wait->line];

		if (place && round->changed[place - 1])
			err = memory_row_wait(round->write, (__s64)wait->line + 1, wait);
	}
	return err;
}

/* Rows of no line that is kept are left for lines that come back, but for the last time. */
static int put_codes(struct round *round)
{
	__u8 *states = round->update->codes;
	int err = 0;

	for (__u32 i = 0; !err && i < round->code_count; i++) {
		struct memory_name name;

		if (round->codes[i] && wants_name(round, states[i])) {
			states[i] = name_code(round, i, &name);
			err = memory_row_code(round->write, i, &name);
			err = err ?: pause(round);
		} else if (!round->codes[i] && states[i] && round->turn->last) {
			err = recording_drop_memory_code(round->write->recording, (__s64)i + 1);
		}
	}
	return err;
}

static int put_threads(struct round *round)
{
	__u8 *states = round->update->threads;
	int err = 0;

	for (__u32 i = 0; !err && i < round->thread_count; i++) {
		if (round->threads[i] && !states[i]) {
			states[i] = ROW_DONE;
			err = memory_row_thread(round->write, i);
		} else if (!round->threads[i] && states[i] && round->turn->last) {
			err = recording_drop_memory_thread(round->write->recording, (__s64)i + 1);
		}
	}
	return err;
}

/* A row whose name is sought in a file. */
struct unnamed {
	__u32 object;
	bool variable; /* of a line; else of a code */
	__u32 number;
	__u64 unit;
};

static int compare_unnamed(const void *a, const void *b)
{
	const struct unnamed *x = a, *y = b;

	if (x->object != y->object)
		return x->object < y->object ? -1 : 1;
	return x->unit < y->unit ? -1 : x->unit > y->unit;
}

static __u32 list_unnamed(const struct round *round, struct unnamed *list)
{
	const struct memory_lines *lines = round->write->lines;
	__u32 count = 0;

	for (__u32 i = 0; i < round->rank->line_count; i++) {
		__u32 number = round->rank->lines[i];
		const struct memory_line *line = &lines->lines[number];

		if (round->update->lines[number] == ROW_UNNAMED)
			list[count++] = (struct unnamed){line->static_object, true, number, line->static_unit};
	}
	for (__u32 i = 0; i < round->code_count; i++) {
		const struct memory_code *code = &lines->codes[i];

		if (round->codes[i] && round->update->codes[i] == ROW_UNNAMED)
			list[count++] = (struct unnamed){code->object, false, i, code->unit};
	}
	if (count)
		qsort(list, count, sizeof(*list), compare_unnamed);
	return count;
}

static int name_row(struct round *round, struct memory_elf *elf, const struct unnamed *row)
{
	struct memory_name name = no_name;
	char line[MEMORY_LINE_TEXT] = "";
	int err;

	if (row->variable)
		err = memory_elf_variable(elf, row->unit, &name.symbol, &name.offset);
	else
		err = memory_elf_code(elf, row->unit, &name.symbol, &name.offset, line, sizeof(line));
	if (err)
		name = no_name;
	name.line = line;
	return row->variable ? memory_row_line_name(round->write, (__s64)row->number + 1, &name)
			     : memory_row_code(round->write, row->number, &name);
}

/* Each file is opened once in a write; one row at least gets its name. */
static int name_rows(struct round *round)
{
	struct unnamed *list = malloc((round->rank->line_count + round->code_count + 1ull) * sizeof(*list));
	struct memory_elf *elf = NULL;
	__u32 count = list ? list_unnamed(round, list) : 0;
	__u64 end_ns = now_ns() + NAMING_NS;
	int err = list ? 0 : -ENOMEM;

	for (__u32 i = 0; !err && i < count && (round->turn->last || !i || now_ns() < end_ns); i++) {
		if (!i || list[i].object != list[i - 1].object) {
			memory_elf_close(elf);
			elf = memory_elf_open(round->write->symbols,
					      &round->write->tasks->objects.list[list[i].object]);
		}
		if (elf)
			err = name_row(round, elf, &list[i]);
		(list[i].variable ? round->update->lines : round->update->codes)[list[i].number] = ROW_DONE;
		err = err ?: pause(round);
	}
	memory_elf_close(elf);
	free(list);
	return err;
}

int memory_update_write(struct memory_update *update, const struct memory_write *write, const struct memory_turn *turn,
			struct memory_rank *rank)
{
	struct round round = {.update = update, .write = write, .turn = turn, .rank = rank};
	int err = memory_lines_finish(write->lines);

	err = err ?: memory_rows_source(write);
	err = err ?: memory_rank_make(rank, write->lines, write->accesses, true);
	if (err)
		return err;
	err = begin_round(&round);
	err = err ?: drop_lines(&round);
	err = err ?: put_codes(&round);
	err = err ?: put_threads(&round);
	err = err ?: put_lines(&round);
	err = err ?: name_rows(&round);
	end_round(&round);
	return err;
}
