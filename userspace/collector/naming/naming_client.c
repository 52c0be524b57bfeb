// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/regular_file.h"
#include "base/small_file.h"
#include "names/build_id.h"
#include "naming/naming_client.h"
#include "naming/naming_exchange.h"

/* A file that the helper waited for is asked once more so long after it; if that ends likewise, it has no names. */
#define AGAIN_NS 5000000000ull
/* A helper that holds more closes what was asked for longest ago. */
#define ENOUGH_BYTES (NAMING_MEMORY_BYTES / 4)
/* One that holds more with nothing else open is started anew before the next file. */
#define TOO_MANY_BYTES (NAMING_MEMORY_BYTES / 2)
/* Opening a file takes this part of the helper's time at most; what takes less than so long is not counted. */
#define OPENING_COST 64
#define CHEAP_NS     10000000ull

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
	struct naming_process process;
	struct naming_exchange exchange;
	__u64 allocated;
	struct naming_counts counts; /* without CPU time */
	atomic_bool given_up;
};

static void stop(struct naming_client *client)
{
	naming_process_stop(&client->process);
	client->allocated = 0;
	for (__u32 i = 0; i < NAMING_OBJECTS; i++)
		client->objects[i].sent = false;
}

/* Negative errno: the helper is gone or has to go. */
static int ask(struct naming_client *client, struct object *object, struct naming_question *question, int fd)
{
	int err;

	question->request.object = object - client->objects;
	err = naming_exchange(&client->exchange, question, fd);
	if (!err)
		client->allocated = question->answer.allocated;
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
	struct naming_question question = {.request.type = object->identity.open};
	const __u64 begin = client->process.running_cpu_ns;
	int err = ask(client, object, &question, object->fd);
	const __u64 cost = client->process.running_cpu_ns - begin;

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

static int ask_once(struct naming_client *client, struct object *object, struct naming_question *question)
{
	int err = 0, refusal = 0;

	if (client->allocated > TOO_MANY_BYTES && !object->sent)
		stop(client);
	if (client->process.socket < 0)
		err = naming_process_start(&client->process);
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
	struct naming_question question = {.request.type = NAMING_CLOSE};
	struct object *object;

	while (client->allocated > ENOUGH_BYTES && client->process.socket >= 0 && (object = oldest_sent(client, but))) {
		object->sent = false;
		if (ask(client, object, &question, -1))
			stop(client);
	}
}

/* The second time with a new helper that has nothing else open: then it was this file. */
static int ask_about(struct naming_client *client, __u64 number, struct naming_question *question)
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
	struct naming_question question = {.request.type = NAMING_CLOSE};

	if (object->sent && client->process.socket >= 0 && ask(client, object, &question, -1))
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
	struct naming_question question = {.request = {.type = NAMING_SYMBOL, .place = *place}};
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
	struct naming_question question = {
		.request = {.type = variable ? NAMING_VARIABLE_AT : NAMING_CODE_AT, .place.file_offset = file_offset}};
	int err = ask_about(client, object, &question);

	snprintf(name, size, "%s", err ? "" : question.answer.name);
	*offset = err ? 0 : question.answer.offset;
	return err ?: *name ? err : -ENOENT;
}

void naming_client_meanwhile(struct naming_client *client, int (*call)(void *context), void *context)
{
	client->exchange.meanwhile = call;
	client->exchange.context = context;
}

/* Whether it is left alone, as the helper did not get through it. */
static bool is_bad(struct naming_client *client, __u64 number)
{
	const struct object *object = find_object(client, number);

	return object && object->bad;
}

int naming_client_find(struct naming_client *client, __u64 object, __u64 file_offset, const char *name, __u64 *distance)
{
	struct naming_question question = {.request = {.type = NAMING_FIND, .place.file_offset = file_offset}};
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
	struct naming_question question = {
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

int naming_client_hotspot(struct naming_client *client, __u64 object, __u32 tgid, const struct naming_runtime *jvm,
			  const struct naming_stack *stack, struct naming_frames *frames)
{
	struct naming_question question = {
		.request = {.type = NAMING_HOTSPOT, .runtime = *jvm},
		.stack = stack,
		.found = frames,
		.found_bytes = sizeof(*frames),
		.memory_of = tgid,
	};
	int err = ask_about(client, object, &question);

	return err ?: frames->count > NAMING_FRAMES ? -EPROTO : 0;
}

int naming_client_monitors(struct naming_client *client, __u64 object, __u32 tgid, const struct naming_runtime *jvm,
			   __u32 cursor, struct hotspot_monitors *monitors)
{
	struct naming_question question = {
		.request = {.type = NAMING_HOTSPOT_MONITORS, .runtime = *jvm, .place.distance = cursor},
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

int naming_client_python(struct naming_client *client, __u64 object, __u32 tgid,
			 const struct naming_runtime *interpreter, const struct cpython_thread *thread,
			 struct cpython_frames *frames)
{
	struct naming_question question = {
		.request = {.type = NAMING_CPYTHON, .runtime = *interpreter, .thread = *thread},
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

int naming_client_hotspot_name(struct naming_client *client, __u64 object, __u32 tgid, const struct naming_runtime *jvm,
			       __u64 address, char *name, size_t size, __u64 *offset)
{
	struct naming_question question = {
		.request = {.type = NAMING_HOTSPOT_NAME, .runtime = *jvm, .place.distance = address},
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
	out->cpu_ns = client->process.ended_cpu_ns + client->process.running_cpu_ns;
}

int naming_client_open(struct naming_client **out)
{
	struct naming_client *client = calloc(1, sizeof(*client));

	if (!client)
		return -ENOMEM;
	client->process.socket = -1;
	client->process.first_start_ns = now_ns();
	client->exchange.process = &client->process;
	client->exchange.given_up = &client->given_up;
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
