// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>

#include "memory/memory_names.h"
#include "memory/memory_rows.h"
#include "memory/memory_write.h"
#include "recording/recording_rows.h"

static int write_problems(const struct memory_write *write)
{
	int err = 0;

	for (__u64 i = 0; !err && i < write->problems->count && i < MEMORY_PROBLEMS; i++)
		err = recording_put(write->recording, memory_problem, .source = MEMORY_SOURCE,
				    .place = write->problems->list[i].place, .problem = write->problems->list[i].text);
	return err;
}

/* The best line is number 1. */
static int write_lines(const struct memory_write *write, const struct memory_rank *rank,
		       const struct memory_names *names)
{
	struct memory_pages pages = {.list = write->lines->pages, .count = write->lines->page_count};
	int err = 0;

	memory_pages_sort(&pages);
	for (__u32 i = 0; !err && i < rank->line_count; i++)
		err = memory_row_line(write, &pages, rank->lines[i], (__s64)i + 1, &names->variables[i]);
	return err;
}

static int write_accesses(const struct memory_write *write, const struct memory_rank *rank)
{
	int err = 0;

	for (__u32 i = 0; !err && i < rank->line_count; i++) {
		__u32 begin = i ? rank->ends[i - 1] : 0;

		err = memory_rows_accesses(write, (__s64)i + 1, rank->accesses + begin, rank->ends[i] - begin);
	}
	return err;
}

int memory_write(const struct memory_write *write, struct memory_rank *rank)
{
	struct memory_names names = {};
	__u8 *codes = NULL, *threads = NULL;
	__u32 accesses;
	int err;

	err = memory_lines_finish(write->lines);
	err = err ?: memory_rows_source(write);
	err = err ?: write_problems(write);
	err = err ?: memory_rank_make(rank, write->lines, write->accesses, false);
	if (err)
		return err;
	memory_lines_drop_indexes(write->lines);
	codes = calloc(write->lines->code_count + 1ull, 1);
	threads = calloc(write->tasks->thread_count + 1ull, 1);
	if (!codes || !threads) {
		err = -ENOMEM;
		goto out;
	}
	accesses = rank->line_count ? rank->ends[rank->line_count - 1] : 0;
	for (__u32 i = 0; i < accesses; i++) {
		codes[rank->accesses[i].code] = 1;
		memory_access_mark(&rank->accesses[i], threads);
	}
	err = memory_names_find(&names, write, rank, codes);
	err = err ?: write_lines(write, rank, &names);
	for (__u32 i = 0; !err && i < write->lines->code_count; i++)
		if (codes[i])
			err = memory_row_code(write, i, &names.codes[i]);
	for (__u32 i = 0; !err && i < write->tasks->thread_count; i++)
		if (threads[i])
			err = memory_row_thread(write, i);
	err = err ?: write_accesses(write, rank);
out:
	memory_names_free(&names);
	free(codes);
	free(threads);
	return err;
}
