// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <linux/types.h>

#include "base/capabilities.h"
#include "base/patience.h"
#include "cli/options.h"
#include "recording/output_file.h"
#include "session/privileges.h"

static const struct {
	const char *name;
	int number;
} kept[] = {
	{"CAP_BPF", CAP_BPF},               /* maps and programs */
	{"CAP_PERFMON", CAP_PERFMON},       /* perf events; programs that read the kernel */
	{"CAP_SYS_ADMIN", CAP_SYS_ADMIN},   /* BPF statistics, for lockline's own cost; /proc/TID/stack */
	{"CAP_SYS_PTRACE", CAP_SYS_PTRACE}, /* what processes have mapped; futex words */
	{"CAP_CHECKPOINT_RESTORE", CAP_CHECKPOINT_RESTORE}, /* /proc/PID/map_files */
	{"CAP_DAC_READ_SEARCH", CAP_DAC_READ_SEARCH},       /* files that processes have mapped */
	{"CAP_SYSLOG", CAP_SYSLOG},                         /* addresses in /proc/kallsyms */
	{"CAP_IPC_LOCK", CAP_IPC_LOCK},                     /* rings of perf events */
	{"CAP_KILL", CAP_KILL},                             /* COMMAND, whoever it has become */
	{"CAP_SETUID", CAP_SETUID},                         /* the naming helper becomes nobody, */
	{"CAP_SETGID", CAP_SETGID},                         /* in no group, */
	{"CAP_SYS_CHROOT", CAP_SYS_CHROOT},                 /* in an empty directory, */
	{"CAP_SETPCAP", CAP_SETPCAP},                       /* and gives up all the rest */
	{"CAP_DAC_OVERRIDE", CAP_DAC_OVERRIDE},             /* the recording's directory, if it is somebody else's */
	{"CAP_CHOWN", CAP_CHOWN},                           /* the recording becomes the user's who called sudo */
};

/* SQLite makes the journal's files anew beside the recording. */
static bool may_write_beside(const char *path)
{
	char directory[PATH_MAX];
	struct stat status;
	char *slash;

	if (snprintf(directory, sizeof(directory), "%s", path) >= (int)sizeof(directory))
		return false;
	slash = strrchr(directory, '/');
	if (slash == directory)
		slash[1] = 0;
	else if (slash)
		*slash = 0;
	if (stat(slash ? directory : ".", &status))
		return false;
	return (status.st_uid == geteuid() && status.st_mode & S_IWUSR) || status.st_mode & S_IWOTH;
}

static bool is_wanted(int number, const struct options *options)
{
	if (number == CAP_DAC_OVERRIDE)
		return options->output && !may_write_beside(options->output);
	if (number == CAP_CHOWN)
		return output_file_has_user();
	return number != CAP_KILL || options->command_argv;
}

static __u64 wanted(const struct options *options)
{
	__u64 mask = 0;

	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++)
		if (is_wanted(kept[i].number, options))
			mask |= 1ull << kept[i].number;
	return mask;
}

static int keep_alone(__u64 mask)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data))
		return -errno;
	for (int number = 0; number < 64; number++)
		if (!(mask >> number & 1))
			prctl(PR_CAPBSET_DROP, number, 0, 0, 0);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	for (int half = 0; half < 2; half++) {
		data[half].effective &= mask >> 32 * half;
		data[half].permitted &= mask >> 32 * half;
		data[half].inheritable = 0;
	}
	return syscall(SYS_capset, &header, data) ? -errno : 0;
}

static void name_kept(__u64 mask, char *out, size_t size)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {};
	size_t used = 0;

	syscall(SYS_capget, &header, data);
	*out = 0;
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]) && used < size; i++)
		if (mask >> kept[i].number & data[kept[i].number / 32].effective >> kept[i].number % 32 & 1)
			used += snprintf(out + used, size - used, "%s%s", used ? " " : "", kept[i].name);
}

void privileges_drop(const struct options *options, char *out, size_t size)
{
	int err = keep_alone(wanted(options));

	/* The next ones have no more rights than this process. */
	patience_end();
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		err = err ?: -errno;
	if (err)
		snprintf(out, size, "all: %s", strerror(-err));
	else
		name_kept(~0ull, out, size);
}

void privileges_expected(const struct options *options, char *out, size_t size)
{
	name_kept(wanted(options), out, size);
	if (!*out)
		snprintf(out, size, "none");
}
