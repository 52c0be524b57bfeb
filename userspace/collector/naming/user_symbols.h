/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Names of addresses of processes; a bounded cache of processes.  A hostile file may keep a call for seconds: where
 * rings are read meanwhile, naming_queue.h asks from a thread of its own.
 */
#ifndef LOCKLINE_USER_SYMBOLS_H
#define LOCKLINE_USER_SYMBOLS_H

#include <stddef.h>
#include <linux/types.h>

struct user_symbols;
struct naming_client;

int user_symbols_open(struct user_symbols **out, unsigned int max_processes);
void user_symbols_close(struct user_symbols *users);
/*
 * name and module are copied; name is "" if unknown, module "" if unmapped or gone.  -EAGAIN: the module's file does
 * not answer now, and may have a name later.
 */
int user_symbols_lookup(struct user_symbols *users, __u32 tgid, __u64 address, char *name, size_t name_size,
			__u64 *offset, char *module, size_t module_size);

/* Address of a symbol by its exact name; -ENOENT; -ESRCH: no such process; -EIO: not all files could be read. */
int user_symbols_address(struct user_symbols *users, __u32 tgid, const char *name, __u64 *address);

/* Maps of code that was made at run time are read again, however lately that was done. */
void user_symbols_maps_again(struct user_symbols *users);

/* Its counts, and the end of a call that lasts. */
struct naming_client *user_symbols_client(struct user_symbols *users);

#endif /* LOCKLINE_USER_SYMBOLS_H */
