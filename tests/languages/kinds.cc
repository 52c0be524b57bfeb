// SPDX-License-Identifier: GPL-2.0-or-later
// Ten threads that take turns by what C++20 has: semaphore, atomic (a lock made of std::atomic::wait), shared
// (std::shared_mutex, to write).  So many, as it spins before it sleeps.
// Prints "ready", and runs until its input has a line or ends.
#include <atomic>
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

void work()
{
	auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(200);

	while (std::chrono::steady_clock::now() < end)
		;
}

void run(const std::string &mode)
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

	for (int i = 0; i < 10; i++)
		std::thread(run, mode).detach();
	puts("ready");
	fflush(stdout);
	getchar();
	_exit(0);
}
