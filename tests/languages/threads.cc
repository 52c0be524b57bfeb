// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Four threads: contended (one std::mutex), statistics (the same, for moments, millions of times), idle (a condition
 * variable), split (a mutex each).
 * Prints "ready", runs until its input has a line or ends, then prints its counters.
 */
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <sys/resource.h>
#include <thread>
#include <vector>

namespace load
{
constexpr int threads = 4;
std::atomic<bool> stop;
std::atomic<long> waits, wait_ns, sink;
std::mutex shared;

using clock = std::chrono::steady_clock;

static void work()
{
	auto end = clock::now() + std::chrono::microseconds(200);

	while (clock::now() < end)
		sink++;
}

[[gnu::noinline]] void under_mutex(std::mutex &mutex)
{
	auto begin = clock::now();
	std::lock_guard<std::mutex> guard(mutex);

	wait_ns += std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now() - begin).count();
	waits++;
	work();
}

/*
 * Waits that the kernel put to sleep.  In all others, millions, the clock has the call itself, and that the scheduler
 * gave the CPU to another thread meanwhile.
 */
static void statistics(std::mutex &mutex)
{
	static long counts;
	struct rusage usage {};
	long ns = 0, slept = 0, before = 0;

	while (!stop) {
		for (volatile int i = 0; i < 1000; i = i + 1)
			;
		auto begin = clock::now();
		mutex.lock();
		auto took = std::chrono::duration_cast<std::chrono::nanoseconds>(clock::now() - begin).count();
		counts++;
		mutex.unlock();
		if (took < 2000)
			continue;
		getrusage(RUSAGE_THREAD, &usage);
		if (usage.ru_nvcsw != before) {
			ns += took;
			slept++;
		}
		before = usage.ru_nvcsw;
	}
	wait_ns += ns;
	waits += slept;
}

struct queue {
	std::mutex mutex;
	std::condition_variable filled;
	int jobs = 0;

	[[gnu::noinline]] void serve()
	{
		for (;;) {
			std::unique_lock<std::mutex> guard(mutex);

			filled.wait(guard, [this] { return jobs || stop; });
			if (stop)
				return;
			jobs--;
			waits++;
		}
	}

	void feed()
	{
		while (!stop) {
			std::this_thread::sleep_for(std::chrono::milliseconds(10));
			std::lock_guard<std::mutex> guard(mutex);
			jobs++;
			filled.notify_one();
		}
		std::lock_guard<std::mutex> guard(mutex);
		filled.notify_all();
	}
};
} // namespace load

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	std::vector<std::thread> threads;
	load::queue jobs;

	for (int i = 0; i < load::threads; i++)
		threads.emplace_back([&] {
			std::mutex own;

			if (!strcmp(mode, "idle"))
				return jobs.serve();
			if (!strcmp(mode, "statistics"))
				return load::statistics(load::shared);
			while (!load::stop)
				load::under_mutex(strcmp(mode, "split") ? load::shared : own);
		});
	if (!strcmp(mode, "idle"))
		threads.emplace_back([&] { jobs.feed(); });
	puts("ready");
	fflush(stdout);
	getchar();
	load::stop = true;
	for (auto &thread : threads)
		thread.join();
	printf("waits %ld\nwait_ns %ld\n", load::waits.load(), load::wait_ns.load());
}
