/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What an instruction did to the watched bytes, by a disassembler (capstone).
 *
 * On x86-64 the exception comes after the instruction, so that the one before
 * the reported address is looked for, from the function's begin on; arm64
 * reports the instruction itself.
 */
#ifndef LOCKLINE_WATCH_CODE_H
#define LOCKLINE_WATCH_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#include "bpf/watch.h"
#include "watch/watch_instruction.h"

/* The one before ip, and the one at ip if it is a string instruction that goes on. */
struct watch_code {
	struct watch_instruction before;
	struct watch_instruction at;
};

struct watch_decoder;

enum watch_machine { MACHINE_X86, MACHINE_ARM64, MACHINE_HERE };

int watch_decoder_open(struct watch_decoder **out, enum watch_machine machine);
void watch_decoder_close(struct watch_decoder *decoder);
/*
 * text: size bytes at begin, where an instruction begins; ip lies in it.  -ENOENT: no such instruction can be told.
 */
int watch_decode(struct watch_decoder *decoder, const __u8 *text, size_t size, __u64 begin, __u64 ip,
		 struct watch_code *out);
/* Bytes before an instruction's end that are enough to be in step with it, wherever one begins. */
#define WATCH_BEFORE 256

/*
 * The same without knowing where instructions begin: text ends at ip.  With
 * fewer bytes than WATCH_BEFORE only what can be nothing else is taken.
 */
int watch_decode_back(struct watch_decoder *decoder, const __u8 *text, size_t size, __u64 ip, struct watch_code *out);

/* Whose code an access is, as far as that tells what becomes of an object. */
enum watch_toucher {
	TOUCHER_OTHER,
	TOUCHER_ALLOCATOR, /* gives objects out, or takes them back */
	TOUCHER_CLEARS,    /* sets memory of any kind */
	TOUCHER_INITS,     /* initialises a lock or a wait queue */
	TOUCHER_LOOKS,     /* reads for somebody who may not fault: our own looks among them */
};

struct watch_access {
	__u64 address; /* of the instruction */
	__u8 toucher;  /* enum watch_toucher; set by watch_decoding_find() */
	__u8 access;   /* ACCESS_*, by the instruction; 0: not known */
	__u8 offset;   /* in the line */
	bool placed;   /* by the instruction; else it is the watched bytes' own */
};

/* bytes: how many were watched from the record's offset on. */
void watch_place(const struct watch_code *code, const struct watch_record *record, unsigned int bytes,
		 struct watch_access *out);

#endif /* LOCKLINE_WATCH_CODE_H */
