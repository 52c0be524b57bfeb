// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Symbols of processes, by elfutils.  A process is reported to libdwfl once and
 * kept until others push it out; its objects are opened as the process maps
 * them, so that containers and replaced files give the right ones.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <elfutils/libdwfl.h>

#include "base/clock.h"
#include "names/debug_files.h"
#include "names/user_symbols.h"
#include "base/proc.h"
#include "base/regular_file.h"
#include "names/user_symbol_cache.h"

#define REFRESH_NS 1000000000ull

/* What tells a process from one that had its id before, or from itself before an exec. */
struct identity {
	__u64 start_time; /* clock ticks since boot; 0: gone */
	dev_t device;
	ino_t inode;
};

struct process {
	__u32 tgid; /* 0: free */
	struct identity identity;
	Dwfl *dwfl;
	__u64 used;         /* for the least recently used */
	__u64 refreshed_ns; /* mappings were read */
};

struct user_symbols {
	struct process *processes;
	unsigned int count;
	__u64 uses;
	struct user_symbol_cache *cache;
};

static struct identity identify(__u32 tgid)
{
	struct identity identity = {};
	struct process_stat process;
	struct stat status;
	char path[PROC_PATH];

	if (process_stat_read(tgid, &process))
		return identity;
	proc_path(path, sizeof(path), tgid, "exe");
	if (stat(path, &status))
		return identity;
	identity.start_time = process.start_time;
	identity.device = status.st_dev;
	identity.inode = status.st_ino;
	return identity;
}

/* libdwfl asks for the object of a module, whose user data is the process. */
static int find_elf(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, char **file_name,
		    Elf **elf)
{
	const __u32 tgid = (uintptr_t)*userdata;
	struct mapped_file mapped = {.tgid = tgid};
	struct proc_mapping mapping;
	int fd;

	/* The vDSO is read from the process's memory. */
	if (name[0] != '/')
		return dwfl_linux_proc_find_elf(module, userdata, name, base, file_name, elf);
	/* Where the process has unmapped it, what is at its path now may be anything. */
	if (proc_mapping_at(tgid, base, &mapping) || !mapping.inode)
		return -1;
	mapped.start = mapping.start;
	mapped.end = mapping.end;
	mapped.inode = mapping.inode;
	mapped.major = mapping.major;
	mapped.minor = mapping.minor;
	mapped.path = mapping.path;
	fd = mapped_file_open(&mapped, NULL);
	if (fd < 0)
		return -1;
	*file_name = strdup(name);
	return fd;
}

static const Dwfl_Callbacks callbacks = {
	.find_elf = find_elf,
	.find_debuginfo = find_installed_debuginfo,
};

static int set_process(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr start, void *tgid)
{
	*userdata = tgid;
	return DWARF_CB_OK;
}

static int report(struct process *process)
{
	int err;

	process->refreshed_ns = now_ns();
	dwfl_report_begin(process->dwfl);
	err = dwfl_linux_proc_report(process->dwfl, process->tgid);
	dwfl_report_end(process->dwfl, NULL, NULL);
	if (err)
		return err < 0 ? -EINVAL : -err;
	dwfl_getmodules(process->dwfl, set_process, (void *)(uintptr_t)process->tgid, 0);
	return 0;
}

static void forget(struct process *process)
{
	if (process->dwfl)
		dwfl_end(process->dwfl);
	*process = (struct process){};
}

/* NULL if the process is gone and was not met before. */
static struct process *find_process(struct user_symbols *users, __u32 tgid)
{
	struct identity identity = identify(tgid);
	struct process *process = NULL, *oldest = users->processes;

	for (unsigned int i = 0; i < users->count; i++) {
		if (users->processes[i].tgid == tgid)
			process = &users->processes[i];
		if (users->processes[i].used < oldest->used)
			oldest = &users->processes[i];
	}
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
		process->dwfl = dwfl_begin(&callbacks);
		if (!process->dwfl)
			return NULL;
		process->tgid = tgid;
		process->identity = identity;
		if (report(process)) {
			forget(process);
			return NULL;
		}
	}
	process->used = ++users->uses;
	return process;
}

static Dwfl_Module *module_at(struct process *process, __u64 address)
{
	Dwfl_Module *module = dwfl_addrmodule(process->dwfl, address);
	Dwarf_Addr start, end;

	/* libdwfl widens modules to whole segments, over what is mapped behind them. */
	if (module)
		dwfl_module_info(module, NULL, &start, &end, NULL, NULL, NULL, NULL);
	return module && address >= start && address < end ? module : NULL;
}

static Dwfl_Module *find_module(struct process *process, __u64 address)
{
	Dwfl_Module *module = module_at(process, address);

	/* It may have loaded a library since. */
	if (!module && now_ns() - process->refreshed_ns > REFRESH_NS && !report(process))
		module = module_at(process, address);
	return module;
}

static void copy_path(char *out, size_t size, const char *path)
{
	const char *deleted = strstr(path, " (deleted)");

	snprintf(out, size, "%.*s", deleted ? (int)(deleted - path) : (int)strlen(path), path);
}

int user_symbols_lookup(struct user_symbols *users, __u32 tgid, __u64 address, char *name, size_t name_size,
			__u64 *offset, char *module, size_t module_size)
{
	const unsigned char *id = NULL;
	const char *symbol, *path;
	struct process *process;
	struct proc_mapping mapping;
	Dwfl_Module *found;
	GElf_Off in_symbol = 0;
	GElf_Addr id_address, base;
	GElf_Sym unused;
	int id_size;

	if (!name_size || !module_size)
		return -EINVAL;
	*name = *module = 0;
	*offset = 0;
	/* 0 marks a free place in the cache; no process has it. */
	process = tgid ? find_process(users, tgid) : NULL;
	if (!process)
		return 0;
	found = find_module(process, address);
	if (!found) {
		/* Code that was made at run time, or a file that is no ELF object. */
		if (!proc_mapping_at(tgid, address, &mapping))
			copy_path(module, module_size, *mapping.path ? mapping.path : "[anon]");
		return 0;
	}
	path = dwfl_module_info(found, NULL, &base, NULL, NULL, NULL, NULL, NULL);
	/* elfutils adds the process to the vDSO's name. */
	copy_path(module, module_size, path && strncmp(path, "[vdso", 5) ? path : "[vdso]");
	id_size = dwfl_module_build_id(found, &id, &id_address);
	/* libdwfl looks at all symbols of the file for each address. */
	if (user_symbol_cache_find(users->cache, id, id_size, address - base, name, name_size, offset))
		return 0;
	symbol = dwfl_module_addrinfo(found, address, &in_symbol, &unused, NULL, NULL, NULL);
	if (symbol) {
		snprintf(name, name_size, "%s", symbol);
		*offset = in_symbol;
	}
	id_size = dwfl_module_build_id(found, &id, &id_address);
	user_symbol_cache_put(users->cache, id, id_size, address - base, name, *offset);
	return 0;
}

int user_symbols_open(struct user_symbols **out, unsigned int max_processes)
{
	struct user_symbols *users = calloc(1, sizeof(*users));

	if (!users)
		return -ENOMEM;
	users->count = max_processes ? max_processes : 1;
	users->processes = calloc(users->count, sizeof(*users->processes));
	if (!users->processes) {
		free(users);
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
	for (unsigned int i = 0; i < users->count; i++)
		forget(&users->processes[i]);
	user_symbol_cache_close(users->cache);
	free(users->processes);
	free(users);
}

struct sought {
	const char *name;
	__u64 address;
};

static int seek_symbol(Dwfl_Module *module, void **userdata, const char *name, Dwarf_Addr base, void *data)
{
	int count = dwfl_module_getsymtab(module);
	struct sought *sought = data;

	for (int i = 0; i < count; i++) {
		GElf_Sym symbol;
		GElf_Addr address;
		const char *found = dwfl_module_getsym_info(module, i, &symbol, &address, NULL, NULL, NULL);

		if (!found || symbol.st_shndx == SHN_UNDEF || strcmp(found, sought->name))
			continue;
		sought->address = address;
		return DWARF_CB_ABORT;
	}
	return DWARF_CB_OK;
}

int user_symbols_address(struct user_symbols *users, __u32 tgid, const char *name, __u64 *address)
{
	struct process *process = tgid ? find_process(users, tgid) : NULL;
	struct sought sought = {.name = name};

	if (!process)
		return -ESRCH;
	dwfl_getmodules(process->dwfl, seek_symbol, &sought, 0);
	*address = sought.address;
	return sought.address ? 0 : -ENOENT;
}
