/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a process has mapped from files: one module for each run of mappings of the same file. */
#ifndef LOCKLINE_USER_MODULES_H
#define LOCKLINE_USER_MODULES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>
#include <linux/types.h>

struct user_module {
	__u64 start;
	__u64 end;
	__u64 behind;      /* end of the memory without a file right behind it, where .bss is */
	__u64 file_offset; /* of start */
	__u64 inode;
	__u32 major, minor;
	bool vdso;
	__u64 object; /* of naming_client.h; 0: none yet */
	bool refused; /* its file could not be opened */
	char *path;   /* as people know it */
};

/* Bounded: of a process with more modules, or longer paths, the rest is not in it. */
struct user_modules {
	struct user_module *list;
	unsigned int count;
};

/* Negative errno, with the modules as they were; else what was known of those that are still there is kept. */
int user_modules_read(struct user_modules *modules, __u32 tgid);
void user_modules_free(struct user_modules *modules);
struct user_module *user_modules_at(const struct user_modules *modules, __u64 address);
/* The file of a module, opened: a descriptor, or negative errno. */
int user_module_open(const struct user_module *module, __u32 tgid, struct stat *status);

/* A path without the kernel's mark of a deleted file. */
void user_module_path(char *out, size_t size, const char *path);

#endif /* LOCKLINE_USER_MODULES_H */
