/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Functions of Python on sampled stacks of CPython.  The stack of C that is copied does not have them, and the
 * interpreter's own structures are read later: by then the thread sleeps again, where another of its functions may have
 * called.  So they are believed if the copy points into the innermost function's code, at the same place as the stack
 * of the thread when they were read.
 */
#ifndef LOCKLINE_PYTHON_STACKS_H
#define LOCKLINE_PYTHON_STACKS_H

#include <stdbool.h>
#include <linux/types.h>

#include "naming/naming_client.h"
#include "naming/user_symbol_cache.h"

#define PYTHON_THREADS 256

#define PYTHON_FUNCTIONS 4
#define PYTHON_PLACES    256
#define PYTHON_WORDS     512
#define PYTHON_PAUSES    64

/* All 0 at first. */
struct python_stacks {
	struct python_thread {
		__u64 number; /* of its interpreter; 0: free */
		__u64 native_ns;
		__u32 tid;
		__u32 native; /* as the process itself sees it, when that was read */
		struct python_functions {
			__u64 sp, ns;
			__u64 size;  /* of the innermost one's code, */
			__u32 place; /* into which the stack has a pointer so far from sp */
			__u32 count;
			__u64 codes[CPYTHON_FRAMES];
		} functions[PYTHON_FUNCTIONS]; /* that it was in lately */
	} threads[PYTHON_THREADS];
	/* Where stacks with these callers point into the innermost function's code. */
	struct python_place {
		__u64 callers;
		__u32 place; /* so far from sp */
		bool known;
	} places[PYTHON_PLACES];
	struct python_word {
		__u64 number, word, ns;
		__u64 code; /* it points into; 0: into none */
	} words[PYTHON_WORDS];
	/* Of processes of which reading took long: their neighbours do not wait. */
	struct python_pause {
		__u64 number, next_ns;
		__u32 times; /* as long as the read before it; 0: the last one was short */
	} pauses[PYTHON_PAUSES];
	__u64 next_ns; /* no thread is looked at before */
	__u64 looks;
	__u64 next_word_ns; /* no word is */
	__u64 words_read;
};

/* A process that runs CPython, and one of its threads whose stack was copied while it slept. */
struct python_asked {
	struct naming_client *client;
	struct user_symbol_cache *names; /* for what is found, by the interpreter's number */
	__u64 object;                    /* the interpreter's */
	const struct naming_runtime *interpreter;
	__u32 minor;
	__u32 tgid, tid;
	bool may_look;      /* at the thread, for what is not known */
	bool may_read_word; /* which costs less */
	__u64 sp;
	const __u8 *stack; /* the copy, from sp on */
	__u32 size;
};

/* Whether a mapped file is CPython's interpreter, and of which version; library: libpython3.X.so. */
bool python_interpreter(const char *path, __u32 *minor, bool *library);
/* Puts them behind a stack's frames, of which there may be NAMING_FRAMES; how many there are then. */
int python_stacks_add(struct python_stacks *stacks, const struct python_asked *asked, __u64 *frames, int count);

#endif /* LOCKLINE_PYTHON_STACKS_H */
