// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sqlite3.h>

#include "base/patience.h"
#include "base/proc.h"
#include "base/proc_mapping.h"
#include "bpf/watch.h"
#include "futex/futex_bucket.h"
#include "futex/futex_waiting.h"
#include "names/lock_hints.h"
#include "names/lock_names.h"
#include "names/lock_types.h"
#include "naming/user_symbols.h"
#include "lockline.skel.h"
#include "probes/maps.h"
#include "cli/message.h"
#include "base/small_file.h"
#include "base/values.h"
#include "watch/watch_forbidden.h"
#include "cli/watch_options.h"
#include "watch/watch_target.h"

#define LOCK_SOUGHT 8192 /* bytes of a variable in which its first lock is looked for */

__u32 watch_forbidden(const struct watch_finder *finder, __u64 line, const char **why)
{
	const struct lock_names *names = finder->names;
	const char *variables[CACHE_LINE] = {};

	for (__u32 byte = 0; byte < CACHE_LINE; byte++) {
		__u32 offset, inner;
		struct symbol symbol;
		unsigned int cpu;

		if (names->types && percpu_find(&names->percpu, line + byte, &cpu, &offset))
			types_percpu_variable(names->types, offset, &variables[byte], &inner);
		else if (!symbols_lookup(finder->symbols, line + byte, &symbol))
			variables[byte] = symbol.name;
	}
	return watch_forbidden_places(variables, why);
}

static int parse_number(const char *text, const char **end, __u64 *out)
{
	char *after;

	errno = 0;
	*out = strtoull(text, &after, 0);
	*end = after;
	return errno || after == text || *text == '-' ? -EINVAL : 0;
}

static int not_a_target(const char *text, const char *why)
{
	char shown[VALUE_SHOWN];

	message("%s: %s; a target is " WATCH_TARGET_FORMS, show(text, shown), why);
	return -EINVAL;
}

const char *watch_type_from(enum name_source source)
{
	return source == NAME_PERCPU ? name_source_names[NAME_SYMBOL] : name_source_names[source];
}

/* The name of what lies there: what a lock there is called, or what its object is. */
static void describe(const struct watch_finder *finder, struct watched *out)
{
	const struct lock_hint hint = {.address = out->address, .kind = KIND_UNKNOWN};
	struct lock_name name;
	struct symbol symbol;

	lock_names_resolve(finder->names, &hint, &name);
	/* A slab's object gets a type where it has a lock there. */
	out->is_lock = out->lock || (*name.type && name.source == NAME_SLAB);
	if (!*out->type && *name.type) {
		snprintf(out->type, sizeof(out->type), "%s", name.type);
		out->object = name.object;
		out->from = watch_type_from(name.source);
	}
	if (name.source == NAME_PERCPU) {
		snprintf(out->symbol, sizeof(out->symbol), "%.*s", (int)strcspn(name.name, "."), name.name);
		out->symbol_offset = *name.type ? out->address - name.object : 0;
	} else if (!symbols_lookup(finder->symbols, out->address, &symbol) && !strchr("tTwW", symbol.type)) {
		snprintf(out->symbol, sizeof(out->symbol), "%s", symbol.name);
		out->symbol_offset = symbol.offset;
	}
}

/* Mapped, and data. */
static int check_kernel(const struct watch_finder *finder, struct watched *out)
{
	struct symbol symbol;
	__u64 word;
	int err;

	if (!(out->address >> 63)) {
		message("%s: no address of the kernel; memory of a process is user:PID:ADDRESS", out->target);
		return -EINVAL;
	}
	if (!symbols_lookup(finder->symbols, out->address, &symbol) && strchr("tTwW", symbol.type)) {
		message("%s: is code (%s), and code does not move between CPUs", out->target, symbol.name);
		return -EINVAL;
	}
	err = resolver_read(&finder->names->resolver, out->address & ~7ull, &word, sizeof(word));
	if (err)
		message("%s: nothing can be read there (%s): it is not mapped, or the kernel hides it", out->target,
			strerror(-err));
	return err;
}

/* ".a.b": from base on, through pointers too. */
static int follow_members(const struct watch_finder *finder, const struct types *types, __u32 type, __u64 base,
			  const char *path, struct watched *out)
{
	char name[64];

	out->address = out->object = base;
	while (*path == '.') {
		size_t length = strcspn(++path, ".+:[");
		__u32 offset, member, pointee;

		snprintf(name, sizeof(name), "%.*s", (int)length, path);
		pointee = types_pointee(types, type);
		if (pointee) {
			if (resolver_read(&finder->names->resolver, out->address, &out->address, 8)) {
				message("%s: the pointer before .%s cannot be read", out->target, name);
				return -EFAULT;
			}
			type = pointee;
			out->object = out->address;
		}
		if (!types_member(types, type, name, &offset, &member)) {
			message("%s: %s has no member %s", out->target, types_name(types, types_resolve(types, type)),
				name);
			return -ENOENT;
		}
		if (out->address == out->object)
			snprintf(out->type, sizeof(out->type), "%s", types_name(types, types_resolve(types, type)));
		out->address += offset;
		type = member;
		path += length;
	}
	return *path ? not_a_target(out->target, "write members as in .pi_lock or .signal.cred_guard_mutex") : 0;
}

/* A variable of a type that holds locks is watched where the first of them is. */
static void seek_lock(const struct types *types, __u32 type, struct watched *out)
{
	__s64 size = types_size(types, type);
	char path[96];
	int index;

	for (__u32 offset = 0; offset < LOCK_SOUGHT && offset < size; offset += 4) {
		if (types_lock_path(types, type, offset, KIND_UNKNOWN, path, sizeof(path), &index))
			continue;
		out->address += offset;
		return;
	}
}

static int find_percpu(const struct watch_finder *finder, const char *variable, const char *members, __u32 cpu,
		       __u64 add, struct watched *out)
{
	const struct lock_names *names = finder->names;
	const char *found;
	__u32 offset, inner, type;
	int err;

	if (!names->types || !types_percpu_offset(names->types, variable, &offset)) {
		message("%s: the kernel's types have no per-CPU variable %s", out->target, variable);
		return -ENOENT;
	}
	if (cpu >= names->percpu.cpus || !names->percpu.bases[cpu]) {
		message("%s: lockline does not know where the variables of CPU %u are", out->target, cpu);
		return -ENOENT;
	}
	type = types_percpu_variable(names->types, offset, &found, &inner);
	err = follow_members(finder, names->types, type, names->percpu.bases[cpu] + offset, members, out);
	if (!err && !*members && !add)
		seek_lock(names->types, type, out);
	out->address += add;
	return err;
}

static int find_symbol(const struct watch_finder *finder, const char *name, const char *members, __u64 add,
		       struct watched *out)
{
	const char *known = hint_variable_type(name);
	struct kernel_type type = names_struct(finder->names, known ?: name, "");
	__u64 address;
	int err = symbols_address(finder->symbols, name, &address);

	if (err == -EPERM) {
		message("%s: the kernel hides its addresses (kptr_restrict)", out->target);
		return err;
	}
	if (err) {
		message("%s: the kernel's table has no symbol %s%s", out->target, name,
			symbols_have_data(finder->symbols)
				? ""
				: "; it has none of variables (CONFIG_KALLSYMS_ALL): use VARIABLE:CPU, 0xADDRESS, or "
				  "lock:NAME with -i RECORDING");
		return err;
	}
	if (*members && !type.id) {
		message("%s: the type of %s is not known; use %s+OFFSET", out->target, name, name);
		return -ENOENT;
	}
	err = follow_members(finder, type.types, type.id, address, members, out);
	if (!err && !*members && !add && type.id)
		seek_lock(type.types, type.id, out);
	out->address += add;
	return err;
}

/* NAME[.MEMBER...][:CPU][+OFFSET] */
static int find_named(const struct watch_finder *finder, const char *text, struct watched *out)
{
	char name[128], members[128];
	const char *rest = text + strcspn(text, ".:+"), *end;
	__u64 cpu = 0, add = 0;
	bool percpu = false;

	snprintf(name, sizeof(name), "%.*s", (int)(rest - text), text);
	end = rest + strcspn(rest, ":+");
	snprintf(members, sizeof(members), "%.*s", (int)(end - rest), rest);
	rest = end;
	if (!*name)
		return not_a_target(text, "no such target");
	if (*rest == ':') {
		percpu = true;
		if (parse_number(rest + 1, &rest, &cpu) || cpu >= 8192)
			return not_a_target(text, "the CPU must be a number");
	}
	if (*rest == '+' && parse_number(rest + 1, &rest, &add))
		return not_a_target(text, "the offset must be a number");
	if (*rest)
		return not_a_target(text, "no such target");
	return percpu ? find_percpu(finder, name, members, cpu, add, out)
		      : find_symbol(finder, name, members, add, out);
}

/* Its task_struct, by an iterator over all tasks. */
int watch_target_task(const struct watch_finder *finder, __u32 tid, __u64 *task)
{
	struct bpf_program *program = finder->bpf->progs.watch_find_task;
	struct bpf_link *link = bpf_program__attach_iter(program, NULL);
	struct mapped_array map = {};
	struct watch_target *target;
	char buffer[64];
	int fd, err;

	*task = 0;
	if (!link)
		return -errno;
	err = maps_map(&map, finder->bpf->maps.watch_target);
	if (err)
		goto out;
	target = map.data;
	target->tid = tid;
	target->task = 0;
	fd = bpf_iter_create(bpf_link__fd(link));
	err = fd < 0 ? fd : 0;
	while (!err && read(fd, buffer, sizeof(buffer)) > 0)
		;
	if (fd >= 0)
		close(fd);
	*task = target->task;
	target->tid = 0;
	maps_unmap(&map);
	if (!err && !*task)
		err = -ESRCH;
out:
	bpf_link__destroy(link);
	return err;
}

/* task:PID.MEMBER */
static int find_member_of_task(const struct watch_finder *finder, const char *text, struct watched *out)
{
	struct kernel_type type = names_struct(finder->names, "task_struct", "");
	const char *members;
	__u64 tid, task;
	int err;

	if (parse_number(text, &members, &tid) || !tid || tid > ~0u || *members != '.' || !members[1])
		return not_a_target(out->target, "write a task as in task:812.pi_lock");
	err = watch_target_task(finder, tid, &task);
	if (err) {
		message("%s: %s", out->target, err == -ESRCH ? "no such task" : strerror(-err));
		return err;
	}
	if (!type.id) {
		message("%s: the kernel's types (BTF) are not available", out->target);
		return -ENOENT;
	}
	err = follow_members(finder, type.types, type.id, task, members, out);
	out->from = "owner object";
	out->tid = tid;
	return err;
}

static void tell_no_symbol(const char *target, __u64 pid, const char *name, int err)
{
	if (err == -ESRCH && kill(pid, 0) && errno == ESRCH)
		message("%s: no such process", target);
	else if (err == -ESRCH)
		message("%s: process %llu cannot be read", target, pid);
	else if (err == -ENOENT)
		message("%s: process %llu has no symbol %s", target, pid, name);
	else
		message("%s: not all symbols of process %llu could be read; try again, or give the address", target,
			pid);
}

/* PID:ADDRESS or PID:SYMBOL[+OFFSET]; example: of what is meant. */
static int parse_user(const struct watch_finder *finder, const struct watched *target, const char *text,
		      const char *example, __u32 *tgid, __u64 *address)
{
	const char *rest, *end;
	__u64 pid, add = 0;
	char name[256];
	int err;

	if (parse_number(text, &rest, &pid) || !pid || pid > 4194304 || *rest != ':' || !rest[1])
		return not_a_target(target->target, example);
	rest++;
	*tgid = pid;
	if (strncmp(rest, "0x", 2)) {
		end = rest + strcspn(rest, "+");
		snprintf(name, sizeof(name), "%.*s", (int)(end - rest), rest);
		if (*end && (parse_number(end + 1, &end, &add) || *end))
			return not_a_target(target->target, "the offset must be a number");
		err = user_symbols_address(finder->users, pid, name, address);
		if (err) {
			tell_no_symbol(target->target, pid, name, err);
			return err;
		}
		*address += add;
	} else if (parse_number(rest, &end, address) || *end) {
		return not_a_target(target->target, "that is not an address");
	}
	if (*address >> 63) {
		message("%s: is an address of the kernel, and not of process %llu", target->target, pid);
		return -EINVAL;
	}
	return 0;
}

static int find_user(const struct watch_finder *finder, const char *text, struct watched *out)
{
	__u64 offset = 0;
	ssize_t got;
	__u8 byte;
	int err = parse_user(finder, out, text, "write memory of a process as in user:812:0x55..., or user:812:table",
			     &out->tgid, &out->address);

	if (err)
		return err;
	got = patience_read(out->tgid, out->address, &byte, sizeof(byte));
	if (got == -ETIMEDOUT || got == -EBUSY)
		message("%s: the memory at 0x%llx of process %u does not come: it lies in a file, or behind a "
			"userfaultfd, that nobody serves",
			out->target, out->address, out->tgid);
	else if (got != sizeof(byte))
		message("%s: nothing can be read at 0x%llx of process %u", out->target, out->address, out->tgid);
	if (got != sizeof(byte))
		return -EFAULT;
	user_symbols_lookup(finder->users, out->tgid, out->address, out->symbol, sizeof(out->symbol), &offset,
			    out->mapping, sizeof(out->mapping));
	out->symbol_offset = offset;
	if (*out->symbol)
		out->from = "user symbol";
	return 0;
}

/* A fact of the recording, "" if it has none. */
static void read_fact(sqlite3 *db, const char *name, char *out, size_t size)
{
	sqlite3_stmt *row = NULL;

	*out = 0;
	if (sqlite3_prepare_v2(db, "SELECT value FROM meta WHERE name = ?", -1, &row, NULL) != SQLITE_OK)
		return;
	sqlite3_bind_text(row, 1, name, -1, SQLITE_STATIC);
	if (sqlite3_step(row) == SQLITE_ROW && sqlite3_column_text(row, 0))
		snprintf(out, size, "%s", (const char *)sqlite3_column_text(row, 0));
	sqlite3_finalize(row);
}

/* A query of the recording, if that is of this boot: addresses mean nothing in another. */
static int ask_recording(const struct watch_finder *finder, const char *query, sqlite3 **db, sqlite3_stmt **row)
{
	char boot[64] = "", recorded[64] = "", shown[VALUE_SHOWN];

	if (sqlite3_open_v2(finder->recording, db, SQLITE_OPEN_READONLY, NULL) != SQLITE_OK ||
	    sqlite3_db_config(*db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL) != SQLITE_OK ||
	    sqlite3_prepare_v2(*db, query, -1, row, NULL) != SQLITE_OK) {
		message("cannot read -i %s: %s", show(finder->recording, shown),
			*db ? sqlite3_errmsg(*db) : "out of memory");
		return -EINVAL;
	}
	read_fact(*db, "boot_id", recorded, sizeof(recorded));
	first_line("/proc/sys/kernel/random/boot_id", boot, sizeof(boot));
	if (!strcmp(boot, recorded))
		return 0;
	message("-i %s is of another boot: its addresses mean nothing now; record anew, or name the lock "
		"otherwise",
		show(finder->recording, shown));
	return -EINVAL;
}

/* The address in the first row; how many rows there are. */
static int first_address(sqlite3_stmt *row, __u64 *address)
{
	int found = 0;

	while (sqlite3_step(row) == SQLITE_ROW)
		if (!found++)
			*address = sqlite3_column_int64(row, 0);
	return found;
}

/* lock:NAME or lock:NAME[INSTANCE] of a recording of this boot; of several the one with the most waits. */
static int find_recorded(const struct watch_finder *finder, const char *text, struct watched *out)
{
	sqlite3_stmt *row = NULL;
	char shown[VALUE_SHOWN];
	sqlite3 *db = NULL;
	int err, found;

	if (!finder->recording)
		return not_a_target(out->target, "a lock by name needs -i RECORDING");
	err = ask_recording(finder,
			    "SELECT address, name, instance FROM lock LEFT JOIN lock_total ON lock.id = lock_total.lock"
			    " WHERE address AND (name = ?1 OR name || '[' || instance || ']' = ?1) GROUP BY lock.id"
			    " ORDER BY sum(waits) DESC",
			    &db, &row);
	if (err)
		goto out;
	sqlite3_bind_text(row, 1, text, -1, SQLITE_STATIC);
	found = first_address(row, &out->address);
	out->lock = out->address;
	if (!found) {
		message("%s: -i %s has no such lock", out->target, show(finder->recording, shown));
		err = -ENOENT;
	} else if (found > 1) {
		message("%d locks are called %s; the one that was waited for most is watched; lock:NAME[INSTANCE] "
			"selects",
			found, text);
	}
out:
	sqlite3_finalize(row);
	sqlite3_close(db);
	return err;
}

/* How long threads are looked at until one waits for the futex, and how often. */
#define USE_LOOKS   50
#define USE_LOOK_NS 10000000

/*
 * What the kernel hashes the futex by.  One waiting thread tells; memory that is shared can be used either way, and is
 * taken for shared.
 */
static int find_use(const struct watch_finder *finder, const struct watched *target, __u32 tgid, __u64 address,
		    struct futex_shared *out)
{
	const struct timespec pause = {.tv_nsec = USE_LOOK_NS};
	struct proc_mapping mapping = {};
	struct stat status;
	__u64 task;
	int used = -EAGAIN, fd, err;

	*out = (struct futex_shared){};
	for (int i = 0; used < 0 && i < USE_LOOKS; i++) {
		used = futex_used_shared(tgid, address);
		if (used < 0)
			nanosleep(&pause, NULL);
	}
	err = proc_mapping_at(tgid, address, &mapping);
	out->shared = used >= 0 ? used : !err && mapping.shared;
	if (used < 0 && !err)
		message("%s: no thread waits for it now; it is taken for one %s FUTEX_PRIVATE_FLAG", target->target,
			out->shared ? "without" : "with");
	if (err || !out->shared || !mapping.shared)
		return 0;
	fd = patience_open_mapped(&(struct mapped_file){.tgid = tgid,
							.start = mapping.start,
							.end = mapping.end,
							.inode = mapping.inode,
							.major = mapping.major,
							.minor = mapping.minor,
							.path = mapping.path},
				  &status);
	if (fd < 0)
		return fd;
	err = watch_target_task(finder, getpid(), &task);
	err = err ?: futex_bucket_sequence(finder->names, task, fd, &out->sequence);
	close(fd);
	out->page = (mapping.offset + address - mapping.start) / finder->names->page_size;
	/* Nobody has called for a futex of this file. */
	return err == -ENOENT ? -EOPNOTSUPP : err;
}

/* Where the kernel looks for a futex. */
static int find_hashed_futex(const struct watch_finder *finder, __u32 tgid, __u64 address, struct watched *out)
{
	struct kernel_type type = names_struct(finder->names, "futex_hash_bucket", "");
	struct futex_shared shared;
	__u32 lock = 0, member;
	__u64 task;
	bool own;
	int err = watch_target_task(finder, tgid, &task);

	err = err ?: find_use(finder, out, tgid, address, &shared);
	err = err ?: futex_bucket_find(finder->names, task, address, &shared, &out->object, &own);

	if (err == -ESRCH || err == -ENOENT)
		message("%s: no such process", out->target);
	else if (err == -EOPNOTSUPP)
		message("%s: this kernel does not show where this futex is hashed; record waits for the lock of its "
			"bucket (record --futex), and give that with -i",
			out->target);
	else if (err)
		message("%s: the kernel's futex hash cannot be read: %s", out->target, strerror(-err));
	if (err)
		return err;
	if (type.id)
		types_member(type.types, type.id, "lock", &lock, &member);
	out->address = out->lock = out->object + lock;
	out->from = "futex hash";
	snprintf(out->type, sizeof(out->type), "futex_hash_bucket");
	/* The hash of all processes outlives them. */
	if (own) {
		out->tid = tgid;
		out->futex = address;
	}
	return 0;
}

/*
 * futex:PID:ADDRESS|SYMBOL[+OFFSET]: the hash bucket whose lock the calls for this futex waited
 * for, as a recording with --futex saw it; without one, where the kernel hashes it.
 */
static int find_futex(const struct watch_finder *finder, const char *text, struct watched *out)
{
	sqlite3_stmt *row = NULL;
	char shown[VALUE_SHOWN];
	sqlite3 *db = NULL;
	__u64 address;
	__u32 tgid;
	int err = parse_user(finder, out, text, "write a futex as in futex:812:0x55..., or futex:812:mutex", &tgid,
			     &address);

	if (err)
		return err;
	if (!finder->recording)
		return find_hashed_futex(finder, tgid, address, out);
	err = ask_recording(finder,
			    "SELECT lock.address FROM futex_bucket JOIN futex ON futex.id = futex JOIN lock ON"
			    " lock.id = lock WHERE lock.address AND tgid = ?1 AND futex.address = ?2"
			    " ORDER BY waits DESC",
			    &db, &row);
	if (err)
		goto out;
	sqlite3_bind_int64(row, 1, (__s64)tgid);
	sqlite3_bind_int64(row, 2, (__s64)address);
	if (!first_address(row, &out->address)) {
		message("%s: -i %s has no wait for the lock of this futex's hash bucket; lockline report shows which "
			"futexes had any; without -i the bucket is found by the kernel's hash",
			out->target, show(finder->recording, shown));
		err = -ENOENT;
	}
	out->lock = out->address;
out:
	sqlite3_finalize(row);
	sqlite3_close(db);
	return err;
}

int watch_target_lock(const struct watch_finder *finder, __u64 address, const char *name, struct watched *out)
{
	*out = (struct watched){.address = address, .lock = address, .from = ""};
	snprintf(out->target, sizeof(out->target), "%s", name);
	describe(finder, out);
	return check_kernel(finder, out);
}

int watch_target_find(const struct watch_finder *finder, const char *text, struct watched *out)
{
	const char *end;
	int err;

	*out = (struct watched){.from = ""};
	snprintf(out->target, sizeof(out->target), "%s", text);
	make_printable(out->target);
	if (!strncmp(text, "user:", 5))
		return find_user(finder, text + 5, out);
	if (!strncmp(text, "task:", 5))
		err = find_member_of_task(finder, text + 5, out);
	else if (!strncmp(text, "futex:", 6))
		err = find_futex(finder, text + 6, out);
	else if (!strncmp(text, "lock:", 5))
		err = find_recorded(finder, text + 5, out);
	else if (!strncmp(text, "0x", 2))
		err = parse_number(text, &end, &out->address) || *end ? not_a_target(text, "that is not an address")
								      : 0;
	else
		err = find_named(finder, text, out);
	err = err ?: check_kernel(finder, out);
	if (!err)
		describe(finder, out);
	return err;
}
