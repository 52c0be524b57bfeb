// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * What x86 instructions touch, beside Zydis, whose tables were made by others.  The collector cannot use Zydis itself:
 * Debian has it as a shared library alone, and the collector is one static binary.
 */
#include <string.h>
#include <Zydis/Zydis.h>

#include "watch/watch_code.h"
#include "tap.h"

#define BEGIN  0xffffffff81000000ull
#define LENGTH 15 /* bytes of the longest instruction */

static struct watch_decoder *ours;
static ZydisDecoder zydis;
static unsigned int compared, unknown;

/* They move no data, and no watchpoint stops at them, whatever a disassembler says. */
static bool moves_nothing(ZydisMnemonic mnemonic)
{
	switch (mnemonic) {
	case ZYDIS_MNEMONIC_NOP:
	case ZYDIS_MNEMONIC_INVLPG:
	case ZYDIS_MNEMONIC_CLFLUSH:
	case ZYDIS_MNEMONIC_CLFLUSHOPT:
	case ZYDIS_MNEMONIC_CLWB:
	case ZYDIS_MNEMONIC_CLDEMOTE:
		return true;
	default:
		/* Some of them are not in Zydis 4.0. */
		return !strncmp(ZydisMnemonicGetString(mnemonic), "prefetch", 8);
	}
}

/* Known differences, none of which a kernel's or a compiler's code has on data that CPUs share. */
static bool differs(const ZydisDecodedInstruction *instruction)
{
	switch (instruction->mnemonic) {
	case ZYDIS_MNEMONIC_BNDCL: /* MPX is gone from processors */
	case ZYDIS_MNEMONIC_BNDCN:
	case ZYDIS_MNEMONIC_BNDCU:
	case ZYDIS_MNEMONIC_BNDLDX:
	case ZYDIS_MNEMONIC_BNDMK:
	case ZYDIS_MNEMONIC_BNDSTX:
	case ZYDIS_MNEMONIC_BNDMOV:
	case ZYDIS_MNEMONIC_CLRSSBSY: /* tokens of shadow stacks */
	case ZYDIS_MNEMONIC_JKNZD:    /* of a coprocessor that is no longer made */
	case ZYDIS_MNEMONIC_JKZD:
	case ZYDIS_MNEMONIC_MOVDIR64B: /* capstone 5 lacks what it writes, where a register points: a device's portal */
	case ZYDIS_MNEMONIC_PTWRITE:   /* capstone 4 takes it for xsave */
	case ZYDIS_MNEMONIC_VMCLEAR:   /* Zydis: the operand is read; the processor writes the region, too */
	case ZYDIS_MNEMONIC_XSAVE:     /* Zydis: the header is read as well */
	case ZYDIS_MNEMONIC_XSAVE64:
	case ZYDIS_MNEMONIC_XSAVEOPT:
	case ZYDIS_MNEMONIC_XSAVEOPT64:
		return true;
	case ZYDIS_MNEMONIC_MOVQ: /* F3 REX.W 0F 7E: compilers write it without REX.W */
		return instruction->attributes & ZYDIS_ATTRIB_HAS_REX;
	default:
		return false;
	}
}

static __u8 accesses_of(const ZydisDecodedInstruction *instruction, const ZydisDecodedOperand *operands)
{
	__u8 access = 0;

	for (int i = 0; i < instruction->operand_count; i++) {
		if (operands[i].type != ZYDIS_OPERAND_TYPE_MEMORY || operands[i].mem.type == ZYDIS_MEMOP_TYPE_AGEN)
			continue;
		if (operands[i].actions & ZYDIS_OPERAND_ACTION_MASK_READ)
			access |= ACCESS_READ;
		if (operands[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
			access |= ACCESS_WRITE;
	}
	return access;
}

static void compare(const __u8 *text)
{
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction instruction;
	struct watch_code code = {};
	__u8 access = 0, wanted;

	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&zydis, text, LENGTH, &instruction, operands)) ||
	    differs(&instruction))
		return;
	compared++;
	wanted = accesses_of(&instruction, operands);
	if (watch_decode(ours, text, instruction.length, BEGIN, BEGIN + instruction.length, &code) ||
	    code.before.length != instruction.length) {
		unknown++;
		return;
	}
	for (int i = 0; i < code.before.operand_count; i++)
		access |= code.before.operands[i].access & (ACCESS_READ | ACCESS_WRITE);
	CHECK(access == wanted || moves_nothing(instruction.mnemonic),
	      "%s (%02x %02x %02x %02x %02x %02x): access %u, Zydis has %u",
	      ZydisMnemonicGetString(instruction.mnemonic), text[0], text[1], text[2], text[3], text[4], text[5],
	      access, wanted);
}

/* What is not known makes no figure wrong, but there should be little of it: new and privileged instructions. */
static void few_are_unknown(unsigned int most_per_mille)
{
	CHECK(compared > 10000, "compared %u", compared);
	CHECK(unknown * 1000ull <= (__u64)compared * most_per_mille, "%u of %u not known", unknown, compared);
	printf("# %u compared, %u not known\n", compared, unknown);
	compared = unknown = 0;
}

/* Each opcode of each map, with the prefixes that choose another instruction, and memory at (%rdi), 8(%rdi), 16(%rdi). */
static void legacy_instructions(void)
{
	static const struct {
		__u8 length, text[2];
	} prefixes[] = {{0, {}},     {1, {0x66}},       {1, {0xf2}},       {1, {0xf3}},      {1, {0xf0}},
			{1, {0x48}}, {2, {0x66, 0x48}}, {2, {0xf3, 0x48}}, {2, {0xf2, 0x48}}};
	static const struct {
		__u8 length, text[2];
	} maps[] = {{0, {}}, {1, {0x0f}}, {2, {0x0f, 0x38}}, {2, {0x0f, 0x3a}}};

	for (size_t prefix = 0; prefix < sizeof(prefixes) / sizeof(*prefixes); prefix++)
		for (size_t map = 0; map < sizeof(maps) / sizeof(*maps); map++)
			for (unsigned int i = 0; i < 256 * 8 * 3; i++) {
				__u8 opcode = i / 24, reg = i / 3 % 8, mod = i % 3, text[LENGTH] = {}, *to = text;

				/* A near branch with a prefix of 16 bits: makers of processors differ. */
				if (prefixes[prefix].text[0] == 0x66 &&
				    ((!map && (opcode == 0xe8 || opcode == 0xe9 || opcode == 0xc2 || opcode == 0xc3)) ||
				     (map == 1 && opcode >> 4 == 8)))
					continue;
				to = mempcpy(to, prefixes[prefix].text, prefixes[prefix].length);
				to = mempcpy(to, maps[map].text, maps[map].length);
				*to++ = opcode;
				*to++ = mod << 6 | reg << 3 | 7;
				*to = mod * 8;
				compare(text);
			}
	few_are_unknown(25);
}

static void instructions_with_a_vex_prefix(void)
{
	for (unsigned int map = 1; map < 4; map++)
		for (unsigned int i = 0; i < 256 * 8 * 2 * 4 * 2 * 2; i++) {
			unsigned int reg = i % 8, pp = i / 8 % 4, wide = i / 32 % 2, vector = i / 64 % 2;
			unsigned int other = i / 128 % 2 ? 0x0a : 0x0f, opcode = i / 256;
			const __u8 text[LENGTH] = {0xc4, 0xe0 | map, wide << 7 | other << 3 | vector << 2 | pp, opcode,
						   reg << 3 | 7};

			compare(text);
		}
	few_are_unknown(2);
}

static void instructions_with_an_evex_prefix(void)
{
	for (unsigned int map = 1; map < 7; map++)
		for (unsigned int i = 0; i < 256 * 8 * 4 * 2 * 3 * 2 * 2; i++) {
			unsigned int reg = i % 8, pp = i / 8 % 4, wide = i / 32 % 2, vector = i / 64 % 3;
			unsigned int masked = i / 192 % 2, other = i / 384 % 2 ? 0x0a : 0x0f, opcode = i / 768;
			const __u8 text[LENGTH] = {
				0x62,   0xf0 | map,  wide << 7 | other << 3 | 4 | pp, vector << 5 | 8 | masked,
				opcode, reg << 3 | 7};

			compare(text);
		}
	few_are_unknown(2);
}

int main(void)
{
	static const struct test tests[] = {
		TEST(legacy_instructions),
		TEST(instructions_with_a_vex_prefix),
		TEST(instructions_with_an_evex_prefix),
	};
	int failed;

	if (watch_decoder_open(&ours, MACHINE_X86))
		return 1;
	ZydisDecoderInit(&zydis, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	failed = RUN_TESTS(tests);
	watch_decoder_close(ours);
	return failed;
}
