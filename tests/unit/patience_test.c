// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A reader that gets no CPU is waited for; one that waits for memory is not, and what one answers is not believed.
 * This program is its own reader, and does not end those that it leaves: as those that no signal reaches.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/patience.h"
#include "tap.h"

#define LONGER_NS 400000000ull /* than a page that is on a disk may take */

struct answer {
	__s64 bytes;
	__u64 data;
};

/* What is asked says what is answered. */
enum told { LATE = 1, TOO_MUCH, CUT_SHORT, NEGATIVE, NOTHING, NO_DESCRIPTOR };

/* As in patience.c. */
struct asked {
	__u32 what;
	__u32 tgid;
	__u64 address;
};

static int answer_as_told(__u64 told)
{
	const struct answer much = {.bytes = 4096, .data = 1}, negative = {.bytes = -EFAULT};
	const struct answer file = {.bytes = sizeof(struct stat)};
	static const struct stat status;

	if (told == TOO_MUCH)
		return send(STDIN_FILENO, &much, sizeof(much), 0) < 0;
	if (told == CUT_SHORT)
		return send(STDIN_FILENO, &much, 3, 0) < 0;
	if (told == NEGATIVE)
		return send(STDIN_FILENO, &negative, sizeof(negative.bytes), 0) < 0;
	if (told == NO_DESCRIPTOR)
		return send(STDIN_FILENO, &file, sizeof(file.bytes), 0) < 0 ||
		       send(STDIN_FILENO, &status, sizeof(status), 0) < 0;
	return 0;
}

/* The first answer takes long, in which the reader could always run; the second does not come. */
static int read_as_told(void)
{
	const struct answer answer = {.bytes = sizeof(answer.data), .data = 4711};
	char request[4096];
	const struct asked *asked = (const struct asked *)request;
	__u64 begin;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (recv(STDIN_FILENO, request, sizeof(request), 0) <= 0)
		return 1;
	/* Opens have no address: theirs is a path. */
	if (asked->address != 4096) {
		int err = answer_as_told(asked->address ?: NO_DESCRIPTOR);

		pause();
		return err;
	}
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
	/* Its reader still waits: it is not asked again, others are. */
	bytes = patience_read(getpid(), NEGATIVE, &data, sizeof(data));
	CHECK(bytes == -EBUSY, "%zd bytes", bytes);
	bytes = patience_read(getpid() + 1, NEGATIVE, &data, sizeof(data));
	CHECK(bytes == -EFAULT, "%zd bytes", bytes);
	CHECK(patience_lost() == 1, "%llu lost", patience_lost());
}

static void answers_that_cannot_be(void)
{
	static const enum told lies[] = {TOO_MUCH, CUT_SHORT, NOTHING};
	__u64 lost = patience_lost(), data[2] = {0, 4711};
	struct stat status;

	for (__u32 i = 0; i < sizeof(lies) / sizeof(*lies); i++) {
		ssize_t bytes = patience_read(getpid() + 10 + i, lies[i], data, sizeof(data[0]));

		CHECK(bytes == -ETIMEDOUT && patience_lost() == ++lost, "lie %d: %zd bytes", lies[i], bytes);
		CHECK(data[1] == 4711, "lie %d: written behind the place", lies[i]);
	}
	CHECK(patience_open_of(getpid() + 20, "/etc/passwd", &status) == -EPROTO, "an open file without a descriptor");
}

static void paths_that_are_too_long(void)
{
	static char path[5000];
	struct stat status;

	memset(path, 'a', sizeof(path) - 1);
	CHECK(patience_open_of(getpid(), path, &status) == -ENAMETOOLONG, "a path of 4,999 bytes");
}

/* They get no signal: who waits in the kernel for such a page would not notice. */
int __wrap_kill(pid_t pid, int number)
{
	return 0;
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{"a reader without a CPU is waited for", a_reader_without_a_cpu},
		{"memory that does not come is not", memory_that_does_not_come},
		{"answers that cannot be are none", answers_that_cannot_be},
		{"paths that are too long are refused", paths_that_are_too_long},
	};

	if (patience_reader_wanted(argc, argv))
		return read_as_told();
	return run_tests(tests, sizeof(tests) / sizeof(tests[0]));
}
