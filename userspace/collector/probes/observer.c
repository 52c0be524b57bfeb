// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/online_cpus.h"
#include "probes/observer.h"

#define STACK_BYTES (64 << 10)

/* Written by its thread alone, but for max_ns, which a reader takes. */
struct watcher {
	__u64 wakeups;
	__u64 max_ns;
	__u64 histogram[HISTOGRAM_BUCKETS];
	pthread_t thread;
	const struct observer *observer;
	bool real_time;
} __attribute__((aligned(CACHE_LINE)));

struct observer {
	struct watcher *watchers;
	__u32 count;
	bool stop;
};

static void note(struct watcher *watcher, __u64 late_ns)
{
	__u64 *bucket = &watcher->histogram[histogram_bucket(late_ns)];

	__atomic_store_n(bucket, *bucket + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&watcher->wakeups, watcher->wakeups + 1, __ATOMIC_RELAXED);
	if (late_ns > __atomic_load_n(&watcher->max_ns, __ATOMIC_RELAXED))
		__atomic_store_n(&watcher->max_ns, late_ns, __ATOMIC_RELAXED);
}

static void *watch(void *data)
{
	struct watcher *watcher = data;
	struct timespec until;
	__u64 wanted, now;

	/* Of a task without real-time priority the kernel gathers wake-ups within 50 us. */
	prctl(PR_SET_TIMERSLACK, 1);
	wanted = now_ns() + OBSERVER_PERIOD_NS;
	while (!__atomic_load_n(&watcher->observer->stop, __ATOMIC_RELAXED)) {
		until = timespec_of(wanted);
		if (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL))
			continue;
		now = now_ns();
		note(watcher, now - wanted);
		wanted += OBSERVER_PERIOD_NS;
		/* One stall is one late wake-up, however long it was. */
		if (wanted < now)
			wanted = now + OBSERVER_PERIOD_NS;
	}
	return NULL;
}

static int start_one(struct observer *observer, size_t cpu, pthread_attr_t *attributes, const cpu_set_t *set,
		     size_t bytes)
{
	/* The lowest real-time priority: late for interrupts, for sections without preemption, for real-time tasks. */
	const struct sched_param lowest = {.sched_priority = sched_get_priority_min(SCHED_FIFO)};
	struct watcher *watcher = &observer->watchers[observer->count];
	int err;

	watcher->observer = observer;
	pthread_attr_setaffinity_np(attributes, bytes, set);
	err = pthread_create(&watcher->thread, attributes, watch, watcher);
	if (err)
		return -err;
	watcher->real_time = !pthread_setschedparam(watcher->thread, SCHED_FIFO, &lowest);
	observer->count++;
	return 0;
}

int observer_start(struct observer **out)
{
	struct observer *observer = calloc(1, sizeof(*observer));
	size_t bytes = CPU_ALLOC_SIZE(MAX_CPUS);
	cpu_set_t *allowed = CPU_ALLOC(MAX_CPUS), *one = CPU_ALLOC(MAX_CPUS);
	pthread_attr_t attributes;
	int err = -ENOMEM;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES > PTHREAD_STACK_MIN ? STACK_BYTES : PTHREAD_STACK_MIN);
	if (!observer || !allowed || !one)
		goto out;
	if (sched_getaffinity(0, bytes, allowed)) {
		err = -errno;
		goto out;
	}
	observer->watchers = aligned_alloc(CACHE_LINE, CPU_COUNT_S(bytes, allowed) * sizeof(*observer->watchers));
	if (!observer->watchers)
		goto out;
	__builtin_memset(observer->watchers, 0, CPU_COUNT_S(bytes, allowed) * sizeof(*observer->watchers));
	err = -ESRCH;
	for (size_t cpu = 0; cpu < MAX_CPUS; cpu++) {
		if (!CPU_ISSET_S(cpu, bytes, allowed))
			continue;
		CPU_ZERO_S(bytes, one);
		CPU_SET_S(cpu, bytes, one);
		/* A CPU that goes away just now is left out. */
		err = start_one(observer, cpu, &attributes, one, bytes);
	}
	err = observer->count ? 0 : err;
out:
	pthread_attr_destroy(&attributes);
	CPU_FREE(allowed);
	CPU_FREE(one);
	if (err) {
		observer_stop(observer);
		observer = NULL;
	}
	*out = observer;
	return err;
}

void observer_stop(struct observer *observer)
{
	if (!observer)
		return;
	__atomic_store_n(&observer->stop, true, __ATOMIC_RELAXED);
	for (__u32 i = 0; i < observer->count; i++)
		pthread_join(observer->watchers[i].thread, NULL);
	free(observer->watchers);
	free(observer);
}

void observer_read(const struct observer *observer, struct observed *out)
{
	*out = (struct observed){};
	for (__u32 i = 0; i < observer->count; i++) {
		const struct watcher *watcher = &observer->watchers[i];

		out->wakeups += __atomic_load_n(&watcher->wakeups, __ATOMIC_RELAXED);
		for (int bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++)
			out->histogram[bucket] += __atomic_load_n(&watcher->histogram[bucket], __ATOMIC_RELAXED);
	}
}

__u64 observer_take_max(struct observer *observer)
{
	__u64 most = 0;

	for (__u32 i = 0; i < observer->count; i++) {
		__u64 max = __atomic_exchange_n(&observer->watchers[i].max_ns, 0, __ATOMIC_RELAXED);

		most = max > most ? max : most;
	}
	return most;
}

__u32 observer_threads(const struct observer *observer)
{
	return observer->count;
}

bool observer_is_real_time(const struct observer *observer)
{
	for (__u32 i = 0; i < observer->count; i++)
		if (!observer->watchers[i].real_time)
			return false;
	return true;
}
