// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Instructions of x86-64 that read, that write and that do both, each by its
 * own kind of encoding, all of them at the begin of one line.
 *
 *	instructions [CPU]
 *
 * "go COUNT" runs all of them that the processor has so often.  It tells their
 * numbers when it is ready; what others
 * need to read is written before, and counts too.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "workload.h"

/* Room for what stores the state of the processor. */
unsigned char instructions_line[4096] __attribute__((aligned(64)));

/* clang-format off */

/* In AT&T's order; %rdi is the line.  What is written is what those behind may read. */
#define READERS(X) \
	X("mov (%rdi),%eax") X("movb (%rdi),%al") X("movzbl (%rdi),%eax") X("movsbl (%rdi),%eax") \
	X("movslq (%rdi),%rax") X("cmpl $1,(%rdi)") X("cmpb %al,(%rdi)") X("cmp (%rdi),%rax") \
	X("testb $1,(%rdi)") X("testl $5,(%rdi)") X("testq %rax,(%rdi)") X("btl $3,(%rdi)") \
	X("add (%rdi),%eax") X("xor (%rdi),%rax") X("imul (%rdi),%eax") X("imul $3,(%rdi),%eax") \
	X("mulq (%rdi)") X("imull (%rdi)") X("cmove (%rdi),%eax") X("bsf (%rdi),%eax") \
	X("xor %edx,%edx; divl (%rdi)") X("pushq (%rdi); pop %rax") X("mov %rdi,%rsi; lodsb") \
	X("scasb; dec %rdi") X("lea 256(%rdi),%rsi; cmpsb; dec %rdi") \
	X("mov $1,%ecx; repne scasb; dec %rdi") X("mov %rdi,%rbx; xor %eax,%eax; xlat") \
	X("mov %rdi,%rsi; lea 256(%rdi),%rdi; movsb; lea -257(%rdi),%rdi") X("ldmxcsr (%rdi)") \
	X("movups (%rdi),%xmm0") X("movaps (%rdi),%xmm0") X("movdqa (%rdi),%xmm0") X("movsd (%rdi),%xmm0") \
	X("movss (%rdi),%xmm0") X("movq (%rdi),%xmm0") X("movd (%rdi),%xmm0") X("movlps (%rdi),%xmm0") \
	X("movhps (%rdi),%xmm0") X("paddd (%rdi),%xmm0") X("cvtsi2sdl (%rdi),%xmm0") \
	X("comiss (%rdi),%xmm0") X("pinsrw $1,(%rdi),%xmm0") X("cmpltps (%rdi),%xmm0") \
	X("flds (%rdi); fstp %st(0)") X("fldl (%rdi); fstp %st(0)") X("fldt (%rdi); fstp %st(0)") \
	X("fildl (%rdi); fstp %st(0)") X("fildll (%rdi); fstp %st(0)") X("fld1; fadds (%rdi); fstp %st(0)") \
	X("fld1; fdivrl (%rdi); fstp %st(0)") X("fld1; fcomps (%rdi)") X("fld1; fiadds (%rdi); fstp %st(0)")

#define WRITERS(X) \
	X("movl %eax,(%rdi)") X("movb $0,(%rdi)") X("movq $1,(%rdi)") X("movnti %eax,(%rdi)") \
	X("sete (%rdi)") X("setbe (%rdi)") X("setg (%rdi)") X("setnp (%rdi)") X("push %rax; popq (%rdi)") \
	X("stosb; dec %rdi") X("stosq; sub $8,%rdi") X("mov $1,%ecx; rep stosb; dec %rdi") \
	X("lea 256(%rdi),%rsi; movsb; dec %rdi") X("movups %xmm0,(%rdi)") X("movupd %xmm0,(%rdi)") \
	X("movaps %xmm0,(%rdi)") X("movdqa %xmm0,(%rdi)") X("movdqu %xmm0,(%rdi)") X("movsd %xmm0,(%rdi)") \
	X("movss %xmm0,(%rdi)") X("movq %xmm0,(%rdi)") X("movd %xmm0,(%rdi)") X("movlps %xmm0,(%rdi)") \
	X("movhps %xmm0,(%rdi)") X("movlpd %xmm0,(%rdi)") X("movhpd %xmm0,(%rdi)") X("movntps %xmm0,(%rdi)") \
	X("movntpd %xmm0,(%rdi)") X("movntdq %xmm0,(%rdi)") X("fld1; fstps (%rdi)") X("fld1; fstpl (%rdi)") \
	X("fld1; fstpt (%rdi)") X("fld1; fsts (%rdi); fstp %st(0)") X("fld1; fstl (%rdi); fstp %st(0)") \
	X("fld1; fistl (%rdi); fstp %st(0)") X("fld1; fists (%rdi); fstp %st(0)") X("fld1; fistpl (%rdi)") \
	X("fld1; fistpll (%rdi)") X("fld1; fbstp (%rdi)") X("fnstenv (%rdi)") X("fnsave (%rdi)") \
	X("fxsave (%rdi)") X("fnstsw (%rdi)") X("fnstcw (%rdi)") X("stmxcsr (%rdi)")

#define CHANGERS(X) \
	X("addl $1,(%rdi)") X("adcl %eax,(%rdi)") X("sbbb $1,(%rdi)") X("sub %rax,(%rdi)") X("incl (%rdi)") \
	X("decb (%rdi)") X("negl (%rdi)") X("notl (%rdi)") X("xorb %al,(%rdi)") X("orl $1,(%rdi)") \
	X("andw $7,(%rdi)") X("rolb (%rdi)") X("rorl $3,(%rdi)") X("rcll (%rdi)") X("rcrl (%rdi)") \
	X("shll (%rdi)") X("sarl $1,(%rdi)") X("shrb %cl,(%rdi)") X("shldl $3,%eax,(%rdi)") \
	X("shrdl $3,%eax,(%rdi)") X("btsl $3,(%rdi)") X("btrl $3,(%rdi)") X("btcl $3,(%rdi)") \
	X("xchg %eax,(%rdi)") X("xaddl %eax,(%rdi)") X("cmpxchgl %ecx,(%rdi)") X("lock; incl (%rdi)") \
	X("lock; cmpxchgq %rcx,(%rdi)") X("lock; xaddl %eax,(%rdi)") X("lock; cmpxchg8b (%rdi)") \
	X("lock; btsl $5,(%rdi)")

#define AVX_READERS(X) \
	X("vmovups (%rdi),%ymm0") X("vmovdqa (%rdi),%ymm0") X("vmovsd (%rdi),%xmm0") \
	X("vpaddd (%rdi),%ymm0,%ymm0") X("vbroadcastss (%rdi),%ymm0") X("vcomisd (%rdi),%xmm0") \
	X("vinserti128 $0,(%rdi),%ymm0,%ymm0") \
	X("vpcmpeqd %ymm1,%ymm1,%ymm1; vmaskmovps (%rdi),%ymm1,%ymm0") X("vpmaskmovd (%rdi),%ymm1,%ymm0") \
	X("andn (%rdi),%eax,%ecx") X("shlx %eax,(%rdi),%ecx")

#define AVX_WRITERS(X) \
	X("vmovups %ymm0,(%rdi)") X("vmovaps %ymm0,(%rdi)") X("vmovapd %xmm0,(%rdi)") \
	X("vmovdqa %ymm0,(%rdi)") X("vmovdqu %ymm0,(%rdi)") X("vmovsd %xmm0,(%rdi)") \
	X("vmovss %xmm0,(%rdi)") X("vmovq %xmm0,(%rdi)") X("vmovd %xmm0,(%rdi)") X("vmovlps %xmm0,(%rdi)") \
	X("vmovhpd %xmm0,(%rdi)") X("vmovntdq %ymm0,(%rdi)") X("vmovntps %ymm0,(%rdi)") \
	X("vextractf128 $0,%ymm0,(%rdi)") X("vextracti128 $1,%ymm0,(%rdi)") X("vextractps $0,%xmm0,(%rdi)") \
	X("vpextrb $1,%xmm0,(%rdi)") X("vpextrw $1,%xmm0,(%rdi)") X("vpextrd $1,%xmm0,(%rdi)") \
	X("vpextrq $1,%xmm0,(%rdi)") X("vpcmpeqd %ymm1,%ymm1,%ymm1; vmaskmovpd %ymm0,%ymm1,(%rdi)") \
	X("vpmaskmovq %ymm0,%ymm1,(%rdi)") X("vstmxcsr (%rdi)")

#define AVX512_READERS(X) \
	X("vmovdqu64 (%rdi),%zmm16") X("vmovdqu8 (%rdi),%zmm0") X("vmovups (%rdi),%zmm17") \
	X("vpaddd (%rdi),%zmm0,%zmm18") X("vpaddd (%rdi){1to16},%zmm0,%zmm0") \
	X("vpternlogd $1,(%rdi),%zmm0,%zmm0") X("vpexpandd (%rdi),%zmm0") X("kmovw (%rdi),%k1") \
	X("vpcmpeqb (%rdi),%zmm0,%k1") X("vpcmpub $1,(%rdi),%zmm16,%k1") X("vpermb (%rdi),%zmm0,%zmm0") \
	X("vinserti64x4 $1,(%rdi),%zmm0,%zmm0") X("vpmovzxbd (%rdi),%zmm0") X("vpopcntq (%rdi),%zmm0")

#define AVX512_WRITERS(X) \
	X("vmovdqu64 %zmm16,(%rdi)") X("vmovdqu8 %zmm0,(%rdi)") X("vmovdqa32 %zmm0,(%rdi)") \
	X("vmovups %zmm17,(%rdi)") X("vmovapd %zmm0,(%rdi)") X("vmovntdq %zmm0,(%rdi)") \
	X("vpmovdb %zmm0,(%rdi)") X("vpmovqd %zmm0,(%rdi)") X("vpmovuswb %zmm0,(%rdi)") \
	X("vextracti32x4 $0,%zmm0,(%rdi)") X("vextracti64x4 $0,%zmm16,(%rdi)") \
	X("vextractf64x2 $1,%zmm0,(%rdi)") X("vpcompressd %zmm0,(%rdi)") X("vcompresspd %zmm0,(%rdi)") \
	X("kmovw %k1,(%rdi)") X("kmovq %k1,(%rdi)") X("vmovq %xmm17,(%rdi)") X("vpextrd $1,%xmm18,(%rdi)") \
	X("vmovsd %xmm19,(%rdi)")

/* clang-format on */

/* Each of them finds words in the line that are no trap. */
#define TEXT(instruction) instruction "\n\t"
#define ONE(instruction)  +1
#define SETUP             "movq $0x1f80,(%rdi)\n\t"

#ifdef __x86_64__
#define FUNCTION(name, list)                                                                      \
	void name(void *at);                                                                      \
	asm(".text\n\t.type " #name ",@function\n" #name ":\n\tpush %rbx\n\t" list "pop %rbx\n\t" \
	    "ret\n\t.size " #name ",.-" #name "\n")

FUNCTION(run, SETUP READERS(TEXT) WRITERS(TEXT) SETUP CHANGERS(TEXT) "fninit\n\t");
FUNCTION(run_avx, SETUP AVX_READERS(TEXT) AVX_WRITERS(TEXT) "vzeroupper\n\t");
FUNCTION(run_avx512, SETUP AVX512_READERS(TEXT) AVX512_WRITERS(TEXT) "vzeroupper\n\t");

static bool has_avx(void)
{
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
}

static bool has_avx512(void)
{
	return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
	       __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
	       __builtin_cpu_supports("avx512vpopcntdq");
}
#else
static void run(void *at)
{
	(void)at;
	die("there are such instructions for x86-64 alone");
}

#define run_avx      run
#define run_avx512   run
#define has_avx()    false
#define has_avx512() false
#endif

int main(int argc, char **argv)
{
	bool avx = has_avx(), avx512 = has_avx512();
	int readers = READERS(ONE), writers = 2 + (WRITERS(ONE)), changers = CHANGERS(ONE);
	struct command command;

	readers += (avx ? AVX_READERS(ONE) : 0) + (avx512 ? AVX512_READERS(ONE) : 0);
	writers += (avx ? 1 AVX_WRITERS(ONE) : 0) + (avx512 ? 1 AVX512_WRITERS(ONE) : 0);
	commands_open();
	pin_to_cpu(argc > 1 ? atoi(argv[1]) : 0);
	printf("{\"event\": \"ready\", \"pid\": %d, \"readers\": %d, \"writers\": %d, \"changers\": %d}\n", getpid(),
	       readers, writers, changers);
	fflush(stdout);
	while (next_command(&command)) {
		for (__u64 i = 0; i < command.count; i++) {
			run(instructions_line);
			if (avx)
				run_avx(instructions_line);
			if (avx512)
				run_avx512(instructions_line);
		}
		printf("{\"event\": \"done\", \"times\": %llu}\n", command.count);
		fflush(stdout);
	}
	return 0;
}
