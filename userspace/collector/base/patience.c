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
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/patience.h"
#include "base/proc.h"
#include "base/regular_file.h"
#include "base/small_file.h"

#define ARGUMENT "--read-for-collector"
/* A page that is on a disk comes within this; the rings hold more than is written meanwhile. */
#define MEMORY_MS 200
/* Mappings are read apart from the rings; the kernel takes long over very many. */
#define MAPS_MS 2000
/* What is mapped has its inode in memory.  Whoever ends a recording waits no longer than this for a name. */
#define OPEN_MS     500
#define MAPS_BYTES  (16u << 20)
#define FIRST_BYTES (64u << 10)
/* A reader that could run but gets no CPU waits for no memory: it has this much longer. */
#define STARVED_MS 4000
#define LOOK_MS    20
/* So many readers may be left alone; after that nothing more is read. */
#define MOST_LEFT 64
/* Of a mutex of glibc; where its owner is (sysdeps/nptl/bits/struct_mutex.h); what is kept of each file of /proc. */
#define MUTEX_BYTES 12
#define OWNER_AT    8
#define TEXT_BYTES  512

enum what { READ_MEMORY, READ_MAPS, OPEN_MAPPED, OPEN_BELOW_ROOT, LOOK_AT_PROGRAM, READ_WORDS, LOOK_AT_HOLDER };

/* lockline/base/patience.py has the same. */
struct request {
	__u32 what;
	__u32 tgid;
	__u64 address;
	__u32 size; /* of memory; of READ_MAPS: no more than that, 0: MAPS_BYTES */
	__u32 path; /* bytes of a path that follow, with its 0; of READ_WORDS: of the addresses */
	/* OPEN_MAPPED */
	__u64 start, end, inode;
	__u32 major, minor;
};

/* What came of a request: bytes at `data`, or a descriptor that goes with them. */
struct result {
	ssize_t bytes; /* or negative errno */
	char *data;    /* malloc()ed, or NULL */
	int fd;        /* -1: none */
};

struct reader {
	pthread_mutex_t lock; /* one question at a time */
	pid_t pid;
	int socket;
};

static struct reader memory_reader = {.lock = PTHREAD_MUTEX_INITIALIZER, .socket = -1};
static struct reader maps_reader = {.lock = PTHREAD_MUTEX_INITIALIZER, .socket = -1};
static struct reader opener = {.lock = PTHREAD_MUTEX_INITIALIZER, .socket = -1};
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

/* addresses: as they came, of so many words as the request's size has. */
static ssize_t read_words(const struct request *request, const void *addresses, void *out)
{
	const __u32 count = request->size / sizeof(__u64);
	struct iovec here = {out, count * sizeof(__u64)}, there[PATIENCE_WORDS];
	ssize_t bytes;

	if (!count || count > PATIENCE_WORDS)
		return -EINVAL;
	for (__u32 i = 0; i < count; i++) {
		__u64 address;

		memcpy(&address, (const char *)addresses + i * sizeof(address), sizeof(address));
		there[i] = (struct iovec){(void *)(unsigned long)address, sizeof(address)};
	}
	bytes = process_vm_readv(request->tgid, &here, 1, there, count, 0);
	return bytes < 0 ? -errno : bytes;
}

/*
 * What a mutex's owner does at this moment: the mutex, the mutex a moment later, and files of the thread between the
 * two, each with a 0 behind.  No message goes from process to process in that time: a section of 100 us has not ended.
 */
static ssize_t look_at_holder(const struct request *request, char *out)
{
	static const char *const files[] = {"stat", "wchan", "syscall", "schedstat"};
	const struct request mutex = {.tgid = request->tgid, .address = request->address, .size = MUTEX_BYTES};
	char *at = out + 2 * MUTEX_BYTES;
	ssize_t bytes = read_memory(&mutex, out);
	__u32 owner;

	if (bytes != MUTEX_BYTES)
		return bytes < 0 ? bytes : -EFAULT;
	memcpy(&owner, out + OWNER_AT, sizeof(owner));
	for (unsigned int i = 0; i < sizeof(files) / sizeof(*files); i++) {
		char name[PROC_PATH];

		snprintf(name, sizeof(name), "task/%u/%s", owner, files[i]);
		bytes = owner ? proc_read(request->tgid, name, at, TEXT_BYTES) : 0;
		at += bytes > 0 ? bytes : 0;
		*at++ = 0;
	}
	bytes = read_memory(&mutex, out + MUTEX_BYTES);
	if (bytes != MUTEX_BYTES)
		return bytes < 0 ? bytes : -EFAULT;
	return at - out;
}

/* Up to so many bytes, and to the end of the room that was made for them.  out: malloc()ed. */
static ssize_t read_maps(__u32 tgid, size_t most, char **out)
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
	while (*out && used < most) {
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

/* The result and what was read, at once where they fit; a descriptor with the first byte. */
static bool send_answer(int socket, const struct result *result)
{
	char control[CMSG_SPACE(sizeof(int))] = {};
	const __s64 bytes = result->bytes;
	const size_t size = bytes > 0 ? bytes : 0;
	struct iovec parts[] = {{(void *)&bytes, sizeof(bytes)}, {result->data, size}};
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
	ssize_t sent;

	if (result->fd >= 0) {
		struct cmsghdr *header;

		message.msg_control = control;
		message.msg_controllen = sizeof(control);
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(header), &result->fd, sizeof(int));
	}
	sent = sendmsg(socket, &message, MSG_NOSIGNAL);
	if (sent < (ssize_t)sizeof(bytes))
		return false;
	sent -= sizeof(bytes);
	return send_all(socket, result->data + sent, size - sent);
}

static ssize_t look_at_program(__u32 tgid, struct stat *status)
{
	char path[PROC_PATH];

	proc_path(path, sizeof(path), tgid, "exe");
	return stat(path, status) ? -errno : 0;
}

static int open_wanted(const struct request *request, const char *path, struct stat *status)
{
	const struct mapped_file mapped = {
		.tgid = request->tgid,
		.start = request->start,
		.end = request->end,
		.inode = request->inode,
		.major = request->major,
		.minor = request->minor,
		.path = path,
	};

	return request->what == OPEN_MAPPED ? mapped_file_open(&mapped, status)
					    : regular_file_open_of(request->tgid, path, status);
}

static struct result make_result(const struct request *request, const char *path)
{
	const bool memory = request->what == READ_MEMORY || request->what == READ_WORDS;
	const size_t holder = request->what == LOOK_AT_HOLDER ? 2 * MUTEX_BYTES + 4 * (TEXT_BYTES + 1) : 0;
	const size_t room = holder ?: (memory ? request->size : sizeof(struct stat));
	struct result result = {.bytes = -ENOMEM, .fd = -1};

	if (request->what == READ_MAPS) {
		result.bytes = read_maps(request->tgid, request->size ?: MAPS_BYTES, &result.data);
		return result;
	}
	result.data = calloc(1, room ?: 1);
	if (!result.data)
		return result;
	if (request->what == READ_MEMORY)
		result.bytes = read_memory(request, result.data);
	else if (request->what == READ_WORDS)
		result.bytes = read_words(request, path, result.data);
	else if (request->what == LOOK_AT_HOLDER)
		result.bytes = look_at_holder(request, result.data);
	else if (request->what == LOOK_AT_PROGRAM)
		result.bytes = look_at_program(request->tgid, (struct stat *)result.data) ?: (ssize_t)room;
	else
		result.bytes = result.fd = open_wanted(request, path, (struct stat *)result.data);
	if (result.fd >= 0)
		result.bytes = room;
	return result;
}

bool patience_reader_wanted(int argc, char **argv)
{
	has_readers = true;
	return argc == 2 && !strcmp(argv[1], ARGUMENT);
}

int patience_reader_main(void)
{
	static char path[PROC_MAPPED_PATH];
	struct request request;

	prctl(PR_SET_NAME, "lockline-reads");
	prctl(PR_SET_DUMPABLE, 0);
	while (recv(STDIN_FILENO, &request, sizeof(request), MSG_WAITALL) == sizeof(request)) {
		struct result result;
		bool sent;

		if (request.path > sizeof(path) ||
		    (request.path && recv(STDIN_FILENO, path, request.path, MSG_WAITALL) != (ssize_t)request.path))
			break;
		path[request.path ? request.path - 1 : 0] = 0;
		result = make_result(&request, path);
		sent = send_answer(STDIN_FILENO, &result);
		free(result.data);
		if (result.fd >= 0)
			close(result.fd);
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

/* The result, and what has come of the rest by then, at out; its bytes, or -1.  fd: what came with it, or -1. */
static ssize_t receive_result(const struct reader *reader, __s64 *result, void *out, size_t most, int *fd,
			      __u64 deadline_ns)
{
	char control[CMSG_SPACE(sizeof(int))];
	struct iovec parts[] = {{result, sizeof(*result)}, {out, most}};
	struct msghdr message = {
		.msg_iov = parts, .msg_iovlen = 2, .msg_control = control, .msg_controllen = sizeof(control)};
	struct cmsghdr *header;
	ssize_t bytes;

	*fd = -1;
	if (!wait_until(reader, deadline_ns))
		return -1;
	bytes = recvmsg(reader->socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	header = bytes > 0 ? CMSG_FIRSTHDR(&message) : NULL;
	if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
	    header->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(fd, CMSG_DATA(header), sizeof(int));
	return bytes < (ssize_t)sizeof(*result) ? -1 : bytes - (ssize_t)sizeof(*result);
}

/* A question, and where its answer goes. */
struct question {
	struct request request;
	const char *path; /* NULL: none */
	__u32 most_ms;
	void *out;   /* memory, or a struct stat; NULL: *text, which is malloc()ed */
	size_t size; /* at out */
	char *text;
	int fd; /* a descriptor that came with the answer, or -1 */
};

static bool send_question(int socket, const struct question *question)
{
	return send_all(socket, &question->request, sizeof(question->request)) &&
	       (!question->path || send_all(socket, question->path, question->request.path));
}

/* False: no answer in time, or none that can be.  *bytes: or negative errno. */
static bool receive_answer(const struct reader *reader, struct question *question, __u64 deadline_ns, __s64 *bytes)
{
	const size_t most = question->out ? question->size : MAPS_BYTES + FIRST_BYTES;
	ssize_t here = receive_result(reader, bytes, question->out, question->out ? question->size : 0, &question->fd,
				      deadline_ns);
	void *out = question->out;

	if (here < 0 || *bytes > (__s64)most || here > (*bytes > 0 ? *bytes : 0))
		return false;
	if (*bytes > 0 && !out)
		out = question->text = malloc(*bytes);
	return *bytes <= 0 || (out && receive(reader, (char *)out + here, *bytes - here, deadline_ns));
}

static ssize_t ask_reader(struct reader *reader, struct question *question)
{
	__u64 deadline_ns;
	__s64 bytes = 0;
	int err;

	if (is_left_alone(question->request.tgid))
		return -EBUSY;
	err = start(reader);
	if (err)
		return err;
	deadline_ns = now_ns() + question->most_ms * 1000000ull;
	if (send_question(reader->socket, question) && receive_answer(reader, question, deadline_ns, &bytes))
		return bytes;
	if (question->fd >= 0)
		close(question->fd);
	free(question->text);
	question->fd = -1;
	question->text = NULL;
	leave_alone(reader, question->request.tgid);
	return -ETIMEDOUT;
}

static ssize_t ask(struct reader *reader, struct question *question)
{
	ssize_t result;

	question->fd = -1;
	pthread_mutex_lock(&reader->lock);
	result = ask_reader(reader, question);
	pthread_mutex_unlock(&reader->lock);
	return result;
}

ssize_t patience_read(__u32 tgid, __u64 address, void *out, size_t size)
{
	struct question question = {
		.request = {.what = READ_MEMORY, .address = address, .tgid = tgid, .size = size},
		.most_ms = MEMORY_MS,
		.out = out,
		.size = size,
	};

	return has_readers ? ask(&memory_reader, &question) : read_memory(&question.request, out);
}

ssize_t patience_read_words(__u32 tgid, const __u64 *addresses, __u32 count, __u64 *out)
{
	/* One byte more, as of a path's 0. */
	char asked[PATIENCE_WORDS * sizeof(*addresses) + 1] = {};
	struct question question = {
		.request = {.what = READ_WORDS, .tgid = tgid, .size = count * sizeof(*out), .path = sizeof(asked)},
		.path = asked,
		.most_ms = MEMORY_MS,
		.out = out,
		.size = count * sizeof(*out),
	};

	if (!count || count > PATIENCE_WORDS)
		return -EINVAL;
	memcpy(asked, addresses, count * sizeof(*addresses));
	return has_readers ? ask(&memory_reader, &question) : read_words(&question.request, asked, out);
}

/* A descriptor, or negative errno. */
static int open_patiently(struct question *question, struct stat *status)
{
	ssize_t result;

	question->most_ms = OPEN_MS;
	question->out = status;
	question->size = sizeof(*status);
	question->request.path = strlen(question->path) + 1;
	if (question->request.path > PROC_MAPPED_PATH)
		return -ENAMETOOLONG;
	if (!has_readers)
		return open_wanted(&question->request, question->path, status);
	result = ask(&opener, question);
	if (result < 0)
		return result;
	return question->fd < 0 ? -EPROTO : question->fd;
}

int patience_open_mapped(const struct mapped_file *mapped, struct stat *status)
{
	struct question question = {
		.request = {.what = OPEN_MAPPED,
			    .tgid = mapped->tgid,
			    .start = mapped->start,
			    .end = mapped->end,
			    .inode = mapped->inode,
			    .major = mapped->major,
			    .minor = mapped->minor},
		.path = mapped->path,
	};

	return open_patiently(&question, status);
}

int patience_open_of(__u32 tgid, const char *path, struct stat *status)
{
	struct question question = {.request = {.what = OPEN_BELOW_ROOT, .tgid = tgid}, .path = path};

	return open_patiently(&question, status);
}

int patience_program(__u32 tgid, struct stat *status)
{
	struct question question = {
		.request = {.what = LOOK_AT_PROGRAM, .tgid = tgid},
		.most_ms = OPEN_MS,
		.out = status,
		.size = sizeof(*status),
	};
	ssize_t result = has_readers ? ask(&opener, &question) : look_at_program(tgid, status);

	return result < 0 ? result : 0;
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
	struct question question = {.request = {.what = READ_MAPS, .tgid = tgid}, .most_ms = MAPS_MS};
	FILE *file = NULL;
	ssize_t size = has_readers ? ask(&maps_reader, &question) : read_maps(tgid, MAPS_BYTES, &question.text);

	if (size < 0)
		errno = -size;
	else
		file = stream_of(question.text, size);
	free(question.text);
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
	end(&opener);
}

__u64 patience_lost(void)
{
	__u64 count;

	pthread_mutex_lock(&left_lock);
	count = lost;
	pthread_mutex_unlock(&left_lock);
	return count;
}
