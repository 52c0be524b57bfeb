/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where in a Go program's code a goroutine that waits parks and goes on. */
#ifndef LOCKLINE_GO_CODE_H
#define LOCKLINE_GO_CODE_H

#include <stddef.h>
#include <linux/types.h>

struct user_symbols;

/* Bytes of a function that are looked at: of those of sync that lead to the runtime; of one of the runtime's own. */
#define GO_SYNC_BYTES 256
#define GO_CODE_BYTES 4096

struct go_place {
	__u64 address;            /* of the function, in the process */
	__u64 file_offset;        /* in its program, /proc/PID/exe */
	__u8 code[GO_CODE_BYTES]; /* from there on; as the file has it */
	__u64 code_bytes;
};

/*
 * So many bytes of a function of the process's program; -ENOENT: it has none of this name.  -ESTALE: what is in memory there is not
 * what is in the file: nothing may be changed there.
 */
int go_place_find(struct user_symbols *users, __u32 tgid, const char *function, size_t bytes, struct go_place *out);

/* Of a call instruction. */
#if defined(__x86_64__)
#define GO_CALL_BYTES 5
#else
#define GO_CALL_BYTES 4
#endif

/* How far behind the begin of code at from the first call of target returns to; -ENOENT: there is no such call. */
long go_call_end(const __u8 *code, size_t bytes, __u64 from, __u64 target);

/*
 * How long the check of the stack's size at the begin of a function is; 0: there is none that is known.  Where the stack is
 * too small, or the runtime wants the goroutine to stop, the function begins once more: a probe at its begin would run
 * twice for one call.  The registers and the stack are those of the begin behind the check as well (Go 1.17 to 1.26,
 * stacksplit() in cmd/internal/obj/x86/obj6.go and arm64/obj7.go).
 */
size_t go_stack_check_bytes(const __u8 *code, size_t bytes);

#endif /* LOCKLINE_GO_CODE_H */
