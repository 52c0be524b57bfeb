// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/files_limit.h"
#include "cli/message.h"
#include "memory/live_events.h"
#include "base/small_file.h"
#include "base/values.h"

#define MAX_RATE "/proc/sys/kernel/perf_event_max_sample_rate"

#ifndef PERF_SAMPLE_WEIGHT_STRUCT
#define PERF_SAMPLE_WEIGHT_STRUCT (1u << 24)
#endif

static int perf_event_open(struct perf_event_attr *attr, __u32 cpu, int group)
{
	int fd = syscall(SYS_perf_event_open, attr, -1, cpu, group, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

/* Counts, so that its group's other event works. */
static int open_leader(const struct pmu_event *event, __u32 cpu)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = event->type,
		.config = event->aux_config[0],
		.config1 = event->aux_config[1],
		.config2 = event->aux_config[2],
		.disabled = 1,
	};

	return perf_event_open(&attr, cpu, -1);
}

/*
 * By frequency, and with a wake-up at each sample: either keeps the kernel from
 * collecting many in the PMU's own buffer (large PEBS), of which the program
 * would see the last alone.
 */
static int open_sampler(const struct pmu_event *event, const struct live_settings *chosen, __u32 rate, __u32 cpu,
			int leader)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = event->type,
		.config = event->config[0],
		.config1 = event->config[1],
		.config2 = event->config[2],
		.freq = 1,
		.sample_freq = rate,
		.wakeup_events = 1,
		.sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU |
			       PERF_SAMPLE_ADDR | PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_PHYS_ADDR |
			       PERF_SAMPLE_WEIGHT_STRUCT,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
		.precise_ip = chosen->precise,
		.exclude_guest = chosen->exclude_guest,
		.disabled = leader < 0,
	};

	return perf_event_open(&attr, cpu, leader);
}

/* What the PMU takes: of guests nothing, if it can tell; as precise as it can. */
static int open_somehow(const struct pmu_event *event, struct live_settings *chosen, __u32 rate, __u32 cpu, int leader)
{
	int err = -EINVAL;

	if (chosen->known)
		return open_sampler(event, chosen, rate, cpu, leader);
	for (int guests = 0; guests < 2; guests++) {
		for (int precise = event->precise; precise >= event->least; precise--) {
			*chosen = (struct live_settings){.exclude_guest = !guests, .precise = precise};
			err = open_sampler(event, chosen, rate, cpu, leader);
			chosen->known = err >= 0;
			if (err >= 0 || (err != -EINVAL && err != -EOPNOTSUPP))
				return err;
		}
	}
	return err;
}

static void close_event(struct live_event *event)
{
	if (event->ring)
		munmap(event->ring, 2 * sysconf(_SC_PAGESIZE));
	if (event->fd >= 0)
		close(event->fd);
	if (event->leader >= 0)
		close(event->leader);
}

static int open_on_cpu(struct live_events *events, int which, __u32 cpu)
{
	const struct pmu_event *event = &events->plan->events[which];
	struct live_event opened = {.cpu = cpu, .fd = -1, .leader = -1};
	int err = 0;

	if (event->aux) {
		opened.leader = open_leader(event, cpu);
		if (opened.leader < 0)
			return opened.leader;
	}
	opened.fd = open_somehow(event, &events->settings[which], events->rate, cpu, opened.leader);
	if (opened.fd < 0)
		err = opened.fd;
	else if (ioctl(opened.fd, PERF_EVENT_IOC_SET_BPF, events->program))
		err = -errno;
	if (err) {
		close_event(&opened);
		return err;
	}
	opened.ring = mmap(NULL, 2 * sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED, opened.fd, 0);
	if (opened.ring == MAP_FAILED)
		opened.ring = NULL;
	events->list[events->count++] = opened;
	return 0;
}

static bool covers(const struct id_list *list, __u32 cpu)
{
	return !list->count || id_list_has(list, cpu);
}

/* One event on the CPUs [from, end) of those that it is wanted on. */
static int open_between(struct live_events *events, int which, __u32 from, __u32 end)
{
	const struct pmu_event *event = &events->plan->events[which];
	struct id_list own = {};
	char why[VALUE_WHY];
	int err = 0;

	if (*event->cpus && parse_ids(event->cpus, true, 0, events->cpus, events->cpus + 1, &own, why))
		return -EINVAL;
	for (__u32 cpu = from; !err && cpu < end; cpu++) {
		if (!covers(events->wanted, cpu) || !covers(&own, cpu))
			continue;
		err = open_on_cpu(events, which, cpu);
		/* Not online. */
		if (err == -ENODEV || err == -ENXIO)
			err = 0;
	}
	free(own.ids);
	return err;
}

static __u32 allowed_rate(__u32 rate)
{
	char text[32];
	unsigned long most;

	if (first_line(MAX_RATE, text, sizeof(text)))
		return rate;
	most = strtoul(text, NULL, 10);
	return most && most < rate ? most : rate;
}

static void start(struct live_events *events, int from)
{
	for (int i = from; i < events->count; i++)
		ioctl(events->list[i].leader >= 0 ? events->list[i].leader : events->list[i].fd, PERF_EVENT_IOC_ENABLE,
		      0);
}

int live_events_open(struct live_events *events, const struct pmu_plan *plan, __u32 rate, const struct id_list *cpus,
		     __u32 all_cpus, int program)
{
	int first = 0;

	*events = (struct live_events){
		.plan = plan, .wanted = cpus, .cpus = all_cpus, .program = program, .rate = allowed_rate(rate)};
	online_cpus_open(&events->online, ONLINE_CPUS);
	events->list = calloc((size_t)all_cpus * plan->count + 1, sizeof(*events->list));
	if (!events->list)
		return -ENOMEM;
	/* Each event of each CPU is a file or two. */
	files_limit_raise();
	for (int i = 0; i < plan->count; i++) {
		int err = open_between(events, i, 0, all_cpus);

		if (err && !*events->failed)
			snprintf(events->failed, sizeof(events->failed), "%.150s: %s", plan->events[i].name,
				 strerror(-err));
		first = first ?: err;
	}
	if (!events->count) {
		if (!*events->failed)
			snprintf(events->failed, sizeof(events->failed), "none of the chosen CPUs is online");
		live_events_close(events);
		return first ?: -ENODEV;
	}
	start(events, 0);
	return 0;
}

/* One page of records with a page of positions before it; records and their heads are multiples of 8 bytes. */
static __u64 count_throttles(void *ring)
{
	struct perf_event_mmap_page *page = ring;
	const __u64 size = sysconf(_SC_PAGESIZE);
	const char *data = (const char *)ring + size;
	__u64 head = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE), tail = page->data_tail, found = 0;

	while (head - tail >= sizeof(struct perf_event_header)) {
		const struct perf_event_header *header = (const void *)(data + tail % size);

		if (header->size < sizeof(*header))
			break;
		found += header->type == PERF_RECORD_THROTTLE;
		tail += header->size;
	}
	__atomic_store_n(&page->data_tail, head, __ATOMIC_RELEASE);
	return found;
}

static void drain_event(struct live_events *events, const struct live_event *event)
{
	if (event->ring)
		events->throttled += count_throttles(event->ring);
}

static void add_times(const struct live_event *event, __u64 *enabled_ns, __u64 *running_ns)
{
	__u64 values[3]; /* count, time enabled, time running */

	if (read(event->fd, values, sizeof(values)) != sizeof(values))
		return;
	*enabled_ns += values[1];
	*running_ns += values[2];
}

static void cpu_came(void *context, __u32 cpu)
{
	struct live_events *events = context;
	int before = events->count;

	for (int i = 0; i < before; i++)
		if (events->list[i].cpu == cpu)
			return;
	for (int i = 0; i < events->plan->count; i++) {
		int err = open_between(events, i, cpu, cpu + 1);

		if (err)
			message("memory samples: %.150s: %s on CPU %u, which came online; the recording goes on "
				"without these",
				events->plan->events[i].name, strerror(-err), cpu);
	}
	start(events, before);
}

/* An event stays dead when its CPU comes back. */
static void cpu_gone(void *context, __u32 cpu)
{
	struct live_events *events = context;
	int kept = 0;

	for (int i = 0; i < events->count; i++) {
		struct live_event *event = &events->list[i];

		if (event->cpu != cpu) {
			events->list[kept++] = *event;
			continue;
		}
		drain_event(events, event);
		add_times(event, &events->gone_enabled_ns, &events->gone_running_ns);
		close_event(event);
	}
	events->count = kept;
}

static void drain_all(struct live_events *events)
{
	for (int i = 0; i < events->count; i++)
		drain_event(events, &events->list[i]);
}

void live_events_drain(struct live_events *events)
{
	online_cpus_follow(&events->online, events->cpus, cpu_came, cpu_gone, events);
	drain_all(events);
}

void live_events_times(struct live_events *events)
{
	events->enabled_ns = events->gone_enabled_ns;
	events->running_ns = events->gone_running_ns;
	for (int i = 0; i < events->count; i++)
		add_times(&events->list[i], &events->enabled_ns, &events->running_ns);
}

void live_events_stop(struct live_events *events)
{
	for (int i = 0; i < events->count; i++) {
		struct live_event *event = &events->list[i];

		ioctl(event->leader >= 0 ? event->leader : event->fd, PERF_EVENT_IOC_DISABLE, 0);
	}
	drain_all(events);
}

void live_events_close(struct live_events *events)
{
	for (int i = 0; i < events->count; i++)
		close_event(&events->list[i]);
	if (events->plan)
		online_cpus_close(&events->online);
	free(events->list);
	events->list = NULL;
	events->count = 0;
}
