// SPDX-License-Identifier: GPL-2.0-or-later
/* A reader that gets no CPU is waited for; one that waits for memory is not.  This program is its own reader. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/patience.h"
#include "tap.h"

#define LONGER_NS 400000000ull /* than a page that is on a disk may take */

struct answer {
	__s64 bytes;
	__u64 data;
};

/* The first answer takes long, in which the reader could always run; the second does not come. */
static int read_as_told(void)
{
	const struct answer answer = {.bytes = sizeof(answer.data), .data = 4711};
	char request[4096];
	__u64 begin;

	if (recv(STDIN_FILENO, request, sizeof(request), 0) <= 0)
		return 1;
	begin = now_ns();
	while (now_ns() - begin < LONGER_NS)
		;
	if (send(STDIN_FILENO, &answer, sizeof(answer), 0) != sizeof(answer))
		return 1;
	pause();
	return 0;
}

static void a_reader_without_a_cpu(void)
{
	__u64 data = 0;
	ssize_t bytes = patience_read(getpid(), 4096, &data, sizeof(data));

	CHECK(bytes == sizeof(data) && data == 4711, "%zd bytes, %llu", bytes, data);
	CHECK(!patience_lost(), "%llu lost", patience_lost());
}

static void memory_that_does_not_come(void)
{
	__u64 data = 0;
	ssize_t bytes = patience_read(getpid(), 4096, &data, sizeof(data));

	CHECK(bytes == -ETIMEDOUT, "%zd bytes", bytes);
	CHECK(patience_lost() == 1, "%llu lost", patience_lost());
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{"a reader without a CPU is waited for", a_reader_without_a_cpu},
		{"memory that does not come is not", memory_that_does_not_come},
	};

	if (patience_reader_wanted(argc, argv))
		return read_as_told();
	return run_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
