// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Six threads and a lock of a library, MAKE: contended (one lock), split (a lock each), idle (they wait for jobs by
 * the library's own means).  Prints "ready", runs until its input has a line or ends, then prints its counters.
 */
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

#define ABSL 1
#define TBB  2
#define QT   3
#define GLIB 4

namespace load
{
std::atomic<bool> stop;
}

#if MAKE == ABSL
#include <absl/synchronization/mutex.h>

struct lock {
	absl::Mutex mutex;
	int jobs = 0;

	void take()
	{
		mutex.Lock();
	}
	void release()
	{
		mutex.Unlock();
	}
};

struct queue : lock {
	absl::CondVar filled;

	void get()
	{
		take();
		while (!jobs)
			filled.Wait(&mutex);
		jobs--;
		release();
	}
	void put()
	{
		take();
		jobs++;
		filled.Signal();
		release();
	}
};
#elif MAKE == TBB
#include <oneapi/tbb/concurrent_queue.h>
#include <oneapi/tbb/mutex.h>

struct lock {
	tbb::mutex mutex;

	void take()
	{
		mutex.lock();
	}
	void release()
	{
		mutex.unlock();
	}
};

struct queue {
	tbb::concurrent_bounded_queue<int> jobs;

	void get()
	{
		int job;

		jobs.pop(job);
	}
	void put()
	{
		jobs.push(1);
	}
};
#elif MAKE == QT
#include <QMutex>
#include <QSemaphore>

struct lock {
	QMutex mutex;

	void take()
	{
		mutex.lock();
	}
	void release()
	{
		mutex.unlock();
	}
};

struct queue {
	QSemaphore jobs;

	void get()
	{
		jobs.acquire();
	}
	void put()
	{
		jobs.release();
	}
};
#elif MAKE == GLIB
#include <glib.h>

struct lock {
	GMutex mutex;
	int jobs = 0;

	lock()
	{
		g_mutex_init(&mutex);
	}
	void take()
	{
		g_mutex_lock(&mutex);
	}
	void release()
	{
		g_mutex_unlock(&mutex);
	}
};

struct queue : lock {
	GCond filled;

	queue()
	{
		g_cond_init(&filled);
	}
	void get()
	{
		take();
		while (!jobs)
			g_cond_wait(&filled, &mutex);
		jobs--;
		release();
	}
	void put()
	{
		take();
		jobs++;
		g_cond_signal(&filled);
		release();
	}
};
#endif

namespace load
{
constexpr int threads = 6;
std::atomic<long> waits, wait_ns;
lock shared;
queue jobs;

using clock = std::chrono::steady_clock;

[[gnu::noinline]] void under_lock(lock &lock)
{
	auto begin = clock::now();

	lock.take();
	wait_ns += std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now() - begin).count();
	waits++;
	for (auto end = clock::now() + std::chrono::microseconds(200); clock::now() < end;)
		;
	lock.release();
}

[[gnu::noinline]] void serve()
{
	while (!stop) {
		jobs.get();
		waits++;
	}
}

void feed()
{
	while (!stop) {
		std::this_thread::sleep_for(std::chrono::milliseconds(10));
		jobs.put();
	}
	for (int i = 0; i < threads; i++)
		jobs.put();
}
} // namespace load

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	bool idle = !strcmp(mode, "idle");
	std::vector<std::thread> threads;

	for (int i = 0; i < load::threads; i++)
		threads.emplace_back([=] {
			lock own;

			if (idle)
				return load::serve();
			while (!load::stop)
				load::under_lock(strcmp(mode, "split") ? load::shared : own);
		});
	if (idle)
		threads.emplace_back(load::feed);
	puts("ready");
	fflush(stdout);
	getchar();
	load::stop = true;
	for (auto &thread : threads)
		thread.join();
	printf("waits %ld\nwait_ns %ld\n", load::waits.load(), load::wait_ns.load());
}
