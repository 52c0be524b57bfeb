/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions of Python on sampled stacks of CPython.  The stack of C that is copied does not have them, and the
 * interpreter's own structures are read later: by then the thread may be elsewhere.  So they are believed if the
 * thread sleeps where the copy was taken, before and after they are read; or did so a moment ago.
 */
#ifndef LOCKLINE_PYTHON_STACKS_H
#define LOCKLINE_PYTHON_STACKS_H

#include <stdbool.h>
#include <linux/types.h>

#include "naming/naming_client.h"
#include "naming/user_symbol_cache.h"

#define PYTHON_THREADS 256

/* All 0 at first. */
struct python_stacks {
	struct python_thread {
		__u32 tgid; /* 0: free */
		__u32 tid;
		__u32 native; /* as the process itself sees it */
		__u32 count;
		__u64 sp, ns;
		__u64 codes[CPYTHON_FRAMES];
	} threads[PYTHON_THREADS];
	__u64 next_ns; /* nothing is read before */
	__u64 looks;
};

/* A process that runs CPython, and one of its threads whose stack was copied while it slept. */
struct python_asked {
	struct naming_client *client;
	struct user_symbol_cache *names; /* for what is found, by the interpreter's number */
	__u64 object;                    /* the interpreter's */
	const struct naming_jvm *interpreter;
	__u32 minor;
	__u32 tgid, tid;
	__u64 sp;
};

/* Whether a mapped file is CPython's interpreter, and of which version; library: libpython3.X.so. */
bool python_interpreter(const char *path, __u32 *minor, bool *library);
/* Puts them behind a stack's frames, of which there may be NAMING_FRAMES; how many there are then. */
int python_stacks_add(struct python_stacks *stacks, const struct python_asked *asked, __u64 *frames, int count);

#endif /* LOCKLINE_PYTHON_STACKS_H */
