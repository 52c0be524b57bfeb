// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * The lines of `perf script` are those of print_sample_start() and
 * process_event() in tools/perf/builtin-script.c and of perf_event__fprintf()
 * in util/event.c, Linux 6.1 to 7.2.  perf hands them out in the order of time.
 */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/message.h"
#include "perfdata/perfdata_sums.h"
#include "perfdata/perfdata_script.h"
#include "base/small_file.h"

#define COMM_WIDTH  16
#define LONGEST     (64 << 10) /* of a line; a path has 4,096 bytes at most */
#define MAPS_SHARED 's'

extern char **environ;

/* Some events lack some fields, and perf then prints nothing at all. */
static const struct {
	const char *fields;
	bool address;
	bool weight;
	bool physical;
} tries[] = {
	{"comm,pid,tid,cpu,misc,time,event,addr,data_src,weight,ip,phys_addr", true, true, true},
	{"comm,pid,tid,cpu,misc,time,event,addr,data_src,weight,ip", true, true, false},
	{"comm,pid,tid,cpu,misc,time,event,addr,data_src,ip,phys_addr", true, false, true},
	{"comm,pid,tid,cpu,misc,time,event,addr,data_src,ip", true, false, false},
};

#define TRIES (sizeof(tries) / sizeof(*tries))

struct perf_child {
	pid_t pid;
	FILE *lines;
	int errors; /* what it said, in memory */
};

static int start(struct perf_child *child, const struct perfdata_import *import, const char *fields)
{
	const struct options *options = import->options;
	char *arguments[20];
	posix_spawn_file_actions_t actions;
	int ends[2], count = 0, err;

	arguments[count++] = (char *)options->perf;
	arguments[count++] = "script";
	arguments[count++] = "-i";
	arguments[count++] = (char *)options->input;
	arguments[count++] = "-G";
	arguments[count++] = "--ns";
	arguments[count++] = "--show-mmap-events";
	arguments[count++] = "--show-task-events";
	/* Of trace data the memory accesses alone: one record becomes several samples else. */
	if (import->reader.decoder_wanted)
		arguments[count++] = "--itrace=M";
	arguments[count++] = "-F";
	arguments[count++] = (char *)fields;
	arguments[count] = NULL;
	child->errors = memfd_create("lockline perf script", MFD_CLOEXEC);
	if (child->errors < 0 || pipe2(ends, O_CLOEXEC))
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, child->errors, STDERR_FILENO);
	err = -posix_spawnp(&child->pid, options->perf, &actions, NULL, arguments, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	child->lines = err ? NULL : fdopen(ends[0], "re");
	if (!child->lines)
		close(ends[0]);
	return err;
}

/* Waits for it; how it ended, as of waitpid(). */
static int end(struct perf_child *child)
{
	int status = -1;

	/* Before its end there may be more than we want to read. */
	if (child->lines)
		fclose(child->lines);
	if (child->pid > 0)
		while (waitpid(child->pid, &status, 0) < 0 && errno == EINTR)
			;
	*child = (struct perf_child){.errors = child->errors};
	return status;
}

/* Its last words, or "". */
static void last_words(const struct perf_child *child, char *out, size_t size)
{
	char text[4096], *line;
	ssize_t length = pread(child->errors, text, sizeof(text) - 1, 0);

	text[length > 0 ? length : 0] = 0;
	for (length = strlen(text); length && text[length - 1] == '\n'; length--)
		text[length - 1] = 0;
	line = strrchr(text, '\n');
	snprintf(out, size, "%s", line ? line + 1 : text);
	make_printable(out);
}

static const char *skip_spaces(const char *at)
{
	return at + strspn(at, " \t");
}

/* Moves on behind text; false if it does not stand there. */
static bool take(const char **at, const char *text)
{
	size_t length = strlen(text);

	if (strncmp(*at, text, length))
		return false;
	*at += length;
	return true;
}

static bool take_number(const char **at, int base, __u64 *out)
{
	char *behind;

	if (**at != '-' && !(**at >= '0' && **at <= '9') && !(base == 16 && strchr("abcdef", **at) && **at))
		return false;
	errno = 0;
	*out = **at == '-' ? (__u64)strtoll(*at, &behind, base) : strtoull(*at, &behind, base);
	if (behind == *at || errno)
		return false;
	*at = behind;
	return true;
}

struct line {
	__u64 pid;
	__u64 tid;
	__u64 cpu;
	__u8 cpumode;
	bool exec;
	__u64 time;
	const char *rest; /* behind the time */
};

/* "K", "U", "KUH", "G", "KGg": a letter for each mode whose bits are set. */
static bool take_misc(const char **at, struct line *line)
{
	bool kernel = false, user = false, guest = false;

	for (; **at && **at != ' '; (*at)++) {
		kernel |= **at == 'K';
		user |= **at == 'U';
		guest |= **at == 'G';
		line->exec |= **at == 'E';
		if (!strchr("KUHGgMESp", **at))
			return false;
	}
	line->cpumode = 4 * guest + 2 * user + kernel;
	return true;
}

/* "%16s %d/%d [%03d] %-6s %d.%09d: " */
static bool parse_start(const char *text, struct line *line)
{
	const char *at = text;
	__u64 seconds, fraction;

	*line = (struct line){};
	if (strlen(text) < COMM_WIDTH + 1)
		return false;
	at = skip_spaces(text + COMM_WIDTH);
	if (!take_number(&at, 10, &line->pid) || !take(&at, "/") || !take_number(&at, 10, &line->tid))
		return false;
	at = skip_spaces(at);
	if (!take(&at, "[") || !take_number(&at, 10, &line->cpu) || !take(&at, "]"))
		return false;
	at = skip_spaces(at);
	if (*at >= 'A' && !take_misc(&at, line))
		return false;
	at = skip_spaces(at);
	if (!take_number(&at, 10, &seconds) || !take(&at, ".") || !take_number(&at, 10, &fraction) || !take(&at, ":"))
		return false;
	line->time = seconds * 1000000000 + fraction;
	line->rest = skip_spaces(at);
	return true;
}

/* " PID/TID: [START(LENGTH) @ OFFSET MAJOR:MINOR INODE GENERATION]: rwxp NAME", or a build id in <>, or neither */
static int apply_mmap(struct perfdata_import *import, const struct line *line, const char *at)
{
	struct memory_mmap mmap = {.kernel = line->cpumode == CPUMODE_KERNEL};
	__u8 build_id[MEMORY_BUILD_ID] = {};
	struct memory_file_id file = {};
	__u64 pid, tid, length, major, minor;

	at = skip_spaces(at);
	if (!take_number(&at, 10, &pid) || !take(&at, "/") || !take_number(&at, 10, &tid) || !take(&at, ": [") ||
	    !take_number(&at, 16, &mmap.mapping.start) || !take(&at, "(") || !take_number(&at, 16, &length) ||
	    !take(&at, ") @ ") || !take_number(&at, 16, &mmap.mapping.offset))
		return -EBADMSG;
	mmap.pid = pid;
	at = skip_spaces(at);
	if (take(&at, "<")) {
		for (; mmap.build_id_size < MEMORY_BUILD_ID && at[0] && at[0] != '>' && at[1]; at += 2)
			if (sscanf(at, "%2hhx", &build_id[mmap.build_id_size++]) != 1)
				return -EBADMSG;
		mmap.build_id = build_id;
		memcpy(&file, build_id, sizeof(build_id));
		mmap.file = &file;
		if (!take(&at, ">"))
			return -EBADMSG;
	} else if (take_number(&at, 16, &major)) {
		if (!take(&at, ":") || !take_number(&at, 16, &minor) || !take(&at, " ") ||
		    !take_number(&at, 10, &file.inode) || !take(&at, " ") || !take_number(&at, 10, &file.generation))
			return -EBADMSG;
		file.major = major;
		file.minor = minor;
		mmap.file = &file;
	}
	if (!take(&at, "]: "))
		return -EBADMSG;
	/* Protection, and for MMAP2 whether it is shared; then the name. */
	mmap.mapping.shared = strcspn(at, " ") == 4 && at[3] == MAPS_SHARED;
	at = skip_spaces(at + strcspn(at, " "));
	mmap.name = at;
	mmap.name_length = strlen(at);
	mmap.mapping.end = length > ~0ull - mmap.mapping.start ? ~0ull : mmap.mapping.start + length;
	return mmap.name_length ? memory_tasks_mmap(&import->tasks, &mmap) : -EBADMSG;
}

/* ": NAME:PID/TID", or " exec: NAME:PID/TID" */
static int apply_comm(struct perfdata_import *import, const char *at)
{
	bool exec = take(&at, " exec");
	const char *colon = strrchr(at, ':'), *ids = colon ? colon + 1 : NULL;
	__u64 pid, tid;

	if (!take(&at, ": ") || !ids || colon < at || !take_number(&ids, 10, &pid) || !take(&ids, "/") ||
	    !take_number(&ids, 10, &tid))
		return -EBADMSG;
	return memory_tasks_comm(&import->tasks, pid, tid, at, colon - at, exec);
}

/* "(PID:TID):(PARENT:PARENT_TID)" */
static int apply_task(struct perfdata_import *import, const char *at, bool fork, __u64 time)
{
	__u64 pid, tid, parent_pid, parent_tid;

	if (!take(&at, "(") || !take_number(&at, 10, &pid) || !take(&at, ":") || !take_number(&at, 10, &tid) ||
	    !take(&at, "):(") || !take_number(&at, 10, &parent_pid) || !take(&at, ":") ||
	    !take_number(&at, 10, &parent_tid))
		return -EBADMSG;
	if (!fork)
		return memory_tasks_exit(&import->tasks, pid, tid);
	/* Without a time it is perf's own, of a task that ran before. */
	return memory_tasks_fork(&import->tasks, pid, tid, parent_pid, parent_tid, !time);
}

/* The last token before end; end is moved before it. */
static bool last_number(const char *begin, const char **end, int base, __u64 *out)
{
	const char *at = *end;
	const char *token;

	while (at > begin && at[-1] == ' ')
		at--;
	token = at;
	while (token > begin && token[-1] != ' ')
		token--;
	*end = token;
	return take_number(&token, base, out) && token == at;
}

/* "EVENT: ", with spaces: the name goes into the list, if it is new there. */
static void note_event(struct perfdata_import *import, const char *name, const char *end)
{
	char *list = import->script_events, text[sizeof(import->script_events)];
	size_t length;

	while (end > name && (end[-1] == ' ' || end[-1] == ':'))
		end--;
	length = end - name;
	while (*list && (strlen(list) != length || strncmp(list, name, length)))
		list += strlen(list) + 1;
	/* Each ends with 0, and the list with another. */
	if (*list || !length || list + length + 2 > import->script_events + sizeof(import->script_events))
		return;
	snprintf(text, sizeof(text), "%.*s", (int)length, name);
	make_printable(text);
	strcpy(list, text);
}

/* "EVENT: ADDRESS DATA_SRC |OP LOAD|...|BLK N/A WEIGHT IP PHYSICAL" */
static int apply_sample(struct perfdata_import *import, const struct line *line, size_t attempt)
{
	const char *bar = strstr(line->rest, " |OP"), *end = line->rest + strlen(line->rest), *before = bar;
	struct memory_sample sample = {.time = line->time ?: MEMORY_NO_TIME,
				       .pid = line->pid,
				       .tid = line->tid,
				       .cpu = line->cpu,
				       .cpumode = line->cpumode};

	if (!bar || (tries[attempt].physical && !last_number(bar, &end, 16, &sample.physical)) ||
	    !last_number(bar, &end, 16, &sample.ip) ||
	    (tries[attempt].weight && !last_number(bar, &end, 10, &sample.weight)) ||
	    !last_number(line->rest, &before, 16, &sample.data_src) ||
	    !last_number(line->rest, &before, 16, &sample.address))
		return -EBADMSG;
	note_event(import, line->rest, before);
	return perfdata_sums_samples(import, &sample, 1);
}

static int apply_line(struct perfdata_import *import, const char *text, size_t attempt)
{
	struct line line;
	const char *at;

	if (!parse_start(text, &line))
		return -EBADMSG;
	at = line.rest;
	if (take(&at, "PERF_RECORD_MMAP2") || take(&at, "PERF_RECORD_MMAP"))
		return apply_mmap(import, &line, at);
	if (take(&at, "PERF_RECORD_COMM"))
		return apply_comm(import, at);
	if (take(&at, "PERF_RECORD_FORK"))
		return apply_task(import, at, true, line.time);
	if (take(&at, "PERF_RECORD_EXIT"))
		return apply_task(import, at, false, line.time);
	if (take(&at, "PERF_RECORD_"))
		return 0;
	return apply_sample(import, &line, attempt);
}

static int read_lines(struct perfdata_import *import, FILE *lines, size_t attempt)
{
	char *text = malloc(LONGEST);
	__u64 number = 0, bad = 0;
	int err = text ? 0 : -ENOMEM;

	while (!err && fgets(text, LONGEST, lines)) {
		size_t length = strlen(text);

		number++;
		if (length && text[length - 1] == '\n')
			text[length - 1] = 0;
		if (!*text)
			continue;
		err = apply_line(import, text, attempt);
		if (err == -EBADMSG) {
			if (!bad++)
				memory_problem(&import->problems, number,
					       "a line of perf script that cannot be read: %.100s", text);
			err = 0;
		}
	}
	import->damaged += bad;
	free(text);
	return err;
}

static int reset(struct perfdata_import *import)
{
	__u32 line_size = import->lines.line_size;

	memory_lines_close(&import->lines);
	memory_tasks_close(&import->tasks);
	perfdata_order_close(&import->order);
	import->budget.used = 0;
	import->samples = import->damaged = import->unknown_events = 0;
	import->first_ns = ~0ull;
	import->last_ns = 0;
	memory_lines_open(&import->lines, line_size, &import->budget);
	return memory_tasks_open(&import->tasks, &import->budget);
}

int perfdata_script(struct perfdata_import *import, const char *why)
{
	const char *path = import->options->input, *perf = import->options->perf;
	struct perf_child child = {.errors = -1};
	char words[200] = "";
	int err = 0, status = -1;

	if (!strcmp(path, "-")) {
		message("cannot read standard input: %s, and perf wants a file for that; give its name", why);
		return -ESPIPE;
	}
	import->by_perf = true;
	for (size_t attempt = 0; !err && status && attempt < TRIES; attempt++) {
		err = reset(import);
		err = err ?: start(&child, import, tries[attempt].fields);
		if (err) {
			message("cannot read %s: %s, which only perf can decode, and %s does not start: %s; install "
				"perf, "
				"or give it by --perf",
				path, why, perf, strerror(-err));
			break;
		}
		err = read_lines(import, child.lines, attempt);
		status = end(&child);
		last_words(&child, words, sizeof(words));
		/* What it said before its end counts for more than how it ended. */
		if (import->samples)
			status = 0;
		close(child.errors);
		child.errors = -1;
	}
	if (!err && status) {
		message("cannot read %s: %s, and `%s script` failed: %s", path, why, perf, words);
		err = -EIO;
	}
	end(&child);
	if (child.errors >= 0)
		close(child.errors);
	return err;
}
