/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Symbols and frames of files that processes have mapped.  A helper without privileges
 * reads the files: see naming_helper.h.  If it dies over a file, or needs too
 * long, it is started again, and what is in that file has no names.
 *
 * One thread at a time.
 */
#ifndef LOCKLINE_NAMING_CLIENT_H
#define LOCKLINE_NAMING_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <linux/types.h>

#include "helper/naming_protocol.h"

struct naming_client;

struct naming_counts {
	__u64 restarts; /* the helper died, or was ended for its time */
	__u64 objects;  /* files whose addresses have no names for it */
	__u64 refused;  /* requests that found no helper: it had died too often */
	__u64 cpu_ns;   /* of all helpers */
};

int naming_client_open(struct naming_client **out);
void naming_client_close(struct naming_client *client);

/*
 * A number for the file, the same for the same inode as long as it is not
 * written; takes the descriptor.  0: it has no names.
 */
__u64 naming_client_object(struct naming_client *client, int fd, const struct stat *status);
/* The same of a file of names of code that was made at run time. */
__u64 naming_client_map(struct naming_client *client, int fd, const struct stat *status);
/* The vDSO; 0: it has no names. */
__u64 naming_client_vdso(struct naming_client *client);
/* Whether the number still stands for an object: of those that are used least it is forgotten. */
bool naming_client_has(const struct naming_client *client, __u64 object);

/* name "" if it has none; -ERANGE: the address belongs to another mapping; -EAGAIN: it may be told later. */
int naming_client_symbol(struct naming_client *client, __u64 object, const struct naming_place *place, char *name,
			 size_t size, __u64 *offset);
/* How far behind file_offset the symbol is mapped; -ENOENT; -EIO: the helper did not get through the file. */
int naming_client_find(struct naming_client *client, __u64 object, __u64 file_offset, const char *name,
		       __u64 *distance);

/* What is at an offset of the file; variable: no code.  -ENOENT: nothing that has a name. */
int naming_client_at(struct naming_client *client, __u64 object, __u64 file_offset, bool variable, char *name,
		     size_t size, __u64 *offset);

/* Frames of a stack as long as their code is in the object; -ENOENT: its leaf's code is not in a frame table. */
int naming_client_unwind(struct naming_client *client, __u64 object, const struct naming_stack *stack,
			 struct naming_frames *frames);

/* Frames as long as their code was made by the JVM, whose libjvm.so the object is; its memory is read of tgid. */
int naming_client_hotspot(struct naming_client *client, __u64 object, __u32 tgid, const struct naming_runtime *jvm,
			  const struct naming_stack *stack, struct naming_frames *frames);
/* Who waits for a monitor of that JVM now; cursor: of the look before.  Counts are within their bounds. */
int naming_client_monitors(struct naming_client *client, __u64 object, __u32 tgid, const struct naming_runtime *jvm,
			   __u32 cursor, struct hotspot_monitors *monitors);
/* Functions of Python that a thread is in now, by the interpreter's object. */
int naming_client_python(struct naming_client *client, __u64 object, __u32 tgid,
			 const struct naming_runtime *interpreter, const struct cpython_thread *thread,
			 struct cpython_frames *frames);
/* name "" if it has none. */
int naming_client_hotspot_name(struct naming_client *client, __u64 object, __u32 tgid, const struct naming_runtime *jvm,
			       __u64 address, char *name, size_t size, __u64 *offset);

/* Called again and again while an answer is waited for; NULL: nothing is. */
void naming_client_meanwhile(struct naming_client *client, int (*call)(void *context), void *context);
/* From any thread: the request that runs ends soon, and further ones at once, without an answer. */
void naming_client_give_up(struct naming_client *client);
void naming_client_counts(const struct naming_client *client, struct naming_counts *out);

#endif /* LOCKLINE_NAMING_CLIENT_H */
