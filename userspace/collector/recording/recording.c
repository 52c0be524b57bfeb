// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/message.h"
#define RECORDING_EMPTY
#include "recording/recording_internal.h"
#include "recording/shm_pages.h"
#include "recording_schema.h"

/* How long a reader may keep the file locked. */
#define BUSY_MS        5000
#define FINISH_BUSY_MS 400
/* While the disk is full so much waits in memory; SQLite's own bound, from which on it writes, is above that. */
#define HELD_BYTES  (24 << 20)
#define SPILL_PAGES 8192
/* From so much on the journal goes into the file. */
#define FOLD_BYTES (4ull << 20)
/* It may become so long while a reader keeps it from that, if --max-size says nothing else. */
#define JOURNAL_BYTES (64ull << 20)
/* A page, and its head in the journal. */
#define FRAME_BYTES (4096 + 24)
/* How long the journal's way into the file is waited for, for each FOLD_BYTES of it. */
#define FOLD_MS      100
#define FOLD_MOST_MS 1000

static int execute(struct recording *recording, const char *text, const char *what)
{
	return sqlite3_exec(recording->db, text, NULL, NULL, NULL) == SQLITE_OK ? 0 : recording_failed(recording, what);
}

/* SQLite opens the path anew: nobody may have put another file, or a link, in the place of the one that we made. */
static int open_database(struct recording *recording)
{
	struct stat made, opened;

	/* One thread writes it. */
	if (sqlite3_open_v2(recording->file.path, &recording->db,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, NULL) != SQLITE_OK)
		return recording_failed(recording, "write");
	if (!fstat(recording->file.fd, &made) && !lstat(recording->file.path, &opened) &&
	    made.st_dev == opened.st_dev && made.st_ino == opened.st_ino)
		return 0;
	message("cannot write %s: another file replaced it meanwhile", recording->path);
	recording->told = true;
	return -EEXIST;
}

/* The tables, as they were made with the collector: SQLite takes as long for them as an import for 50,000 samples. */
static int write_empty(struct recording *recording)
{
	__u8 *file = calloc(1, RECORDING_EMPTY_SIZE);
	const __u8 *bytes = recording_empty_bytes;
	int err = 0;

	if (!file)
		return -ENOMEM;
	for (size_t i = 0; i < sizeof(recording_empty_parts) / sizeof(recording_empty_parts[0]); i++) {
		memcpy(file + recording_empty_parts[i].offset, bytes, recording_empty_parts[i].size);
		bytes += recording_empty_parts[i].size;
	}
	for (size_t at = 0; !err && at < RECORDING_EMPTY_SIZE;) {
		ssize_t written = pwrite(recording->file.fd, file + at, RECORDING_EMPTY_SIZE - at, at);

		if (written < 0 && errno != EINTR)
			err = -errno;
		at += written > 0 ? written : 0;
	}
	free(file);
	if (err)
		message("cannot write %s: %s; %s", recording->path, strerror(-err), recording_elsewhere());
	recording->told |= err;
	return err;
}

/* After a commit: how long the journal is. */
static int note_journal(void *argument, sqlite3 *db, const char *schema, int frames)
{
	struct recording *recording = argument;

	recording->journal_bytes = (__u64)frames * FRAME_BYTES;
	return SQLITE_OK;
}

/* Why there can be no recording of this name. */
static int refused(const char *path, int err)
{
	if (err)
		message("cannot write %s: %s; choose another place with -o", path,
			err == -EBUSY    ? "another lockline is recording to it"
			: err == -EEXIST ? "it exists and is not a recording"
			: err == -ELOOP  ? "it is a symbolic link, and lockline does not follow links"
					 : strerror(-err));
	return err;
}

int recording_check(const char *path)
{
	return refused(path, output_file_check(path));
}

static int create(struct recording **out, const char *path, bool whole)
{
	struct recording *recording = calloc(1, sizeof(*recording));
	int err;

	if (!recording)
		return -ENOMEM;
	recording->file.fd = -1;
	recording->path = strdup(path);
	err = !recording->path ? -ENOMEM
	      : whole          ? output_file_create_beside(&recording->file, path)
			       : output_file_create(&recording->file, path);
	if (refused(path, err))
		goto out;
	err = (whole ? write_empty(recording) : shm_pages_guard()) ?: open_database(recording);
	if (err)
		goto out;
	sqlite3_extended_result_codes(recording->db, 1);
	/* A reader may hold it for a moment. */
	sqlite3_busy_timeout(recording->db, BUSY_MS);
	/*
	 * WAL: readable while it is written, whole after SIGKILL.  What waits for
	 * the disk is in a thread of its own (recording_disk.h); this connection
	 * syncs only the head of a journal that begins anew, as nothing of the old
	 * one may be taken for the new one's.  What nobody reads before it is whole
	 * needs no journal.
	 */
	err = execute(recording,
		      whole ? "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
			      "PRAGMA locking_mode = EXCLUSIVE; PRAGMA cache_size = -2048;"
			      "PRAGMA temp_store = MEMORY; BEGIN;"
			    : "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0;"
			      "PRAGMA cache_size = -2048; PRAGMA temp_store = MEMORY;",
		      "write");
	recording->journal_most = JOURNAL_BYTES;
	recording->fold_bytes = FOLD_BYTES;
	recording->held_most = HELD_BYTES;
	if (!whole) {
		sqlite3_wal_hook(recording->db, note_journal, recording);
		err = err
			      ?: recording_run_sql(recording,
						   "PRAGMA journal_size_limit = %llu; PRAGMA cache_spill = %d; BEGIN;",
						   2 * FOLD_BYTES, SPILL_PAGES);
	}
	if (!whole)
		err = err ?: execute(recording, recording_schema, "write");
	/* Where time is short everything is ready; an import prepares what it writes. */
	if (!err && !whole && recording_prepare(recording) != SQLITE_OK)
		err = recording_failed(recording, "write");
	if (!whole)
		err = err ?: recording_commit(recording);
out:
	if (err) {
		recording_abandon(recording);
		return err;
	}
	*out = recording;
	return 0;
}

int recording_create(struct recording **out, const char *path)
{
	return create(out, path, false);
}

int recording_create_whole(struct recording **out, const char *path)
{
	return create(out, path, true);
}

static int held_bytes(const struct recording *recording)
{
	int used = 0, most;

	sqlite3_db_status(recording->db, SQLITE_DBSTATUS_CACHE_USED, &used, &most, 0);
	return used;
}

/*
 * SQLite rolls a transaction back that finds no room, and its rows are lost: room
 * is made for it in the journal first, as far as the file system can do that.
 */
static int make_room(const struct recording *recording)
{
	struct stat journal;
	char *path;
	int fd, err = 0;

	if (asprintf(&path, "%s-wal", recording->file.path) < 0)
		return -ENOMEM;
	fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	free(path);
	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstat(fd, &journal) || fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, journal.st_size + held_bytes(recording)))
		err = -errno;
	close(fd);
	return err;
}

/* After a commit: what was held is in the file. */
static void tell_written(struct recording *recording)
{
	if (recording->held == HELD_BY_READER)
		message("%s: its reader has ended; the recording is written again", recording->path);
	else if (recording->held)
		message("%s: there is space again; nothing was lost", recording->path);
	recording->held = HELD_NOT;
}

/* Whether a reader holds up a journal that may not grow any more. */
static bool is_held_by_reader(struct recording *recording)
{
	if (!recording->disk || recording->journal_bytes < recording->journal_most)
		return false;
	recording_disk_ask(recording->disk, true);
	return recording_disk_is_held(recording->disk);
}

static enum held why_hold(struct recording *recording)
{
	int err;

	if (is_held_by_reader(recording))
		return HELD_BY_READER;
	err = make_room(recording);
	if (held_bytes(recording) > HELD_BYTES)
		return HELD_NOT;
	return err == -EROFS ? HELD_READ_ONLY : err == -ENOSPC || err == -EDQUOT ? HELD_NO_SPACE : HELD_NOT;
}

/* Whether the transaction goes on, since there is no place for it now. */
static bool hold(struct recording *recording)
{
	const enum held why = recording->kept ? why_hold(recording) : HELD_NOT;

	if (!why)
		return false;
	if (!recording->held && why == HELD_BY_READER)
		message("%s: a program reads it and does not go on, so its journal (%llu MiB) cannot be used again;"
			" the recording goes on in memory; `fuser %s` shows who reads it",
			recording->path, recording->journal_bytes >> 20, recording->path);
	else if (!recording->held)
		message("cannot write %s: %s; the recording goes on in memory, up to %d MiB of it", recording->path,
			why == HELD_READ_ONLY ? "its file system is read-only now" : "no space left on its file system",
			HELD_BYTES >> 20);
	recording->held = why;
	return true;
}

bool recording_is_full(struct recording *recording)
{
	if (recording->held != HELD_BY_READER || (__u64)held_bytes(recording) <= recording->held_most)
		return false;
	return is_held_by_reader(recording);
}

/* The first interval is there: COMMAND has been started, and needs no fork of a program with threads. */
static int start_disk(struct recording *recording)
{
	if (recording->disk || !recording->kept)
		return 0;
	return recording_disk_open(&recording->disk, recording->file.path);
}

/* Before the next transaction: one that begins while the journal is on its way keeps it from being used again. */
static void fold_journal(struct recording *recording)
{
	const __u64 folds = shm_pages_are_aside() ? 0 : recording->journal_bytes / recording->fold_bytes;
	const bool was_held = recording_disk_is_held(recording->disk);

	recording_disk_ask(recording->disk, folds);
	if (folds && !was_held)
		recording_disk_wait(recording->disk, folds * FOLD_MS < FOLD_MOST_MS ? folds * FOLD_MS : FOLD_MOST_MS);
}

/*
 * At once what touches the file system: rows are then put into memory alone, until the next commit.  Where a full disk
 * refuses that, the first row asks again.
 */
static int begin(struct recording *recording)
{
	if (sqlite3_exec(recording->db, "BEGIN IMMEDIATE", NULL, NULL, NULL) == SQLITE_OK)
		return 0;
	return execute(recording, "BEGIN", "write");
}

int recording_commit(struct recording *recording)
{
	__u64 begin_ns = now_ns(), lasted_ns;
	int err;

	if (shm_pages_are_aside())
		shm_pages_return();
	if (hold(recording))
		return 0;
	err = execute(recording, "COMMIT", "write");
	if (!err)
		tell_written(recording);
	recording->kept |= !err && recording->interval;
	err = err ?: start_disk(recording);
	if (!err && recording->disk)
		fold_journal(recording);
	lasted_ns = now_ns() - begin_ns;
	if (lasted_ns > recording->longest_commit_ns)
		recording->longest_commit_ns = lasted_ns;
	return err ?: begin(recording);
}

__u64 recording_longest_commit_ns(const struct recording *recording)
{
	return recording->longest_commit_ns;
}

int recording_publish(struct recording *recording)
{
	int err = execute(recording, "COMMIT", "finish");

	if (err) {
		recording_abandon(recording);
		return err;
	}
	recording_finalize(recording);
	sqlite3_close(recording->db);
	recording->db = NULL;
	output_file_give(&recording->file);
	err = output_file_publish(&recording->file);
	if (err)
		message("cannot write %s: %s; %s", recording->path, strerror(-err), recording_elsewhere());
	if (err)
		recording_abandon(recording);
	else
		recording_close(recording);
	return err;
}

int recording_finish(struct recording *recording)
{
	int err;

	shm_pages_return();
	err = execute(recording, "COMMIT", "finish");
	recording_finalize(recording);
	recording_disk_close(recording->disk);
	recording->disk = NULL;
	/* One file without companions; where a reader has it open it stays as it is, whole. */
	if (!err) {
		tell_written(recording);
		/* One that does not go on, as it was stopped, must not hold up the end. */
		sqlite3_busy_timeout(recording->db, FINISH_BUSY_MS);
		if (!shm_pages_are_aside())
			sqlite3_wal_checkpoint_v2(recording->db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
		sqlite3_exec(recording->db, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL);
		output_file_give(&recording->file);
	}
	recording_close(recording);
	return err;
}

void recording_close(struct recording *recording)
{
	if (!recording)
		return;
	recording_finalize(recording);
	recording_disk_close(recording->disk);
	sqlite3_close(recording->db);
	output_file_close(&recording->file);
	free(recording->path);
	free(recording);
}

void recording_settle(struct recording *recording)
{
	output_file_settle(&recording->file);
}

void recording_abandon(struct recording *recording)
{
	if (recording)
		output_file_abandon(&recording->file);
	recording_close(recording);
}
