/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which functions of Python a thread is in now, by what the interpreter's own structures say of its memory: CPython
 * 3.8 to 3.14.  A frame of Python is none of the C stack's: one call of the evaluation loop runs many.
 */
#ifndef LOCKLINE_CPYTHON_FRAMES_H
#define LOCKLINE_CPYTHON_FRAMES_H

#include "base/target_memory.h"

#define CPYTHON_FRAMES 8
#define CPYTHON_NAME   256
#define CPYTHON_OLDEST 8  /* 3.8 */
#define CPYTHON_TELLS  13 /* 3.13, the first one that tells where its structures have what */
#define CPYTHON_NEWEST 14

/* A thread of a process that runs CPython. */
struct cpython_thread {
	__u32 minor; /* of the version */
	__u32 tid;   /* as that process sees it */
	__u64 word;  /* not 0: not the thread's functions, but the one whose code this points into */
};

struct cpython_frame {
	__u64 code; /* the address of its code object */
	__u64 size; /* of it, with its instructions from 3.11 on; before, these are elsewhere, and it is 1 */
	char name[CPYTHON_NAME];
};

struct cpython_frames {
	__u32 count; /* innermost first */
	__u32 pad;
	struct cpython_frame list[CPYTHON_FRAMES];
};

/* What earlier looks found, which is believed for a while; all 0 at first. */
#define CPYTHON_KNOWN_THREADS 1024
#define CPYTHON_KNOWN_CODES   256
struct cpython_known {
	struct {
		__u64 number, state; /* the thread's, of that interpreter */
		__u32 tid;
	} threads[CPYTHON_KNOWN_THREADS];
	struct {
		__u64 number, ns;
		struct cpython_frame frame;
	} codes[CPYTHON_KNOWN_CODES];
};

/* Where a process has what. */
struct cpython_interpreter {
	__u64 number;    /* never another process's: children of a fork have their parent's addresses */
	__u64 runtime;   /* the address of _PyRuntime */
	__u64 code_type; /* of PyCode_Type */
};

/*
 * -ENODATA: a version whose structures are not known; -ENOENT: it has no such thread or code, or the thread runs no
 * Python.
 */
int cpython_frames_read(struct target_memory *memory, struct cpython_known *known, __u64 now_ns,
			const struct cpython_interpreter *interpreter, const struct cpython_thread *thread,
			struct cpython_frames *out);

#endif /* LOCKLINE_CPYTHON_FRAMES_H */
