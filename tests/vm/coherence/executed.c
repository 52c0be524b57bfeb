// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A qemu plugin that counts what an emulated x86-64 guest executes, in phases: instructions of user space, and of the
 * kernel block by block.
 *
 *	qemu-system-x86_64 -plugin build/vm/executed.so,out=FILE
 *
 * A program in the guest begins phase N, or ends the one that lasts (tests/workloads/counting.h).  What is written at the end of a phase:
 *
 *	phase	N	instructions of user space	of the kernel
 *	block	address	instructions	locked operations	clock reads	target of its last jump or call	runs
 *
 * Blocks are written of phases up to COUNTED_WITH_BLOCKS.  A block runs to its end, as it is counted: one that a fault
 * leaves counts as if it had been run twice.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qemu_plugin.h"
#include "../../workloads/counting.h"

#define MOST_VCPUS 16
#define BUCKETS    (1u << 18)
#define KERNEL     (1ull << 63)
#define LONGEST    16 /* bytes of an instruction */

/* As in counting.h. */
static const uint8_t mark_bytes[] = {0x0f, 0x1f, 0x84, 0x00};
static const uint8_t mark_name[] = {'m', 'a', 'r'};
#define MARK_SIZE 8

struct block {
	struct block *next; /* of its bucket */
	uint64_t address;
	uint64_t target; /* 0: not known */
	uint64_t hash;   /* of its code: what was there before may be another program's */
	uint32_t instructions;
	uint32_t locked;
	uint32_t clocks;
	uint64_t runs[MOST_VCPUS]; /* each is written by its vCPU's thread alone */
};

static struct block *buckets[BUCKETS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic uint32_t phase;
static struct {
	uint64_t instructions;
	uint64_t pad[15];
} of_user[MOST_VCPUS];
static FILE *out;

EXPORTED int qemu_plugin_version;

__attribute__((constructor)) static void choose_version(void)
{
	qemu_plugin_version = qemu_plugin_num_vcpus ? 2 : 1;
}

static void complain(const char *what, const char *why)
{
	fprintf(stderr, "executed: %s: %s\n", what, why);
}

static void on_kernel_block(unsigned int index, void *data)
{
	if (atomic_load_explicit(&phase, memory_order_relaxed) && index < MOST_VCPUS)
		((struct block *)data)->runs[index]++;
}

static void on_user_block(unsigned int index, void *data)
{
	if (atomic_load_explicit(&phase, memory_order_relaxed) && index < MOST_VCPUS)
		of_user[index].instructions += (uintptr_t)data;
}

/* Writes what was counted, and forgets it. */
static void end_phase(uint32_t number)
{
	uint64_t user = 0, kernel = 0;

	for (int i = 0; i < MOST_VCPUS; i++) {
		user += of_user[i].instructions;
		of_user[i].instructions = 0;
	}
	for (struct block **bucket = buckets; bucket < buckets + BUCKETS; bucket++)
		for (struct block *block = *bucket; block; block = block->next) {
			uint64_t runs = 0;

			for (int i = 0; i < MOST_VCPUS; i++)
				runs += block->runs[i];
			memset(block->runs, 0, sizeof(block->runs));
			kernel += runs * block->instructions;
			if (number && number <= COUNTED_WITH_BLOCKS && runs)
				fprintf(out,
					"block\t%" PRIx64 "\t%" PRIu32 "\t%" PRIu32 "\t%" PRIu32 "\t%" PRIx64
					"\t%" PRIu64 "\n",
					block->address, block->instructions, block->locked, block->clocks,
					block->target, runs);
		}
	if (number)
		fprintf(out, "phase\t%" PRIu32 "\t%" PRIu64 "\t%" PRIu64 "\n", number, user, kernel);
	fflush(out);
}

static void on_mark(unsigned int index, void *data)
{
	uint32_t number = (uintptr_t)data;

	(void)index;
	pthread_mutex_lock(&mutex);
	end_phase(atomic_exchange(&phase, 0));
	atomic_store(&phase, number);
	pthread_mutex_unlock(&mutex);
}

/* From 9.1 on the function copies, and says how much; before that it has two arguments less and returns an address. */
static size_t code_of(const struct qemu_plugin_insn *instruction, uint8_t bytes[LONGEST])
{
	size_t size = qemu_plugin_insn_size(instruction);
	uintptr_t told;

	memset(bytes, 0, LONGEST);
	size = size < LONGEST ? size : LONGEST;
	told = qemu_plugin_insn_data(instruction, bytes, size);
	if (told > LONGEST)
		memcpy(bytes, (const void *)told, size);
	return size;
}

/* The operation code behind the prefixes; *lock: one of them locks. */
static const uint8_t *skip_prefixes(const uint8_t *at, const uint8_t *end, bool *lock)
{
	static const uint8_t prefixes[] = {0x66, 0x67, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65, 0xf0};

	*lock = false;
	for (; at < end && memchr(prefixes, *at, sizeof(prefixes)); at++)
		*lock |= *at == 0xf0;
	if (at < end && (*at & 0xf0) == 0x40)
		at++; /* REX */
	return at;
}

static void look_at(struct block *block, const struct qemu_plugin_insn *instruction)
{
	uint8_t bytes[LONGEST + 4] = {};
	size_t size = code_of(instruction, bytes);
	bool lock;
	const uint8_t *at = skip_prefixes(bytes, bytes + size, &lock);

	for (size_t i = 0; i < size; i++)
		block->hash = (block->hash ^ bytes[i]) * 0x100000001b3ull;
	/* xchg with memory locks by itself. */
	if (lock || ((at[0] & 0xfe) == 0x86 && at[1] >> 6 != 3))
		block->locked++;
	/* rdtsc, rdtscp */
	if (at[0] == 0x0f && (at[1] == 0x31 || (at[1] == 0x01 && at[2] == 0xf9)))
		block->clocks++;
	block->target = 0;
	if (at[0] == 0xe8 || at[0] == 0xe9) {
		int32_t distance;

		memcpy(&distance, at + 1, sizeof(distance));
		block->target = qemu_plugin_insn_vaddr(instruction) + size + distance;
	}
}

static bool is_mark(const struct qemu_plugin_insn *instruction, uint32_t *number)
{
	uint8_t bytes[LONGEST];

	if (qemu_plugin_insn_size(instruction) != MARK_SIZE)
		return false;
	code_of(instruction, bytes);
	*number = bytes[sizeof(mark_bytes)];
	return !memcmp(bytes, mark_bytes, sizeof(mark_bytes)) &&
	       !memcmp(bytes + sizeof(mark_bytes) + 1, mark_name, sizeof(mark_name));
}

/* The block that is counted for this one: code is translated again and again. */
static struct block *keep(const struct block *seen)
{
	struct block **bucket = &buckets[(seen->address * 0x9e3779b97f4a7c15ull ^ seen->hash) >> 40 & (BUCKETS - 1)];
	struct block *block;

	pthread_mutex_lock(&mutex);
	for (block = *bucket; block; block = block->next)
		if (block->address == seen->address && block->hash == seen->hash &&
		    block->instructions == seen->instructions)
			goto out;
	block = malloc(sizeof(*block));
	if (block) {
		*block = *seen;
		block->next = *bucket;
		*bucket = block;
	}
out:
	pthread_mutex_unlock(&mutex);
	return block;
}

static void on_translation(qemu_plugin_id_t id, struct qemu_plugin_tb *translated)
{
	size_t count = qemu_plugin_tb_n_insns(translated);
	struct block seen = {.instructions = count};
	struct block *block;
	uint32_t number;

	(void)id;
	seen.address = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(translated, 0));
	if (!(seen.address & KERNEL)) {
		qemu_plugin_register_vcpu_tb_exec_cb(translated, on_user_block, QEMU_PLUGIN_CB_NO_REGS,
						     (void *)(uintptr_t)count);
		for (size_t i = 0; i < count; i++) {
			struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(translated, i);

			if (is_mark(instruction, &number))
				qemu_plugin_register_vcpu_insn_exec_cb(instruction, on_mark, QEMU_PLUGIN_CB_NO_REGS,
								       (void *)(uintptr_t)number);
		}
		return;
	}
	for (size_t i = 0; i < count; i++)
		look_at(&seen, qemu_plugin_tb_get_insn(translated, i));
	block = keep(&seen);
	if (block)
		qemu_plugin_register_vcpu_tb_exec_cb(translated, on_kernel_block, QEMU_PLUGIN_CB_NO_REGS, block);
	else
		complain("no memory", "a block is not counted");
}

static void on_exit_of_guest(qemu_plugin_id_t id, void *data)
{
	(void)id;
	(void)data;
	fputs("end\n", out);
	if (ferror(out) || fclose(out))
		complain("cannot write what was counted", strerror(errno));
}

EXPORTED int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info_t *info, int argc, char **argv)
{
	(void)info;
	if (argc != 1 || strncmp(argv[0], "out=", 4)) {
		complain("options", "out=FILE is the one there is");
		return -1;
	}
	out = fopen(argv[0] + 4, "we");
	if (!out) {
		complain(argv[0] + 4, strerror(errno));
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
	qemu_plugin_register_atexit_cb(id, on_exit_of_guest, NULL);
	return 0;
}
