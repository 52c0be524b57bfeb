// SPDX-License-Identifier: GPL-2.0-or-later
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel/cpu_pairs.h"
#include "tap.h"

/* Two CPUs read in turn; the second one's clock is so many ns behind. */
static struct warp read_in_turn(long behind, int holdings)
{
	struct warp second = {};
	__u64 now = 1000000;

	for (int i = 0; i < holdings; i++, now += 100)
		warp_judge(&second, now, now + 50 - behind);
	return second;
}

static void a_clock_that_is_behind(void)
{
	struct warp warp = read_in_turn(51, 1000);

	CHECK(warp.worst == 1 && warp.readings == 1000, "worst %llu of %llu", warp.worst, warp.readings);
	warp = read_in_turn(400, 1000);
	CHECK(warp.worst == 350, "worst %llu", warp.worst);
}

static void clocks_that_agree(void)
{
	struct warp warp = read_in_turn(0, 1000);

	CHECK(!warp.worst && warp.readings == 1000, "worst %llu of %llu", warp.worst, warp.readings);
	/* The same reading twice is no step backwards. */
	warp = read_in_turn(50, 1000);
	CHECK(!warp.worst, "worst %llu", warp.worst);
	/* Ahead: that is for the other CPU to see. */
	warp = read_in_turn(-100000, 1000);
	CHECK(!warp.worst, "worst %llu", warp.worst);
}

static void the_worst_of_all(void)
{
	struct warp warp = {};

	warp_judge(&warp, 100, 90);
	warp_judge(&warp, 200, 300);
	warp_judge(&warp, 400, 375);
	warp_judge(&warp, 500, 499);
	CHECK(warp.worst == 25 && warp.readings == 4, "worst %llu of %llu", warp.worst, warp.readings);
}

static void median_and_least(void)
{
	double odd[] = {70, 50, 60}, even[] = {80, 50, 70, 60}, stalled[] = {50, 51, 52, 53, 1e9};
	struct cpu_pair pair = {};

	transfer_judge(&pair, odd, 0);
	CHECK(!pair.transfer_ns && !pair.least_transfer_ns, "of nothing");
	transfer_judge(&pair, odd, 3);
	CHECK(pair.transfer_ns == 60 && pair.least_transfer_ns == 50, "%f %f", pair.transfer_ns,
	      pair.least_transfer_ns);
	transfer_judge(&pair, even, 4);
	CHECK(pair.transfer_ns == 65 && pair.least_transfer_ns == 50, "%f %f", pair.transfer_ns,
	      pair.least_transfer_ns);
	transfer_judge(&pair, stalled, 5);
	CHECK(pair.transfer_ns == 52, "%f", pair.transfer_ns);
}

/* nodes of caches of cores of threads, CPUs numbered as Linux does: the second threads of all cores last. */
static size_t make_places(struct cpu_place *places, int nodes, int caches, int cores, int threads)
{
	int all = nodes * caches * cores;

	for (int cpu = 0; cpu < all * threads; cpu++) {
		int core = cpu % all;

		places[cpu] = (struct cpu_place){
			.cpu = cpu, .core = core, .cache = core / cores * cores, .node = core / (cores * caches)};
	}
	return all * threads;
}

static void check_pairs(const struct cpu_choice *pairs, size_t count, size_t cpus)
{
	for (size_t i = 0; i < count; i++) {
		CHECK(pairs[i].first < pairs[i].second && pairs[i].second < cpus, "%u %u", pairs[i].first,
		      pairs[i].second);
		for (size_t j = 0; j < i; j++)
			CHECK(pairs[i].first != pairs[j].first || pairs[i].second != pairs[j].second, "%u %u twice",
			      pairs[i].first, pairs[i].second);
	}
}

static int count_relation(const struct cpu_choice *pairs, size_t count, enum cpu_relation relation)
{
	int found = 0;

	for (size_t i = 0; i < count; i++)
		found += pairs[i].relation == relation;
	return found;
}

static void few_cpus_have_all_pairs(void)
{
	struct cpu_choice pairs[MOST_PAIRS];
	struct cpu_place places[16];
	size_t cpus = make_places(places, 2, 1, 4, 2), count = cpu_pairs_choose(pairs, MOST_PAIRS, places, cpus);

	CHECK(count == 120, "%zu pairs", count);
	check_pairs(pairs, count, cpus);
	CHECK(count_relation(pairs, count, SAME_CORE) == 8, "threads of one core");
	CHECK(count_relation(pairs, count, OTHER_NODE) == 64, "across nodes");
	CHECK(!cpu_pairs_choose(pairs, MOST_PAIRS, places, 1), "one CPU has no pair");
	CHECK(!cpu_pairs_choose(pairs, MOST_PAIRS, places, 0), "none neither");
}

static void many_cpus_have_some_of_each(void)
{
	struct cpu_choice pairs[MOST_PAIRS], again[MOST_PAIRS];
	struct cpu_place places[512];
	size_t cpus = make_places(places, 2, 8, 8, 2), count = cpu_pairs_choose(pairs, MOST_PAIRS, places, cpus);

	CHECK(cpus == 256 && count == MOST_PAIRS, "%zu pairs of %zu CPUs", count, cpus);
	check_pairs(pairs, count, cpus);
	for (int relation = 0; relation < CPU_RELATIONS; relation++)
		CHECK(count_relation(pairs, count, relation) >= 12, "%s: %d", cpu_relation_names[relation],
		      count_relation(pairs, count, relation));
	CHECK(cpu_pairs_choose(again, MOST_PAIRS, places, cpus) == count && !memcmp(pairs, again, sizeof(pairs)),
	      "chosen otherwise the second time");
	/* So many caches that their own pairs would take all. */
	cpus = make_places(places, 4, 32, 2, 2);
	count = cpu_pairs_choose(pairs, MOST_PAIRS, places, cpus);
	CHECK(cpus == 512 && count == MOST_PAIRS, "%zu pairs of %zu CPUs", count, cpus);
	check_pairs(pairs, count, cpus);
	CHECK(count_relation(pairs, count, OTHER_NODE) >= 16, "across nodes: %d",
	      count_relation(pairs, count, OTHER_NODE));
}

static void put(const char *root, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", root, name);
	for (char *slash = strchr(path + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(path, 0700);
		*slash = '/';
	}
	if (!text) {
		mkdir(path, 0700);
		return;
	}
	file = fopen(path, "w");
	CHECK(file, "%s", path);
	if (!file)
		return;
	fprintf(file, "%s\n", text);
	fclose(file);
}

static void places_by_sysfs(void)
{
	char root[] = "/tmp/lockline_cpus_XXXXXX", command[64];
	struct cpu_place place;

	CHECK(mkdtemp(root), "no directory");
	put(root, "cpu37/topology/thread_siblings_list", "5,37");
	put(root, "cpu37/cache/index0/level", "1");
	put(root, "cpu37/cache/index0/shared_cpu_list", "5,37");
	put(root, "cpu37/cache/index1/level", "3");
	put(root, "cpu37/cache/index1/shared_cpu_list", "4-7,36-39");
	put(root, "cpu37/cache/index2/level", "2");
	put(root, "cpu37/cache/index2/shared_cpu_list", "5,37");
	put(root, "cpu37/node3", NULL);
	cpu_place_read(&place, 37, root);
	CHECK(place.cpu == 37 && place.core == 5 && place.cache == 4 && place.node == 3, "%u %u %u %u", place.cpu,
	      place.core, place.cache, place.node);
	put(root, "cpu2/topology/thread_siblings_list", "what");
	put(root, "cpu2/cache/index0/level", "3");
	cpu_place_read(&place, 2, root);
	CHECK(place.core == 2 && place.cache == 2 && !place.node, "%u %u %u", place.core, place.cache, place.node);
	cpu_place_read(&place, 9, root);
	CHECK(place.core == 9 && place.cache == 9 && !place.node, "%u %u %u", place.core, place.cache, place.node);
	snprintf(command, sizeof(command), "rm -r %s", root);
	CHECK(!system(command), "%s", command);
}

static const struct test tests[] = {
	TEST(a_clock_that_is_behind), TEST(clocks_that_agree),       TEST(the_worst_of_all),
	TEST(median_and_least),       TEST(few_cpus_have_all_pairs), TEST(many_cpus_have_some_of_each),
	TEST(places_by_sysfs),
};

int main(void)
{
	return RUN_TESTS(tests);
}
