// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Files that keep the naming helper busy.  The helper is this program itself: it names every address after the first
 * byte of the file that it is asked about, and waits for good if that is WAITS.  If that is REFUSED it opens the file
 * for long, counts that in the file's next byte, and takes it for none.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "naming/naming_client.h"
#include "helper/naming_helper.h"
#include "tap.h"

#define WAITS   'W'
#define REFUSED 'R'
#define LONG_NS 50000000ull

static time_t later_s;

int __real_clock_gettime(clockid_t clock, struct timespec *out);

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
	int err = __real_clock_gettime(clock, out);

	out->tv_sec += clock == CLOCK_MONOTONIC ? later_s : 0;
	return err;
}

static int receive(struct naming_request *request, int *fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {};
	struct iovec part = {request, sizeof(*request)};
	struct msghdr message = {
		.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};

	if (recvmsg(STDIN_FILENO, &message, 0) != sizeof(*request))
		return -EPIPE;
	if (CMSG_FIRSTHDR(&message))
		memcpy(fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(*fd));
	return 0;
}

static int open_for_long(int fd)
{
	const __u64 until_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID) + LONG_NS;
	char count = 0;

	while (clock_ns(CLOCK_PROCESS_CPUTIME_ID) < until_ns)
		continue;
	if (pread(fd, &count, 1, 1) != 1)
		count = 0;
	count++;
	return pwrite(fd, &count, 1, 1) == 1 ? -ENOEXEC : -EIO;
}

static int helper_main(void)
{
	struct naming_request request;
	int fd = -1;

	while (!receive(&request, &fd)) {
		struct naming_answer answer = {};

		if (pread(fd, answer.name, 1, 0) != 1)
			answer.error = -EINVAL;
		while (*answer.name == WAITS)
			pause();
		if (*answer.name == REFUSED)
			answer.error = open_for_long(fd);
		if (send(STDIN_FILENO, &answer, sizeof(answer), 0) != sizeof(answer))
			return 1;
	}
	return 0;
}

struct asked {
	struct naming_client *client;
	__u64 object;
	int file;
};

static void put(const struct asked *asked, char byte)
{
	CHECK(pwrite(asked->file, &byte, 1, 0) == 1, "the file");
}

static struct asked begin(char byte)
{
	struct asked asked = {.file = memfd_create("asked", MFD_CLOEXEC)};
	struct stat status = {};

	put(&asked, byte);
	CHECK(!fstat(asked.file, &status) && !naming_client_open(&asked.client), "a client");
	asked.object = naming_client_object(asked.client, dup(asked.file), &status);
	return asked;
}

static void end(struct asked *asked)
{
	naming_client_close(asked->client);
	close(asked->file);
}

/* 0: the name is the file's first byte. */
static int ask(const struct asked *asked, char byte)
{
	const struct naming_place place = {};
	char name[NAMING_NAME];
	__u64 offset;
	int err = naming_client_symbol(asked->client, asked->object, &place, name, sizeof(name), &offset);

	return err ?: *name == byte ? err : -EPROTO;
}

static __u64 restarts(const struct asked *asked)
{
	struct naming_counts counts;

	naming_client_counts(asked->client, &counts);
	return counts.restarts;
}

static void test_a_file_that_was_waited_for_is_asked_once_more(void)
{
	struct asked asked = begin(WAITS);

	CHECK(ask(&asked, 'a') == -EAGAIN && restarts(&asked) == 1, "its helper is given up");
	put(&asked, 'a');
	CHECK(ask(&asked, 'a') == -EAGAIN, "not at once");
	later_s += 6;
	CHECK(!ask(&asked, 'a'), "it answers");
	end(&asked);
}

static void test_and_no_more(void)
{
	struct asked asked = begin(WAITS);
	struct naming_counts counts;

	CHECK(ask(&asked, 'a') == -EAGAIN, "the first time");
	later_s += 6;
	CHECK(ask(&asked, 'a') == -EIO && restarts(&asked) == 2, "the second time");
	put(&asked, 'a');
	later_s += 6;
	CHECK(ask(&asked, 'a') == -ENOENT && restarts(&asked) == 2, "never again");
	naming_client_counts(asked.client, &counts);
	CHECK(counts.objects == 1, "it is told once: %llu", (unsigned long long)counts.objects);
	end(&asked);
}

static int openings(const struct asked *asked)
{
	char count = 0;

	return pread(asked->file, &count, 1, 1) == 1 ? count : 0;
}

static void test_a_file_that_takes_long_to_open_is_opened_seldom(void)
{
	struct asked asked = begin(REFUSED);

	CHECK(ask(&asked, 0) == -ENOEXEC && openings(&asked) == 1, "%d openings", openings(&asked));
	CHECK(ask(&asked, 0) == -EAGAIN && openings(&asked) == 1, "%d openings", openings(&asked));
	later_s += 3600;
	CHECK(ask(&asked, 0) == -ENOEXEC && openings(&asked) == 2, "%d openings", openings(&asked));
	end(&asked);
}

static const struct test tests[] = {
	TEST(test_a_file_that_was_waited_for_is_asked_once_more),
	TEST(test_and_no_more),
	TEST(test_a_file_that_takes_long_to_open_is_opened_seldom),
};

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], NAMING_HELPER_ARGUMENT))
		return helper_main();
	return RUN_TESTS(tests);
}
