// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The files belong to root.  Still they are opened without waiting, must be regular,
 * and are read up to a limit: a FIFO or a huge file in their place costs nothing.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include <sqlite3.h>

#include "base/clock.h"
#include "base/regular_file.h"
#include "base/small_file.h"
#include "containers/containers.h"

#define MOST_BYTES    (4u << 20) /* of a file */
#define MOST_LINKS    16384
#define LIST_EVERY_NS 1000000000ull

/* Fields that a JSON text can fill, in the order of the columns of json_queries. */
enum { FIELD_NAME, FIELD_IMAGE, FIELD_POD, FIELD_SPACE, FIELD_POD_UID, FIELDS };

#define TEXT_AT(path) "CASE json_type(?1, '" path "') WHEN 'text' THEN json_extract(?1, '" path "') END"
#define NOTE(key)     TEXT_AT("$.annotations.\"" key "\"")
#define LABEL(key)    TEXT_AT("$.Config.Labels.\"" key "\"")

/* clang-format off */
static const char *const json_queries[] = {
	[CONTAINER_FILE_BUNDLE] =
		"SELECT coalesce("
		NOTE("io.kubernetes.cri.container-name") ", " NOTE("io.kubernetes.container.name") ", " NOTE("nerdctl/name")
		"), coalesce("
		NOTE("io.kubernetes.cri.image-name") ", " NOTE("io.kubernetes.cri-o.ImageName") ", " NOTE("io.kubernetes.cri-o.Image")
		"), coalesce("
		NOTE("io.kubernetes.cri.sandbox-name") ", " NOTE("io.kubernetes.pod.name")
		"), coalesce("
		NOTE("io.kubernetes.cri.sandbox-namespace") ", " NOTE("io.kubernetes.pod.namespace")
		"), coalesce("
		NOTE("io.kubernetes.cri.sandbox-uid") ", " NOTE("io.kubernetes.pod.uid")
		") WHERE ?2 IS NOT NULL",
	[CONTAINER_FILE_DOCKER] =
		"SELECT coalesce(" LABEL("io.kubernetes.container.name") ", ltrim(" TEXT_AT("$.Name") ", '/')), "
		TEXT_AT("$.Config.Image") ", " LABEL("io.kubernetes.pod.name") ", "
		LABEL("io.kubernetes.pod.namespace") ", " LABEL("io.kubernetes.pod.uid")
		" WHERE ifnull(" TEXT_AT("$.ID") ", ?2) = ?2",
	[CONTAINER_FILE_PODMAN] =
		"SELECT json_extract(value, '$.names[0]'),"
		" CASE WHEN json_valid(json_extract(value, '$.metadata')) THEN"
		"  json_extract(json_extract(value, '$.metadata'), '$.\"image-name\"') END, NULL, NULL, NULL"
		" FROM json_each(?1) WHERE type = 'object' AND json_extract(value, '$.id') = ?2 LIMIT 1",
};
/* clang-format on */

#define QUERIES (sizeof(json_queries) / sizeof(json_queries[0]))

/* Where the files are; %s is the container's id. */
static const struct {
	const char *path;
	enum container_file file;
	const char *runtime;
} places[] = {
	{"run/containerd/io.containerd.runtime.v2.task/k8s.io/%s/config.json", CONTAINER_FILE_BUNDLE, "containerd"},
	{"run/containers/storage/overlay-containers/%s/userdata/config.json", CONTAINER_FILE_BUNDLE, "cri-o"},
	{"var/lib/containers/storage/overlay-containers/%s/userdata/config.json", CONTAINER_FILE_BUNDLE, "cri-o"},
	{"var/lib/docker/containers/%s/config.v2.json", CONTAINER_FILE_DOCKER, "docker"},
	{"var/lib/containers/storage/overlay-containers/containers.json", CONTAINER_FILE_PODMAN, "podman"},
	{"run/containers/storage/overlay-containers/volatile-containers.json", CONTAINER_FILE_PODMAN, "podman"},
	{"run/containerd/io.containerd.runtime.v2.task/default/%s/config.json", CONTAINER_FILE_BUNDLE, "containerd"},
	{"run/containerd/io.containerd.runtime.v2.task/moby/%s/config.json", CONTAINER_FILE_BUNDLE, "docker"},
};

#define PLACES (sizeof(places) / sizeof(places[0]))

/* The names in a directory, sorted by the key in them. */
struct link {
	char key[CONTAINER_ID + 1];
	char *text;
};

struct listing {
	const char *path;
	bool (*take)(struct link *link, const char *entry); /* false: it is none of these */
	struct link *links;
	size_t count;
	__u64 read_ns; /* 0: not yet */
};

struct containers {
	int root;
	sqlite3 *json; /* in memory: its functions read JSON */
	sqlite3_stmt *queries[QUERIES];
	struct listing logs; /* /var/log/containers: POD_NAMESPACE_CONTAINER-ID.log, by id */
	struct listing pods; /* /var/log/pods: NAMESPACE_POD_UID, by uid */
	char *text;          /* MOST_BYTES of a file */
};

static bool take_log(struct link *link, const char *entry)
{
	size_t length = strlen(entry);
	const char *id = entry + length - CONTAINER_ID - strlen(".log");

	if (length < CONTAINER_ID + 9 || strcmp(id + CONTAINER_ID, ".log") || id[-1] != '-' ||
	    !is_container_id(id, CONTAINER_ID))
		return false;
	memcpy(link->key, id, CONTAINER_ID);
	link->text = strndup(entry, length - CONTAINER_ID - strlen("-.log"));
	return true;
}

static bool take_pod_directory(struct link *link, const char *entry)
{
	const char *uid = strrchr(entry, '_');

	if (!uid || uid == entry || strlen(uid + 1) < 32 || strlen(uid + 1) > 36)
		return false;
	strcpy(link->key, uid + 1);
	link->text = strndup(entry, uid - entry);
	return true;
}

static int by_key(const void *a, const void *b)
{
	const struct link *one = a, *other = b;

	return strcmp(one->key, other->key);
}

static void forget_listing(struct listing *listing)
{
	for (size_t i = 0; i < listing->count; i++)
		free(listing->links[i].text);
	listing->count = 0;
}

static void read_listing(const struct containers *containers, struct listing *listing)
{
	int fd = openat(containers->root, listing->path, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	forget_listing(listing);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	if (!listing->links)
		listing->links = calloc(MOST_LINKS, sizeof(*listing->links));
	for (size_t seen = 0; listing->links && seen < MOST_LINKS && (entry = readdir(dir)); seen++) {
		struct link *link = &listing->links[listing->count];

		*link = (struct link){};
		if (listing->take(link, entry->d_name) && link->text)
			listing->count++;
	}
	closedir(dir);
	if (listing->count)
		qsort(listing->links, listing->count, sizeof(*listing->links), by_key);
}

/* The text of a key; NULL if there is none.  A key that is missing may be new: the directory is read again, not too often. */
static const char *look_up(const struct containers *containers, struct listing *listing, const char *key)
{
	struct link wanted = {}, *found = NULL;
	__u64 now = now_ns();

	snprintf(wanted.key, sizeof(wanted.key), "%s", key);
	for (int attempt = 0; attempt < 2; attempt++) {
		if (listing->count)
			found = bsearch(&wanted, listing->links, listing->count, sizeof(wanted), by_key);
		if (found || (listing->read_ns && now - listing->read_ns < LIST_EVERY_NS))
			break;
		read_listing(containers, listing);
		listing->read_ns = now;
	}
	return found ? found->text : NULL;
}

static void fill(char *out, size_t size, const char *text, size_t length)
{
	if (*out || !text || !length)
		return;
	snprintf(out, size, "%.*s", (int)length, text);
	make_printable(out);
}

static void add_source(struct container *out, const char *source)
{
	size_t length = strlen(out->source);

	if (!strstr(out->source, source))
		snprintf(out->source + length, sizeof(out->source) - length, "%s%s", length ? ", " : "", source);
}

int container_from_json(struct containers *containers, enum container_file file, const char *text, size_t length,
			struct container *out)
{
	sqlite3_stmt *query = containers->queries[file];
	const struct {
		char *out;
		size_t size;
	} fields[FIELDS] = {
		[FIELD_NAME] = {out->name, sizeof(out->name)},
		[FIELD_IMAGE] = {out->image, sizeof(out->image)},
		[FIELD_POD] = {out->pod, sizeof(out->pod)},
		[FIELD_SPACE] = {out->space, sizeof(out->space)},
		[FIELD_POD_UID] = {out->pod_uid, sizeof(out->pod_uid)},
	};
	int err = -EINVAL;

	if (!query || length > MOST_BYTES)
		return -EINVAL;
	sqlite3_bind_text(query, 1, text, length, SQLITE_STATIC);
	sqlite3_bind_text(query, 2, out->id, -1, SQLITE_STATIC);
	if (sqlite3_step(query) == SQLITE_ROW) {
		for (int i = 0; i < FIELDS; i++)
			if (sqlite3_column_type(query, i) == SQLITE_TEXT)
				fill(fields[i].out, fields[i].size, (const char *)sqlite3_column_text(query, i),
				     sqlite3_column_bytes(query, i));
		err = 0;
	}
	sqlite3_reset(query);
	sqlite3_clear_bindings(query);
	return err;
}

/* Length of the file's text in containers->text, or negative errno. */
static ssize_t read_whole(struct containers *containers, const char *path)
{
	struct stat status;
	int fd = regular_file_open_at(containers->root, path, LINK_REFUSED, &status);
	ssize_t length = 0, got = 1;

	if (fd < 0)
		return fd;
	if (status.st_size > MOST_BYTES) {
		close(fd);
		return -EINVAL;
	}
	if (!containers->text)
		containers->text = malloc(MOST_BYTES);
	while (containers->text && length < MOST_BYTES && got > 0) {
		got = read(fd, containers->text + length, MOST_BYTES - length);
		length += got > 0 ? got : 0;
	}
	close(fd);
	return containers->text && !got ? length : -EINVAL;
}

static void read_files(struct containers *containers, struct container *out)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < PLACES && !out->name[0]; i++) {
		ssize_t length;

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(path, sizeof(path), places[i].path, out->id);
#pragma GCC diagnostic pop
		length = read_whole(containers, path);
		if (length < 0 || container_from_json(containers, places[i].file, containers->text, length, out))
			continue;
		if (!out->runtime[0])
			snprintf(out->runtime, sizeof(out->runtime), "%s", places[i].runtime);
		add_source(out, strrchr(path, '/') + 1);
	}
}

/* "POD_NAMESPACE_CONTAINER": no name of Kubernetes has a '_'. */
static void read_log_link(struct containers *containers, struct container *out)
{
	const char *text = look_up(containers, &containers->logs, out->id), *space, *name;

	space = text ? strchr(text, '_') : NULL;
	name = space ? strchr(space + 1, '_') : NULL;
	if (!name)
		return;
	fill(out->pod, sizeof(out->pod), text, space - text);
	fill(out->space, sizeof(out->space), space + 1, name - space - 1);
	fill(out->name, sizeof(out->name), name + 1, strlen(name + 1));
	add_source(out, "log link");
}

static void read_pod_directory(struct containers *containers, struct container *out)
{
	const char *text = look_up(containers, &containers->pods, out->pod_uid);
	const char *name = text ? strchr(text, '_') : NULL;

	if (!name)
		return;
	fill(out->space, sizeof(out->space), text, name - text);
	fill(out->pod, sizeof(out->pod), name + 1, strlen(name + 1));
	add_source(out, "log directory");
}

void container_find(struct containers *containers, const char *path, struct container *out)
{
	container_of_path(path, out);
	if (out->id[0]) {
		read_files(containers, out);
		if (!out->name[0] || (out->pod_uid[0] && !out->pod[0]))
			read_log_link(containers, out);
	}
	if (out->pod_uid[0] && !out->pod[0])
		read_pod_directory(containers, out);
	make_printable(out->unit);
	make_printable(out->slice);
	make_printable(out->name);
}

int containers_open(struct containers **out, const char *root)
{
	struct containers *containers = calloc(1, sizeof(*containers));

	*out = NULL;
	if (!containers)
		return -ENOMEM;
	containers->logs = (struct listing){.path = "var/log/containers", .take = take_log};
	containers->pods = (struct listing){.path = "var/log/pods", .take = take_pod_directory};
	containers->root = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* Without either of them names come from the paths alone. */
	if (sqlite3_open(":memory:", &containers->json) == SQLITE_OK) {
		sqlite3_limit(containers->json, SQLITE_LIMIT_LENGTH, 2 * MOST_BYTES);
		for (size_t i = 0; i < QUERIES; i++)
			sqlite3_prepare_v2(containers->json, json_queries[i], -1, &containers->queries[i], NULL);
	}
	*out = containers;
	return 0;
}

void containers_close(struct containers *containers)
{
	if (!containers)
		return;
	for (size_t i = 0; i < QUERIES; i++)
		sqlite3_finalize(containers->queries[i]);
	sqlite3_close(containers->json);
	forget_listing(&containers->logs);
	forget_listing(&containers->pods);
	free(containers->logs.links);
	free(containers->pods.links);
	free(containers->text);
	if (containers->root >= 0)
		close(containers->root);
	free(containers);
}
