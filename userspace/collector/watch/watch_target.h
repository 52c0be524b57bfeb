/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is to be watched, as people write it, and where that is. */
#ifndef LOCKLINE_WATCH_TARGET_H
#define LOCKLINE_WATCH_TARGET_H

#include <stdbool.h>
#include <linux/types.h>

#include "waits/locks.h"
#include "names/lock_names.h"

/* Where to look. */
struct watch_finder {
	struct lock_names *names;
	const struct symbols *symbols;
	struct user_symbols *users;
	struct lockline_bpf *bpf;
	const char *recording; /* -i; NULL: none */
};

struct watched {
	char target[160]; /* as it was asked for */
	__u64 address;    /* of the target */
	__u32 tgid;       /* of a user's address; 0: the kernel's */
	__u32 tid;        /* of the task whose member it is; 0: none */
	__u64 futex;      /* of that process, whose bucket in the process's own hash it is; 0: none */
	__u64 lock;       /* address of the lock that it is; 0: none, or not known */
	bool is_lock;     /* a lock is known to begin there */
	char type[64];    /* of the object that holds it, or "" */
	__u64 object;     /* where that begins */
	const char *from; /* how that is known; "" */
	char symbol[128]; /* data symbol that covers it, or "" */
	__u64 symbol_offset;
	char mapping[256]; /* path of a user's object */
};

/* Says why not. */
int watch_target_find(const struct watch_finder *finder, const char *text, struct watched *out);
/* The same of a lock that was met: its line. */
int watch_target_lock(const struct watch_finder *finder, __u64 address, const char *name, struct watched *out);
/* The task_struct of a thread; -ESRCH: there is none. */
int watch_target_task(const struct watch_finder *finder, __u32 tid, __u64 *task);
/* As in recording.sql: how the type of a lock's object is known. */
const char *watch_type_from(enum name_source source);
/* Mask of the eighths of a line that must not be watched, and why. */
__u32 watch_forbidden(const struct watch_finder *finder, __u64 line, const char **why);

#endif /* LOCKLINE_WATCH_TARGET_H */
