// SPDX-License-Identifier: GPL-2.0-or-later
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/values.h"
#include "cli/message.h"
#include "episodes/aside.h"

#define SUFFIX  ".data"
#define PARTIAL ".partial" /* what `lockline save` has not finished */
#define MOMENT  "00000000-000000"
/* How long `lockline save` may take to end when it is asked to. */
#define PATIENCE_MS 1000
#define STEP_MS     10

/* Of sd-daemon(3). */
#define NOTICE  "<5>"
#define WARNING "<4>"

extern char **environ;

/* Lines for the journal have a priority; people see none. */
static const char *priority(const char *level)
{
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat there;

	if (!stream || sscanf(stream, "%llu:%llu", &device, &inode) != 2 || fstat(STDERR_FILENO, &there))
		return "";
	return there.st_dev == device && there.st_ino == inode ? level : "";
}

/* Whether a file is a part of this recording, or what is left of one. */
static bool is_part(const struct aside *aside, const char *name, bool *partial)
{
	const size_t length = strlen(aside->prefix);
	const char *rest = name + length;

	if (strncmp(name, aside->prefix, length))
		return false;
	for (const char *form = MOMENT; *form; form++, rest++)
		if (*form == '-' ? *rest != '-' : *rest < '0' || *rest > '9')
			return false;
	*partial = strlen(rest) > strlen(PARTIAL) && !strcmp(rest + strlen(rest) - strlen(PARTIAL), PARTIAL);
	return *partial || !strcmp(rest, SUFFIX);
}

/* Removes what is not finished, and the oldest until so many are left: their names sort by time. */
static void prune(const struct aside *aside, int most)
{
	struct dirent **found;
	char path[PATH_MAX];
	int count = scandir(aside->directory, &found, NULL, alphasort), parts = 0;
	bool partial;

	if (count < 0)
		return;
	for (int i = count - 1; i >= 0; i--) {
		if (is_part(aside, found[i]->d_name, &partial) && (partial || ++parts > most) &&
		    (size_t)snprintf(path, sizeof(path), "%s/%s", aside->directory, found[i]->d_name) < sizeof(path))
			unlink(path);
		free(found[i]);
	}
	free(found);
}

/* The directory of a path, and its last word. */
static int split(const char *path, char **directory, const char **name)
{
	const char *slash = strrchr(path, '/');

	*name = slash ? slash + 1 : path;
	*directory = slash ? strndup(path, slash == path ? 1 : slash - path) : strdup(".");
	return *directory ? 0 : -ENOMEM;
}

static int find_program(struct aside *aside)
{
	char self[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	const char *name;
	char *directory = NULL;
	int err;

	if (length < 0)
		return -errno;
	self[length] = 0;
	err = split(self, &directory, &name);
	if (!err && asprintf(&aside->program, "%s/lockline", directory) < 0) {
		aside->program = NULL;
		err = -ENOMEM;
	}
	free(directory);
	if (err)
		return err;
	if (!access(aside->program, X_OK))
		return 0;
	err = -errno;
	message("--save-last runs `lockline save`, which cannot be started: %s: %s", aside->program, strerror(-err));
	return err;
}

int aside_open(struct aside *aside, const struct options *options)
{
	const char *name, *end;
	size_t length;
	int err;

	aside->options = options;
	if (!options->save_last_ns)
		return 0;
	err = find_program(aside);
	err = err ?: split(options->output, &aside->directory, &name);
	if (err)
		return err;
	length = strlen(name);
	end = name + length - strlen(SUFFIX);
	if (length > strlen(SUFFIX) && !strcmp(end, SUFFIX))
		length -= strlen(SUFFIX);
	if (asprintf(&aside->prefix, "%.*s.saved-", (int)length, name) < 0) {
		aside->prefix = NULL;
		return -ENOMEM;
	}
	if (strlen(aside->prefix) + strlen(MOMENT SUFFIX) > NAME_MAX) {
		message("%s: the name is too long for --save-last", options->output);
		return -ENAMETOOLONG;
	}
	prune(aside, options->saves);
	return 0;
}

bool aside_want(struct aside *aside, const char *why, __s64 interval, __u64 now_ns)
{
	if (aside->wanted || aside->pid || now_ns < aside->next_ns)
		return false;
	aside->wanted = true;
	aside->interval = interval + 1;
	aside->next_ns = now_ns + aside->options->save_last_ns;
	snprintf(aside->why, sizeof(aside->why), "%s", why);
	return true;
}

static int spawn(struct aside *aside, const char *output, const char *length)
{
	char *const arguments[] = {
		aside->program, "save",         "-i", (char *)aside->options->output, "--last", (char *)length,
		"-o",           (char *)output, NULL};
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t none, usual;
	int ends[2], err;

	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return -errno;
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
	posix_spawn_file_actions_adddup2(&files, ends[1], STDERR_FILENO);
	sigemptyset(&none);
	sigemptyset(&usual);
	sigaddset(&usual, SIGPIPE);
	sigaddset(&usual, SIGINT);
	posix_spawnattr_init(&attributes);
	/* Its own group: Ctrl-C is the collector's. */
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
	posix_spawnattr_setsigmask(&attributes, &none);
	posix_spawnattr_setsigdefault(&attributes, &usual);
	err = -posix_spawn(&aside->pid, aside->program, &files, &attributes, arguments, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&files);
	close(ends[1]);
	if (err) {
		aside->pid = 0;
		close(ends[0]);
		return err;
	}
	aside->words = ends[0];
	return 0;
}

static void tell_failure(const struct aside *aside, const char *cause)
{
	message_at(priority(WARNING), "%s; what led to it could not be saved: %s", aside->why, cause);
}

static void start(struct aside *aside)
{
	char output[PATH_MAX], moment[sizeof(MOMENT)], length[32];
	time_t now = time(NULL);
	struct tm utc;
	int err;

	aside->wanted = false;
	strftime(moment, sizeof(moment), "%Y%m%d-%H%M%S", gmtime_r(&now, &utc));
	snprintf(aside->file, sizeof(aside->file), "%s%s" SUFFIX, aside->prefix, moment);
	snprintf(length, sizeof(length), "%llums", aside->options->save_last_ns / 1000000);
	err = (size_t)snprintf(output, sizeof(output), "%s/%s", aside->directory, aside->file) < sizeof(output)
		      ? spawn(aside, output, length)
		      : -ENAMETOOLONG;
	if (err)
		tell_failure(aside, strerror(-err));
}

/* The first line that it printed, without what it begins with. */
static void read_words(struct aside *aside, char *out, size_t size)
{
	static const char begin[] = "lockline: ";
	ssize_t got = read(aside->words, out, size - 1);

	out[got > 0 ? got : 0] = 0;
	out[strcspn(out, "\n")] = 0;
	if (!strncmp(out, begin, strlen(begin)))
		memmove(out, out + strlen(begin), strlen(out + strlen(begin)) + 1);
	close(aside->words);
	aside->words = -1;
}

static void end(struct aside *aside, int status)
{
	char words[256], shown[VALUE_SHOWN];

	aside->pid = 0;
	read_words(aside, words, sizeof(words));
	if (WIFEXITED(status) && !WEXITSTATUS(status)) {
		prune(aside, aside->options->saves);
		message_at(priority(NOTICE), "%s; what led to it is saved in %s/%s", aside->why, aside->directory,
			   aside->file);
	} else if (WIFEXITED(status)) {
		tell_failure(aside, *words ? show(words, shown) : "lockline save failed");
	} else {
		tell_failure(aside, "lockline save was interrupted");
	}
}

void aside_tick(struct aside *aside, __s64 interval)
{
	int status;

	if (aside->pid && waitpid(aside->pid, &status, WNOHANG) == aside->pid)
		end(aside, status);
	if (aside->wanted && interval > aside->interval)
		start(aside);
}

void aside_close(struct aside *aside)
{
	int status, left = PATIENCE_MS / STEP_MS;

	if (aside->pid) {
		/* As Ctrl-C: it removes what it has not finished. */
		kill(aside->pid, SIGINT);
		while (!waitpid(aside->pid, &status, WNOHANG)) {
			if (!left--)
				kill(aside->pid, SIGKILL);
			usleep(STEP_MS * 1000);
		}
		end(aside, status);
	} else if (aside->wanted) {
		tell_failure(aside, "the recording ended");
	}
	free(aside->program);
	free(aside->directory);
	free(aside->prefix);
	*aside = (struct aside){.words = -1};
}
