/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What the collector and its naming helper say to each other: one request, one
 * answer, each a message of a SOCK_SEQPACKET socket.  A descriptor comes with
 * the request that names it, by SCM_RIGHTS; none ever comes with an answer.
 *
 * A question about a JVM is answered from that process's memory.  The helper cannot read it: it asks back for one
 * page after the other, before it answers, and gets no other process's.
 *
 * The helper is what may have been taken over by a hostile file: the collector
 * believes nothing of an answer but that it is text and numbers.
 */
#ifndef LOCKLINE_NAMING_PROTOCOL_H
#define LOCKLINE_NAMING_PROTOCOL_H

#include <linux/types.h>

#include "cpython/cpython_frames.h"
#include "hotspot/hotspot_monitors.h"
#include "elf/unwind.h"

/* Objects that the helper has open at once, by place. */
#define NAMING_OBJECTS 128
#define NAMING_NAME    256
/* CPU time for one request: enough for a debug file of gigabytes, and a file that wants more has no names. */
#define NAMING_CPU_SECONDS 2
/* What the helper may allocate; files are mapped, and do not count. */
#define NAMING_MEMORY_BYTES (256ull << 20)

enum naming_request_type {
	NAMING_OPEN = 1, /* with a descriptor: the object of this place from now on */
	NAMING_OPEN_VDSO,
	NAMING_OPEN_MAP, /* with a descriptor: a file of lines "begin size name"; a place's distance is then the address */
	NAMING_DEBUG,    /* with a descriptor: where the object's symbols are, if it has none itself */
	NAMING_CLOSE,
	NAMING_SYMBOL,      /* of an address: name and offset in it */
	NAMING_FIND,        /* the distance of a symbol's address, by its exact name */
	NAMING_CODE_AT,     /* what is at an offset of the file, which no process has mapped there any more */
	NAMING_VARIABLE_AT, /* likewise, and it is no code */
	NAMING_UNWIND, /* with a struct naming_stack: frames as long as they are in the object, a struct naming_frames */
	NAMING_HOTSPOT, /* likewise: as long as they are in code that the JVM made, whose libjvm.so the object is */
	NAMING_HOTSPOT_MONITORS, /* of that JVM, from the thread that place.distance numbers on: a struct hotspot_monitors */
	NAMING_CPYTHON,          /* of the process's thread, whose interpreter the object is: a struct cpython_frames */
	NAMING_HOTSPOT_NAME, /* of a place.distance of that code, or of a method that such a frame is of */
};

/* Instead of an answer's error: the page at its offset is wanted; a struct naming_page is sent. */
#define NAMING_WANTS_PAGE 1

/* Likewise: the words at its offset's number of addresses, which are in its name, are wanted at the page's begin. */
#define NAMING_WANTS_WORDS 2

/* The run time of a process: HotSpot, or CPython. */
struct naming_runtime {
	__u64 number;      /* never another's; 0: none */
	__u64 start;       /* where the code of libjvm.so, or of the interpreter, is mapped */
	__u64 file_offset; /* which part of the file that is */
};

/* An address: so far behind where this offset of the object's file is mapped. */
struct naming_place {
	__u64 file_offset;
	__u64 distance;
};

struct naming_request {
	__u32 type;
	__u32 object; /* its place, below NAMING_OBJECTS */
	struct naming_place place;
	struct naming_runtime runtime; /* of NAMING_HOTSPOT and what follows it */
	struct cpython_thread thread;  /* of NAMING_CPYTHON */
	char name[NAMING_NAME];        /* of NAMING_FIND */
};

struct naming_answer {
	__s32 error;     /* 0 or negative errno */
	__u32 id_size;   /* build id of NAMING_OPEN; 0: it has none */
	__u64 offset;    /* NAMING_SYMBOL: in the symbol; NAMING_FIND: the distance */
	__u64 allocated; /* bytes that the helper holds now */
	__u8 id[32];
	char name[NAMING_NAME]; /* "": none */
};

/* The copy of the top of a stack, and how many frames are made of it. */
#define NAMING_STACK_BYTES 8192
#define NAMING_FRAMES      24

/* Follows a request: where a stack has come to, and the mapping of code that this is in. */
struct naming_stack {
	struct unwind_state state;
	__u64 start, end, file_offset; /* of the mapping */
	__u64 address;                 /* of the copy */
	__u32 size;                    /* of the copy */
	__u32 most;                    /* frames */
	__u32 called;                  /* the state's pc is a return address */
	__u32 leaf;                    /* it is the innermost frame: found by the frame table, or not at all */
	__u8 bytes[NAMING_STACK_BYTES];
};

/* Follows the answer of NAMING_UNWIND and NAMING_HOTSPOT. */
struct naming_frames {
	struct unwind_state state; /* of the next frame, in another mapping, if end is 0 */
	__u64 pc[NAMING_FRAMES];   /* of a method that is interpreted or put into another: the method's address */
	__u32 count;
	__u32 called;
	__s32 end;     /* negative errno: there is no further frame */
	__u32 java;    /* bits of the frames that the JVM names */
	__u32 inlined; /* bits of those that were put into the next one, and are not on the stack */
	__u32 pad;
};

#define NAMING_PAGE_BYTES 4096

_Static_assert(TARGET_WORDS * sizeof(__u64) <= NAMING_NAME, "the addresses of words are in a name");

struct naming_page {
	__s32 error; /* 0 or negative errno */
	__u8 bytes[NAMING_PAGE_BYTES];
};

#endif /* LOCKLINE_NAMING_PROTOCOL_H */
