// SPDX-License-Identifier: GPL-2.0-or-later
/* Event sources made up as kernels show them, and the events that are chosen there. */
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernel/pmu.h"
#include "tap.h"

static char root[] = "/tmp/lockline_pmus_XXXXXX";

/* root/pmu/name with this text. */
static void put(const char *pmu, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s/%s", root, pmu, name);
	for (char *slash = strchr(path + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		mkdir(path, 0700);
		*slash = '/';
	}
	file = fopen(path, "w");
	CHECK(file, "%s", path);
	if (!file)
		return;
	fprintf(file, "%s\n", text);
	fclose(file);
}

static void begin_machine(void)
{
	snprintf(root, sizeof(root), "/tmp/lockline_pmus_XXXXXX");
	CHECK(mkdtemp(root), "no directory");
	put("software", "type", "1");
	put("breakpoint", "type", "5");
}

static void end_machine(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", root);
	CHECK(!system(command), "%s", command);
}

static struct pmu_plan plan_of(const struct pmu_wish *wish)
{
	struct pmu_wish rooted = *wish;
	struct pmu_plan plan;

	rooted.root = root;
	pmu_plan_make(&plan, &rooted);
	return plan;
}

static const struct pmu_wish no_wish;

static void put_intel_formats(const char *pmu)
{
	put(pmu, "format/event", "config:0-7");
	put(pmu, "format/umask", "config:8-15");
	put(pmu, "format/ldlat", "config1:0-15");
	put(pmu, "caps/max_precise", "3");
}

static void check_event(const struct pmu_event *event, const char *name, __u32 type, __u64 config, __u64 config1)
{
	CHECK_TEXT(event->name, name);
	CHECK(event->type == type, "%s: type %u", name, event->type);
	CHECK(event->config[0] == config && event->config[1] == config1 && !event->config[2], "%s: %llx %llx %llx",
	      name, event->config[0], event->config[1], event->config[2]);
}

static void skylake(void)
{
	struct pmu_wish slow = {.ldlat = 200};
	struct pmu_plan plan;

	begin_machine();
	put("cpu", "type", "4");
	put_intel_formats("cpu");
	put("cpu", "events/mem-loads", "event=0xcd,umask=0x1,ldlat=3");
	put("cpu", "events/mem-stores", "event=0xd0,umask=0x82");
	put("uncore_imc_0", "type", "20");
	plan = plan_of(&no_wish);
	CHECK(plan.count == 2 && !*plan.note && !*plan.trace, "%d events, note %s", plan.count, plan.note);
	check_event(&plan.events[0], "cpu/mem-loads,ldlat=30/P", 4, 0x1cd, 30);
	check_event(&plan.events[1], "cpu/mem-stores/P", 4, 0x82d0, 0);
	for (int i = 0; i < 2; i++)
		CHECK(plan.events[i].precise == 3 && plan.events[i].least == 1 && !plan.events[i].aux &&
			      !*plan.events[i].cpus,
		      "%s: precise %d", plan.events[i].name, plan.events[i].precise);
	plan = plan_of(&slow);
	check_event(&plan.events[0], "cpu/mem-loads,ldlat=200/P", 4, 0x1cd, 200);
	end_machine();
}

static void sapphire_rapids(void)
{
	struct pmu_plan plan;

	begin_machine();
	put("cpu", "type", "4");
	put_intel_formats("cpu");
	put("cpu", "events/mem-loads", "event=0xcd,umask=0x1,ldlat=3");
	put("cpu", "events/mem-loads-aux", "event=0x03,umask=0x82");
	put("cpu", "events/mem-stores", "event=0xcd,umask=0x2");
	plan = plan_of(&no_wish);
	CHECK(plan.count == 2, "%d events", plan.count);
	check_event(&plan.events[0], "cpu/mem-loads,ldlat=30/P", 4, 0x1cd, 30);
	CHECK(plan.events[0].aux && plan.events[0].aux_config[0] == 0x8203 && !plan.events[0].aux_config[1], "aux %llx",
	      plan.events[0].aux_config[0]);
	check_event(&plan.events[1], "cpu/mem-stores/P", 4, 0x2cd, 0);
	CHECK(!plan.events[1].aux, "stores need none");
	end_machine();
}

static void alder_lake(void)
{
	struct pmu_plan plan;

	begin_machine();
	put("cpu_core", "type", "4");
	put("cpu_core", "cpus", "0-15");
	put_intel_formats("cpu_core");
	put("cpu_core", "events/mem-loads", "event=0xcd,umask=0x1,ldlat=3");
	put("cpu_core", "events/mem-loads-aux", "event=0x03,umask=0x82");
	put("cpu_core", "events/mem-stores", "event=0xcd,umask=0x2");
	put("cpu_atom", "type", "10");
	put("cpu_atom", "cpus", "16-23");
	put_intel_formats("cpu_atom");
	put("cpu_atom", "events/mem-loads", "event=0xd0,umask=0x5,ldlat=3");
	put("cpu_atom", "events/mem-stores", "event=0xd0,umask=0x6");
	plan = plan_of(&no_wish);
	CHECK(plan.count == 4, "%d events", plan.count);
	check_event(&plan.events[0], "cpu_atom/mem-loads,ldlat=30/P", 10, 0x5d0, 30);
	CHECK(!plan.events[0].aux, "small cores need none");
	CHECK_TEXT(plan.events[0].cpus, "16-23");
	check_event(&plan.events[1], "cpu_atom/mem-stores/P", 10, 0x6d0, 0);
	check_event(&plan.events[2], "cpu_core/mem-loads,ldlat=30/P", 4, 0x1cd, 30);
	CHECK(plan.events[2].aux, "large cores need it");
	CHECK_TEXT(plan.events[2].cpus, "0-15");
	check_event(&plan.events[3], "cpu_core/mem-stores/P", 4, 0x2cd, 0);
	end_machine();
}

static void zen_2(void)
{
	struct pmu_wish filters = {.ldlat = 200, .l3_misses = true};
	struct pmu_plan plan;

	begin_machine();
	put("ibs_op", "type", "9");
	put("ibs_op", "format/cnt_ctl", "config:19");
	put("ibs_op", "format/rand_en", "config:57");
	put("ibs_fetch", "type", "8");
	plan = plan_of(&no_wish);
	CHECK(plan.count == 1 && strstr(plan.note, "Zen 4"), "%d events, note %s", plan.count, plan.note);
	check_event(&plan.events[0], "ibs_op/cnt_ctl=1/", 9, 1ull << 19, 0);
	CHECK(!plan.events[0].precise && !plan.events[0].least, "IBS is precise by itself");
	plan = plan_of(&filters);
	check_event(&plan.events[0], "ibs_op/cnt_ctl=1/", 9, 1ull << 19, 0);
	end_machine();
}

static void zen_4(void)
{
	struct pmu_wish misses = {.l3_misses = true}, slow = {.ldlat = 300}, slowest = {.ldlat = 60000};
	struct pmu_plan plan;

	begin_machine();
	put("ibs_op", "type", "9");
	put("ibs_op", "format/cnt_ctl", "config:19");
	put("ibs_op", "format/l3missonly", "config:16");
	put("ibs_op", "caps/zen4_ibs_extensions", "1");
	plan = plan_of(&no_wish);
	CHECK(plan.count == 1 && strstr(plan.note, "--l3-misses"), "%d events, note %s", plan.count, plan.note);
	/* Not by default: what cores of one cache pass to each other misses no L3. */
	check_event(&plan.events[0], "ibs_op/cnt_ctl=1/", 9, 1ull << 19, 0);
	plan = plan_of(&misses);
	CHECK(!*plan.note, "note %s", plan.note);
	check_event(&plan.events[0], "ibs_op/cnt_ctl=1,l3missonly=1/", 9, 1ull << 19 | 1ull << 16, 0);
	plan = plan_of(&slow);
	check_event(&plan.events[0], "ibs_op/cnt_ctl=1/", 9, 1ull << 19, 0);
	/* Zen 5 */
	put("ibs_op", "format/ldlat", "config1:0-11");
	put("ibs_op", "caps/ldlat", "1");
	plan = plan_of(&slow);
	check_event(&plan.events[0], "ibs_op/cnt_ctl=1,l3missonly=1,ldlat=384/", 9, 1ull << 19 | 1ull << 16, 384);
	plan = plan_of(&slowest);
	check_event(&plan.events[0], "ibs_op/cnt_ctl=1,l3missonly=1,ldlat=2048/", 9, 1ull << 19 | 1ull << 16, 2048);
	end_machine();
}

static void arm(void)
{
	struct pmu_plan plan;

	begin_machine();
	put("armv8_pmuv3_0", "type", "8");
	put("arm_spe_0", "type", "9");
	put("arm_spe_0", "format/ts_enable", "config:0");
	plan = plan_of(&no_wish);
	CHECK(!plan.count, "%d events", plan.count);
	CHECK_TEXT(plan.trace, "arm_spe_0");
	end_machine();
}

static void none(void)
{
	struct pmu_wish nowhere = {.root = "/nonexistent/devices"};
	struct pmu_plan plan;
	char names[64];

	begin_machine();
	plan = plan_of(&no_wish);
	CHECK(!plan.count && !*plan.trace && !*plan.note && !*plan.error, "%d events", plan.count);
	pmu_plan_names(&plan, names, sizeof(names));
	CHECK_TEXT(names, "");
	pmu_plan_make(&plan, &nowhere);
	CHECK(!plan.count, "%d events", plan.count);
	end_machine();
}

static void one_that_is_wished_for(void)
{
	struct pmu_wish clock = {.event = "software/config=0/"}, loads = {.event = "cpu/mem-loads,ldlat=50/pp"};
	struct pmu_wish best = {.event = "cpu/event=0x1d0,umask=0x3/P"}, raw = {.event = "cpu/config1=0x10,config=2/"};
	struct pmu_plan plan;
	char names[12];

	begin_machine();
	put("cpu", "type", "4");
	put("cpu", "format/event", "config:0-7,32-35");
	put("cpu", "format/umask", "config:8-15");
	put("cpu", "format/ldlat", "config1:0-15");
	put("cpu", "caps/max_precise", "2");
	put("cpu", "events/mem-loads", "event=0xcd,umask=0x1,ldlat=3");
	plan = plan_of(&clock);
	CHECK(plan.count == 1 && !*plan.error, "%d: %s", plan.count, plan.error);
	check_event(&plan.events[0], "software/config=0/", 1, 0, 0);
	plan = plan_of(&loads);
	check_event(&plan.events[0], "cpu/mem-loads,ldlat=50/pp", 4, 0x1cd, 50);
	CHECK(plan.events[0].precise == 2, "%d", plan.events[0].precise);
	plan = plan_of(&best);
	check_event(&plan.events[0], "cpu/event=0x1d0,umask=0x3/P", 4, 0x1000003d0, 0);
	CHECK(plan.events[0].precise == 2, "%d", plan.events[0].precise);
	plan = plan_of(&raw);
	check_event(&plan.events[0], "cpu/config1=0x10,config=2/", 4, 2, 16);
	pmu_plan_names(&plan, names, sizeof(names));
	CHECK_TEXT(names, "cpu/config1");
	end_machine();
}

static void wishes_that_are_none(void)
{
	static const char *const refused[][2] = {
		{"", "write it"},
		{"cpu", "write it"},
		{"cpu/", "write it"},
		{"cpu/mem-loads", "write it"},
		{"cpu/mem-loads/x", "write it"},
		{"cpu/mem-loads/pppp", "write it"},
		{"cpu/ldlat=/", "write it"},
		{"cpu/ldlat=1x/", "write it"},
		{"cpu/ldlat=65536/", "larger"},
		{"cpu/../type/", "write it"},
		{"cpu/..=1/", "write it"},
		{"cpu/odd=1/", "write it"},
		{"gpu/config=1/", "no such PMU"},
		{"../config=1/", "no such PMU"},
		{"cpu/mem-stores/", "no such event"},
	};
	struct pmu_plan plan;
	char long_event[600];

	begin_machine();
	put("cpu", "type", "4");
	put("cpu", "format/ldlat", "config1:0-15");
	put("cpu", "format/odd", "config:9-2");
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		plan = plan_of(&(struct pmu_wish){.event = refused[i][0]});
		CHECK(!plan.count && strstr(plan.error, refused[i][1]), "`%s`: %d, %s", refused[i][0], plan.count,
		      plan.error);
	}
	memset(long_event, 'x', sizeof(long_event) - 1);
	long_event[sizeof(long_event) - 1] = 0;
	memcpy(long_event, "cpu/", 4);
	long_event[500] = '/';
	plan = plan_of(&(struct pmu_wish){.event = long_event});
	CHECK(!plan.count && *plan.error, "%s", plan.error);
	end_machine();
}

static const struct test tests[] = {
	TEST(skylake), TEST(sapphire_rapids),        TEST(alder_lake),           TEST(zen_2), TEST(zen_4), TEST(arm),
	TEST(none),    TEST(one_that_is_wished_for), TEST(wishes_that_are_none),
};

int main(void)
{
	return RUN_TESTS(tests);
}
