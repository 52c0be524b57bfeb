// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/patience.h"
#include "base/proc.h"
#include "base/small_file.h"
#include "naming/naming_exchange.h"

/* For a helper that does not run or was taken over; one that computes ends itself by its CPU time. */
#define WAIT_NS 30000000000ull
#define LOOK_MS 50
/*
 * A helper that waits for a file so long, without having computed, waits for a server that does not answer.  One in
 * user space, for which it sleeps as any other sleeper, may pause for longer.
 */
#define FILE_MS      1000
#define USER_FILE_MS 3000
/* Pages of a process's memory for one question, and how long they are read. */
#define MOST_PAGES 8192
#define PAGES_NS   3000000000ull

static int send_request(const struct naming_exchange *exchange, const struct naming_question *question, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = {};
	struct iovec parts[] = {
		{(void *)&question->request, sizeof(question->request)},
		{(void *)question->stack, sizeof(*question->stack)},
	};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = question->stack ? 2 : 1};
	const ssize_t length = sizeof(question->request) + (question->stack ? sizeof(*question->stack) : 0);
	struct cmsghdr *header;

	if (fd >= 0) {
		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &fd, sizeof(int));
	}
	return sendmsg(exchange->process->socket, &message, MSG_NOSIGNAL) == length ? 0 : -EPIPE;
}

static ssize_t receive_message(const struct naming_exchange *exchange, struct naming_question *question)
{
	struct iovec parts[] = {
		{&question->answer, sizeof(question->answer)},
		{question->found, question->found_bytes},
	};
	/* No room for descriptors: what it might send is closed by the kernel. */
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = question->found ? 2 : 1};

	return recvmsg(exchange->process->socket, &message, MSG_DONTWAIT);
}

struct progress {
	__u64 cpu_ns;
	int still; /* looks that found it as it was, waiting for a file */
};

/*
 * Whether it has waited for a file all the while, at one look of many: what it asks for itself comes at once.  A file
 * system in user space lets it sleep like any other until a signal comes.
 */
static bool waits_for_a_file(const struct naming_exchange *exchange, struct progress *progress)
{
	const char state = task_state(exchange->process->pid);
	__u64 cpu_ns;

	if (!naming_process_cpu_ns(exchange->process, &cpu_ns))
		return false;
	progress->still = (state == 'D' || state == 'S') && cpu_ns == progress->cpu_ns ? progress->still + 1 : 0;
	progress->cpu_ns = cpu_ns;
	return progress->still >= (state == 'S' ? USER_FILE_MS : FILE_MS) / LOOK_MS;
}

/* What the helper asks for, into a page. */
static int read_wanted(const struct naming_question *question, struct naming_page *page)
{
	const struct naming_answer *wanted = &question->answer;
	__u64 addresses[TARGET_WORDS];
	ssize_t bytes, size = sizeof(page->bytes);

	if (wanted->error == NAMING_WANTS_PAGE) {
		bytes = patience_read(question->memory_of, wanted->offset, page->bytes, size);
	} else {
		if (!wanted->offset || wanted->offset > TARGET_WORDS)
			return -EINVAL;
		size = wanted->offset * sizeof(*addresses);
		memcpy(addresses, wanted->name, size);
		bytes = patience_read_words(question->memory_of, addresses, wanted->offset, (__u64 *)page->bytes);
	}
	return bytes == size ? 0 : bytes < 0 ? bytes : -EFAULT;
}

/* Sends what the helper asks for.  A process that is not readable in time ends the question's pages. */
static int send_page(const struct naming_exchange *exchange, struct naming_question *question)
{
	struct naming_page page = {};
	const __u64 now = now_ns();

	if (!question->memory_of || question->pages++ == MOST_PAGES)
		return -EPIPE;
	if (question->pages == 1)
		question->until_ns = now + PAGES_NS;
	page.error = now < question->until_ns ? read_wanted(question, &page) : -ETIMEDOUT;
	if (page.error == -ETIMEDOUT || page.error == -EBUSY)
		question->until_ns = now;
	return send(exchange->process->socket, &page, sizeof(page), MSG_NOSIGNAL) == sizeof(page) ? 0 : -EPIPE;
}

static int receive_answer(const struct naming_exchange *exchange, struct naming_question *question)
{
	const ssize_t length = sizeof(question->answer) + question->found_bytes;
	const __u64 deadline = now_ns() + WAIT_NS;
	struct naming_answer *answer = &question->answer;
	struct progress progress = {};

	while (!atomic_load(exchange->given_up) && now_ns() < deadline) {
		struct pollfd poll_fd = {.fd = exchange->process->socket, .events = POLLIN};

		if (poll(&poll_fd, 1, LOOK_MS) <= 0) {
			if (waits_for_a_file(exchange, &progress))
				return -EIO;
			if (exchange->meanwhile && exchange->meanwhile(exchange->context))
				return -ECANCELED;
			continue;
		}
		if (receive_message(exchange, question) != length)
			return -EPIPE;
		if (answer->error == NAMING_WANTS_PAGE || answer->error == NAMING_WANTS_WORDS) {
			int err = send_page(exchange, question);

			if (err)
				return err;
			continue;
		}
		answer->name[sizeof(answer->name) - 1] = 0;
		make_printable(answer->name);
		if (answer->id_size > sizeof(answer->id))
			answer->id_size = 0;
		return 0;
	}
	return -ETIME;
}

int naming_exchange(const struct naming_exchange *exchange, struct naming_question *question, int fd)
{
	int err = send_request(exchange, question, fd);

	err = err ?: receive_answer(exchange, question);
	naming_process_cpu_ns(exchange->process, &exchange->process->running_cpu_ns);
	return err;
}
