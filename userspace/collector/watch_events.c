// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>

#include "files_limit.h"
#include "online_cpus.h"
#include "watch_events.h"

#define COST_ROUNDS  21
#define COST_HITS    24 /* of a round */
#define COST_TIME_NS 2000000000ull
#define COST_ALARM_S 3 /* longer than the collector waits */

static int open_event(__u64 address, pid_t pid, int cpu, int group, bool disabled)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.bp_type = HW_BREAKPOINT_RW,
		.bp_addr = address,
		.bp_len = WATCH_SLOT_BYTES,
		.sample_period = 1,
		.read_format = PERF_FORMAT_GROUP,
		.disabled = disabled,
	};
	int fd = syscall(SYS_perf_event_open, &attr, pid, cpu, group, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int open_keeper(void)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.disabled = 1,
	};

	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

int watch_events_open(struct watch_events *events, int program, const struct id_list *wanted)
{
	int err;

	*events = (struct watch_events){.program = program, .keeper = -1, .wanted = wanted};
	events->online = malloc(sizeof(*events->online));
	if (!events->online)
		return -ENOMEM;
	err = online_cpus_open(events->online, ONLINE_CPUS);
	err = err ?: watch_events_renew(events);
	if (err)
		return err;
	/* Each CPU's are WATCH_SLOTS files. */
	files_limit_raise();
	events->keeper = open_keeper();
	return 0;
}

bool watch_events_outdated(struct watch_events *events)
{
	events->outdated |= online_cpus_changed(events->online);
	return events->outdated;
}

int watch_events_renew(struct watch_events *events)
{
	struct watch_cpu_events *cpus;
	struct id_list online;
	int err;

	watch_events_clear(events);
	err = online_cpus_list(events->online, events->wanted, &online);
	cpus = err ? NULL : calloc(online.count + 1, sizeof(*cpus));
	if (cpus) {
		for (size_t i = 0; i < online.count; i++)
			cpus[i] = (struct watch_cpu_events){.cpu = online.ids[i], .fds = {-1, -1, -1, -1}};
		free(events->cpus);
		events->outdated = false;
		events->cpus = cpus;
		events->cpu_count = online.count;
		err = online.count ? 0 : -ENODEV;
	} else {
		err = err ?: -ENOMEM;
	}
	free(online.ids);
	return err;
}

void watch_events_close(struct watch_events *events)
{
	watch_events_clear(events);
	if (events->keeper >= 0)
		close(events->keeper);
	if (events->online)
		online_cpus_close(events->online);
	free(events->online);
	free(events->cpus);
	*events = (struct watch_events){.keeper = -1};
}

void watch_events_clear(struct watch_events *events)
{
	for (__u32 i = 0; i < events->cpu_count; i++) {
		struct watch_cpu_events *cpu = &events->cpus[i];

		for (int slot = WATCH_SLOTS - 1; slot >= 0; slot--) {
			if (cpu->fds[slot] >= 0)
				close(cpu->fds[slot]);
			cpu->fds[slot] = -1;
		}
	}
	events->slots = 0;
	events->places = 0;
}

static int set_cpu(struct watch_events *events, struct watch_cpu_events *cpu, __u64 line, __u32 places, __u32 limit)
{
	int slot = 0;

	for (int place = 0; place < WATCH_PLACES && slot < WATCH_SLOTS; place++) {
		int fd;

		if (!(places >> place & 1))
			continue;
		fd = open_event(line + place * WATCH_SLOT_BYTES, -1, cpu->cpu, slot ? cpu->fds[0] : -1, !slot);
		if (fd < 0)
			return fd;
		cpu->fds[slot] = fd;
		if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, events->program))
			return -errno;
		/* It starts with its leader; that one's limit is set when it is enabled. */
		if (slot && limit && ioctl(fd, PERF_EVENT_IOC_REFRESH, limit))
			return -errno;
		slot++;
	}
	events->slots = slot;
	return 0;
}

int watch_events_set(struct watch_events *events, __u64 line, __u32 places, __u32 limit)
{
	__u32 set = 0;
	int err = 0;

	watch_events_clear(events);
	for (__u32 i = 0; !err && i < events->cpu_count; i++) {
		err = set_cpu(events, &events->cpus[i], line, places, limit);
		/* A CPU that went offline has no watchpoint to miss. */
		if (err == -ENODEV) {
			err = 0;
			continue;
		}
		set++;
	}
	events->places = places;
	events->limit = limit;
	if (!err && !set)
		err = -ENODEV;
	if (err)
		watch_events_clear(events);
	return err;
}

int watch_events_free(struct watch_events *events, __u64 line)
{
	int err = 0;

	for (int slots = WATCH_SLOTS; slots; slots--) {
		err = watch_events_set(events, line, (1u << slots) - 1, 0);
		watch_events_clear(events);
		if (!err)
			return slots;
		if (err != -ENOSPC && err != -EBUSY)
			break;
	}
	return err;
}

int watch_events_enable(struct watch_events *events)
{
	int err = 0;

	for (__u32 i = 0; !err && i < events->cpu_count; i++) {
		int leader = events->cpus[i].fds[0];

		events->cpus[i].hits = events->cpus[i].most = 0;
		if (leader >= 0 && (events->limit ? ioctl(leader, PERF_EVENT_IOC_REFRESH, events->limit)
						  : ioctl(leader, PERF_EVENT_IOC_ENABLE, 0)))
			err = -errno;
	}
	return err;
}

void watch_events_disable(struct watch_events *events)
{
	for (__u32 i = 0; i < events->cpu_count; i++)
		if (events->cpus[i].fds[0] >= 0)
			ioctl(events->cpus[i].fds[0], PERF_EVENT_IOC_DISABLE, 0);
}

__u64 watch_events_count(struct watch_events *events)
{
	__u64 all = 0;

	for (__u32 i = 0; i < events->cpu_count; i++) {
		struct watch_cpu_events *cpu = &events->cpus[i];
		__u64 values[1 + WATCH_SLOTS] = {};

		cpu->hits = cpu->most = 0;
		if (cpu->fds[0] < 0 || read(cpu->fds[0], values, sizeof(values)) < (ssize_t)sizeof(values[0]))
			continue;
		for (__u64 slot = 0; slot < values[0] && slot < WATCH_SLOTS; slot++) {
			cpu->hits += values[1 + slot];
			cpu->most = values[1 + slot] > cpu->most ? values[1 + slot] : cpu->most;
		}
		all += cpu->hits;
	}
	return all;
}

static __u64 now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

struct cost {
	__u64 watched; /* the word */
	__u64 pad[7];
	__u64 hit_ns;
	int err;
};

static __u64 time_writes(volatile __u64 *word)
{
	__u64 begin = now_ns();

	for (int i = 0; i < COST_HITS; i++)
		*word = i;
	return now_ns() - begin;
}

static int compare(const void *a, const void *b)
{
	const __u64 *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* In a process of its own: on a machine that does not get past a watched instruction it can be killed. */
static int measure(struct cost *cost, int program)
{
	__u64 values[2] = {}, rounds[COST_ROUNDS];
	int fd, err = 0;

	fd = open_event((__u64)&cost->watched, 0, -1, -1, true);
	if (fd < 0)
		return fd;
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, program) || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		err = -errno;
	/* The median: of some rounds others took the CPU away. */
	for (int i = 0; i < COST_ROUNDS; i++)
		rounds[i] = time_writes(&cost->watched);
	qsort(rounds, COST_ROUNDS, sizeof(rounds[0]), compare);
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	if (read(fd, values, sizeof(values)) == sizeof(values) && values[1] >= COST_HITS)
		cost->hit_ns = rounds[COST_ROUNDS / 2] / COST_HITS;
	close(fd);
	return err;
}

/* Nothing of the collector's is kept open or running by its child, should that hang or outlive it. */
static void let_go(pid_t parent, int program)
{
	sigset_t alarms;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* It ended before that. */
	if (getppid() != parent)
		_exit(1);
	if (program > 0)
		syscall(SYS_close_range, 0u, (unsigned int)program - 1, 0u);
	syscall(SYS_close_range, (unsigned int)program + 1, ~0u, 0u);
	signal(SIGALRM, SIG_DFL);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &alarms, NULL);
	alarm(COST_ALARM_S);
}

int watch_hit_cost(int program, __u64 *ns)
{
	struct cost *cost = mmap(NULL, sizeof(*cost), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	const struct timespec pause = {.tv_nsec = 1000000};
	__u64 until;
	pid_t parent = getpid(), child;
	int err = 0;

	*ns = 0;
	if (cost == MAP_FAILED)
		return -errno;
	cost->err = -EDEADLK;
	child = fork();
	if (child < 0) {
		err = -errno;
		goto out;
	}
	if (!child) {
		let_go(parent, program);
		cost->err = measure(cost, program);
		_exit(0);
	}
	until = now_ns() + COST_TIME_NS;
	while (!waitpid(child, NULL, WNOHANG)) {
		if (now_ns() > until) {
			kill(child, SIGKILL);
			waitpid(child, NULL, 0);
			break;
		}
		nanosleep(&pause, NULL);
	}
	err = cost->err;
	*ns = err ? 0 : cost->hit_ns;
out:
	munmap(cost, sizeof(*cost));
	return err;
}
