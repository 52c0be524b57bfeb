// SPDX-License-Identifier: GPL-2.0-or-later
/* Instructions that a watchpoint caught: which one it was, what it did, and where in the line. */
#include "watch/watch_code.h"
#include "tap.h"

#define BEGIN 0xffffffff81000000ull

static struct watch_decoder *decoder;
static struct watch_record record;
static struct watch_access access;

static void reset(__u16 offset)
{
	record = (struct watch_record){.offset = offset};
	access = (struct watch_access){};
}

/* The last instruction of the text ends at the reported address; `after` bytes follow. */
static int decode(const __u8 *text, size_t size, size_t after)
{
	struct watch_code code;
	int err;

	record.ip = BEGIN + size - after;
	err = watch_decode(decoder, text, size, BEGIN, record.ip, &code);
	watch_place(&code, &record, 8, &access);
	return err;
}

#define DECODE(after, ...)                                \
	({                                                \
		static const __u8 text[] = {__VA_ARGS__}; \
		decode(text, sizeof(text), after);        \
	})

static void expect(__u8 kind, __u8 offset, __u64 address)
{
	CHECK(access.access == kind, "access %u, wanted %u", access.access, kind);
	CHECK(access.offset == offset, "offset %u, wanted %u", access.offset, offset);
	CHECK(access.address == BEGIN + address, "at +%llu, wanted +%llu", access.address - BEGIN, address);
}

/* nop; mov %rax,0xc(%rdi) with rdi at 0x40 of the line's alignment. */
static void a_store(void)
{
	reset(8);
	record.registers[7] = 0x40;
	DECODE(0, 0x90, 0x48, 0x89, 0x47, 0x0c);
	expect(ACCESS_WRITE, 12, 1);
	CHECK(access.placed, "by its registers");
}

/* mov 0x4(%rdi,%rcx,8),%eax */
static void a_load_with_an_index(void)
{
	reset(16);
	record.registers[7] = 0x80;
	record.registers[1] = 2;
	DECODE(0, 0x8b, 0x44, 0xcf, 0x04);
	expect(ACCESS_READ, 20, 0);
}

/* lock cmpxchg %edx,(%rdi) */
static void a_locked_exchange(void)
{
	reset(0);
	record.registers[7] = 4;
	DECODE(0, 0xf0, 0x0f, 0xb1, 0x17);
	expect(ACCESS_READ | ACCESS_WRITE | ACCESS_LOCKED, 4, 0);
}

/* xchg %al,(%rbx): locks without the prefix */
static void an_exchange_locks_by_itself(void)
{
	reset(0);
	record.registers[3] = 1;
	DECODE(0, 0x86, 0x03);
	expect(ACCESS_READ | ACCESS_WRITE | ACCESS_LOCKED, 1, 0);
}

/* addl $1,(%rax) */
static void an_addition_reads_and_writes(void)
{
	reset(56);
	record.registers[0] = 0xfc;
	DECODE(0, 0x83, 0x00, 0x01);
	expect(ACCESS_READ | ACCESS_WRITE, 60, 0);
}

/* cmp %eax,0x10(%rsi) */
static void a_comparison_reads(void)
{
	reset(16);
	DECODE(0, 0x39, 0x46, 0x10);
	expect(ACCESS_READ, 16, 0);
}

/* movb $0,%gs:0x21 in the kernel: the area begins on a page */
static void a_variable_of_the_cpu(void)
{
	reset(32);
	DECODE(0, 0x65, 0xc6, 0x04, 0x25, 0x21, 0x00, 0x00, 0x00, 0x00);
	expect(ACCESS_WRITE, 33, 0);
}

/* mov 0x9(%rip),%eax at +0: of 6 bytes, so that it reads +15 */
static void relative_to_the_instruction(void)
{
	reset(8);
	DECODE(0, 0x8b, 0x05, 0x09, 0x00, 0x00, 0x00);
	expect(ACCESS_READ, 15, 0);
}

/* mov 0x4(%rax),%rax: the register is gone, and what it points to is aligned */
static void a_load_over_its_own_base(void)
{
	reset(24);
	record.registers[0] = 0x5a;
	DECODE(0, 0x48, 0x8b, 0x40, 0x04);
	expect(ACCESS_READ, 28, 0);
	CHECK(!access.placed, "not known from its registers");
}

/* push %rbp: the stack is the line */
static void a_push(void)
{
	reset(40);
	record.registers[4] = 40;
	DECODE(0, 0x55);
	expect(ACCESS_WRITE, 40, 0);
}

/* mov %rax,(%rdi); rep stosb, which goes on: rdi is one further than the byte */
static void a_string_that_goes_on(void)
{
	reset(8);
	record.registers[7] = 11;
	record.flags = WATCH_AT_DI;
	DECODE(2, 0x48, 0x89, 0xc3, 0xf3, 0xaa);
	expect(ACCESS_WRITE, 10, 3);
}

/* rep movsb that is over: reads at rsi, writes at rdi */
static void a_string_that_is_over(void)
{
	reset(0);
	record.registers[6] = 0x21;
	record.registers[7] = 0x05;
	record.flags = WATCH_AT_DI;
	DECODE(0, 0xf3, 0xa4);
	expect(ACCESS_WRITE, 4, 0);
	reset(32);
	record.registers[6] = 0x21;
	record.registers[7] = 0x05;
	record.flags = WATCH_AT_SI;
	DECODE(0, 0xf3, 0xa4);
	expect(ACCESS_READ, 32, 0);
}

/* From one page to another: the low bytes of both registers are the same. */
static void a_string_between_pages(void)
{
	for (int i = 0; i < 2; i++) {
		reset(8);
		record.registers[6] = record.registers[7] = 0x50;
		record.flags = i ? WATCH_AT_DI : WATCH_AT_SI;
		DECODE(0, 0xf3, 0x48, 0xa5);
		expect(i ? ACCESS_WRITE : ACCESS_READ, 8, 0);
	}
}

/* What capstone 4 says wrongly; each with its memory at (%rdi). */
static void accesses_by_the_mnemonic(void)
{
	static const struct {
		__u8 text[8];
		__u8 size;
		__u8 access;
	} cases[] = {
		{{0x0f, 0x11, 0x07}, 3, ACCESS_WRITE},                                     /* movups %xmm0,(%rdi) */
		{{0x0f, 0x10, 0x07}, 3, ACCESS_READ},                                      /* movups (%rdi),%xmm0 */
		{{0xc5, 0xfd, 0x7f, 0x07}, 4, ACCESS_WRITE},                               /* vmovdqa %ymm0,(%rdi) */
		{{0xc5, 0xfd, 0x6f, 0x07}, 4, ACCESS_READ},                                /* vmovdqa (%rdi),%ymm0 */
		{{0x48, 0x0f, 0xc3, 0x07}, 4, ACCESS_WRITE},                               /* movnti %rax,(%rdi) */
		{{0xf6, 0x07, 0x01}, 3, ACCESS_READ},                                      /* testb $1,(%rdi) */
		{{0xf7, 0x07, 0x05, 0x00, 0x00, 0x00}, 6, ACCESS_READ},                    /* testl $5,(%rdi) */
		{{0xc0, 0x07, 0x03}, 3, ACCESS_READ | ACCESS_WRITE},                       /* rolb $3,(%rdi) */
		{{0xd1, 0x1f}, 2, ACCESS_READ | ACCESS_WRITE},                             /* rcrl (%rdi) */
		{{0x0f, 0xb1, 0x0f}, 3, ACCESS_READ | ACCESS_WRITE},                       /* cmpxchg %ecx,(%rdi) */
		{{0x0f, 0x9e, 0x07}, 3, ACCESS_WRITE},                                     /* setle (%rdi) */
		{{0xdd, 0x1f}, 2, ACCESS_WRITE},                                           /* fstpl (%rdi) */
		{{0xdb, 0x2f}, 2, ACCESS_READ},                                            /* fldt (%rdi) */
		{{0xd9, 0x2f}, 2, ACCESS_READ},                                            /* fldcw (%rdi) */
		{{0xd9, 0x3f}, 2, ACCESS_WRITE},                                           /* fnstcw (%rdi) */
		{{0x0f, 0xae, 0x1f}, 3, ACCESS_WRITE},                                     /* stmxcsr (%rdi) */
		{{0x0f, 0xae, 0x17}, 3, ACCESS_READ},                                      /* ldmxcsr (%rdi) */
		{{0x0f, 0xae, 0x27}, 3, ACCESS_WRITE},                                     /* xsave (%rdi) */
		{{0x0f, 0xae, 0x2f}, 3, ACCESS_READ},                                      /* xrstor (%rdi) */
		{{0xf0, 0x0f, 0xc7, 0x0f}, 4, ACCESS_READ | ACCESS_WRITE | ACCESS_LOCKED}, /* lock cmpxchg8b (%rdi) */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		reset(8);
		record.registers[7] = 8;
		decode(cases[i].text, cases[i].size, 0);
		CHECK(access.access == cases[i].access && access.offset == 8, "case %zu: access %u at %u, wanted %u", i,
		      access.access, access.offset, cases[i].access);
	}
}

/* AVX-512, which capstone 4 does not know. */
static void instructions_with_an_evex_prefix(void)
{
	/* vmovdqu8 %zmm0,(%rdi,%rcx,4) */
	reset(16);
	record.registers[7] = 0x40;
	record.registers[1] = 4;
	DECODE(0, 0x62, 0xf1, 0x7f, 0x48, 0x7f, 0x04, 0x8f);
	expect(ACCESS_WRITE, 16, 0);
	CHECK(access.placed, "by its registers");
	/* vpternlogd $1,(%r15),%zmm0,%zmm0 */
	reset(24);
	record.registers[15] = 24;
	DECODE(0, 0x62, 0xd3, 0x7d, 0x48, 0x25, 0x07, 0x01);
	expect(ACCESS_READ, 24, 0);
	/* vpmovdb %zmm0,0x10(%rdi): in units of the operand's 16 bytes */
	reset(32);
	DECODE(0, 0x62, 0xf2, 0x7e, 0x48, 0x31, 0x47, 0x01);
	expect(ACCESS_WRITE, 32, 0);
	CHECK(!access.placed, "its place is not worked out");
	/* vpermb 0x0(%rip),%zmm16,%zmm16; mov %eax,(%rdi): the one behind is not lost */
	reset(0);
	DECODE(0, 0x62, 0xe2, 0x7d, 0x40, 0x8d, 0x05, 0x00, 0x00, 0x00, 0x00, 0x89, 0x07);
	expect(ACCESS_WRITE, 0, 10);
}

/* Behind bytes that nobody knows, what seems to end there may be none. */
static void out_of_step(void)
{
	struct watch_code code;
	/* ud0 and the like in 64-bit mode: 0x06, 0x0e are none; then mov %eax,(%rdi) */
	static const __u8 text[] = {0x06, 0x0e, 0x89, 0x07};
	__u8 far[32];

	CHECK(watch_decode(decoder, text, sizeof(text), BEGIN, BEGIN + sizeof(text), &code), "not sure");
	memset(far, 0x90, sizeof(far));
	far[0] = 0x06;
	memcpy(far + 30, text + 2, 2);
	CHECK(!watch_decode(decoder, far, sizeof(far), BEGIN, BEGIN + sizeof(far), &code), "in step again");
	CHECK(code.before.operands[0].access == ACCESS_WRITE, "access %u", code.before.operands[0].access);
}

/* Backwards: an instruction with an EVEX prefix, and what its last bytes would be. */
static void not_sure_backwards(void)
{
	/* vmovups %zmm0,(%rdi), of which the last bytes are adc %eax,(%rdi) */
	static const __u8 text[] = {0x90, 0x90, 0x90, 0x90, 0x62, 0xf1, 0x7c, 0x48, 0x11, 0x07};
	struct watch_code code;

	CHECK(watch_decode_back(decoder, text, sizeof(text), BEGIN + sizeof(text), &code), "one of two");
}

/* With enough before it, decoding is in step wherever it began: sub (%rdi),%eax, not movntps %xmm0,(%rdi). */
static void in_step_backwards(void)
{
	/* mov %rsp,%rbp; sub $0x10f0,%rsp; lea 0x8b48(%rax,%rcx,2),%rdx; movl $0x7f3b,-0x14(%rbp); test %eax,%eax */
	static const __u8 code[] = {0x48, 0x89, 0xe5, 0x48, 0x81, 0xec, 0xf0, 0x10, 0x00, 0x00, 0x48, 0x8d, 0x94, 0x48,
				    0x48, 0x8b, 0x00, 0x00, 0xc7, 0x45, 0xec, 0x3b, 0x7f, 0x00, 0x00, 0x85, 0xc0};
	/* mov $0xf,%al; sub (%rdi),%eax */
	static const __u8 last[] = {0xb0, 0x0f, 0x2b, 0x07};
	__u8 text[WATCH_BEFORE];
	struct watch_code found;

	for (size_t i = 0; i < sizeof(text) - sizeof(last); i++)
		text[i] = code[i % sizeof(code)];
	/* Whole instructions up to the last ones. */
	memset(text + sizeof(text) - sizeof(last) - sizeof(code), 0x90, sizeof(code));
	memcpy(text + sizeof(text) - sizeof(last), last, sizeof(last));
	CHECK(!watch_decode_back(decoder, text, sizeof(text), BEGIN + sizeof(text), &found), "found");
	CHECK(found.before.address == BEGIN + sizeof(text) - 2, "at %lld", (__s64)(found.before.address - BEGIN));
	CHECK(found.before.operands[0].access == ACCESS_READ, "access %u", found.before.operands[0].access);
	CHECK(watch_decode_back(decoder, text + sizeof(text) - 16, 16, BEGIN + sizeof(text), &found),
	      "sixteen bytes are not enough");
}

/* Of what each byte makes an instruction of its own, none is the one. */
static void never_in_step(void)
{
	__u8 text[WATCH_BEFORE];
	struct watch_code found;

	/* adc %eax,(%rdi), or movups %xmm0,(%rdi) of every second 0x0f */
	memset(text, 0x0f, sizeof(text));
	text[sizeof(text) - 2] = 0x11;
	text[sizeof(text) - 1] = 0x07;
	CHECK(watch_decode_back(decoder, text, sizeof(text), BEGIN + sizeof(text), &found), "not sure");
}

/* A store whose eight bytes begin before those that are watched. */
static void it_begins_before_the_watched_bytes(void)
{
	reset(8);
	record.registers[7] = 4;
	DECODE(0, 0x48, 0x89, 0x07);
	expect(ACCESS_WRITE, 8, 0);
}

/* What is before the function, or is none of its instructions' ends. */
static void no_instruction_ends_there(void)
{
	struct watch_code code;
	static const __u8 text[] = {0x48, 0x89, 0x47, 0x0c};

	CHECK(watch_decode(decoder, text, sizeof(text), BEGIN, BEGIN + 2, &code), "in the middle of one");
	CHECK(watch_decode(decoder, text, sizeof(text), BEGIN, BEGIN - 1, &code), "before the text");
	CHECK(watch_decode(decoder, text, sizeof(text), BEGIN, BEGIN + 40, &code), "behind the text");
}

static void not_known_stays_not_known(void)
{
	reset(8);
	DECODE(0, 0x90);
	CHECK(!access.access, "a nop touches nothing");
	CHECK(access.offset == 8, "the watched bytes'");
}

/* Without the function's begin: nop..., then mov %rax,0xc(%rdi), whose end alone can be that of an access */
static void decoded_backwards(void)
{
	static const __u8 text[] = {0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x48, 0x89, 0x47, 0x0c};
	struct watch_code code;

	CHECK(!watch_decode_back(decoder, text, sizeof(text), BEGIN + sizeof(text), &code), "found");
	CHECK(code.before.operands[0].access == ACCESS_WRITE, "access %u", code.before.operands[0].access);
}

/* The register with number `base` holds `holds`, x2 has 3; the watched bytes are the line's first eight. */
static const struct {
	const char *text;
	__u32 word;
	__u8 base, holds, access, offset;
} arm64_instructions[] = {
	{"ldr w0, [x1, #4]", 0xb9400420, 1, 0, ACCESS_READ, 4},
	{"stlrb wzr, [x2]", 0x089ffc5f, 2, 4, ACCESS_WRITE, 4},
	{"swpa w3, w4, [x5]", 0xb8a380a4, 5, 4, ACCESS_READ | ACCESS_WRITE | ACCESS_LOCKED, 4},
	{"ldaxr w6, [x7]", 0x885ffce6, 7, 4, ACCESS_READ | ACCESS_LOCKED, 4},
	{"casa w8, w9, [x10]", 0x88e87d49, 10, 4, ACCESS_READ | ACCESS_WRITE | ACCESS_LOCKED, 4},
	{"ldadd w11, w12, [sp]", 0xb82b03ec, 31, 4, ACCESS_READ | ACCESS_WRITE | ACCESS_LOCKED, 4},
	{"ldapr w13, [x14]", 0xb8bfc1cd, 14, 4, ACCESS_READ, 4},
	{"ldr x0, [x1, w2, sxtw #3]", 0xf862d820, 1, 0xec, ACCESS_READ, 4},
	{"ldr x0, [x1, x2, lsl #3]", 0xf8627820, 1, 0xe8, ACCESS_READ, 0},
	{"ldp x0, x2, [x1], #16", 0xa8c10820, 1, 3, ACCESS_READ, 3},
	{"str x0, [x1, #-8]!", 0xf81f8c20, 1, 8, ACCESS_WRITE, 0},
	{"ldrsw x0, [x1, #4]", 0xb9800420, 1, 0, ACCESS_READ, 4},
	/* They begin before the line, and reach into it. */
	{"stp q0, q1, [x1]", 0xad000420, 1, 64 - 31, ACCESS_WRITE, 0},
	{"ldpsw x0, x2, [x1]", 0x69400820, 1, 64 - 7, ACCESS_READ, 0},
	{"stxr w0, x2, [x1]", 0xc8007c22, 1, 64 - 7, ACCESS_WRITE | ACCESS_LOCKED, 0},
	{"stlxp w0, x2, x3, [x1]", 0xc8208c22, 1, 64 - 15, ACCESS_WRITE | ACCESS_LOCKED, 0},
	{"ld1 {v0.16b}, [x1]", 0x4c407020, 1, 64 - 15, ACCESS_READ, 0},
	{"dc zva, x1", 0xd50b7421, 1, 48, ACCESS_WRITE, 0},
};

static void arm64_says_which(void)
{
	struct watch_decoder *arm64;

	if (watch_decoder_open(&arm64, MACHINE_ARM64)) {
		CHECK(false, "no disassembler for arm64");
		return;
	}
	for (size_t i = 0; i < sizeof(arm64_instructions) / sizeof(*arm64_instructions); i++) {
		__typeof__(&arm64_instructions[i]) at = &arm64_instructions[i];
		struct watch_code code;

		reset(0);
		record.ip = BEGIN;
		record.registers[2] = 3;
		record.registers[at->base] = at->holds;
		CHECK(!watch_decode(arm64, (const __u8 *)&at->word, sizeof(at->word), BEGIN, BEGIN, &code), "%s",
		      at->text);
		watch_place(&code, &record, 8, &access);
		CHECK(access.placed, "%s: not placed", at->text);
		CHECK(access.access == at->access && access.offset == at->offset, "%s: access %u at %u", at->text,
		      access.access, access.offset);
	}
	watch_decoder_close(arm64);
}

/* Whatever the bytes are, nothing but an answer comes of them. */
static void any_bytes(void)
{
	__u8 text[64];
	__u32 random = 1;

	for (int round = 0; round < 20000; round++) {
		struct watch_code code;
		size_t size = 1 + round % sizeof(text);

		for (size_t i = 0; i < size; i++) {
			random = random * 1103515245 + 12345;
			text[i] = random >> 16;
		}
		reset(8 * (round % 8));
		memcpy(record.registers, text, size < WATCH_REGISTERS ? size : WATCH_REGISTERS);
		record.ip = BEGIN + size / 2;
		watch_decode(decoder, text, size, BEGIN, record.ip, &code);
		watch_place(&code, &record, 8, &access);
		CHECK(access.offset >= record.offset && access.offset < record.offset + 8, "offset %u of %u",
		      access.offset, record.offset);
		watch_decode_back(decoder, text, size, BEGIN + size, &code);
		if (complaints)
			return;
	}
}

int main(void)
{
	static const struct test tests[] = {
		TEST(a_store),
		TEST(a_load_with_an_index),
		TEST(a_locked_exchange),
		TEST(an_exchange_locks_by_itself),
		TEST(an_addition_reads_and_writes),
		TEST(a_comparison_reads),
		TEST(a_variable_of_the_cpu),
		TEST(relative_to_the_instruction),
		TEST(a_load_over_its_own_base),
		TEST(a_push),
		TEST(a_string_that_goes_on),
		TEST(a_string_that_is_over),
		TEST(a_string_between_pages),
		TEST(accesses_by_the_mnemonic),
		TEST(instructions_with_an_evex_prefix),
		TEST(out_of_step),
		TEST(not_sure_backwards),
		TEST(in_step_backwards),
		TEST(never_in_step),
		TEST(it_begins_before_the_watched_bytes),
		TEST(no_instruction_ends_there),
		TEST(not_known_stays_not_known),
		TEST(decoded_backwards),
		TEST(arm64_says_which),
		TEST(any_bytes),
	};
	int failed;

	if (watch_decoder_open(&decoder, MACHINE_X86))
		return 1;
	failed = RUN_TESTS(tests);
	watch_decoder_close(decoder);
	return failed;
}
