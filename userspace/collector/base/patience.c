// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/patience.h"
#include "base/small_file.h"

#define ARGUMENT "--read-for-collector"
/* A page that is on a disk comes within this; the rings hold more than is written meanwhile. */
#define MEMORY_MS 200
/* Mappings are read apart from the rings; the kernel takes long over very many. */
#define MAPS_MS     2000
#define MAPS_BYTES  (16u << 20)
#define FIRST_BYTES (64u << 10)
/* A reader that could run but gets no CPU waits for no memory: it has this much longer. */
#define STARVED_MS 4000
#define LOOK_MS    20
/* So many readers may be left alone; after that nothing more is read. */
#define MOST_LEFT 64

struct request {
	__u64 address;
	__u32 tgid;
	__u32 size; /* of memory; 0: the mappings */
};

struct reader {
	pthread_mutex_t lock; /* one question at a time */
	pid_t pid;
	int socket;
};

static struct reader memory_reader = {.lock = PTHREAD_MUTEX_INITIALIZER, .socket = -1};
static struct reader maps_reader = {.lock = PTHREAD_MUTEX_INITIALIZER, .socket = -1};
static bool has_readers;

/* Readers that did not answer, and whom they read. */
static pthread_mutex_t left_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
	pid_t pid;
	__u32 tgid;
} left[MOST_LEFT];
static unsigned int left_count;
static __u64 lost;

static ssize_t read_memory(const struct request *request, void *out)
{
	struct iovec here = {out, request->size}, there = {(void *)(unsigned long)request->address, request->size};
	ssize_t bytes = process_vm_readv(request->tgid, &here, 1, &there, 1, 0);

	return bytes < 0 ? -errno : bytes;
}

/* out: malloc()ed. */
static ssize_t read_maps(__u32 tgid, char **out)
{
	size_t room = FIRST_BYTES, used = 0;
	ssize_t bytes = 0;
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/maps", tgid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	*out = malloc(room);
	while (*out && used < MAPS_BYTES) {
		if (used == room) {
			char *larger = realloc(*out, room *= 2);

			if (!larger)
				break;
			*out = larger;
		}
		bytes = read(fd, *out + used, room - used);
		if (bytes <= 0)
			break;
		used += bytes;
	}
	bytes = used ? (ssize_t)used : !*out ? -ENOMEM : bytes < 0 ? -errno : 0;
	close(fd);
	return bytes;
}

static bool send_all(int socket, const void *data, size_t size)
{
	const char *at = data;

	while (size) {
		ssize_t sent = send(socket, at, size, MSG_NOSIGNAL);

		if (sent <= 0)
			return false;
		at += sent;
		size -= sent;
	}
	return true;
}

/* The result and what was read, at once where they fit. */
static bool send_answer(int socket, __s64 result, void *data)
{
	const size_t size = result > 0 ? result : 0;
	struct iovec parts[] = {{&result, sizeof(result)}, {data, size}};
	const struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	ssize_t sent = sendmsg(socket, &message, MSG_NOSIGNAL);

	if (sent < (ssize_t)sizeof(result))
		return false;
	sent -= sizeof(result);
	return send_all(socket, (char *)data + sent, size - sent);
}

bool patience_reader_wanted(int argc, char **argv)
{
	has_readers = true;
	return argc == 2 && !strcmp(argv[1], ARGUMENT);
}

int patience_reader_main(void)
{
	struct request request;

	prctl(PR_SET_NAME, "lockline-reads");
	prctl(PR_SET_DUMPABLE, 0);
	while (recv(STDIN_FILENO, &request, sizeof(request), MSG_WAITALL) == sizeof(request)) {
		char *data = request.size ? malloc(request.size) : NULL;
		__s64 result = !request.size ? read_maps(request.tgid, &data)
			       : data        ? read_memory(&request, data)
					     : -ENOMEM;
		bool sent = send_answer(STDIN_FILENO, result, data);

		free(data);
		if (!sent)
			break;
	}
	return 0;
}

static int start(struct reader *reader)
{
	static char *const arguments[] = {"lockline-reads", ARGUMENT, NULL};
	char *const environment[] = {NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t all;
	int ends[2], err;

	if (reader->socket >= 0)
		return 0;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return -errno;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, ends[1], STDIN_FILENO);
	posix_spawn_file_actions_addclosefrom_np(&files, STDIN_FILENO + 1);
	sigfillset(&all);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
	posix_spawnattr_setsigmask(&attributes, &all);
	err = -posix_spawn(&reader->pid, "/proc/self/exe", &files, &attributes, arguments, environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&files);
	close(ends[1]);
	if (err)
		close(ends[0]);
	else
		reader->socket = ends[0];
	return err;
}

/* What came of a read that was left alone: its process can be read again then. */
static bool is_left_alone(__u32 tgid)
{
	bool found = false;

	pthread_mutex_lock(&left_lock);
	for (unsigned int i = 0; i < left_count;) {
		if (waitpid(left[i].pid, NULL, WNOHANG)) {
			left[i] = left[--left_count];
			continue;
		}
		found |= left[i++].tgid == tgid;
	}
	found |= left_count == MOST_LEFT;
	pthread_mutex_unlock(&left_lock);
	return found;
}

/* Not waited for: where it waits no signal reaches it. */
static void leave_alone(struct reader *reader, __u32 tgid)
{
	close(reader->socket);
	reader->socket = -1;
	kill(reader->pid, SIGKILL);
	pthread_mutex_lock(&left_lock);
	if (left_count < MOST_LEFT) {
		left[left_count].pid = reader->pid;
		left[left_count++].tgid = tgid;
	}
	lost++;
	pthread_mutex_unlock(&left_lock);
}

/* It runs, or waits for a CPU. */
static bool could_run(pid_t pid)
{
	char path[32], state[32];

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	return !value_of_key(path, "State", state, sizeof(state)) && *state == 'R';
}

static bool wait_until(const struct reader *reader, __u64 deadline_ns)
{
	const __u64 last_ns = deadline_ns + STARVED_MS * 1000000ull;
	struct pollfd ready = {.fd = reader->socket, .events = POLLIN};

	for (;;) {
		const __u64 now = now_ns();
		int answer = poll(&ready, 1, now < deadline_ns ? (int)((deadline_ns - now) / 1000000 + 1) : LOOK_MS);

		if (answer > 0 || (answer < 0 && errno != EINTR))
			return answer > 0;
		if (now >= last_ns || (now_ns() >= deadline_ns && !could_run(reader->pid)))
			return poll(&ready, 1, 0) > 0;
	}
}

static bool receive(const struct reader *reader, void *out, size_t size, __u64 deadline_ns)
{
	char *at = out;

	while (size) {
		ssize_t bytes;

		if (!wait_until(reader, deadline_ns))
			return false;
		bytes = recv(reader->socket, at, size, MSG_DONTWAIT);
		if (bytes <= 0)
			return false;
		at += bytes;
		size -= bytes;
	}
	return true;
}

/* The result, and what has come of the rest by then, at out; its bytes, or -1. */
static ssize_t receive_result(const struct reader *reader, __s64 *result, void *out, size_t most, __u64 deadline_ns)
{
	struct iovec parts[] = {{result, sizeof(*result)}, {out, most}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	ssize_t bytes;

	if (!wait_until(reader, deadline_ns))
		return -1;
	bytes = recvmsg(reader->socket, &message, MSG_DONTWAIT);
	return bytes < (ssize_t)sizeof(*result) ? -1 : bytes - (ssize_t)sizeof(*result);
}

/* out: where memory goes; or for mappings *text, which is malloc()ed. */
static ssize_t ask(struct reader *reader, const struct request *request, __u32 most_ms, void *out, char **text)
{
	const size_t most = request->size ?: MAPS_BYTES + FIRST_BYTES;
	__s64 result = 0;
	__u64 deadline_ns;
	ssize_t here;
	int err;

	if (is_left_alone(request->tgid))
		return -EBUSY;
	err = start(reader);
	if (err)
		return err;
	deadline_ns = now_ns() + most_ms * 1000000ull;
	if (!send_all(reader->socket, request, sizeof(*request)))
		goto lost;
	here = receive_result(reader, &result, out, request->size, deadline_ns);
	if (here < 0 || result > (__s64)most || here > (result > 0 ? result : 0))
		goto lost;
	if (result <= 0)
		return result;
	if (text)
		*text = out = malloc(result);
	if (out && receive(reader, (char *)out + here, result - here, deadline_ns))
		return result;
lost:
	if (text) {
		free(*text);
		*text = NULL;
	}
	leave_alone(reader, request->tgid);
	return -ETIMEDOUT;
}

ssize_t patience_read(__u32 tgid, __u64 address, void *out, size_t size)
{
	const struct request request = {.address = address, .tgid = tgid, .size = size};
	ssize_t result;

	if (!has_readers)
		return read_memory(&request, out);
	pthread_mutex_lock(&memory_reader.lock);
	result = ask(&memory_reader, &request, MEMORY_MS, out, NULL);
	pthread_mutex_unlock(&memory_reader.lock);
	return result;
}

static FILE *stream_of(const char *text, size_t size)
{
	FILE *file = size ? fmemopen(NULL, size + 1, "w+") : fopen("/dev/null", "re");

	if (file && size) {
		fwrite(text, 1, size, file);
		rewind(file);
	}
	return file;
}

FILE *patience_open_maps(__u32 tgid)
{
	const struct request request = {.tgid = tgid};
	char *text = NULL;
	FILE *file = NULL;
	ssize_t size;

	if (has_readers) {
		pthread_mutex_lock(&maps_reader.lock);
		size = ask(&maps_reader, &request, MAPS_MS, NULL, &text);
		pthread_mutex_unlock(&maps_reader.lock);
	} else {
		size = read_maps(tgid, &text);
	}
	if (size < 0)
		errno = -size;
	else
		file = stream_of(text, size);
	free(text);
	return file;
}

static void end(struct reader *reader)
{
	pthread_mutex_lock(&reader->lock);
	if (reader->socket >= 0) {
		close(reader->socket);
		reader->socket = -1;
		waitpid(reader->pid, NULL, 0);
	}
	pthread_mutex_unlock(&reader->lock);
}

void patience_end(void)
{
	end(&memory_reader);
	end(&maps_reader);
}

__u64 patience_lost(void)
{
	__u64 count;

	pthread_mutex_lock(&left_lock);
	count = lost;
	pthread_mutex_unlock(&left_lock);
	return count;
}
