// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/patience.h"
#include "base/proc.h"
#include "base/regular_file.h"
#include "base/small_file.h"
#include "names/build_id.h"
#include "naming/naming_client.h"
#include "naming/naming_helper.h"

/* For a helper that does not run or was taken over; one that computes ends itself by its CPU time. */
#define WAIT_NS 30000000000ull
#define LOOK_MS 50
/* How long the end of a helper is waited for, once it was killed. */
#define ENDS_MS 1000
/*
 * A helper that waits for a file so long, without having computed, waits for a server that does not answer.  One in
 * user space, for which it sleeps as any other sleeper, may pause for longer.
 */
#define FILE_MS      1000
#define USER_FILE_MS 3000
/* Such a file is asked once more so long after it; if that ends likewise, it has no names. */
#define AGAIN_NS 5000000000ull
/* So many such helpers are borne, which no signal ends; with more of them nothing is named until one has ended. */
#define MOST_LEFT 16
/* A helper that holds more closes what was asked for longest ago. */
#define ENOUGH_BYTES (NAMING_MEMORY_BYTES / 4)
/* One that holds more with nothing else open is started anew before the next file. */
#define TOO_MANY_BYTES (NAMING_MEMORY_BYTES / 2)
/* Pages of a process's memory for one question, and how long they are read. */
#define MOST_PAGES 8192
#define PAGES_NS   3000000000ull
/* Opening a file takes this part of the helper's time at most; what takes less than so long is not counted. */
#define OPENING_COST 64
#define CHEAP_NS     10000000ull
/* Starts beyond these, and one a second, are refused: files that kill it must not keep a CPU busy. */
#define STARTS 64

/* What tells a file from others and from itself before it was written. */
struct identity {
	enum naming_request_type open; /* what it is opened as */
	dev_t device;
	ino_t inode;
	off_t size;
	struct timespec modified, changed;
};

struct object {
	__u64 number; /* 0: free */
	__u64 used;
	struct identity identity;
	int fd;    /* -1: the vDSO */
	int debug; /* -1: none */
	bool sent; /* the helper that runs has it */
	bool bad;
	__u64 again_ns; /* a helper waited for it: when it is asked once more; 0: none did */
	__u64 next_ns;  /* it may be opened again */
};

struct naming_client {
	struct object objects[NAMING_OBJECTS];
	__u64 numbers, uses;
	int socket; /* -1: no helper runs */
	pid_t pid;
	__u64 starts;
	__u64 first_start_ns;
	__u64 allocated;
	pid_t left[MOST_LEFT];       /* 0: free */
	struct naming_counts counts; /* without the helper that runs */
	__u64 running_cpu_ns;        /* of that one, at its last answer: later it sleeps */
	atomic_bool given_up;
	int (*meanwhile)(void *context); /* NULL: nothing is to be done */
	void *context;
};

/* A request with what comes and goes besides. */
struct question {
	struct naming_request request;
	struct naming_answer answer;
	const struct naming_stack *stack;
	void *found; /* what comes with its answer; NULL: nothing */
	size_t found_bytes;
	__u32 memory_of; /* the process whose memory it may want; 0: none's */
	__u32 pages;     /* that it had */
	__u64 until_ns;  /* it has more; set by its first page */
};

/* Whether one more helper may be left alone; those that have ended meanwhile no longer count. */
static bool may_leave_one(struct naming_client *client)
{
	bool room = false;

	for (int i = 0; i < MOST_LEFT; i++) {
		if (client->left[i] && waitpid(client->left[i], NULL, WNOHANG))
			client->left[i] = 0;
		room |= !client->left[i];
	}
	return room;
}

static void leave_alone(struct naming_client *client)
{
	for (int i = 0; i < MOST_LEFT; i++) {
		if (!client->left[i]) {
			client->left[i] = client->pid;
			return;
		}
	}
}

static int start(struct naming_client *client)
{
	static char *const arguments[] = {"lockline-names", NAMING_HELPER_ARGUMENT, NULL};
	char *const environment[] = {NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t blocked, usual;
	int ends[2], err;

	if (!may_leave_one(client) || client->starts >= STARTS + (now_ns() - client->first_start_ns) / 1000000000ull)
		return -EAGAIN;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return -errno;
	client->starts++;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, ends[1], STDIN_FILENO);
	posix_spawn_file_actions_addclosefrom_np(&files, STDIN_FILENO + 1);
	/* Ctrl-C is the collector's; the names of the last waits are wanted after it. */
	sigfillset(&blocked);
	sigdelset(&blocked, SIGPROF);
	sigemptyset(&usual);
	sigaddset(&usual, SIGPROF);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setsigmask(&attributes, &blocked);
	posix_spawnattr_setsigdefault(&attributes, &usual);
	err = -posix_spawn(&client->pid, "/proc/self/exe", &files, &attributes, arguments, environment);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&files);
	close(ends[1]);
	if (err) {
		close(ends[0]);
		return err;
	}
	client->socket = ends[0];
	return 0;
}

static void count_cpu(struct naming_client *client, const struct rusage *usage)
{
	client->counts.cpu_ns += (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000000ull +
				 (usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1000ull;
}

/* False: it is gone. */
static bool helper_cpu_ns(const struct naming_client *client, __u64 *out)
{
	clockid_t clock;

	if (clock_getcpuclockid(client->pid, &clock))
		return false;
	*out = clock_ns(clock);
	return true;
}

static void stop(struct naming_client *client)
{
	struct rusage usage;
	pid_t ended = 0;

	if (client->socket < 0)
		return;
	close(client->socket);
	client->socket = -1;
	kill(client->pid, SIGKILL);
	/* It may wait for a file where no signal reaches it. */
	for (int i = 0; !ended && i < ENDS_MS; i++) {
		ended = wait4(client->pid, NULL, WNOHANG, &usage);
		if (!ended)
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	if (ended > 0) {
		count_cpu(client, &usage);
	} else {
		client->counts.cpu_ns += client->running_cpu_ns;
		leave_alone(client);
	}
	client->running_cpu_ns = 0;
	client->allocated = 0;
	for (__u32 i = 0; i < NAMING_OBJECTS; i++)
		client->objects[i].sent = false;
}

static int send_request(const struct naming_client *client, const struct question *question, int fd)
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
	return sendmsg(client->socket, &message, MSG_NOSIGNAL) == length ? 0 : -EPIPE;
}

static ssize_t receive_message(const struct naming_client *client, struct question *question)
{
	struct iovec parts[] = {
		{&question->answer, sizeof(question->answer)},
		{question->found, question->found_bytes},
	};
	/* No room for descriptors: what it might send is closed by the kernel. */
	struct msghdr message = {.msg_iov = parts, .msg_iovlen = question->found ? 2 : 1};

	return recvmsg(client->socket, &message, MSG_DONTWAIT);
}

struct progress {
	__u64 cpu_ns;
	int still; /* looks that found it as it was, waiting for a file */
};

/*
 * Whether it has waited for a file all the while, at one look of many: what it asks for itself comes at once.  A file
 * system in user space lets it sleep like any other until a signal comes.
 */
static bool waits_for_a_file(const struct naming_client *client, struct progress *progress)
{
	const char state = task_state(client->pid);
	__u64 cpu_ns;

	if (!helper_cpu_ns(client, &cpu_ns))
		return false;
	progress->still = (state == 'D' || state == 'S') && cpu_ns == progress->cpu_ns ? progress->still + 1 : 0;
	progress->cpu_ns = cpu_ns;
	return progress->still >= (state == 'S' ? USER_FILE_MS : FILE_MS) / LOOK_MS;
}

/* What the helper asks for, into a page. */
static int read_wanted(const struct question *question, struct naming_page *page)
{
	const struct naming_answer *wanted = &question->answer;
	__u64 addresses[HOTSPOT_WORDS];
	ssize_t bytes, size = sizeof(page->bytes);

	if (wanted->error == NAMING_WANTS_PAGE) {
		bytes = patience_read(question->memory_of, wanted->offset, page->bytes, size);
	} else {
		if (!wanted->offset || wanted->offset > HOTSPOT_WORDS)
			return -EINVAL;
		size = wanted->offset * sizeof(*addresses);
		memcpy(addresses, wanted->name, size);
		bytes = patience_read_words(question->memory_of, addresses, wanted->offset, (__u64 *)page->bytes);
	}
	return bytes == size ? 0 : bytes < 0 ? bytes : -EFAULT;
}

/* Sends what the helper asks for.  A process that is not readable in time ends the question's pages. */
static int send_page(const struct naming_client *client, struct question *question)
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
	return send(client->socket, &page, sizeof(page), MSG_NOSIGNAL) == sizeof(page) ? 0 : -EPIPE;
}

static int receive_answer(struct naming_client *client, struct question *question)
{
	const ssize_t length = sizeof(question->answer) + question->found_bytes;
	const __u64 deadline = now_ns() + WAIT_NS;
	struct naming_answer *answer = &question->answer;
	struct progress progress = {};

	while (!atomic_load(&client->given_up) && now_ns() < deadline) {
		struct pollfd poll_fd = {.fd = client->socket, .events = POLLIN};

		if (poll(&poll_fd, 1, LOOK_MS) <= 0) {
			if (waits_for_a_file(client, &progress))
				return -EIO;
			if (client->meanwhile && client->meanwhile(client->context))
				return -ECANCELED;
			continue;
		}
		if (receive_message(client, question) != length)
			return -EPIPE;
		if (answer->error == NAMING_WANTS_PAGE || answer->error == NAMING_WANTS_WORDS) {
			int err = send_page(client, question);

			if (err)
				return err;
			continue;
		}
		answer->name[sizeof(answer->name) - 1] = 0;
		make_printable(answer->name);
		if (answer->id_size > sizeof(answer->id))
			answer->id_size = 0;
		client->allocated = answer->allocated;
		return 0;
	}
	return -ETIME;
}

/* Negative errno: the helper is gone or has to go. */
static int ask(struct naming_client *client, struct object *object, struct question *question, int fd)
{
	int err;

	question->request.object = object - client->objects;
	err = send_request(client, question, fd);
	err = err ?: receive_answer(client, question);
	helper_cpu_ns(client, &client->running_cpu_ns);
	return err;
}

static void find_debug_file(struct object *object, const struct naming_answer *answer)
{
	char path[256];

	if (object->debug < 0 && !build_id_debug_path(answer->id, answer->id_size, path, sizeof(path))) {
		object->debug = regular_file_open(path, LINK_FOLLOWED, NULL);
		if (object->debug < 0)
			object->debug = -1;
	}
}

static int send_object(struct naming_client *client, struct object *object, int *refusal)
{
	struct question question = {.request.type = object->identity.open};
	const __u64 begin = client->running_cpu_ns;
	int err = ask(client, object, &question, object->fd);
	const __u64 cost = client->running_cpu_ns - begin;

	if (!err && cost > CHEAP_NS)
		object->next_ns = now_ns() + OPENING_COST * cost;
	*refusal = err ? 0 : question.answer.error;
	if (err || *refusal)
		return err;
	object->sent = true;
	find_debug_file(object, &question.answer);
	if (object->debug < 0)
		return 0;
	question.request.type = NAMING_DEBUG;
	return ask(client, object, &question, object->debug);
}

static int ask_once(struct naming_client *client, struct object *object, struct question *question)
{
	int err = 0, refusal = 0;

	if (client->allocated > TOO_MANY_BYTES && !object->sent)
		stop(client);
	if (client->socket < 0)
		err = start(client);
	if (err)
		return err;
	if (!object->sent)
		err = send_object(client, object, &refusal);
	if (!err && refusal) {
		question->answer = (struct naming_answer){.error = refusal};
		return 0;
	}
	err = err ?: ask(client, object, question, -1);
	if (err) {
		stop(client);
		client->counts.restarts += !atomic_load(&client->given_up);
		err = err == -EIO ? err : -EPIPE;
	}
	return err;
}

static struct object *find_object(const struct naming_client *client, __u64 number)
{
	for (__u32 i = 0; number && i < NAMING_OBJECTS; i++)
		if (client->objects[i].number == number)
			return (struct object *)&client->objects[i];
	return NULL;
}

/* The object that was asked for longest ago of those that the helper has open, but this one. */
static struct object *oldest_sent(struct naming_client *client, const struct object *but)
{
	struct object *oldest = NULL;

	for (__u32 i = 0; i < NAMING_OBJECTS; i++) {
		struct object *object = &client->objects[i];

		if (object->sent && object != but && (!oldest || object->used < oldest->used))
			oldest = object;
	}
	return oldest;
}

/* What is closed is known still, and is sent again when it is asked for. */
static void make_room(struct naming_client *client, const struct object *but)
{
	struct question question = {.request.type = NAMING_CLOSE};
	struct object *object;

	while (client->allocated > ENOUGH_BYTES && client->socket >= 0 && (object = oldest_sent(client, but))) {
		object->sent = false;
		if (ask(client, object, &question, -1))
			stop(client);
	}
}

/* The second time with a new helper that has nothing else open: then it was this file. */
static int ask_about(struct naming_client *client, __u64 number, struct question *question)
{
	struct object *object = find_object(client, number);
	int err = -EPIPE;

	if (!object || object->bad)
		return -ENOENT;
	if (now_ns() < object->again_ns || (!object->sent && now_ns() < object->next_ns))
		return -EAGAIN;
	object->used = ++client->uses;
	for (int i = 0; err == -EPIPE && i < 2; i++)
		err = atomic_load(&client->given_up) ? -ECANCELED : ask_once(client, object, question);
	/* A JVM that cannot be read is no fault of its file. */
	if (err == -EIO && !question->memory_of && !object->again_ns) {
		/* Who serves it may have paused. */
		object->again_ns = now_ns() + AGAIN_NS;
		err = -EAGAIN;
	} else if ((err == -EPIPE || err == -EIO) && !question->memory_of && !atomic_load(&client->given_up)) {
		object->bad = true;
		client->counts.objects++;
	} else if (err) {
		client->counts.refused++;
	}
	make_room(client, object);
	return err ?: question->answer.error < 0 ? (err ?: question->answer.error) : 0;
}

static void forget(struct naming_client *client, struct object *object)
{
	struct question question = {.request.type = NAMING_CLOSE};

	if (object->sent && client->socket >= 0 && ask(client, object, &question, -1))
		stop(client);
	if (object->number && object->fd >= 0)
		close(object->fd);
	if (object->number && object->debug >= 0)
		close(object->debug);
	*object = (struct object){.fd = -1, .debug = -1};
}

static bool same(const struct identity *a, const struct identity *b)
{
	return a->open == b->open && a->device == b->device && a->inode == b->inode && a->size == b->size &&
	       a->modified.tv_sec == b->modified.tv_sec && a->modified.tv_nsec == b->modified.tv_nsec &&
	       a->changed.tv_sec == b->changed.tv_sec && a->changed.tv_nsec == b->changed.tv_nsec;
}

static __u64 add_object(struct naming_client *client, int fd, const struct identity *identity)
{
	struct object *oldest = &client->objects[0];

	for (__u32 i = 0; i < NAMING_OBJECTS; i++) {
		struct object *object = &client->objects[i];

		if (object->number && same(&object->identity, identity)) {
			if (fd >= 0)
				close(fd);
			object->used = ++client->uses;
			return object->number;
		}
		if (object->used < oldest->used)
			oldest = object;
	}
	forget(client, oldest);
	*oldest = (struct object){
		.number = ++client->numbers,
		.used = ++client->uses,
		.identity = *identity,
		.fd = fd,
		.debug = -1,
	};
	return oldest->number;
}

static __u64 add_file(struct naming_client *client, int fd, const struct stat *status, enum naming_request_type open)
{
	const struct identity identity = {
		.open = open,
		.device = status->st_dev,
		.inode = status->st_ino,
		.size = status->st_size,
		.modified = status->st_mtim,
		.changed = status->st_ctim,
	};

	return add_object(client, fd, &identity);
}

__u64 naming_client_object(struct naming_client *client, int fd, const struct stat *status)
{
	return add_file(client, fd, status, NAMING_OPEN);
}

__u64 naming_client_map(struct naming_client *client, int fd, const struct stat *status)
{
	return add_file(client, fd, status, NAMING_OPEN_MAP);
}

__u64 naming_client_vdso(struct naming_client *client)
{
	const struct identity identity = {.open = NAMING_OPEN_VDSO};

	return add_object(client, -1, &identity);
}

bool naming_client_has(const struct naming_client *client, __u64 object)
{
	return find_object(client, object);
}

int naming_client_symbol(struct naming_client *client, __u64 object, const struct naming_place *place, char *name,
			 size_t size, __u64 *offset)
{
	struct question question = {.request = {.type = NAMING_SYMBOL, .place = *place}};
	int err = ask_about(client, object, &question);

	*name = 0;
	*offset = 0;
	if (!err) {
		snprintf(name, size, "%s", question.answer.name);
		*offset = question.answer.offset;
	}
	return err;
}

int naming_client_at(struct naming_client *client, __u64 object, __u64 file_offset, bool variable, char *name,
		     size_t size, __u64 *offset)
{
	struct question question = {
		.request = {.type = variable ? NAMING_VARIABLE_AT : NAMING_CODE_AT, .place.file_offset = file_offset}};
	int err = ask_about(client, object, &question);

	snprintf(name, size, "%s", err ? "" : question.answer.name);
	*offset = err ? 0 : question.answer.offset;
	return err ?: *name ? err : -ENOENT;
}

void naming_client_meanwhile(struct naming_client *client, int (*call)(void *context), void *context)
{
	client->meanwhile = call;
	client->context = context;
}

/* Whether it is left alone, as the helper did not get through it. */
static bool is_bad(struct naming_client *client, __u64 number)
{
	const struct object *object = find_object(client, number);

	return object && object->bad;
}

int naming_client_find(struct naming_client *client, __u64 object, __u64 file_offset, const char *name, __u64 *distance)
{
	struct question question = {.request = {.type = NAMING_FIND, .place.file_offset = file_offset}};
	int err;

	if (strlen(name) >= sizeof(question.request.name))
		return -ENOENT;
	strcpy(question.request.name, name);
	err = ask_about(client, object, &question);
	*distance = err ? 0 : question.answer.offset;
	if (!err)
		return 0;
	/* A file that the helper refuses has no symbols. */
	return !is_bad(client, object) && (err == -ENOENT || question.answer.error < 0) ? -ENOENT : -EIO;
}

int naming_client_unwind(struct naming_client *client, __u64 object, const struct naming_stack *stack,
			 struct naming_frames *frames)
{
	struct question question = {
		.request.type = NAMING_UNWIND,
		.stack = stack,
		.found = frames,
		.found_bytes = sizeof(*frames),
	};
	int err = ask_about(client, object, &question);

	/* Numbers are believed, how many there are is not. */
	if (!err && frames->count > NAMING_FRAMES)
		err = -EPROTO;
	return err;
}

int naming_client_hotspot(struct naming_client *client, __u64 object, __u32 tgid, const struct naming_jvm *jvm,
			  const struct naming_stack *stack, struct naming_frames *frames)
{
	struct question question = {
		.request = {.type = NAMING_HOTSPOT, .jvm = *jvm},
		.stack = stack,
		.found = frames,
		.found_bytes = sizeof(*frames),
		.memory_of = tgid,
	};
	int err = ask_about(client, object, &question);

	return err ?: frames->count > NAMING_FRAMES ? -EPROTO : 0;
}

int naming_client_monitors(struct naming_client *client, __u64 object, __u32 tgid, const struct naming_jvm *jvm,
			   __u32 cursor, struct hotspot_monitors *monitors)
{
	struct question question = {
		.request = {.type = NAMING_HOTSPOT_MONITORS, .jvm = *jvm, .place.distance = cursor},
		.found = monitors,
		.found_bytes = sizeof(*monitors),
		.memory_of = tgid,
	};
	int err = ask_about(client, object, &question);

	if (err)
		return err;
	if (monitors->count > HOTSPOT_MONITORS || monitors->waiters > HOTSPOT_WAITERS)
		return -EPROTO;
	for (__u32 i = 0; i < monitors->count; i++) {
		struct hotspot_monitor *monitor = &monitors->list[i];

		monitor->class[sizeof(monitor->class) - 1] = 0;
		monitor->owner_name[sizeof(monitor->owner_name) - 1] = 0;
		make_printable(monitor->class);
		make_printable(monitor->owner_name);
	}
	for (__u32 i = 0; i < monitors->waiters; i++)
		if (monitors->waiter[i].monitor >= monitors->count)
			return -EPROTO;
	return 0;
}

int naming_client_python(struct naming_client *client, __u64 object, __u32 tgid, const struct naming_jvm *interpreter,
			 const struct cpython_thread *thread, struct cpython_frames *frames)
{
	struct question question = {
		.request = {.type = NAMING_CPYTHON, .jvm = *interpreter, .thread = *thread},
		.found = frames,
		.found_bytes = sizeof(*frames),
		.memory_of = tgid,
	};
	int err = ask_about(client, object, &question);

	if (!err && frames->count > CPYTHON_FRAMES)
		err = -EPROTO;
	for (__u32 i = 0; !err && i < frames->count; i++) {
		frames->list[i].name[CPYTHON_NAME - 1] = 0;
		make_printable(frames->list[i].name);
	}
	return err;
}

int naming_client_hotspot_name(struct naming_client *client, __u64 object, __u32 tgid, const struct naming_jvm *jvm,
			       __u64 address, char *name, size_t size, __u64 *offset)
{
	struct question question = {
		.request = {.type = NAMING_HOTSPOT_NAME, .jvm = *jvm, .place.distance = address},
		.memory_of = tgid,
	};
	int err = ask_about(client, object, &question);

	snprintf(name, size, "%s", err ? "" : question.answer.name);
	*offset = err ? 0 : question.answer.offset;
	return err;
}

void naming_client_give_up(struct naming_client *client)
{
	atomic_store(&client->given_up, true);
}

void naming_client_counts(const struct naming_client *client, struct naming_counts *out)
{
	*out = client->counts;
	out->cpu_ns += client->running_cpu_ns;
}

int naming_client_open(struct naming_client **out)
{
	struct naming_client *client = calloc(1, sizeof(*client));

	if (!client)
		return -ENOMEM;
	client->socket = -1;
	client->first_start_ns = now_ns();
	*out = client;
	return 0;
}

void naming_client_close(struct naming_client *client)
{
	if (!client)
		return;
	stop(client);
	for (__u32 i = 0; i < NAMING_OBJECTS; i++)
		forget(client, &client->objects[i]);
	free(client);
}
