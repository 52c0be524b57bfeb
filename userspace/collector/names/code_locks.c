// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Two functions that use the same lock and hardly anything else: the one
 * address that both load as a first argument is the lock's.  So a name needs no
 * symbol of the variable, and a wrong guess needs two functions that agree.
 */
#include <stdbool.h>
#include <string.h>

#include "names/code_locks.h"
#include "names/resolver.h"
#include "names/symbols.h"

/* Addresses of one function. */
#define ARGUMENTS 8

static const struct {
	const char *name, *one, *other;
} takers[] = {
	{"rtnl_mutex", "rtnl_lock", "rtnl_trylock"},
	{"pernet_ops_rwsem", "register_pernet_subsys", "unregister_pernet_subsys"},
	{"cpu_hotplug_lock", "cpus_write_lock", "cpus_write_unlock"},
	{"cgroup_mutex", "cgroup_kn_lock_live", "cgroup_kn_unlock"},
	{"text_mutex", "arch_jump_label_transform", "arch_jump_label_transform_apply"},
	{"jump_label_mutex", "jump_label_lock", "jump_label_unlock"},
	{"pidmap_lock", "alloc_pid", "free_pid"},
	{"rename_lock", "d_move", "d_exchange"},
	{"shrinker_mutex", "shrinker_register", "shrinker_free"},
	{"shrinker_rwsem", "register_shrinker", "unregister_shrinker"},
};

#define TAKERS (sizeof(takers) / sizeof(*takers))

_Static_assert(TAKERS <= CODE_LOCKS, "one place for each");

static int add(__u64 address, __u64 begin, __u64 end, __u64 *out, int count, int max)
{
	if (address < begin || address >= end || count == max)
		return count;
	for (int i = 0; i < count; i++)
		if (out[i] == address)
			return count;
	out[count] = address;
	return count + 1;
}

/* adrp x0, PAGE; add x0, x0, #OFFSET */
int code_arguments_arm64(const __u8 *code, size_t size, __u64 address, __u64 begin, __u64 end, __u64 *out, int max)
{
	int count = 0;
	__u64 page = 0;

	for (size_t i = 0; i + 4 <= size; i += 4) {
		__u32 word;

		memcpy(&word, code + i, sizeof(word));
		if ((word & 0x9f00001f) == 0x90000000) {
			__u64 pages = (word >> 29 & 3) | (word >> 5 & 0x7ffff) << 2;

			/* 21 bits with a sign. */
			page = ((address + i) & ~0xfffull) + (((pages ^ 1u << 20) - (1u << 20)) << 12);
		} else if ((word & 0xffc003ff) == 0x91000000 && page) {
			count = add(page + (word >> 10 & 0xfff), begin, end, out, count, max);
		}
	}
	return count;
}

/* mov $ADDRESS, %rdi, or lea OFFSET(%rip), %rdi.  Bytes that only look like one give an address that nobody shares. */
int code_arguments_x86(const __u8 *code, size_t size, __u64 address, __u64 begin, __u64 end, __u64 *out, int max)
{
	int count = 0;

	for (size_t i = 0; i + 7 <= size; i++) {
		bool move = code[i] == 0x48 && code[i + 1] == 0xc7 && code[i + 2] == 0xc7;
		bool lea = code[i] == 0x48 && code[i + 1] == 0x8d && code[i + 2] == 0x3d;
		__s32 value;

		if (!move && !lea)
			continue;
		memcpy(&value, code + i + 3, sizeof(value));
		count = add(move ? (__u64)(__s64)value : address + i + 7 + value, begin, end, out, count, max);
	}
	return count;
}

#ifdef __aarch64__
#define code_arguments code_arguments_arm64
#else
#define code_arguments code_arguments_x86
#endif

static int arguments(const struct resolver *resolver, const struct symbols *symbols, const char *function, __u64 begin,
		     __u64 end, __u64 *out)
{
	__u8 code[CODE_BYTES];
	struct symbol symbol;
	size_t size = sizeof(code);
	__u64 address;

	if (symbols_address(symbols, function, &address) || resolver_read(resolver, address, code, sizeof(code)))
		return 0;
	/* Not into the next function. */
	while (size > 1 && (symbols_lookup(symbols, address + size - 1, &symbol) || symbol.address != address))
		size--;
	return code_arguments(code, size, address, begin, end, out, ARGUMENTS);
}

void code_locks_open(struct code_locks *locks, const struct resolver *resolver, const struct symbols *symbols,
		     __u64 begin, __u64 end)
{
	locks->count = 0;
	for (size_t i = 0; i < TAKERS; i++) {
		__u64 one[ARGUMENTS], other[ARGUMENTS], found = 0;
		int ones = arguments(resolver, symbols, takers[i].one, begin, end, one), both = 0;
		int others = ones ? arguments(resolver, symbols, takers[i].other, begin, end, other) : 0;

		for (int a = 0; a < ones; a++)
			for (int b = 0; b < others; b++)
				if (one[a] == other[b]) {
					found = one[a];
					both++;
				}
		if (both != 1)
			continue;
		locks->lock[locks->count].address = found;
		locks->lock[locks->count++].name = takers[i].name;
	}
}

const char *code_locks_find(const struct code_locks *locks, __u64 address)
{
	for (int i = 0; i < locks->count; i++)
		if (locks->lock[i].address == address)
			return locks->lock[i].name;
	return NULL;
}

void code_locks_each_name(void (*visit)(const char *name, void *data), void *data)
{
	for (size_t i = 0; i < TAKERS; i++)
		visit(takers[i].name, data);
}
