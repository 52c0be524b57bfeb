// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Four threads of OpenMP: critical (they take turns), barrier (one comes last), even (none does).
 * Prints "ready", and runs until its input has a line or ends.
 */
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *end(void *unused)
{
	(void)unused;
	getchar();
	_exit(0);
}

static __attribute__((noinline)) void work(double seconds)
{
	for (double begin = omp_get_wtime(); omp_get_wtime() - begin < seconds;)
		;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	pthread_t thread;

	if (pthread_create(&thread, NULL, end, NULL))
		return 1;
	puts("ready");
	fflush(stdout);
#pragma omp parallel num_threads(4)
	for (;;) {
		if (!strcmp(mode, "critical")) {
#pragma omp critical(totals)
			work(200e-6);
		} else {
			work(!strcmp(mode, "barrier") && omp_get_thread_num() == 2 ? 5e-3 : 200e-6);
#pragma omp barrier
		}
	}
}
