// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>

#include "bpf/lockline.h"
#include "probes/sizing.h"

#define MIN_NAMED_ROWS 32
#define MAX_NAMED_ROWS 4096

static __u32 power_of_two_below(__u64 value, __u32 least, __u32 most)
{
	__u32 power = least;

	while (power < most && (__u64)power * 2 <= value)
		power *= 2;
	return power;
}

/* Sums up what there is with so many named rows. */
static void fill(struct sizing *s, const struct sizing_wish *wish, __u32 named)
{
	s->named_rows = named;
	s->rows = named + KIND_COUNT;
	s->map_bytes = s->last_read_bytes = s->lock_bytes = s->futex_bytes = 0;
	for (int i = 0; i < wish->part_count; i++)
		wish->parts[i]->add(s);
	s->total_bytes = s->map_bytes + s->last_read_bytes + s->lock_bytes + s->futex_bytes;
}

/* So many of each as an eighth of the budget buys; budget 0: the least. */
static void set_numbers(struct sizing *s, const struct sizing_wish *wish, __u64 budget)
{
	for (int i = 0; i < wish->part_count; i++) {
		const struct sized *sized = wish->parts[i]->sized;

		for (int j = 0; j < SIZED_MOST && sized[j].bytes; j++) {
			__u64 share = budget / 8 * (sized[j].eighths ?: 1) / (sized[j].per_cpu ? s->cpus : 1);
			__u32 *number = (__u32 *)((char *)s + sized[j].at), most = sized[j].most;

			if (sized[j].enough && sized[j].enough(wish) < most)
				most = sized[j].enough(wish);
			*number = power_of_two_below(share / sized[j].bytes(s), sized[j].least, most);
		}
	}
}

int sizing_make(struct sizing *out, __u32 cpus, const struct sizing_wish *wish, __u64 *need)
{
	struct sizing s = {.cpus = cpus}, one_more;
	__u64 budget = wish->budget, share, rows;

	if (!cpus)
		return -EINVAL;
	s.stack_bytes = wish->user_stacks ? sizeof(struct wait_stack) : offsetof(struct wait_stack, user);
	s.event_bytes = offsetof(struct wait_event, stack) + s.stack_bytes;

	set_numbers(&s, wish, 0);
	fill(&s, wish, MIN_NAMED_ROWS);
	*need = s.total_bytes;
	if (!budget)
		budget = *need * 3 / 2 > MEMORY_DEFAULT ? *need * 3 / 2 : MEMORY_DEFAULT;
	if (s.total_bytes > budget)
		return -ENOSPC;
	s.budget_bytes = budget;

	/* Where it is tight each gets less, down to the least. */
	for (share = budget;; share /= 2) {
		set_numbers(&s, wish, share);
		fill(&s, wish, MIN_NAMED_ROWS);
		if (s.total_bytes <= budget || !share)
			break;
	}
	/* The rows take what is left. */
	one_more = s;
	fill(&one_more, wish, MIN_NAMED_ROWS + 1);
	rows = MIN_NAMED_ROWS + (budget - s.total_bytes) / (one_more.total_bytes - s.total_bytes);
	fill(&s, wish, rows < MAX_NAMED_ROWS ? rows : MAX_NAMED_ROWS);
	*out = s;
	return 0;
}
