// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <malloc.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "helper/naming_cpython.h"
#include "helper/naming_helper.h"
#include "helper/naming_hotspot.h"
#include "helper/naming_objects.h"
#include "helper/naming_protocol.h"
#include "helper/naming_sandbox.h"

#define SOCKET STDIN_FILENO
/* So much that was freed is kept for the next file. */
#define FREE_BYTES (8u << 20)

bool naming_helper_wanted(int argc, char **argv)
{
	return argc == 2 && !strcmp(argv[1], NAMING_HELPER_ARGUMENT);
}

/* What comes with a request to unwind, and goes with its answer. */
static struct naming_stack stack;
static union {
	struct naming_frames frames;
	struct hotspot_monitors monitors;
	struct cpython_frames python;
} found;

static bool has_stack(const struct naming_request *request)
{
	return request->type == NAMING_UNWIND || request->type == NAMING_HOTSPOT;
}

/* What goes with the answer to a request, and while one is made. */
static size_t found_bytes(const struct naming_request *request)
{
	if (request->type == NAMING_HOTSPOT_MONITORS)
		return sizeof(found.monitors);
	if (request->type == NAMING_CPYTHON)
		return sizeof(found.python);
	return has_stack(request) ? sizeof(found.frames) : 0;
}

/* False at the end; fd: -1 where none came with it. */
static bool receive(struct naming_request *request, int *fd)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec parts[] = {{request, sizeof(*request)}, {&stack, sizeof(stack)}};
	struct msghdr message = {
		.msg_iov = parts, .msg_iovlen = 2, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *header;
	ssize_t length;

	*fd = -1;
	length = recvmsg(SOCKET, &message, MSG_CMSG_CLOEXEC);
	header = length > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
	    header->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(header), sizeof(int));
	return length == (ssize_t)(sizeof(*request) + (has_stack(request) ? sizeof(stack) : 0));
}

static bool send_answer(struct naming_answer *answer, const struct naming_request *request)
{
	struct iovec parts[] = {{answer, sizeof(*answer)}, {&found, found_bytes(request)}};
	const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};

	return sendmsg(SOCKET, &message, MSG_NOSIGNAL) > 0;
}

static bool receive_page(struct naming_page *page)
{
	struct iovec part = {page, sizeof(*page)};
	struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

	return recvmsg(SOCKET, &message, MSG_CMSG_CLOEXEC) == sizeof(*page);
}

/* Of the process that the request is about. */
static int fetch_page(void *context, __u64 address, __u8 *out)
{
	const struct naming_request *request = context;
	struct naming_answer wanted = {.error = NAMING_WANTS_PAGE, .offset = address};
	static struct naming_page page;

	if (!send_answer(&wanted, request) || !receive_page(&page))
		return -EPIPE;
	if (page.error)
		return page.error;
	memcpy(out, page.bytes, sizeof(page.bytes));
	return 0;
}

/* The same of words that lie apart. */
static int fetch_words(void *context, const __u64 *addresses, __u32 count, __u64 *out)
{
	struct naming_answer wanted = {.error = NAMING_WANTS_WORDS, .offset = count};
	static struct naming_page page;

	memcpy(wanted.name, addresses, count * sizeof(*addresses));
	if (!send_answer(&wanted, context) || !receive_page(&page))
		return -EPIPE;
	if (!page.error)
		memcpy(out, page.bytes, count * sizeof(*out));
	return page.error;
}

/* Takes the descriptor. */
static int answer_request(struct naming_request *request, int fd, struct naming_answer *answer)
{
	const struct naming_memory memory = {&request->runtime, fetch_page, fetch_words, request};
	const __u32 object = request->object;
	int err = 0;

	request->name[sizeof(request->name) - 1] = 0;
	if (object >= NAMING_OBJECTS)
		return -EINVAL;
	memset(&found, 0, found_bytes(request));
	switch (request->type) {
	case NAMING_OPEN:
		err = fd < 0 ? -EBADF : naming_object_open(object, fd, answer);
		fd = -1;
		break;
	case NAMING_OPEN_VDSO:
		err = naming_object_open(object, -1, answer);
		break;
	case NAMING_OPEN_MAP:
		err = fd < 0 ? -EBADF : naming_object_open_map(object, fd);
		fd = -1;
		break;
	case NAMING_DEBUG:
		err = fd < 0 ? -EBADF : naming_object_debug(object, fd);
		fd = -1;
		break;
	case NAMING_CLOSE:
		naming_object_close(object);
		/* What is free between the others' goes back to the kernel too. */
		if (mallinfo2().fordblks > FREE_BYTES)
			malloc_trim(FREE_BYTES);
		break;
	case NAMING_SYMBOL:
		err = naming_object_symbol(object, &request->place, answer);
		break;
	case NAMING_CODE_AT:
	case NAMING_VARIABLE_AT:
		err = naming_object_at(object, request->place.file_offset, request->type == NAMING_VARIABLE_AT, answer);
		break;
	case NAMING_FIND:
		err = naming_object_find(object, request->place.file_offset, request->name, answer);
		break;
	case NAMING_UNWIND:
		err = naming_object_unwind(object, &stack, &found.frames);
		break;
	case NAMING_HOTSPOT:
		err = naming_hotspot_unwind(object, &memory, &stack, &found.frames);
		break;
	case NAMING_HOTSPOT_MONITORS:
		err = naming_hotspot_monitors(object, &memory, request->place.distance, &found.monitors);
		break;
	case NAMING_CPYTHON:
		err = naming_cpython_frames(object, &memory, &request->thread, &found.python);
		break;
	case NAMING_HOTSPOT_NAME:
		err = naming_hotspot_name(object, &memory, request->place.distance, answer);
		break;
	default:
		err = -ENOSYS;
	}
	if (fd >= 0)
		close(fd);
	return err;
}

/* Ends this process when a request has used up its time. */
static void set_time(int seconds)
{
	const struct itimerval time = {.it_value.tv_sec = seconds};

	setitimer(ITIMER_PROF, &time, NULL);
}

static __u64 allocated(void)
{
	const struct mallinfo2 memory = mallinfo2();

	return memory.uordblks + memory.hblkhd;
}

int naming_helper_main(void)
{
	struct naming_request request;
	struct naming_answer answer;
	int fd;

	prctl(PR_SET_NAME, "lockline-names");
	if (naming_sandbox_enter())
		return 1;
	while (receive(&request, &fd)) {
		memset(&answer, 0, sizeof(answer));
		set_time(NAMING_CPU_SECONDS);
		answer.error = answer_request(&request, fd, &answer);
		set_time(0);
		answer.allocated = allocated();
		if (!send_answer(&answer, &request))
			return 1;
	}
	return 0;
}
