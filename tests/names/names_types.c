// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <bpf/btf.h>

#include "names_test.h"
#include "names/btf_members.h"

static int struct_of(struct btf *btf, const char *name, __u32 size)
{
	return btf__add_struct(btf, name, size);
}

static void field(struct btf *btf, const char *name, int type, __u32 offset)
{
	expect_number(btf__add_field(btf, name, type, offset * 8, 0), 0);
}

/*
 * struct raw_spinlock { union { u32 val; } raw_lock; };         4 bytes
 * typedef struct spinlock { union { struct raw_spinlock rlock; }; } spinlock_t;
 * typedef struct { struct qrwlock { u32 cnts; arch_spinlock_t wait_lock; } raw_lock; } rwlock_t;
 * struct mutex { u64 owner; struct raw_spinlock wait_lock; u32 osq; };
 * struct semaphore { struct raw_spinlock lock; u32 count; };
 * struct lockref { union { u64 lock_count; struct { spinlock_t lock; u32 count; }; }; };
 * struct bucket { u32 waiters; spinlock_t lock; u64 chain[7]; };
 * struct object { u32 flag : 3; spinlock_t lock; struct mutex mutexes[2]; struct lockref ref; rwlock_t rw;
 *                 const struct semaphore sem; struct bucket queues[]; };
 * struct sem { u32 semval; u32 rest[3]; spinlock_t lock; u8 more[44]; };
 * struct sem_array { spinlock_t perm; u8 more[252]; struct sem sems[]; };
 * struct mm_struct { u64 users; struct mutex mmap_lock; };
 * struct task_struct { u64 state; struct mm_struct *mm; };
 * struct page { u64 flags; u64 compound_head; u64 rest[6]; }; struct slab { u64 flags; u64 head; u64 slab_cache; };
 * struct kmem_cache { u32 size, object_size, oo, min, refcount, red_left_pad; const char *name; };
 * enum pageflags { PG_slab = 9 };
 * struct rt_mutex_base { raw_spinlock wait_lock; u64 owner; }; struct rt_mutex { struct rt_mutex_base rtmutex; };
 * struct rwbase_rt { u32 readers; struct rt_mutex_base rtmutex; }; struct rw_semaphore { struct rwbase_rt rwbase; };
 * struct rt_object { u64 users; struct rw_semaphore sem; struct rt_mutex pi_mutex; };
 * struct rq { struct raw_spinlock __lock; u32 cpu; };
 */
struct btf *make_types(void)
{
	struct btf *btf = btf__new_empty();
	int u32, u64, qspinlock, raw, spinlock_union, spinlock, spinlock_t, arch, qrwlock, rwlock, rwlock_t, mutex,
		semaphore, inner, lockref_union, lockref, chain, bucket, mutexes, semaphore_const, queues, object, rq,
		variable, pointer, proto, rest, rt_base, rt_mutex, rwbase, rwsem, sem;

	expect(btf);
	u32 = btf__add_int(btf, "unsigned int", 4, 0);
	u64 = btf__add_int(btf, "unsigned long long", 8, 0);
	qspinlock = struct_of(btf, "qspinlock", 4);
	field(btf, "val", u32, 0);
	raw = struct_of(btf, "raw_spinlock", 4);
	field(btf, "raw_lock", qspinlock, 0);
	spinlock_union = btf__add_union(btf, NULL, 4);
	field(btf, "rlock", raw, 0);
	spinlock = struct_of(btf, "spinlock", 4);
	field(btf, NULL, spinlock_union, 0);
	spinlock_t = btf__add_typedef(btf, "spinlock_t", spinlock);
	arch = btf__add_typedef(btf, "arch_spinlock_t", qspinlock);
	qrwlock = struct_of(btf, "qrwlock", 8);
	field(btf, "cnts", u32, 0);
	field(btf, "wait_lock", arch, 4);
	rwlock = struct_of(btf, NULL, 8);
	field(btf, "raw_lock", qrwlock, 0);
	rwlock_t = btf__add_typedef(btf, "rwlock_t", rwlock);
	mutex = struct_of(btf, "mutex", 16);
	field(btf, "owner", u64, 0);
	field(btf, "wait_lock", raw, 8);
	field(btf, "osq", u32, 12);
	semaphore = struct_of(btf, "semaphore", 8);
	field(btf, "lock", raw, 0);
	field(btf, "count", u32, 4);
	inner = struct_of(btf, NULL, 8);
	field(btf, "lock", spinlock_t, 0);
	field(btf, "count", u32, 4);
	lockref_union = btf__add_union(btf, NULL, 8);
	field(btf, "lock_count", u64, 0);
	field(btf, NULL, inner, 0);
	lockref = struct_of(btf, "lockref", 8);
	field(btf, NULL, lockref_union, 0);
	chain = btf__add_array(btf, u32, u64, 7);
	bucket = struct_of(btf, "futex_hash_bucket", 64);
	field(btf, "waiters", u32, 0);
	field(btf, "lock", spinlock_t, 4);
	field(btf, "chain", chain, 8);
	mutexes = btf__add_array(btf, u32, mutex, 2);
	semaphore_const = btf__add_const(btf, semaphore);
	queues = btf__add_array(btf, u32, bucket, 0);
	object = struct_of(btf, "object", 64);
	expect_number(btf__add_field(btf, "flag", u32, 0, 3), 0);
	field(btf, "lock", spinlock_t, 4);
	field(btf, "mutexes", mutexes, 8);
	field(btf, "ref", lockref, 40);
	field(btf, "rw", rwlock_t, 48);
	field(btf, "sem", semaphore_const, 56);
	field(btf, "queues", queues, 64);
	struct_of(btf, "mm_struct", 24);
	field(btf, "users", u64, 0);
	field(btf, "mmap_lock", mutex, 8);
	struct_of(btf, "task_struct", 16);
	field(btf, "state", u64, 0);
	field(btf, "mm", u64, 8);
	sem = struct_of(btf, "sem", 64);
	field(btf, "semval", u32, 0);
	field(btf, "lock", spinlock_t, 16);
	sem = btf__add_array(btf, u32, sem, 0);
	struct_of(btf, "sem_array", 256);
	field(btf, "perm", spinlock_t, 0);
	field(btf, "sems", sem, 256);
	rest = btf__add_array(btf, u32, u64, 6);
	struct_of(btf, "page", 64);
	field(btf, "flags", u64, 0);
	field(btf, "compound_head", u64, 8);
	field(btf, "rest", rest, 16);
	struct_of(btf, "slab", 24);
	field(btf, "flags", u64, 0);
	field(btf, "slab_cache", u64, 16);
	struct_of(btf, "kmem_cache", 32);
	field(btf, "size", u32, 0);
	field(btf, "object_size", u32, 4);
	field(btf, "oo", u32, 8);
	field(btf, "min", u32, 12);
	field(btf, "refcount", u32, 16);
	field(btf, "red_left_pad", u32, 20);
	field(btf, "name", u64, 24);
	btf__add_enum(btf, "pageflags", 4);
	btf__add_enum_value(btf, "PG_slab", 9);
	rt_base = struct_of(btf, "rt_mutex_base", 16);
	field(btf, "wait_lock", raw, 0);
	field(btf, "owner", u64, 8);
	rt_mutex = struct_of(btf, "rt_mutex", 16);
	field(btf, "rtmutex", rt_base, 0);
	rwbase = struct_of(btf, "rwbase_rt", 24);
	field(btf, "readers", u32, 0);
	field(btf, "rtmutex", rt_base, 8);
	rwsem = struct_of(btf, "rw_semaphore", 24);
	field(btf, "rwbase", rwbase, 0);
	struct_of(btf, "rt_object", 48);
	field(btf, "users", u64, 0);
	field(btf, "sem", rwsem, 8);
	field(btf, "pi_mutex", rt_mutex, 32);
	rq = struct_of(btf, "rq", 8);
	field(btf, "__lock", raw, 0);
	field(btf, "cpu", u32, 4);
	variable = btf__add_var(btf, "runqueues", BTF_VAR_GLOBAL_ALLOCATED, rq);
	btf__add_datasec(btf, ".data..percpu", 4096);
	btf__add_datasec_var_info(btf, variable, 1024, 8);
	pointer = btf__add_ptr(btf, object);
	proto = btf__add_func_proto(btf, 0);
	btf__add_func_param(btf, "flags", u32);
	btf__add_func_param(btf, "object", pointer);
	btf__add_func(btf, "object_work", BTF_FUNC_STATIC, proto);
	return btf;
}

static struct types *open_types(void)
{
	struct types *types = NULL;

	expect_number(types_open_btf(&types, make_types()), 0);
	return types;
}

static void expect_path_in(const struct types *types, const char *type, __u32 offset, enum lock_kind kind,
			   const char *wanted, int wanted_index)
{
	char path[96];
	int index;

	expect_number(types_lock_path(types, types_struct(types, type), offset, kind, path, sizeof(path), &index), 0);
	expect_text(path, wanted);
	expect_number(index, wanted_index);
}

static void expect_path(const struct types *types, __u32 offset, enum lock_kind kind, const char *wanted,
			int wanted_index)
{
	expect_path_in(types, "object", offset, kind, wanted, wanted_index);
}

static void expect_no_lock(const struct types *types, __u32 offset, enum lock_kind kind)
{
	char path[96];
	int index;

	expect_number(types_lock_path(types, types_struct(types, "object"), offset, kind, path, sizeof(path), &index),
		      -ENOENT);
}

/* With PREEMPT_RT: whichever of its parts is waited for first, and in whichever way. */
static void parts_of_an_rt_lock_have_its_name(void)
{
	struct types *types = open_types();

	expect_path_in(types, "rt_object", 8, KIND_RWLOCK_RT_READ, ".sem", -1);
	expect_path_in(types, "rt_object", 16, KIND_RTMUTEX, ".sem", -1);
	expect_path_in(types, "rt_object", 16, KIND_SPINLOCK, ".sem", -1);
	expect_path_in(types, "rt_object", 32, KIND_RTMUTEX, ".pi_mutex", -1);
	expect_path_in(types, "rt_object", 32, KIND_SPINLOCK, ".pi_mutex", -1);
	types_close(types);
}

static void members_are_walked(void)
{
	struct types *types = open_types();

	expect_path(types, 4, KIND_SPINLOCK, ".lock", -1);
	expect_path(types, 8, KIND_MUTEX, ".mutexes", 0);
	expect_path(types, 24, KIND_MUTEX_SPIN, ".mutexes", 1);
	expect_path(types, 32, KIND_SPINLOCK, ".mutexes.wait_lock", 1);
	expect_path(types, 40, KIND_SPINLOCK, ".ref.lock", -1);
	expect_path(types, 48, KIND_RWLOCK_WRITE, ".rw", -1);
	expect_path(types, 52, KIND_SPINLOCK, ".rw.wait_lock", -1);
	expect_path(types, 64 + 4, KIND_SPINLOCK, ".queues.lock", 0);
	expect_path(types, 64 + 3 * 64 + 4, KIND_SPINLOCK, ".queues.lock", 3);
	types_close(types);
}

static void the_kind_tells_a_semaphore_from_its_spinlock(void)
{
	struct types *types = open_types();

	expect_path(types, 56, KIND_SEMAPHORE, ".sem", -1);
	expect_path(types, 56, KIND_SPINLOCK, ".sem.lock", -1);
	types_close(types);
}

static void what_is_no_lock_is_refused(void)
{
	struct types *types = open_types();

	expect_no_lock(types, 0, KIND_SPINLOCK);
	expect_no_lock(types, 4, KIND_MUTEX);
	expect_no_lock(types, 5, KIND_SPINLOCK);
	expect_no_lock(types, 8, KIND_SPINLOCK);
	expect_no_lock(types, 44, KIND_SPINLOCK);
	expect_no_lock(types, 48, KIND_RWSEM_READ);
	expect_no_lock(types, 64, KIND_SPINLOCK);
	types_close(types);
}

static void a_path_that_does_not_fit_is_refused(void)
{
	struct types *types = open_types();
	char path[8];
	int index;

	expect_number(
		types_lock_path(types, types_struct(types, "object"), 32, KIND_SPINLOCK, path, sizeof(path), &index),
		-ENOENT);
	types_close(types);
}

static void lookups_by_name(void)
{
	struct types *types = open_types();
	__u32 offset = 0, member = 0, function;
	const char *name = "";
	bool last;

	expect(types_struct(types, "object"));
	expect(!types_struct(types, "object_work"));
	expect(!types_struct(types, "spinlock_t"));
	expect(!types_struct(types, "nothing"));
	expect(types_member(types, types_struct(types, "lockref"), "count", &offset, &member));
	expect_number(offset, 4);
	expect(!types_member(types, types_struct(types, "lockref"), "nothing", &offset, &member));
	function = types_function(types, "object_work");
	expect(function);
	expect_number(types_parameter(types, function, 0, &last), 0);
	expect(!last);
	expect_text(types_name(types, types_parameter(types, function, 1, &last)), "object");
	expect_number(types_parameter(types, function, 2, &last), 0);
	expect(last);
	expect_number(types_percpu_size(types), 4096);
	expect(types_percpu_offset(types, "runqueues", &offset));
	expect_number(offset, 1024);
	expect(types_percpu_variable(types, 1028, &name, &offset));
	expect_text(name, "runqueues");
	expect_number(offset, 4);
	expect(!types_percpu_variable(types, 1032, &name, &offset));
	expect(!types_percpu_variable(types, 1023, &name, &offset));
	types_close(types);
}

#define CASE(function)              \
	{                           \
#function, function \
	}

const struct test_case type_cases[] = {CASE(members_are_walked),
				       CASE(parts_of_an_rt_lock_have_its_name),
				       CASE(the_kind_tells_a_semaphore_from_its_spinlock),
				       CASE(what_is_no_lock_is_refused),
				       CASE(a_path_that_does_not_fit_is_refused),
				       CASE(lookups_by_name),
				       {}};
