// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Symbols of processes.  A process's mappings are read once and kept until
 * others push it out; its files are opened as the process maps them, so that
 * containers and replaced files give the right ones.  What is in a file is read
 * by the naming helper.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/patience.h"
#include "base/proc.h"
#include "base/proc_mapping.h"
#include "base/small_file.h"
#include "naming/naming_client.h"
#include "naming/perf_map.h"
#include "naming/user_modules.h"
#include "naming/user_symbol_cache.h"
#include "naming/user_symbols.h"

/* Its mappings are read again when an address is in none of them, and after a while in any case. */
#define REFRESH_NS 1000000000ull
#define STALE_NS   (10 * REFRESH_NS)
/* Maps of code take this part of the helper's time at most, those of one process: it may write them all the while. */
#define MAP_COST 64
/* It is taken for the same process so long after it was looked at. */
#define IDENTIFIED_NS 20000000ull

/* What tells a process from one that had its id before, or from itself before an exec. */
struct identity {
	__u64 start_time; /* clock ticks since boot; 0: gone */
	dev_t device;
	ino_t inode;
};

struct process {
	__u32 tgid; /* 0: free */
	struct identity identity;
	struct user_modules modules;
	__u64 used;         /* for the least recently used */
	__u64 refreshed_ns; /* mappings were read */
	__u64 identified_ns;
	struct perf_map map;
	__u64 map_object;  /* of its file, as it was then; 0: it has none */
	__u64 map_next_ns; /* it is not looked for before */
};

struct user_symbols {
	struct process *processes;
	unsigned int count;
	__u64 uses;
	struct naming_client *client;
	struct user_symbol_cache *cache;
};

/* A reader got no CPU in time, or there is no place for another one now: that passes. */
static bool passes(int err)
{
	return err == -EAGAIN || err == -EBUSY || err == -ETIMEDOUT;
}

static int identify(__u32 tgid, struct identity *identity)
{
	struct process_stat process;
	struct stat status;
	int err;

	*identity = (struct identity){};
	if (process_stat_read(tgid, &process))
		return -ESRCH;
	err = patience_program(tgid, &status);
	if (err)
		return err;
	identity->start_time = process.start_time;
	identity->device = status.st_dev;
	identity->inode = status.st_ino;
	return 0;
}

static int refresh(struct process *process)
{
	process->refreshed_ns = now_ns();
	return user_modules_read(&process->modules, process->tgid);
}

static void forget(struct process *process)
{
	user_modules_free(&process->modules);
	*process = (struct process){};
}

/* NULL if the process is gone and was not met before; *err: -EAGAIN if that is not sure. */
static struct process *find_process(struct user_symbols *users, __u32 tgid, int *err)
{
	struct process *process = NULL, *oldest = users->processes;
	struct identity identity;

	*err = 0;
	for (unsigned int i = 0; i < users->count; i++) {
		if (users->processes[i].tgid == tgid)
			process = &users->processes[i];
		if (users->processes[i].used < oldest->used)
			oldest = &users->processes[i];
	}
	/* The frames of a stack come one after the other. */
	if (process && now_ns() - process->identified_ns < IDENTIFIED_NS) {
		process->used = ++users->uses;
		return process;
	}
	*err = passes(identify(tgid, &identity)) ? -EAGAIN : 0;
	if (process && identity.start_time &&
	    (process->identity.start_time != identity.start_time || process->identity.device != identity.device ||
	     process->identity.inode != identity.inode)) {
		forget(process);
		oldest = process;
		process = NULL;
	}
	if (!process) {
		if (!identity.start_time)
			return NULL;
		process = oldest;
		forget(process);
		process->tgid = tgid;
		process->identity = identity;
		perf_map_find(&process->map, tgid, identity.start_time);
		*err = refresh(process);
		if (*err) {
			*err = passes(*err) ? -EAGAIN : 0;
			forget(process);
			return NULL;
		}
	}
	process->identified_ns = now_ns();
	process->used = ++users->uses;
	return process;
}

static struct user_module *find_module(struct process *process, __u64 address)
{
	struct user_module *module = user_modules_at(&process->modules, address);
	const __u64 age = now_ns() - process->refreshed_ns;

	/* It may have loaded a library since, or have another one there. */
	if ((age > STALE_NS || (!module && age > REFRESH_NS)) && !refresh(process))
		module = user_modules_at(&process->modules, address);
	return module;
}

/* 0: it has no names; *err: -EAGAIN if it may have some later. */
static __u64 object_of(struct user_symbols *users, const struct process *process, struct user_module *module, int *err)
{
	struct stat status;
	int fd;

	*err = 0;
	if (module->object && naming_client_has(users->client, module->object))
		return module->object;
	if (module->refused)
		return 0;
	if (module->vdso) {
		/* The helper's own, which a program of 32 bits does not have. */
		module->object = module->start >> 32 ? naming_client_vdso(users->client) : 0;
		return module->object;
	}
	fd = user_module_open(module, process->tgid, &status);
	*err = passes(fd) ? -EAGAIN : 0;
	module->refused = fd < 0 && !*err;
	module->object = fd < 0 ? 0 : naming_client_object(users->client, fd, &status);
	return module->object;
}

/* -ERANGE: the address belongs to what is mapped behind the module; -EAGAIN: to the module, whose file does not answer. */
static int name_in_module(struct user_symbols *users, const struct process *process, struct user_module *module,
			  __u64 address, char *name, size_t size, __u64 *offset)
{
	const struct naming_place place = {module->file_offset, address - module->start};
	int err;
	__u64 object = object_of(users, process, module, &err);

	if (!object)
		return address < module->end ? err : -ERANGE;
	if (user_symbol_cache_find(users->cache, object, &place, name, size, offset))
		return 0;
	err = naming_client_symbol(users->client, object, &place, name, size, offset);
	if (err && address >= module->end)
		return -ERANGE;
	/* A file of another kind has no symbols, whatever else is asked of it. */
	if (!err)
		user_symbol_cache_put(users->cache, object, &place, name, *offset);
	return err == -EAGAIN ? err : 0;
}

static __u64 helper_cpu_ns(const struct user_symbols *users)
{
	struct naming_counts counts;

	naming_client_counts(users->client, &counts);
	return counts.cpu_ns;
}

/* Code that was made at run time; the file may have been written since it was read. */
static bool name_in_map(struct user_symbols *users, struct process *process, __u64 address, char *name, size_t size,
			__u64 *offset)
{
	const struct naming_place place = {.distance = address};
	const __u64 begin_ns = helper_cpu_ns(users);
	__u64 pause_ns;
	struct stat status;
	int fd;

	*name = 0;
	if (process->map_object)
		naming_client_symbol(users->client, process->map_object, &place, name, size, offset);
	if (*name || now_ns() < process->map_next_ns)
		return *name;
	fd = perf_map_open(&process->map, &status);
	process->map_object = fd < 0 ? 0 : naming_client_map(users->client, fd, &status);
	if (process->map_object)
		naming_client_symbol(users->client, process->map_object, &place, name, size, offset);
	pause_ns = MAP_COST * (helper_cpu_ns(users) - begin_ns);
	process->map_next_ns = now_ns() + (pause_ns > REFRESH_NS ? pause_ns : REFRESH_NS);
	return *name;
}

void user_symbols_maps_again(struct user_symbols *users)
{
	for (unsigned int i = 0; i < users->count; i++)
		users->processes[i].map_next_ns = 0;
}

int user_symbols_lookup(struct user_symbols *users, __u32 tgid, __u64 address, char *name, size_t name_size,
			__u64 *offset, char *module, size_t module_size)
{
	struct proc_mapping mapping;
	struct user_module *found;
	struct process *process;
	int err = -ERANGE;

	if (!name_size || !module_size)
		return -EINVAL;
	*name = *module = 0;
	*offset = 0;
	/* 0 marks a free place in the cache; no process has it. */
	process = tgid ? find_process(users, tgid, &err) : NULL;
	if (!process)
		return tgid ? err : 0;
	err = -ERANGE;
	found = find_module(process, address);
	if (found)
		err = name_in_module(users, process, found, address, name, name_size, offset);
	if (err != -ERANGE) {
		snprintf(module, module_size, "%s", found->path);
	} else if (!proc_mapping_at(tgid, address, &mapping)) {
		/* Code that was made at run time, a stack, a heap. */
		user_module_path(module, module_size, *mapping.path ? mapping.path : "[anon]");
		/* A file that it has mapped since its mappings were read. */
		if (!found && mapping.inode && now_ns() - process->refreshed_ns < REFRESH_NS)
			err = -EAGAIN;
	}
	if (!*name && name_in_map(users, process, address, name, name_size, offset))
		snprintf(module, module_size, "%s", process->map.path);
	make_printable(module);
	return err == -EAGAIN && !*name ? err : 0;
}

int user_symbols_open(struct user_symbols **out, unsigned int max_processes)
{
	struct user_symbols *users = calloc(1, sizeof(*users));

	if (!users)
		return -ENOMEM;
	users->count = max_processes ? max_processes : 1;
	users->processes = calloc(users->count, sizeof(*users->processes));
	if (!users->processes || naming_client_open(&users->client)) {
		user_symbols_close(users);
		return -ENOMEM;
	}
	/* Without it all is looked up as often as it is asked for. */
	users->cache = user_symbol_cache_open();
	*out = users;
	return 0;
}

void user_symbols_close(struct user_symbols *users)
{
	if (!users)
		return;
	for (unsigned int i = 0; users->processes && i < users->count; i++)
		forget(&users->processes[i]);
	naming_client_close(users->client);
	user_symbol_cache_close(users->cache);
	free(users->processes);
	free(users);
}

struct naming_client *user_symbols_client(struct user_symbols *users)
{
	return users->client;
}

int user_symbols_address(struct user_symbols *users, __u32 tgid, const char *name, __u64 *address)
{
	int err, opened;
	struct process *process = tgid ? find_process(users, tgid, &err) : NULL;

	err = -ENOENT;

	if (!process)
		return -ESRCH;
	for (unsigned int i = 0; i < process->modules.count; i++) {
		struct user_module *module = &process->modules.list[i];
		__u64 object = object_of(users, process, module, &opened), distance;
		int found = object   ? naming_client_find(users->client, object, module->file_offset, name, &distance)
			    : opened ? -EIO
				     : -ENOENT;

		if (!found) {
			*address = module->start + distance;
			return 0;
		}
		/* It may be in what was not read. */
		err = found == -ENOENT ? err : found;
	}
	return err;
}
