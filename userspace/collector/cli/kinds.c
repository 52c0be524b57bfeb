// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/kinds.h"

const char *const kind_names[KIND_COUNT] = {
	[KIND_SPINLOCK] = "spinlock",
	[KIND_RWLOCK_READ] = "rwlock:R",
	[KIND_RWLOCK_WRITE] = "rwlock:W",
	[KIND_MUTEX] = "mutex",
	[KIND_MUTEX_SPIN] = "mutex-spin",
	[KIND_RWSEM_READ] = "rwsem:R",
	[KIND_RWSEM_WRITE] = "rwsem:W",
	[KIND_RTMUTEX] = "rtmutex",
	[KIND_RWLOCK_RT_READ] = "rwlock-rt:R",
	[KIND_RWLOCK_RT_WRITE] = "rwlock-rt:W",
	[KIND_PERCPU_RWSEM_READ] = "pcpu-sem:R",
	[KIND_PERCPU_RWSEM_WRITE] = "pcpu-sem:W",
	[KIND_SEMAPHORE] = "semaphore",
	[KIND_UNKNOWN] = "unknown",
	[KIND_RQSPINLOCK] = "rqspinlock",
};

#define R(kind) (1u << KIND_##kind##_READ)
#define W(kind) (1u << KIND_##kind##_WRITE)

static const struct {
	const char *word;
	__u32 mask;
} kinds[] = {
	{"spinlock", 1u << KIND_SPINLOCK},
	{"rwlock", R(RWLOCK) | W(RWLOCK)},
	{"rwlock:R", R(RWLOCK)},
	{"rwlock:W", W(RWLOCK)},
	{"mutex", 1u << KIND_MUTEX | 1u << KIND_MUTEX_SPIN},
	{"mutex-spin", 1u << KIND_MUTEX_SPIN},
	{"rwsem", R(RWSEM) | W(RWSEM)},
	{"rwsem:R", R(RWSEM)},
	{"rwsem:W", W(RWSEM)},
	{"rtmutex", 1u << KIND_RTMUTEX},
	{"rwlock-rt", R(RWLOCK_RT) | W(RWLOCK_RT)},
	{"rwlock-rt:R", R(RWLOCK_RT)},
	{"rwlock-rt:W", W(RWLOCK_RT)},
	{"pcpu-sem", R(PERCPU_RWSEM) | W(PERCPU_RWSEM)},
	{"pcpu-sem:R", R(PERCPU_RWSEM)},
	{"pcpu-sem:W", W(PERCPU_RWSEM)},
	{"semaphore", 1u << KIND_SEMAPHORE},
	{"rqspinlock", 1u << KIND_RQSPINLOCK},
};

int parse_kinds(const char *text, __u32 *out, char why[VALUE_WHY])
{
	__u32 mask = 0;

	for (const char *word = text;; word++) {
		size_t length = strcspn(word, ","), i;

		for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			if (strlen(kinds[i].word) == length && !strncmp(kinds[i].word, word, length))
				break;
		if (i == sizeof(kinds) / sizeof(kinds[0])) {
			snprintf(why, VALUE_WHY, "no such kind of lock; there are " KIND_WORDS);
			return -EINVAL;
		}
		mask |= kinds[i].mask;
		word += length;
		if (!*word)
			break;
	}
	*out = mask;
	return 0;
}
