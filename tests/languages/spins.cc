// SPDX-License-Identifier: GPL-2.0-or-later
// Six threads that take turns at a semaphore of C++20, which spins before it sleeps.
// Prints "ready", runs until its input has a line or ends, then prints its counters.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <semaphore>
#include <thread>
#include <vector>

namespace
{
std::counting_semaphore<4> tokens{1};
std::atomic<bool> stop{false};
std::atomic<long long> waits{0}, wait_ns{0};

long long now_ns()
{
	return std::chrono::steady_clock::now().time_since_epoch().count();
}

void run()
{
	while (!stop) {
		auto begin = now_ns();

		tokens.acquire();
		wait_ns += now_ns() - begin;
		waits++;
		for (auto end = now_ns() + 200'000; now_ns() < end;)
			;
		tokens.release();
	}
}
} // namespace

int main()
{
	std::vector<std::thread> threads;

	for (int i = 0; i < 6; i++)
		threads.emplace_back(run);
	puts("ready");
	fflush(stdout);
	getchar();
	stop = true;
	for (auto &thread : threads)
		thread.join();
	printf("waits %lld\nwait_ns %lld\n", waits.load(), wait_ns.load());
}
