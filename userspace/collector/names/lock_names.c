// SPDX-License-Identifier: GPL-2.0-or-later
/* The best name for a lock: the candidates in order of what they are worth. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "names/lock_hints.h"
#include "base/proc.h"
#include "names/lock_names.h"
#include "names/slab_names.h"
#include "names/symbols.h"

/* Variables without a symbol: .bss and .brk behind the last symbol of a kernel without KALLSYMS_ALL. */
#define IMAGE_SLACK (64u << 20)

const char *const name_source_names[NAME_SOURCES] = {
	[NAME_UNKNOWN] = "unknown",    [NAME_SYMBOL] = "symbol", [NAME_PERCPU] = "per-CPU symbol",
	[NAME_OWNER] = "owner object", [NAME_SLAB] = "slab",     [NAME_CALL_SITE] = "call site",
};

static const char *const owner_types[OWNER_COUNT] = {
	[OWNER_TASK] = "task_struct",       [OWNER_MM] = "mm_struct",       [OWNER_SIGNAL] = "signal_struct",
	[OWNER_SIGHAND] = "sighand_struct", [OWNER_FILES] = "files_struct",
};

static int symbol_name(struct lock_names *names, const struct lock_hint *hint, struct lock_name *out)
{
	struct kernel_type type;
	struct symbol symbol;
	const char *known;
	int err;

	/* Where the per-CPU section begins at 0 its symbols are offsets. */
	if (hint->address < names->image)
		return -ENOENT;
	err = symbols_lookup(names->symbols, hint->address, &symbol);
	if (err)
		return err;
	if (strchr("tTwW", symbol.type))
		return -ENOENT;
	out->source = NAME_SYMBOL;
	/* A variable often bears the name of its type. */
	known = hint_variable_type(symbol.name);
	type = names_struct(names, known ? known : symbol.name, symbol.module);
	if (type.id)
		names_object(&type, symbol.address, out);
	if (type.id && !names_member(&type, symbol.name, symbol.offset, hint->kind, out))
		return 0;
	snprintf(out->name, sizeof(out->name), "%s", symbol.name);
	if (symbol.offset)
		snprintf(out->instance, sizeof(out->instance), "+0x%llx", symbol.offset);
	return 0;
}

static int percpu_name(struct lock_names *names, const struct lock_hint *hint, struct lock_name *out)
{
	struct kernel_type type = {.types = names->types};
	const char *variable;
	struct symbol symbol;
	__u32 offset, inner;
	unsigned int cpu;

	if (!percpu_find(&names->percpu, hint->address, &cpu, &offset))
		return -ENOENT;
	if (type.types)
		type.id = types_percpu_variable(type.types, offset, &variable, &inner);
	if (type.id) {
		names_object(&type, hint->address - inner, out);
		if (names_member(&type, variable, inner, hint->kind, out))
			snprintf(out->name, sizeof(out->name), "%s", variable);
	} else {
		if (symbols_lookup(names->symbols, names->percpu.image + offset, &symbol))
			return -ENOENT;
		snprintf(out->name, sizeof(out->name), "%s", symbol.name);
	}
	snprintf(out->instance, sizeof(out->instance), "CPU %u", cpu);
	out->source = NAME_PERCPU;
	return 0;
}

static int owner_name(struct lock_names *names, const struct lock_hint *hint, struct lock_name *out)
{
	const char *name = hint->owner < OWNER_COUNT ? owner_types[hint->owner] : NULL;
	struct kernel_type type;

	if (!name)
		return -ENOENT;
	type = names_struct(names, name, "");
	if (type.id)
		names_object(&type, hint->address - hint->owner_offset, out);
	if (!type.id || names_member(&type, name, hint->owner_offset, hint->kind, out))
		snprintf(out->name, sizeof(out->name), "%s+0x%x", name, hint->owner_offset);
	snprintf(out->instance, sizeof(out->instance), "%s %u", hint->owner == OWNER_TASK ? "tid" : "pid",
		 hint->owner_id);
	out->source = NAME_OWNER;
	return 0;
}

/* zone->lock, lruvec->lru_lock: a node's data is no slab object.  Needs KALLSYMS_ALL. */
static void find_nodes(struct lock_names *names)
{
	__u64 table;

	if (symbols_address(names->symbols, "node_data", &table) ||
	    resolver_read(&names->resolver, table, names->nodes, sizeof(names->nodes)))
		memset(names->nodes, 0, sizeof(names->nodes));
}

static int node_name(struct lock_names *names, const struct lock_hint *hint, struct lock_name *out)
{
	struct kernel_type type = names_struct(names, "pglist_data", "");
	__s64 size = type.id ? types_size(type.types, type.id) : 0;
	char zone[16];

	for (size_t node = 0; node < NODES_MAX && size > 0; node++) {
		if (!names->nodes[node] || hint->address - names->nodes[node] >= (__u64)size)
			continue;
		if (names_member(&type, "pglist_data", hint->address - names->nodes[node], hint->kind, out))
			return -ENOENT;
		names_object(&type, names->nodes[node], out);
		snprintf(zone, sizeof(zone), "%.15s", out->instance);
		snprintf(out->instance, sizeof(out->instance), "node %zu%s%s", node, *zone ? " " : "", zone);
		out->source = NAME_SYMBOL;
		return 0;
	}
	return -ENOENT;
}

static void find_call_sites(const struct lock_names *names, const struct lock_hint *hint, struct call_sites *sites)
{
	bool internal = true;

	sites->count = 0;
	for (int i = 0; hint->frames && i < hint->frame_count && sites->count < CALL_SITES; i++) {
		struct symbol *site = &sites->site[sites->count];

		/* A return address can be that of the next function, if the call does not return. */
		if (!hint->frames[i] || symbols_lookup(names->symbols, hint->frames[i] - 1, site))
			continue;
		internal = internal && symbols_is_lock_internal(names->symbols, site);
		sites->count += !internal;
	}
}

static int futex_name(struct lock_names *names, const struct lock_hint *hint, const struct call_sites *sites,
		      struct lock_name *out)
{
	struct kernel_type type = names_struct(names, "futex_hash_bucket", "");
	__u32 offset, member;

	if (!sites->count || !hint_is_futex(sites->site[0].name, hint->kind) || !type.id ||
	    !types_member(type.types, type.id, "lock", &offset, &member))
		return -ENOENT;
	/* Buckets begin on a cache line. */
	if ((hint->address - offset) % CACHE_LINE)
		return -ENOENT;
	names_object(&type, hint->address - offset, out);
	snprintf(out->name, sizeof(out->name), "futex_hash_bucket.lock");
	out->source = NAME_CALL_SITE;
	return 0;
}

static int call_site_name(const struct lock_names *names, const struct lock_hint *hint, const struct call_sites *sites,
			  struct lock_name *out)
{
	bool in_image = hint->address >= names->image && hint->address < names->image_end;
	const char *known = NULL;

	if (in_image)
		known = code_locks_find(&names->code_locks, hint->address);
	if (!sites->count && !known)
		return -ENOENT;
	for (int i = 0; in_image && !known && i < 2 && i < sites->count; i++)
		known = hint_static_lock(sites->site[i].name, hint->kind);
	if (!in_image)
		known = hint_object_lock(sites->site[0].name, hint->kind);
	snprintf(out->name, sizeof(out->name), "%s", known ? known : sites->site[0].name);
	/* The same in every boot of this kernel, and so enough to find it in its System.map. */
	if (in_image && !code_locks_find(&names->code_locks, hint->address))
		snprintf(out->instance, sizeof(out->instance), "_text+0x%llx", hint->address - names->image);
	out->source = NAME_CALL_SITE;
	return 0;
}

static void find_image(struct lock_names *names)
{
	__u64 last;

	if (symbols_address(names->symbols, "_text", &names->image) &&
	    symbols_address(names->symbols, "_stext", &names->image))
		return;
	if (!symbols_address(names->symbols, "_end", &names->image_end))
		return;
	if (!symbols_address(names->symbols, "__init_begin", &last))
		names->image_end = last + IMAGE_SLACK;
}

/* Symbols of variables say more, and cost less, where the kernel has them. */
static void find_code_locks(struct lock_names *names)
{
	__u64 begin;

	if (!symbols_have_data(names->symbols) && !symbols_address(names->symbols, "_etext", &begin))
		code_locks_open(&names->code_locks, &names->resolver, names->symbols, begin, names->image_end);
}

int lock_names_open(struct lock_names **out, const struct symbols *symbols, const struct types *types,
		    struct lockline_bpf *bpf)
{
	struct lock_names *names = calloc(1, sizeof(*names));
	int err;

	if (!names)
		return -ENOMEM;
	names->symbols = symbols;
	names->page_size = sysconf(_SC_PAGESIZE);
	find_image(names);
	resolver_open(&names->resolver, bpf);
	find_code_locks(names);
	names->types = types;
	err = percpu_open(&names->percpu, &names->resolver, symbols, names->types);
	if (err)
		goto out;
	find_nodes(names);
	if (names->resolver.slab_fd < 0 || !names->types || !types_function(names->types, "bpf_get_kmem_cache"))
		slab_pages_open(&names->slab_pages, &names->resolver, symbols, names->types);
	*out = names;
out:
	if (err)
		lock_names_close(names);
	return err;
}

__u64 lock_names_current_task(const struct lock_names *names, unsigned int cpu)
{
	/* A variable of its own, but from 6.2 to 6.14 the first member of a structure. */
	static const char *const variables[] = {"current_task", "pcpu_hot"};
	const struct percpu *percpu = &names->percpu;
	__u32 offset;

	if (!names->types || cpu >= percpu->cpus || !percpu->bases[cpu])
		return 0;
	for (size_t i = 0; i < sizeof(variables) / sizeof(*variables); i++)
		if (types_percpu_offset(names->types, variables[i], &offset))
			return percpu->bases[cpu] + offset;
	return 0;
}

void lock_names_close(struct lock_names *names)
{
	if (!names)
		return;
	for (int i = 0; i < names->module_count; i++)
		types_close(names->modules[i].types);
	slab_aliases_close(&names->aliases);
	percpu_close(&names->percpu);
	resolver_close(&names->resolver);
	free(names);
}

void lock_names_resolve(struct lock_names *names, const struct lock_hint *hint, struct lock_name *out)
{
	struct call_sites sites;

	*out = (struct lock_name){};
	if (!symbol_name(names, hint, out) || !percpu_name(names, hint, out) || !owner_name(names, hint, out))
		return;
	find_call_sites(names, hint, &sites);
	if (!slab_name(names, hint, &sites, out) || !node_name(names, hint, out) ||
	    !futex_name(names, hint, &sites, out) || !call_site_name(names, hint, &sites, out))
		return;
	*out = (struct lock_name){.name = "?", .source = NAME_UNKNOWN, .unsure = true};
}

/* "pid N", where that process is gone: what bears its name is no more of it. */
static bool is_of_a_dead_process(const char *instance)
{
	unsigned int pid;

	return sscanf(instance, "pid %u", &pid) == 1 && task_ended(pid);
}

bool lock_names_reused(struct lock_names *names, __u64 address, const struct lock_identity *was, const char *type_name,
		       __u32 offset, bool paused)
{
	struct lock_name is = {};
	struct slab_cache cache;
	struct kernel_type type;
	__u64 slab;

	if (resolver_slab(&names->resolver, address, &cache) &&
	    slab_pages_find(&names->slab_pages, &names->resolver, address, &cache, &slab))
		return false;
	if (was->cache && cache.cache && cache.cache != was->cache)
		return true;
	if (!(*was->instance || was->orphan) || !*type_name)
		return false;
	type = names_struct(names, type_name, "");
	if (type.id)
		slab_instance(names, &type, address - offset, &is);
	if (*is.instance)
		return strcmp(is.instance, was->instance);
	/* While a process ends its threads still wait for what is nobody's any more. */
	return paused && is_of_a_dead_process(was->instance);
}

size_t lock_names_bytes(const struct lock_names *names)
{
	size_t bytes = sizeof(*names) + types_bytes(names->types) + names->percpu.cpus * sizeof(*names->percpu.bases) +
		       names->aliases.count * sizeof(*names->aliases.alias);

	for (int i = 0; i < names->module_count; i++)
		bytes += types_bytes(names->modules[i].types);
	return bytes;
}
