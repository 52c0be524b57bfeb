// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sqlite3.h>

#include "base/thread.h"
#include "recording/recording_disk.h"

struct recording_disk {
	char *path;
	pthread_t thread;
	pthread_mutex_t lock; /* of all below; never held while the disk works */
	pthread_cond_t changed;
	__u64 asked, done; /* commits */
	bool fold, held, end;
};

/* As far as readers let it; the checkpoint syncs the journal before, and the file after. */
static bool fold_journal(sqlite3 *db)
{
	int all = 0, folded = 0;

	return sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_PASSIVE, &all, &folded) == SQLITE_OK &&
	       all > folded;
}

static void sync_journal(const char *path, int *fd)
{
	char *journal;

	if (*fd < 0 && asprintf(&journal, "%s-wal", path) >= 0) {
		*fd = open(journal, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
		free(journal);
	}
	if (*fd >= 0)
		fdatasync(*fd);
}

static void *work(void *argument)
{
	struct recording_disk *disk = argument;
	sqlite3 *db = NULL;
	int fd = -1;

	if (sqlite3_open_v2(disk->path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW,
			    NULL) == SQLITE_OK)
		sqlite3_exec(db, "PRAGMA synchronous = NORMAL; PRAGMA cache_size = -64;", NULL, NULL, NULL);
	pthread_mutex_lock(&disk->lock);
	for (;;) {
		__u64 asked = disk->asked;
		bool fold = disk->fold, held;

		if (asked == disk->done && disk->end)
			break;
		if (asked == disk->done) {
			pthread_cond_wait(&disk->changed, &disk->lock);
			continue;
		}
		disk->fold = false;
		pthread_mutex_unlock(&disk->lock);
		sync_journal(disk->path, &fd);
		held = fold && fold_journal(db);
		pthread_mutex_lock(&disk->lock);
		disk->held = fold ? held : disk->held;
		disk->done = asked;
		pthread_cond_broadcast(&disk->changed);
	}
	pthread_mutex_unlock(&disk->lock);
	sqlite3_close(db);
	if (fd >= 0)
		close(fd);
	return NULL;
}

static void release(struct recording_disk *disk)
{
	pthread_cond_destroy(&disk->changed);
	pthread_mutex_destroy(&disk->lock);
	free(disk->path);
	free(disk);
}

int recording_disk_open(struct recording_disk **out, const char *path)
{
	struct recording_disk *disk = calloc(1, sizeof(*disk));
	int err;

	if (!disk)
		return -ENOMEM;
	pthread_cond_init(&disk->changed, NULL);
	pthread_mutex_init(&disk->lock, NULL);
	disk->path = strdup(path);
	err = disk->path ? thread_start(&disk->thread, work, disk) : -ENOMEM;
	if (err) {
		release(disk);
		return err;
	}
	*out = disk;
	return 0;
}

void recording_disk_close(struct recording_disk *disk)
{
	if (!disk)
		return;
	pthread_mutex_lock(&disk->lock);
	disk->end = true;
	pthread_cond_broadcast(&disk->changed);
	pthread_mutex_unlock(&disk->lock);
	pthread_join(disk->thread, NULL);
	release(disk);
}

void recording_disk_ask(struct recording_disk *disk, bool fold)
{
	pthread_mutex_lock(&disk->lock);
	disk->asked++;
	disk->fold |= fold;
	pthread_cond_broadcast(&disk->changed);
	pthread_mutex_unlock(&disk->lock);
}

void recording_disk_wait(struct recording_disk *disk, __u32 most_ms)
{
	const __u64 until_ns = now_ns() + most_ms * 1000000ull;

	pthread_mutex_lock(&disk->lock);
	while (disk->done < disk->asked && thread_wait_until(&disk->changed, &disk->lock, until_ns))
		continue;
	pthread_mutex_unlock(&disk->lock);
}

bool recording_disk_is_held(struct recording_disk *disk)
{
	bool held;

	pthread_mutex_lock(&disk->lock);
	held = disk->held;
	pthread_mutex_unlock(&disk->lock);
	return held;
}
