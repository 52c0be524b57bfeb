// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "holders/holder_wakes.h"

/* The event that programs of one CPU write to; negative errno, -ENODEV: it is not online. */
static int open_event(__u32 cpu)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_BPF_OUTPUT,
		.sample_type = PERF_SAMPLE_RAW,
		.sample_period = 1,
		.wakeup_events = 1,
	};
	int fd = syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int open_one(struct holder_wakes *wakes, __u32 cpu)
{
	struct epoll_event wanted = {.events = EPOLLIN};
	int fd = open_event(cpu);

	if (fd < 0)
		return fd;
	wakes->events[cpu] = fd;
	/* Mapped to be read alone it is overwritten, and never full: what is written in it says nothing. */
	wakes->pages[cpu] = mmap(NULL, 2 * sysconf(_SC_PAGESIZE), PROT_READ, MAP_SHARED, fd, 0);
	if (wakes->pages[cpu] == MAP_FAILED) {
		wakes->pages[cpu] = NULL;
		return -errno;
	}
	if (epoll_ctl(wakes->fd, EPOLL_CTL_ADD, fd, &wanted) || bpf_map_update_elem(wakes->map, &cpu, &fd, BPF_ANY))
		return -errno;
	return 0;
}

static void close_one(struct holder_wakes *wakes, __u32 cpu)
{
	if (wakes->pages && wakes->pages[cpu])
		munmap(wakes->pages[cpu], 2 * sysconf(_SC_PAGESIZE));
	if (wakes->events[cpu] >= 0)
		close(wakes->events[cpu]);
}

static void cpu_came(void *context, __u32 cpu)
{
	struct holder_wakes *wakes = context;

	/* If it cannot wake us its ring is read at the next look, and what was overwritten is counted. */
	if (wakes->events[cpu] < 0)
		open_one(wakes, cpu);
}

/* An event stays dead when its CPU comes back. */
static void cpu_gone(void *context, __u32 cpu)
{
	struct holder_wakes *wakes = context;

	if (wakes->events[cpu] < 0)
		return;
	bpf_map_delete_elem(wakes->map, &cpu);
	close_one(wakes, cpu);
	wakes->events[cpu] = -1;
	wakes->pages[cpu] = NULL;
}

int holder_wakes_open(struct holder_wakes *wakes, int map, __u32 cpus)
{
	int err = 0;

	*wakes = (struct holder_wakes){.fd = epoll_create1(EPOLL_CLOEXEC), .cpus = cpus, .map = map};
	online_cpus_open(&wakes->online, ONLINE_CPUS);
	wakes->events = malloc(cpus * sizeof(*wakes->events));
	wakes->pages = calloc(cpus, sizeof(*wakes->pages));
	for (__u32 cpu = 0; wakes->events && cpu < cpus; cpu++)
		wakes->events[cpu] = -1;
	if (!wakes->events || !wakes->pages) {
		holder_wakes_close(wakes);
		return -ENOMEM;
	}
	for (__u32 cpu = 0; !err && wakes->fd >= 0 && cpu < cpus; cpu++) {
		err = open_one(wakes, cpu);
		if (err == -ENODEV)
			err = 0;
	}
	if (err && wakes->fd >= 0) {
		close(wakes->fd);
		wakes->fd = -1;
	}
	return 0;
}

void holder_wakes_clear(struct holder_wakes *wakes)
{
	struct epoll_event told[64];

	if (wakes->fd >= 0)
		online_cpus_follow(&wakes->online, wakes->cpus, cpu_came, cpu_gone, wakes);
	/* Looking is what clears an event: once for all that tell, and once more for those that no longer do. */
	while (wakes->fd >= 0 && epoll_wait(wakes->fd, told, 64, 0) > 0)
		;
}

void holder_wakes_close(struct holder_wakes *wakes)
{
	for (__u32 cpu = 0; wakes->events && cpu < wakes->cpus; cpu++)
		close_one(wakes, cpu);
	online_cpus_close(&wakes->online);
	if (wakes->fd >= 0)
		close(wakes->fd);
	free(wakes->events);
	free(wakes->pages);
	*wakes = HOLDER_WAKES_CLOSED;
}
