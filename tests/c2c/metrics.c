// SPDX-License-Identifier: GPL-2.0-or-later
/* A program with counters that share cache lines; it is compiled for its debug information, not run. */
struct counter {
	long count;
	long errors;
};

struct metrics {
	long requests;
	long cron_runs;
	struct counter by_kind[2];
	unsigned int enabled : 3, level : 5;
} __attribute__((aligned(64)));

struct metrics metrics, shards[4];

void add_request(struct metrics *m)
{
	m->requests++;
	m->by_kind[1].errors++;
}

int main(void)
{
	add_request(&metrics);
	add_request(&shards[1]);
	return metrics.level;
}
