// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/patience.h"
#include "base/proc.h"
#include "base/small_file.h"
#include "watch/watch_decoding.h"
#include "watch/watch_freed.h"
#include "watch/watch_write.h"
#include "recording/recording_rows.h"

#define LONGEST       16 /* bytes of an instruction, and to spare */
#define FUNCTION_MOST 65536

/* By the address that was reported. */
struct decoded {
	__u64 ip;
	__u32 tgid; /* 0: the kernel's */
	struct watch_code code;
	struct watch_kind kind;
};

/* By the address of the instruction. */
struct code {
	__u64 address;
	__u32 tgid;
	__u8 toucher; /* enum watch_toucher */
};

struct thread {
	__u32 tgid;
	__u32 tid;
	char comm[16];
};

struct watch_decoding {
	struct lock_names *names;
	const struct symbols *symbols;
	struct user_symbols *users;
	struct recording *recording;
	struct memory_budget *budget;
	struct watch_decoder *decoder;
	struct decoded *decoded;
	__u32 decoded_count, decoded_capacity;
	struct hash_index decoded_index;
	struct code *codes;
	__u32 code_count, code_capacity;
	struct hash_index code_index;
	struct thread *threads;
	__u32 thread_count, thread_capacity;
	struct hash_index thread_index;
	__u8 *text; /* FUNCTION_MOST bytes */
};

int watch_decoding_open(struct watch_decoding **out, struct lock_names *names, const struct symbols *symbols,
			struct user_symbols *users, struct recording *recording, struct memory_budget *budget)
{
	struct watch_decoding *decoding = calloc(1, sizeof(*decoding));
	int err;

	if (!decoding)
		return -ENOMEM;
	decoding->names = names;
	decoding->symbols = symbols;
	decoding->users = users;
	decoding->recording = recording;
	decoding->budget = budget;
	decoding->text = malloc(FUNCTION_MOST);
	err = decoding->text ? watch_decoder_open(&decoding->decoder, MACHINE_HERE) : -ENOMEM;
	if (err)
		watch_decoding_close(decoding);
	else
		*out = decoding;
	return err;
}

void watch_decoding_close(struct watch_decoding *decoding)
{
	if (!decoding)
		return;
	watch_decoder_close(decoding->decoder);
	free(decoding->decoded);
	free(decoding->decoded_index.slots);
	free(decoding->codes);
	free(decoding->code_index.slots);
	free(decoding->threads);
	free(decoding->thread_index.slots);
	free(decoding->text);
	free(decoding);
}

static size_t read_kernel(const struct watch_decoding *decoding, __u64 address, __u8 *out, size_t size)
{
	size_t done = 0;

	while (done < size) {
		size_t piece = size - done < RESOLVE_BYTES ? size - done : RESOLVE_BYTES;

		if (resolver_read(&decoding->names->resolver, address + done, out + done, piece))
			break;
		done += piece;
	}
	return done;
}

static size_t read_user(__u32 tgid, __u64 address, __u8 *out, size_t size)
{
	ssize_t done = patience_read(tgid, address, out, size);

	return done < 0 ? 0 : done;
}

static size_t read_text(const struct watch_decoding *decoding, __u32 tgid, __u64 address, __u8 *out, size_t size)
{
	return tgid ? read_user(tgid, address, out, size) : read_kernel(decoding, address, out, size);
}

/* Where the function begins whose code is just before ip; 0: not known. */
static __u64 function_begin(struct watch_decoding *decoding, __u32 tgid, __u64 ip)
{
	char name[256], module[256];
	struct symbol symbol;
	__u64 offset;

	if (!tgid)
		return symbols_lookup(decoding->symbols, ip - 1, &symbol) ? 0 : symbol.address;
	if (user_symbols_lookup(decoding->users, tgid, ip - 1, name, sizeof(name), &offset, module, sizeof(module)) ||
	    !*name)
		return 0;
	return ip - 1 - offset;
}

static void decode(struct watch_decoding *decoding, struct decoded *decoded)
{
	__u64 begin = function_begin(decoding, decoded->tgid, decoded->ip);
	size_t size = begin ? decoded->ip - begin + LONGEST : 0, got;
	int err = -ENOENT;

	if (size && size <= FUNCTION_MOST) {
		got = read_text(decoding, decoded->tgid, begin, decoding->text, size);
		if (got >= decoded->ip - begin)
			err = watch_decode(decoding->decoder, decoding->text, got, begin, decoded->ip, &decoded->code);
	}
	if (!err)
		return;
	size = WATCH_BEFORE;
	got = read_text(decoding, decoded->tgid, decoded->ip - size, decoding->text, size);
	if (got != size) {
		size = LONGEST;
		got = read_text(decoding, decoded->tgid, decoded->ip - size, decoding->text, size);
	}
	if (got == size)
		watch_decode_back(decoding->decoder, decoding->text, got, decoded->ip, &decoded->code);
}

static int find_decoded(struct watch_decoding *decoding, __u32 tgid, __u64 ip, struct decoded **out)
{
	__u32 hash = hash_two(ip, tgid);
	int err;

	hash_index_for(&decoding->decoded_index, hash, number)
	{
		if (decoding->decoded[number].ip != ip || decoding->decoded[number].tgid != tgid)
			continue;
		*out = &decoding->decoded[number];
		return 0;
	}
	err = memory_reserve((void **)&decoding->decoded, decoding->decoded_count, &decoding->decoded_capacity,
			     sizeof(*decoding->decoded), decoding->budget);
	err = err ?: hash_index_add(&decoding->decoded_index, decoding->budget, hash, decoding->decoded_count);
	if (err)
		return err;
	decoding->decoded[decoding->decoded_count] = (struct decoded){.ip = ip, .tgid = tgid};
	decode(decoding, &decoding->decoded[decoding->decoded_count]);
	*out = &decoding->decoded[decoding->decoded_count++];
	return 0;
}

static int store_code(struct watch_decoding *decoding, struct code *code, __u32 id)
{
	char name[256] = "", object[256] = "[kernel.kallsyms]";
	struct symbol symbol;
	__u64 offset = 0;

	if (code->tgid) {
		*object = 0;
		user_symbols_lookup(decoding->users, code->tgid, code->address, name, sizeof(name), &offset, object,
				    sizeof(object));
	} else if (!symbols_lookup(decoding->symbols, code->address, &symbol)) {
		snprintf(name, sizeof(name), "%s", symbol.name);
		offset = symbol.offset;
		if (!*symbol.module)
			code->toucher = watch_toucher(symbol.name);
		else
			snprintf(object, sizeof(object), "[%s]", symbol.module);
	}
	make_printable(name);
	make_printable(object);
	return recording_put(decoding->recording, memory_code, .id = id, .address = code->address,
			     .space = code->tgid ? "user" : "kernel", .symbol = name, .offset = offset,
			     .object = object, .line = "");
}

static int find_code(struct watch_decoding *decoding, __u32 tgid, __u64 address, __u32 *id, __u8 *toucher)
{
	__u32 hash = hash_two(address, tgid);
	int err;

	hash_index_for(&decoding->code_index, hash, number)
	{
		if (decoding->codes[number].address != address || decoding->codes[number].tgid != tgid)
			continue;
		*id = WATCH_IDS + number;
		*toucher = decoding->codes[number].toucher;
		return 0;
	}
	err = memory_reserve((void **)&decoding->codes, decoding->code_count, &decoding->code_capacity,
			     sizeof(*decoding->codes), decoding->budget);
	err = err ?: hash_index_add(&decoding->code_index, decoding->budget, hash, decoding->code_count);
	if (err)
		return err;
	decoding->codes[decoding->code_count] = (struct code){.address = address, .tgid = tgid};
	*id = WATCH_IDS + decoding->code_count;
	err = store_code(decoding, &decoding->codes[decoding->code_count], *id);
	*toucher = decoding->codes[decoding->code_count++].toucher;
	return err;
}

int watch_decoding_find(struct watch_decoding *decoding, const struct watch_record *record, unsigned int bytes,
			struct watch_access *access, struct watch_kind *kind, __u32 *code)
{
	__u32 tgid = record->flags & WATCH_USER ? record->tgid : 0;
	struct decoded *found;
	int err = find_decoded(decoding, tgid, record->ip, &found);

	if (err)
		return err;
	watch_place(&found->code, record, bytes, access);
	watch_kind_note(&found->kind, record->flags);
	*kind = found->kind;
	return find_code(decoding, tgid, access->address, code, &access->toucher);
}

int watch_decoding_thread(struct watch_decoding *decoding, const struct watch_record *record, __u32 *id)
{
	__u32 hash = hash_two((__u64)record->tgid << 32 | record->tid, 0);
	struct thread *thread;
	char comm[17];
	int err;

	hash_index_for(&decoding->thread_index, hash, number)
	{
		thread = &decoding->threads[number];
		if (thread->tid != record->tid || thread->tgid != record->tgid ||
		    memcmp(thread->comm, record->comm, sizeof(thread->comm)))
			continue;
		*id = WATCH_IDS + number;
		return 0;
	}
	err = memory_reserve((void **)&decoding->threads, decoding->thread_count, &decoding->thread_capacity,
			     sizeof(*decoding->threads), decoding->budget);
	err = err ?: hash_index_add(&decoding->thread_index, decoding->budget, hash, decoding->thread_count);
	if (err)
		return err;
	thread = &decoding->threads[decoding->thread_count];
	*thread = (struct thread){.tgid = record->tgid, .tid = record->tid};
	memcpy(thread->comm, record->comm, sizeof(thread->comm));
	snprintf(comm, sizeof(comm), "%.16s", record->comm);
	make_printable(comm);
	*id = WATCH_IDS + decoding->thread_count++;
	return recording_put(decoding->recording, memory_thread, .id = (__s64)*id, .pid = record->tgid,
			     .tid = record->tid, .comm = comm);
}
