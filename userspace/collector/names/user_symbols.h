/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Code of processes: elfutils (libdwfl), a bounded cache of processes.  Nothing here is called on a hot path. */
#ifndef LOCKLINE_USER_SYMBOLS_H
#define LOCKLINE_USER_SYMBOLS_H

#include <stddef.h>
#include <linux/types.h>

struct user_symbols;

int user_symbols_open(struct user_symbols **out, unsigned int max_processes);
void user_symbols_close(struct user_symbols *users);
/* name and module are copied; name is "" if unknown, module "" if unmapped or gone. */
int user_symbols_lookup(struct user_symbols *users, __u32 tgid, __u64 address, char *name, size_t name_size,
			__u64 *offset, char *module, size_t module_size);

/* Address of a symbol by its exact name; -ENOENT, or -ESRCH: no such process. */
int user_symbols_address(struct user_symbols *users, __u32 tgid, const char *name, __u64 *address);

#endif /* LOCKLINE_USER_SYMBOLS_H */
