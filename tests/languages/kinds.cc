// SPDX-License-Identifier: GPL-2.0-or-later
// Ten threads that take turns by what C++20 has: semaphore, atomic (a lock made of std::atomic::wait), shared
// (std::shared_mutex, to write).  So many, as it spins before it sleeps.  barrier: one of them comes last at each
// std::barrier, and never waits there.  once, static: what one of them makes once is never done (std::call_once, a static
// variable of a function).
// Prints "ready", and runs until its input has a line or ends.
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unistd.h>

namespace
{
std::counting_semaphore<4> tokens{1};
std::atomic<int> taken{0};
std::shared_mutex cache_mutex;
constexpr int threads = 10;
std::barrier phase{threads};
std::once_flag loaded;

void work(int microseconds = 200)
{
	auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(microseconds);

	while (std::chrono::steady_clock::now() < end)
		;
}

int load()
{
	for (;;)
		pause();
}

void run(const std::string &mode, int thread)
{
	for (;;) {
		if (mode == "semaphore") {
			tokens.acquire();
			work();
			tokens.release();
		} else if (mode == "atomic") {
			while (taken.exchange(1))
				taken.wait(1);
			work();
			taken = 0;
			taken.notify_one();
		} else if (mode == "barrier") {
			work(thread == 2 ? 5000 : 20);
			phase.arrive_and_wait();
		} else if (mode == "once") {
			std::call_once(loaded, load);
		} else if (mode == "static") {
			static const int settings = load();

			work(settings);
		} else {
			std::unique_lock lock(cache_mutex);
			work();
		}
	}
}
} // namespace

int main(int argc, char **argv)
{
	std::string mode = argc > 1 ? argv[1] : "";

	for (int i = 0; i < threads; i++)
		std::thread(run, mode, i).detach();
	puts("ready");
	fflush(stdout);
	getchar();
	_exit(0);
}
