// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A recording whose disk loses power, or is full, at any moment, and one whose reader does not go on.
 *
 * All that SQLite writes goes through a file system of this program, which keeps a log of it.  A power cut keeps what
 * was synced, and of what came later any part, by sectors.
 */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "recording/recording_internal.h"
#include "recording/recording_interval.h"
#include "recording/recording_rows.h"
#include "tap.h"

#define SECOND    1000000000ull
#define INTERVALS 60
#define ROWS      60
#define POINTS    50 /* and with the word `many`, as the laboratories have it: */
#define MANY      200
#define FULL      80 /* recordings whose disk is full */
#define SECTOR    512
/* The journal goes into the file every few intervals. */
#define MAX_BYTES (4ull << 20)

enum which { DATABASE, JOURNAL, OTHER };
enum what { WRITTEN, TRUNCATED, SYNCED, COMMITTED };

struct entry {
	enum which which;
	enum what what;
	sqlite3_int64 offset;
	int size;
	unsigned char *data;
};

static struct entry *entries;
static size_t entry_count, entry_room;
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static bool logging;

/* There is no space from this write on, until so many of them were refused. */
static long writes, writes_until_full, refusals;

static int points = POINTS;

static char directory[] = "/tmp/recording_disk_test.XXXXXX", path[128];

struct logged_file {
	sqlite3_file base;
	enum which which;
	sqlite3_file *real;
};

static void append(enum which which, enum what what, sqlite3_int64 offset, int size, const void *data)
{
	pthread_mutex_lock(&log_lock);
	if (logging && which != OTHER) {
		if (entry_count == entry_room) {
			entry_room = entry_room ? 2 * entry_room : 1024;
			entries = realloc(entries, entry_room * sizeof(*entries));
		}
		entries[entry_count] = (struct entry){.which = which, .what = what, .offset = offset, .size = size};
		if (data) {
			entries[entry_count].data = malloc(size);
			memcpy(entries[entry_count].data, data, size);
		}
		entry_count++;
	}
	pthread_mutex_unlock(&log_lock);
}

static void forget_log(void)
{
	for (size_t i = 0; i < entry_count; i++)
		free(entries[i].data);
	entry_count = 0;
}

/* Whether this write finds no space. */
static bool is_full(void)
{
	bool full;

	pthread_mutex_lock(&log_lock);
	writes++;
	full = refusals > 0 && --writes_until_full < 0;
	refusals -= full;
	pthread_mutex_unlock(&log_lock);
	return full;
}

static sqlite3_file *real_of(sqlite3_file *file)
{
	return ((struct logged_file *)file)->real;
}

#define REAL(file) (real_of(file)->pMethods)

static int do_close(sqlite3_file *file)
{
	return REAL(file)->xClose(real_of(file));
}

static int do_read(sqlite3_file *file, void *out, int size, sqlite3_int64 offset)
{
	return REAL(file)->xRead(real_of(file), out, size, offset);
}

static int do_write(sqlite3_file *file, const void *data, int size, sqlite3_int64 offset)
{
	if (is_full())
		return SQLITE_FULL;
	append(((struct logged_file *)file)->which, WRITTEN, offset, size, data);
	return REAL(file)->xWrite(real_of(file), data, size, offset);
}

static int do_truncate(sqlite3_file *file, sqlite3_int64 size)
{
	append(((struct logged_file *)file)->which, TRUNCATED, size, 0, NULL);
	return REAL(file)->xTruncate(real_of(file), size);
}

static int do_sync(sqlite3_file *file, int flags)
{
	append(((struct logged_file *)file)->which, SYNCED, 0, 0, NULL);
	return SQLITE_OK;
}

static int do_size(sqlite3_file *file, sqlite3_int64 *out)
{
	return REAL(file)->xFileSize(real_of(file), out);
}

static int do_lock(sqlite3_file *file, int lock)
{
	return REAL(file)->xLock(real_of(file), lock);
}

static int do_unlock(sqlite3_file *file, int lock)
{
	return REAL(file)->xUnlock(real_of(file), lock);
}

static int do_check(sqlite3_file *file, int *out)
{
	return REAL(file)->xCheckReservedLock(real_of(file), out);
}

static int do_control(sqlite3_file *file, int operation, void *argument)
{
	return REAL(file)->xFileControl(real_of(file), operation, argument);
}

static int do_sector(sqlite3_file *file)
{
	return SECTOR;
}

static int do_traits(sqlite3_file *file)
{
	return REAL(file)->xDeviceCharacteristics(real_of(file));
}

static int do_map(sqlite3_file *file, int region, int size, int extend, void volatile **out)
{
	return REAL(file)->xShmMap(real_of(file), region, size, extend, out);
}

static int do_map_lock(sqlite3_file *file, int offset, int count, int flags)
{
	return REAL(file)->xShmLock(real_of(file), offset, count, flags);
}

static void do_barrier(sqlite3_file *file)
{
	REAL(file)->xShmBarrier(real_of(file));
}

static int do_unmap(sqlite3_file *file, int remove)
{
	return REAL(file)->xShmUnmap(real_of(file), remove);
}

static const sqlite3_io_methods methods = {
	.iVersion = 2,
	.xClose = do_close,
	.xRead = do_read,
	.xWrite = do_write,
	.xTruncate = do_truncate,
	.xSync = do_sync,
	.xFileSize = do_size,
	.xLock = do_lock,
	.xUnlock = do_unlock,
	.xCheckReservedLock = do_check,
	.xFileControl = do_control,
	.xSectorSize = do_sector,
	.xDeviceCharacteristics = do_traits,
	.xShmMap = do_map,
	.xShmLock = do_map_lock,
	.xShmBarrier = do_barrier,
	.xShmUnmap = do_unmap,
};

static sqlite3_vfs *plain;
static sqlite3_vfs logged;

static int do_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
	struct logged_file *opened = (void *)file;
	int code;

	opened->real = (void *)(opened + 1);
	opened->which = flags & SQLITE_OPEN_MAIN_DB ? DATABASE : flags & SQLITE_OPEN_WAL ? JOURNAL : OTHER;
	code = plain->xOpen(plain, name, opened->real, flags, out);
	file->pMethods = code == SQLITE_OK ? &methods : NULL;
	return code;
}

int __wrap_fdatasync(int fd);

int __wrap_fdatasync(int fd)
{
	append(JOURNAL, SYNCED, 0, 0, NULL);
	return 0;
}

int __real_fallocate(int fd, int mode, off_t offset, off_t length);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t length);

int __wrap_fallocate(int fd, int mode, off_t offset, off_t length)
{
	if (!is_full())
		return __real_fallocate(fd, mode, offset, length);
	errno = ENOSPC;
	return -1;
}

static void log_writes(void)
{
	plain = sqlite3_vfs_find("unix");
	logged = *plain;
	logged.zName = "logged";
	logged.szOsFile = sizeof(struct logged_file) + plain->szOsFile;
	logged.xOpen = do_open;
	logged.pNext = NULL;
	sqlite3_vfs_register(&logged, 1);
}

static void remove_files(const char *of)
{
	static const char *const tails[] = {"", "-wal", "-shm", "-journal", ".old", ".previous"};
	char name[sizeof(path) + 32];

	for (size_t i = 0; i < sizeof(tails) / sizeof(*tails); i++) {
		snprintf(name, sizeof(name), "%.140s%s", of, tails[i]);
		unlink(name);
	}
}

static struct recording *create(struct keeper *keeper)
{
	struct recording *recording = NULL;

	remove_files(path);
	*keeper = (struct keeper){.interval_ns = SECOND, .max_bytes = MAX_BYTES, .rolled = {-1, -1}};
	CHECK(!recording_create(&recording, path), "create");
	CHECK(!recording_keep_begin(recording, keeper), "begin");
	return recording;
}

/* Rows of one interval, and totals that are written over each time. */
static int put_rows(struct recording *recording, int interval)
{
	int err = 0;

	for (int i = 0; !err && i < ROWS; i++) {
		err = recording_put(recording, wait_interval, .interval = interval, .cpu = i % 4, .lock = 2 + i / 4,
				    .kind = 1, .waits = 1 + interval, .wait_ns = rand(), .max_ns = rand());
		err = err
			      ?: recording_put(recording, lock_total, .lock = 2 + i / 4, .kind = 1,
					       .waits = 100 * interval + i, .wait_ns = rand());
	}
	return err;
}

static void nothing_meanwhile(void *context)
{
}

static int put_interval(struct recording *recording, struct keeper *keeper, int interval)
{
	struct recording_interval_end end = {
		.keeper = keeper, .now_ns = (interval + 1) * SECOND, .meanwhile = nothing_meanwhile};
	int err = recording_put(recording, interval, .id = interval, .begin_ns = interval * SECOND,
				.end_ns = (interval + 1) * SECOND);

	return err ?: recording_end_interval(recording, &end);
}

/* Whether nothing was written to the journal since it was synced. */
static bool is_synced(void)
{
	bool synced = false;

	pthread_mutex_lock(&log_lock);
	for (size_t i = entry_count; i-- > 0;) {
		if (entries[i].which != JOURNAL || entries[i].what == COMMITTED)
			continue;
		synced = entries[i].what == SYNCED;
		break;
	}
	pthread_mutex_unlock(&log_lock);
	return synced;
}

/* A commit reaches the disk without another one. */
static bool wait_for_sync(void)
{
	for (int i = 0; i < 10000 && !is_synced(); i++)
		usleep(1000);
	return is_synced();
}

/* What a file has. */
struct image {
	unsigned char *data;
	size_t size, room;
};

/* As ftruncate() does it: what is added is zero. */
static void resize(struct image *image, size_t size)
{
	if (size > image->room) {
		image->room = 2 * size;
		image->data = realloc(image->data, image->room);
	}
	if (size > image->size)
		memset(image->data + image->size, 0, size - image->size);
	image->size = size;
}

static void write_part(struct image *image, const struct entry *entry, int part, int size)
{
	if (entry->offset + part + size > (sqlite3_int64)image->size)
		resize(image, entry->offset + part + size);
	memcpy(image->data + entry->offset + part, entry->data + part, size);
}

/* The disk may have any of the sectors; the order of pages matters more: most are kept whole. */
static void write_in_parts(struct image *image, const struct entry *entry)
{
	for (int part = 0; part < entry->size; part += SECTOR) {
		if (part ? rand() % 16 == 0 : rand() % 2) {
			if (!part)
				break;
			continue;
		}
		write_part(image, entry, part, entry->size - part < SECTOR ? entry->size - part : SECTOR);
	}
}

static void write_file(const char *name, const struct image *image)
{
	FILE *file = fopen(name, "w");

	CHECK(fwrite(image->data, 1, image->size, file) == image->size, "write");
	fclose(file);
}

/* Writes what the disk has at this point of the log; lost: what was not synced may be missing. */
static void cut(size_t point, bool lost, const char *to)
{
	static struct image images[2];
	char journal[PATH_MAX + 64];
	size_t synced[2] = {0, 0};

	for (int i = 0; i < 2; i++)
		resize(&images[i], 0);
	for (size_t i = 0; i < point; i++)
		if (entries[i].what == SYNCED)
			synced[entries[i].which] = i;
	for (size_t i = 0; i < point; i++) {
		const struct entry *entry = &entries[i];
		const bool sure = !lost || i < synced[entry->which];
		struct image *image = &images[entry->which];

		if (entry->what == TRUNCATED && (sure || rand() % 2))
			resize(image, entry->offset);
		else if (entry->what == WRITTEN && sure)
			write_part(image, entry, 0, entry->size);
		else if (entry->what == WRITTEN)
			write_in_parts(image, entry);
	}
	remove_files(to);
	snprintf(journal, sizeof(journal), "%.128s-wal", to);
	write_file(to, &images[DATABASE]);
	write_file(journal, &images[JOURNAL]);
}

static long long ask(sqlite3 *db, const char *query)
{
	sqlite3_stmt *row = NULL;
	long long answer = -1;

	if (sqlite3_prepare_v2(db, query, -1, &row, NULL) == SQLITE_OK && sqlite3_step(row) == SQLITE_ROW)
		answer = sqlite3_column_int64(row, 0);
	sqlite3_finalize(row);
	return answer;
}

/* The last interval that is there, of a file that agrees with itself. */
static long long check_file(const char *of, const char *when, size_t point)
{
	sqlite3 *db = NULL;
	long long last;

	/* Its journal is brought into the file; no power is lost meanwhile. */
	CHECK(sqlite3_open_v2(of, &db, SQLITE_OPEN_READWRITE, "unix") == SQLITE_OK &&
		      sqlite3_exec(db, "PRAGMA synchronous = OFF", NULL, NULL, NULL) == SQLITE_OK,
	      "%s at entry %zu: no recording", when, point);
	last = ask(db, "SELECT max(id) FROM interval");
	CHECK(ask(db, "SELECT count(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'") == 1,
	      "%s at entry %zu: the file is damaged", when, point);
	CHECK(!ask(db,
		   "SELECT count(*) FROM interval a JOIN interval b ON b.id = (SELECT min(id) FROM interval WHERE id >"
		   " a.id) WHERE a.end_ns <> b.begin_ns"),
	      "%s at entry %zu: intervals with gaps", when, point);
	CHECK(!ask(db, "SELECT count(*) FROM wait_interval WHERE interval NOT IN (SELECT id FROM interval)"),
	      "%s at entry %zu: waits of an interval that is not there", when, point);
	CHECK(ask(db, "SELECT max(waits) FROM lock_total") == (last < 0 ? -1 : 100 * last + ROWS - 1) || last < 1,
	      "%s at entry %zu: totals are not of the last interval", when, point);
	sqlite3_close(db);
	return last;
}

static void power_is_lost_anywhere(void)
{
	struct keeper keeper;
	struct recording *recording;
	char to[sizeof(path) + 8];
	size_t first = 0;
	int folds = 0;

	logging = true;
	recording = create(&keeper);
	for (int i = 0; i < INTERVALS; i++) {
		CHECK(!put_rows(recording, i) && !put_interval(recording, &keeper, i), "interval %d", i);
		append(JOURNAL, COMMITTED, i, 0, NULL);
		if (i == 1)
			first = entry_count;
		if (i)
			CHECK(wait_for_sync(), "interval %d is not synced", i);
	}
	recording_close(recording);
	logging = false;
	for (size_t i = 0; i < entry_count; i++)
		folds += entries[i].which == DATABASE && entries[i].what == SYNCED;
	CHECK(folds > 5, "the journal went into the file %d times", folds);
	snprintf(to, sizeof(to), "%s.cut", path);
	for (int point = 0; point < 2 * points; point++) {
		const size_t at = first + rand() % (entry_count - first);
		long long committed = -1, last;

		for (size_t i = 0; i < at; i++)
			if (entries[i].what == COMMITTED)
				committed = entries[i].offset;
		cut(at, point < points, to);
		last = check_file(to, point < points ? "power cut" : "kill", at);
		CHECK(last >= committed - (point < points), "at entry %zu: interval %lld of %lld is the last", at, last,
		      committed);
	}
	remove_files(to);
	remove_files(path);
	forget_log();
}

static void the_disk_is_full_anywhere(void)
{
	int went_on = 0, ended = 0, full = 0;
	long all = 0;

	for (int point = 0; point <= FULL; point++) {
		const int intervals = 12;
		struct keeper keeper;
		struct recording *recording = create(&keeper);
		int err = 0, committed = -1;

		for (int i = 0; !err && i < intervals; i++) {
			if (i == 2) {
				/* The first has space for all: it tells how many writes there are. */
				writes = 0;
				writes_until_full = all ? rand() % all : 0;
				refusals = !all ? 0 : rand() % 4 ? 1 + rand() % 6 : LONG_MAX;
			}
			err = put_rows(recording, i);
			err = err ?: put_interval(recording, &keeper, i);
			if (!err && !recording->held)
				committed = i;
		}
		full += writes_until_full < 0;
		all = all ?: writes;
		refusals = 0;
		if (err) {
			ended++;
			recording_close(recording);
		} else {
			went_on++;
			committed = intervals - 1;
			CHECK(!recording_finish(recording), "the end");
		}
		CHECK(check_file(path, "full disk", point) >= committed, "point %d: interval %d is not there", point,
		      committed);
		remove_files(path);
	}
	CHECK(full > FULL * 3 / 4, "%d disks of %d were full", full, FULL);
	/* Those whose room was refused go on, one write of ten or so; those that SQLite could not write end. */
	CHECK(went_on - 1 > FULL / 16, "%d recordings went on, %d ended", went_on, ended);
}

static sqlite3_int64 bytes_on_disk(void)
{
	static const char *const tails[] = {"", "-wal", "-shm"};
	sqlite3_int64 bytes = 0;
	char name[sizeof(path) + 8];
	struct stat file;

	for (size_t i = 0; i < sizeof(tails) / sizeof(*tails); i++) {
		snprintf(name, sizeof(name), "%s%s", path, tails[i]);
		if (!stat(name, &file))
			bytes += file.st_blocks * 512;
	}
	return bytes;
}

/* As session.c does it: an interval without a place goes on. */
static void a_reader_does_not_go_on(void)
{
	struct keeper keeper;
	struct recording *recording = create(&keeper);
	sqlite3_int64 most = 0;
	sqlite3 *reader = NULL;
	int interval = 0, longer = 0, rounds = 0;

	for (; interval < 20; interval++)
		CHECK(!put_rows(recording, interval) && !put_interval(recording, &keeper, interval), "interval");
	CHECK(sqlite3_open_v2(path, &reader, SQLITE_OPEN_READONLY, "unix") == SQLITE_OK &&
		      sqlite3_exec(reader, "BEGIN; SELECT count(*) FROM interval;", NULL, NULL, NULL) == SQLITE_OK,
	      "no reader");
	for (; longer < 20 && rounds < 20000; rounds++) {
		if (recording_is_full(recording)) {
			longer++;
			continue;
		}
		CHECK(!put_rows(recording, interval) && !put_interval(recording, &keeper, interval), "interval");
		interval++;
		most = bytes_on_disk() > most ? bytes_on_disk() : most;
	}
	CHECK(longer == 20, "it was never full");
	CHECK(most <= (sqlite3_int64)MAX_BYTES, "%lld bytes", most);
	CHECK(recording->held == HELD_BY_READER, "it is not held");
	sqlite3_exec(reader, "COMMIT", NULL, NULL, NULL);
	sqlite3_close(reader);
	for (int i = 0; i < 10000 && recording_is_full(recording); i++)
		usleep(1000);
	for (int i = 0; i < 40; i++, interval++) {
		CHECK(!put_rows(recording, interval) && !put_interval(recording, &keeper, interval), "interval");
		usleep(1000);
	}
	CHECK(!recording->held, "it is still held");
	CHECK(recording->journal_bytes < recording->journal_most, "the journal is as long as before");
	CHECK(!recording_finish(recording), "the end");
	CHECK(check_file(path, "stopped reader", 0) == interval - 1, "the last interval is not there");
	CHECK(bytes_on_disk() <= (sqlite3_int64)MAX_BYTES, "%lld bytes", bytes_on_disk());
	remove_files(path);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		TEST(power_is_lost_anywhere),
		TEST(the_disk_is_full_anywhere),
		TEST(a_reader_does_not_go_on),
	};
	int failed;

	if (argc > 1 && !strcmp(argv[1], "many"))
		points = MANY;
	if (!mkdtemp(directory))
		return 1;
	snprintf(path, sizeof(path), "%s/recording", directory);
	log_writes();
	srand(15);
	failed = run_tests(tests, sizeof(tests) / sizeof(*tests));
	rmdir(directory);
	free(entries);
	return failed;
}
