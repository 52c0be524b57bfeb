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

#include "base/clock.h"
#include "base/files_limit.h"
#include "base/online_cpus.h"
#include "watch/watch_events.h"

#define COST_ROUNDS   21
#define COST_HITS     24 /* of a round */
#define COST_START_NS 8000000000ull
#define COST_FIRST_NS 2000000000ull
#define COST_TIME_NS  8000000000ull
#define COST_ALARM_S  17 /* longer than the collector waits */
#define PAIR_TRIES    20
#define PAIR_PAUSE_NS 25000000

static int open_event(__u64 address, __u32 type, pid_t pid, int cpu, int group, bool disabled)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(attr),
		.bp_type = type,
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

int watch_events_open(struct watch_events *events, const struct watch_programs *programs, const struct id_list *wanted)
{
	int err;

	*events = (struct watch_events){.programs = *programs, .keeper = -1, .wanted = wanted};
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

/* Of a typed place, the second one. */
static bool is_for_writes(const struct watch_events *events, int slot)
{
	return events->typed && slot & 1;
}

/* Those of a typed place go off together, so that none goes on to count writes alone. */
static int leader_of(const struct watch_events *events, int slot)
{
	return events->typed ? slot & ~1 : 0;
}

static __u32 type_of(const struct watch_events *events, int slot)
{
	if (is_for_writes(events, slot))
		return HW_BREAKPOINT_W;
	return events->typed && !WATCH_WRITE_HITS_BOTH ? HW_BREAKPOINT_R : HW_BREAKPOINT_RW;
}

static int set_slot(struct watch_events *events, struct watch_cpu_events *cpu, int slot, __u64 address)
{
	int leader = leader_of(events, slot);
	bool leads = leader == slot;
	int fd = open_event(address, type_of(events, slot), -1, cpu->cpu, leads ? -1 : cpu->fds[leader], leads);

	if (fd < 0)
		return fd;
	cpu->fds[slot] = fd;
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF,
		  is_for_writes(events, slot) ? events->programs.write : events->programs.hit))
		return -errno;
	/* It starts with its leader; that one's limit is set when it is enabled. */
	if (!leads && events->limit && ioctl(fd, PERF_EVENT_IOC_REFRESH, events->limit))
		return -errno;
	return 0;
}

static int set_cpu(struct watch_events *events, struct watch_cpu_events *cpu, __u64 line)
{
	int slot = 0, each = events->typed ? 2 : 1, err = 0;

	for (int place = 0; !err && place < WATCH_PLACES && slot + each <= WATCH_SLOTS; place++) {
		if (!(events->places >> place & 1))
			continue;
		for (int i = 0; !err && i < each; i++)
			err = set_slot(events, cpu, slot++, line + place * WATCH_SLOT_BYTES);
	}
	events->slots = slot;
	return err;
}

int watch_events_set(struct watch_events *events, __u64 line, __u32 places, bool typed, __u32 limit)
{
	__u32 set = 0;
	int err = 0;

	watch_events_clear(events);
	events->places = places;
	events->typed = typed;
	events->limit = limit;
	for (__u32 i = 0; !err && i < events->cpu_count; i++) {
		err = set_cpu(events, &events->cpus[i], line);
		/* A CPU that went offline has no watchpoint to miss. */
		if (err == -ENODEV) {
			err = 0;
			continue;
		}
		set++;
	}
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
		err = watch_events_set(events, line, (1u << slots) - 1, false, 0);
		watch_events_clear(events);
		if (!err)
			return slots;
		if (err != -ENOSPC && err != -EBUSY)
			break;
	}
	return err;
}

static bool leads(const struct watch_events *events, const struct watch_cpu_events *cpu, int slot)
{
	return leader_of(events, slot) == slot && cpu->fds[slot] >= 0;
}

int watch_events_enable(struct watch_events *events)
{
	int err = 0;

	for (__u32 i = 0; !err && i < events->cpu_count; i++) {
		struct watch_cpu_events *cpu = &events->cpus[i];

		cpu->hits = cpu->most = 0;
		for (int slot = 0; !err && slot < WATCH_SLOTS; slot++)
			if (leads(events, cpu, slot) &&
			    (events->limit ? ioctl(cpu->fds[slot], PERF_EVENT_IOC_REFRESH, events->limit)
					   : ioctl(cpu->fds[slot], PERF_EVENT_IOC_ENABLE, 0)))
				err = -errno;
	}
	return err;
}

void watch_events_disable(struct watch_events *events)
{
	for (__u32 i = 0; i < events->cpu_count; i++)
		for (int slot = 0; slot < WATCH_SLOTS; slot++)
			if (leads(events, &events->cpus[i], slot))
				ioctl(events->cpus[i].fds[slot], PERF_EVENT_IOC_DISABLE, 0);
}

/* The counts of a group: of its leader, which is in that slot, and the slots behind it. */
static void count_group(const struct watch_events *events, struct watch_cpu_events *cpu, int leader)
{
	__u64 values[1 + WATCH_SLOTS] = {};

	if (read(cpu->fds[leader], values, sizeof(values)) < (ssize_t)sizeof(values[0]))
		return;
	for (__u64 i = 0; i < values[0] && i < WATCH_SLOTS; i++) {
		__u64 hits = values[1 + i];

		if (WATCH_WRITE_HITS_BOTH && is_for_writes(events, leader + i))
			continue;
		cpu->hits += hits;
		cpu->most = hits > cpu->most ? hits : cpu->most;
	}
}

__u64 watch_events_count(struct watch_events *events)
{
	__u64 all = 0;

	for (__u32 i = 0; i < events->cpu_count; i++) {
		struct watch_cpu_events *cpu = &events->cpus[i];

		cpu->hits = cpu->most = 0;
		for (int slot = 0; slot < WATCH_SLOTS; slot++)
			if (leads(events, cpu, slot))
				count_group(events, cpu, slot);
		all += cpu->hits;
	}
	return all;
}

/* What the process that measures leaves. */
struct measured {
	__u64 watched; /* the word */
	__u64 pad[7];
	__u64 begin_ns; /* of the first write */
	__u64 writes;
	struct watch_cost cost;
	bool over;
	int err;
};

static __u64 time_writes(struct measured *measured)
{
	__u64 begin = now_ns();

	for (int i = 0; i < COST_HITS; i++) {
		*(volatile __u64 *)&measured->watched = i;
		__atomic_store_n(&measured->writes, measured->writes + 1, __ATOMIC_RELAXED);
	}
	return now_ns() - begin;
}

static int compare(const void *a, const void *b)
{
	const __u64 *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* The median: of some rounds others took the CPU away. */
static __u64 write_cost(struct measured *measured)
{
	__u64 rounds[COST_ROUNDS];

	for (int i = 0; i < COST_ROUNDS; i++)
		rounds[i] = time_writes(measured);
	qsort(rounds, COST_ROUNDS, sizeof(rounds[0]), compare);
	return rounds[COST_ROUNDS / 2] / COST_HITS;
}

static int measure_hit(struct measured *measured, int program)
{
	__u64 values[2] = {}, cost;
	int fd, err = 0;

	fd = open_event((__u64)&measured->watched, HW_BREAKPOINT_RW, 0, -1, -1, true);
	if (fd < 0)
		return fd;
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, program) || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		err = -errno;
	__atomic_store_n(&measured->begin_ns, now_ns(), __ATOMIC_RELEASE);
	cost = write_cost(measured);
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	if (read(fd, values, sizeof(values)) == sizeof(values) && values[1] >= COST_HITS)
		measured->cost.hit_ns = cost;
	close(fd);
	return err;
}

/* Others that watch by windows have the registers for a part of the time. */
static int open_pair(volatile __u64 *word, int *fd, int *second)
{
	const struct timespec pause = {.tv_nsec = PAIR_PAUSE_NS};
	int other = WATCH_WRITE_HITS_BOTH ? HW_BREAKPOINT_RW : HW_BREAKPOINT_R;

	for (int i = 0; i < PAIR_TRIES; i++) {
		*fd = open_event((__u64)word, other, 0, -1, -1, true);
		*second = *fd < 0 ? *fd : open_event((__u64)word, HW_BREAKPOINT_W, 0, -1, *fd, false);
		if (*second >= 0)
			return 0;
		if (*fd >= 0)
			close(*fd);
		if (*second != -ENOSPC && *second != -EBUSY)
			break;
		nanosleep(&pause, NULL);
	}
	return *second;
}

/*
 * Whether two watchpoints at a place tell: some emulators (QEMU's x86 without
 * KVM) report but one of those that a write hits.
 */
static void measure_write(struct measured *measured, const struct watch_programs *programs)
{
	const __u64 writes = COST_ROUNDS * COST_HITS;
	volatile __u64 *word = &measured->watched;
	__u64 before[3] = {}, after[3] = {}, cost;
	int fd, second;

	if (open_pair(word, &fd, &second))
		return;
	if (ioctl(fd, PERF_EVENT_IOC_SET_BPF, programs->hit) ||
	    ioctl(second, PERF_EVENT_IOC_SET_BPF, programs->write) || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0))
		goto out;
	cost = write_cost(measured);
	if (read(fd, before, sizeof(before)) != sizeof(before))
		goto out;
	for (int i = 0; i < COST_HITS; i++)
		(void)*word;
	if (read(fd, after, sizeof(after)) != sizeof(after))
		goto out;
	if (before[1] == (WATCH_WRITE_HITS_BOTH ? writes : 0) && before[2] == writes &&
	    after[1] == before[1] + COST_HITS && after[2] == writes)
		measured->cost.write_ns = cost;
out:
	close(second);
	close(fd);
}

/* In a process of its own: on a machine that does not get past a watched instruction it can be killed. */
static int measure(struct measured *measured, const struct watch_programs *programs)
{
	int err = measure_hit(measured, programs->hit);

	if (!err && programs->write >= 0)
		measure_write(measured, programs);
	return err;
}

/* Nothing of the collector's is kept open or running by its child, should that hang or outlive it. */
static void let_go(pid_t parent, const struct watch_programs *programs)
{
	unsigned int first = programs->hit, second = programs->write < 0 ? first : (unsigned int)programs->write;
	sigset_t alarms;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* It ended before that. */
	if (getppid() != parent)
		_exit(1);
	if (first > second) {
		first = second;
		second = programs->hit;
	}
	if (first)
		syscall(SYS_close_range, 0u, first - 1, 0u);
	if (second > first + 1)
		syscall(SYS_close_range, first + 1, second - 1, 0u);
	syscall(SYS_close_range, second + 1, ~0u, 0u);
	signal(SIGALRM, SIG_DFL);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigprocmask(SIG_UNBLOCK, &alarms, NULL);
	alarm(COST_ALARM_S);
}

/* Until it has ended or had its time: to start, to get past its first write, and for all of them. */
static void wait_for_child(const struct measured *measured, pid_t child)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	__u64 start = now_ns();

	while (!waitpid(child, NULL, WNOHANG)) {
		__u64 begin = __atomic_load_n(&measured->begin_ns, __ATOMIC_ACQUIRE);
		bool past = __atomic_load_n(&measured->writes, __ATOMIC_RELAXED);

		if (now_ns() > (begin ? begin + (past ? COST_TIME_NS : COST_FIRST_NS) : start + COST_START_NS)) {
			kill(child, SIGKILL);
			waitpid(child, NULL, 0);
			break;
		}
		nanosleep(&pause, NULL);
	}
}

static int judge(const struct measured *measured, struct watch_cost *cost)
{
	*cost = measured->cost;
	if (measured->over)
		return measured->err;
	if (!measured->begin_ns)
		return -ETIMEDOUT;
	if (!measured->writes)
		return -EDEADLK;
	/* A slow machine, or a busy one. */
	if (!cost->hit_ns)
		cost->hit_ns = (now_ns() - measured->begin_ns) / measured->writes;
	return 0;
}

int watch_hit_cost(const struct watch_programs *programs, struct watch_cost *cost)
{
	struct measured *measured =
		mmap(NULL, sizeof(*measured), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t parent = getpid(), child;
	int err;

	*cost = (struct watch_cost){};
	if (measured == MAP_FAILED)
		return -errno;
	child = fork();
	if (child < 0) {
		err = -errno;
		goto out;
	}
	if (!child) {
		let_go(parent, programs);
		measured->err = measure(measured, programs);
		__atomic_store_n(&measured->over, true, __ATOMIC_RELEASE);
		_exit(0);
	}
	wait_for_child(measured, child);
	err = judge(measured, cost);
out:
	munmap(measured, sizeof(*measured));
	return err;
}
