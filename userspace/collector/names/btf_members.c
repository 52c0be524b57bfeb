// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "names/btf_members.h"

#define DEEPEST        24
#define PERCPU_SECTION ".data..percpu"

struct types {
	struct btf *btf;
	__u32 first;  /* the first type that is not the base's */
	__u32 *slots; /* open addressing by name: ids of types that have a name of their own */
	__u32 slot_mask;
	const struct btf_type *percpu; /* the DATASEC; NULL: none */
};

#define SPIN         (1u << KIND_SPINLOCK)
#define RQSPINLOCK   (1u << KIND_RQSPINLOCK)
#define RWLOCK       (1u << KIND_RWLOCK_READ | 1u << KIND_RWLOCK_WRITE)
#define MUTEX        (1u << KIND_MUTEX | 1u << KIND_MUTEX_SPIN)
#define RWSEM        (1u << KIND_RWSEM_READ | 1u << KIND_RWSEM_WRITE)
#define RWLOCK_RT    (1u << KIND_RWLOCK_RT_READ | 1u << KIND_RWLOCK_RT_WRITE)
#define PERCPU_RWSEM (1u << KIND_PERCPU_RWSEM_READ | 1u << KIND_PERCPU_RWSEM_WRITE)
#define RTMUTEX      (1u << KIND_RTMUTEX)
#define SEMAPHORE    (1u << KIND_SEMAPHORE)

/*
 * The outermost type of these that begins at the address is the lock.  With
 * PREEMPT_RT spinlocks, mutexes and rwsems are made of an rt_mutex_base, whose
 * first member is a raw spinlock: at one address a lock has one name, whichever
 * of the two is waited for first.
 */
static const struct {
	const char *name;
	__u32 kinds;
} lock_types[] = {
	{"spinlock", SPIN | RTMUTEX},
	{"raw_spinlock", SPIN},
	{"qspinlock", SPIN},
	{"arch_spinlock_t", SPIN},
	{"rqspinlock", SPIN | RQSPINLOCK},
	{"rqspinlock_t", SPIN | RQSPINLOCK},
	{"bpf_spin_lock", SPIN},
	{"bpf_res_spin_lock", SPIN | RQSPINLOCK},
	{"rwlock_t", RWLOCK | RWLOCK_RT | RTMUTEX},
	{"qrwlock", RWLOCK},
	{"mutex", MUTEX | RTMUTEX},
	{"ww_mutex", MUTEX | RTMUTEX},
	{"rw_semaphore", RWSEM | RWLOCK_RT | RTMUTEX},
	{"rwbase_rt", RWLOCK_RT | RTMUTEX},
	{"rt_mutex", RTMUTEX},
	{"rt_mutex_base", RTMUTEX},
	{"percpu_rw_semaphore", PERCPU_RWSEM},
	{"semaphore", SEMAPHORE},
};

static bool is_lock(const char *name, enum lock_kind kind)
{
	for (size_t i = 0; i < sizeof(lock_types) / sizeof(*lock_types); i++)
		if (!strcmp(name, lock_types[i].name))
			return kind == KIND_UNKNOWN || lock_types[i].kinds & 1u << kind;
	return false;
}

static __u32 hash_name(const char *name)
{
	__u32 hash = 2166136261u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return hash ^ hash >> 15;
}

static bool is_indexed(const struct btf_type *type)
{
	return type->name_off && (btf_is_composite(type) || btf_is_func(type) || btf_is_typedef(type) ||
				  btf_is_any_enum(type) || btf_is_var(type));
}

static int index_names(struct types *types)
{
	__u32 count = btf__type_cnt(types->btf), indexed = 0, slots = 16;

	for (__u32 id = types->first; id < count; id++)
		indexed += is_indexed(btf__type_by_id(types->btf, id));
	while (slots < indexed + indexed / 2)
		slots *= 2;
	types->slots = calloc(slots, sizeof(*types->slots));
	if (!types->slots)
		return -ENOMEM;
	types->slot_mask = slots - 1;
	for (__u32 id = types->first; id < count; id++) {
		const struct btf_type *type = btf__type_by_id(types->btf, id);
		const char *name = btf__name_by_offset(types->btf, type->name_off);

		if (btf_is_datasec(type) && !strcmp(name, PERCPU_SECTION))
			types->percpu = type;
		if (!is_indexed(type))
			continue;
		for (__u32 slot = hash_name(name) & types->slot_mask;; slot = (slot + 1) & types->slot_mask) {
			if (types->slots[slot])
				continue;
			types->slots[slot] = id;
			break;
		}
	}
	return 0;
}

int types_open_btf(struct types **out, struct btf *btf)
{
	const struct btf *base = btf__base_btf(btf);
	struct types *types = calloc(1, sizeof(*types));
	int err;

	if (!types)
		return -ENOMEM;
	types->btf = btf;
	types->first = base ? btf__type_cnt(base) : 1;
	err = index_names(types);
	if (err) {
		types->btf = NULL;
		types_close(types);
		return err;
	}
	*out = types;
	return 0;
}

static int open_loaded(struct types **out, struct btf *btf)
{
	int err;

	if (!btf)
		return -errno;
	err = types_open_btf(out, btf);
	if (err)
		btf__free(btf);
	return err;
}

int types_open(struct types **out)
{
	libbpf_print_fn_t print = libbpf_set_print(NULL); /* a kernel without BTF is a finding, not an error */
	int err = open_loaded(out, btf__load_vmlinux_btf());

	libbpf_set_print(print);
	return err;
}

int types_open_module(struct types **out, const struct types *kernel, const char *module)
{
	return open_loaded(out, btf__load_module_btf(module, kernel->btf));
}

void types_close(struct types *types)
{
	if (!types)
		return;
	btf__free(types->btf);
	free(types->slots);
	free(types);
}

size_t types_bytes(const struct types *types)
{
	__u32 raw = 0;

	if (!types)
		return 0;
	btf__raw_data(types->btf, &raw);
	/* libbpf keeps the offset of each type. */
	return sizeof(*types) + raw + (btf__type_cnt(types->btf) - types->first) * sizeof(__u32) +
	       (types->slot_mask + 1) * sizeof(*types->slots);
}

const struct btf *types_btf(const struct types *types)
{
	return types->btf;
}

static __u32 find(const struct types *types, const char *name, __u32 kinds)
{
	for (__u32 slot = hash_name(name) & types->slot_mask; types->slots[slot];
	     slot = (slot + 1) & types->slot_mask) {
		__u32 id = types->slots[slot];
		const struct btf_type *type = btf__type_by_id(types->btf, id);

		if (kinds & 1u << btf_kind(type) && !strcmp(btf__name_by_offset(types->btf, type->name_off), name))
			return id;
	}
	return 0;
}

__u32 types_struct(const struct types *types, const char *name)
{
	return find(types, name, 1u << BTF_KIND_STRUCT | 1u << BTF_KIND_UNION);
}

__u32 types_function(const struct types *types, const char *name)
{
	return find(types, name, 1u << BTF_KIND_FUNC);
}

__u32 types_of_kind(const struct types *types, const char *name, unsigned int kind)
{
	return find(types, name, 1u << kind);
}

void types_each_of_name(const struct types *types, const char *name, void (*visit)(__u32 type, void *data), void *data)
{
	for (__u32 slot = hash_name(name) & types->slot_mask; types->slots[slot];
	     slot = (slot + 1) & types->slot_mask) {
		__u32 id = types->slots[slot];
		const struct btf_type *type = btf__type_by_id(types->btf, id);

		if ((btf_is_composite(type) || btf_is_any_enum(type) || btf_is_typedef(type)) &&
		    !strcmp(btf__name_by_offset(types->btf, type->name_off), name))
			visit(id, data);
	}
}

static const struct btf_type *percpu_variable(const struct types *types, const struct btf_var_secinfo *info)
{
	return btf__type_by_id(types->btf, info->type);
}

__u32 types_percpu_variable(const struct types *types, __u32 offset, const char **name, __u32 *offset_in_variable)
{
	const struct btf_var_secinfo *info;

	if (!types->percpu)
		return 0;
	info = btf_var_secinfos(types->percpu);
	for (int i = 0; i < btf_vlen(types->percpu); i++, info++) {
		const struct btf_type *variable = percpu_variable(types, info);

		if (offset - info->offset >= info->size || !btf_is_var(variable))
			continue;
		*name = btf__name_by_offset(types->btf, variable->name_off);
		*offset_in_variable = offset - info->offset;
		return variable->type;
	}
	return 0;
}

bool types_percpu_offset(const struct types *types, const char *name, __u32 *offset)
{
	const struct btf_var_secinfo *info;

	if (!types->percpu)
		return false;
	info = btf_var_secinfos(types->percpu);
	for (int i = 0; i < btf_vlen(types->percpu); i++, info++) {
		if (strcmp(btf__name_by_offset(types->btf, percpu_variable(types, info)->name_off), name))
			continue;
		*offset = info->offset;
		return true;
	}
	return false;
}

__u32 types_percpu_size(const struct types *types)
{
	return types->percpu ? types->percpu->size : 0;
}

__u32 types_resolve(const struct types *types, __u32 type)
{
	int id = btf__resolve_type(types->btf, type);

	return id > 0 ? id : 0;
}

__s64 types_size(const struct types *types, __u32 type)
{
	return btf__resolve_size(types->btf, type);
}

const char *types_name(const struct types *types, __u32 type)
{
	const struct btf_type *t = btf__type_by_id(types->btf, type);

	return t ? btf__name_by_offset(types->btf, t->name_off) : "";
}

__u32 types_parameter(const struct types *types, __u32 function, unsigned int index, bool *last)
{
	const struct btf_type *type = btf__type_by_id(types->btf, function);

	*last = true;
	if (!type || !btf_is_func(type))
		return 0;
	type = btf__type_by_id(types->btf, type->type);
	if (!type || !btf_is_func_proto(type) || index >= btf_vlen(type))
		return 0;
	*last = false;
	type = btf__type_by_id(types->btf, types_resolve(types, btf_params(type)[index].type));
	if (!type || !btf_is_ptr(type))
		return 0;
	function = types_resolve(types, type->type);
	type = btf__type_by_id(types->btf, function);
	return type && btf_is_composite(type) ? function : 0;
}

__u32 types_pointee(const struct types *types, __u32 type)
{
	const struct btf_type *t = btf__type_by_id(types->btf, types_resolve(types, type));

	return t && btf_is_ptr(t) ? types_resolve(types, t->type) : 0;
}

bool types_member(const struct types *types, __u32 type, const char *member, __u32 *offset, __u32 *member_type)
{
	const struct btf_type *t = btf__type_by_id(types->btf, types_resolve(types, type));
	const struct btf_member *m;

	if (!t || !btf_is_composite(t))
		return false;
	m = btf_members(t);
	for (int i = 0; i < btf_vlen(t); i++, m++) {
		__u32 start = btf_member_bit_offset(t, i) / 8, inner;
		const char *name = btf__name_by_offset(types->btf, m->name_off);

		if (!*name && types_member(types, m->type, member, &inner, member_type)) {
			*offset = start + inner;
			return true;
		}
		if (!strcmp(name, member)) {
			*offset = start;
			*member_type = m->type;
			return true;
		}
	}
	return false;
}

__u32 types_element(const struct types *types, __u32 type)
{
	const struct btf_type *t = btf__type_by_id(types->btf, type = types_resolve(types, type));

	while (t && btf_is_array(t)) {
		type = types_resolve(types, btf_array(t)->type);
		t = btf__type_by_id(types->btf, type);
	}
	return type;
}

void types_each_member(const struct types *types, __u32 type, void (*visit)(const char *name, void *data), void *data)
{
	const struct btf_type *t = btf__type_by_id(types->btf, types_resolve(types, type));
	const struct btf_member *m;

	if (!t || !btf_is_composite(t))
		return;
	m = btf_members(t);
	for (int i = 0; i < btf_vlen(t); i++, m++) {
		const char *name = btf__name_by_offset(types->btf, m->name_off);

		if (*name)
			visit(name, data);
		else
			types_each_member(types, m->type, visit, data);
	}
}

void types_each_name(const struct types *types, bool members, void (*visit)(const char *name, void *data), void *data)
{
	const struct btf_var_secinfo *info = types->percpu ? btf_var_secinfos(types->percpu) : NULL;

	for (__u32 id = types->first; id < btf__type_cnt(types->btf); id++) {
		const struct btf_type *type = btf__type_by_id(types->btf, id);

		if (!btf_is_composite(type))
			continue;
		if (type->name_off)
			visit(btf__name_by_offset(types->btf, type->name_off), data);
		/* Of those without a name the type around them tells. */
		if (members && type->name_off)
			types_each_member(types, id, visit, data);
	}
	for (int i = 0; info && i < btf_vlen(types->percpu); i++)
		visit(btf__name_by_offset(types->btf, percpu_variable(types, &info[i])->name_off), data);
}

__u32 types_percpu_type(const struct types *types, const char *name)
{
	const struct btf_var_secinfo *info = types->percpu ? btf_var_secinfos(types->percpu) : NULL;

	for (int i = 0; info && i < btf_vlen(types->percpu); i++) {
		const struct btf_type *variable = percpu_variable(types, &info[i]);

		if (btf_is_var(variable) && !strcmp(btf__name_by_offset(types->btf, variable->name_off), name))
			return variable->type;
	}
	return 0;
}

bool types_enumerator(const struct types *types, const char *type, const char *enumerator, __s64 *value)
{
	__s32 id = btf__find_by_name_kind(types->btf, type, BTF_KIND_ENUM);
	const struct btf_type *t = id > 0 ? btf__type_by_id(types->btf, id) : NULL;

	for (int i = 0; t && i < btf_vlen(t); i++) {
		if (strcmp(btf__name_by_offset(types->btf, btf_enum(t)[i].name_off), enumerator))
			continue;
		*value = btf_enum(t)[i].val;
		return true;
	}
	return false;
}

struct walk {
	const struct types *types;
	enum lock_kind kind;
	char *path;
	size_t size;
	int index;
};

/*
 * How spinlock_t is made, not what anybody calls it; and with PREEMPT_RT a
 * rwsem: who waits for its rt-mutex waits for the rwsem.
 */
static bool is_wrapping(const char *member)
{
	static const char *const members[] = {"", "raw_lock", "rlock", "rwbase", "rtmutex"};

	for (size_t i = 0; i < sizeof(members) / sizeof(*members); i++)
		if (!strcmp(member, members[i]))
			return true;
	return false;
}

static bool begins_with_rt_mutex(const struct types *types, __u32 type)
{
	for (int depth = 0; depth < DEEPEST; depth++) {
		const struct btf_type *t = btf__type_by_id(types->btf, types_resolve(types, type));

		if (!t || !btf_is_composite(t) || !btf_vlen(t))
			return false;
		if (!strcmp(btf__name_by_offset(types->btf, t->name_off), "rt_mutex_base"))
			return true;
		type = btf_members(t)->type;
	}
	return false;
}

static bool is_wanted(const struct walk *w, __u32 type, const char *name)
{
	return is_lock(name, w->kind) ||
	       (w->kind == KIND_SPINLOCK && is_lock(name, KIND_RTMUTEX) && begins_with_rt_mutex(w->types, type));
}

static bool walk(struct walk *w, __u32 type, __u32 offset, size_t used, int depth);

static bool walk_members(struct walk *w, const struct btf_type *type, __u32 offset, size_t used, int depth)
{
	const struct btf_member *member = btf_members(type);
	int count = btf_vlen(type);

	for (int i = 0; i < count; i++, member++) {
		const char *name = btf__name_by_offset(w->types->btf, member->name_off);
		__u32 start = btf_member_bit_offset(type, i) / 8;
		size_t length = used;
		__s64 size;

		if (btf_member_bitfield_size(type, i) || offset < start)
			continue;
		size = types_size(w->types, member->type);
		/* A flexible array has no size of its own and takes the rest of the object. */
		if (size && offset - start >= size)
			continue;
		if (!size && i != count - 1)
			continue;
		if (!is_wrapping(name)) {
			int n = snprintf(w->path + used, w->size - used, ".%s", name);

			if (n < 0 || (size_t)n >= w->size - used)
				continue;
			length += n;
		}
		if (walk(w, member->type, offset - start, length, depth + 1))
			return true;
	}
	return false;
}

static bool walk(struct walk *w, __u32 type, __u32 offset, size_t used, int depth)
{
	const struct btf_type *t;

	if (depth > DEEPEST)
		return false;
	for (;;) {
		t = btf__type_by_id(w->types->btf, type);
		if (!t)
			return false;
		if (!offset && t->name_off && is_wanted(w, type, btf__name_by_offset(w->types->btf, t->name_off))) {
			w->path[used] = 0;
			return true;
		}
		if (!btf_is_mod(t) && !btf_is_typedef(t))
			break;
		type = t->type;
	}
	if (btf_is_array(t)) {
		__s64 size = types_size(w->types, btf_array(t)->type);

		if (size <= 0)
			return false;
		if (!walk(w, btf_array(t)->type, offset % size, used, depth + 1))
			return false;
		if (w->index < 0)
			w->index = offset / size;
		return true;
	}
	return btf_is_composite(t) && walk_members(w, t, offset, used, depth);
}

int types_lock_path(const struct types *types, __u32 type, __u32 offset, enum lock_kind kind, char *path, size_t size,
		    int *index)
{
	struct walk w = {.types = types, .kind = kind, .path = path, .size = size, .index = -1};

	if (!size)
		return -EINVAL;
	if (!walk(&w, type, offset, 0, 0))
		return -ENOENT;
	*index = w.index;
	return 0;
}
