// SPDX-License-Identifier: GPL-2.0-or-later
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <capstone/capstone.h>

#include "watch/watch_code.h"
#include "watch/watch_vex.h"

#define LONGEST 15 /* bytes of an instruction */
#define STARTS  16 /* where decoding is tried from, without the function's begin */

struct watch_decoder {
	csh handle;
	cs_insn *instruction; /* reused by all decoding */
	bool arm64;
};

int watch_decoder_open(struct watch_decoder **out, enum watch_machine machine)
{
	struct watch_decoder *decoder = calloc(1, sizeof(*decoder));
	int err = -ENOMEM;

#ifdef __aarch64__
	const bool here_arm64 = true;
#else
	const bool here_arm64 = false;
#endif
	if (!decoder)
		return err;
	decoder->arm64 = machine == MACHINE_ARM64 || (machine == MACHINE_HERE && here_arm64);
	if (cs_open(decoder->arm64 ? CS_ARCH_ARM64 : CS_ARCH_X86, decoder->arm64 ? CS_MODE_LITTLE_ENDIAN : CS_MODE_64,
		    &decoder->handle) != CS_ERR_OK)
		goto out;
	cs_option(decoder->handle, CS_OPT_DETAIL, CS_OPT_ON);
	decoder->instruction = cs_malloc(decoder->handle);
	if (!decoder->instruction)
		goto out;
	*out = decoder;
	return 0;
out:
	watch_decoder_close(decoder);
	return err;
}

void watch_decoder_close(struct watch_decoder *decoder)
{
	if (!decoder)
		return;
	if (decoder->instruction)
		cs_free(decoder->instruction, 1);
	if (decoder->handle)
		cs_close(&decoder->handle);
	free(decoder);
}

/* As struct watch_record numbers them; -1: none of these. */
static int x86_register(unsigned int id)
{
	static const struct {
		unsigned int id, number;
	} names[] = {
		{X86_REG_RAX, 0},   {X86_REG_RCX, 1},   {X86_REG_RDX, 2},   {X86_REG_RBX, 3},   {X86_REG_RSP, 4},
		{X86_REG_RBP, 5},   {X86_REG_RSI, 6},   {X86_REG_RDI, 7},   {X86_REG_R8, 8},    {X86_REG_R9, 9},
		{X86_REG_R10, 10},  {X86_REG_R11, 11},  {X86_REG_R12, 12},  {X86_REG_R13, 13},  {X86_REG_R14, 14},
		{X86_REG_R15, 15},  {X86_REG_EAX, 0},   {X86_REG_ECX, 1},   {X86_REG_EDX, 2},   {X86_REG_EBX, 3},
		{X86_REG_ESP, 4},   {X86_REG_EBP, 5},   {X86_REG_ESI, 6},   {X86_REG_EDI, 7},   {X86_REG_R8D, 8},
		{X86_REG_R9D, 9},   {X86_REG_R10D, 10}, {X86_REG_R11D, 11}, {X86_REG_R12D, 12}, {X86_REG_R13D, 13},
		{X86_REG_R14D, 14}, {X86_REG_R15D, 15},
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (names[i].id == id)
			return names[i].number;
	return -1;
}

static bool is_string(const cs_insn *instruction)
{
	switch (instruction->id) {
	case X86_INS_MOVSB:
	case X86_INS_MOVSW:
	case X86_INS_MOVSQ:
	case X86_INS_STOSB:
	case X86_INS_STOSW:
	case X86_INS_STOSD:
	case X86_INS_STOSQ:
	case X86_INS_LODSB:
	case X86_INS_LODSW:
	case X86_INS_LODSD:
	case X86_INS_LODSQ:
	case X86_INS_CMPSB:
	case X86_INS_CMPSW:
	case X86_INS_CMPSQ:
	case X86_INS_SCASB:
	case X86_INS_SCASW:
	case X86_INS_SCASD:
	case X86_INS_SCASQ:
		return true;
	case X86_INS_MOVSD: /* of strings, or of SSE */
	case X86_INS_CMPSD:
		return instruction->bytes[instruction->size - 1] == 0xa5 ||
		       instruction->bytes[instruction->size - 1] == 0xa7;
	}
	return false;
}

static bool writes_register(struct watch_decoder *decoder, const cs_insn *instruction, int number)
{
	cs_regs read, written;
	uint8_t reads, writes;

	if (cs_regs_access(decoder->handle, instruction, read, &reads, written, &writes) != CS_ERR_OK)
		return true;
	for (int i = 0; i < writes; i++)
		if (x86_register(written[i]) == number)
			return true;
	return false;
}

/* Operands that look like memory and touch none. */
static bool touches_nothing(const cs_insn *instruction)
{
	switch (instruction->id) {
	case X86_INS_LEA:
	case X86_INS_NOP:
	case X86_INS_PREFETCH:
	case X86_INS_PREFETCHNTA:
	case X86_INS_PREFETCHT0:
	case X86_INS_PREFETCHT1:
	case X86_INS_PREFETCHT2:
	case X86_INS_PREFETCHW:
	case X86_INS_CLFLUSH:
	case X86_INS_CLFLUSHOPT:
	case X86_INS_INVLPG:
		return true;
	}
	return false;
}

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static bool begins_with_any(const char *text, const char *const *with, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (begins(text, with[i]))
			return true;
	return false;
}

/*
 * By the mnemonic: capstone 4 takes many stores of SSE, AVX and x87 for loads, rotations too, and `test` with a
 * constant for a store.  number: of the operand, the destination is the first.
 */
static __u8 x86_access(const cs_insn *instruction, int number)
{
	static const char *const readers[] = {
		"cmps", "test",  "jmp",  "ljmp", "call",  "lcall", "push",  "mul",  "imul",    "div",   "idiv",
		"fld",  "fild",  "fbld", "fadd", "fiadd", "fsub",  "fisub", "fmul", "fimul",   "fdiv",  "fidiv",
		"fcom", "ficom", "frst", "fxr",  "xrst",  "ldmx",  "vldmx", "lgdt", "lidt",    "lldt",  "ltr",
		"lmsw", "verr",  "verw", "inv",  "out",   "lods",  "scas",  "clwb", "vmptrld", "vmxon", "xlat",
	};
	static const char *const writers[] = {
		"mov",      "vmov",      "set",    "sto",       "stm",    "str",     "vst",  "pop",   "fst",  "fist",
		"fnst",     "fnsave",    "fbst",   "fxs",       "xsav",   "sgdt",    "sidt", "sldt",  "smsw", "extract",
		"vextract", "pextr",     "vpextr", "vcvtps2ph", "ins",    "kmov",    "vpsc", "vsca",  "vpco", "vcom",
		"vmaskmov", "vpmaskmov", "vpmov",  "maskmov",   "vmread", "vmptrst", "wrss", "wruss",
	};
	const char *mnemonic = strrchr(instruction->mnemonic, ' ');

	mnemonic = mnemonic ? mnemonic + 1 : instruction->mnemonic;
	if (number)
		return ACCESS_READ;
	if (!strcmp(mnemonic, "cmp") || !strcmp(mnemonic, "bt") ||
	    begins_with_any(mnemonic, readers, sizeof(readers) / sizeof(*readers)))
		return ACCESS_READ;
	if (begins_with_any(mnemonic, writers, sizeof(writers) / sizeof(*writers)))
		return ACCESS_WRITE;
	return ACCESS_READ | ACCESS_WRITE;
}

static void x86_operand(struct watch_decoder *decoder, const cs_insn *instruction, int number, struct watch_operand *to)
{
	const cs_x86_op *from = &instruction->detail->x86.operands[number];
	bool string = is_string(instruction);

	*to = (struct watch_operand){
		.access = x86_access(instruction, number),
		.size = from->size ?: 1,
		.base = x86_register(from->mem.base),
		.index = x86_register(from->mem.index),
		.scale = from->mem.scale,
		.offset = from->mem.disp,
	};
	if (from->mem.base == X86_REG_RIP)
		to->offset += instruction->address + instruction->size;
	else if (from->mem.base != X86_REG_INVALID && to->base < 0)
		to->lost = true;
	/* The kernel's per-CPU areas begin on pages; where a thread's own begin is not known. */
	if (from->mem.segment == X86_REG_FS || (from->mem.segment == X86_REG_GS && !(instruction->address >> 63)))
		to->lost = true;
	/* A string's registers have moved on by an element. */
	if (string) {
		to->offset -= to->size;
		to->at = to->base == 6 ? WATCH_AT_SI : to->base == 7 ? WATCH_AT_DI : 0;
	} else if ((to->base >= 0 && writes_register(decoder, instruction, to->base)) ||
		   (to->index >= 0 && writes_register(decoder, instruction, to->index))) {
		to->lost = true;
	}
}

/* Operands that capstone does not list. */
static void add_implicit(const cs_insn *instruction, struct watch_instruction *out)
{
	bool write = false, read = false;

	if (instruction->id == X86_INS_XLATB)
		out->operands[out->operand_count++] =
			(struct watch_operand){.access = ACCESS_READ, .size = 1, .base = 3, .index = -1, .lost = true};

	for (int i = 0; i < instruction->detail->groups_count; i++) {
		write |= instruction->detail->groups[i] == CS_GRP_CALL;
		read |= instruction->detail->groups[i] == CS_GRP_RET;
	}
	write |= instruction->id == X86_INS_PUSH || instruction->id == X86_INS_PUSHFQ ||
		 instruction->id == X86_INS_PUSHF || instruction->id == X86_INS_ENTER;
	read |= instruction->id == X86_INS_POP || instruction->id == X86_INS_POPFQ || instruction->id == X86_INS_POPF ||
		instruction->id == X86_INS_LEAVE || instruction->id == X86_INS_IRET ||
		instruction->id == X86_INS_IRETD || instruction->id == X86_INS_IRETQ;
	if ((!write && !read) || out->operand_count == WATCH_OPERANDS)
		return;
	out->operands[out->operand_count++] = (struct watch_operand){
		.access = write ? ACCESS_WRITE : ACCESS_READ,
		.size = 8,
		.base = 4,
		.index = -1,
		.offset = write ? 0 : -8ull,
	};
}

static void describe_x86(struct watch_decoder *decoder, const cs_insn *instruction, struct watch_instruction *out)
{
	const cs_x86 *detail = &instruction->detail->x86;
	bool locked = detail->prefix[0] == X86_PREFIX_LOCK;

	for (int i = 0; i < detail->op_count && out->operand_count < WATCH_OPERANDS; i++) {
		struct watch_operand *operand = &out->operands[out->operand_count];

		if (detail->operands[i].type != X86_OP_MEM || touches_nothing(instruction))
			continue;
		x86_operand(decoder, instruction, i, operand);
		/* An exchange with memory locks by itself; what locks reads and writes. */
		if (locked || instruction->id == X86_INS_XCHG)
			operand->access = ACCESS_READ | ACCESS_WRITE | ACCESS_LOCKED;
		out->operand_count++;
	}
	add_implicit(instruction, out);
}

static int arm64_register(unsigned int id)
{
	if (id >= ARM64_REG_X0 && id <= ARM64_REG_X28)
		return id - ARM64_REG_X0;
	switch (id) {
	case ARM64_REG_X29:
		return 29;
	case ARM64_REG_X30:
		return 30;
	case ARM64_REG_SP:
		return 31;
	}
	return -1;
}

/* Of a word that is extended the low byte is the same. */
static int arm64_index(unsigned int id)
{
	return id >= ARM64_REG_W0 && id <= ARM64_REG_W30 ? (int)(id - ARM64_REG_W0) : arm64_register(id);
}

/* By the mnemonic: capstone 4 knows the accesses of few of the atomics. */
static __u8 arm64_access(const char *mnemonic)
{
	static const char *const atomics[] = {"cas",    "swp",    "ldadd",  "ldclr",  "ldeor",  "ldset",
					      "ldsmax", "ldsmin", "ldumax", "ldumin", "stadd",  "stclr",
					      "steor",  "stset",  "stsmax", "stsmin", "stumax", "stumin"};

	for (size_t i = 0; i < sizeof(atomics) / sizeof(*atomics); i++)
		if (begins(mnemonic, atomics[i]))
			return ACCESS_READ | ACCESS_WRITE | ACCESS_LOCKED;
	if (begins(mnemonic, "ldxr") || begins(mnemonic, "ldaxr") || begins(mnemonic, "ldxp") ||
	    begins(mnemonic, "ldaxp"))
		return ACCESS_READ | ACCESS_LOCKED;
	if (begins(mnemonic, "stxr") || begins(mnemonic, "stlxr") || begins(mnemonic, "stxp") ||
	    begins(mnemonic, "stlxp"))
		return ACCESS_WRITE | ACCESS_LOCKED;
	if (begins(mnemonic, "ld"))
		return ACCESS_READ;
	return begins(mnemonic, "st") || begins(mnemonic, "dc") ? ACCESS_WRITE : 0;
}

static __u8 arm64_register_bytes(unsigned int id)
{
	static const struct {
		unsigned int first, last;
		__u8 bytes;
	} kinds[] = {
		{ARM64_REG_W0, ARM64_REG_W30, 4},  {ARM64_REG_WZR, ARM64_REG_WZR, 4}, {ARM64_REG_B0, ARM64_REG_B31, 1},
		{ARM64_REG_H0, ARM64_REG_H31, 2},  {ARM64_REG_S0, ARM64_REG_S31, 4},  {ARM64_REG_Q0, ARM64_REG_Q31, 16},
		{ARM64_REG_V0, ARM64_REG_V31, 16},
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (id >= kinds[i].first && id <= kinds[i].last)
			return kinds[i].bytes;
	return 8;
}

static bool ends(const char *text, const char *with)
{
	size_t length = strlen(text), wanted = strlen(with);

	return length >= wanted && !strcmp(text + length - wanted, with);
}

static __u8 arm64_size(const cs_insn *instruction)
{
	const cs_arm64 *detail = &instruction->detail->arm64;
	const char *mnemonic = instruction->mnemonic;
	/* Of a store-exclusive the first register is what became of it. */
	int data = begins(mnemonic, "stx") || begins(mnemonic, "stlx");
	bool pair =
		strstr(mnemonic, "ldp") || strstr(mnemonic, "stp") || strstr(mnemonic, "np") || strstr(mnemonic, "xp");

	if (ends(mnemonic, "b") || ends(mnemonic, "h"))
		return ends(mnemonic, "b") ? 1 : 2;
	if (ends(mnemonic, "sw"))
		return 4 << pair;
	return data < detail->op_count ? arm64_register_bytes(detail->operands[data].reg) << pair : 8;
}

static void describe_arm64(const cs_insn *instruction, struct watch_instruction *out)
{
	const cs_arm64 *detail = &instruction->detail->arm64;
	__u8 access = arm64_access(instruction->mnemonic);

	for (int i = 0; access && i < detail->op_count && out->operand_count < WATCH_OPERANDS; i++) {
		const cs_arm64_op *from = &detail->operands[i];
		struct watch_operand *to = &out->operands[out->operand_count];

		if (from->type != ARM64_OP_MEM)
			continue;
		*to = (struct watch_operand){
			.access = access,
			.size = arm64_size(instruction),
			.base = arm64_register(from->mem.base),
			.index = arm64_index(from->mem.index),
			.scale = from->shift.type == ARM64_SFT_LSL ? 1u << (from->shift.value & 7) : 1,
			.offset = (__s64)from->mem.disp,
		};
		to->lost = to->base < 0 || (from->mem.index != ARM64_REG_INVALID && to->index < 0);
		out->operand_count++;
	}
}

/*
 * The atomics of ARMv8.1 (LSE), which capstone knows from version 5 on, and
 * what it takes for no access: by the encoding tables of the Arm architecture
 * reference manual, "Loads and stores".
 */
static bool arm64_atomic(__u32 word, __u64 address, struct watch_instruction *out)
{
	bool exchange = (word & 0x3b200c00) == 0x38200000; /* LDADD, SWP, ... */
	bool compare = (word & 0x3fa07c00) == 0x08a07c00;  /* CAS */
	bool pair = (word & 0xbfa07c00) == 0x08207c00;     /* CASP */
	bool load = (word & 0x3ffffc00) == 0x38bfc000;     /* LDAPR */
	bool zero = (word & 0xffffffe0) == 0xd50b7420;     /* DC ZVA: a line, whichever of its bytes is named */

	if (zero) {
		*out = (struct watch_instruction){.address = address, .length = 4, .operand_count = 1};
		out->operands[0] = (struct watch_operand){
			.access = ACCESS_WRITE, .size = CACHE_LINE, .base = word & 31, .index = -1};
		return true;
	}
	if (!exchange && !compare && !pair)
		return false;
	*out = (struct watch_instruction){.address = address, .length = 4, .operand_count = 1};
	out->operands[0] = (struct watch_operand){
		.access = load ? ACCESS_READ : ACCESS_READ | ACCESS_WRITE | ACCESS_LOCKED,
		.size = pair ? 8 << (word >> 30 & 1) : 1 << (word >> 30),
		.base = word >> 5 & 31,
		.index = -1,
	};
	return true;
}

/* One instruction at the begin of text; false: none. */
static bool decode_one(struct watch_decoder *decoder, const __u8 **text, size_t *size, __u64 *address)
{
	uint64_t next = *address;
	bool found = cs_disasm_iter(decoder->handle, text, size, &next, decoder->instruction);

	*address = next;
	return found;
}

static void describe(struct watch_decoder *decoder, struct watch_instruction *out)
{
	const cs_insn *instruction = decoder->instruction;

	*out = (struct watch_instruction){.address = instruction->address, .length = instruction->size};
	if (decoder->arm64)
		describe_arm64(instruction, out);
	else
		describe_x86(decoder, instruction, out);
}

static bool repeats(const cs_insn *instruction)
{
	const cs_x86 *detail = &instruction->detail->x86;

	return (detail->prefix[0] == X86_PREFIX_REP || detail->prefix[0] == X86_PREFIX_REPNE) && is_string(instruction);
}

/* A string instruction that was interrupted is itself the one to go on with. */
static void describe_at(struct watch_decoder *decoder, const __u8 *text, size_t size, __u64 ip, struct watch_code *out)
{
	if (decode_one(decoder, &text, &size, &ip) && repeats(decoder->instruction))
		describe(decoder, &out->at);
}

int watch_decode(struct watch_decoder *decoder, const __u8 *text, size_t size, __u64 begin, __u64 ip,
		 struct watch_code *out)
{
	struct watch_instruction vex;
	const __u8 *next = text;
	__u64 address = begin, sure = 0;
	size_t left;
	__u32 word;

	*out = (struct watch_code){};
	if (ip < begin || ip - begin > size)
		return -ENOENT;
	if (decoder->arm64) {
		next = text + (ip - begin);
		left = size - (ip - begin);
		address = ip;
		if (left >= sizeof(word)) {
			memcpy(&word, next, sizeof(word));
			if (arm64_atomic(word, ip, &out->before))
				return 0;
		}
		if (!decode_one(decoder, &next, &left, &address))
			return -ENOENT;
		describe(decoder, &out->before);
		return 0;
	}
	left = size;
	while (address < ip) {
		__u64 at = address;

		if (decode_one(decoder, &next, &left, &address)) {
			if (address == ip)
				describe(decoder, &out->before);
			continue;
		}
		if (watch_vex_decode(next, left, at, &vex)) {
			next += vex.length;
			left -= vex.length;
			address += vex.length;
			if (address == ip)
				out->before = vex;
			continue;
		}
		/* What is not known is stepped over by a byte: it falls in step again soon, but where is not known. */
		next++;
		left--;
		address++;
		sure = address + LONGEST;
	}
	/* An instruction out of step may seem to end there. */
	if (address < sure)
		out->before = (struct watch_instruction){};
	if (address == ip && left)
		describe_at(decoder, next, left, ip, out);
	return out->before.length || out->at.length ? 0 : -ENOENT;
}

/* Only what can be nothing else, whatever is before it. */
static int decode_last(struct watch_decoder *decoder, const __u8 *text, size_t size, __u64 ip, struct watch_code *out)
{
	struct watch_instruction found;
	int candidates = 0;

	*out = (struct watch_code){};
	for (size_t back = 1; back <= LONGEST && back <= size; back++) {
		const __u8 *next = text + size - back;
		__u64 address = ip - back;
		size_t left = back;

		if (decode_one(decoder, &next, &left, &address)) {
			if (left)
				continue;
			describe(decoder, &found);
		} else if (!watch_vex_decode(text + size - back, back, ip - back, &found) || found.length != back) {
			continue;
		}
		if (!found.operand_count)
			continue;
		/* A prefix makes a longer one of the same instruction. */
		if (!candidates || found.operands[0].access != out->before.operands[0].access)
			candidates++;
		out->before = found;
	}
	if (candidates == 1)
		return 0;
	*out = (struct watch_code){};
	return -ENOENT;
}

/*
 * From whichever byte decoding begins, after a few instructions it is in step
 * with the others: where all end with the same one, that is it.
 */
static int decode_in_step(struct watch_decoder *decoder, const __u8 *text, size_t size, __u64 ip,
			  struct watch_code *out)
{
	struct watch_code one;
	int found = 0;

	for (size_t skipped = 0; skipped < STARTS; skipped++) {
		if (watch_decode(decoder, text + skipped, size - skipped, ip - size + skipped, ip, &one) ||
		    !one.before.length)
			continue;
		if (found && one.before.address != out->before.address)
			return -ENOENT;
		*out = one;
		found++;
	}
	return found >= STARTS * 3 / 4 ? 0 : -ENOENT;
}

int watch_decode_back(struct watch_decoder *decoder, const __u8 *text, size_t size, __u64 ip, struct watch_code *out)
{
	*out = (struct watch_code){};
	if (decoder->arm64)
		return -ENOENT;
	if (size >= WATCH_BEFORE && !decode_in_step(decoder, text + size - WATCH_BEFORE, WATCH_BEFORE, ip, out))
		return 0;
	return decode_last(decoder, text, size, ip, out);
}

static bool place_operand(const struct watch_operand *operand, const struct watch_record *record, unsigned int bytes,
			  struct watch_access *out)
{
	__u8 place = operand->offset;

	if (operand->at && !(record->flags & operand->at))
		return false;
	if (operand->base >= 0)
		place += record->registers[operand->base & (WATCH_REGISTERS - 1)];
	if (operand->index >= 0)
		place += record->registers[operand->index & (WATCH_REGISTERS - 1)] * operand->scale;
	place &= CACHE_LINE - 1;
	/* It may begin before the watched bytes, or before the line. */
	if (((place - record->offset) & (CACHE_LINE - 1)) >= bytes &&
	    ((record->offset - place) & (CACHE_LINE - 1)) >= operand->size)
		return false;
	out->access = operand->access;
	out->placed = true;
	out->offset = ((place - record->offset) & (CACHE_LINE - 1)) < bytes ? place : record->offset;
	return true;
}

static bool place_instruction(const struct watch_instruction *instruction, const struct watch_record *record,
			      unsigned int bytes, struct watch_access *out)
{
	out->address = instruction->address;
	for (int i = 0; i < instruction->operand_count; i++)
		if (!instruction->operands[i].lost && place_operand(&instruction->operands[i], record, bytes, out))
			return true;
	for (int i = 0; i < instruction->operand_count; i++) {
		const struct watch_operand *operand = &instruction->operands[i];

		if (!operand->lost)
			continue;
		/* What it points to is aligned like what it holds. */
		out->access = operand->access;
		out->offset = record->offset + (operand->offset & (bytes - 1));
		return true;
	}
	return false;
}

void watch_place(const struct watch_code *code, const struct watch_record *record, unsigned int bytes,
		 struct watch_access *out)
{
	*out = (struct watch_access){.address = record->ip, .offset = record->offset};
	if (code->before.length && place_instruction(&code->before, record, bytes, out))
		return;
	if (code->at.length && place_instruction(&code->at, record, bytes, out))
		return;
	out->offset = record->offset;
	if (code->before.length) {
		/* The instruction is known, where it touched is not: registers were not as they seem. */
		out->address = code->before.address;
		out->access = code->before.operand_count == 1 ? code->before.operands[0].access : 0;
	}
}
